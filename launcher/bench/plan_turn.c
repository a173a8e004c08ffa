/* One plan's program, and its turns. */
#include <stdlib.h>

#include "kernels/base/wait.h"
#include "launcher/bench/internal.h"
#include "launcher/profile/synthetic.h"
#include "launcher/session/agree.h"
#include "launcher/session/rank_device.h"
#include "launcher/session/session.h"
#include "launcher/data/feed.h"
#include "launcher/tune/alike.h"
#include "launcher/tune/tuning.h"
#include "launcher/watch/watch.h"

static const double patience_s = 1e9; /* of waits between turns: the watch notices ranks that are lost */

static enum mt_status build(struct mt_bench_plans *b, struct mt_bench_plan *p, struct mt_err *err) {
    enum mt_status st = mt_planned_open(p->plan, &p->planned, err);
    if (st) return mt_err_context(err, "%s", p->path);
    p->built = true;
    if (p->place < 0) return MT_OK;
    struct mt_lower_options options = mt_planned_lower_options(b->device);
    st = mt_lower(&p->planned.program, p->place, &options, &p->lowered, err);
    return st ? mt_err_context(err, "%s", p->path) : MT_OK;
}

enum mt_status mt_bench_plan_build(struct mt_bench_plans *b, struct mt_bench_plan *p, struct mt_err *err) {
    mt_watch_phase(MT_WATCH_SLOW, "building %s", p->path);
    enum mt_status st = mt_agree(MPI_COMM_WORLD, build(b, p, err), err);
    if (st) return st;
    const struct mt_lowered *const lowered[] = {p->lowered};
    if (p->place >= 0) st = mt_alike_check(p->comm, b->device, &p->planned.program, err);
    if (p->place >= 0 && !st) st = mt_tuning_share(p->comm, b->device, lowered, 1, NULL, err);
    return mt_agree(MPI_COMM_WORLD, st, err);
}

static enum mt_status start(struct mt_bench_plans *b, struct mt_bench_plan *p, struct mt_err *err) {
    enum mt_status st = mt_rank_wire_open(p->comm, b->kind, b->options->deadline_s, &p->wire, err);
    if (st) return st;
    mt_comm_name_ranks(p->wire, p->plan->order);
    return mt_executor_new(b->device, p->wire, p->lowered, NULL, b->options->deadline_s, &p->executor, err);
}

enum mt_status mt_bench_plan_start(struct mt_bench_plans *b, struct mt_bench_plan *p, struct mt_err *err) {
    mt_watch_phase(MT_WATCH_SLOW, "starting %s", p->path);
    enum mt_status st = p->place < 0 ? MT_OK : start(b, p, err);
    if (st) mt_err_context(err, "%s", p->path);
    return mt_agree(MPI_COMM_WORLD, st, err);
}

void mt_bench_plan_stop(struct mt_bench_plan *p) {
    mt_executor_free(p->executor);
    mt_comm_free(p->wire);
    p->executor = NULL;
    p->wire = NULL;
}

void mt_bench_plan_release(struct mt_bench_plan *p) {
    mt_bench_plan_stop(p);
    mt_lowered_free(p->lowered);
    if (p->built) mt_planned_release(&p->planned);
    if (p->comm != MPI_COMM_NULL) MPI_Comm_free(&p->comm);
    mt_plan_free(p->plan);
}

/* All ranks, of which those without work sleep meanwhile. */
static enum mt_status meet(struct mt_err *err) {
    MPI_Request request;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    return mt_agree_wait(&request, patience_s, err);
}

static enum mt_status submit(struct mt_bench_plans *b, struct mt_bench_plan *p, int64_t step, struct mt_err *err) {
    const struct mt_job *job = &p->plan->job;
    const struct mt_graph *g = p->planned.graph;
    const struct mt_clock clock = {.step = step, .seed = job->seed, .lr = mt_job_lr(job, step)};
    enum mt_status st;
    if (b->options->data)
        st = mt_feed_data(p->executor, g, &b->data, MT_RUN_TRAIN, (step - 1) * b->batch, step == 1, err);
    else
        st = mt_synthetic_feed(p->executor, g, mt_model_get(&p->planned.model, "vocab"), job, err);
    return st ? st : mt_executor_submit(p->executor, MT_RUN_TRAIN, &clock, err);
}

/* The warm-up, and the steps that count, as many ahead as training has. *step_s: of the latter, on average. */
static enum mt_status run_steps(struct mt_bench_plans *b, struct mt_bench_plan *p, double *step_s, struct mt_err *err) {
    const int64_t warmup = b->options->warmup, all = warmup + b->options->steps;
    const struct mt_graph *g = p->planned.graph;
    double begin_s = mt_now_s(), end_s = begin_s, sum, count;
    int depth = mt_executor_depth(p->executor);
    enum mt_status st = MT_OK;
    for (int64_t submitted = 0, finished = 0; finished < all && !st;) {
        while (submitted < all && mt_executor_in_flight(p->executor) < depth && !st)
            st = submit(b, p, ++submitted, err);
        if (!st) st = mt_executor_finish(p->executor, err);
        if (st) break;
        end_s = mt_executor_times(p->executor).end_s;
        if (++finished == warmup) begin_s = end_s;
        mt_watch_progress();
    }
    if (!st) st = mt_executor_result(p->executor, MT_RUN_TRAIN, g->loss_sum, &sum, err);
    if (!st) st = mt_executor_result(p->executor, MT_RUN_TRAIN, g->token_count, &count, err);
    if (st) return st;
    p->loss = sum / count;
    *step_s = (end_s - begin_s) / (double)b->options->steps;
    return MT_OK;
}

enum mt_status mt_bench_plan_turn(struct mt_bench_plans *b, struct mt_bench_plan *p, int repetition,
                                  struct mt_err *err) {
    enum mt_status st = MT_OK;
    double mine[2] = {0, 0}; /* the step; the loss, which all ranks that take part know */
    mt_watch_phase(MT_WATCH_SLOW, "measuring %s, repetition %d", p->path, repetition + 1);
    if (p->place >= 0) st = mt_executor_init_states(p->executor, p->planned.graph, p->plan->job.seed, err);
    if ((st = mt_agree(MPI_COMM_WORLD, st, err)) || (st = mt_agree(MPI_COMM_WORLD, meet(err), err))) return st;
    if (p->place >= 0) {
        if (run_steps(b, p, &mine[0], err)) {
            mt_err_context(err, "%s", p->path);
            mt_session_abort(err);
        }
        mine[1] = p->loss;
    }
    if ((st = meet(err))) mt_session_abort(err);
    MPI_Allreduce(MPI_IN_PLACE, mine, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    p->step_s[repetition] = mine[0];
    p->loss = mine[1];
    return MT_OK;
}
