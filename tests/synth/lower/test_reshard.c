/* Any layout to any other with little memory for messages: random pairs, proven, run, compared element by element. The
 * other nine tenths of them are tests/bench/reshard.c's. */
#include "tests/synth/reshard.h"

enum { SEED_OF_PAIRS = 20261123, PAIRS = 100 };

static void test_random_pairs(void) {
    struct dice dice = {.seed = SEED_OF_PAIRS};
    int cut[MT_NCONVERSIONS] = {0};
    for (int i = 0; i < PAIRS; i++) {
        enum mt_conversion conversion;
        int chunks = reshard_test(&dice, 2 + i % 5, 1 << 20, 256 << 10, &conversion);
        cut[conversion] += chunks > 1;
    }
    for (int c = MT_CONVERT_ALL_REDUCE; c < MT_NCONVERSIONS; c++)
        if (c != MT_CONVERT_ALL_REDUCE) CHECK(cut[c] > 0, "no %s is cut", conversion_names[c]);
}

/* Down to messages of single elements per transfer, on small values. */
static void test_tiny_messages(void) {
    struct dice dice = {.seed = SEED_OF_PAIRS + 1};
    for (int i = 0; i < 200; i++) {
        enum mt_conversion conversion;
        reshard_test(&dice, 2 + i % 5, 4096, 1024, &conversion);
    }
}

/* The parts of a box tile it, and none is much larger than its share. */
static void test_cut(void) {
    struct dice dice = {.seed = SEED_OF_PAIRS + 2};
    for (int i = 0; i < 2000; i++) {
        int naxes = 1 + (int)roll(&dice, 3), parts = 1 + (int)roll(&dice, 40);
        struct mt_box box = {{0}, {0}};
        int64_t longest = 1;
        for (int a = 0; a < naxes; a++) {
            box.lo[a] = roll(&dice, 5);
            box.hi[a] = box.lo[a] + roll(&dice, roll(&dice, 2) ? 4 : 300);
            if (box.hi[a] - box.lo[a] > longest) longest = box.hi[a] - box.lo[a];
        }
        int64_t count = mt_box_count(&box, naxes), covered = 0;
        struct mt_box cut[40], both;
        for (int p = 0; p < parts; p++) {
            cut[p] = mt_box_cut(&box, naxes, p, parts);
            int64_t mine = mt_box_count(&cut[p], naxes);
            CHECK(mt_box_within(&cut[p], &box, naxes), "part %d of %d is within the box", p, parts);
            CHECK(mine <= 2 * count / parts + 1 || longest < 2, "part %d of %d has %lld of %lld elements", p, parts,
                  (long long)mine, (long long)count);
            for (int q = 0; q < p; q++)
                CHECK(!mt_box_intersect(&cut[p], &cut[q], naxes, &both), "parts %d and %d overlap", p, q);
            covered += mine;
        }
        CHECK_EQ(covered, count);
    }
}

/* A partial value of halves, which nobody needs afterwards, is summed in place, part by part. */
static void test_in_place(void) {
    struct dice dice = {.seed = SEED_OF_PAIRS + 3};
    const int64_t extent[] = {30, 17}, staging_bytes = 512;
    for (int n = 2; n <= RESHARD_RANKS; n++) {
        struct mt_arena arena = MT_ARENA_INIT;
        struct mt_err err = MT_ERR_INIT;
        struct mt_split split;
        struct reshard r;
        reshard_program(&r, n, 2, extent, MT_BF16);
        struct mt_layouts *layouts = &r.program.layouts;
        random_split(&dice, &arena, n, extent[0], &split);
        CHECK(reshard_between(&r, mt_layout_split(layouts, 2, extent, 0, &split),
                              mt_layout_partial(layouts, 2, extent, MT_SUM), mt_layout_replicated(layouts, 2, extent)),
              "two collectives");
        CHECK_EQ(r.conversion, MT_CONVERT_ALL_REDUCE);
        for (int v = 0; v < r.program.nvalues; v++) r.program.values[v].next = -1; /* in no state's memory */
        reshard_lower(&r, staging_bytes);
        for (int rank = 0; rank < n; rank++) {
            const struct mt_lowered *low = r.lowered[rank];
            const struct mt_linstr *last = &low->instrs[low->ninstrs - 1];
            while (last->what != MT_LOWERED_COLLECTIVE) last--;
            CHECK(last->chunk.parts > 1, "the sum is in parts");
            CHECK_EQ(low->values[last->in[0]].offset_bytes, low->values[last->out[0]].offset_bytes);
        }
        CHECK_OK(mt_check_lowered(&r.program, (const struct mt_lowered *const *)r.lowered,
                                  &(struct mt_lower_options){0}, NULL, &err),
                 err);
        reshard_run(&dice, &r);
        reshard_release(&r);
        mt_arena_release(&arena);
    }
}

/* A limit that no part can keep is refused, with the value and what it needs. */
static void test_refusal(void) {
    const int64_t extent[] = {30, 17};
    struct mt_err err = MT_ERR_INIT;
    struct mt_lowered *low;
    struct reshard r;
    reshard_program(&r, 3, 2, extent, MT_F32);
    struct mt_layouts *layouts = &r.program.layouts;
    CHECK(reshard_between(&r, mt_layout_partial(layouts, 2, extent, MT_SUM), -1,
                          mt_layout_partial(layouts, 2, extent, MT_MAX)),
          "an AllToAll");
    r.program.staging_bytes = 32;
    CHECK_EQ(mt_lower(&r.program, 0, &(struct mt_lower_options){0}, &low, &err), MT_EINPUT);
    CHECK(strstr(err.text, "32 bytes of staging are too few to move x in parts"), "%s", err.text);
    mt_program_release(&r.program);
    mt_graph_free(r.graph);
}

int main(void) {
    test_in_place();
    test_refusal();
    test_cut();
    test_tiny_messages();
    test_random_pairs();
    return 0;
}
