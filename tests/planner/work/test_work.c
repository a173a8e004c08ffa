/* Work by shares against the programs of all ranks: for plans of three ranks with uneven shares, with and without
 * micro-batches, in every storage and sync, what mt_work says of each rank's shares must be what that rank's lowered
 * program has: operators, floating-point operations and bytes by block, copies, messages with their bytes and buckets,
 * state. */
#include "planner/work/work.h"

#include "profiler/cluster/shape.h"
#include "synth/builder/build.h"
#include "synth/models/model.h"
#include "synth/ops/ops.h"
#include "tests/check.h"
#include "synth/autodiff/autodiff.h"
#include "planner/plan/choice.h"

enum { NRANKS = 3 };
static struct mt_err err = MT_ERR_INIT;
static const struct mt_lower_options options = {.fuse = true, .latency_s = 30e-6, .bandwidth_Bps = 1e9};

struct sums {
    double count[MT_NBLOCKS], flops[MT_NBLOCKS], bytes[MT_NBLOCKS], copied[MT_NBLOCKS];
};

static void add_shape(struct sums *s, int block, const struct mt_op_shape *shape, double count) {
    s->count[block] += count;
    s->flops[block] += count * shape->flops;
    s->bytes[block] += count * shape->bytes;
}

static struct sums sums_of_program(const struct mt_lowered *low) {
    struct sums s = {{0}, {0}, {0}, {0}};
    for (int b = 0; b < MT_NBLOCKS; b++)
        for (int i = low->block_begin[b]; i < low->block_begin[b + 1]; i++) {
            const struct mt_linstr *c = &low->instrs[i];
            if (c->what == MT_LOWERED_COPY) {
                const struct mt_tensor *t = &low->values[c->out[0]].tensor;
                s.copied[b] += (double)(mt_tensor_count(t) * mt_type_size(t->type));
            }
            if (c->what != MT_LOWERED_OP || c->kept) continue; /* what is kept runs in the first step alone */
            struct mt_op_shape shape;
            struct mt_call call = mt_linstr_call(c, c->tensor);
            mt_op_shape(&call, &shape);
            add_shape(&s, b, &shape, 1);
        }
    return s;
}

static struct sums sums_of_work(const struct mt_work *w, const struct mt_program *p, int rank, const int64_t *storage) {
    struct sums s = {{0}, {0}, {0}, {0}};
    for (int o = 0; o < w->nops; o++) {
        const struct mt_work_op *op = &w->ops[o];
        struct mt_work_share share = {op->block == MT_BODY ? p->body_size[rank] : p->last_size[rank], storage};
        if (op->copy) {
            s.copied[op->block] += (double)(op->count * mt_work_copy_bytes(op, &share));
            continue;
        }
        struct mt_op_shape shape;
        mt_work_shape(op, &share, &shape);
        add_shape(&s, (int)op->block, &shape, (double)op->count);
    }
    return s;
}

/* Messages of the work, bucket by bucket, against the program's collectives in turn. */
static void compare_messages(const struct mt_work *w, const struct mt_program *p, int64_t bucket_bytes,
                             bool overlap_yielding) {
    int *bucket = mt_calloc((size_t)w->nmessages + 1, sizeof *bucket), n = 0;
    int nbuckets = mt_work_buckets(w, bucket_bytes, overlap_yielding, bucket);
    for (int b = 0; b < MT_NBLOCKS; b++)
        for (int i = 0; i < p->blocks[b].ninstrs; i++) {
            const struct mt_instr *c = &p->blocks[b].instrs[i];
            if (c->kind != MT_INSTR_COLLECTIVE) continue;
            int64_t count = 0, want = 0;
            for (int v = 0; v < c->nin; v++) want += mt_value_count(p->graph, p->values[c->in[v]].gvalue);
            for (int m = 0; m < w->nmessages; m++) {
                if (bucket[m] != n) continue;
                count += w->messages[m].count;
                CHECK_EQ(w->messages[m].key.kind, c->coll);
                CHECK_EQ(w->messages[m].key.block, b);
                CHECK_EQ(w->messages[m].key.wire, c->wire);
            }
            CHECK_EQ(count, want);
            n++;
        }
    CHECK_EQ(nbuckets, n);
    free(bucket);
}

static void compare(const struct mt_graph *g, const struct mt_plan *plan, bool body) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_choice choice;
    struct mt_program program;
    struct mt_work work;
    CHECK_OK(mt_choice_from_plan(g, plan, false, &arena, &choice, &err), err);
    CHECK_OK(mt_build(g, &choice, &program, &err), err);
    CHECK_OK(mt_work_open(g, plan, body, &options, &work, &err), err);
    compare_messages(&work, &program, plan->decisions.bucket_bytes, plan->decisions.start == MT_START_ATTENTION);
    for (int r = 0; r < NRANKS; r++) {
        struct mt_lowered *low;
        int64_t storage[16], state = work.state_bytes;
        CHECK_OK(mt_lower(&program, r, &options, &low, &err), err);
        for (int l = 0; l < work.nlabels; l++) {
            storage[l] = plan->splits[1 + l].sizes[r];
            state += work.labels[l].state_bytes / work.labels[l].extent * storage[l];
        }
        struct sums got = sums_of_work(&work, &program, r, storage), want = sums_of_program(low);
        for (int b = 0; b < MT_NBLOCKS; b++) {
            CHECK_EQ(got.count[b], want.count[b]);
            CHECK_NEAR(got.flops[b], want.flops[b], 1e-9 * want.flops[b]);
            CHECK_NEAR(got.bytes[b], want.bytes[b], 1e-9 * want.bytes[b]);
            CHECK_NEAR(got.copied[b], want.copied[b], 0);
        }
        CHECK(low->state_bytes >= state && low->state_bytes <= state + 64 * g->nvalues, "%lld of %lld",
              (long long)low->state_bytes, (long long)state);
        mt_lowered_free(low);
    }
    mt_work_release(&work);
    mt_program_release(&program);
    mt_arena_release(&arena);
}

static struct mt_graph *graph_of(const char *text, enum mt_type type, int64_t batch) {
    struct mt_model model;
    struct mt_graph *g;
    struct mt_job job;
    mt_job_default(&job);
    CHECK_OK(mt_model_parse(text, &model, &err), err);
    CHECK_OK(mt_model_graph(&model, type, batch, 0, 0, &g, &err), err);
    CHECK_OK(mt_graph_differentiate(g, &err), err);
    CHECK_OK(mt_graph_optimize(g, &job.optimizer, &err), err);
    return g;
}

static struct mt_plan *plan_of(const struct mt_graph *g, enum mt_state state, enum mt_sync sync, int64_t bucket_bytes,
                               const int64_t *shares, const int64_t *micro) {
    struct mt_plan *p = mt_plan_new(NRANKS);
    int labels[16], nlabels = mt_sharding_labels(g, labels);
    p->splits = mt_new(&p->arena, struct mt_plan_split, nlabels + 1);
    p->nsplits = nlabels + 1;
    p->splits[0] = (struct mt_plan_split){
        .name = "batch", .label = "batch", .align = 1, .sizes = mt_arena_memdup(&p->arena, shares, 3 * sizeof *shares)};
    for (int l = 0; l < nlabels; l++) {
        const struct mt_label *label = &g->labels[labels[l]];
        int64_t first = label->extent / 2 - 1, second = label->extent / 3 - 1;
        int64_t sizes[NRANKS] = {first, second, label->extent - first - second};
        p->splits[l + 1] = (struct mt_plan_split){.name = mt_arena_printf(&p->arena, "storage:%s", label->name),
                                                  .label = label->name,
                                                  .align = 1,
                                                  .sizes = mt_arena_memdup(&p->arena, sizes, sizeof sizes)};
    }
    memcpy(p->micro, micro, NRANKS * sizeof *micro);
    p->decisions.nstorage = 1;
    p->decisions.storage = mt_arena_memdup(&p->arena, &(struct mt_storage_row){.pattern = "*", .state = state},
                                           sizeof *p->decisions.storage);
    mt_decisions_complete(&p->decisions, &p->arena);
    p->decisions.sync = sync;
    p->decisions.bucket_bytes = bucket_bytes;
    return p;
}

/* Biases and a layer replicated, some weights split, all else as it was: messages of two kinds wait together. */
static void mix_storage(struct mt_plan *p) {
    const struct mt_storage_row rows[4] = {{.pattern = "h.0*", .state = MT_STATE_REPLICATED},
                                           {.pattern = "*c_proj*", .state = MT_STATE_SPLIT},
                                           {.pattern = "*.bias", .state = MT_STATE_REPLICATED},
                                           p->decisions.storage[0]};
    p->decisions.nstorage = 4;
    p->decisions.storage = mt_arena_memdup(&p->arena, rows, sizeof rows);
}

static void test_programs(const char *text, enum mt_type type, bool mixed) {
    static const struct {
        enum mt_state state;
        enum mt_sync sync;
    } ways[] = {{MT_STATE_REPLICATED, MT_SYNC_ALL_REDUCE},
                {MT_STATE_REPLICATED, MT_SYNC_REDUCE_SCATTER},
                {MT_STATE_SPLIT, MT_SYNC_REDUCE_SCATTER},
                {MT_STATE_SPLIT, MT_SYNC_ALL_REDUCE}};
    static const int64_t shares[NRANKS] = {7, 3, 1}, whole[NRANKS] = {7, 3, 1}, micro[NRANKS] = {2, 3, 1};
    struct mt_graph *g = graph_of(text, type, 11);
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
        for (int64_t bucket = 0; bucket <= 1 << 20; bucket = bucket ? 32 * bucket : 1 << 10)
            for (int body = 0; body < 2; body++)
                for (int start = 0; start < 2; start++) {
                    struct mt_plan *p = plan_of(g, ways[w].state, ways[w].sync, bucket, shares, body ? micro : whole);
                    if (start) p->decisions.start = MT_START_ATTENTION;
                    if (mixed) mix_storage(p);
                    compare(g, p, body);
                    mt_plan_free(p);
                }
    mt_graph_free(g);
}

static int draw(int n) {
    return (int)(rand() / (RAND_MAX + 1.0) * n);
}

/* Models, sharding and bucket sizes at random: buckets of every number of values. */
static void test_random(void) {
    static const char *const patterns[] = {"h.0*", "h.1*", "*c_proj*", "*c_fc*", "*.bias", "wte*", "*ln*"};
    static const int64_t shares[NRANKS] = {7, 3, 1}, micro[NRANKS] = {2, 3, 1};
    srand(3);
    for (int round = 0; round < 60; round++) {
        struct mt_storage_row rows[4];
        char text[128];
        snprintf(text, sizeof text, "gpt2:layers=%d,heads=2,embed=%d,context=16,vocab=97,tied=%d,bias=%d", 2 + draw(6),
                 32 * (1 + draw(2)), draw(2), draw(2));
        struct mt_graph *g = graph_of(text, draw(2) ? MT_F32 : MT_BF16, 11);
        bool body = draw(2);
        struct mt_plan *p = plan_of(g, draw(2) ? MT_STATE_SPLIT : MT_STATE_REPLICATED,
                                    draw(2) ? MT_SYNC_ALL_REDUCE : MT_SYNC_REDUCE_SCATTER,
                                    draw(8) ? draw(1 << (6 + draw(16))) : 0, shares, body ? micro : shares);
        struct mt_decisions *d = &p->decisions;
        d->nstorage = 1 + draw(4);
        for (int i = 0; i < d->nstorage - 1; i++)
            rows[i] = (struct mt_storage_row){.pattern = patterns[draw(7)],
                                              .state = draw(2) ? MT_STATE_SPLIT : MT_STATE_REPLICATED};
        rows[d->nstorage - 1] = d->storage[0];
        d->storage = mt_arena_memdup(&p->arena, rows, sizeof rows);
        if (draw(2)) d->start = MT_START_ATTENTION;
        compare(g, p, body);
        mt_plan_free(p);
        mt_graph_free(g);
    }
}

/* The longest axis, or one outside of it that is long enough. */
static void test_storage_axes(void) {
    static const struct {
        const char *model, *parameter;
        int axis;
    } cases[] = {
        {"gpt2:layers=1,heads=12,embed=768,context=64,vocab=96", "wte.weight", 1},             /* 96 x 768 */
        {"gpt2:layers=1,heads=12,embed=768,context=64,vocab=96", "h.0.mlp.c_fc.weight", 0},    /* 768 x 3072 */
        {"gpt2:layers=1,heads=12,embed=768,context=64,vocab=96", "h.0.mlp.c_proj.weight", 0},  /* 3072 x 768 */
        {"gpt2:layers=1,heads=12,embed=768,context=64,vocab=96", "h.0.attn.c_attn.weight", 0}, /* 768 x 3 x 12 x 64 */
        {"gpt2:layers=1,heads=12,embed=768,context=64,vocab=96", "h.0.attn.c_proj.weight", 2}, /* 12 x 64 x 768 */
        {"gpt2:layers=1,heads=12,embed=768,context=64,vocab=96", "h.0.attn.c_attn.bias", 2},   /* 3 x 12 x 64 */
        {"gpt2:layers=1,heads=12,embed=768,context=255,vocab=96", "wpe.weight", 1},            /* 255 x 768 */
        {"gpt2:layers=1,heads=12,embed=768,context=256,vocab=96", "wpe.weight", 0},            /* 256 x 768 */
        {"gpt2:layers=1,heads=4,embed=128,context=64,vocab=96", "h.0.mlp.c_fc.weight", 1},     /* 128 x 512 */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mt_graph *g = graph_of(cases[i].model, MT_F32, 4);
        int v = 0;
        while (v < g->nvalues && strcmp(g->values[v].name, cases[i].parameter)) v++;
        CHECK(v < g->nvalues, "%s", cases[i].parameter);
        CHECK(mt_sharding_axis(g, v) == cases[i].axis, "%s of %s: %d", cases[i].parameter, cases[i].model,
              mt_sharding_axis(g, v));
        mt_graph_free(g);
    }
}

/* A plan that stores a parameter in shares and lacks their split is refused, not replicated. */
static void test_missing_split(void) {
    static const int64_t shares[NRANKS] = {7, 3, 1};
    struct mt_graph *g = graph_of("gpt2:layers=1,heads=2,embed=12,context=4,vocab=26", MT_F32, 11);
    for (int lacking = 1;; lacking++) {
        struct mt_plan *p = plan_of(g, MT_STATE_SPLIT, MT_SYNC_REDUCE_SCATTER, 1 << 10, shares, shares);
        struct mt_arena arena = MT_ARENA_INIT;
        struct mt_choice choice;
        bool more = lacking < p->nsplits;
        char name[64];
        if (more) {
            snprintf(name, sizeof name, "%s", p->splits[lacking].name);
            p->splits[lacking] = p->splits[--p->nsplits];
            CHECK_EQ(mt_choice_from_plan(g, p, false, &arena, &choice, &err), MT_EINPUT);
            CHECK(strstr(err.text, name), "%s: %s", name, err.text);
            err = (struct mt_err)MT_ERR_INIT;
        }
        mt_arena_release(&arena);
        mt_plan_free(p);
        if (!more) break;
    }
    mt_graph_free(g);
}

/* An even share of a label may be none of it, or all: its alignment is nearly its extent. The axis that it divides is
 * found all the same, and no axis without such a label is divided. */
static void test_short_labels(void) {
    struct mt_graph *g = graph_of("gpt2:layers=2,heads=2,embed=16,context=16,vocab=256", MT_F32, 64);
    for (int nranks = 2; nranks <= 40; nranks += nranks < 6 ? 1 : 17) {
        struct mt_plan *p = mt_plan_new(nranks);
        struct mt_work work;
        p->decisions.nstorage = 1;
        p->decisions.storage = &(struct mt_storage_row){.pattern = "*", .state = MT_STATE_SPLIT};
        mt_decisions_complete(&p->decisions, &p->arena);
        p->decisions.sync = MT_SYNC_REDUCE_SCATTER;
        CHECK_OK(mt_work_open(g, p, false, &options, &work, &err), err);
        bool found[16] = {false};
        for (int o = 0; o < work.nops; o++)
            for (int k = 0; k < work.ops[o].nin + work.ops[o].nout; k++) {
                int parts = 0;
                for (int a = 0; a < work.ops[o].tensor[k].naxes; a++) {
                    int by = work.ops[o].divided[k][a];
                    parts += by != MT_WORK_WHOLE;
                    CHECK(by < MT_WORK_STORAGE + work.nlabels, "%d ranks: %d", nranks, by);
                    if (by >= MT_WORK_STORAGE) found[by - MT_WORK_STORAGE] = true;
                    if (work.ops[o].block == MT_EPILOGUE) CHECK(by != MT_WORK_SAMPLES, "%d ranks", nranks);
                }
                CHECK(parts <= 1, "%d ranks: %d axes of a tensor are divided", nranks, parts);
            }
        for (int l = 0; l < work.nlabels; l++) CHECK(found[l], "%d ranks: label %d divides nothing", nranks, l);
        mt_work_release(&work);
        mt_plan_free(p);
    }
    mt_graph_free(g);
}

int main(void) {
    test_storage_axes();
    test_short_labels();
    test_missing_split();
    test_programs("gpt2:layers=2,heads=2,embed=32,context=16,vocab=97", MT_F32, false);
    test_programs("gpt2:layers=2,heads=2,embed=32,context=16,vocab=97,tied=0,bias=0", MT_BF16, false);
    test_programs("mlp", MT_F32, false);
    test_programs("gpt2:layers=4,heads=2,embed=32,context=16,vocab=97", MT_F32, true);
    test_random();
    return 0;
}
