/* Work from a lowered program of two ranks: one, and the rest. The axes that a share divides are read off the boxes:
 * the batch, and sharded state where the layouts part an axis that has a label of it. */
#include "planner/work/work.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "planner/balance/split.h"
#include "synth/builder/build.h"
#include "planner/plan/choice.h"
#include "synth/ops/ops.h"

/* ---- the program of one rank and the rest ---- */

struct pair {
    int64_t bucket_bytes; /* -1: to read axes from; the plan's buckets are left out, and both ranks store something */
    int64_t samples, micro;
    struct mt_arena arena;
    struct mt_plan *plan;
    struct mt_choice choice;
    struct mt_program program;
    struct mt_lowered *low;
};

static void pair_release(struct pair *d) {
    mt_lowered_free(d->low);
    if (d->program.graph) mt_program_release(&d->program);
    mt_arena_release(&d->arena);
    mt_plan_free(d->plan);
}

/* An even share of the state for the one rank, the remainder for the rest. `both`: neither is empty, whatever the
 * alignment, since an empty box does not say which axis is divided. */
static enum mt_status divide_storage(const struct mt_graph *g, int nranks, bool both, struct mt_plan *p,
                                     struct mt_err *err) {
    int *labels = mt_new(&p->arena, int, g->nlabels), nlabels = mt_sharding_labels(g, labels);
    double weight[2] = {1, nranks - 1};
    p->splits = mt_new(&p->arena, struct mt_plan_split, nlabels + 1);
    p->nsplits = 1;
    for (int l = 0; l < nlabels; l++) {
        const struct mt_label *label = &g->labels[labels[l]];
        struct mt_plan_split *split = &p->splits[p->nsplits++];
        *split = (struct mt_plan_split){.name = mt_arena_printf(&p->arena, "storage:%s", label->name),
                                        .label = label->name,
                                        .align = label->align,
                                        .sizes = mt_new(&p->arena, int64_t, 2)};
        enum mt_status st = mt_split_proportional(label->extent, label->align, weight, p->nranks, split->sizes, err);
        if (st) return st;
        if (!both || p->nranks == 1 || label->extent < 2) continue;
        split->sizes[0] = split->sizes[0] < 1               ? 1
                          : split->sizes[0] < label->extent ? split->sizes[0]
                                                            : label->extent - 1;
        split->sizes[1] = label->extent - split->sizes[0];
    }
    return MT_OK;
}

/* The most samples a micro-batch of `samples` that make `count` micro-batches; or 0: none do. */
static int64_t micro_of(int64_t samples, int64_t count) {
    int64_t micro = samples > 0 ? (samples + count - 1) / count : 0;
    return micro > 0 && (samples + micro - 1) / micro == count ? micro : 0;
}

/* The micro-batches of ranks that communicate in each: as many of the rest as of the one; if the batch does not allow
 * that, two of each, which take the same memory. */
static void divide_in_step(const struct mt_graph *g, struct mt_plan *p) {
    int64_t *sizes = p->splits[0].sizes, count = p->micro[0] ? (sizes[0] + p->micro[0] - 1) / p->micro[0] : 0;
    if (!count) return; /* idle: it runs as many as the rest */
    p->micro[1] = micro_of(sizes[1], count);
    if (p->micro[1] || !sizes[1]) return;
    sizes[0] = 2 * p->micro[0];
    sizes[1] = g->labels[g->batch].extent - sizes[0];
    p->micro[1] = micro_of(sizes[1], 2);
}

/* Of a rank without samples the rest has micro-batches, if those are asked for. */
static void divide_samples(const struct mt_graph *g, int64_t samples, int64_t micro, bool in_step, struct mt_plan *p) {
    const struct mt_label *batch = &g->labels[g->batch];
    p->splits[0] = (struct mt_plan_split){
        .name = "batch", .label = batch->name, .align = batch->align, .sizes = mt_new(&p->arena, int64_t, 2)};
    int64_t *sizes = p->splits[0].sizes, rest = batch->extent - samples;
    sizes[0] = p->nranks == 1 ? batch->extent : samples;
    p->micro[0] = micro > 0 && micro < sizes[0] ? micro : sizes[0];
    if (p->nranks == 1) return;
    sizes[1] = rest;
    p->micro[1] = micro > 0 && !samples && rest > 1 ? rest / 2 : rest;
    if (in_step) divide_in_step(g, p);
}

/* As `plan` says, but for algorithms, which do not matter here. */
static enum mt_status pair_build(const struct mt_graph *g, const struct mt_plan *plan,
                                 const struct mt_lower_options *options, struct pair *d, struct mt_err *err) {
    bool axes = d->bucket_bytes < 0;
    struct mt_plan *p = d->plan = mt_plan_new(plan->nranks > 1 ? 2 : 1);
    enum mt_status st = divide_storage(g, plan->nranks, axes, p, err);
    if (st) return st;
    divide_samples(g, d->samples, d->micro, mt_decisions_in_step(&plan->decisions), p);
    p->job = plan->job;
    p->decisions = plan->decisions;
    p->decisions.bucket_bytes = axes ? 0 : d->bucket_bytes;
    p->decisions.nalgorithms = 0;
    p->decisions.overlapped = MT_OVERLAPPED_NONE; /* GEMMs and messages are read apart */
    if ((st = mt_choice_from_plan(g, p, false, &d->arena, &d->choice, err)) ||
        (st = mt_build(g, &d->choice, &d->program, err)))
        return st;
    if (axes) d->program.staging_bytes = INT64_MAX; /* values are read in one message each */
    struct mt_lower_options sketch = *options;
    sketch.sketch = true;
    sketch.unplaced = axes;
    return mt_lower(&d->program, 0, &sketch, &d->low, err);
}

/* ---- operators ---- */

struct reading {
    const struct mt_lowered *low;
    struct mt_work *work;
    int capacity, messages_capacity;
    int *slots, nslots; /* of operators: open addressing, id + 1 */
    int *gradient_of;   /* [values of the graph]: the parameter whose gradient it is, or -1 */
    struct mt_tensor tensor[MT_MAX_IN + MT_MAX_OUT]; /* of the operator that is described */
    int divided[MT_MAX_IN + MT_MAX_OUT][MT_MAX_AXES];
};

static int label_of(const struct mt_work *w, int label) {
    for (int l = 0; l < w->nlabels; l++)
        if (w->labels[l].label == label) return l;
    return -1;
}

/* Whether the two ranks hold different parts of axis `a` of a value, whose label is divided over ranks. An empty box
 * has no place on any axis: it is of a rank without samples. */
static bool parted(const struct mt_program *p, int pvalue, int a, bool samples) {
    const struct mt_layout *layout = mt_pvalue_layout(p, pvalue);
    const struct mt_box *one = &layout->box[0], *rest = &layout->box[1];
    bool empty = !mt_box_count(one, layout->naxes), rest_empty = !mt_box_count(rest, layout->naxes);
    if (empty || rest_empty) return samples && empty != rest_empty;
    return one->lo[a] != rest->lo[a] || one->hi[a] != rest->hi[a];
}

/* The axes that shares divide: by the labels of the value's axes and its layout. */
static void mark_divided(const struct reading *r, int lvalue, int *divided) {
    const struct mt_program *p = r->low->program;
    int pvalue = r->low->values[lvalue].pvalue;
    for (int a = 0; a < MT_MAX_AXES; a++) divided[a] = MT_WORK_WHOLE;
    if (pvalue < 0) return;
    const struct mt_value *g = &p->graph->values[p->values[pvalue].gvalue];
    for (int a = 0; a < g->naxes; a++) {
        bool samples = g->label[a] == p->graph->batch;
        int label = samples ? -1 : label_of(r->work, g->label[a]);
        if (p->nranks == 1 ? !samples : (!samples && label < 0) || !parted(p, pvalue, a, samples)) continue;
        divided[a] = samples ? MT_WORK_SAMPLES : MT_WORK_STORAGE + label;
    }
}

static enum mt_op_role role_of(const struct mt_lowered *low, const struct mt_linstr *c, enum mt_block_kind block) {
    if (block == MT_EPILOGUE) return MT_ROLE_UPDATE;
    if (!c->nsources) return MT_ROLE_UPDATE;
    const struct mt_instr *source = &low->program->blocks[block].instrs[c->sources[0]];
    return source->kind == MT_INSTR_OP ? low->program->graph->ops[source->gop].role : MT_ROLE_BACKWARD;
}

/* Its tensors are the reading's until the next call. */
static struct mt_work_op describe(struct reading *r, const struct mt_linstr *c, enum mt_block_kind block) {
    bool copy = c->what == MT_LOWERED_COPY;
    struct mt_work_op op = {.copy = copy,
                            .kind = c->kind,
                            .attr = c->attr,
                            .nin = copy ? 0 : c->nin,
                            .nout = c->nout,
                            .block = block,
                            .role = role_of(r->low, c, block),
                            .npieces = c->npack,
                            .count = 1};
    op.attr.tag = 0; /* layers differ by it, their times do not */
    op.tensor = r->tensor;
    op.divided = r->divided;
    for (int k = 0; k < op.nin + op.nout; k++) {
        int lvalue = k < op.nin ? c->in[k] : c->out[k - op.nin];
        op.tensor[k] = copy ? r->low->values[lvalue].tensor : c->tensor[k];
        op.tensor[k].data = NULL;
        memset(op.tensor[k].offset, 0, sizeof op.tensor[k].offset);
        mark_divided(r, lvalue, op.divided[k]);
    }
    return op;
}

static bool same_shape(const struct mt_op_shape *x, const struct mt_op_shape *y) {
    return x->kind == y->kind && x->type == y->type && x->rows == y->rows && x->dim[0] == y->dim[0] &&
           x->dim[1] == y->dim[1] && x->flops == y->flops && x->bytes == y->bytes && !strcmp(x->variant, y->variant);
}

static void shape_of(enum mt_op_kind kind, const struct mt_attr *attr, int nin, int nout,
                     const struct mt_tensor *tensor, struct mt_op_shape *shape) {
    struct mt_call call = {.kind = kind, .attr = attr, .nin = nin, .nout = nout, .in = tensor, .out = tensor + nin};
    mt_op_shape(&call, shape);
}

/* Equal in all that its time depends on. */
static bool same_op(const struct mt_work_op *a, const struct mt_work_op *b) {
    if (a->copy != b->copy || a->kind != b->kind || a->nin != b->nin || a->nout != b->nout || a->block != b->block ||
        a->role != b->role || a->npieces != b->npieces)
        return false;
    for (int k = 0; k < a->nin + a->nout; k++) {
        const struct mt_tensor *x = &a->tensor[k], *y = &b->tensor[k];
        if (x->type != y->type || x->naxes != y->naxes || memcmp(x->extent, y->extent, sizeof x->extent) ||
            memcmp(a->divided[k], b->divided[k], sizeof a->divided[k]))
            return false;
    }
    bool equal = !memcmp(&a->attr, &b->attr, sizeof a->attr) &&
                 !memcmp(a->tensor, b->tensor, (size_t)(a->nin + a->nout) * sizeof *a->tensor);
    if (a->copy || equal) return true;
    struct mt_op_shape x, y;
    shape_of(a->kind, &a->attr, a->nin, a->nout, a->tensor, &x);
    shape_of(b->kind, &b->attr, b->nin, b->nout, b->tensor, &y);
    return same_shape(&x, &y);
}

static unsigned hash_op(const struct mt_work_op *op) {
    unsigned hash = (unsigned)op->kind * 31 + (unsigned)op->block * 7 + (unsigned)op->role;
    for (int k = 0; k < op->nin + op->nout; k++)
        for (int a = 0; a < op->tensor[k].naxes; a++) hash = hash * 1000003u + (unsigned)op->tensor[k].extent[a];
    return hash ^ hash >> 15;
}

static int add_op(struct reading *r, const struct mt_linstr *c, enum mt_block_kind block) {
    struct mt_work *w = r->work;
    struct mt_work_op op = describe(r, c, block);
    unsigned at = hash_op(&op) % (unsigned)r->nslots;
    for (; r->slots[at]; at = (at + 1) % (unsigned)r->nslots)
        if (same_op(&w->ops[r->slots[at] - 1], &op)) return w->ops[r->slots[at] - 1].count++, r->slots[at] - 1;
    mt_arena_grow(&w->arena, &w->ops, w->nops, &r->capacity, sizeof *w->ops);
    size_t ntensors = (size_t)(op.nin + op.nout);
    op.tensor = mt_arena_memdup(&w->arena, op.tensor, ntensors * sizeof *op.tensor);
    op.divided = mt_arena_memdup(&w->arena, op.divided, ntensors * sizeof *op.divided);
    w->ops[w->nops++] = op;
    r->slots[at] = w->nops;
    return w->nops - 1;
}

/* ---- messages ---- */

/* With every operator split over the batch, only gradients and reports cross ranks in LAST. */
static enum mt_bucket_phase phase_of(const struct mt_graph *g, int gvalue, enum mt_block_kind block) {
    static const enum mt_bucket_phase phases[MT_NBLOCKS] = {MT_BUCKET_WEIGHTS, MT_BUCKET_SAMPLES, MT_BUCKET_GRADIENTS,
                                                            MT_BUCKET_UPDATE};
    bool report = block == MT_LAST && (gvalue == g->loss_sum || gvalue == g->token_count);
    return report ? MT_BUCKET_REPORTS : phases[block];
}

/* The label by whose shares a value is cut into blocks. */
static int cut_by(const struct reading *r, const struct mt_linstr *c) {
    int cut = c->problem.kind == MT_REDUCE_SCATTER ? c->out[0] : c->in[0], divided[MT_MAX_AXES];
    mark_divided(r, cut, divided);
    for (int a = 0; a < MT_MAX_AXES; a++)
        if (divided[a] >= MT_WORK_STORAGE) return divided[a] - MT_WORK_STORAGE;
    return -1;
}

static enum mt_status add_message(struct reading *r, const struct mt_linstr *c, enum mt_block_kind block, int *message,
                                  struct mt_err *err) {
    struct mt_work *w = r->work;
    const struct mt_program *p = r->low->program;
    if (c->problem.kind == MT_ALL_TO_ALL) return mt_fail(err, MT_EBUG, "%s: work by shares knows no AllToAll", c->name);
    int gvalue = p->values[c->in[0]].gvalue;
    bool scatter = c->problem.kind == MT_REDUCE_SCATTER || c->problem.kind == MT_ALL_GATHER;
    mt_arena_grow(&w->arena, &w->messages, w->nmessages, &r->messages_capacity, sizeof *w->messages);
    w->messages[w->nmessages] = (struct mt_work_message){
        .key = {c->problem.kind, c->problem.reduce, c->problem.wire, c->problem.acc, block, NULL},
        .phase = phase_of(p->graph, gvalue, block),
        .param = r->gradient_of[gvalue] >= 0 ? r->gradient_of[gvalue] : mt_graph_param_of(p->graph, gvalue),
        .label = scatter ? cut_by(r, c) : -1,
        .bytes = mt_value_count(p->graph, gvalue) * mt_type_size(p->graph->values[gvalue].type)};
    for (int i = 0; i < c->problem.n; i++) w->messages[w->nmessages].count += c->problem.counts[i];
    *message = w->nmessages++;
    return MT_OK;
}

/* ---- the whole ---- */

static void list_labels(const struct mt_graph *g, const struct mt_plan *plan, struct mt_work *w) {
    int *labels = mt_new(&w->arena, int, g->nlabels);
    w->nlabels = mt_sharding_labels(g, labels);
    w->labels = mt_new(&w->arena, struct mt_work_label, w->nlabels + 1);
    for (int l = 0; l < w->nlabels; l++)
        w->labels[l] = (struct mt_work_label){labels[l], g->labels[labels[l]].extent, g->labels[labels[l]].align, 0};
    for (int v = 0; v < g->nvalues; v++) {
        if (g->values[v].kind != MT_VALUE_STATE) continue;
        int param = g->values[v].param ? v : g->values[v].owner;
        int axis = param >= 0 ? mt_sharding_axis(g, param) : -1;
        int64_t bytes = mt_value_count(g, v) * mt_type_size(g->values[v].type);
        if (axis >= 0 && mt_plan_stored_split(plan, g->values[param].name))
            w->labels[label_of(w, g->values[param].label[axis])].state_bytes += bytes;
        else
            w->state_bytes += bytes;
    }
}

static enum mt_status read_steps(struct reading *r, struct mt_err *err) {
    const struct mt_lowered *low = r->low;
    struct mt_work *w = r->work;
    int *step_of = mt_calloc((size_t)low->ninstrs + 1, sizeof *step_of);
    int *writer = mt_calloc((size_t)low->nvalues + 1, sizeof *writer); /* [lvalues] */
    enum mt_status st = MT_OK;
    memset(writer, -1, (size_t)low->nvalues * sizeof *writer);
    w->steps = mt_new(&w->arena, struct mt_work_step, low->ninstrs + 1);
    for (int b = 0; b < MT_NBLOCKS && !st; b++) {
        w->block_begin[b] = w->nsteps;
        for (int i = low->block_begin[b]; i < low->block_begin[b + 1] && !st; i++) {
            const struct mt_linstr *c = &low->instrs[i];
            step_of[i] = w->nsteps;
            if (c->what == MT_LOWERED_ALIAS) {
                writer[c->out[0]] = writer[c->in[0]];
                continue;
            }
            if (c->kept) { /* does not run: its result was there before the step */
                step_of[i] = -1;
                continue;
            }
            struct mt_work_step *step = &w->steps[w->nsteps];
            *step = (struct mt_work_step){-1, -1, c->nwaits ? step_of[c->waits[0]] : -1, -1};
            for (int k = 0; k < c->nin && c->what == MT_LOWERED_COLLECTIVE; k++)
                if (writer[c->in[k]] > step->from) step->from = writer[c->in[k]];
            for (int k = 0; k < c->nout; k++) writer[c->out[k]] = w->nsteps;
            if (c->what == MT_LOWERED_COLLECTIVE)
                st = add_message(r, c, (enum mt_block_kind)b, &step->message, err);
            else
                step->op = add_op(r, c, (enum mt_block_kind)b);
            w->nsteps++;
        }
    }
    w->block_begin[MT_NBLOCKS] = w->nsteps;
    free(writer);
    free(step_of);
    return st;
}

enum mt_status mt_work_open(const struct mt_graph *graph, const struct mt_plan *plan, bool body,
                            const struct mt_lower_options *options, struct mt_work *work, struct mt_err *err) {
    bool several = body && graph->labels[graph->batch].extent > 1;
    struct pair d = {.bucket_bytes = -1, .samples = several ? 2 : 1, .micro = body};
    *work = (struct mt_work){.nlabels = 0};
    enum mt_status st = pair_build(graph, plan, options, &d, err);
    if (!st) {
        struct reading r = {.low = d.low, .work = work, .nslots = 2 * d.low->ninstrs + 1};
        r.slots = mt_calloc((size_t)r.nslots, sizeof *r.slots);
        r.gradient_of = mt_calloc((size_t)graph->nvalues, sizeof *r.gradient_of);
        memset(r.gradient_of, -1, (size_t)graph->nvalues * sizeof *r.gradient_of);
        for (int v = 0; v < graph->nvalues; v++)
            if (graph->values[v].param && graph->values[v].gradient >= 0) r.gradient_of[graph->values[v].gradient] = v;
        list_labels(graph, plan, work);
        st = read_steps(&r, err);
        free(r.gradient_of);
        free(r.slots);
    }
    pair_release(&d);
    if (st) mt_work_release(work);
    return st;
}

void mt_work_release(struct mt_work *work) {
    mt_arena_release(&work->arena);
    *work = (struct mt_work){.nlabels = 0};
}

enum mt_status mt_work_memory(const struct mt_graph *graph, const struct mt_plan *plan, int64_t samples, int64_t micro,
                              const struct mt_lower_options *options, struct mt_plan_memory *memory,
                              struct mt_err *err) {
    struct pair d = {.bucket_bytes = plan->decisions.bucket_bytes, .samples = samples, .micro = micro};
    enum mt_status st = pair_build(graph, plan, options, &d, err);
    if (!st) *memory = (struct mt_plan_memory){.state_bytes = d.low->state_bytes, .arena_bytes = d.low->arena_bytes};
    pair_release(&d);
    return st;
}

/* ---- reading it ---- */

static void size_tensors(const struct mt_work_op *op, const struct mt_work_share *share, struct mt_tensor *tensor) {
    for (int k = 0; k < op->nin + op->nout; k++) {
        tensor[k] = op->tensor[k];
        for (int a = 0; a < tensor[k].naxes; a++)
            if (op->divided[k][a] == MT_WORK_SAMPLES)
                tensor[k].extent[a] = share->samples;
            else if (op->divided[k][a] >= MT_WORK_STORAGE)
                tensor[k].extent[a] = share->storage[op->divided[k][a] - MT_WORK_STORAGE];
    }
}

void mt_work_shape(const struct mt_work_op *op, const struct mt_work_share *share, struct mt_op_shape *shape) {
    struct mt_tensor tensor[MT_MAX_IN + MT_MAX_OUT];
    size_tensors(op, share, tensor);
    shape_of(op->kind, &op->attr, op->nin, op->nout, tensor, shape);
}

int64_t mt_work_copy_bytes(const struct mt_work_op *op, const struct mt_work_share *share) {
    struct mt_tensor tensor[MT_MAX_IN + MT_MAX_OUT];
    size_tensors(op, share, tensor);
    return mt_tensor_count(&tensor[0]) * mt_type_size(tensor[0].type);
}

static bool is_waited_for(const struct mt_work *work, int step) {
    const struct mt_work_op *op = work->steps[step].op >= 0 ? &work->ops[work->steps[step].op] : NULL;
    return op && !op->copy && mt_bucket_waits_for(op->block, op->role, op->kind);
}

int mt_work_buckets(const struct mt_work *work, int64_t bucket_bytes, bool attention, int *bucket) {
    const struct mt_work_message *last = NULL; /* that waits; null: none does */
    struct mt_bucketing b;
    int64_t gradient_bytes = 0;
    int nyielding = 0, first = 0 /* step of what waits */, n = 0;
    for (int m = 0; m < work->nmessages; m++)
        if (work->messages[m].phase == MT_BUCKET_GRADIENTS) gradient_bytes += work->messages[m].bytes;
    for (int s = 0; s < work->nsteps && attention; s++) nyielding += is_waited_for(work, s);
    mt_bucketing_init(&b, bucket_bytes, gradient_bytes, nyielding);
    for (int s = 0; s < work->nsteps; s++) {
        const struct mt_work_step *step = &work->steps[s];
        const struct mt_work_message *now = step->message >= 0 ? &work->messages[step->message] : NULL;
        bool before = now ? mt_bucketing_enter(&b, now->phase) : is_waited_for(work, s) && mt_bucketing_yield(&b);
        if (before || (!now && last && step->wait >= first)) {
            mt_bucketing_sent(&b);
            last = NULL;
        }
        if (!now) continue;
        if (!last) first = s;
        n += !last || !mt_bucket_same_message(&last->key, &now->key, 0);
        bucket[step->message] = n - 1;
        last = now;
        if (mt_bucketing_add(&b, now->bytes, true)) {
            mt_bucketing_sent(&b);
            last = NULL;
        }
    }
    return n;
}
