/* The job: what is trained and how, apart from the model and the machines. A part of every plan. */
#ifndef MT_SYNTH_JOB_JOB_H
#define MT_SYNTH_JOB_JOB_H

#include "kernels/base/err.h"
#include "kernels/base/text/json.h"
#include "kernels/base/number/type.h"
#include "synth/job/decisions.h"

enum mt_optimizer_kind { MT_ADAMW, MT_SGD, MT_NOPTIMIZERS };
enum mt_schedule_kind { MT_LR_CONSTANT, MT_LR_COSINE, MT_LR_LINEAR, MT_NSCHEDULES };

/* "adamw", "sgd"; "constant", "cosine", "linear". */
extern const char *const mt_optimizer_names[MT_NOPTIMIZERS];
extern const char *const mt_schedule_names[MT_NSCHEDULES];
enum { MT_NPRECISIONS = 5 };
extern const char *const mt_precision_names[MT_NPRECISIONS];

struct mt_optimizer {
    enum mt_optimizer_kind kind;
    double lr, lr_min; /* the schedule goes from lr to lr_min at the last step; a constant one stays at lr */
    enum mt_schedule_kind schedule;
    int64_t warmup;           /* steps of linear rise from 0 */
    double beta1, beta2, eps; /* adamw */
    double momentum;          /* sgd */
    bool nesterov;            /* sgd */
    double decay;             /* on parameters with the decay flag (matrices) */
    double clip;              /* global norm; 0: off */
};

struct mt_job {
    int64_t batch; /* samples a step, over all ranks */
    int64_t seq;   /* 0: the model's context */
    int64_t steps;
    enum mt_type precision;      /* of activations; f32 also for tf32 */
    bool tf32;                   /* GEMMs of f32 operands rounded to tf32 */
    double loss_scale;           /* what the loss is multiplied by at first, a power of two; 0: never */
    int64_t loss_scale_interval; /* steps without overflow after which it is doubled; 0 where it is not scaled */
    uint64_t seed;               /* below 2^63 */
    double dropout;
    bool any_order; /* gradients of attention may be added up in any order: other bits each run */
    /* Activation recomputation: none; of activations and norms; of all but the values that cut the forward pass into
     * segments. UNSET: planning decides, by memory; a job that is checked or written has it set. */
    enum mt_recompute recompute;
    struct mt_optimizer optimizer;
};

/* "f32", "tf32", ...; and by name: false when there is no such precision. */
const char *mt_job_precision(const struct mt_job *job);
bool mt_job_set_precision(struct mt_job *job, const char *name);
#define MT_PRECISIONS "f64, f32, tf32, bf16 or f16"
/* What f16 begins with. The loss is a sum over tokens, not a mean. */
#define MT_LOSS_SCALE 1024.0
#define MT_LOSS_SCALE_INTERVAL 2000

/* 8 samples, 1000 steps, f32, AdamW at 1e-3 falling to 1e-4 by a cosine, decay 0.1, clipping at 1. */
void mt_job_default(struct mt_job *job);

/* Ranges, and what must agree; the message begins with the member's path, as "optimizer.warmup: ...". */
enum mt_status mt_job_check(const struct mt_job *job, struct mt_err *err);

/* Only what the optimizer and the schedule use is written, and nothing else may be there; the other members are as
 * in mt_job_default. Reading checks. */
enum mt_status mt_job_read(struct mt_json object, struct mt_job *job, struct mt_err *err);
void mt_job_write(const struct mt_job *job, const char *key, struct mt_json_out *out);
/* Equal as documents. */
bool mt_job_equal(const struct mt_job *a, const struct mt_job *b);

/* The learning rate of a step, counted from 1. Warm-up: lr step / warmup; then the schedule over the
 * remaining steps, lr at the last step of the warm-up; from the last step on lr_min. */
double mt_job_lr(const struct mt_job *job, int64_t step);

#endif
