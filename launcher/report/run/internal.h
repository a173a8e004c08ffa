/* The parts of a run's report. */
#ifndef MT_LAUNCHER_REPORT_RUN_INTERNAL_H
#define MT_LAUNCHER_REPORT_RUN_INTERNAL_H

#include "launcher/report/internal.h"
#include "launcher/report/plan/spans.h"
#include "launcher/run/restarts.h"
#include "launcher/run/run.h"
#include "launcher/run/trace.h"

struct mt_report_run {
    struct mt_reporting *reporting;
    struct mt_page *page;
    const char *folder; /* of run.json */
    struct mt_run_doc doc;
    int nsteps, capacity; /* rows of metrics.csv; 0: there is none */
    double *step, *loss, *step_s, *tokens_per_s;
    int ncheckpoints;
    double *checkpoints; /* steps */
    int nrestarts;
    struct mt_restart *restarts;
};

/* metrics.csv of the folder, if there is one; MT_EINPUT if it is not ours. Checkpoints of the folder. */
enum mt_status mt_report_run_metrics(struct mt_report_run *run, struct mt_err *err);
void mt_report_run_checkpoints(struct mt_report_run *run);

void mt_report_progress(struct mt_report_run *run); /* loss, tokens a second, time of steps, events */
void mt_report_run_ranks(struct mt_report_run *run);
/* The step of a trace, beside the plan's as it is simulated where the request has its cluster. */
enum mt_status mt_report_traced(struct mt_report_run *run, const char *trace, struct mt_err *err);

/* The events of a trace: those of the step whose length is the median. */
struct mt_traced {
    int nranks, nstreams;
    double step_s;
    int64_t step;
    struct mt_drawn_lane *lanes; /* [nranks nstreams]; times from the step's beginning */
};
enum mt_status mt_traced_read(const char *path, struct mt_arena *arena, struct mt_traced *traced, struct mt_err *err);

#endif
