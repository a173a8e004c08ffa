/* How long it takes to build a program for many ranks, to lower it, and to predict its step:
 *
 *     bench_predict 'a100-40:4x8 + v100:4x8' gpt2:1558m 8 [split]
 *
 * times are of the processor. cluster, model, samples a device; split: parameters and states by shares, ReduceScatter
 * and AllGather. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "planner/plan/planned.h"
#include "profiler/describe/describe.h"
#include "planner/cost/algorithms.h"
#include "planner/predict/predict.h"
#include "tests/check.h"

static double cpu_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double last_s;
static void lap(const char *what) {
    double now = cpu_s();
    printf("%-24s %8.3f s\n", what, now - last_s);
    last_s = cpu_s();
}

/* Even shares, all in one plan. */
static struct mt_plan *plan_for(const struct mt_cluster *cluster, const char *model, int64_t samples, bool split) {
    int n = cluster->ndevices;
    struct mt_plan *p = mt_plan_new(n);
    p->model = model;
    p->job.batch = samples * n;
    p->splits = mt_new(&p->arena, struct mt_plan_split, 16);
    p->nsplits = 1;
    p->splits[0] =
        (struct mt_plan_split){.name = "batch", .label = "batch", .align = 1, .sizes = mt_new(&p->arena, int64_t, n)};
    for (int r = 0; r < n; r++) p->splits[0].sizes[r] = p->micro[r] = samples;
    mt_decisions_complete(&p->decisions, &p->arena);
    p->decisions.storage[0].state = split ? MT_STATE_SPLIT : MT_STATE_REPLICATED;
    p->decisions.sync = split ? MT_SYNC_REDUCE_SCATTER : MT_SYNC_ALL_REDUCE;
    p->decisions.bucket_bytes = 25 << 20;
    return p;
}

/* A split for every label that storage may be divided by: even as far as it goes. */
static void add_storage_splits(struct mt_plan *p, const struct mt_graph *g) {
    for (int l = 0; l < g->nlabels; l++) {
        if (l == g->batch) continue;
        struct mt_plan_split *s = &p->splits[p->nsplits++];
        *s = (struct mt_plan_split){.name = mt_arena_printf(&p->arena, "storage:%s", g->labels[l].name),
                                    .label = g->labels[l].name,
                                    .align = 1,
                                    .sizes = mt_new(&p->arena, int64_t, p->nranks)};
        for (int r = 0; r < p->nranks; r++)
            s->sizes[r] = g->labels[l].extent / p->nranks + (r < g->labels[l].extent % p->nranks);
    }
}

int main(int argc, char **argv) {
    CHECK(argc >= 4, "CLUSTER MODEL SAMPLES [split]");
    struct mt_err err = MT_ERR_INIT;
    struct mt_cluster *cluster;
    struct mt_planned planned = {0};
    CHECK_OK(mt_cluster_open(argv[1], &cluster, &err), err);
    struct mt_plan *plan = plan_for(cluster, argv[2], atoll(argv[3]), argc > 4);
    last_s = cpu_s();
    plan->job.precision = MT_BF16;
    CHECK_OK(mt_planned_graph(plan, &planned, &err), err);
    lap("graph");
    add_storage_splits(plan, planned.graph);
    CHECK_OK(mt_planned_program(plan, &planned, &err), err);
    lap("program");
    int *device = malloc((size_t)cluster->ndevices * sizeof *device);
    for (int r = 0; r < cluster->ndevices; r++) device[r] = r;
    struct mt_costs costs = {
        .cluster = cluster, .nranks = cluster->ndevices, .device = device, .memo = mt_cost_memo_new()};
    CHECK_OK(mt_algorithm_rows(&planned.program, &costs, &plan->arena, &plan->decisions.algorithms,
                               &plan->decisions.nalgorithms, &err),
             err);
    lap("algorithms");
    for (int i = 0; i < plan->decisions.nalgorithms; i++)
        printf("  %s %s up to %lld\n", mt_coll_name(plan->decisions.algorithms[i].kind),
               plan->decisions.algorithms[i].algorithm, (long long)plan->decisions.algorithms[i].up_to_bytes);
    mt_program_release(&planned.program);
    CHECK_OK(mt_planned_program(plan, &planned, &err), err);
    lap("program again");
    struct mt_lowered *low;
    struct mt_lower_options options = {.fuse = true, .latency_s = 30e-6, .bandwidth_Bps = 1e9};
    CHECK_OK(mt_lower(&planned.program, 0, &options, &low, &err), err);
    lap("lowering of one rank");
    printf("  %d instructions, %lld bytes\n", low->ninstrs, (long long)low->arena_bytes);
    mt_lowered_free(low);
    struct mt_prediction f;
    for (int i = 0; i < 2; i++) {
        CHECK_OK(mt_predict(&planned.program, &costs, &options, &f, &err), err);
        lap(i ? "prediction again" : "prediction");
        if (!i) mt_arena_release(&f.arena);
    }
    printf("step %.4g s +- %.0f%%\n", f.step_s, 100 * f.error);
    mt_arena_release(&f.arena);
    mt_cost_memo_free(costs.memo);
    mt_planned_release(&planned);
    mt_plan_free(plan);
    mt_cluster_free(cluster);
    free(device);
    return 0;
}
