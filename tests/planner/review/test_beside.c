/* A plan beside the classics: each takes what its strategy's search finds, the plan's own program is known as such, and
 * the reasons are facts: gathers that ZeRO-3 has more by the bytes of the weights and the link, memory that the
 * prediction says, computing of a slower rank. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/text/units.h"
#include "planner/divide/divide.h"
#include "planner/make/make.h"
#include "planner/review/classics.h"
#include "profiler/describe/describe.h"
#include "tests/check.h"

static struct mt_err err = MT_ERR_INIT;

struct job {
    struct mt_cluster *cluster;
    struct mt_planning planning;
    struct mt_plan *plan;
    struct mt_classics classics;
};

/* The plan of a strategy (null: of any) and its classics. */
static void begin(struct job *j, const char *cluster, const char *model, int64_t batch, double memory_MiB,
                  const char *strategy) {
    struct mt_plan_request request = {.model = model, .limit_s = 60, .hypothetical = true};
    struct mt_plan_found found;
    *j = (struct job){.cluster = NULL};
    CHECK_OK(mt_cluster_describe(cluster, NULL, &j->cluster, &err), err);
    for (int d = 0; d < j->cluster->ndevices && memory_MiB > 0; d++)
        j->cluster->devices[d].memory_bytes = (int64_t)(memory_MiB * 0x1p20);
    mt_job_default(&request.job);
    request.job.batch = batch;
    request.job.recompute = MT_RECOMPUTE_NONE;
    request.fixed = (struct mt_plan_fixed){.decisions = mt_decisions_unset, .use = MT_USE_ALL};
    for (int i = 0; i < MT_NSTRATEGIES && strategy; i++)
        if (!strcmp(mt_strategies[i].name, strategy)) request.strategy = &mt_strategies[i];
    enum mt_status st = mt_plan_fastest(j->cluster, &request, &found, &err);
    if (st == MT_EMISSING) {
        printf("skipped: %s\n", err.text);
        exit(77);
    }
    CHECK_OK(st, err);
    j->plan = found.plan;
    found.plan = NULL;
    mt_plan_found_release(&found);
    CHECK_OK(mt_planning_open(j->cluster, j->plan->model, &j->plan->job, &j->planning, &err), err);
    CHECK_OK(mt_classics_of(j->plan, &j->planning, 60, &j->classics, &err), err);
}

static void end(struct job *j) {
    mt_classics_release(&j->classics);
    mt_planning_close(&j->planning);
    mt_plan_free(j->plan);
    mt_cluster_free(j->cluster);
}

static const struct mt_classic *named(const struct job *j, const char *name) {
    for (int i = 0; i < j->classics.count; i++)
        if (!strcmp(j->classics.items[i].name, name)) return &j->classics.items[i];
    CHECK(false, "no %s", name);
    return NULL;
}

/* The best of a strategy, found here. */
static double judged(const struct job *j, const char *name) {
    struct mt_divide_found found;
    struct mt_arena arena = MT_ARENA_INIT;
    int64_t *memory = mt_new(&arena, int64_t, j->plan->nranks);
    for (int r = 0; r < j->plan->nranks; r++) memory[r] = j->plan->ranks[r].memory_bytes;
    struct mt_divide divide = {.graph = j->planning.planned.graph,
                               .costs = &j->planning.costs,
                               .options = &j->planning.options,
                               .node = mt_plan_nodes(j->plan, &arena),
                               .memory_bytes = memory,
                               .decisions = mt_decisions_unset,
                               .plan = j->plan,
                               .end_s = INFINITY};
    divide.decisions.bucket_bytes = j->plan->decisions.bucket_bytes;
    divide.decisions.start = j->plan->decisions.start;
    for (int i = 0; i < MT_NSTRATEGIES; i++)
        if (!strcmp(mt_strategies[i].name, name)) divide.only = &mt_strategies[i];
    CHECK_OK(mt_divide_search(&divide, &found, &err), err);
    double step_s = found.best ? found.best->prediction.step_s : 0;
    mt_divide_release(&found);
    mt_arena_release(&arena);
    return step_s;
}

/* Steps are the strategies' own, in order of time, and what does not fit comes last. */
static void check_steps(const struct job *j) {
    double last_s = 0;
    bool fits = true;
    for (int i = 0; i < j->classics.count; i++) {
        const struct mt_classic *c = &j->classics.items[i];
        double step_s = judged(j, c->name);
        printf("  %-16s %.4g ms  %s%s\n", c->name, 1e3 * c->step_s, c->same ? "(the plan) " : "", c->why);
        CHECK(c->fits == (step_s > 0) && (fits || !c->fits), "%s", c->name);
        CHECK_NEAR(c->step_s, step_s, 1e-9 * step_s);
        CHECK(!c->fits || c->step_s >= last_s, "%s", c->name);
        fits = c->fits, last_s = c->step_s;
    }
}

/* Two devices: of ZeRO-1's plan ZeRO-3 differs by one more gather of the weights. */
static void test_gathers(void) {
    struct job j;
    begin(&j, "h100:1x2", "gpt2:layers=2,heads=16,embed=2048,context=128,vocab=1024", 32, 0, "zero1");
    printf("ZeRO-1 on two devices\n");
    CHECK_EQ(j.classics.count, 6); /* without hosts, hybrid is ZeRO-3 */
    check_steps(&j);
    CHECK(named(&j, "zero1")->same && !named(&j, "data")->same && !named(&j, "zero3")->same, "its own program");
    const struct mt_classic *zero3 = named(&j, "zero3");
    double figure = 0;
    char unit[8] = "";
    CHECK(sscanf(zero3->why, "gathers of weights over nvlink take %lf %7s more", &figure, unit) == 2, "%s", zero3->why);
    double gathers_s = figure * (!strcmp(unit, "us") ? 1e-6 : !strcmp(unit, "ms") ? 1e-3 : 1);
    /* once more, but for what the forward pass left: each rank receives half of the layers' weights */
    int inside = j.cluster->nodes[0].inside;
    double all_s = (double)j.plan->parameters * 4 / 2 / j.cluster->links[inside].bandwidth_Bps;
    CHECK(gathers_s > 0.6 * all_s && gathers_s < 1.2 * all_s, "%g s, all weights take %g", gathers_s, all_s);
    end(&j);
}

/* Where replicated state does not fit: who lacks what, as the prediction says. */
static void test_memory(void) {
    struct job j;
    begin(&j, "cpu:1x4", "mlp:layers=6,hidden=2048", 64, 260, NULL);
    printf("in 260 MiB\n");
    check_steps(&j);
    const struct mt_classic *data = named(&j, "data");
    CHECK(!data->fits && strstr(data->why, " of 260 MiB"), "%s", data->why);
    double needs;
    CHECK(sscanf(data->why, "rank 0 needs %lf MiB of", &needs) == 1, "%s", data->why);
    /* parameters in f32, with a gradient and two moments */
    CHECK(needs * 0x1p20 > 16 * (double)j.plan->parameters, "%g MiB", needs);
    CHECK(needs * 0x1p20 < 24 * (double)j.plan->parameters, "%g MiB", needs);
    end(&j);
}

/* Hosts: hybrid is a classic of its own; one rank alone has none. */
static void test_hosts(void) {
    struct job j;
    begin(&j, "h100:2x2 net=100G", "gpt2:layers=2,heads=4,embed=256,context=64,vocab=512", 16, 0, NULL);
    printf("two hosts\n");
    check_steps(&j);
    CHECK_EQ(j.classics.count, 7);
    CHECK(named(&j, "hybrid")->fits, "%s", named(&j, "hybrid")->why);
    for (int i = 0; i < j.classics.count; i++)
        CHECK(j.classics.items[i].step_s >= 0.995 * j.plan->prediction->step_s, "%s is faster than the plan",
              j.classics.items[i].name);
    end(&j);
    begin(&j, "h100", "mlp:tiny", 8, 0, NULL);
    CHECK_EQ(j.classics.count, 0);
    end(&j);
}

int main(void) {
    test_gathers();
    test_memory();
    test_hosts();
    return 0;
}
