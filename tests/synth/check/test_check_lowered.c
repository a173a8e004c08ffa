/* Mutants of lowered programs: one rank's (or every rank's) damaged in every way we can think of, at every instruction.
 * The checker may accept a mutant only if it still computes the same numbers, in fp64, whichever stream runs ahead. And
 * it accepts what the lowering makes of many random programs.
 *
 * Longer than other files: the mutations are one table, each a few lines, and mean little apart from it. */
#include <stddef.h>

#include "kernels/overlap/chunk.h"
#include "synth/check/check.h"
#include "tests/synth/check/changes.h"
#include "tests/synth/check/overlapped_changes.h"
#include "tests/synth/programs.h"
#include "tests/synth/replay.h"

static struct {
    const char *name;
    const struct mt_program *program;
    struct mt_interp *want;
    double loss;
    double **begin; /* [graph values]: states before the first step */
    struct mt_lowered *lowered[8];
    struct mt_lower_options options;
    int made, refused, right;
} truth;

static bool is_accepted(struct mt_err *err) {
    return !mt_check_lowered(truth.program, (const struct mt_lowered *const *)truth.lowered, &truth.options, NULL, err);
}

/* A mutant that the checker accepts must compute the truth, whatever the timing: it is tried with each stream ahead. */
static void expect_verdict(const char *what, int rank, int instr) {
    struct mt_err err = MT_ERR_INIT;
    if (!changed()) {
        take_back();
        return;
    }
    truth.made++;
    bool accepted = is_accepted(&err);
    if (!accepted) {
        CHECK_EQ(err.status, MT_EPROOF);
        truth.refused++;
    }
    for (int timing = COMPUTE_AHEAD; timing <= COMM_AHEAD && accepted; timing++) {
        double worst =
            replay_difference(truth.program, truth.lowered, (enum timing)timing, truth.want, truth.loss, truth.begin);
        if (worst <= 1e-9) continue;
        mt_lowered_print(truth.lowered[rank], stderr);
        fprintf(stderr, "%s: accepted though wrong: %s at rank %d's instruction %d, timing %d: %g\n", truth.name, what,
                rank, instr, timing, worst);
        abort();
    }
    truth.right += accepted;
    take_back();
}

/* ---- order and streams ---- */

static struct mt_linstr *linstr(int rank, int instr) {
    return &truth.lowered[rank]->instrs[instr];
}

typedef void mutation(struct mt_lowered *m, struct mt_linstr *l, int instr, int variant);
#define MUTATE(name) static void name(struct mt_lowered *m, struct mt_linstr *l, int instr, int variant)
#define UNUSED (void)m, (void)l, (void)instr, (void)variant

MUTATE(drop_wait) {
    UNUSED;
    if (variant >= l->nwaits) return;
    SET(l->waits[variant], l->waits[l->nwaits - 1]);
    SET(l->nwaits, l->nwaits - 1);
}

/* For an earlier instruction of another stream. */
MUTATE(wait_earlier) {
    UNUSED;
    if (!l->nwaits) return;
    int wait = l->waits[0] - 1;
    for (int skip = variant; wait >= 0; wait--)
        if (m->instrs[wait].stream != l->stream && m->instrs[wait].what != MT_LOWERED_ALIAS && skip-- == 0) break;
    if (wait >= 0) SET(l->waits[0], wait);
}

MUTATE(wait_for_another) {
    UNUSED;
    int wait = variant == 0 ? instr - 1 : (int)below(m->ninstrs);
    if (l->nwaits) SET(l->waits[l->nwaits - 1], wait);
}

MUTATE(other_stream) {
    UNUSED;
    SET(l->stream, (l->stream + 1 + variant) % m->nstreams);
}

static bool same_block(const struct mt_lowered *m, int i, int j) {
    for (int b = 0; b < MT_NBLOCKS; b++)
        if ((i < m->block_begin[b]) != (j < m->block_begin[b])) return false;
    return true;
}

/* Two instructions change places; who waits for one of them still does, where that is before it. */
static void swap_instrs(struct mt_lowered *m, int i, int j) {
    if (j >= m->ninstrs || !same_block(m, i, j)) return;
    struct mt_linstr a = m->instrs[i], b = m->instrs[j];
    for (int w = 0; w < b.nwaits; w++)
        if (b.waits[w] >= i) b.nwaits = w;
    SET(m->instrs[i], b);
    SET(m->instrs[j], a);
    for (int k = i + 1; k < m->ninstrs; k++) {
        for (int w = 0; w < m->instrs[k].nwaits; w++) {
            int wait = m->instrs[k].waits[w];
            if (wait == i || wait == j) SET(m->instrs[k].waits[w], wait == i && j < k ? j : i);
        }
    }
}

MUTATE(swap_next) {
    UNUSED;
    swap_instrs(m, instr, instr + 1 + variant);
}

MUTATE(swap_collectives) {
    UNUSED;
    if (l->what != MT_LOWERED_COLLECTIVE) return;
    for (int j = instr + 1; j < m->ninstrs; j++)
        if (m->instrs[j].what == MT_LOWERED_COLLECTIVE) {
            swap_instrs(m, instr, j);
            return;
        }
}

/* Left out, with all that refers to places in the sequence put right. */
static void remove_instr(struct mt_lowered *m, int instr) {
    for (int i = instr + 1; i < m->ninstrs; i++)
        for (int w = 0; w < m->instrs[i].nwaits; w++)
            if (m->instrs[i].waits[w] >= instr)
                SET(m->instrs[i].waits[w], m->instrs[i].waits[w] ? m->instrs[i].waits[w] - 1 : 0);
    for (int b = 0; b <= MT_NBLOCKS; b++)
        if (m->block_begin[b] > instr) SET(m->block_begin[b], m->block_begin[b] - 1);
    poke(&m->instrs[instr], &m->instrs[instr + 1], (size_t)(m->ninstrs - instr - 1) * sizeof *m->instrs);
    SET(m->ninstrs, m->ninstrs - 1);
}

MUTATE(leave_out) {
    UNUSED;
    remove_instr(m, instr);
}

MUTATE(leave_out_everywhere) {
    UNUSED;
    int block = 0, source = l->nsources ? l->sources[0] : -1;
    while (instr >= m->block_begin[block + 1]) block++;
    for (int r = 0; r < truth.program->nranks; r++)
        for (int i = truth.lowered[r]->block_begin[block]; i < truth.lowered[r]->block_begin[block + 1]; i++)
            if (linstr(r, i)->nsources && linstr(r, i)->sources[0] == source) {
                remove_instr(truth.lowered[r], i);
                break;
            }
}

MUTATE(run_nothing) { /* an alias orders nothing, too */
    UNUSED;
    if (l->what != MT_LOWERED_ALIAS) SET(l->what, MT_LOWERED_ALIAS);
}

/* ---- memory ---- */

MUTATE(reuse_memory) {
    UNUSED;
    int n = l->nin + l->nout + 3, k = (int)below(n);
    int value = k < l->nin             ? l->in[k]
                : k < l->nin + l->nout ? l->out[k - l->nin]
                : k == n - 1           ? l->scratch
                                       : l->message[k - l->nin - l->nout];
    move_memory(m, value, variant);
}

MUTATE(move_one_value) {
    UNUSED;
    int value = l->out[variant % l->nout];
    if (!has_memory(m, value)) return;
    int target = variant < 2 && l->nin ? l->in[(int)below(l->nin)] : (int)below(m->nvalues);
    if (has_memory(m, target) && m->values[target].offset_bytes != m->values[value].offset_bytes)
        move_value(m, value, m->values[target].offset_bytes);
}

MUTATE(misalign) {
    UNUSED;
    int value = variant ? l->scratch : l->out[0];
    if (has_memory(m, value)) move_value(m, value, m->values[value].offset_bytes + 4);
}

/* ---- what is computed ---- */

MUTATE(other_attribute) {
    UNUSED;
    struct mt_attr *t = &l->attr;
    if (l->what != MT_LOWERED_OP) return;
    switch (variant) {
    case 0: SET(t->eps, t->eps * 2 + 1e-3); break;
    case 1: SET(t->axes, t->axes ^ 1u); break;
    case 2: SET(t->p, t->p / 2 + 0.1); break;
    case 3: SET(t->tag, t->tag + 1); break;
    case 4: SET(t->scale, t->scale + 0.5); break;
    case 5: SET(t->causal, !t->causal); break;
    case 6: SET(t->trans_a, !t->trans_a); break;
    case 7: SET(t->trans_b, !t->trans_b); break;
    case 8: SET(t->value, t->value + 1); break;
    case 9: SET(t->clip, t->clip + 0.25); break;
    case 10: SET(t->decay, t->decay + 0.25); break;
    case 11: SET(t->beta1, t->beta1 / 2); break;
    case 12: SET(t->accumulate, !t->accumulate); break;
    case 13: SET(t->epilogue, t->epilogue == MT_OP_gelu ? MT_OP_relu : MT_OP_gelu); break;
    case 14: SET(t->lr_scale, t->lr_scale + 1); break;
    case 15: SET(t->nk, t->nk + 1); break;
    case 16: SET(t->to, t->to == MT_F64 ? MT_F32 : MT_F64); break;
    }
}

MUTATE(other_kind) {
    UNUSED;
    if (l->what == MT_LOWERED_OP) SET(l->kind, (enum mt_op_kind)(((int)l->kind + 1 + variant) % MT_NOPS));
}

MUTATE(drop_source) {
    UNUSED;
    if (l->nsources) SET(l->nsources, l->nsources - 1);
}

MUTATE(other_source) {
    UNUSED;
    if (l->nsources) SET(l->sources[variant % l->nsources], l->sources[variant % l->nsources] + 1);
}

static bool same_shape(const struct mt_lowered *m, int a, int b) {
    const struct mt_tensor *x = &m->values[a].tensor, *y = &m->values[b].tensor;
    return x->type == y->type && x->naxes == y->naxes && !memcmp(x->extent, y->extent, sizeof x->extent);
}

MUTATE(other_operand) {
    UNUSED;
    int k = variant % (l->nin + l->nout), skip = variant / (l->nin + l->nout);
    int *operand = k < l->nin ? &l->in[k] : &l->out[k - l->nin];
    for (int v = 0; v < truth.program->nvalues; v++)
        if (v != *operand && same_shape(m, v, *operand) && has_memory(m, v) && skip-- == 0) {
            SET(*operand, v);
            return;
        }
}

MUTATE(swap_operands) {
    UNUSED;
    if (l->nin < 2 || variant + 1 >= l->nin) return;
    int a = l->in[variant], b = l->in[variant + 1];
    SET(l->in[variant], b);
    SET(l->in[variant + 1], a);
    if (l->what != MT_LOWERED_OP) return;
    struct mt_tensor t = l->tensor[variant], u = l->tensor[variant + 1];
    SET(l->tensor[variant], u);
    SET(l->tensor[variant + 1], t);
}

MUTATE(drop_operand) {
    UNUSED;
    if (variant ? l->nout > 1 : l->nin > 0) {
        if (variant)
            SET(l->nout, l->nout - 1);
        else
            SET(l->nin, l->nin - 1);
    }
}

MUTATE(other_tensor) {
    UNUSED;
    if (l->what != MT_LOWERED_OP) return;
    struct mt_tensor *t = &l->tensor[(int)below(l->nin + l->nout)];
    int axis = t->naxes ? (int)below(t->naxes) : 0;
    switch (variant) {
    case 0: SET(t->offset[axis], t->offset[axis] + 1); break;
    case 1: SET(t->extent[axis], t->extent[axis] - 1); break;
    case 2: SET(t->global[axis], t->global[axis] + 1); break;
    case 3: SET(t->type, t->type == MT_F64 ? MT_F32 : MT_F64); break;
    }
}

MUTATE(other_samples) {
    UNUSED;
    if (!l->nadvances) return;
    struct mt_ladvance *a = &l->advances[(int)below(l->nadvances)];
    switch (variant) {
    case 0: SET(a->offset, a->offset + 1); break;
    case 1: SET(a->bytes, a->bytes + 8); break;
    case 2: SET(a->operand, (a->operand + 1) % (l->nin + l->nout)); break;
    case 3: SET(l->nadvances, l->nadvances - 1); break;
    }
}

/* ---- messages ---- */

static const int other_nodes[] = {0, 1, 2, 3};

MUTATE(other_problem) {
    UNUSED;
    struct mt_coll *p = &l->problem;
    if (l->what != MT_LOWERED_COLLECTIVE) return;
    int64_t *counts = (int64_t *)p->counts;
    switch (variant) {
    case 0: SET(counts[0], counts[0] + 1); break;
    case 1: SET(counts[p->n - 1], counts[p->n - 1] - 1); break;
    case 2: SET(p->kind, (enum mt_coll_kind)(((int)p->kind + 1) % MT_NCOLLS)); break;
    case 3: SET(p->reduce, (enum mt_reduce)(((int)p->reduce + 1) % 3)); break;
    case 4: SET(p->wire, p->wire == MT_F64 ? MT_F32 : MT_F64); break;
    case 5: SET(p->acc, p->acc == MT_F64 ? MT_F32 : MT_F64); break;
    case 6: SET(p->me, (p->me + 1) % p->n); break;
    case 7: SET(l->group[0], (l->group[0] + 1) % truth.program->nranks); break;
    case 8: SET(l->message_count[0], l->message_count[0] - 1); break;
    case 9: SET(l->zero, !l->zero); break;
    case 10: SET(p->root, p->n - 1); break;
    case 11: SET(l->message_count[1], l->message_count[1] + 1); break;
    case 12:
        if (p->node) SET(((int *)p->node)[0], p->node[0] + 1);
        break;
    case 13: SET(p->node, p->node ? NULL : other_nodes); break;
    }
}

MUTATE(other_piece) {
    UNUSED;
    int n = l->npack + l->nunpack;
    if (l->what == MT_LOWERED_OP || !n) return;
    int i = (int)below(n);
    struct mt_piece *p = i < l->npack ? &l->pack[i] : &l->unpack[i - l->npack];
    int axis = p->naxes ? (int)below(p->naxes) : 0;
    switch (variant) {
    case 0: SET(p->at, p->at + 1); break;
    case 1: SET(p->at, p->at - 1); break;
    case 2: SET(p->extent[axis], p->extent[axis] - 1); break;
    case 3: SET(p->stride[axis], p->stride[axis] + 1); break;
    case 4: SET(p->data, (void *)((uintptr_t)p->data + (uintptr_t)mt_type_size(p->type))); break;
    case 5: SET(p->reduce, (enum mt_reduce)(((int)p->reduce + 1) % 3)); break;
    case 6: SET(p->buffer, !p->buffer); break;
    case 7: SET(p->type, p->type == MT_F64 ? MT_F32 : MT_F64); break;
    case 8: /* dropped */
        if (i < l->npack)
            SET(l->npack, l->npack - 1);
        else
            SET(l->nunpack, l->nunpack - 1);
        break;
    case 9: /* two change places in the message */
        if (i + 1 < l->npack) {
            int64_t a = l->pack[i].at, b = l->pack[i + 1].at;
            SET(l->pack[i].at, b);
            SET(l->pack[i + 1].at, a);
        }
        break;
    case 10: { /* two change places in the list */
        struct mt_piece *list = i < l->npack ? l->pack : l->unpack;
        int *values = i < l->npack ? l->pack_of : l->unpack_of, k = i < l->npack ? i : i - l->npack;
        if (k + 1 >= (i < l->npack ? l->npack : l->nunpack)) break;
        struct mt_piece a = list[k], b = list[k + 1];
        int v = values[k], w = values[k + 1];
        SET(list[k], b);
        SET(list[k + 1], a);
        SET(values[k], w);
        SET(values[k + 1], v);
        break;
    }
    }
}

/* Blocks of AllToAlls that are in place. */
MUTATE(other_block) {
    UNUSED;
    int b = variant % 2;
    if (l->what != MT_LOWERED_COLLECTIVE) return;
    if (variant / 2 == 0) { /* staged instead, but neither packed nor unpacked */
        if (l->nin_place[b]) SET(l->nin_place[b], l->nin_place[b] - 1);
        return;
    }
    if (!l->nin_place[b]) return;
    struct mt_piece *p = &l->in_place[b][(int)below(l->nin_place[b])];
    int axis = p->naxes ? (int)below(p->naxes) : 0;
    switch (variant / 2) {
    case 1: SET(p->at, p->at + 1); break;
    case 2: SET(p->extent[axis], p->extent[axis] - 1); break;
    case 3: SET(p->data, (void *)((uintptr_t)p->data + (uintptr_t)mt_type_size(p->type))); break;
    case 4: SET(p->reduce, MT_SUM); break;
    case 5: SET(p->buffer, !p->buffer); break;
    case 6: SET(p->type, p->type == MT_F64 ? MT_F32 : MT_F64); break;
    case 7: SET(*p, l->in_place[b][0]); break;
    case 8: SET(l->in_place_of[b][0], l->in_place_of[b][0] + 1); break;
    case 9: SET(p->stride[axis], p->stride[axis] + 1); break;
    }
}

/* A block that is packed, or unpacked, is in place too, or instead. */
MUTATE(block_in_place) {
    UNUSED;
    int b = variant % 2, n = b ? l->nunpack : l->npack;
    if (l->what != MT_LOWERED_COLLECTIVE || !n) return;
    SET(l->in_place[b], b ? l->unpack : l->pack);
    SET(l->in_place_of[b], b ? l->unpack_of : l->pack_of);
    SET(l->nin_place[b], 1 + (int)below(n));
    if (variant < 2) return;
    if (b)
        SET(l->nunpack, n - l->nin_place[b]);
    else
        SET(l->npack, n - l->nin_place[b]);
}

/* Overlap of what does not allow it. Only a device that overlaps would compute something wrong, so that the checker has
 * to refuse: the message of the part before, or a wait. */
static bool may_be_ahead(const struct mt_lowered *m, const struct mt_linstr *l) {
    const struct mt_linstr *before = l - 1;
    if (l->what != MT_LOWERED_COLLECTIVE || l->nwaits || !l->chunk.part) return false;
    for (int b = 0; b < 2; b++)
        for (int c = 0; c < 2; c++) {
            if (l->message[b] < 0 || before->message[c] < 0) continue;
            const struct mt_lvalue *x = &m->values[l->message[b]], *y = &m->values[before->message[c]];
            if (x->offset_bytes < y->offset_bytes + y->size_bytes && y->offset_bytes < x->offset_bytes + x->size_bytes)
                return false;
        }
    return true;
}

MUTATE(overlap_before) {
    UNUSED;
    if (variant == 0) SET(l->ahead, !l->ahead);
    if (variant == 1 && l->ahead && l->message[0] >= 0) SET(l->message[0], l[-1].message[0]);
    if (variant == 2 && l->ahead && l->message[1] >= 0) SET(l->message[1], l[-1].message[1]);
    static int first_one[1];
    if (variant == 3 && l->ahead) SET(l->waits, first_one);
    if (variant == 3 && l->ahead) SET(l->nwaits, 1);
    if (!l->ahead || may_be_ahead(m, l)) return;
    struct mt_err err = MT_ERR_INIT;
    CHECK(!is_accepted(&err), "overlap is accepted at instruction %d", instr);
}

MUTATE(other_message) {
    UNUSED;
    if (l->what == MT_LOWERED_OP) return;
    SET(l->message[variant % 2], variant < 2 ? (int)below(m->nvalues) : variant < 4 ? -1 : l->in[0]);
}

MUTATE(other_step) {
    UNUSED;
    struct mt_schedule *s = l->schedule;
    if (!s || !s->nsteps) return;
    struct mt_step *step = &s->steps[(int)below(s->nsteps)];
    switch (variant) {
    case 0: SET(step->count, step->count - 1); break;
    case 1: SET(step->offset, step->offset + 1); break;
    case 2: SET(step->peer, (step->peer + 1) % l->problem.n); break;
    case 3: SET(step->kind, step->kind == MT_STEP_REDUCE ? MT_STEP_RECV : MT_STEP_REDUCE); break;
    case 4: SET(s->nrounds, s->nrounds - 1); break;
    case 5: SET(step->buffer, (step->buffer + 1) % 3); break;
    case 6: SET(s->round_end[0], s->round_end[0] - 1); break;
    case 7: SET(step->kind, MT_STEP_ROUND); break;
    case 8: SET(l->schedule, NULL); break;
    case 9:
        if (s->nsteps > 1) {
            struct mt_step a = s->steps[0], b = s->steps[s->nsteps - 1];
            SET(s->steps[0], b);
            SET(s->steps[s->nsteps - 1], a);
        }
        break;
    }
}

/* A sum is counted once more, at the end. */
MUTATE(add_twice) {
    UNUSED;
    static struct mt_step steps[256];
    struct mt_schedule *s = l->schedule;
    if (!s || !s->nsteps || s->nsteps >= 256) return;
    memcpy(steps, s->steps, (size_t)s->nsteps * sizeof *steps);
    steps[s->nsteps] = (struct mt_step){.kind = MT_STEP_ADD, .count = 1};
    SET(s->steps, steps);
    SET(s->nsteps, s->nsteps + 1);
    SET(s->round_end[s->nrounds - 1], s->nsteps);
}

/* This rank alone runs another algorithm. */
static struct mt_schedule other_schedules[64];
static int nother_schedules;

MUTATE(other_algorithm) {
    UNUSED;
    if (!l->schedule) return;
    for (int i = 0, skip = variant; i < mt_coll_nalgorithms; i++) {
        const struct mt_coll_algorithm *a = mt_coll_algorithms[i];
        if (a->kind != l->problem.kind || !a->applies(&l->problem) || skip--) continue;
        struct mt_schedule *s = &other_schedules[nother_schedules++];
        a->schedule(&l->problem, s);
        SET(l->schedule, s);
        return;
    }
}

/* All of them with the schedule of another rank's place. */
MUTATE(another_ranks_schedule) {
    UNUSED;
    for (int r = 0; r < truth.program->nranks && l->schedule; r++)
        for (int i = 0; i < truth.lowered[r]->ninstrs; i++) {
            struct mt_linstr *other = linstr(r, i);
            if (other == l || other->what != l->what || other->nsources != 1 || other->out[0] != l->out[0]) continue;
            SET(l->schedule, other->schedule);
            return;
        }
}

/* ---- chunks ---- */

MUTATE(other_chunk) {
    UNUSED;
    struct mt_message_chunk *chunk = &l->chunk;
    if (l->what != MT_LOWERED_COLLECTIVE) return;
    switch (variant) {
    case 0: SET(chunk->part, chunk->part + 1); break;
    case 1: SET(chunk->parts, chunk->parts + 1); break;
    case 2: SET(chunk->first, chunk->first + 1); break;
    case 3: SET(chunk->count, chunk->count + 1); break;
    case 4: SET(l->chunk_index, l->chunk_index + 1); break;
    case 5: SET(l->nchunks, l->nchunks + 1); break;
    case 6: SET(l->nchunks, l->nchunks - 1); break;
    case 7: SET(l->chunk_index, l->chunk_index - 1); break;
    }
}

/* A chunk is missing on all ranks, and the others are numbered as if it had never been; or it runs twice. */
static void recount_chunks(int source, int at, int by) {
    for (int r = 0; r < truth.program->nranks; r++)
        for (int i = 0; i < truth.lowered[r]->ninstrs; i++) {
            struct mt_linstr *other = linstr(r, i);
            if (other->what != MT_LOWERED_COLLECTIVE || other->sources[0] != source || other->nchunks < 2) continue;
            bool same_value = other->chunk.parts > 1;
            SET(other->nchunks, other->nchunks + by);
            if (same_value) SET(other->chunk.parts, other->chunk.parts + by);
            if (other->chunk_index <= at) continue;
            SET(other->chunk_index, other->chunk_index + by);
            if (same_value) SET(other->chunk.part, other->chunk.part + by);
        }
}

MUTATE(drop_chunk) {
    UNUSED;
    if (l->what != MT_LOWERED_COLLECTIVE || l->nchunks < 2) return;
    int source = l->sources[0], at = l->chunk_index;
    for (int r = 0; r < truth.program->nranks; r++)
        for (int i = 0; i < truth.lowered[r]->ninstrs; i++)
            if (linstr(r, i)->what == MT_LOWERED_COLLECTIVE && linstr(r, i)->sources[0] == source &&
                linstr(r, i)->nchunks > 1 && linstr(r, i)->chunk_index == at)
                remove_instr(truth.lowered[r], i--);
    recount_chunks(source, at, -1);
}

/* That of another operator. */
MUTATE(other_scratch) {
    UNUSED;
    int other = (instr + 1 + variant) % m->ninstrs;
    while (other != instr && m->instrs[other].scratch < 0) other = (other + 1) % m->ninstrs;
    if (l->what == MT_LOWERED_OP && l->scratch >= 0) SET(l->scratch, m->instrs[other].scratch);
}

/* ---- overlapped instructions ---- */

MUTATE(other_overlap) {
    UNUSED;
    if (l->what == MT_LOWERED_OVERLAP) change_overlap_problem(m, l, variant);
}

MUTATE(other_tiles) {
    UNUSED;
    if (l->what == MT_LOWERED_OVERLAP) change_overlap_schedule(l, variant % OVERLAP_SCHEDULE_CHANGES);
}

/* In the order of another rank: the collective before it, or after it. */
static int at_once;

MUTATE(overlap_at_once) {
    UNUSED;
    bool peers[] = {instr > 0 && (l[-1].what == MT_LOWERED_OVERLAP || l[-1].what == MT_LOWERED_COLLECTIVE),
                    l->what == MT_LOWERED_OVERLAP || l->what == MT_LOWERED_COLLECTIVE};
    if (l->what == MT_LOWERED_OVERLAP || (l->what == MT_LOWERED_COLLECTIVE && m->nregions)) SET(l->nwaits, 0);
    /* Nothing but waits orders it after the one before it; numbers show nothing of that. */
    struct mt_err err = MT_ERR_INIT;
    if (!peers[0] || !peers[1] || l[-1].stream == l->stream || l->ahead) return;
    CHECK(!is_accepted(&err), "waits for peers at once are accepted at instruction %d", instr);
    at_once += strstr(err.text, "may wait for peers while") != NULL;
}

static const struct {
    const char *name;
    mutation *apply;
    int variants;
} mutations[] = {
    {"wait dropped", drop_wait, 3},
    {"wait for an earlier one", wait_earlier, 3},
    {"wait for another", wait_for_another, 2},
    {"another stream", other_stream, 2},
    {"two change places", swap_next, 3},
    {"two collectives change places", swap_collectives, 1},
    {"left out", leave_out, 1},
    {"left out on all ranks", leave_out_everywhere, 1},
    {"runs nothing", run_nothing, 1},
    {"memory reused", reuse_memory, 12},
    {"one value moved", move_one_value, 4},
    {"misaligned", misalign, 2},
    {"another attribute", other_attribute, 17},
    {"another kind", other_kind, 3},
    {"source dropped", drop_source, 1},
    {"another source", other_source, 2},
    {"another operand", other_operand, 16},
    {"operands swapped", swap_operands, 3},
    {"operand dropped", drop_operand, 2},
    {"another tensor", other_tensor, 4},
    {"other samples", other_samples, 4},
    {"another problem", other_problem, 14},
    {"another block in place", other_block, 20},
    {"a block in place", block_in_place, 4},
    {"overlap", overlap_before, 4},
    {"another piece", other_piece, 11},
    {"another message", other_message, 6},
    {"another step", other_step, 10},
    {"added twice", add_twice, 1},
    {"another algorithm", other_algorithm, 3},
    {"another rank's schedule", another_ranks_schedule, 1},
    {"other scratch", other_scratch, 2},
    {"another chunk", other_chunk, 8},
    {"a chunk dropped", drop_chunk, 1},
    {"another overlapped GEMM", other_overlap, OVERLAP_PROBLEM_CHANGES},
    {"other tiles", other_tiles, 2 * OVERLAP_SCHEDULE_CHANGES},
    {"waits for peers at once", overlap_at_once, 1},
};

static void mutate_instr(int rank, int instr) {
    for (size_t i = 0; i < sizeof mutations / sizeof *mutations; i++)
        for (int variant = 0; variant < mutations[i].variants; variant++) {
            mutations[i].apply(truth.lowered[rank], linstr(rank, instr), instr, variant);
            expect_verdict(mutations[i].name, rank, instr);
            while (nother_schedules) mt_schedule_release(&other_schedules[--nother_schedules]);
        }
}

/* ---- what belongs to no instruction ---- */

static void mutate_rank(int rank) {
    struct mt_lowered *m = truth.lowered[rank];
    const struct mt_graph *g = truth.program->graph;
    for (int v = 0; v < truth.program->nvalues; v++) {
        if (!truth.program->values[v].input) continue;
        for (int variant = 0; variant < 3; variant++) {
            move_memory(m, v, variant);
            expect_verdict("state or input moved", rank, -1);
        }
    }
    for (int v = 0; v < g->nvalues; v++) {
        if (m->state_at[v] >= 0) SET(m->state_at[v], -1);
        expect_verdict("state forgotten", rank, -1);
        if (m->output_at[v] >= 0) SET(m->output_at[v], m->output_at[v] - 1);
        expect_verdict("another report", rank, -1);
    }
    for (int i = 0; i < m->ninputs; i++) {
        struct mt_linput *input = &m->inputs[i];
        if (input->nrows) SET(input->rows[0], input->rows[0] + 1);
        expect_verdict("another sample fed", rank, -1);
        if (input->nrows) SET(input->nrows, input->nrows - 1);
        expect_verdict("a sample not fed", rank, -1);
    }
    SET(m->ninputs, m->ninputs - 1);
    expect_verdict("an input not fed", rank, -1);
    SET(m->body_count, m->body_count + 1);
    expect_verdict("one iteration more", rank, -1);
    SET(m->body_barrier, !m->body_barrier);
    expect_verdict("barrier", rank, -1);
    SET(m->arena_bytes, m->arena_bytes - 64);
    expect_verdict("a smaller arena", rank, -1);
    for (int b = 1; b < MT_NBLOCKS; b++) {
        SET(m->block_begin[b], m->block_begin[b] + 1);
        expect_verdict("a block that begins later", rank, -1);
    }
    int next = (rank + 1) % truth.program->nranks;
    if (next != rank) {
        struct mt_lowered *a = truth.lowered[rank], *b = truth.lowered[next];
        SET(truth.lowered[rank], b);
        SET(truth.lowered[next], a);
    }
    expect_verdict("ranks swapped", rank, -1);
}

/* Scratch that an operator needs: none, one byte too few, or without memory. How many are refused for that. */
static int reduce_scratch(int rank) {
    struct mt_lowered *m = truth.lowered[rank];
    int refused = 0;
    for (int i = 0; i < m->ninstrs; i++)
        for (int variant = 0; variant < 3 && m->instrs[i].scratch >= 0; variant++) {
            struct mt_err err = MT_ERR_INIT;
            struct mt_linstr *l = &m->instrs[i];
            struct mt_lvalue *scratch = &m->values[l->scratch];
            if (variant == 0) SET(l->scratch, -1);
            if (variant == 1) SET(scratch->size_bytes, scratch->size_bytes - 1);
            if (variant == 2) SET(scratch->offset_bytes, -1);
            CHECK(!is_accepted(&err), "rank %d, instruction %d, variant %d", rank, i, variant);
            CHECK(strstr(err.text, "bytes of scratch, but has "), "%s", err.text);
            refused++;
            take_back();
        }
    return refused;
}

/* Tensors of an AllReduce that change places: by a message it would do, on a wire that takes them as they are it does
 * not. How many are refused for that. */
static int swap_outputs(int rank) {
    struct mt_lowered *m = truth.lowered[rank];
    int swapped = 0;
    for (int i = 0; i < m->ninstrs; i++)
        for (int k = 1; k < m->instrs[i].nout; k++) {
            struct mt_err err = MT_ERR_INIT;
            const struct mt_linstr *l = &m->instrs[i];
            int a = l->out[k - 1], b = l->out[k];
            int64_t at[2] = {m->values[a].offset_bytes, m->values[b].offset_bytes};
            if (l->what != MT_LOWERED_COLLECTIVE || !l->npack || !mt_coll_takes_arrays(&l->problem)) continue;
            if (!has_memory(m, a) || m->values[a].size_bytes != m->values[b].size_bytes) continue;
            if (m->values[l->in[k]].offset_bytes != at[1]) continue;
            move_value(m, a, at[1]), move_value(m, b, at[0]);
            CHECK(!is_accepted(&err), "rank %d, instruction %d", rank, i);
            swapped += !!strstr(err.text, "share memory while both are used"); /* else slices of them are misplaced */
            take_back();
        }
    return swapped;
}

static void swap_pieces(struct mt_piece *pieces, int *values, int i) {
    struct mt_piece piece = pieces[i];
    int value = values[i];
    SET(pieces[i], pieces[i + 1]);
    SET(values[i], values[i + 1]);
    SET(pieces[i + 1], piece);
    SET(values[i + 1], value);
}

/* Pieces in another order than other ranks': by a message it would do, as arrays they would not meet. The same where
 * one rank alone would take arrays, or a message. How many collectives of either kind are refused. */
static void reorder_pieces(int rank, int refused[MT_NCOLLS]) {
    struct mt_lowered *m = truth.lowered[rank];
    for (int i = 0; i < m->ninstrs; i++) {
        struct mt_err err = MT_ERR_INIT;
        struct mt_linstr *l = &m->instrs[i];
        bool sides = l->npack > 0 && l->nunpack > 0;
        if (l->what != MT_LOWERED_COLLECTIVE || !l->problem.same_pieces || l->problem.n < 2) continue;
        SET(l->problem.same_pieces, false);
        CHECK(!is_accepted(&err), "rank %d, instruction %d", rank, i);
        CHECK(strstr(err.text, "runs on arrays"), "%s", err.text);
        take_back();
        for (int side = 0; side < 2 && sides; side++) {
            int n = side ? l->nunpack : l->npack, at = n > 2 ? 1 : 0;
            struct mt_piece *pieces = side ? l->unpack : l->pack;
            if (n < 2 || pieces[at].extent[0] == 0 || pieces[at + 1].extent[0] == 0) continue;
            err = (struct mt_err)MT_ERR_INIT;
            swap_pieces(pieces, side ? l->unpack_of : l->pack_of, at);
            CHECK(!is_accepted(&err), "rank %d, instruction %d, side %d", rank, i, side);
            CHECK(strstr(err.text, "pieces"), "%s", err.text);
            refused[l->problem.kind]++;
            take_back();
        }
    }
}

/* ---- programs ---- */

static int64_t scratch_bytes(void *context, const struct mt_call *call) {
    (void)context;
    return mt_backend_c.scratch_bytes(call);
}

static int copy_streams; /* of the present program */

static void lower_all(const struct mt_program *p, bool fuse) {
    struct mt_err err = MT_ERR_INIT;
    truth.options = (struct mt_lower_options){.fuse = fuse,
                                              .copy_streams = copy_streams,
                                              .latency_s = 1e-5,
                                              .bandwidth_Bps = 1e9,
                                              .scratch_bytes = scratch_bytes};
    for (int r = 0; r < p->nranks; r++) CHECK_OK(mt_lower(p, r, &truth.options, &truth.lowered[r], &err), err);
    truth.program = p;
}

static void free_all(void) {
    for (int r = 0; r < truth.program->nranks; r++) mt_lowered_free(truth.lowered[r]);
}

/* Two flags of one rank change places, in one instruction, on all ranks: right by itself, but not in turns with
 * another instruction of its region, whose puts raise the same counters as they were. */
static void swap_flags(int instr, int to, int a, int b) {
    for (int r = 0; r < truth.program->nranks; r++) {
        const struct mt_linstr *l = linstr(r, instr);
        struct mt_overlap_schedule *s = l->overlap->schedule;
        for (int j = 0; j < s->nputs; j++) {
            int *flag = &s->puts[j].flag;
            if (l->group[s->puts[j].peer] == to && (*flag == a || *flag == b)) SET(*flag, a + b - *flag);
        }
        for (int w = 0; w < s->nwaits && r == to; w++) {
            int *flag = &s->waits[w].flag;
            if (*flag == a || *flag == b) SET(*flag, a + b - *flag);
        }
    }
}

/* Schedules of one region take turns in its memory. */
static void test_turns_of_schedules(const struct mt_program *p, int counts[2]) {
    struct mt_err err = MT_ERR_INIT;
    lower_all(p, true);
    for (int i = 0; i < truth.lowered[0]->ninstrs; i++) {
        const struct mt_linstr *l = linstr(0, i);
        if (l->what != MT_LOWERED_OVERLAP) continue;
        int others = 0;
        for (int k = 0; k < truth.lowered[0]->ninstrs; k++)
            others += k != i && linstr(0, k)->what == MT_LOWERED_OVERLAP &&
                      linstr(0, k)->overlap->region == l->overlap->region;
        const struct mt_overlap_schedule *s = l->overlap->schedule;
        int a = 0, b = 1; /* waits for two flags */
        while (b < s->nwaits && s->waits[b].flag == s->waits[a].flag) b++;
        if (b >= s->nwaits) continue;
        swap_flags(i, 0, s->waits[a].flag, s->waits[b].flag);
        CHECK_EQ(is_accepted(&err), !others);
        CHECK(!others || strstr(err.text, "another schedule of the problem"), "%s", err.text);
        counts[others > 0]++;
        take_back();
    }
    free_all();
}

/* Scratch of overlapped instructions that run by chunks, and by tiles: what the one needs is not the other's. */
static void test_scratch_of_chunks(const struct mt_program *p) {
    struct mt_err err = MT_ERR_INIT;
    int noverlaps = 0, unlike[2] = {0};
    for (int chunks = 0; chunks < 2; chunks++) {
        lower_all(p, true);
        for (int r = 0; r < p->nranks; r++) mt_lowered_free(truth.lowered[r]);
        truth.options.chunks = chunks;
        for (int r = 0; r < p->nranks; r++) CHECK_OK(mt_lower(p, r, &truth.options, &truth.lowered[r], &err), err);
        CHECK(is_accepted(&err), "by chunks %d: %s", chunks, err.text);
        for (int r = 0; r < p->nranks; r++) {
            CHECK(reduce_scratch(r) > 0, "rank %d", r);
            for (int i = 0; i < truth.lowered[r]->ninstrs; i++) {
                const struct mt_linstr *l = linstr(r, i);
                if (l->what != MT_LOWERED_OVERLAP) continue;
                int64_t by[2] = {
                    mt_overlap_scratch_bytes(&l->overlap->problem, l->overlap->me, scratch_bytes, NULL),
                    mt_overlap_chunks_scratch_bytes(&l->overlap->problem, l->overlap->me, scratch_bytes, NULL)};
                CHECK(l->scratch >= 0 && truth.lowered[r]->values[l->scratch].size_bytes >= by[chunks]);
                noverlaps++;
                unlike[chunks] += truth.lowered[r]->values[l->scratch].size_bytes < by[!chunks];
            }
        }
        truth.options.chunks = !chunks;
        CHECK_EQ(!is_accepted(&err), unlike[chunks] > 0);
        free_all();
    }
    CHECK(noverlaps > 0 && unlike[0] + unlike[1] > 0, "%d overlapped, %d and %d unlike", noverlaps, unlike[0],
          unlike[1]);
}

static int schedule_turns[2], noverlapped[MT_OVERLAP_NFORMS], swapped_outputs, reduced_scratch, reordered[MT_NCOLLS];

static void test_program(const char *name, const struct mt_program *p, bool fuse) {
    struct mt_err err = MT_ERR_INIT;
    truth.name = name;
    truth.made = truth.refused = truth.right = 0;
    copy_streams = fuse ? 0 : 2;
    lower_all(p, fuse);
    CHECK(is_accepted(&err), "%s: %s", name, err.text);
    for (int timing = 0; timing < NTIMINGS; timing++) {
        double worst = replay_difference(p, truth.lowered, (enum timing)timing, truth.want, truth.loss, truth.begin);
        CHECK(worst <= 1e-9, "%s is right: %g", name, worst);
    }
    for (int i = 0; i < truth.lowered[0]->ninstrs; i++) {
        int rank = i % p->nranks;
        bool overlapped = linstr(0, i)->what == MT_LOWERED_OVERLAP;
        noverlapped[overlapped ? linstr(0, i)->overlap->problem.form : 0] += overlapped;
        if (i < truth.lowered[rank]->ninstrs && (overlapped || i % EVERY_LOWERED == 0)) mutate_instr(rank, i);
    }
    for (int r = 0; r < p->nranks; r++) {
        mutate_rank(r);
        swapped_outputs += swap_outputs(r);
        reduced_scratch += reduce_scratch(r);
        reorder_pieces(r, reordered);
    }
    printf("%-18s %-8s %6d mutants: %6d refused, %5d accepted and right\n", name, fuse ? "fused" : "unfused",
           truth.made, truth.refused, truth.right);
    CHECK(truth.refused > truth.made / 2, "most mutants are wrong");
    free_all();
}

/* The forward program, whose states lie where the training program has them. */
static void test_forward(const struct mt_graph *g, const struct mt_choice *choice, int round) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_program forward;
    struct mt_lowered *lowered[8];
    CHECK_OK(mt_build_forward(g, choice, &forward, &err), err);
    if (round % 2) forward.staging_bytes = 384 + below(512);
    for (int r = 0; r < choice->nranks; r++) {
        struct mt_lower_options options = {.fuse = round % 3 > 0, .states = truth.lowered[r]};
        CHECK_OK(mt_lower(&forward, r, &options, &lowered[r], &err), err);
    }
    struct mt_lower_options none = {0};
    enum mt_status st = mt_check_lowered(&forward, (const struct mt_lowered *const *)lowered, &none, NULL, &err);
    CHECK(!st, "round %d, forward: %s", round, err.text);
    for (int r = 0; r < choice->nranks; r++) mt_lowered_free(lowered[r]);
    mt_program_release(&forward);
}

/* What the lowering makes is accepted: random rules, uneven micro-batches, shares of zero, narrow wires. */
static void test_random(const char *model, int64_t batch, double dropout, int rounds) {
    struct mt_graph *g = training_graph(model, batch, dropout);
    int accepted = 0;
    for (int round = 0; round < rounds; round++) {
        struct mt_err err = MT_ERR_INIT;
        struct mt_arena arena = MT_ARENA_INIT;
        struct mt_choice choice;
        struct mt_program p;
        bool wild = round % 2 == 0;
        random_choice(&arena, g, 1 + (int)below(5), wild, &choice);
        for (int r = 0; r < choice.nranks && !wild; r++) choice.micro[r] = 1 + below(3);
        if (below(2)) choice.decisions.gradient_wire = MT_F32;
        choice.decisions.overlapped = (enum mt_overlapped)below(MT_NOVERLAPPED);
        CHECK_OK(mt_build(g, &choice, &p, &err), err);
        if (below(2)) p.staging_bytes = 384 + below(1024); /* less than a rank's messages: they are cut */
        if (!mt_check_program(&p, NULL, &err)) {
            lower_all(&p, below(2));
            CHECK(is_accepted(&err), "round %d: %s", round, err.text);
            test_forward(g, &choice, round);
            accepted++;
            free_all();
        }
        mt_program_release(&p);
        mt_arena_release(&arena);
    }
    printf("%s: %d of %d random programs accepted\n", model, accepted, rounds);
    CHECK(accepted > rounds * 9 / 10, "the program's own checker accepts nearly all");
    mt_graph_free(g);
}

static void note_states(const struct mt_graph *g, const struct mt_program *p) {
    struct mt_interp *interp = mt_interp_new(p);
    mt_interp_init_states(interp, SEED);
    truth.begin = calloc((size_t)g->nvalues, sizeof *truth.begin);
    for (int v = 0; v < g->nvalues; v++) {
        double spread;
        if (g->values[v].kind != MT_VALUE_STATE) continue;
        truth.begin[v] = malloc((size_t)mt_value_count(g, v) * sizeof(double));
        mt_interp_get(interp, v, truth.begin[v], &spread);
    }
    mt_interp_free(interp);
}

/* Every algorithm has its turn. */
static void choose_algorithms(enum style style, struct mt_choice *choice) {
    static const char *const names[][MT_NCOLLS] = {
        [ALL_REDUCE] = {"direct", "ring", "ring", "binomial", "direct"},
        [SHARDED] = {"tree", "direct", "bruck", "chain", "pairwise"},
        [MICRO] = {"recursive_doubling", "ring", "direct", "scatter_gather", "direct"},
        [TENSOR] = {"hierarchical", "hierarchical_pipeline", "hierarchical", "hierarchical_chain", "direct"},
        [WILD] = {"auto", "recursive_halving", "auto", "auto", "auto"},
        [LAYERS] = {"auto", "hierarchical", "ring", "auto", "auto"},
        [OVERLAPPED] = {"auto", "auto", "auto", "auto", "auto"},
        [OVERLAPPED_SUMS] = {"auto", "auto", "auto", "auto", "auto"},
    };
    static struct mt_algorithm_row rows[MT_NCOLLS];
    for (int k = 0; k < MT_NCOLLS; k++)
        rows[k] = (struct mt_algorithm_row){.kind = (enum mt_coll_kind)k, .algorithm = names[style][k]};
    static const int node[] = {0, 1, 0}; /* of three ranks */
    if (style != WILD) choice->node = node;
    choice->decisions.algorithms = rows;
    choice->decisions.nalgorithms = MT_NCOLLS;
}

/* Mutants of one model's programs, in the styles [first, last]. */
static void test_styles(double dropout, enum style first, enum style last) {
    static const char *const names[] = {"all-reduce", "sharded",  "micro-batches", "tensor-parallel",
                                        "any rules",  "by layer", "overlapped",    "overlapped sums"};
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_err err = MT_ERR_INIT;
    struct mt_graph *g = training_graph("gpt2:layers=1,heads=2,embed=4,context=3,vocab=5,bias=1,tied=1", 5, dropout);
    struct mt_choice one = {
        .nranks = 1, .decisions.gradient_wire = MT_F64, .rules = mt_new(&arena, struct mt_rule, g->nops)};
    struct mt_program alone;
    CHECK_OK(mt_build(g, &one, &alone, &err), err);
    CHECK((truth.want = run_program(&alone, &truth.loss, &err)), "one rank runs");
    note_states(g, &alone);
    for (int style = (int)first; style <= (int)last; style++) {
        struct mt_choice choice;
        struct mt_program program;
        make_choice(&arena, g, (enum style)style, &choice);
        choose_algorithms((enum style)style, &choice);
        CHECK_OK(mt_build(g, &choice, &program, &err), err);
        test_program(names[style], &program, true);
        if (style == OVERLAPPED || style == OVERLAPPED_SUMS) {
            test_scratch_of_chunks(&program);
            test_turns_of_schedules(&program, schedule_turns);
        }
        if (dropout > 0 && (style == MICRO || style == WILD)) test_program(names[style], &program, false);
        if (dropout > 0 && (style == SHARDED || style == WILD)) {
            program.staging_bytes = 256;
            test_program("in chunks", &program, true);
            program.staging_bytes = 0;
        }
        if (style == SHARDED) {
            add_recomputation(&program);
            test_program("recomputation", &program, true);
        }
        mt_program_release(&program);
    }
    for (int v = 0; v < g->nvalues; v++) free(truth.begin[v]);
    free(truth.begin);
    mt_interp_free(truth.want);
    mt_program_release(&alone);
    mt_arena_release(&arena);
    mt_graph_free(g);
}

int main(void) {
    printf("seed %d\n", SEED);
    test_random("gpt2:layers=2,heads=3,embed=6,context=4,vocab=11,bias=1,tied=1", 5, 0.1, RANDOM_LOWERED);
    test_random("gpt2:layers=2,heads=3,embed=6,context=4,vocab=11,bias=1,tied=1", 5, 0, RANDOM_LOWERED / 2);
    test_random("gpt2:layers=1,heads=2,embed=8,context=5,vocab=7,bias=0,tied=0", 8, 0.1, RANDOM_LOWERED);
    test_random("mlp:context=3,embed=4,hidden=7,layers=2,vocab=9", 9, 0.1, RANDOM_LOWERED);
    test_styles(0.1, ALL_REDUCE, OVERLAPPED_SUMS);
    test_styles(0, MICRO, MICRO); /* norms' gradients are biases' as well, and are summed where they are made */
    for (int form = 0; form < MT_OVERLAP_NFORMS; form++)
        printf("%s: %d\n", mt_overlap_name((enum mt_overlap_form)form), noverlapped[form]);
    for (int form = 0; form < MT_OVERLAP_NFORMS; form++)
        CHECK(noverlapped[form] > 0, "%s", mt_overlap_name((enum mt_overlap_form)form));
    printf("flags exchanged: %d alone in their regions, %d in turns with others\n", schedule_turns[0],
           schedule_turns[1]);
    CHECK(at_once > 0, "no two wait for peers at once");
    CHECK(reduced_scratch > 0, "no operator needs scratch");
    CHECK(swapped_outputs > 0, "no AllReduce of two tensors of one size");
    for (int kind = MT_ALL_REDUCE; kind <= MT_ALL_GATHER; kind++)
        CHECK(reordered[kind] > 0, "no %s of two pieces", mt_coll_name((enum mt_coll_kind)kind));
    return 0;
}
