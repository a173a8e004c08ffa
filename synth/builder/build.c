/* The builder: from one rule per operator to a whole program.
 *
 * Operators are of three classes. *Invariant* ones depend on no sample (casts of weights): they are emitted into the
 * prologue when first wanted, so that what the forward pass needs first is gathered first. *Sample* operators have an
 * operand with the batch label: they are emitted into LAST, and into BODY too when some rank has more than one
 * micro-batch. *Summed* ones depend on a sum over the samples (updates, additions of gradients).
 *
 * Gradients are sent when they are complete, not when the update needs them, so that messages overlap the backward pass
 * (bucket.h). */
#include <stdlib.h>

#include "synth/builder/internal.h"
#include "synth/ops/ops.h"

/* ---- classes ---- */

static enum mt_status classify(struct mt_builder *b) {
    const struct mt_graph *g = b->graph;
    for (int o = 0; o < g->nops; o++) {
        const struct mt_op *op = &g->ops[o];
        bool sample = false, after_sum = false;
        for (int i = 0; i < op->nin; i++) {
            sample |= mt_builder_has_batch(g, op->in[i]);
            after_sum |= b->summed[op->in[i]];
        }
        for (int i = 0; i < op->nout; i++) sample |= mt_builder_has_batch(g, op->out[i]);
        b->classes[o] = sample ? MT_SAMPLE : after_sum ? MT_SUMMED : MT_INVARIANT;
        if (sample && after_sum && b->has_body) {
            mt_fail(b->err, MT_EINPUT,
                    "operator %s uses a statistic of the whole batch, which micro-batches do not have", op->name);
            return mt_err_hint(b->err, "make every rank's micro-batch as large as its share");
        }
        for (int i = 0; i < op->nout; i++)
            b->summed[op->out[i]] = b->classes[o] == MT_SUMMED || (sample && !mt_builder_has_batch(g, op->out[i]));
    }
    return MT_OK;
}

/* ---- blocks ---- */

bool mt_builder_includes(const struct mt_builder *b, int op) {
    return !b->forward_only || b->graph->ops[op].role == MT_ROLE_FORWARD;
}

static enum mt_status send_to(struct mt_builder *b, int gvalue, int consumer, bool whole) {
    const struct mt_op *o = &b->graph->ops[consumer];
    if (o->role != MT_ROLE_UPDATE) return MT_OK;
    struct mt_rule rule = mt_builder_effective_rule(b, consumer, MT_EPILOGUE);
    for (int i = 0; i < o->nin; i++) {
        if (o->in[i] != gvalue) continue;
        int layout = mt_builder_wanted(b, consumer, &rule, i, MT_EPILOGUE);
        if (layout < 0) continue; /* the operator is refused when it is emitted */
        if ((layout == mt_builder_whole(b, gvalue, MT_EPILOGUE)) != whole || mt_builder_is_partial(b, layout)) continue;
        enum mt_status st = mt_builder_want_soon(b, gvalue, layout, MT_LAST);
        if (st) return st;
    }
    return MT_OK;
}

/* In the layouts that updates want: replicated ones first, because shares are slices of them. */
enum mt_status mt_builder_send_gradient(struct mt_builder *b, int gvalue) {
    for (int pass = 0; pass < 2; pass++)
        for (int c = b->first_consumer[gvalue]; c < b->first_consumer[gvalue + 1]; c++) {
            enum mt_status st = send_to(b, gvalue, b->consumers[c], pass == 0);
            if (st) return st;
        }
    return MT_OK;
}

static enum mt_status send_gradients(struct mt_builder *b, int op) {
    const struct mt_op *o = &b->graph->ops[op];
    enum mt_status st = MT_OK;
    for (int i = 0; i < o->nout && !st; i++)
        if (b->summed[o->out[i]]) st = mt_builder_send_gradient(b, o->out[i]);
    return st;
}

static void enter(struct mt_builder *b, enum mt_bucket_phase phase) {
    if (mt_bucketing_enter(&b->bucketing, phase)) mt_builder_flush(b);
    while (phase == MT_BUCKET_UPDATE && b->nbucket) mt_builder_flush(b); /* what is sent in two steps */
}

static enum mt_status report_sums(struct mt_builder *b) {
    int reported[2] = {b->graph->loss_sum, b->graph->token_count};
    enter(b, MT_BUCKET_REPORTS);
    for (int i = 0; i < 2; i++)
        if (reported[i] >= 0) {
            enum mt_status st =
                mt_builder_want_soon(b, reported[i], mt_builder_whole(b, reported[i], MT_LAST), MT_LAST);
            if (st) return st;
        }
    return MT_OK;
}

static int count_yielding(const struct mt_builder *b) {
    int n = 0;
    for (int o = 0; o < b->graph->nops && b->choice->decisions.start == MT_START_ATTENTION; o++)
        n +=
            b->classes[o] != MT_INVARIANT && mt_bucket_waits_for(MT_LAST, b->graph->ops[o].role, b->graph->ops[o].kind);
    return n;
}

/* Of the gradients that the backward pass computes for updates. */
static int64_t count_gradient_bytes(const struct mt_builder *b) {
    const struct mt_graph *g = b->graph;
    int64_t bytes = 0;
    for (int v = 0; v < g->nvalues; v++) {
        bool wanted = false;
        if (!b->summed[v] || g->values[v].producer < 0 || g->ops[g->values[v].producer].role != MT_ROLE_BACKWARD)
            continue;
        for (int c = b->first_consumer[v]; c < b->first_consumer[v + 1] && !wanted; c++)
            wanted = g->ops[b->consumers[c]].role == MT_ROLE_UPDATE;
        if (wanted) bytes += mt_value_count(g, v) * mt_type_size(g->values[v].type);
    }
    return bytes;
}

enum mt_status mt_builder_sample_op(struct mt_builder *b, int op, enum mt_block_kind block) {
    if (b->joins[op]) b->sums = mt_builder_covers(block);
    enum mt_status st = mt_builder_op(b, op, block);
    b->sums = MT_COVERS_ALL;
    if (!st && b->has_body) st = mt_builder_accumulate(b, op, block);
    if (!st) st = mt_builder_finish_sums(b, block, false);
    if (!st && block == MT_LAST && b->graph->ops[op].role == MT_ROLE_BACKWARD) st = send_gradients(b, op);
    return st;
}

static enum mt_status emit_samples(struct mt_builder *b, enum mt_block_kind block) {
    const struct mt_graph *g = b->graph;
    enum mt_status st = MT_OK;
    bool reported = false;
    enter(b, MT_BUCKET_SAMPLES);
    mt_builder_count_factors(b, block);
    for (int o = 0; o < g->nops && !st; o++) {
        if (!mt_builder_includes(b, o) || b->classes[o] == MT_INVARIANT || g->ops[o].role == MT_ROLE_UPDATE) continue;
        if (b->classes[o] == MT_SUMMED && block == MT_BODY && !b->joins[o]) continue;
        if (block == MT_LAST && !reported && g->ops[o].role == MT_ROLE_BACKWARD) {
            reported = true;
            if ((st = report_sums(b))) break;
            enter(b, MT_BUCKET_GRADIENTS);
        }
        if (mt_bucket_waits_for(block, g->ops[o].role, g->ops[o].kind) && mt_bucketing_yield(&b->bucketing))
            mt_builder_flush(b);
        mt_builder_enter_layer(b, o, block);
        bool off = false;
        st = mt_builder_put_off(b, o, block, &off);
        if (!st && !off) st = mt_builder_sample_op(b, o, block);
        if (!st) st = mt_builder_finish_products(b, block, false);
    }
    if (!st && block == MT_LAST && !reported) st = report_sums(b);
    if (!st) st = mt_builder_finish_products(b, block, true);
    if (!st) st = mt_builder_finish_sums(b, block, true);
    mt_builder_leave_layers(b, block);
    return st;
}

/* Ask for the weights that sample operators will want, in the order of their first use. */
static enum mt_status gather_weights(struct mt_builder *b, enum mt_block_kind block) {
    const struct mt_graph *g = b->graph;
    enter(b, MT_BUCKET_WEIGHTS);
    if (mt_builder_gathers_layers(b, block)) return mt_builder_plan_layers(b, block);
    for (int o = 0; o < g->nops; o++) {
        if (!mt_builder_includes(b, o) || b->classes[o] != MT_SAMPLE) continue;
        struct mt_rule rule = mt_builder_rule(b, o, block);
        if (rule.kind == MT_RULE_LINEAR) continue;
        for (int i = 0; i < g->ops[o].nin; i++) {
            int v = g->ops[o].in[i];
            if (!mt_builder_is_weight(b, v)) continue;
            int layout = mt_builder_wanted(b, o, &rule, i, block);
            enum mt_status st = layout < 0 ? MT_OK : mt_builder_want_soon(b, v, layout, MT_PROLOGUE);
            if (st) return st;
        }
    }
    return MT_OK;
}

/* A state has the layout that its update wants. */
static void add_states(struct mt_builder *b) {
    const struct mt_graph *g = b->graph;
    for (int v = 0; v < g->nvalues; v++) {
        if (g->values[v].kind != MT_VALUE_STATE) continue;
        int layout = mt_builder_whole(b, v, MT_PROLOGUE), next = g->values[v].next;
        int update = next >= 0 ? g->values[next].producer : -1;
        for (int i = 0; update >= 0 && i < g->ops[update].nin; i++)
            if (g->ops[update].in[i] == v) {
                struct mt_rule rule = mt_builder_rule(b, update, MT_EPILOGUE);
                int wanted = mt_builder_wanted(b, update, &rule, i, MT_PROLOGUE);
                if (wanted >= 0) layout = wanted; /* else the update is refused when it is emitted */
            }
        int p = mt_builder_add(b, v, layout, MT_PROLOGUE, MT_UNIFORM);
        b->program->values[p].input = true;
        mt_builder_hold(b, v, p);
    }
}

static enum mt_status emit_updates(struct mt_builder *b) {
    const struct mt_graph *g = b->graph;
    for (int o = 0; o < g->nops; o++)
        if (g->ops[o].role == MT_ROLE_UPDATE && b->classes[o] != MT_INVARIANT) {
            enum mt_status st = mt_builder_op(b, o, MT_EPILOGUE);
            if (st) return st;
        }
    for (int v = 0; v < g->nvalues; v++) {
        if (g->values[v].kind != MT_VALUE_STATE || g->values[v].next < 0) continue;
        int state = b->held[v][0], next;
        enum mt_status st = mt_builder_want(b, g->values[v].next, b->program->values[state].layout, MT_EPILOGUE, &next);
        if (st) return st;
        b->program->values[state].next = next;
    }
    return MT_OK;
}

/* ---- micro-batches ---- */

static bool by_node(const struct mt_builder *b) {
    return b->choice->batch && b->choice->batch->axis == MT_AXIS_HOST;
}

/* The batch as a block sees it; where it is not split, every rank has the whole block. */
static void divide_block(struct mt_builder *b, enum mt_block_kind block, const char *name, const int64_t *sizes) {
    struct mt_program *p = b->program;
    struct mt_split *s = &b->block_split[block];
    int n = by_node(b) ? b->mesh.nnodes : p->nranks;
    s->name = name;
    s->label = b->graph->batch;
    s->axis = by_node(b) ? MT_AXIS_HOST : MT_AXIS_ALL;
    s->sizes = mt_new(&p->arena, int64_t, n);
    s->starts = mt_new(&p->arena, int64_t, n + 1);
    for (int r = 0; r < p->nranks; r++) s->sizes[by_node(b) ? b->mesh.node[r] : r] = sizes[r];
    for (int i = 0; i < n; i++) s->starts[i + 1] = s->starts[i] + s->sizes[i];
    b->block_batch[block] = b->choice->batch ? s->starts[n] : sizes[0];
}

/* The micro-batches of a rank with a share of the batch. */
static void divide_share(struct mt_builder *b, int rank, int64_t share, int64_t start) {
    struct mt_program *p = b->program;
    const struct mt_choice *c = b->choice;
    int64_t micro = c->micro ? c->micro[c->batch ? rank : 0] : 0;
    if (micro <= 0 || micro > share) micro = share;
    int64_t count = micro > 0 ? (share + micro - 1) / micro : 0;
    p->batch_size[rank] = share;
    p->batch_start[rank] = start;
    p->body_count[rank] = count > 1 ? count - 1 : 0;
    p->body_size[rank] = count > 1 ? micro : 0;
    p->last_size[rank] = share - p->body_count[rank] * p->body_size[rank];
    b->has_body |= count > 1;
}

/* A split of samples among the ranks of each node over those that the block has, in proportion. `share`: it divides the
 * nodes' shares of the batch, else all of it. */
static struct mt_split *divide_within(struct mt_builder *b, const struct mt_split *split, bool share,
                                      enum mt_block_kind block) {
    const struct mt_split *all = b->choice->batch, *some = &b->block_split[block];
    int n = b->program->nranks;
    struct mt_split *s = mt_arena_memdup(&b->scratch, split, sizeof *split);
    s->sizes = mt_new(&b->scratch, int64_t, n);
    s->starts = mt_new(&b->scratch, int64_t, n);
    for (int r = 0; r < n; r++) {
        int node = b->mesh.node[r];
        int64_t of = share ? all->sizes[node] : b->graph->labels[b->graph->batch].extent;
        int64_t here = share ? some->sizes[node] : b->block_batch[block];
        int64_t end = of ? (split->starts[r] + split->sizes[r]) * here / of : 0;
        s->starts[r] = of ? split->starts[r] * here / of : 0;
        s->sizes[r] = end - s->starts[r];
    }
    return s;
}

struct within { /* a split of samples within nodes, and what it is in a block */
    const struct mt_split *of, *split;
    bool share;
};

/* Rules that divide samples within nodes, as the block has them (mt_builder_rule). */
static void divide_inner(struct mt_builder *b, enum mt_block_kind block) {
    struct within *known = NULL;
    int nknown = 0, capacity = 0;
    b->inner[block] = mt_new(&b->scratch, const struct mt_rule *, b->graph->nops);
    for (int o = 0; o < b->graph->nops; o++) {
        const struct mt_rule *rule = &b->choice->rules[o], *inner = b->inner[block][o] = rule->inner;
        bool share = rule->kind == MT_RULE_SPLIT && rule->split->label == b->graph->batch;
        struct mt_rule *mine = NULL;
        for (int k = 0; k < b->mesh.nnodes && inner; k++) {
            if (inner[k].kind != MT_RULE_SPLIT || inner[k].split->label != b->graph->batch) continue;
            int i = 0;
            while (i < nknown && (known[i].of != inner[k].split || known[i].share != share)) i++;
            if (i == nknown) {
                mt_arena_grow(&b->scratch, &known, nknown, &capacity, sizeof *known);
                known[nknown++] =
                    (struct within){inner[k].split, divide_within(b, inner[k].split, share, block), share};
            }
            if (!mine) mine = mt_arena_memdup(&b->scratch, inner, (size_t)b->mesh.nnodes * sizeof *inner);
            mine[k].split = known[i].split;
            b->inner[block][o] = mine;
        }
    }
}

/* Shares of the batch, and each rank's micro-batches. */
static enum mt_status divide_batch(struct mt_builder *b) {
    struct mt_program *p = b->program;
    const struct mt_split *batch = b->choice->batch;
    int64_t extent = b->graph->batch >= 0 ? b->graph->labels[b->graph->batch].extent : 0;
    int n = by_node(b) ? b->mesh.nnodes : p->nranks;
    if (batch && batch->starts[n] != extent)
        return mt_fail(b->err, MT_EINPUT, "the batch shares sum to %lld, but the batch is %lld",
                       (long long)batch->starts[n], (long long)extent);
    int *first = mt_calloc((size_t)n, sizeof *first); /* of each node, + 1 */
    enum mt_status st = MT_OK;
    for (int r = 0; r < p->nranks && !st; r++) {
        int i = by_node(b) ? b->mesh.node[r] : r;
        divide_share(b, r, batch ? batch->sizes[i] : extent, batch ? batch->starts[i] : 0);
        if (!first[i]) first[i] = r + 1;
        if (p->body_size[r] != p->body_size[first[i] - 1])
            st = mt_fail(b->err, MT_EINPUT, "ranks %d and %d have the same samples, but other micro-batches",
                         first[i] - 1, r);
    }
    free(first);
    divide_block(b, MT_BODY, "batch/body", p->body_size);
    divide_block(b, MT_LAST, "batch/last", p->last_size);
    b->block_batch[MT_PROLOGUE] = b->block_batch[MT_EPILOGUE] = extent;
    b->block_split[MT_PROLOGUE] = b->block_split[MT_EPILOGUE] = b->block_split[MT_LAST];
    divide_inner(b, MT_BODY);
    divide_inner(b, MT_LAST);
    b->inner[MT_PROLOGUE] = b->inner[MT_EPILOGUE] = b->inner[MT_LAST];
    return st;
}

/* A value of BODY of which some rank holds other ranks' samples; or -1. */
static int mixed_value(const struct mt_builder *b) {
    const struct mt_program *p = b->program;
    const struct mt_split *own = &b->block_split[MT_BODY];
    for (int v = 0; v < p->nvalues && b->choice->batch; v++) {
        const struct mt_layout *l = &p->layouts.items[p->values[v].layout];
        const int *label = b->graph->values[p->values[v].gvalue].label;
        for (int a = 0; a < l->naxes && p->values[v].block == MT_BODY; a++)
            for (int r = 0; r < p->nranks && label[a] == b->graph->batch; r++) {
                int i = by_node(b) ? b->mesh.node[r] : r;
                if (mt_box_count(&l->box[r], l->naxes) &&
                    (l->box[r].lo[a] < own->starts[i] || l->box[r].hi[a] > own->starts[i + 1]))
                    return v;
            }
    }
    return -1;
}

/* Ranks that communicate in BODY, or have each other's samples there, must have equal numbers of iterations. */
static enum mt_status check_body(struct mt_builder *b) {
    struct mt_program *p = b->program;
    const struct mt_block *body = &p->blocks[MT_BODY];
    int shared = mixed_value(b);
    for (int i = 0; i < body->ninstrs && shared < 0; i++)
        if (body->instrs[i].kind == MT_INSTR_COLLECTIVE) shared = body->instrs[i].in[0];
    if (shared < 0) return MT_OK;
    int64_t most = 0;
    for (int r = 0; r < p->nranks; r++)
        if (p->body_count[r] > most) most = p->body_count[r];
    for (int r = 0; r < p->nranks; r++) {
        if (p->body_size[r] == 0 && p->batch_size[r] == 0) p->body_count[r] = most;
        if (p->body_count[r] == most) continue;
        mt_fail(b->err, MT_EINPUT,
                "the ranks share their micro-batches (%s), but rank %d has %lld of them and another rank %lld",
                b->graph->values[p->values[shared].gvalue].name, r, (long long)p->body_count[r] + 1,
                (long long)most + 1);
        return mt_err_hint(b->err, "choose micro-batch sizes that give every rank the same number of micro-batches");
    }
    return MT_OK;
}

static void list_consumers(struct mt_builder *b) {
    const struct mt_graph *g = b->graph;
    for (int o = 0; o < g->nops; o++)
        for (int i = 0; i < g->ops[o].nin; i++) b->first_consumer[g->ops[o].in[i] + 1]++;
    for (int v = 0; v < g->nvalues; v++) b->first_consumer[v + 1] += b->first_consumer[v];
    b->consumers = mt_calloc((size_t)b->first_consumer[g->nvalues], sizeof(int));
    int *next = mt_calloc((size_t)g->nvalues, sizeof *next);
    for (int o = 0; o < g->nops; o++)
        for (int i = 0; i < g->ops[o].nin; i++) {
            int v = g->ops[o].in[i];
            b->consumers[b->first_consumer[v] + next[v]++] = o;
        }
    free(next);
}

static void release(struct mt_builder *b) {
    free(b->consumers);
    free(b->first_consumer);
    for (int v = 0; v < b->graph->nvalues; v++) free(b->held[v]);
    free(b->held);
    free(b->nheld);
    free(b->held_capacity);
    free(b->classes);
    free(b->summed);
    free(b->emitted);
    free(b->joins);
    mt_arena_release(&b->scratch);
    free(b->accumulator);
    free(b->uniform);
    free(b->bucket);
    for (int c = 0; c < b->nconversions; c++) free(b->conversions[c].group);
    free(b->conversions);
}

static enum mt_status build(const struct mt_graph *graph, const struct mt_choice *choice, bool forward_only,
                            struct mt_program *program, struct mt_err *err) {
    size_t nvalues = (size_t)graph->nvalues, nops = (size_t)graph->nops;
    struct mt_builder b = {.graph = graph,
                           .choice = choice,
                           .program = program,
                           .err = err,
                           .classes = mt_calloc(nops, sizeof(enum mt_op_class)),
                           .summed = mt_calloc(nvalues, sizeof(bool)),
                           .emitted = mt_calloc(nops, sizeof(bool)),
                           .joins = mt_calloc(nops, sizeof(bool)),
                           .held = mt_calloc(nvalues, sizeof(int *)),
                           .nheld = mt_calloc(nvalues, sizeof(int)),
                           .held_capacity = mt_calloc(nvalues, sizeof(int)),
                           .accumulator = mt_calloc(nvalues, sizeof(int)),
                           .first_consumer = mt_calloc(nvalues + 1, sizeof(int)),
                           .forward_only = forward_only};
    mt_program_init(program, graph, choice->nranks);
    program->train = !forward_only;
    program->gradient_wire = choice->decisions.gradient_wire;
    program->staging_bytes = choice->decisions.staging_bytes;
    program->overlap = choice->decisions.overlapped > 0 ? (unsigned)choice->decisions.overlapped : 0;
    program->overlaps =
        mt_overlap_choices_copy(choice->decisions.overlaps, choice->decisions.noverlaps, &program->arena);
    program->noverlaps = choice->decisions.noverlaps;
    program->overlap_yielding = choice->decisions.start == MT_START_ATTENTION;
    if (choice->node)
        program->node = mt_arena_memdup(&program->arena, choice->node, (size_t)choice->nranks * sizeof *choice->node);
    if (choice->alike)
        program->alike =
            mt_arena_memdup(&program->arena, choice->alike, (size_t)choice->nranks * sizeof *choice->alike);
    b.mesh = choice->mesh;
    if (!b.mesh.nnodes) b.mesh = (struct mt_mesh){choice->nranks, 1, mt_new(&program->arena, int, choice->nranks)};
    enum mt_status st;
    if ((st = divide_batch(&b)) || (st = classify(&b))) goto out;
    list_consumers(&b);
    mt_builder_find_joins(&b);
    mt_bucketing_init(&b.bucketing, choice->decisions.bucket_bytes, count_gradient_bytes(&b), count_yielding(&b));
    add_states(&b);
    if (b.has_body && ((st = gather_weights(&b, MT_BODY)) || (st = emit_samples(&b, MT_BODY)))) goto out;
    if ((st = gather_weights(&b, MT_LAST)) || (st = emit_samples(&b, MT_LAST))) goto out;
    enter(&b, MT_BUCKET_UPDATE);
    if (!forward_only && (st = emit_updates(&b))) goto out;
    st = check_body(&b);
out:
    release(&b);
    if (st) mt_program_release(program);
    return st;
}

enum mt_status mt_build(const struct mt_graph *graph, const struct mt_choice *choice, struct mt_program *program,
                        struct mt_err *err) {
    return build(graph, choice, false, program, err);
}

enum mt_status mt_build_forward(const struct mt_graph *graph, const struct mt_choice *choice,
                                struct mt_program *program, struct mt_err *err) {
    return build(graph, choice, true, program, err);
}
