/* An operator's operands as tensors of one rank.
 *
 * Each index of the operator has one interval on a rank. All non-empty boxes that carry the index must agree on it; an
 * index that only empty boxes carry has no elements on this rank. */
#include "synth/ops/ops.h"
#include "synth/program/program.h"

struct intervals {
    bool known[MT_MAX_INDICES];
    int64_t lo[MT_MAX_INDICES], hi[MT_MAX_INDICES];
    int64_t batch;                 /* the block's batch extent; -1: not computed yet */
    bool sampled[MT_MAX_INDICES];  /* first[] has been computed */
    int64_t first[MT_MAX_INDICES]; /* of batch indices: the global number of the first sample */
};

struct operand {
    const struct mt_program *program;
    const struct mt_op *op;
    int value, gvalue, rank; /* gvalue: the operator's own operand */
    const int *index;
    enum mt_block_kind block;
};

static enum mt_status refuse(const struct operand *o, struct mt_err *err, const char *why) {
    return mt_fail(err, MT_EBUG, "%s block: %s: %%%d (%s) on rank %d: %s", mt_block_name(o->block), o->op->name,
                   o->value, o->program->graph->values[o->gvalue].name, o->rank, why);
}

/* Both of these loop over all ranks, so that they are computed once an operator. */
static int64_t batch_extent(const struct operand *o, struct intervals *at) {
    if (at->batch < 0) at->batch = mt_program_batch(o->program, o->block);
    return at->batch;
}

static int64_t first_sample(const struct operand *o, struct intervals *at, int index, int64_t iteration) {
    if (!at->sampled[index]) at->first[index] = mt_program_sample(o->program, o->block, iteration, at->lo[index]);
    at->sampled[index] = true;
    return at->first[index];
}

static enum mt_status read_operand(const struct operand *o, struct intervals *at, struct mt_err *err) {
    const struct mt_program *p = o->program;
    const struct mt_value *expected = &p->graph->values[o->gvalue];
    const struct mt_pvalue *v = &p->values[o->value];
    const struct mt_layout *l = &p->layouts.items[v->layout];
    const struct mt_box *box = &l->box[o->rank];
    if (v->type != expected->type) return refuse(o, err, "not of the type that the operator takes");
    if (l->naxes != expected->naxes) return refuse(o, err, "not of the shape that the operator takes");
    for (int a = 0; a < l->naxes; a++) {
        int label = expected->label[a], i = o->index[a];
        int64_t extent = label == p->graph->batch ? batch_extent(o, at) : p->graph->labels[label].extent;
        if (l->extent[a] != extent) return refuse(o, err, "not of the extent that the operator takes");
        if (!mt_box_count(box, l->naxes)) continue;
        if (at->known[i] && (at->lo[i] != box->lo[a] || at->hi[i] != box->hi[a]))
            return refuse(o, err, "its box does not fit the other operands'");
        at->known[i] = true;
        at->lo[i] = box->lo[a];
        at->hi[i] = box->hi[a];
    }
    return MT_OK;
}

static enum mt_status set_tensor(const struct operand *o, struct intervals *at, int64_t iteration,
                                 struct mt_tensor *tensor, struct mt_err *err) {
    const struct mt_program *p = o->program;
    const struct mt_graph *g = p->graph;
    const struct mt_pvalue *v = &p->values[o->value];
    const struct mt_layout *l = &p->layouts.items[v->layout];
    *tensor = (struct mt_tensor){.type = v->type, .naxes = l->naxes};
    for (int a = 0; a < l->naxes; a++) {
        int i = o->index[a];
        tensor->extent[a] = at->hi[i] - at->lo[i];
        tensor->offset[a] = at->lo[i];
        tensor->global[a] = l->extent[a];
        if (g->values[o->gvalue].label[a] != g->batch) continue;
        tensor->global[a] = g->labels[g->batch].extent;
        if (!tensor->extent[a]) continue;
        tensor->offset[a] = first_sample(o, at, i, iteration);
        if (o->op->attr.p > 0 &&
            mt_program_sample(p, o->block, iteration, at->hi[i] - 1) - tensor->offset[a] != tensor->extent[a] - 1)
            return refuse(o, err, "its samples are not consecutive, as dropout needs them to be");
    }
    if (mt_tensor_count(tensor) != mt_box_count(&l->box[o->rank], l->naxes))
        return refuse(o, err, "its box is empty, but the other operands' are not");
    return MT_OK;
}

static void fill_unknown(const struct mt_program *p, const struct mt_op *op, struct intervals *at) {
    for (int i = 0; i < op->nindices; i++) {
        if (at->known[i]) continue;
        at->lo[i] = at->hi[i] = 0;
        if (mt_op_index_role(op, i) == MT_INDEX_WHOLE) at->hi[i] = p->graph->labels[op->index_label[i]].extent;
    }
}

enum mt_status mt_program_tensors(const struct mt_program *program, enum mt_block_kind block,
                                  const struct mt_instr *instr, int rank, int64_t iteration, struct mt_tensor *in,
                                  struct mt_tensor *out, struct mt_err *err) {
    const struct mt_op *op = &program->graph->ops[instr->gop];
    struct intervals at = {.batch = -1};
    for (int pass = 0; pass < 2; pass++) {
        if (pass == 1) fill_unknown(program, op, &at);
        for (int k = 0; k < op->nin + op->nout; k++) {
            bool input = k < op->nin;
            int i = input ? k : k - op->nin;
            struct operand o = {.program = program,
                                .op = op,
                                .rank = rank,
                                .block = block,
                                .value = input ? instr->in[i] : instr->out[i],
                                .gvalue = input ? op->in[i] : op->out[i],
                                .index = input ? op->in_index[i] : op->out_index[i]};
            enum mt_status st =
                pass == 0 ? read_operand(&o, &at, err) : set_tensor(&o, &at, iteration, input ? &in[i] : &out[i], err);
            if (st) return st;
        }
    }
    return MT_OK;
}
