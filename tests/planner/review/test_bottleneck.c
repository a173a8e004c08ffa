/* The bottleneck that is named, by solving again independently with 1% more of every resource (explain_cases.h), on
 * small jobs; tests/bench/explain.c has the large ones. And its words. */
#include "tests/planner/review/explain_cases.h"

#include <math.h>

static void test_named_first(void) {
    static const struct {
        const char *cluster, *model;
        int64_t batch;
    } cases[] = {
        {"h100:1", "gpt2:layers=2,heads=4,embed=256,context=128,vocab=512", 8},
        {"h100:1x4", "gpt2:layers=2,heads=4,embed=256,context=128,vocab=512", 32},
        {"h100:2x2 net=10G", "gpt2:layers=2,heads=8,embed=512,context=128,vocab=4096", 32},
        {"a10:1 net=1G + h100:1 + l4:1", "gpt2:layers=4,heads=8,embed=512,context=256,vocab=1024", 8},
        {"a100-80:1x2 net=25G + t4:1x4", "gpt2:layers=2,heads=8,embed=512,context=256,vocab=1024", 24},
        {"a100-80:1x2 net=110G + v100:1x2 + t4:1x3", "gpt2:layers=3,heads=8,embed=512,context=256,vocab=1024", 40},
        {"h100:1 net=10G egress=1G + h100:1", "gpt2:layers=2,heads=8,embed=512,context=256,vocab=1024", 64},
    };
#ifdef __SANITIZE_ADDRESS__
    const size_t ncases = 4; /* ten times as long: the others run without */
#else
    const size_t ncases = sizeof cases / sizeof *cases;
#endif
    for (size_t i = 0; i < ncases; i++) {
        char what[200];
        double regret = explain_regret(cases[i].cluster, cases[i].model, cases[i].batch, what);
        printf("%s: %s\n", cases[i].cluster, what);
        CHECK(regret <= 0.001, "%s: %s is named, but another saves %.2f%% of the step more", cases[i].cluster, what,
              100 * regret);
    }
}

static void test_text(void) {
    char text[MT_BOTTLENECK_TEXT];
    struct mt_resource items[2] = {
        {.kind = MT_RESOURCE_BANDWIDTH, .what = "link net", .tried = true, .saves_s = 2.1e-3},
        {.kind = MT_RESOURCE_LATENCY, .what = "latency of link net", .tried = true}};
    struct mt_bottlenecks found = {.count = 9, .ntried = 2, .items = items, .base_s = 1};
    CHECK_TEXT(mt_bottlenecks_text(&found, text),
               "link net: one percent more of it saves 2.10 ms a step (of 9 resources, 2 were tried)");
    items[0] = (struct mt_resource){.kind = MT_RESOURCE_LATENCY, .what = "latency of link net", .saves_s = 1e-6};
    found.count = 2;
    CHECK_TEXT(mt_bottlenecks_text(&found, text), "latency of link net: one percent less of it saves 1.00 us a step");
    items[0].saves_s = 0;
    CHECK_TEXT(mt_bottlenecks_text(&found, text), "no single resource: one percent more of any saves nothing");
    bool chosen[16] = {1, 0, 1, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1};
    struct mt_arena arena = MT_ARENA_INIT;
    CHECK_TEXT(mt_rank_list(chosen, 4, &arena), "ranks 0 2-3");
    CHECK_TEXT(mt_rank_list(chosen, 1, &arena), "rank 0");
    CHECK_TEXT(mt_rank_list(chosen, 16, &arena), "ranks 0 2-3 5 7 9 11 ... (9 ranks)");
    mt_arena_release(&arena);
}

int main(void) {
    test_text();
    test_named_first();
    return 0;
}
