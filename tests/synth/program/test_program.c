/* Programs: which samples a block's places hold, tensors of operands, copies, hashes, and the listing. */
#include "synth/ops/ops.h"
#include "synth/program/program.h"
#include "tests/check.h"
#include "tests/synth/layout/random_layout.h"
#include "tests/synth/copy_program.h"

/* x[batch, in] w[in, out] -> y, on `nranks`; the batch is 7, in 4, out 3. */
static struct mt_graph *small_graph(void) {
    struct mt_graph *g = mt_graph_new(MT_F32);
    struct mt_err err = MT_ERR_INIT;
    int label;
    CHECK_OK(mt_graph_label(g, "batch", 7, 1, &g->batch, &err), err);
    CHECK_OK(mt_graph_label(g, "in", 4, 1, &label, &err), err);
    CHECK_OK(mt_graph_label(g, "out", 3, 1, &label, &err), err);
    int x = mt_graph_input(g, "x", MT_F32, "batch in"), w = mt_graph_param(g, "w", "in,out", MT_INIT_NORMAL, 1);
    mt_op_matmul(g, "y", x, w, 1, 0);
    return g;
}

/* Every sample of the batch has one place in one iteration of one block, on the rank whose share it is. */
static void test_samples(struct dice *dice) {
    struct mt_graph *g = small_graph();
    for (int round = 0; round < 500; round++) {
        struct mt_arena arena = MT_ARENA_INIT;
        struct mt_program p;
        struct mt_split split;
        int n = 1 + (int)roll(dice, 5), seen[7] = {0};
        mt_program_init(&p, g, n);
        random_split(dice, &arena, n, 7, &split);
        int64_t most = 0;
        for (int r = 0; r < n; r++) {
            p.batch_size[r] = split.sizes[r];
            p.batch_start[r] = split.starts[r];
            p.body_count[r] = roll(dice, split.sizes[r] + 1);
            p.body_size[r] = p.body_count[r] ? split.sizes[r] / p.body_count[r] : 0;
            p.last_size[r] = split.sizes[r] - p.body_count[r] * p.body_size[r];
            if (p.body_count[r] > most) most = p.body_count[r];
        }
        for (int b = MT_BODY; b <= MT_LAST; b++)
            for (int64_t i = 0; i < (b == MT_BODY ? most : 1); i++) {
                int64_t place = 0;
                for (int r = 0; r < n; r++) {
                    int64_t count = b == MT_BODY ? p.body_size[r] : p.last_size[r];
                    int64_t first = split.starts[r] + (b == MT_BODY ? i : p.body_count[r]) * p.body_size[r];
                    for (int64_t k = 0; k < count; k++, place++) {
                        CHECK_EQ(mt_program_sample(&p, (enum mt_block_kind)b, i, place), first + k);
                        if (b == MT_BODY && i >= p.body_count[r]) continue;
                        CHECK(first + k >= split.starts[r] && first + k < split.starts[r + 1], "another rank's sample");
                        seen[first + k]++;
                    }
                }
                CHECK_EQ(mt_program_batch(&p, (enum mt_block_kind)b), place);
            }
        for (int s = 0; s < 7; s++) CHECK_EQ(seen[s], 1);
        mt_program_release(&p);
        mt_arena_release(&arena);
    }
    struct mt_program p; /* all ranks see all samples: 7 as 3 3 1 */
    mt_program_init(&p, g, 2);
    for (int r = 0; r < 2; r++) p.batch_size[r] = 7, p.body_count[r] = 2, p.body_size[r] = 3, p.last_size[r] = 1;
    CHECK_EQ(mt_program_batch(&p, MT_BODY), 3);
    CHECK_EQ(mt_program_batch(&p, MT_LAST), 1);
    CHECK_EQ(mt_program_sample(&p, MT_BODY, 1, 2), 5);
    CHECK_EQ(mt_program_sample(&p, MT_LAST, 0, 0), 6);
    mt_program_release(&p);

    /* Nodes of ranks 1 and 3, 0 and 4, and 2 without samples: 3 as 2 1, and 4 as 3 1. */
    static const int64_t size[] = {4, 3, 0, 3, 4}, start[] = {3, 0, 3, 0, 3}, body[] = {3, 2, 0, 2, 3};
    static const int64_t in_body[] = {0, 1, 3, 4, 5}, in_last[] = {2, 6};
    int first[5];
    mt_program_init(&p, g, 5);
    for (int r = 0; r < 5; r++) {
        p.batch_size[r] = size[r], p.batch_start[r] = start[r], p.body_size[r] = body[r];
        p.body_count[r] = body[r] > 0, p.last_size[r] = size[r] - body[r];
    }
    CHECK_EQ(mt_program_sample_groups(&p, first), 2);
    CHECK_EQ(first[0], 1);
    CHECK_EQ(first[1], 0);
    CHECK_EQ(mt_program_batch(&p, MT_BODY), 5);
    CHECK_EQ(mt_program_batch(&p, MT_LAST), 2);
    for (int i = 0; i < 5; i++) CHECK_EQ(mt_program_sample(&p, MT_BODY, 0, i), in_body[i]);
    for (int i = 0; i < 2; i++) CHECK_EQ(mt_program_sample(&p, MT_LAST, 0, i), in_last[i]);
    mt_program_release(&p);
    mt_graph_free(g);
}

/* Two ranks, 4 and 3 samples; rank 0 in micro-batches of 2. y is computed in BODY; w is gathered from S in the
 * prologue. */
static void small_program(const struct mt_graph *g, struct mt_program *p) {
    const int64_t shares[] = {4, 3}, starts[] = {0, 4}, body_extent[] = {2, 4}, w_extent[] = {4, 3},
                  y_extent[] = {2, 3};
    int64_t body[] = {2, 0}, body_starts[] = {0, 2, 2}, in[] = {1, 3}, in_starts[] = {0, 1, 4};
    struct mt_split batch = {.sizes = body, .starts = body_starts}, storage = {.sizes = in, .starts = in_starts};
    mt_program_init(p, g, 2);
    for (int r = 0; r < 2; r++) {
        p->batch_size[r] = shares[r];
        p->batch_start[r] = starts[r];
        p->body_size[r] = r ? 0 : 2;
        p->body_count[r] = r ? 0 : 1;
        p->last_size[r] = r ? 3 : 2;
    }
    int gx = mt_graph_find_value(g, "x"), gw = mt_graph_find_value(g, "w"), gy = mt_graph_find_value(g, "y");
    struct mt_layouts *t = &p->layouts;
    int w = mt_program_value(p, gw, mt_layout_split(t, 2, w_extent, 0, &storage), MT_F32, MT_PROLOGUE);
    p->values[w].input = true;
    int whole = mt_program_value(p, gw, mt_layout_replicated(t, 2, w_extent), MT_F32, MT_PROLOGUE), group[] = {0, 0};
    struct mt_instr gather = {.kind = MT_INSTR_COLLECTIVE,
                              .gop = -1,
                              .nin = 1,
                              .nout = 1,
                              .in = &w,
                              .out = &whole,
                              .coll = MT_ALL_GATHER,
                              .wire = MT_F32,
                              .acc = MT_F32,
                              .group = group,
                              .algorithm = "ring"};
    mt_program_add(p, MT_PROLOGUE, &gather);
    int x = mt_program_value(p, gx, mt_layout_split(t, 2, body_extent, 0, &batch), MT_F32, MT_BODY);
    p->values[x].input = true;
    int y = mt_program_value(p, gy, mt_layout_split(t, 2, y_extent, 0, &batch), MT_F32, MT_BODY);
    struct mt_instr op = {.kind = MT_INSTR_OP, .gop = 0, .nin = 2, .nout = 1, .in = (int[]){x, whole}, .out = &y};
    mt_program_add(p, MT_BODY, &op);
    int sum = mt_program_value(p, gw, mt_layout_partial(t, 2, w_extent, MT_SUM), MT_F32, MT_EPILOGUE);
    struct mt_instr zero = {.kind = MT_INSTR_ZERO, .gop = -1, .nout = 1, .out = &sum};
    mt_program_add(p, MT_EPILOGUE, &zero);
}

static void test_tensors(const struct mt_graph *g) {
    struct mt_program p;
    struct mt_tensor in[2], out[1];
    struct mt_err err = MT_ERR_INIT;
    small_program(g, &p);
    struct mt_instr *op = &p.blocks[MT_BODY].instrs[0];
    CHECK_OK(mt_program_tensors(&p, MT_BODY, op, 0, 1, in, out, &err), err);
    CHECK_EQ(in[0].extent[0], 2);
    CHECK_EQ(in[0].offset[0], 2); /* the second iteration's samples */
    CHECK_EQ(in[0].global[0], 7);
    CHECK_EQ(in[0].global[1], 4);
    CHECK_OK(mt_program_tensors(&p, MT_BODY, op, 1, 0, in, out, &err), err);
    CHECK_EQ(in[0].extent[0], 0); /* no samples, but its columns are the weight's rows */
    CHECK_EQ(in[0].extent[1], 4);
    CHECK_EQ(out[0].extent[1], 3);
    op->in[1] = 0; /* the weight's shares do not fit whole columns */
    CHECK_EQ(mt_program_tensors(&p, MT_BODY, op, 0, 0, in, out, &err), MT_EBUG);
    op->in[1] = 2; /* nor does another value */
    CHECK_EQ(mt_program_tensors(&p, MT_BODY, op, 0, 0, in, out, &err), MT_EBUG);
    mt_program_release(&p);
}

static void check_listing(const struct mt_program *p, int rank, const char *want) {
    char *text;
    size_t length;
    FILE *file = open_memstream(&text, &length);
    mt_program_print(p, rank, file);
    fclose(file);
    CHECK_TEXT(text, want);
    free(text);
}

static void test_listing(const struct mt_graph *g) {
    struct mt_program p;
    small_program(g, &p);
    p.values[0].next = 1;
    check_listing(&p, -1,
                  "forward program of 2 ranks; batch 7 as 4 3\n"
                  "prologue\n"
                  "  %0 = state w : S(0: 1 3) f32, then %1\n"
                  "  AllGather: 1 value, 48 bytes, wire f32, ring\n"
                  "    %1 = %0 w : S(0: 1 3) -> R f32\n"
                  "body: times 1 0, samples 2 0\n"
                  "  %2 = input x : S(0: 2 0) f32\n"
                  "  %3 = matmul y(%2, %1) : S(0: 2 0) f32\n"
                  "last: samples 2 3\n"
                  "epilogue\n"
                  "  %4 = zero w : P(sum) f32\n");
    p.blocks[MT_PROLOGUE].instrs[0].group[1] = 1;
    check_listing(&p, 1,
                  "forward program of 2 ranks, rank 1's view; batch 7 as 4 3\n"
                  "prologue\n"
                  "  %0 = state w : [1:4 0:3] f32, then %1\n"
                  "  AllGather: 1 value, 48 bytes, wire f32, ring, groups 0 1\n"
                  "    %1 = %0 w : [1:4 0:3] -> [0:4 0:3] f32\n"
                  "body: times 0, samples 0\n"
                  "  %2 = input x : nothing f32\n"
                  "  %3 = matmul y(%2, %1) : nothing f32\n"
                  "last: samples 3\n"
                  "epilogue\n"
                  "  %4 = zero w : [0:4 0:3] sum part 1 of 2 f32\n");
    mt_program_release(&p);
}

/* Change one thing that decides what is computed. */
static bool change(struct mt_program *p, int what) {
    struct mt_instr *gather = &p->blocks[MT_PROLOGUE].instrs[0], *op = &p->blocks[MT_BODY].instrs[0];
    switch (what) {
    case 0: p->values[0].next = 1; return true;
    case 1: p->values[1].type = MT_BF16; return true;
    case 2: p->values[1].layout = p->values[4].layout; return true;
    case 3: p->values[2].input = false; return true;
    case 4: p->values[3].covers = MT_COVERS_BODY; return true;
    case 5: p->values[3].gvalue = 0; return true;
    case 6: p->values[4].block = MT_LAST; return true;
    case 7: gather->wire = MT_BF16; return true;
    case 8: gather->acc = MT_F64; return true;
    case 9: gather->coll = MT_BROADCAST; return true;
    case 10: gather->reduce = MT_SUM; return true;
    case 11: gather->group[1] = 1; return true;
    case 12: gather->algorithm = "bruck"; return true;
    case 13: gather->out[0] = 4; return true;
    case 14: op->in[1] = 0; return true;
    case 15: p->blocks[MT_EPILOGUE].ninstrs = 0; return true;
    case 16: p->body_count[1] = 1; return true;
    case 17: p->last_size[0] = 1; return true;
    case 18: p->train = true; return true;
    default: return false;
    }
}

static void test_copy_and_hash(const struct mt_graph *g) {
    struct mt_program p, again, copy;
    char hash[33], other[33], seen[32][33];
    small_program(g, &p);
    small_program(g, &again);
    mt_program_hash(&p, hash);
    mt_program_hash(&again, other);
    CHECK_TEXT(other, hash);
    CHECK_EQ(strlen(hash), 32);
    for (int what = 0;; what++) {
        copy_program(&p, &copy);
        mt_program_hash(&copy, other);
        CHECK_TEXT(other, hash);
        bool changed = change(&copy, what);
        mt_program_hash(&copy, seen[what]);
        mt_program_release(&copy);
        mt_program_hash(&p, other); /* the original is as it was */
        CHECK_TEXT(other, hash);
        if (!changed) break;
        CHECK(strcmp(seen[what], hash), "change %d does not show in the hash", what);
        for (int w = 0; w < what; w++) CHECK(strcmp(seen[what], seen[w]), "changes %d and %d look equal", w, what);
    }
    struct mt_graph *longer = small_graph();
    mt_op_relu(longer, "relu", mt_graph_find_value(longer, "y"));
    p.graph = longer;
    mt_program_hash(&p, other);
    CHECK(strcmp(other, hash), "the graph does not show in the hash");
    mt_graph_free(longer);
    mt_program_release(&p);
    mt_program_release(&again);
}

int main(void) {
    struct dice dice = {.seed = 20261124};
    printf("seed %llu\n", (unsigned long long)dice.seed);
    struct mt_graph *g = small_graph();
    test_samples(&dice);
    test_tensors(g);
    test_listing(g);
    test_copy_and_hash(g);
    mt_graph_free(g);
    return 0;
}
