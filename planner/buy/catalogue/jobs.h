/* The jobs of a purchase, one after another, each from a line of words:
 *
 *     model=gpt2:124m batch=512 tokens=300G deadline=30d precision=bf16
 *
 *     model      a model's text, or a folder with a config.json
 *     batch      samples a step                                   [8]
 *     seq        tokens a sample                                  [the model's context]
 *     tokens     to train on, or
 *     steps      of training
 *     deadline   when it must have ended, from the start of the first job: 30d, 12h
 *     precision  f64, f32, tf32, bf16 or f16; auto: bf16 if all that may be bought has it, else f16, else f32   [auto]
 *     optimizer  adamw or sgd                                     [adamw]
 *     recompute  none, or another of the job's flag               [as memory needs]
 *
 * A file of jobs has such a line each; empty ones and what follows a '#' are left out. */
#ifndef MT_PLANNER_BUY_JOBS_H
#define MT_PLANNER_BUY_JOBS_H

#include "planner/buy/document/purchase.h"

struct mt_buy_jobs {
    struct mt_arena arena;
    int count;
    struct mt_purchase_job items[MT_PURCHASE_MOST_JOBS];
    bool automatic[MT_PURCHASE_MOST_JOBS]; /* its precision is yet to be chosen */
    bool recompute[MT_PURCHASE_MOST_JOBS]; /* its recomputation is given */
};

/* Add one, or those of a file. MT_EINPUT with the word. */
enum mt_status mt_buy_jobs_line(const char *line, struct mt_buy_jobs *jobs, struct mt_err *err);
enum mt_status mt_buy_jobs_read(const char *path, struct mt_buy_jobs *jobs, struct mt_err *err);
/* The loss scale that goes with a job's precision. */
void mt_buy_job_scale(struct mt_job *job);
void mt_buy_jobs_release(struct mt_buy_jobs *jobs);

#endif
