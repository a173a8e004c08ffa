/* Mutations of lowered collectives: the problem, pieces of tensors, the message and its schedule, the division into
 * chunks; and of overlapped instructions. */
#ifndef MT_TESTS_SYNTH_CHECK_MESSAGE_MUTATIONS_H
#define MT_TESTS_SYNTH_CHECK_MESSAGE_MUTATIONS_H

#include "tests/synth/check/instr_mutations.h"
#include "tests/synth/check/overlapped_changes.h"

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
static inline bool may_be_ahead(const struct mt_lowered *m, const struct mt_linstr *l) {
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
static inline void recount_chunks(int source, int at, int by) {
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

/* ---- overlapped instructions ---- */

MUTATE(other_overlap) {
    UNUSED;
    if (l->what == MT_LOWERED_OVERLAP) change_overlap_problem(m, l, variant);
}

MUTATE(other_epilogue) {
    UNUSED;
    if (l->what == MT_LOWERED_OVERLAP) change_overlap_epilogue(m, l, variant);
}

MUTATE(other_tiles) {
    UNUSED;
    if (l->what == MT_LOWERED_OVERLAP) change_overlap_schedule(l, variant % OVERLAP_SCHEDULE_CHANGES);
}

/* In the order of another rank: the collective before it, or after it. How often that is refused because it may wait
 * for peers while another does. */
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

#endif
