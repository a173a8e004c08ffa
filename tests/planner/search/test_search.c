/* The search against brute force and against what it must never lose to, evaluated by mt_predict through plans that are
 * made here: shares of two ranks for all splits, structures on a slow network, memory that binds, random clusters.
 *
 * Longer than other files: all cases share one cluster, one brute force and one way to evaluate a plan. */
#include "tests/planner/search/setting.h"

#include "kernels/base/number/rng.h"
#include "planner/balance/split.h"
#include "planner/cost/algorithms.h"
#include "synth/builder/build.h"
#include "planner/predict/predict.h"
#include "planner/plan/choice.h"

static const char *const small = "gpt2:layers=2,heads=2,embed=64,context=64,vocab=256,bias=0";

/* A plan by hand. */
struct by_hand {
    enum mt_state state;
    enum mt_sync sync;
    int64_t bucket_bytes;
    const double *weight; /* of storage */
    const int64_t *batch;
};

static double priced(const struct setting *s, const struct by_hand *hand) {
    struct mt_plan *p = new_plan(s);
    int labels[16], nlabels = mt_sharding_labels(s->graph, labels);
    p->splits = mt_new(&p->arena, struct mt_plan_split, nlabels + 1);
    p->splits[p->nsplits++] =
        (struct mt_plan_split){.name = "batch",
                               .label = "batch",
                               .align = 1,
                               .sizes = mt_arena_memdup(&p->arena, hand->batch, (size_t)p->nranks * sizeof(int64_t))};
    for (int l = 0; l < nlabels; l++) {
        const struct mt_label *label = &s->graph->labels[labels[l]];
        struct mt_plan_split *split = &p->splits[p->nsplits++];
        *split = (struct mt_plan_split){.name = mt_arena_printf(&p->arena, "storage:%s", label->name),
                                        .label = label->name,
                                        .align = label->align,
                                        .sizes = mt_new(&p->arena, int64_t, p->nranks)};
        CHECK_OK(mt_split_proportional(label->extent, label->align, hand->weight, p->nranks, split->sizes, &err), err);
    }
    memcpy(p->micro, hand->batch, (size_t)p->nranks * sizeof(int64_t));
    p->decisions.nstorage = 1;
    p->decisions.storage = &(struct mt_storage_row){.pattern = "*", .state = hand->state};
    mt_decisions_complete(&p->decisions, &p->arena);
    p->decisions.sync = hand->sync;
    p->decisions.start = mt_plan_default_start(p->device);
    p->decisions.bucket_bytes = hand->bucket_bytes;
    /* Algorithms as the search would take them; then the program as training would build it. */
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_choice choice;
    struct mt_program program;
    struct mt_prediction prediction;
    for (int pass = 0; pass < 2; pass++) {
        if (pass) mt_program_release(&program);
        CHECK_OK(mt_choice_from_plan(s->graph, p, false, &arena, &choice, &err), err);
        CHECK_OK(mt_build(s->graph, &choice, &program, &err), err);
        if (!pass)
            CHECK_OK(mt_algorithm_rows(&program, &s->costs, &p->arena, &p->decisions.algorithms,
                                       &p->decisions.nalgorithms, &err),
                     err);
    }
    CHECK_OK(mt_predict(&program, &s->costs, &options, &prediction, &err), err);
    double step_s = prediction.step_s;
    for (int r = 0; r < p->nranks; r++)
        if (prediction.ranks[r].arena_bytes > p->ranks[r].memory_bytes) step_s = INFINITY;
    mt_arena_release(&prediction.arena);
    mt_program_release(&program);
    mt_arena_release(&arena);
    mt_plan_free(p);
    return step_s;
}

static const struct {
    enum mt_state state;
    enum mt_sync sync;
} ways[] = {{MT_STATE_REPLICATED, MT_SYNC_ALL_REDUCE},
            {MT_STATE_SPLIT, MT_SYNC_REDUCE_SCATTER},
            {MT_STATE_SPLIT, MT_SYNC_ALL_REDUCE}};

/* Under sanitizers programs take long: only the larger shares of the first rank, among them the best. */
#ifdef MOTLEY_SANITIZE
enum { BEGIN = 14, CASES = 2 };
#else
enum { BEGIN = 0, CASES = 25 };
#endif

/* The fastest of all splits of the batch on two ranks, in all structures, with a few splits of storage. */
static double brute_force(const struct setting *s, int64_t bucket_bytes) {
    static const double storages[][2] = {{1, 1}, {2, 1}};
    double best = INFINITY;
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
        for (size_t k = 0; k < sizeof storages / sizeof *storages; k++)
            for (int64_t b = BEGIN; b <= s->job.batch; b++) {
                int64_t batch[2] = {b, s->job.batch - b};
                struct by_hand hand = {ways[w].state, ways[w].sync, bucket_bytes, storages[k], batch};
                best = fmin(best, priced(s, &hand));
            }
    return best;
}

static const int64_t *batch_of(const struct mt_plan *p) {
    return mt_plan_split_named(p, "batch")->sizes;
}

static void test_unequal_pair(void) {
    struct setting s;
    struct mt_search_report report;
    set_up(&s, make_unequal_pair(), small, 24);
    struct mt_plan *p = searched(&s, &report);
    double best = fmin(brute_force(&s, 1 << 20), brute_force(&s, 0));
    CHECK_NEAR(batch_of(p)[0], 16, 1);
    CHECK(p->prediction->step_s <= 1.01 * best, "%g against %g", p->prediction->step_s, best);
    CHECK(p->prediction->bound_s <= best, "%g against %g", p->prediction->bound_s, best);
    CHECK_NEAR(p->ranks[1].speed, 0.5, 0.03);
    CHECK_NEAR(p->ranks[0].speed, 1, 0);
    CHECK(p->prediction->nrejected >= 3, "%d", p->prediction->nrejected);
    for (int i = 0; i + 1 < p->prediction->nrejected; i++)
        CHECK(p->prediction->rejected[i].step_s <= p->prediction->rejected[i + 1].step_s, "%d", i);
    CHECK_TEXT(report.candidates[0].why, "");
    CHECK_NEAR(report.candidates[0].step_s, p->prediction->step_s, 0);

    /* The same again, and the same by its price. */
    struct mt_plan *twin = searched(&s, NULL);
    size_t length[2];
    char *text[2] = {mt_plan_text(p, &length[0]), mt_plan_text(twin, &length[1])};
    CHECK_TEXT(text[0], text[1]);
    CHECK_OK(mt_search_price(&s.search, twin, &err), err);
    CHECK_NEAR(twin->prediction->step_s, p->prediction->step_s, 1e-12);
    CHECK_EQ(twin->memory[0].arena_bytes, p->memory[0].arena_bytes);
    free(text[0]), free(text[1]);
    mt_plan_free(twin);
    mt_plan_free(p);
    mt_search_report_release(&report);
    tear_down(&s);
}

/* On a slow network structures differ most: what brute force prefers among them must not be missed. */
static void test_slow_network(void) {
    for (int slow = 0; slow < 2; slow++) {
        struct setting s;
        struct mt_cluster *cluster = make_cluster(2, 1, 1);
        cluster->devices[1].speed = 0.7;
        if (slow) cluster->links[1].bandwidth_Bps = cluster->links[1].shared_Bps = 5e6;
        set_up(&s, cluster, small, 12);
        struct mt_plan *p = searched(&s, NULL);
        double best = brute_force(&s, 0);
        CHECK(p->prediction->step_s <= 1.01 * best, "%g against %g", p->prediction->step_s, best);
        mt_plan_free(p);
        tear_down(&s);
    }
}

/* Less and less memory: the shares move or the micro-batches shrink, the plan holds, until nothing does. */
static void test_memory(void) {
    struct setting s;
    set_up(&s, make_unequal_pair(), small, 24);
    struct mt_plan *free_plan = searched(&s, NULL);
    int64_t needs = free_plan->memory[0].arena_bytes;
    double before = free_plan->prediction->step_s;
    bool micro = false, failed = false;
    for (int part = 9; part >= 1 && !failed; part -= 2) {
        s.cluster->devices[0].memory_bytes = s.cluster->devices[1].memory_bytes = needs / 10 * part;
        struct mt_plan *p = new_plan(&s);
        if (mt_search(&s.search, p, NULL, &err)) {
            failed = true;
            CHECK_EQ(err.status, MT_EINPUT);
            CHECK(strstr(err.text, "lacks") || strstr(err.text, "fit"), "%s", err.text);
        } else {
            for (int r = 0; r < 2; r++) {
                CHECK(p->memory[r].arena_bytes <= p->ranks[r].memory_bytes, "%d", r);
                micro |= p->micro[r] < batch_of(p)[r];
            }
            CHECK(p->prediction->step_s >= 0.995 * before, "%g after %g", p->prediction->step_s, before);
            before = p->prediction->step_s;
        }
        mt_plan_free(p);
    }
    CHECK(micro, "no micro-batches");
    CHECK(failed, "a tenth of the memory was enough");
    mt_plan_free(free_plan);
    tear_down(&s);
}

/* What a person fixes is kept. */
static void test_fixed(void) {
    struct setting s;
    set_up(&s, make_cluster(3, 2, 2), small, 12);
    const int64_t shares[3] = {2, 9, 1}, micro[3] = {2, 4, 4};
    int64_t vocab[3] = {256, 0, 0};
    struct mt_storage_row rows[1] = {{.pattern = "*", .state = MT_STATE_SPLIT}};
    struct mt_algorithm_row algorithms[1] = {{MT_REDUCE_SCATTER, "ring", 0}};
    s.search.fixed = (struct mt_plan_fixed){.shares = shares,
                                            .micro = micro,
                                            .nstorage_shares = 1,
                                            .storage_shares = &(struct mt_storage_shares){"vocab", vocab},
                                            .decisions = {.nstorage = 1,
                                                          .storage = rows,
                                                          .nalgorithms = 1,
                                                          .algorithms = algorithms,
                                                          .sync = MT_SYNC_REDUCE_SCATTER,
                                                          .start = MT_START_UNSET,
                                                          .bucket_bytes = 12345,
                                                          .gradient_wire = MT_BF16}};
    struct mt_plan *p = searched(&s, NULL);
    const int64_t want_micro[3] = {2, 4, 1};
    for (int r = 0; r < 3; r++) {
        CHECK_EQ(batch_of(p)[r], shares[r]);
        CHECK_EQ(p->micro[r], want_micro[r]);
        CHECK_EQ(mt_plan_split_named(p, "storage:vocab")->sizes[r], vocab[r]);
    }
    CHECK_EQ(p->decisions.sync, MT_SYNC_REDUCE_SCATTER);
    CHECK_EQ(p->decisions.storage[0].state, MT_STATE_SPLIT);
    CHECK_EQ(p->decisions.bucket_bytes, 12345);
    CHECK_EQ(p->decisions.gradient_wire, MT_BF16);
    int scatters = 0;
    for (int c = 0; c < p->decisions.nalgorithms; c++) {
        if (p->decisions.algorithms[c].kind != MT_REDUCE_SCATTER) continue;
        CHECK_TEXT(p->decisions.algorithms[c].algorithm, "ring");
        scatters++;
    }
    CHECK_EQ(scatters, 1);
    mt_plan_free(p);

    const int64_t wrong[3] = {2, 9, 2};
    s.search.fixed = (struct mt_plan_fixed){.decisions = mt_decisions_unset};
    s.search.fixed.shares = wrong;
    p = new_plan(&s);
    CHECK_EQ(mt_search(&s.search, p, NULL, &err), MT_EINPUT);
    CHECK(strstr(err.text, "13") && strstr(err.text, "12"), "%s", err.text);
    mt_plan_free(p);
    tear_down(&s);
}

/* The structure again on another cluster: a faster second rank takes more. */
static void test_again(void) {
    struct setting s;
    set_up(&s, make_unequal_pair(), small, 24);
    struct mt_plan *p = searched(&s, NULL);
    double before = p->prediction->step_s;
    enum mt_sync sync = p->decisions.sync;
    s.cluster->devices[1].speed = 1;
    CHECK_OK(mt_search_rebalance(&s.search, p, NULL, &err), err);
    CHECK_NEAR(batch_of(p)[1], 12, 1);
    CHECK_NEAR(p->prediction->step_s / before, 0.75, 0.03);
    CHECK_EQ(p->decisions.sync, sync);
    mt_plan_free(p);
    tear_down(&s);
}

/* A plan whose rules a person has edited is priced, bounded, solved again and searched from as the program that it
 * stands for: here the first layer runs on every rank, with every sample. */
static void test_edited_rules(void) {
    struct setting s;
    struct mt_search_report report;
    set_up(&s, make_unequal_pair(), small, 24);
    struct mt_plan *p = searched(&s, NULL);
    double bound_s = p->prediction->bound_s, step_s = p->prediction->step_s;
    struct mt_rule_row rules[2] = {{.pattern = "h.0.*", .operators = MT_OPERATORS_REPLICATE, .split = ""},
                                   p->decisions.rules[0]};
    p->decisions.rules = rules, p->decisions.nrules = 2;
    CHECK_OK(mt_search_price(&s.search, p, &err), err);
    double edited_s = p->prediction->step_s;
    CHECK(edited_s > 1.2 * step_s, "%g after %g", edited_s, step_s);
    CHECK(p->prediction->bound_s > 1.1 * bound_s, "a bound of %g, before the edit %g", p->prediction->bound_s, bound_s);
    CHECK(p->prediction->bound_s <= edited_s, "%g of %g", p->prediction->bound_s, edited_s);

    CHECK_OK(mt_search_rebalance(&s.search, p, NULL, &err), err);
    CHECK_EQ(p->decisions.nrules, 2);
    CHECK_EQ(p->decisions.rules[0].operators, MT_OPERATORS_REPLICATE);
    CHECK(p->prediction->step_s <= edited_s * (1 + 1e-9) && p->prediction->step_s > 1.1 * step_s, "%g after %g",
          p->prediction->step_s, edited_s);

    s.search.last = p;
    struct mt_plan *next = searched(&s, &report);
    bool looked = false;
    for (int i = 0; i < report.ncandidates; i++) looked |= strstr(report.candidates[i].what, "as it was") != NULL;
    CHECK(looked, "the edited rules were not looked at");
    CHECK_NEAR(next->prediction->step_s, step_s, 1e-9 * step_s);
    mt_search_report_release(&report);
    mt_plan_free(next);

    /* The curves know no shares of heads: such a plan is priced as it is, with the bound of all programs. */
    int64_t heads[2] = {1, 1};
    struct mt_rule_row by_heads[2] = {{.pattern = "*", .operators = MT_OPERATORS_SPLIT, .split = "heads"}, rules[1]};
    struct mt_plan_split *splits = mt_new(&p->arena, struct mt_plan_split, p->nsplits + 1);
    memcpy(splits, p->splits, (size_t)p->nsplits * sizeof *splits);
    splits[p->nsplits++] = (struct mt_plan_split){.name = "heads", .label = "heads", .align = 1, .sizes = heads};
    p->splits = splits;
    p->decisions.rules = by_heads;
    CHECK_OK(mt_search_price(&s.search, p, &err), err);
    double heads_s = p->prediction->step_s;
    CHECK(p->prediction->bound_s > 0 && p->prediction->bound_s < heads_s, "%g %g", p->prediction->bound_s, heads_s);
    CHECK_OK(mt_search_rebalance(&s.search, p, NULL, &err), err);
    CHECK_NEAR(p->prediction->step_s, heads_s, 1e-9 * heads_s);
    CHECK_TEXT(p->decisions.rules[0].split, "heads");
    mt_plan_free(p);
    tear_down(&s);
}

static void test_one_rank(void) {
    struct setting s;
    set_up(&s, make_cluster(1, 1, 1), small, 5);
    struct mt_plan *p = searched(&s, NULL);
    CHECK_EQ(batch_of(p)[0], 5);
    double step_s = p->prediction->step_s;
    CHECK_NEAR(step_s, p->prediction->bound_s, 0.02 * step_s);
    CHECK_OK(mt_search_price(&s.search, p, &err), err);
    CHECK_NEAR(p->prediction->step_s, step_s, 1e-9 * step_s);
    CHECK_NEAR(p->prediction->bound_s, step_s, 0.02 * step_s);
    mt_plan_free(p);
    tear_down(&s);
}

/* Clusters at random: never worse than even, than proportional to the speeds, than the last plan. */
static void random_cluster(struct setting *s, uint64_t seed) {
    uint32_t draw = 0;
#define DRAW(n) (int)(mt_random_u32(seed, 1, draw++) % (uint32_t)(n))
    int n = 2 + DRAW(4);
    int per_node = 1 + DRAW(n), nclasses = 1 + DRAW(3);
    struct mt_cluster *c = make_cluster(n, per_node, nclasses);
    for (int d = 0; d < n; d++) c->devices[d].speed = 1.0 / (1 + DRAW(5));
    for (int k = 0; k < nclasses && seed % 2; k++) c->classes[k].kind = "cuda";
    for (int l = 0; l < c->nlinks; l++) {
        c->links[l].bandwidth_Bps *= pow(10, DRAW(3) - 1);
        c->links[l].shared_Bps = DRAW(2) ? 0 : c->links[l].bandwidth_Bps;
        c->links[l].compute_slowdown = 0.1 * DRAW(4);
    }
    const char *model = DRAW(4) ? "mlp" : small;
    set_up(s, c, model, 1 + DRAW(40));
#undef DRAW
}

static void test_never_worse(void) {
    for (uint64_t seed = 1; seed <= CASES; seed++) {
        struct setting s;
        random_cluster(&s, seed);
        int n = s.costs.nranks;
        struct mt_plan *p = searched(&s, NULL);
        double weight[2][32];
        for (int r = 0; r < n; r++) weight[0][r] = 1, weight[1][r] = p->ranks[r].speed;
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
            for (int k = 0; k < 2; k++) {
                int64_t batch[32];
                CHECK_OK(mt_split_proportional(s.job.batch, 1, weight[k], n, batch, &err), err);
                struct by_hand hand = {ways[w].state, ways[w].sync, 1 << 20, weight[k], batch};
                double step_s = priced(&s, &hand);
                CHECK(p->prediction->step_s <= step_s * (1 + 1e-9), "seed %d: %g against %g of %s, %s, %d", (int)seed,
                      p->prediction->step_s, step_s, mt_state_names[ways[w].state], mt_sync_names[ways[w].sync], k);
            }
        s.search.last = p;
        s.search.fixed.decisions.sync = p->decisions.sync;
        struct mt_plan *next = searched(&s, NULL);
        CHECK(next->prediction->step_s <= p->prediction->step_s * (1 + 1e-9), "seed %d", (int)seed);
        mt_plan_free(next);
        s.search.last = NULL;
        s.search.fixed.decisions.start = MT_START_FULL; /* another start is the last plan's */
        struct mt_plan *full = searched(&s, NULL);
        CHECK_EQ(full->decisions.start, MT_START_FULL);
        s.search.last = full;
        s.search.fixed.decisions.start = MT_START_UNSET;
        next = searched(&s, NULL);
        CHECK(next->prediction->step_s <= full->prediction->step_s * (1 + 1e-9), "seed %d: %g after %g", (int)seed,
              next->prediction->step_s, full->prediction->step_s);
        mt_plan_free(next);
        mt_plan_free(full);
        mt_plan_free(p);
        tear_down(&s);
    }
}

/* The bound is of computing alone: what messages slow, or do not, is not in it. */
static void test_bound_without_links(void) {
    double bound_s[2];
    for (int slow = 0; slow < 2; slow++) {
        struct setting s;
        struct mt_cluster *c = make_cluster(4, 2, 2);
        for (int l = 0; l < c->nlinks; l++) c->links[l].compute_slowdown = 0.9 * slow;
        set_up(&s, c, small, 64);
        struct mt_plan *p = searched(&s, NULL);
        bound_s[slow] = p->prediction->bound_s;
        CHECK(bound_s[slow] < 0.999 * p->prediction->step_s, "%g of %g", bound_s[slow], p->prediction->step_s);
        mt_plan_free(p);
        tear_down(&s);
    }
    CHECK_NEAR(bound_s[1], bound_s[0], 1e-3 * bound_s[0]);
}

/* A last plan that stores as the search would not have looked at: nothing slower takes its place. */
static void test_last_structure(void) {
    struct setting s;
    set_up(&s, make_cluster(3, 2, 2), small, 12);
    struct mt_storage_row rows[2] = {{.pattern = "wte", .state = MT_STATE_SPLIT},
                                     {.pattern = "*", .state = MT_STATE_REPLICATED}};
    s.search.fixed.decisions.nstorage = 2;
    s.search.fixed.decisions.storage = rows;
    s.search.fixed.decisions.sync = MT_SYNC_REDUCE_SCATTER;
    struct mt_search_report report;
    struct mt_plan *last = searched(&s, NULL);
    s.search.fixed = (struct mt_plan_fixed){.decisions = mt_decisions_unset};
    s.search.last = last;
    struct mt_plan *p = searched(&s, &report);
    bool looked = false;
    for (int i = 0; i < report.ncandidates; i++) looked |= strstr(report.candidates[i].what, "as it was") != NULL;
    CHECK(looked, "the last plan's storage was not looked at");
    CHECK(p->prediction->step_s <= last->prediction->step_s * (1 + 1e-9), "%g after %g", p->prediction->step_s,
          last->prediction->step_s);
    mt_search_report_release(&report);
    mt_plan_free(last);
    mt_plan_free(p);
    tear_down(&s);
}

/* Fixed algorithms of collectives that only some structures have are in nobody's way, and refused where the best has
 * none of them. */
static void test_algorithm_of_some(void) {
    struct setting s;
    set_up(&s, make_cluster(3, 2, 2), small, 12);
    struct mt_storage_row rows[1] = {{.pattern = "*", .state = MT_STATE_SPLIT}};
    struct mt_algorithm_row algorithms[1] = {{MT_REDUCE_SCATTER, "ring", 0}};
    s.search.fixed.decisions.nalgorithms = 1;
    s.search.fixed.decisions.algorithms = algorithms;
    s.search.fixed.decisions.nstorage = 1;
    s.search.fixed.decisions.storage = rows;
    s.cluster->links[1].bandwidth_Bps = s.cluster->links[1].shared_Bps = 1e6;
    struct mt_plan *p = searched(&s, NULL);
    bool scatters = false;
    for (int i = 0; i < p->decisions.nalgorithms; i++) scatters |= p->decisions.algorithms[i].kind == MT_REDUCE_SCATTER;
    CHECK(scatters, "no ReduceScatter");
    mt_plan_free(p);
    s.search.fixed.decisions.sync = MT_SYNC_ALL_REDUCE;
    p = new_plan(&s);
    CHECK_EQ(mt_search(&s.search, p, NULL, &err), MT_EINPUT);
    CHECK(strstr(err.text, "the fastest plan has no ReduceScatter"), "%s", err.text);
    mt_plan_free(p);
    tear_down(&s);
}

int main(void) {
    test_unequal_pair();
    test_slow_network();
    test_memory();
    test_fixed();
    test_again();
    test_edited_rules();
    test_one_rank();
    test_never_worse();
    test_bound_without_links();
    test_last_structure();
    test_algorithm_of_some();
    return 0;
}
