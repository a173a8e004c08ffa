/* The interpreter against a model computed by hand: y = relu(x w), trained by SGD with momentum and decay on three
 * unequal ranks with micro-batches; wrong declarations, which compute wrong numbers; and programs with random damage,
 * which are refused or run, but never crash. */
#include "synth/job/job.h"
#include "synth/builder/build.h"
#include "synth/interp/init.h"
#include "synth/interp/internal.h"
#include "synth/interp/interp.h"
#include "synth/ops/ops.h"
#include "tests/check.h"
#include "tests/synth/layout/rules.h"
#include "tests/synth/layout/random_layout.h"
#include "tests/synth/copy_program.h"
#include "synth/autodiff/autodiff.h"

enum { RANKS = 3, BATCH = 7, IN = 4, OUT = 3, STEPS = 3 };
static const double momentum = 0.9, decay = 0.1, lr = 0.05, clip = 0.5;

struct values {
    int x, t, w;
};

static struct mt_graph *small_graph(struct values *ids) {
    struct mt_graph *g = mt_graph_new(MT_F64);
    struct mt_err err = MT_ERR_INIT;
    int label;
    CHECK_OK(mt_graph_label(g, "batch", BATCH, 1, &g->batch, &err), err);
    CHECK_OK(mt_graph_label(g, "in", IN, 1, &label, &err), err);
    CHECK_OK(mt_graph_label(g, "out", OUT, 1, &label, &err), err);
    ids->x = mt_graph_input(g, "x", MT_F64, "batch in");
    ids->t = mt_graph_input(g, "t", MT_I32, "batch");
    ids->w = mt_graph_param(g, "w", "in,out", MT_INIT_NORMAL, 0.5);
    int y = mt_op_relu(g, "relu", mt_op_matmul(g, "y", ids->x, ids->w, 1, 0));
    g->loss_sum = mt_op_sum(g, "loss", y, 3);
    g->token_count = mt_op_count(g, "count", ids->t);
    CHECK_OK(mt_graph_differentiate(g, &err), err);
    struct mt_optimizer sgd = {.kind = MT_SGD, .momentum = momentum, .decay = decay, .clip = clip};
    CHECK_OK(mt_graph_optimize(g, &sgd, &err), err);
    return g;
}

/* One step by hand. */
static double step_by_hand(double x[BATCH][IN], const int32_t *t, double w[IN][OUT], double m[IN][OUT]) {
    double loss = 0, gradient[IN][OUT] = {{0}}, sq = 0, count = 0;
    for (int b = 0; b < BATCH; b++) {
        count += t[b] >= 0;
        for (int o = 0; o < OUT; o++) {
            double y = 0;
            for (int i = 0; i < IN; i++) y += x[b][i] * w[i][o];
            if (y <= 0) continue;
            loss += y;
            for (int i = 0; i < IN; i++) gradient[i][o] += x[b][i];
        }
    }
    for (int i = 0; i < IN; i++)
        for (int o = 0; o < OUT; o++) sq += gradient[i][o] * gradient[i][o];
    double scale = fmin(1, clip / (sqrt(sq) / count + 1e-6)) / count;
    for (int i = 0; i < IN; i++)
        for (int o = 0; o < OUT; o++) {
            m[i][o] = momentum * m[i][o] + gradient[i][o] * scale + decay * w[i][o];
            w[i][o] -= lr * m[i][o];
        }
    return loss;
}

static struct mt_split make_split(struct mt_arena *arena, const struct mt_graph *g, const char *name,
                                  const int64_t *sizes) {
    struct mt_split s = {
        .name = name, .label = mt_graph_find_label(g, name), .starts = mt_new(arena, int64_t, RANKS + 1)};
    s.sizes = mt_arena_memdup(arena, sizes, RANKS * sizeof *sizes);
    for (int r = 0; r < RANKS; r++) s.starts[r + 1] = s.starts[r] + sizes[r];
    return s;
}

/* Samples over the batch, updates replicated or over "in". Micro-batches: 4 as 1 1 1 1, 3 as 2 1, none. */
static void build_program(struct mt_arena *arena, const struct mt_graph *g, bool shard, bool micro,
                          struct mt_program *p) {
    struct mt_split *splits = mt_new(arena, struct mt_split, 2);
    splits[0] = make_split(arena, g, "batch", (const int64_t[]){4, 3, 0});
    splits[1] = make_split(arena, g, "in", (const int64_t[]){1, 0, 3});
    int64_t sizes[] = {micro ? 1 : 4, micro ? 2 : 3, 0};
    struct mt_choice choice = {.nranks = RANKS,
                               .splits = splits,
                               .nsplits = 2,
                               .batch = &splits[0],
                               .micro = sizes,
                               .rules = mt_new(arena, struct mt_rule, g->nops),
                               .decisions.gradient_wire = MT_F64};
    for (int o = 0; o < g->nops; o++) {
        struct mt_rule rules[MT_MAX_INDICES + MT_MAX_IN + 1];
        int wanted = g->ops[o].role == MT_ROLE_UPDATE ? (shard ? splits[1].label : -1) : g->batch;
        for (int k = all_rules(&g->ops[o], splits, 2, rules) - 1; k >= 0; k--)
            if (rules[k].kind == MT_RULE_SPLIT && rules[k].split->label == wanted) choice.rules[o] = rules[k];
    }
    struct mt_err err = MT_ERR_INIT;
    CHECK_OK(mt_build(g, &choice, p, &err), err);
}

static void random_batch(struct dice *dice, double x[BATCH][IN], int32_t *t) {
    for (int b = 0; b < BATCH; b++) {
        t[b] = (int32_t)roll(dice, 3) - 1;
        for (int i = 0; i < IN; i++) x[b][i] = roll_real(dice);
    }
    t[0] = 0;
}

static void test_training(bool shard, bool micro) {
    struct dice dice = {.seed = 7};
    struct values ids;
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_graph *g = small_graph(&ids);
    struct mt_program p;
    build_program(&arena, g, shard, micro, &p);
    CHECK_EQ(p.body_count[0], micro ? 3 : 0);
    CHECK_EQ(p.body_count[1], micro ? 1 : 0);
    struct mt_interp *interp = mt_interp_new(&p);
    mt_interp_init_states(interp, 99);
    double x[BATCH][IN], w[IN][OUT], m[IN][OUT] = {{0}}, got[IN][OUT], spread, loss, count;
    struct mt_box whole = {{0, 0}, {IN, OUT}};
    mt_init_fill(g, ids.w, &whole, 99, w);
    int32_t t[BATCH];
    for (int step = 1; step <= STEPS; step++) {
        struct mt_clock clock = {.step = step, .lr = lr};
        struct mt_err err = MT_ERR_INIT;
        random_batch(&dice, x, t);
        mt_interp_set(interp, ids.x, x);
        mt_interp_set(interp, ids.t, t);
        CHECK_OK(mt_interp_step(interp, &clock, &err), err);
        double want = step_by_hand(x, t, w, m);
        CHECK(mt_interp_result(interp, g->loss_sum, &loss), "no loss");
        CHECK_NEAR(loss, want, 1e-12);
        CHECK(mt_interp_result(interp, g->token_count, &count), "no count");
        CHECK(mt_interp_result(interp, g->values[ids.w].gradient, &got[0][0]), "no gradient");
        mt_interp_get(interp, ids.w, got, &spread);
        CHECK_NEAR(spread, 0, 0);
        for (int i = 0; i < IN * OUT; i++) CHECK_NEAR((&got[0][0])[i], (&w[0][0])[i], 1e-13);
    }
    mt_interp_free(interp);
    mt_program_release(&p);
    mt_graph_free(g);
    mt_arena_release(&arena);
}

/* Boxes have the numbers that the whole value has in their place; other seeds and names have others. */
static void test_init(void) {
    struct values ids;
    struct mt_graph *g = small_graph(&ids);
    double whole[IN][OUT], part[2][2], other[IN][OUT];
    mt_init_fill(g, ids.w, &(struct mt_box){{0, 0}, {IN, OUT}}, 5, whole);
    mt_init_fill(g, ids.w, &(struct mt_box){{1, 1}, {3, 3}}, 5, part);
    for (int i = 0; i < 2; i++)
        for (int o = 0; o < 2; o++) CHECK_NEAR(part[i][o], whole[i + 1][o + 1], 0);
    mt_init_fill(g, ids.w, &(struct mt_box){{0, 0}, {IN, OUT}}, 6, other);
    CHECK(other[0][0] != whole[0][0], "the seed makes no difference");
    double sum = 0;
    for (int i = 0; i < IN * OUT; i++) sum += (&whole[0][0])[i] * (&whole[0][0])[i];
    CHECK_NEAR(sqrt(sum / (IN * OUT)), 0.5, 0.3);
    mt_graph_free(g);
}

/* The largest difference between replicas of a whole scalar that covers all samples. */
static double scalar_spread(const struct mt_interp *interp, int gvalue) {
    const struct mt_program *p = interp->program;
    double spread = 0;
    for (int v = 0; v < p->nvalues && !interp->broken.status; v++) {
        double least = INFINITY, most = -INFINITY;
        bool whole = p->values[v].gvalue == gvalue && p->values[v].covers == MT_COVERS_ALL &&
                     mt_pvalue_layout(p, v)->nparts == 1;
        for (int r = 0; r < p->nranks && whole; r++) {
            const void *buffer = *mt_interp_buffer(interp, v, r);
            whole = buffer != NULL;
            double x = whole ? mt_type_load(p->values[v].type, buffer, 0) : 0;
            least = isnan(x) ? -INFINITY : fmin(least, x), most = fmax(most, x);
        }
        if (whole) spread = fmax(spread, most - least);
    }
    return spread;
}

/* Run one step on fixed data; the status, and the largest error of w and of the loss, or between replicas. */
static enum mt_status try_program(const struct mt_program *p, const struct values *ids, double *error) {
    struct dice dice = {.seed = 8};
    double x[BATCH][IN], w[IN][OUT], m[IN][OUT] = {{0}}, got[IN][OUT], loss = NAN;
    int32_t t[BATCH];
    random_batch(&dice, x, t);
    struct mt_interp *interp = mt_interp_new(p);
    mt_interp_init_states(interp, 99);
    mt_interp_set(interp, ids->x, x);
    mt_interp_set(interp, ids->t, t);
    struct mt_clock clock = {.step = 1, .lr = lr};
    struct mt_err err = MT_ERR_INIT;
    enum mt_status st = mt_interp_step(interp, &clock, &err);
    CHECK(!st || err.text[0], "a refusal without a reason");
    mt_init_fill(p->graph, ids->w, &(struct mt_box){{0, 0}, {IN, OUT}}, 99, w);
    double want = step_by_hand(x, t, w, m);
    mt_interp_get(interp, ids->w, got, error);
    bool has_loss = mt_interp_result(interp, p->graph->loss_sum, &loss);
    *error = fmax(*error, scalar_spread(interp, p->graph->loss_sum));
    *error = fmax(*error, has_loss ? fabs(loss - want) : INFINITY);
    for (int i = 0; i < IN * OUT; i++) {
        double difference = fabs((&got[0][0])[i] - (&w[0][0])[i]);
        if (!(difference <= *error)) *error = isnan(difference) ? INFINITY : difference;
    }
    mt_interp_free(interp);
    return st;
}

/* Every collective of a right program in turn without rank 0, or dropped: nothing may come out right. The count hardly
 * matters while gradients are clipped, hence the small bound. (A broadcast of what is equal anyway moves nothing.) */
static void test_wrong_collectives(bool shard) {
    struct values ids;
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_graph *g = small_graph(&ids);
    struct mt_program p, wrong;
    double error;
    int tried = 0;
    build_program(&arena, g, shard, true, &p);
    CHECK_EQ(try_program(&p, &ids, &error), MT_OK);
    CHECK_NEAR(error, 0, 1e-12);
    for (int b = 0; b < MT_NBLOCKS; b++)
        for (int i = 0; i < p.blocks[b].ninstrs; i++) {
            if (p.blocks[b].instrs[i].kind != MT_INSTR_COLLECTIVE) continue;
            for (int damage = 0; damage < 2; damage++) {
                if (damage == 0 && p.blocks[b].instrs[i].coll == MT_BROADCAST) continue;
                copy_program(&p, &wrong);
                struct mt_block *block = &wrong.blocks[b];
                if (damage == 0)
                    block->instrs[i].group[0] = RANKS; /* rank 0 has samples, and shares */
                else
                    memmove(&block->instrs[i], &block->instrs[i + 1],
                            (size_t)(--block->ninstrs - i) * sizeof *block->instrs);
                enum mt_status st = try_program(&wrong, &ids, &error);
                CHECK(st == MT_EBUG || error > 1e-10, "block %d instruction %d damage %d: still right", b, i, damage);
                tried++;
                mt_program_release(&wrong);
            }
        }
    CHECK(tried >= 4, "only %d collectives", tried);
    mt_program_release(&p);
    mt_graph_free(g);
    mt_arena_release(&arena);
}

/* ---- random damage ---- */

static void damage_value(struct dice *dice, struct mt_program *p) {
    struct mt_pvalue *v = &p->values[roll(dice, p->nvalues)];
    int any = (int)roll(dice, p->nvalues + 2) - 1;
    switch (roll(dice, 8)) {
    case 0: v->layout = (int)roll(dice, p->layouts.count + 2) - 1; break;
    case 1: v->type = (enum mt_type)roll(dice, MT_NTYPES + 1); break;
    case 2: v->block = (enum mt_block_kind)roll(dice, MT_NBLOCKS + 1); break;
    case 3: v->gvalue = (int)roll(dice, p->graph->nvalues + 2) - 1; break;
    case 4: v->input = !v->input; break;
    case 5: v->next = any; break;
    case 6: v->covers = (enum mt_covers)roll(dice, 3); break;
    default: {
        const struct mt_layout l = p->layouts.items[v->layout];
        v->layout = random_layout(dice, &p->layouts, l.naxes, l.extent, roll(dice, 2) ? MT_SUM : MT_MAX);
    }
    }
}

static void damage_instr(struct dice *dice, struct mt_program *p) {
    struct mt_block *block = &p->blocks[roll(dice, MT_NBLOCKS)];
    if (!block->ninstrs) return;
    struct mt_instr *instr = &block->instrs[roll(dice, block->ninstrs)], copy = *instr;
    int any = (int)roll(dice, p->nvalues + 2) - 1;
    switch (roll(dice, 13)) {
    case 0: instr->kind = (enum mt_instr_kind)roll(dice, 6); break;
    case 1: instr->gop = (int)roll(dice, p->graph->nops + 2) - 1; break;
    case 2: instr->nin = (int)roll(dice, instr->nin + 1); break;
    case 3: instr->nout = (int)roll(dice, instr->nout + 1); break;
    case 4:
        if (instr->nin) instr->in[roll(dice, instr->nin)] = any;
        break;
    case 5:
        if (instr->nout) instr->out[roll(dice, instr->nout)] = any;
        break;
    case 6: instr->coll = (enum mt_coll_kind)roll(dice, MT_NCOLLS + 1); break;
    case 7: instr->reduce = (enum mt_reduce)roll(dice, 4); break;
    case 8: instr->wire = (enum mt_type)roll(dice, MT_NTYPES + 1); break;
    case 9:
        if (instr->group) instr->group[roll(dice, RANKS)] = (int)roll(dice, RANKS);
        break;
    case 10: mt_program_add(p, (enum mt_block_kind)roll(dice, MT_NBLOCKS), &copy); break;
    case 11: *instr = block->instrs[--block->ninstrs]; break;
    default: {
        struct mt_instr *other = &block->instrs[roll(dice, block->ninstrs)];
        *instr = *other, *other = copy;
    }
    }
}

static void damage_batch(struct dice *dice, struct mt_program *p) {
    int64_t *vectors[] = {p->batch_size, p->batch_start, p->body_size, p->body_count, p->last_size};
    vectors[roll(dice, 5)][roll(dice, RANKS)] = roll(dice, BATCH + 3) - 1;
}

static void test_damage(struct dice *dice) {
    int ran = 0, refused = 0;
    for (int kind = 0; kind < 4; kind++) {
        struct values ids;
        struct mt_arena arena = MT_ARENA_INIT;
        struct mt_graph *g = small_graph(&ids);
        struct mt_program p;
        build_program(&arena, g, kind & 1, kind & 2, &p);
        for (int round = 0; round < 600; round++) {
            struct mt_program damaged;
            double error;
            copy_program(&p, &damaged);
            for (int64_t k = roll(dice, 3); k >= 0; k--)
                (k == 0 ? damage_instr : roll(dice, 4) ? damage_value : damage_batch)(dice, &damaged);
            enum mt_status st = try_program(&damaged, &ids, &error);
            CHECK(st == MT_OK || st == MT_EBUG, "status %d", (int)st);
            ran += st == MT_OK, refused += st == MT_EBUG;
            mt_program_release(&damaged);
        }
        mt_program_release(&p);
        mt_graph_free(g);
        mt_arena_release(&arena);
    }
    printf("damaged programs: %d ran, %d were refused\n", ran, refused);
    CHECK(ran > 300 && refused > 300, "one-sided");
}

int main(void) {
    struct dice dice = {.seed = 20261123};
    printf("seed %llu\n", (unsigned long long)dice.seed);
    test_init();
    for (int kind = 0; kind < 4; kind++) test_training(kind & 1, kind & 2);
    test_wrong_collectives(false);
    test_wrong_collectives(true);
    test_damage(&dice);
    return 0;
}
