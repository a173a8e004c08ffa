/* Which calls become one: equal ones that follow one another and are independent. */
#include "launcher/execute/merge.h"

#include "tests/check.h"

enum { MOST = 16, N = 64 };

static float memory[4 * MOST][N];
static const struct mt_clock clock = {.step = 1};
static const bool merges[MT_NOPS] = {[MT_OP_cast] = true, [MT_OP_sq_norm_add] = true, [MT_OP_adamw] = true};
static const struct mt_attr attrs[2] = {{.to = MT_BF16, .lr_scale = 1}, {.to = MT_BF16, .lr_scale = 2}};

struct scene {
    struct mt_call calls[MOST];
    struct mt_tensor in[MOST][2], out[MOST];
    bool apart[MOST];
    int n, many[MOST];
};

static struct mt_tensor vector(enum mt_type type, void *data, int64_t n) {
    return (struct mt_tensor){data, type, 1, {n}, {0}, {n}};
}

/* A cast from memory[from] to memory[to]. */
static void add_cast(struct scene *s, int from, int to) {
    int i = s->n++;
    s->in[i][0] = vector(MT_F32, memory[from], N);
    s->out[i] = vector(MT_BF16, memory[to], N);
    s->calls[i] = (struct mt_call){.kind = MT_OP_cast,
                                   .attr = &attrs[i % 2],
                                   .nin = 1,
                                   .nout = 1,
                                   .in = s->in[i],
                                   .out = &s->out[i],
                                   .clock = &clock};
}

/* memory[to][0] = memory[before][0] + the squares of memory[from] */
static void add_norm(struct scene *s, int from, int before, int to) {
    int i = s->n++;
    s->in[i][0] = vector(MT_F32, memory[from], N);
    s->in[i][1] = (struct mt_tensor){.data = memory[before], .type = MT_F32};
    s->out[i] = (struct mt_tensor){.data = memory[to], .type = MT_F32};
    s->calls[i] = (struct mt_call){
        .kind = MT_OP_sq_norm_add, .attr = &attrs[0], .nin = 2, .nout = 1, .in = s->in[i], .out = &s->out[i]};
}

/* `want`: a digit a call, what `many` must be. */
static void expect(struct scene *s, const char *want) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_err err = MT_ERR_INIT;
    struct mt_call before[MOST];
    memcpy(before, s->calls, sizeof before);
    mt_merge_calls(s->calls, merges, s->apart, s->n, &arena, s->many);
    for (int i = 0; i < s->n; i++) {
        CHECK_EQ(s->many[i], want[i] - '0');
        CHECK_EQ(s->calls[i].ncalls, s->many[i] > 1 ? s->many[i] : 0);
        CHECK_OK(mt_call_check(&s->calls[i], &err), err);
        for (int k = 0; k < s->many[i] && s->many[i] > 1; k++) { /* each part is the call that was there */
            struct mt_call part = mt_call_nth(&s->calls[i], k), *was = &before[i + k];
            CHECK(part.kind == was->kind && part.clock == was->clock && !part.ncalls);
            CHECK(part.attr->lr_scale == was->attr->lr_scale);
            for (int x = 0; x < part.nin; x++) CHECK(part.in[x].data == was->in[x].data);
            CHECK(part.out[0].data == was->out[0].data);
        }
    }
    mt_arena_release(&arena);
}

int main(void) {
    struct scene s = {.n = 0};
    for (int i = 0; i < 5; i++) add_cast(&s, i, 20 + i);
    expect(&s, "50000");

    s = (struct scene){.apart = {[2] = true}}; /* something waits */
    for (int i = 0; i < 5; i++) add_cast(&s, i, 20 + i);
    expect(&s, "20300");

    s = (struct scene){.n = 0}; /* reads what the first writes; writes what the second reads; writes where it writes */
    add_cast(&s, 0, 20), add_cast(&s, 1, 21), add_cast(&s, 20, 22);
    expect(&s, "201");
    s = (struct scene){.n = 0};
    add_cast(&s, 0, 20), add_cast(&s, 1, 21), add_cast(&s, 2, 1);
    expect(&s, "201");
    s = (struct scene){.n = 0};
    add_cast(&s, 0, 20), add_cast(&s, 1, 21), add_cast(&s, 2, 20);
    expect(&s, "201");

    s = (struct scene){.n = 0}; /* in place is nobody else's business; another type, another kind are */
    add_cast(&s, 0, 0), add_cast(&s, 1, 1), add_cast(&s, 2, 2);
    s.in[2][0].type = s.out[2].type = MT_BF16;
    expect(&s, "201");
    s = (struct scene){.n = 0};
    add_cast(&s, 0, 20), add_norm(&s, 1, 30, 31), add_cast(&s, 1, 21), add_cast(&s, 2, 22);
    expect(&s, "1120");

    s = (struct scene){.n = 0}; /* sums: a chain, in one place or not; none where it breaks, or reads a sum */
    add_norm(&s, 0, 30, 30), add_norm(&s, 1, 30, 30), add_norm(&s, 2, 30, 31), add_norm(&s, 3, 31, 31);
    expect(&s, "4000");
    s = (struct scene){.n = 0};
    add_norm(&s, 0, 30, 30), add_norm(&s, 1, 32, 33), add_norm(&s, 30, 33, 33), add_norm(&s, 33, 33, 34);
    expect(&s, "1201");

    s = (struct scene){.n = 0}; /* empty operands are in nobody's way */
    add_cast(&s, 0, 20), add_cast(&s, 20, 21);
    s.in[1][0].extent[0] = s.out[1].extent[0] = 0;
    expect(&s, "20");

    struct mt_err err = MT_ERR_INIT; /* calls of different types are none */
    s = (struct scene){.n = 0};
    add_cast(&s, 0, 20), add_cast(&s, 1, 21);
    struct mt_tensor in[2] = {s.in[0][0], s.in[1][0]}, out[2] = {s.out[0], s.out[1]};
    struct mt_attr both[2] = {attrs[0], attrs[1]};
    struct mt_call call = {.kind = MT_OP_cast, .attr = both, .nin = 1, .nout = 1, .in = in, .out = out, .ncalls = 2};
    CHECK_OK(mt_call_check(&call, &err), err);
    in[1].type = MT_F64;
    CHECK_EQ(mt_call_check(&call, &err), MT_EBUG);
    in[1] = in[0], out[1].extent[0]--;
    CHECK_EQ(mt_call_check(&call, &err), MT_EBUG);
    return 0;
}
