/* The lower bound: 1,000 random plans are never below it; where the best plan is known, it is near. */
#include "tests/planner/search/bound_cases.h"

#ifdef MOTLEY_SANITIZE
enum { CLUSTERS = 6, PLANS = 20 };
#else
enum { CLUSTERS = 40, PLANS = 25 };
#endif

static void test_random_plans(void) {
    struct bound_tally tally = {0};
    for (uint64_t seed = 1001; seed <= 1000 + CLUSTERS; seed++) {
        struct bound_case c;
        bound_set_up(&c, seed);
        bound_try(&c, PLANS, &tally);
        bound_tear_down(&c);
    }
    printf("%d plans, %d of them with fits; %d do not fit\n", tally.plans, tally.fitted, tally.misfits);
    CHECK(tally.plans >= CLUSTERS * PLANS * 9 / 10 && tally.fitted && tally.misfits, "the clusters are too easy");
    CHECK_EQ(tally.below, 0);
}

/* A job of one model on a cluster, and its bound. */
static double bound_on(struct mt_cluster *cluster, const char *model, int64_t batch) {
    struct bound_case c = {.cluster = cluster};
    mt_job_default(&c.job);
    c.job.batch = batch;
    CHECK_OK(mt_model_parse(model, &c.model, &bound_err), bound_err);
    CHECK_OK(mt_model_graph(&c.model, c.job.precision, batch, 0, 0, &c.graph, &bound_err), bound_err);
    CHECK_OK(mt_graph_differentiate(c.graph, &bound_err), bound_err);
    CHECK_OK(mt_graph_optimize(c.graph, &c.job.optimizer, &bound_err), bound_err);
    int device[BOUND_MOST_RANKS];
    for (int d = 0; d < cluster->ndevices; d++) device[d] = d;
    c.costs = (struct mt_costs){.cluster = cluster, .nranks = cluster->ndevices, .device = device};
    c.options = (struct mt_lower_options){.fuse = true, .latency_s = 30e-6, .bandwidth_Bps = 1e9};
    c.search = (struct mt_search){.model = &c.model,
                                  .graph = c.graph,
                                  .job = &c.job,
                                  .costs = &c.costs,
                                  .options = &c.options,
                                  .fixed = {.decisions = mt_decisions_unset}};
    struct mt_plan *p = bound_new_plan(&c, cluster->ndevices, device);
    double bound_s;
    CHECK_OK(mt_search_bound(&c.search, p, &c.search.fixed.decisions, &bound_s, &bound_err), bound_err);
    mt_plan_free(p);
    mt_graph_free(c.graph);
    return bound_s;
}

/* Two hosts on a slow network: the exchange of all gradients, 2 (2 - 1) / 2 times their bytes over the rate of a host,
 * until one host alone is faster. A slow direction of one host counts. */
static void test_networks(void) {
    static const char *const model = "gpt2:layers=2,heads=2,embed=64,context=64,vocab=256,bias=0";
    struct mt_cluster *one = make_cluster(1, 1, 1), *two = make_cluster(2, 1, 1);
    double alone_s = bound_on(one, model, 64), fast_s = bound_on(two, model, 64);
    CHECK(fast_s > 0.5 * alone_s && fast_s < 0.6 * alone_s, "%g of %g", fast_s, alone_s);
    struct mt_model parsed;
    struct mt_graph *g;
    CHECK_OK(mt_model_parse(model, &parsed, &bound_err), bound_err);
    CHECK_OK(mt_model_graph(&parsed, MT_F32, 64, 0, 0, &g, &bound_err), bound_err);
    double bytes = 4 * (double)mt_graph_parameters(g);
    mt_graph_free(g);
    two->links[1].shared_Bps = two->links[1].bandwidth_Bps = bytes / (0.7 * alone_s);
    double slow_s = bound_on(two, model, 64);
    CHECK(slow_s > 0.7 * alone_s && slow_s < 0.95 * alone_s, "%g of %g", slow_s, alone_s);
    /* Biases add bytes and work, and messages that have no waits of their own, as those before them imply them. */
    double biased_s = bound_on(two, "gpt2:layers=2,heads=2,embed=64,context=64,vocab=256,bias=1", 64);
    CHECK(biased_s > slow_s, "%g with biases, %g without", biased_s, slow_s);
    two->links[1].shared_Bps = two->links[1].bandwidth_Bps = 1e9;
    two->nodes[1].egress_Bps = bytes / (0.7 * alone_s);
    double directed_s = bound_on(two, model, 64);
    CHECK(directed_s > 0.7 * alone_s && directed_s < 0.95 * alone_s, "%g of %g", directed_s, alone_s);
    two->nodes[1].egress_Bps = bytes / (10 * alone_s);
    CHECK_NEAR(bound_on(two, model, 64), alone_s, 0.03 * alone_s); /* of two, updates are not in it */
    mt_cluster_free(one);
    mt_cluster_free(two);
}

int main(void) {
    test_random_plans();
    test_networks();
    return 0;
}
