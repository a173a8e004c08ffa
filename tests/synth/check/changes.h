/* Changes of lowered programs that can be taken back, and values moved to other memory: what mutants are made with. */
#ifndef MT_TESTS_SYNTH_CHECK_CHANGES_H
#define MT_TESTS_SYNTH_CHECK_CHANGES_H

#include "synth/lower/lower.h"
#include "tests/synth/random_program.h"

struct change {
    struct change *next;
    void *place;
    size_t size;
    unsigned char old[];
};
static struct change *changes;

static inline void poke(void *place, const void *fresh, size_t size) {
    struct change *c = malloc(sizeof *c + size);
    *c = (struct change){changes, place, size};
    memcpy(c->old, place, size);
    memmove(place, fresh, size);
    changes = c;
}
#define SET(place, value)                                                                                              \
    do {                                                                                                               \
        __typeof__(place) fresh_ = (value);                                                                            \
        poke(&(place), &fresh_, sizeof fresh_);                                                                        \
    } while (0)

/* Whether anything is other than it was. */
static inline bool changed(void) {
    bool some = false;
    for (const struct change *c = changes; c; c = c->next) some |= memcmp(c->place, c->old, c->size) != 0;
    return some;
}

static inline void take_back(void) {
    while (changes) {
        struct change *c = changes;
        memcpy(c->place, c->old, c->size);
        changes = c->next;
        free(c);
    }
}

/* ---- memory ---- */

static inline void move_value(struct mt_lowered *m, int value, int64_t offset) {
    SET(m->values[value].offset_bytes, offset);
}

static inline bool has_memory(const struct mt_lowered *m, int value) {
    return value >= 0 && m->values[value].offset_bytes >= 0 && m->values[value].size_bytes > 0;
}

/* The values that lie in one memory because instructions hand it on: first[value]. */
static inline void join(int *first, int n, int a, int b) {
    int from = first[a], to = first[b];
    for (int v = 0; v < n; v++)
        if (first[v] == from) first[v] = to;
}

static inline bool overlap(const struct mt_lowered *m, int a, int b) {
    const struct mt_lvalue *x = &m->values[a], *y = &m->values[b];
    return has_memory(m, a) && has_memory(m, b) && x->offset_bytes < y->offset_bytes + y->size_bytes &&
           y->offset_bytes < x->offset_bytes + x->size_bytes;
}

static inline int *storages(const struct mt_lowered *m) {
    int *first = malloc(((size_t)m->nvalues + 1) * sizeof *first);
    for (int v = 0; v < m->nvalues; v++) first[v] = v;
    for (int i = 0; i < m->ninstrs; i++)
        for (int o = 0; o < m->instrs[i].nout; o++)
            for (int k = 0; k < m->instrs[i].nin; k++)
                if (overlap(m, m->instrs[i].in[k], m->instrs[i].out[o]))
                    join(first, m->nvalues, m->instrs[i].out[o], m->instrs[i].in[k]);
    for (int b = 0; b < MT_NBLOCKS; b++)
        for (int i = 0; i < m->program->blocks[b].ninstrs; i++) {
            const struct mt_instr *p = &m->program->blocks[b].instrs[i];
            if (p->kind == MT_INSTR_ACCUMULATE) join(first, m->nvalues, p->out[0], p->in[0]);
        }
    for (int v = 0; v < m->program->nvalues; v++)
        if (m->program->values[v].next >= 0 && overlap(m, v, m->program->values[v].next))
            join(first, m->nvalues, m->program->values[v].next, v);
    return first;
}

/* All that shares the value's memory is moved by as much as it is. */
static inline void move_storage(struct mt_lowered *m, int value, int64_t by) {
    int *first = storages(m);
    for (int v = 0; v < m->nvalues; v++)
        if (first[v] == first[value] && has_memory(m, v)) move_value(m, v, m->values[v].offset_bytes + by);
    free(first);
}

/* A whole memory is moved onto another value's: variants choose which operand, and where to. */
static inline void move_memory(struct mt_lowered *m, int value, int variant) {
    if (!has_memory(m, value)) return;
    int target = -1;
    for (int tries = 0; tries < 50 && target < 0; tries++) {
        int v = (int)below(m->nvalues);
        if (has_memory(m, v) && m->values[v].offset_bytes != m->values[value].offset_bytes) target = v;
    }
    if (target < 0) return;
    int64_t to = m->values[target].offset_bytes, from = m->values[value].offset_bytes;
    if (variant % 2) to = from > 64 ? from - 64 : from + 64;
    move_storage(m, value, to - from);
}

#endif
