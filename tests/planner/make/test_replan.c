/* Replanning by the times that were seen, without a cluster: shares by samples a second; algorithms of collectives that
 * the program has no more go, those of others stay. */
#include "planner/make/make.h"
#include "tests/check.h"

static struct mt_plan *make_plan(void) {
    struct mt_plan *plan;
    struct mt_err err = MT_ERR_INIT;
    static const double speeds[] = {1, 1};
    struct mt_plan_request request = {.model = "mlp:layers=2,hidden=16", .nranks = 2, .speeds = speeds};
    mt_job_default(&request.job);
    request.job.batch = 12;
    request.fixed.decisions = mt_decisions_unset;
    CHECK_OK(mt_plan_make(&request, &plan, &err), err);
    return plan;
}

static const char *algorithm_of(const struct mt_plan *plan, enum mt_coll_kind kind) {
    for (int i = 0; i < plan->decisions.nalgorithms; i++)
        if (plan->decisions.algorithms[i].kind == kind) return plan->decisions.algorithms[i].algorithm;
    return "";
}

int main(void) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_plan *plan = make_plan();
    struct mt_algorithm_row rows[] = {{MT_ALL_REDUCE, "ring", 0}, {MT_ALL_TO_ALL, "direct", 0}};
    double speeds[2], seconds[] = {1, 2};
    struct mt_replanned re = {.speeds = speeds};
    const struct mt_plan_seen seen = {.compute_s = seconds, .step_s = 2.5};
    CHECK_TEXT(algorithm_of(plan, MT_ALL_REDUCE), "auto");
    plan->decisions.nalgorithms = 2;
    plan->decisions.algorithms = rows;
    CHECK_OK(mt_replan_shares(plan, &seen, &re, &err), err);
    const int64_t *shares = mt_plan_split_named(re.found.plan, "batch")->sizes;
    CHECK_EQ(shares[0], 8); /* six samples in a second, against six in two */
    CHECK_EQ(shares[1], 4);
    CHECK_TEXT(algorithm_of(re.found.plan, MT_ALL_REDUCE), "ring");
    CHECK_TEXT(algorithm_of(re.found.plan, MT_ALL_TO_ALL), "");
    mt_plan_found_release(&re.found);
    /* What a person has written is refused all the same. */
    CHECK_EQ(mt_plan_edited(plan, &err), MT_EINPUT);
    CHECK(strstr(err.text, "the plan's program has no AllToAll"), "%s", err.text);
    mt_plan_free(plan);
    return 0;
}
