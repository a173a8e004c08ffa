/* The flags that describe a job, as a child of a command's argp.
 *
 *     struct mt_job_flags job;
 *     mt_job_flags_init(&job, err);
 *     struct argp_child children[] = {{mt_job_argp(), 0, "The job", 2}, {0}};
 *     ... in ARGP_KEY_INIT: state->child_inputs[0] = &job; after parsing: mt_job_flags_resolve(&job, err)
 *     mt_job_flags_release(&job); */
#ifndef MT_LAUNCHER_FLAGS_JOB_FLAGS_H
#define MT_LAUNCHER_FLAGS_JOB_FLAGS_H

#include <argp.h>

#include "kernels/base/table/table.h"
#include "profiler/cluster/cluster.h"
#include "synth/job/job.h"

struct mt_job_flags {
    struct mt_job job;
    bool automatic;        /* --precision auto, until mt_job_flags_choose */
    bool precise;          /* --precision was given */
    unsigned given;        /* bits: rows of the table in job_flags.c */
    struct mt_err *err;    /* where a wrong value is reported */
    double model_dropout;  /* by a model's config.json; -1: none says it */
    const char *said;      /* what models' folders are; "": none was given */
    struct mt_arena arena; /* of models' texts */
};

void mt_job_flags_init(struct mt_job_flags *flags, struct mt_err *err);
void mt_job_flags_release(struct mt_job_flags *flags);
const struct argp *mt_job_argp(void);
/* The same for a command that has a batch of its own where none is given, which its `help` of --batch says. */
const struct argp *mt_job_argp_with_batch(const char *help);

/* A --model: a model's text, or the folder of one (synth/models/config/config.h), of which *model becomes the text; it
 * lives as long as the flags. The job gets the folder's dropout when it is resolved, unless --dropout is given. */
enum mt_status mt_job_flags_model(struct mt_job_flags *flags, const char *text, const char **model);
/* Log what models' folders are, where one process runs. */
void mt_job_flags_say(const struct mt_job_flags *flags);
#define MT_MODEL_HELP "as gpt2:124m or gpt2:layers=4,heads=4,..., or a Hugging Face folder with a config.json"

/* With --precision auto, choose by the cluster (null: there is none): bf16 if all its devices have it, else f16 if all
 * have it, else f32. */
enum mt_status mt_job_flags_choose(struct mt_job_flags *flags, const struct mt_cluster *cluster, struct mt_err *err);

/* A job's precision stays f32 where nobody says one, which GPUs are not made for: say so. */
void mt_job_flags_say_precision(const struct mt_job_flags *flags, const struct mt_cluster *c, struct mt_tables *out);

/* Apply defaults that depend on other flags (lr_min is a tenth of lr), refuse flags that the optimizer or the schedule
 * does not use, and check the job. */
enum mt_status mt_job_flags_resolve(struct mt_job_flags *flags, struct mt_err *err);

#endif
