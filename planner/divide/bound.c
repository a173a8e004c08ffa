/* A lower bound on every program among some ranks. A step is the time between the ends of two, and ranks meet in every
 * one (the loss, the norm of all gradients), so that no rank's own operators take longer.
 *
 * All ranks run the same operators in the same order, each on the boxes that its rules give it. So rank r takes, for an
 * operator o of which it has the part p[o, r], at least any[o, r] + p[o, r] all[o, r] (mt_cost_least), also for an
 * empty box, and of every operator the parts sum to 1 or more. For a step of T, with weights w[r] >= 0 on ranks that
 * sum to anything,
 *
 *     sum over r of w[r] (T - sum over o of any[o, r])  >=  sum over o of min over r of w[r] all[o, r]
 *
 * among the ranks that take part. A rank whose fixed times alone are T or more cannot; so where T is too short for the
 * others' weights, no subset of the ranks does better. The least T that no weights refute is found by bisection.
 * Weights begin in inverse proportion to each class's time for the whole, and are moved by what they leave to each
 * class (subgradients).
 *
 * Operators are those of the program of one rank, in which most are fused: what is divided runs the same or parts of
 * them, which take longer. A fused GEMM counts as the GEMM alone where that is less. Kinds that are fused into others
 * count by their bytes, and only where all times follow from rates. */
#include "planner/divide/bound.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/plan/choice.h"
#include "planner/work/work.h"

struct bound_op {
    struct mt_op_shape whole, bare; /* bare: of a fused GEMM, the GEMM; else the same */
    bool parts;                     /* it may be run in parts of other kinds */
    double count;
};

struct mt_divide_bound {
    struct mt_arena arena;
    int nops;
    struct bound_op *ops;
};

/* ---- operators ---- */

static bool is_single(enum mt_op_kind kind) {
    switch (kind) {
    case MT_OP_matmul:
    case MT_OP_fused_matmul:
    case MT_OP_attention:
    case MT_OP_attention_grad:
    case MT_OP_attention_packed:
    case MT_OP_attention_packed_grad:
    case MT_OP_embedding:
    case MT_OP_embedding_grad:
    case MT_OP_adamw:
    case MT_OP_sgd: return true;
    default: return false;
    }
}

static void add_op(struct mt_divide_bound *b, const struct mt_work_op *op, int64_t batch) {
    struct bound_op *own = &b->ops[b->nops++];
    struct mt_work_share share = {.samples = batch};
    *own = (struct bound_op){.parts = !is_single(op->kind), .count = (double)op->count};
    mt_work_shape(op, &share, &own->whole);
    own->bare = own->whole;
    if (own->parts) own->whole.flops = own->bare.flops = 0;
    if (op->kind != MT_OP_fused_matmul) return;
    struct mt_work_op bare = *op;
    struct mt_tensor tensor[3] = {op->tensor[0], op->tensor[1], op->tensor[op->nin]};
    int divided[3][MT_MAX_AXES];
    memcpy(divided[0], op->divided[0], sizeof divided[0]);
    memcpy(divided[1], op->divided[1], sizeof divided[1]);
    memcpy(divided[2], op->divided[op->nin], sizeof divided[2]);
    bare.kind = MT_OP_matmul;
    bare.attr.epilogue = (enum mt_op_kind)0;
    bare.nin = 2, bare.nout = 1;
    bare.tensor = tensor, bare.divided = divided;
    mt_work_shape(&bare, &share, &own->bare);
}

enum mt_status mt_divide_bound_open(const struct mt_graph *graph, const struct mt_job *job, const char *device,
                                    const struct mt_lower_options *options, struct mt_divide_bound **bound,
                                    struct mt_err *err) {
    struct mt_work work;
    struct mt_plan *p = mt_plan_new(1);
    p->job = *job;
    p->device = device;
    p->decisions = mt_decisions_unset;
    p->decisions.bucket_bytes = 0;
    mt_decisions_complete(&p->decisions, &p->arena);
    enum mt_status st = mt_work_open(graph, p, false, options, &work, err);
    mt_plan_free(p);
    *bound = NULL;
    if (st) return st;
    *bound = mt_calloc(1, sizeof **bound);
    (*bound)->ops = mt_new(&(*bound)->arena, struct bound_op, work.nops + 1);
    for (int o = 0; o < work.nops; o++)
        if (!work.ops[o].copy) add_op(*bound, &work.ops[o], graph->labels[graph->batch].extent);
    mt_work_release(&work);
    return MT_OK;
}

void mt_divide_bound_close(struct mt_divide_bound *bound) {
    if (!bound) return;
    mt_arena_release(&bound->arena);
    free(bound);
}

/* ---- classes of ranks ---- */

enum { MOST_SPEEDS = 64 };
static const double speed_step = 0.002; /* of many speeds those that differ by less count as the faster one */

struct class {
    int device; /* class of devices */
    double speed;
    double count, any_s, whole_s;
    double *all_s;  /* [nops]: times counts */
    double weight;  /* of a rank */
    double given_s; /* of operators whose least weighted time is here */
};

struct bounding {
    const struct mt_divide_bound *bound;
    struct class *classes;
    int n;
};

static const struct mt_cluster_device *device_of(const struct mt_costs *costs, int rank) {
    return &costs->cluster->devices[costs->device[rank]];
}

static struct mt_op_least least_of(const struct bound_op *op, const struct mt_costs *costs, int rank) {
    if (op->parts && costs->cluster->classes[device_of(costs, rank)->class].ncurves) return (struct mt_op_least){0, 0};
    struct mt_op_least whole = mt_cost_least(costs, rank, &op->whole), bare = mt_cost_least(costs, rank, &op->bare);
    return (struct mt_op_least){fmin(whole.any_s, bare.any_s), fmin(whole.all_s, bare.all_s)};
}

static double faster(double speed) {
    return exp(speed_step * ceil(log(speed) / speed_step - 1e-9));
}

/* False: there are too many. */
static bool list_classes(struct bounding *b, const struct mt_costs *costs, bool rounded, struct mt_arena *arena) {
    b->n = 0;
    for (int r = 0; r < costs->nranks; r++) {
        const struct mt_cluster_device *own = device_of(costs, r);
        double speed = rounded ? faster(own->speed) : own->speed;
        int i = 0;
        while (i < b->n && (b->classes[i].device != own->class || b->classes[i].speed != speed)) i++;
        struct class *c = &b->classes[i];
        if (i < b->n) {
            c->count++;
            continue;
        }
        if (b->n++ == MOST_SPEEDS && !rounded) return false;
        *c = (struct class){.device = own->class, .speed = speed, .count = 1};
        c->all_s = mt_new(arena, double, b->bound->nops + 1);
        for (int o = 0; o < b->bound->nops; o++) {
            const struct bound_op *op = &b->bound->ops[o];
            struct mt_op_least least = least_of(op, costs, r);
            double scale = op->count * own->speed / speed;
            c->any_s += scale * least.any_s;
            c->whole_s += c->all_s[o] = scale * least.all_s;
        }
    }
    return true;
}

/* ---- the least step ---- */

/* Whether the weights refute a step: what operators take at least is more than all that the ranks have. */
static bool refutes(struct bounding *b, double step_s) {
    double least_s = 0, room_s = 0;
    for (int i = 0; i < b->n; i++) {
        struct class *c = &b->classes[i];
        c->given_s = 0;
        if (c->any_s < step_s) room_s += c->weight * c->count * (step_s - c->any_s);
    }
    for (int o = 0; o < b->bound->nops; o++) {
        struct class *best = NULL;
        for (int i = 0; i < b->n; i++) {
            struct class *c = &b->classes[i];
            if (c->any_s < step_s && (!best || c->weight * c->all_s[o] < best->weight * best->all_s[o])) best = c;
        }
        if (!best) return true;
        best->given_s += best->all_s[o];
        least_s += best->weight * best->all_s[o];
    }
    return least_s > room_s;
}

static bool is_refuted(struct bounding *b, double step_s) {
    enum { ROUNDS = 24 };
    for (int i = 0; i < b->n; i++) b->classes[i].weight = 1 / fmax(b->classes[i].whole_s, 1e-30);
    for (int round = 0; round < ROUNDS; round++) {
        if (refutes(b, step_s)) return true;
        if (b->n == 1) return false;
        for (int i = 0; i < b->n; i++) { /* who is given more than it has room for is too cheap */
            struct class *c = &b->classes[i];
            double room_s = c->count * (step_s - c->any_s);
            if (room_s > 0) c->weight *= exp(fmax(fmin(c->given_s / room_s - 1, 1), -1) / (4 + round));
        }
    }
    return false;
}

double mt_divide_bound_s(const struct mt_divide_bound *bound, const struct mt_costs *costs) {
    static const double exact = 1e-4; /* relative */
    struct bounding b = {.bound = bound};
    struct mt_arena arena = MT_ARENA_INIT;
    b.classes = mt_new(&arena, struct class, costs->nranks + 1);
    if (!list_classes(&b, costs, false, &arena)) list_classes(&b, costs, true, &arena);
    double high = INFINITY, low = 0;
    for (int i = 0; i < b.n; i++) high = fmin(high, b.classes[i].any_s + b.classes[i].whole_s);
    while (high - low > exact * high) {
        double middle = low + (high - low) / 2;
        if (is_refuted(&b, middle))
            low = middle;
        else
            high = middle;
    }
    mt_arena_release(&arena);
    return low;
}
