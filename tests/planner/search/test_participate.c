/* Who takes part: what a slow network leaves out, with reasons and costs; what a person decides; and that pricing and
 * rebalancing keep the ranks of a plan. */
#include "tests/planner/search/setting.h"

/* Two nodes of two ranks, a slow network between them. */
static void set_up_slow(struct setting *s) {
    struct mt_cluster *cluster = make_two_nodes();
    cluster->links[1].bandwidth_Bps = cluster->links[1].shared_Bps = 1e6;
    cluster->devices[2].speed = 0.5;
    set_up(s, cluster, "gpt2:layers=2,heads=2,embed=64,context=64,vocab=256,bias=0", 24);
}

static void check_order(const struct mt_plan *p, int n, const int *order) {
    CHECK_EQ(p->nplaces, n);
    for (int i = 0; i < n; i++) CHECK_EQ(p->order[i], order[i]);
    const struct mt_plan_split *batch = mt_plan_split_named(p, "batch");
    int64_t sum = 0;
    for (int i = 0; i < n; i++) sum += batch->sizes[order[i]];
    CHECK_EQ(sum, p->job.batch);
}

int main(void) {
    static const int first_node[] = {0, 1}, all[] = {0, 1, 2, 3}, both[] = {0, 2};
    struct setting s;
    set_up_slow(&s);
    struct mt_plan *p = searched(&s, NULL);
    check_order(p, 2, first_node);
    double step_s = p->prediction->step_s;
    CHECK_EQ(p->prediction->nidle, 2);
    for (int i = 0; i < 2; i++) {
        const struct mt_plan_idle *row = &p->prediction->idle[i];
        CHECK_EQ(row->rank, 2 + i);
        CHECK(strstr(row->why, "slower with it"), "%s", row->why);
        CHECK(row->step_s > step_s, "%g with rank %d, %g without", row->step_s, row->rank, step_s);
    }

    /* As it is, and with other shares: the same ranks. The last plan's ranks are searched. */
    CHECK_OK(mt_search_price(&s.search, p, &err), err);
    CHECK_NEAR(p->prediction->step_s, step_s, 1e-9 * step_s);
    CHECK_OK(mt_search_rebalance(&s.search, p, NULL, &err), err);
    check_order(p, 2, first_node);
    CHECK(p->prediction->step_s <= 1.01 * step_s, "%g after %g", p->prediction->step_s, step_s);
    s.search.last = p;
    struct mt_plan *next = searched(&s, NULL);
    CHECK(next->prediction->step_s <= step_s * (1 + 1e-9), "%g after %g", next->prediction->step_s, step_s);
    mt_plan_free(next);
    s.search.last = NULL;
    mt_plan_free(p);

    /* What a person decides. */
    bool used[4] = {true, false, true, false};
    s.search.fixed.use = MT_USE_ALL;
    p = searched(&s, NULL);
    check_order(p, 4, all);
    CHECK(p->prediction->step_s > 2 * step_s, "%g with all, %g without", p->prediction->step_s, step_s);
    mt_plan_free(p);
    s.search.fixed.use = MT_USE_SOME;
    s.search.fixed.used = used;
    p = searched(&s, NULL);
    check_order(p, 2, both);
    CHECK_TEXT(p->prediction->idle[0].why, "left out by --use");
    mt_plan_free(p);
    for (int r = 1; r < 4; r++) s.cluster->devices[r].speed = 1e-3, used[r] = true;
    s.search.fixed.decisions.nstorage = 1;
    s.search.fixed.decisions.storage = &(struct mt_storage_row){.pattern = "*", .state = MT_STATE_REPLICATED};
    p = searched(&s, NULL); /* a list of all is all, though three get neither samples nor state of their own */
    check_order(p, 4, all);
    CHECK_EQ(mt_plan_split_named(p, "batch")->sizes[0], 24);
    mt_plan_free(p);
    s.search.fixed.decisions.nstorage = 0;
    for (int r = 1; r < 4; r++) s.cluster->devices[r].speed = r == 2 ? 0.5 : 1, used[r] = r == 2;
    const int64_t shares[4] = {12, 12, 0, 0};
    s.search.fixed.shares = shares;
    s.search.fixed.use = MT_USE_UNSET;
    p = searched(&s, NULL);
    check_order(p, 4, all);
    mt_plan_free(p);
    s.search.fixed.use = MT_USE_AUTO;
    p = searched(&s, NULL);
    check_order(p, 2, first_node);
    mt_plan_free(p);
    s.search.fixed.use = MT_USE_SOME; /* rank 1 has a share */
    p = new_plan(&s);
    CHECK_EQ(mt_search(&s.search, p, NULL, &err), MT_EINPUT);
    CHECK(strstr(err.text, "rank 1 is given a share"), "%s", err.text);
    mt_plan_free(p);
    tear_down(&s);
    return 0;
}
