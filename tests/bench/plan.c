/* How long planning takes: GPT-2 1558M on described clusters of 64 ranks of 5 classes and of 1000 ranks of 8, with and
 * without memory limits; and a small job on two ranks. What is asked for: 1 s, 5 s, and nothing that one waits for.
 *
 *     MOTLEY_MODULES=build/release build/release/tests/bench_plan */
#include "kernels/base/text/units.h"
#include "kernels/base/wait.h"
#include "profiler/describe/describe.h"
#include "planner/search/search.h"
#include "tests/check.h"
#include "synth/autodiff/autodiff.h"

static struct mt_err err = MT_ERR_INIT;

static const struct {
    const char *name, *cluster, *model;
    int64_t batch;
} cases[] = {
    {"2 ranks", "cpu-4t:1x1 net=1G + cpu-1t:1x1", "gpt2:layers=6,heads=6,embed=384,context=256", 48},
    {"64 ranks of 5 classes", "a100-40:2x8 nvlink=300G net=25G + v100:2x8 + t4:2x8 + h100:1x8 + a10:1x8", "gpt2:1558m",
     256},
    {"1000 ranks of 8 classes",
     "a100-40:32x8 nvlink=300G net=25G + v100:16x8 + t4:16x8 + h100:16x8 + a10:16x8 + l4:8x8 + a100-80:16x8 + h200:5x8",
     "gpt2:1558m", 2000},
};

static void plan(int which, bool memory) {
    struct mt_cluster *cluster;
    struct mt_model model;
    struct mt_graph *graph;
    struct mt_job job;
    CHECK_OK(mt_cluster_describe(cases[which].cluster, NULL, &cluster, &err), err);
    double begin_s = mt_now_s();
    mt_job_default(&job);
    job.batch = cases[which].batch;
    CHECK_OK(mt_model_parse(cases[which].model, &model, &err), err);
    CHECK_OK(mt_model_graph(&model, job.precision, job.batch, 0, 0, &graph, &err), err);
    CHECK_OK(mt_graph_differentiate(graph, &err), err);
    CHECK_OK(mt_graph_optimize(graph, &job.optimizer, &err), err);
    int *device = mt_calloc((size_t)cluster->ndevices, sizeof *device);
    for (int d = 0; d < cluster->ndevices; d++) device[d] = d;
    struct mt_costs costs = {.cluster = cluster, .nranks = cluster->ndevices, .device = device};
    struct mt_lower_options options = {.fuse = true, .latency_s = 30e-6, .bandwidth_Bps = 1e9};
    struct mt_search search = {.model = &model,
                               .graph = graph,
                               .job = &job,
                               .costs = &costs,
                               .options = &options,
                               .fixed = {.decisions = mt_decisions_unset},
                               .limit_s = 60};
    struct mt_plan *p = mt_plan_new(cluster->ndevices);
    for (int r = 0; r < p->nranks && memory; r++) p->ranks[r].memory_bytes = cluster->devices[r].memory_bytes;
    CHECK_OK(mt_search(&search, p, NULL, &err), err);
    char time[MT_UNITS_TEXT], step[MT_UNITS_TEXT], bound[MT_UNITS_TEXT];
    printf("%-24s %-16s planned in %8s: a step of %s, bound %s\n", cases[which].name, memory ? "memory limits" : "",
           mt_units_seconds(mt_now_s() - begin_s, time), mt_units_seconds(p->prediction->step_s, step),
           mt_units_seconds(p->prediction->bound_s, bound));
    mt_plan_free(p);
    free(device);
    mt_graph_free(graph);
    mt_cluster_free(cluster);
}

int main(void) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int memory = 0; memory < 2; memory++) plan((int)i, memory);
    return 0;
}
