/* Shared by the doctor's files. */
#ifndef MT_LAUNCHER_DOCTOR_INTERNAL_H
#define MT_LAUNCHER_DOCTOR_INTERNAL_H

#include <string.h>

#include "launcher/doctor/doctor.h"

enum doctor_level { DOCTOR_OK, DOCTOR_WARNING, DOCTOR_FAILURE };
enum { DOCTOR_SAID = 1024 };

struct doctor_finding {
    enum doctor_level level;
    char text[DOCTOR_SAID], remedy[DOCTOR_SAID];
};

/* Add to a finding. A worse level replaces what was said; a better one is ignored. */
void mt_doctor_say(struct doctor_finding *f, enum doctor_level level, const char *remedy, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

bool mt_doctor_is_first(const struct mt_doctor *d, int r); /* r is the first rank of its host */
int mt_doctor_count_on_host(const struct mt_doctor *d, int r);
int mt_doctor_count_hosts(const struct mt_doctor *d);

/* Whether the plan leaves out the process r, which then needs no data and no device. */
static inline bool doctor_is_idle(const struct mt_doctor *d, int r) {
    return d->plan_rank && mt_plan_place(d->plan, d->plan_rank[r]) < 0;
}

static inline bool doctor_on_gpus(const struct mt_doctor *d) {
    return !strcmp(d->options->device, "cuda");
}

/* ---- gpu.c ---- */

/* Collective: fill mine->gpu. */
void mt_doctor_observe_gpus(struct mt_doctor_rank *mine);

/* ---- judge_gpu.c ---- */
void mt_doctor_judge_driver(const struct mt_doctor *d, struct doctor_finding *f);
void mt_doctor_judge_libraries(const struct mt_doctor *d, struct doctor_finding *f);
void mt_doctor_judge_gpus(const struct mt_doctor *d, struct doctor_finding *f);
void mt_doctor_judge_precision(const struct mt_doctor *d, struct doctor_finding *f);
void mt_doctor_judge_gpu_memory(const struct mt_doctor *d, struct doctor_finding *f);
void mt_doctor_judge_peers(const struct mt_doctor *d, struct doctor_finding *f);
void mt_doctor_judge_interfaces(const struct mt_doctor *d, struct doctor_finding *f);

#endif
