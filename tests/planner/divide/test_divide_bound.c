/* The bound on all programs: 1,000 random ones are never below it; where the fastest program is known, it is near. */
#include "planner/make/planning.h"
#include "tests/planner/divide/bound_cases.h"

#ifdef MOTLEY_SANITIZE
enum { CLUSTERS = 6, PROGRAMS = 20 };
static const double near = 1.5; /* the nearest of all programs to its bound */
#else
enum { CLUSTERS = 50, PROGRAMS = 20 };
static const double near = 1.01;
#endif

static void test_random_programs(void) {
    struct bound_tally tally = {0};
    double nearest = INFINITY;
    for (uint64_t seed = 10001; seed <= 10000 + CLUSTERS; seed++) {
        struct bound_case c;
        all_set_up(&c, seed);
        all_try(&c, PROGRAMS, &tally);
        nearest = fmin(nearest, c.best_s / c.bound_s);
        bound_tear_down(&c);
    }
    printf("%d programs, %d of them with fits; the nearest is %.4f of its bound\n", tally.plans, tally.fitted, nearest);
    CHECK(tally.plans >= CLUSTERS * PROGRAMS * 9 / 10 && tally.fitted, "too few programs");
    CHECK_EQ(tally.below, 0);
    CHECK(nearest < near, "no program is near its bound: the cases are too easy");
}

/* speed: of the first rank; the others' rise from it by a factor of `rise` to the last. */
static double bound_of_speeds(const char *cluster, const char *model, int64_t batch, double speed, double rise) {
    struct mt_cluster *c;
    struct mt_planning planning;
    struct mt_divide_bound *bound;
    struct mt_job job;
    CHECK_OK(mt_cluster_describe(cluster, NULL, &c, &bound_err), bound_err);
    for (int d = 0; d < c->ndevices; d++) c->devices[d].speed = speed * pow(rise, (double)d / c->ndevices);
    mt_job_default(&job);
    job.batch = batch;
    job.recompute = MT_RECOMPUTE_NONE;
    CHECK_OK(mt_planning_open(c, model, &job, &planning, &bound_err), bound_err);
    CHECK_OK(mt_divide_bound_open(planning.planned.graph, &job, "cuda", &planning.options, &bound, &bound_err),
             bound_err);
    double bound_s = mt_divide_bound_s(bound, &planning.costs);
    mt_divide_bound_close(bound);
    mt_planning_close(&planning);
    mt_cluster_free(c);
    return bound_s;
}

static double bound_on(const char *cluster, const char *model, int64_t batch) {
    return bound_of_speeds(cluster, model, batch, 1, 1);
}

/* The step of the program of one rank. */
static double alone_s(const char *cluster, const char *model, int64_t batch) {
    struct mt_cluster *c;
    struct mt_planning planning;
    struct mt_job job;
    CHECK_OK(mt_cluster_describe(cluster, NULL, &c, &bound_err), bound_err);
    mt_job_default(&job);
    job.batch = batch;
    job.recompute = MT_RECOMPUTE_NONE;
    CHECK_OK(mt_planning_open(c, model, &job, &planning, &bound_err), bound_err);
    struct mt_plan *p = mt_planning_plan(&planning);
    p->splits = mt_new(&p->arena, struct mt_plan_split, 1);
    p->splits[p->nsplits++] = (struct mt_plan_split){.name = "batch", .label = "batch", .align = 1, .sizes = &batch};
    p->micro[0] = batch;
    mt_decisions_complete(&p->decisions, &p->arena);
    p->decisions.gradient_wire = MT_F32;
    struct mt_program program;
    struct mt_prediction found;
    CHECK_OK(mt_program_from_plan(planning.planned.graph, p, false, &program, &bound_err), bound_err);
    CHECK_OK(mt_predict(&program, &planning.costs, &planning.options, &found, &bound_err), bound_err);
    double step_s = found.step_s;
    mt_arena_release(&found.arena);
    mt_program_release(&program);
    mt_plan_free(p);
    mt_planning_close(&planning);
    mt_cluster_free(c);
    return step_s;
}

/* One rank takes the bound. Of n equal ones each has the operators' fixed times, and a part of the others; a slower
 * rank adds what it is worth, and never makes the bound longer. */
static void test_known(void) {
    static const char *const models[] = {"mlp", "gpt2:char", "gpt2:124m"};
    for (int m = 0; m < 3; m++)
        for (int64_t batch = 2; batch <= 32; batch *= 4) {
            double one_s = bound_on("h100:1", models[m], batch), step_s = alone_s("h100:1", models[m], batch);
            CHECK(one_s <= step_s && step_s < 1.01 * one_s, "%s of %d: %g s, the bound is %g s", models[m], (int)batch,
                  step_s, one_s);
            double two_s = bound_on("h100:1x2", models[m], batch), four_s = bound_on("h100:1x4", models[m], batch);
            CHECK_NEAR(one_s - two_s, 2 * (two_s - four_s), 2e-3 * one_s);
            double mixed_s = bound_on("h100:1 net=25G + t4:1", models[m], batch);
            CHECK(mixed_s <= 1.0002 * one_s && mixed_s > 0.75 * one_s, "%g of %g", mixed_s, one_s);
        }
    double all_s = bound_on("h100:1", "gpt2:124m", 64), four_s = bound_on("h100:1x4", "gpt2:124m", 64);
    CHECK(four_s > 0.25 * all_s && four_s < 0.26 * all_s, "%g of %g", four_s, all_s);
}

/* As many speeds as ranks: between that of all at the least and of all at the highest. */
static void test_speeds(void) {
    for (int n = 8; n <= 128; n *= 16) {
        char cluster[20];
        snprintf(cluster, sizeof cluster, "a10:1x%d", n);
        double slow_s = bound_of_speeds(cluster, "gpt2:124m", 512, 0.25, 1);
        double mixed_s = bound_of_speeds(cluster, "gpt2:124m", 512, 0.25, 4),
               fast_s = bound_on(cluster, "gpt2:124m", 512);
        CHECK(mixed_s < 0.95 * slow_s && mixed_s > 1.05 * fast_s, "%g is not between %g and %g", mixed_s, fast_s,
              slow_s);
        double near_s = bound_of_speeds(cluster, "gpt2:124m", 512, 0.25, 1.02);
        CHECK(near_s <= slow_s && near_s > slow_s / 1.03, "%g of %g", near_s, slow_s);
    }
}

int main(void) {
    test_known();
    test_speeds();
    test_random_programs();
    return 0;
}
