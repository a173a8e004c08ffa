/* Ordinary jobs on ordinary described clusters: 6 models, 6 clusters, 5 batches. A job may be refused only where the
 * smallest program does not fit, counted here: micro-batches of one, no buckets, everything recomputed, parameters and
 * optimizer state divided over all ranks evenly and by memory, samples on all ranks. */
#ifndef MT_TESTS_PLANNER_MAKE_JOBS_H
#define MT_TESTS_PLANNER_MAKE_JOBS_H

#include <math.h>

#include "kernels/base/text/units.h"
#include "kernels/base/wait.h"
#include "planner/balance/split.h"
#include "planner/make/make.h"
#include "planner/plan/choice.h"
#include "planner/plan/planned.h"
#include "profiler/describe/describe.h"
#include "tests/check.h"

static struct mt_err jobs_err = MT_ERR_INIT;
static const char *const jobs_models[] = {"mlp", "gpt2:char", "gpt2:124m", "gpt2:355m", "gpt2:774m", "gpt2:1558m"};
static const char *const jobs_clusters[] = {"h100:1",
                                            "h200:1",
                                            "h100:1x8",
                                            "h100:2x8 net=100G",
                                            "a10:1 net=1G + h100:1 + l4:1",
                                            "a100-80:1x2 net=25G + t4:1x8"};
static const int64_t jobs_batches[] = {2, 8, 32, 128, 512};
enum { JOBS_MODELS = 6, JOBS_CLUSTERS = 6, JOBS_BATCHES = 5, JOBS = JOBS_MODELS * JOBS_CLUSTERS * JOBS_BATCHES };

static inline struct mt_job jobs_job(int64_t batch) {
    struct mt_job job;
    mt_job_default(&job);
    job.batch = batch;
    return job;
}

/* Whether the program with state in proportion to `weight` fits into every rank's memory. */
static inline bool jobs_fits(const struct mt_cluster *c, const char *model, int64_t batch, enum mt_recompute recompute,
                             const double *weight) {
    struct mt_plan *p = mt_plan_new(c->ndevices);
    struct mt_planned planned;
    struct mt_device *device;
    struct mt_lower_options options;
    bool fits = true;
    p->device = mt_cluster_kind(c);
    p->model = model;
    p->job = jobs_job(batch);
    p->job.recompute = recompute;
    CHECK_OK(mt_planned_graph(p, &planned, &jobs_err), jobs_err);
    CHECK_OK(mt_planned_options_for(p->device, &device, &options, &jobs_err), jobs_err);
    options.sketch = true;
    int labels[64], nlabels = mt_sharding_labels(planned.graph, labels);
    double *even = mt_new(&p->arena, double, p->nranks);
    for (int r = 0; r < p->nranks; r++) even[r] = 1;
    p->splits = mt_new(&p->arena, struct mt_plan_split, nlabels + 1);
    for (int l = -1; l < nlabels; l++) {
        const struct mt_label *label = &planned.graph->labels[l < 0 ? planned.graph->batch : labels[l]];
        struct mt_plan_split *split = &p->splits[p->nsplits++];
        *split =
            (struct mt_plan_split){.name = mt_arena_printf(&p->arena, "%s%s", l < 0 ? "" : "storage:", label->name),
                                   .label = label->name,
                                   .align = label->align,
                                   .sizes = mt_new(&p->arena, int64_t, p->nranks)};
        CHECK_OK(mt_split_proportional(label->extent, label->align, l < 0 ? even : weight, p->nranks, split->sizes,
                                       &jobs_err),
                 jobs_err);
    }
    for (int r = 0; r < p->nranks; r++) p->micro[r] = p->splits[0].sizes[r] > 0;
    p->decisions.nstorage = 1;
    p->decisions.storage =
        &(struct mt_storage_row){.pattern = "*", .state = p->nranks > 1 ? MT_STATE_SPLIT : MT_STATE_REPLICATED};
    mt_decisions_complete(&p->decisions, &p->arena);
    p->decisions.sync = p->nranks > 1 ? MT_SYNC_REDUCE_SCATTER : MT_SYNC_ALL_REDUCE;
    struct mt_program program;
    CHECK_OK(mt_program_from_plan(planned.graph, p, false, &program, &jobs_err), jobs_err);
    for (int r = 0; r < p->nranks && fits; r++) {
        struct mt_lowered *low;
        CHECK_OK(mt_lower(&program, r, &options, &low, &jobs_err), jobs_err);
        fits = low->arena_bytes <= c->devices[r].memory_bytes;
        mt_lowered_free(low);
    }
    mt_program_release(&program);
    mt_device_close(device);
    mt_planned_release(&planned);
    mt_plan_free(p);
    return fits;
}

static inline bool jobs_smallest_fits(const struct mt_cluster *c, const char *model, int64_t batch) {
    double *weight = mt_calloc((size_t)c->ndevices, sizeof *weight);
    bool fits = false;
    for (int by_memory = 0; by_memory < 2 && !fits; by_memory++) {
        for (int r = 0; r < c->ndevices; r++) weight[r] = by_memory ? (double)c->devices[r].memory_bytes : 1;
        fits = jobs_fits(c, model, batch, MT_RECOMPUTE_SEGMENTS, weight);
    }
    free(weight);
    return fits;
}

/* Steps that were planned before (seconds; 0: refused): no later plan may be slower by more than 1%. Where a change of
 * prices makes steps longer on purpose, `bench_jobs --steps tests/planner/make/steps.def` writes them anew. */
static const double jobs_steps_s[JOBS] = {
#include "tests/planner/make/steps.def"
};

/* What became of a job. */
struct jobs_found {
    double step_s, gap; /* gap: of the step to the lower bound of all plans, relative; both NAN: refused */
};

/* Plan job number `which` of JOBS; a refusal must be right, and the step not longer than before (but where `anew`).
 * *result may be null. Returns whether it was planned. */
static inline bool jobs_plan(int which, bool verbose, bool anew, struct jobs_found *result) {
    const char *model = jobs_models[which / JOBS_BATCHES / JOBS_CLUSTERS];
    const char *text = jobs_clusters[which / JOBS_BATCHES % JOBS_CLUSTERS];
    int64_t batch = jobs_batches[which % JOBS_BATCHES];
    struct mt_cluster *c;
    CHECK_OK(mt_cluster_describe(text, NULL, &c, &jobs_err), jobs_err);
    struct mt_plan_request request = {
        .model = model, .job = jobs_job(batch), .fixed = {.decisions = mt_decisions_unset}, .limit_s = 600};
    struct mt_plan_found found;
    request.job.recompute = MT_RECOMPUTE_UNSET;
    double begin_s = mt_now_s();
    enum mt_status st = mt_plan_fastest(c, &request, &found, &jobs_err);
    if (st == MT_EMISSING) {
        printf("skipped: %s\n", jobs_err.text);
        exit(77);
    }
    if (st) {
        CHECK(st == MT_EINPUT, "%s", jobs_err.text);
        CHECK(!jobs_smallest_fits(c, model, batch), "%s of %d on %s is refused (%s), but the smallest program fits",
              model, (int)batch, text, jobs_err.text);
    }
    char step[MT_UNITS_TEXT], time[MT_UNITS_TEXT];
    double step_s = st ? NAN : found.plan->prediction->step_s;
    double above = st ? NAN : step_s / found.plan->prediction->bound_s - 1, before_s = jobs_steps_s[which];
    if (result) *result = (struct jobs_found){step_s, above};
    CHECK(anew || !(before_s > 0) || step_s <= 1.01 * before_s,
          "%s of %d on %s: %g s a step, but it was planned to take %g s before", model, (int)batch, text, step_s,
          before_s);
    if (verbose && !st)
        printf("%-10s %4d  %-30s %2d of %2d ranks, %8s a step, %5.1f%% above the bound, planned in %s\n", model,
               (int)batch, text, found.plan->nplaces, found.plan->nranks, mt_units_seconds(step_s, step), 100 * above,
               mt_units_seconds(mt_now_s() - begin_s, time));
    if (verbose && st) printf("%-10s %4d  %-30s refused: %s\n", model, (int)batch, text, jobs_err.text);
    if (!st) mt_plan_found_release(&found);
    mt_cluster_free(c);
    return !st;
}

#endif
