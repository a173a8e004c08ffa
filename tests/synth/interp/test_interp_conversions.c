/* Every conversion between random layouts, by the collective and the groups that mt_layout_groups names, against the
 * whole value; buckets; types on the wire. */
#include "synth/interp/internal.h"
#include "synth/interp/interp.h"
#include "tests/check.h"
#include "tests/synth/parts.h"

/* A graph of one state over three labels (or fewer), and nothing else. */
static struct mt_graph *one_value_graph(int naxes, const int64_t *extent, enum mt_type type) {
    struct mt_graph *g = mt_graph_new(MT_F64);
    struct mt_err err = MT_ERR_INIT;
    static const char *const names[] = {"a", "b", "c"};
    int labels[3];
    for (int a = 0; a < naxes; a++) CHECK_OK(mt_graph_label(g, names[a], extent[a], 1, &labels[a], &err), err);
    mt_graph_value(g, "x", MT_VALUE_STATE, type, naxes, labels);
    return g;
}

static int add_value(struct mt_program *p, int layout, enum mt_type type, bool input) {
    int v = mt_program_value(p, 0, layout, type, MT_PROLOGUE);
    p->values[v].input = input;
    return v;
}

static void run(struct mt_interp *interp) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_clock clock = {.step = 1};
    CHECK_OK(mt_interp_step(interp, &clock, &err), err);
}

static void describe(const struct mt_program *p, int from, int to, enum mt_conversion c, char *text, size_t size) {
    struct mt_arena arena = MT_ARENA_INIT;
    snprintf(text, size, "%s: %s -> %s", conversion_names[c], mt_layout_text(&p->layouts, from, &arena),
             mt_layout_text(&p->layouts, to, &arena));
    mt_arena_release(&arena);
}

/* One random conversion; whole numbers, so that sums are exact in any order. Returns its kind. */
static enum mt_conversion convert(struct dice *dice) {
    int n = 1 + (int)roll(dice, 6), naxes = (int)roll(dice, 4);
    int64_t extent[3] = {1 + roll(dice, 7), 1 + roll(dice, 5), 1 + roll(dice, 4)};
    enum mt_reduce reduce = roll(dice, 3) ? MT_SUM : MT_MAX, other = roll(dice, 5) ? reduce : MT_SUM;
    enum mt_type type = roll(dice, 5) || reduce == MT_MAX ? MT_F64 : MT_I32;
    struct mt_graph *g = one_value_graph(naxes, extent, type);
    struct mt_program p;
    mt_program_init(&p, g, n);
    int from = random_layout(dice, &p.layouts, naxes, extent, reduce);
    int to = random_layout(dice, &p.layouts, naxes, extent, other), group[6];
    enum mt_conversion c = mt_layout_groups(&p.layouts, from, to, group);
    int in = add_value(&p, from, type, true), out = add_value(&p, to, type, false);
    struct mt_instr instr = {.kind = c <= MT_CONVERT_SLICE ? MT_INSTR_SLICE : MT_INSTR_COLLECTIVE,
                             .gop = -1,
                             .nin = 1,
                             .nout = 1,
                             .in = &in,
                             .out = &out,
                             .coll = mt_conversion_coll[c],
                             .wire = type,
                             .acc = type,
                             .reduce = p.layouts.items[from].reduce,
                             .group = group,
                             .algorithm = "auto"};
    mt_program_add(&p, MT_LAST, &instr);

    double truth[7 * 5 * 4];
    for (int64_t e = 0; e < value_count(&p.layouts.items[from]); e++) truth[e] = (double)(roll(dice, 201) - 100);
    struct mt_interp *interp = mt_interp_new(&p);
    feed_value(dice, interp, in, truth);
    char what[1024];
    describe(&p, from, to, c, what, sizeof what);
    run(interp);
    check_value(interp, out, truth, 0, what);
    mt_interp_free(interp);
    mt_program_release(&p);
    mt_graph_free(g);
    return c;
}

static float through(enum mt_type wire, float x) {
    return wire == MT_BF16 ? mt_bf16_to_f32(mt_bf16_from_f32(x)) : mt_f16_to_f32(mt_f16_from_f32(x));
}

/* Sums in f32 of halves' messages: contributions, and an AllReduce's result, are rounded to the wire's type. */
static void test_wire(struct dice *dice, enum mt_type wire) {
    enum { N = 4, COUNT = 33 };
    const int64_t extent[] = {COUNT};
    struct mt_graph *g = one_value_graph(1, extent, MT_F32);
    struct mt_program p;
    mt_program_init(&p, g, N);
    int partial = mt_layout_partial(&p.layouts, 1, extent, MT_SUM), whole = mt_layout_replicated(&p.layouts, 1, extent);
    int in = add_value(&p, partial, MT_F32, true), out = add_value(&p, whole, MT_F32, false), group[N] = {0};
    struct mt_instr instr = {.kind = MT_INSTR_COLLECTIVE,
                             .gop = -1,
                             .nin = 1,
                             .nout = 1,
                             .in = &in,
                             .out = &out,
                             .coll = MT_ALL_REDUCE,
                             .reduce = MT_SUM,
                             .wire = wire,
                             .acc = MT_F32,
                             .group = group,
                             .algorithm = "auto"};
    mt_program_add(&p, MT_LAST, &instr);
    float part[N][COUNT];
    struct mt_interp *interp = mt_interp_new(&p);
    for (int r = 0; r < N; r++) {
        void *buffer = mt_interp_alloc(&p, in, r);
        for (int i = 0; i < COUNT; i++) part[r][i] = (float)roll_real(dice);
        mt_interp_install(interp, in, r, memcpy(buffer, part[r], sizeof part[r]));
    }
    run(interp);
    for (int r = 0; r < N; r++)
        for (int i = 0; i < COUNT; i++) {
            float sum = 0;
            for (int q = 0; q < N; q++) sum += through(wire, part[q][i]);
            CHECK_NEAR(((float *)*mt_interp_buffer(interp, out, r))[i], through(wire, sum), 0);
        }
    mt_interp_free(interp);
    mt_program_release(&p);
    mt_graph_free(g);
}

/* A bucket of two values in one message, and a broadcast that makes unequal replicas equal. */
static void test_bucket_and_broadcast(struct dice *dice) {
    enum { N = 3, COUNT = 10 };
    const int64_t extent[] = {COUNT};
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_graph *g = one_value_graph(1, extent, MT_F64);
    struct mt_split split;
    random_split(dice, &arena, N, COUNT, &split);
    struct mt_program p;
    mt_program_init(&p, g, N);
    int s = mt_layout_split(&p.layouts, 1, extent, 0, &split), whole = mt_layout_replicated(&p.layouts, 1, extent);
    int in[2] = {add_value(&p, s, MT_F64, true), add_value(&p, s, MT_F64, true)};
    int out[2] = {add_value(&p, whole, MT_F64, false), add_value(&p, whole, MT_F64, false)}, group[N] = {0};
    struct mt_instr bucket = {.kind = MT_INSTR_COLLECTIVE,
                              .gop = -1,
                              .nin = 2,
                              .nout = 2,
                              .in = in,
                              .out = out,
                              .coll = MT_ALL_GATHER,
                              .wire = MT_F64,
                              .acc = MT_F64,
                              .group = group,
                              .algorithm = "auto"};
    mt_program_add(&p, MT_LAST, &bucket);
    int unequal = add_value(&p, whole, MT_F64, true), equal = add_value(&p, whole, MT_F64, false), pair[N] = {0, 1, 1};
    struct mt_instr broadcast = bucket;
    broadcast.coll = MT_BROADCAST, broadcast.nin = broadcast.nout = 1, broadcast.group = pair;
    broadcast.in = &unequal, broadcast.out = &equal;
    mt_program_add(&p, MT_LAST, &broadcast);

    double truth[2][COUNT];
    struct mt_interp *interp = mt_interp_new(&p);
    for (int i = 0; i < 2; i++) {
        for (int e = 0; e < COUNT; e++) truth[i][e] = roll_real(dice);
        feed_value(dice, interp, in[i], truth[i]);
    }
    for (int r = 0; r < N; r++) {
        double *buffer = mt_interp_alloc(&p, unequal, r);
        for (int e = 0; e < COUNT; e++) buffer[e] = 100 * r + e;
        mt_interp_install(interp, unequal, r, buffer);
    }
    run(interp);
    for (int i = 0; i < 2; i++) check_value(interp, out[i], truth[i], 0, "a bucket");
    for (int r = 0; r < N; r++) CHECK_NEAR(((double *)*mt_interp_buffer(interp, equal, r))[3], r == 0 ? 3 : 103, 0);
    mt_interp_free(interp);
    mt_program_release(&p);
    mt_graph_free(g);
    mt_arena_release(&arena);
}

int main(void) {
    struct dice dice = {.seed = 20261121};
    printf("seed %llu\n", (unsigned long long)dice.seed);
    int seen[MT_NCONVERSIONS] = {0};
    for (int round = 0; round < 6000; round++) seen[convert(&dice)]++;
    for (int c = 0; c < MT_NCONVERSIONS; c++) {
        printf("%s %d\n", conversion_names[c], seen[c]);
        CHECK(seen[c] >= 100, "%s was tried %d times only", conversion_names[c], seen[c]);
    }
    test_wire(&dice, MT_BF16);
    test_wire(&dice, MT_F16);
    test_bucket_and_broadcast(&dice);
    return 0;
}
