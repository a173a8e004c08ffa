/* The training loop: steps, evaluations, checkpoints and comparisons of replicas.
 *
 * The next step is submitted before this one's loss is known (mt_executor_depth), but never after a step whose states
 * are needed for an evaluation, a checkpoint or a comparison. Requests by signals are served when every submitted step
 * has finished. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/base/log.h"
#include "launcher/session/agree.h"
#include "launcher/data/feed.h"
#include "launcher/train/internal.h"
#include "launcher/watch/watch.h"

/* ---- one run of a program ---- */

static enum mt_status submit(struct trainer *t, enum mt_run which, int64_t first, const struct mt_clock *clock,
                             struct mt_err *err) {
    enum mt_status st =
        mt_feed_data(t->executor, t->planned.graph, &t->data, which, first, !t->positions_fed[which], err);
    t->positions_fed[which] = !st;
    return st ? st : mt_executor_submit(t->executor, which, clock, err);
}

static enum mt_status finish_run(struct trainer *t, enum mt_run which, double *loss_sum, double *count,
                                 struct mt_err *err) {
    const struct mt_graph *g = t->planned.graph;
    enum mt_status st = mt_executor_finish(t->executor, err);
    if (!st) st = mt_executor_result(t->executor, which, g->loss_sum, loss_sum, err);
    return st ? st : mt_executor_result(t->executor, which, g->token_count, count, err);
}

/* A failure inside a step: peers may wait for this rank in a collective, so ranks cannot agree. Without a watch, other
 * ranks wait a moment for rank 0 to print first. */
_Noreturn static void give_up(struct trainer *t, struct mt_err *err) {
    mt_progress_end(&t->progress);
    mt_err_context(err, "step %lld", (long long)t->step + 1);
    mt_watch_fail(err);
    struct timespec pause = {t->rank > 4 ? 1 : 0, t->rank > 4 ? 0 : t->rank * 200000000L};
    nanosleep(&pause, NULL);
    mt_agree_abort(t->comm, err);
}

/* A state that diverged is not saved and not called finished; `what` is "the loss". All ranks know it, one says it. */
static enum mt_status diverged(const struct trainer *t, const char *what, double loss, struct mt_err *err) {
    if (t->rank) return err->status = MT_EDIVERGED;
    return mt_fail(err, MT_EDIVERGED, "%s is %g at step %lld: training has diverged", what, loss, (long long)t->step);
}

/* The mean loss over the whole validation part. It may be infinite where the training loss may: see between_steps. */
static enum mt_status evaluate(struct trainer *t, bool last, struct mt_err *err) {
    struct mt_clock clock = {.step = t->step + 1, .seed = t->plan->job.seed};
    double sum = 0, count = 0;
    int depth = mt_executor_depth(t->executor);
    mt_watch_phase(MT_WATCH_QUICK, "the evaluation after step %lld", (long long)t->step);
    for (int64_t first = 0; first < t->data.val_windows || mt_executor_in_flight(t->executor); first += t->batch) {
        bool more = first < t->data.val_windows;
        double s, n;
        if (more && submit(t, MT_RUN_FORWARD, first, &clock, err)) give_up(t, err);
        if (more && mt_executor_in_flight(t->executor) < depth) continue;
        if (finish_run(t, MT_RUN_FORWARD, &s, &n, err)) give_up(t, err);
        sum += s, count += n;
    }
    double loss = sum / count;
    if (!t->rank) {
        mt_run_add_val(&t->run, t->step, loss);
        mt_metrics_validation(t->metrics, t->step, loss);
        mt_progress_say(&t->progress, "validation loss %.4f after step %lld (%.0f tokens)", loss, (long long)t->step,
                        count);
    }
    if (isfinite(loss) || (!last && !mt_trainer_scale_exhausted(t))) return MT_OK;
    return diverged(t, "the validation loss", loss, err);
}

/* ---- tracing ---- */

enum { TRACED_STEPS = 3 };

static void keep_event(void *context, const struct mt_lowered *lowered, int instr, int64_t iteration, double start_s,
                       double end_s) {
    struct trainer *t = context;
    (void)iteration;
    mt_arena_grow(&t->events_arena, &t->events, t->nevents, &t->events_capacity, sizeof *t->events);
    t->events[t->nevents++] = (struct mt_trace_event){.name = lowered->instrs[instr].name,
                                                      .stream = lowered->instrs[instr].stream,
                                                      .step = t->step + t->ahead + 1,
                                                      .start_s = start_s,
                                                      .end_s = end_s};
}

/* The first step touches memory for the first time, so it is not traced unless it is the only one. */
static void switch_trace(struct trainer *t) {
    if (!t->options->trace) return;
    int64_t done = t->step + t->ahead - t->first_step, all = t->last_step - t->first_step;
    bool on = all > 1 ? done >= 1 && done <= TRACED_STEPS : true;
    mt_executor_trace(t->executor, on ? keep_event : NULL, t);
}

/* ---- the loop ---- */

static bool due(int64_t every, int64_t step) {
    return every > 0 && step % every == 0;
}

/* Whether the states after a step are needed, so that no further step may be submitted. */
static bool needs_states(const struct trainer *t, int64_t step) {
    const struct mt_train_options *o = t->options;
    return step == t->last_step || due(o->hash_every, step) || due(o->checkpoint_every, step) ||
           (due(o->eval_every, step) && t->data.val_count);
}

static void name_step(const struct trainer *t) {
    mt_watch_phase(MT_WATCH_QUICK, "step %lld", (long long)t->step + 1);
}

static void submit_step(struct trainer *t) {
    struct mt_err err = MT_ERR_INIT;
    int64_t number = t->step + t->ahead + 1;
    struct mt_clock clock = {.step = number, .seed = t->plan->job.seed, .lr = mt_job_lr(&t->plan->job, number)};
    t->in_flight[t->ahead] = (struct trainer_ahead){.start_s = mt_now_s(), .lr = clock.lr};
    switch_trace(t);
    if (!t->ahead) name_step(t);
    if (submit(t, MT_RUN_TRAIN, t->samples + t->ahead * t->batch, &clock, &err)) give_up(t, &err);
    t->ahead++;
}

/* Finish the oldest step; returns its loss. Its time counts from its start, or from the end of the step before it. */
static double finish_step(struct trainer *t) {
    struct mt_err err = MT_ERR_INIT;
    struct trainer_ahead first = t->in_flight[0];
    double sum, count;
    if (finish_run(t, MT_RUN_TRAIN, &sum, &count, &err)) give_up(t, &err);
    double end_s = mt_executor_times(t->executor).end_s, step_s = end_s - fmax(first.start_s, t->ended_s);
    double loss = sum / count;
    t->ended_s = end_s;
    memmove(t->in_flight, t->in_flight + 1, sizeof t->in_flight - sizeof *t->in_flight);
    t->ahead--;
    t->step++;
    t->samples += t->batch;
    if (mt_trainer_follow_scale(t, &err)) give_up(t, &err);
    t->train_s += step_s;
    if (t->ahead) name_step(t);
    mt_trainer_account(t, loss, step_s);
    mt_progress_step(&t->progress, t->step, loss, first.lr, t->batch * t->seq, step_s);
    mt_metrics_step(t->metrics, &(struct mt_metrics_row){.step = t->step,
                                                         .tokens = t->samples * t->seq,
                                                         .loss = loss,
                                                         .validation_loss = NAN,
                                                         .learning_rate = first.lr,
                                                         .step_s = step_s,
                                                         .tokens_per_s = (double)(t->batch * t->seq) / step_s});
    return loss;
}

/* Submit as many steps as may be in flight, and finish one. */
static double step(struct trainer *t, bool alone) {
    int depth = mt_executor_depth(t->executor);
    while (!t->ahead || (t->ahead < depth && !alone && !needs_states(t, t->step + t->ahead))) submit_step(t);
    return finish_step(t);
}

/* run.json and metrics first: a job that is killed between the two has the losses of every step that a checkpoint has.
 */
static enum mt_status save(struct trainer *t, struct mt_err *err) {
    struct mt_err why = MT_ERR_INIT;
    if (t->step < t->last_step) mt_metrics_flush(t->metrics); /* the last step's row has a validation loss to come */
    enum mt_status reported = mt_trainer_report(t, "running", err);
    enum mt_status saved = mt_trainer_save(t, &why); /* also when run.json cannot be written */
    if (reported && saved != MT_EDIVERGED) return reported;
    *err = why;
    return saved;
}

/* A failed checkpoint (a full disk) does not end the run: the previous one is still there. */
static enum mt_status save_or_warn(struct trainer *t, struct mt_err *err) {
    enum mt_status st = save(t, err);
    if (st == MT_EDIVERGED) return st;
    if (st && !t->rank) mt_log(MT_LOG_WARN, "%s; training goes on", err->text);
    return MT_OK;
}

/* A checkpoint by time is a request of rank 0's, so that all ranks write it after the same step. */
static void ask_in_time(struct trainer *t) {
    double every_s = 60 * t->options->checkpoint_minutes, now_s = mt_now_s();
    if (t->rank || !t->keeps || every_s <= 0 || now_s - t->saved_s < every_s) return;
    t->requests.due |= MT_REQUEST_CHECKPOINT;
    t->saved_s = now_s;
}

/* Exchange times and requests after each step. When steps are submitted ahead, another rank may stall in a step that
 * this rank has finished; then this rank waits here, not for its device. */
static void exchange_with_ranks(struct trainer *t, int *asked) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_executor_progress now;
    double patience_s = mt_executor_patience_s(t->executor);
    int answer;
    ask_in_time(t);
    if (!mt_trainer_drift(t, patience_s, &err) && !mt_requests_step(&t->requests, patience_s, &answer, &err)) {
        *asked |= answer;
        return;
    }
    const char *device = mt_device_describe(t->device);
    mt_executor_query(t->executor, &now);
    mt_err_context(&err, "%.*s%s%s", (int)strcspn(device, ","), device, now.text[0] ? ", in " : "", now.text);
    give_up(t, &err);
}

/* What is due after a step. *asked: requests by signals that are not served yet. */
static enum mt_status between_steps(struct trainer *t, double loss, int *asked, struct mt_err *err) {
    const struct mt_train_options *o = t->options;
    enum mt_status st = MT_OK;
    if (!isfinite(loss) && mt_trainer_scale_exhausted(t)) return diverged(t, "the loss", loss, err);
    exchange_with_ranks(t, asked);
    if (t->ahead) return MT_OK;
    if (due(o->hash_every, t->step) && (st = mt_trainer_compare(t, err))) return st;
    bool more = t->step < t->last_step && !(*asked & MT_REQUEST_STOP);
    if (more && due(o->eval_every, t->step) && t->data.val_count && (st = evaluate(t, false, err))) return st;
    if (more && (due(o->checkpoint_every, t->step) || (*asked & MT_REQUEST_CHECKPOINT))) st = save_or_warn(t, err);
    *asked &= ~MT_REQUEST_CHECKPOINT;
    return st;
}

/* After a failure: wait for the steps in flight, without reporting them. */
static void drain(struct trainer *t) {
    struct mt_err ignored = MT_ERR_INIT;
    for (; t->ahead; t->ahead--)
        if (mt_executor_finish(t->executor, &ignored)) return;
}

static enum mt_status finish(struct trainer *t, bool stopped, struct mt_err *err) {
    const struct mt_train_options *o = t->options;
    enum mt_status st;
    mt_watch_phase(MT_WATCH_SLOW, "the work after the last step");
    if (t->keeps && t->saved_step != t->step && (st = save(t, err))) return st;
    if ((st = mt_trainer_compare(t, err)) || (st = mt_trainer_hash(t, err))) return st;
    mt_progress_say(&t->progress, "parameter hashes equal on %d rank%s (%s)", t->nranks, t->nranks == 1 ? "" : "s",
                    t->run.parameter_hash);
    mt_trainer_say_step(t);
    if (!stopped && t->data.val_count && (st = evaluate(t, true, err))) return st;
    if ((st = mt_trainer_report(t, stopped ? "stopped by a signal" : "finished", err)) || !o->trace) return st;
    static const char *const streams[] = {"compute", "communication"};
    const struct mt_trace_mine mine = {streams, 2, t->events, t->nevents, t->clock_s};
    const struct mt_trace_predicted predicted = {t->plan, &t->predicted};
    st = mt_trace_write(t->comm, o->trace, &mine, t->predicted.nranks ? &predicted : NULL, err);
    if (!st) mt_progress_say(&t->progress, "trace %s", o->trace);
    return st;
}

/* After a failure on all ranks: run.json says so, as far as it can be written. */
static void report_failure(struct trainer *t, struct mt_err *err) {
    struct mt_err why = MT_ERR_INIT;
    if (err->status == MT_EDIVERGED && !t->rank)
        mt_err_hint(err, "plan with a lower --lr, a longer --warmup or --clip; earlier checkpoints are kept");
    const char *ended = "diverged";
    if (err->status != MT_EDIVERGED)
        ended = mt_arena_printf(&t->run.arena, "failed: %.*s", (int)strcspn(err->text, "\n"), err->text);
    if (mt_trainer_report(t, ended, &why) && !t->rank)
        mt_log(MT_LOG_WARN, "run.json does not say how the run ended: %s", why.text);
}

enum mt_status mt_trainer_run(struct trainer *t, struct mt_err *err) {
    enum mt_status st = MT_OK;
    struct mt_err ignored = MT_ERR_INIT;
    int asked = 0, answer;
    mt_progress_init(&t->progress, t->rank != 0, t->options->log_every, t->last_step);
    t->saved_s = mt_now_s();
    if (t->plan->prediction) t->progress.predicted_s = t->plan->prediction->step_s;
    if (t->step >= t->last_step && !t->options->eval_only && t->options->resume)
        mt_progress_say(&t->progress, "nothing left to train: %lld steps are done, and the run ends after %lld",
                        (long long)t->step, (long long)t->last_step);
    if ((st = mt_agree(t->comm, mt_trainer_begin_scale(t, err), err))) goto out;
    while (t->step < t->last_step && (t->ahead || !(asked & MT_REQUEST_STOP))) {
        double loss = step(t, asked);
        if ((st = between_steps(t, loss, &asked, err))) goto out;
    }
    if (mt_requests_end(&t->requests, mt_executor_patience_s(t->executor), &answer, err)) give_up(t, err);
    asked |= answer;
    mt_progress_end(&t->progress);
    bool stopped = (asked & MT_REQUEST_STOP) && t->step < t->last_step;
    if (stopped) mt_progress_say(&t->progress, "asked to stop after step %lld", (long long)t->step);
    st = finish(t, stopped, err);
out:
    drain(t);
    mt_requests_end(&t->requests, mt_executor_patience_s(t->executor), &answer, &ignored);
    mt_progress_end(&t->progress);
    if (st) report_failure(t, err);
    return st;
}
