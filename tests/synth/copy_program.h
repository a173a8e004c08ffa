/* Copies of programs for mutation tests. */
#ifndef MT_TESTS_SYNTH_COPY_PROGRAM_H
#define MT_TESTS_SYNTH_COPY_PROGRAM_H

#include "synth/program/program.h"
#include "tests/check.h"

/* Equal ids; `to` is not initialised. */
static inline void copy_layouts(const struct mt_layouts *from, struct mt_layouts *to) {
    mt_layouts_init(to, from->nranks);
    for (int i = 0; i < from->count; i++) {
        int id = mt_layout_intern(to, &from->items[i]);
        CHECK_EQ(id, i);
    }
}

static inline void copy_vector(struct mt_program *to, int64_t **vector, int count) {
    *vector = mt_arena_memdup(&to->arena, *vector, (size_t)count * sizeof **vector);
}

/* A deep copy that can be changed alone: a mutant. */
static inline void copy_program(const struct mt_program *from, struct mt_program *to) {
    *to = *from;
    to->arena = (struct mt_arena)MT_ARENA_INIT;
    copy_layouts(&from->layouts, &to->layouts);
    copy_vector(to, &to->batch_size, from->nranks);
    copy_vector(to, &to->batch_start, from->nranks);
    copy_vector(to, &to->body_size, from->nranks);
    copy_vector(to, &to->body_count, from->nranks);
    copy_vector(to, &to->last_size, from->nranks);
    to->values = mt_arena_memdup(&to->arena, from->values, (size_t)from->nvalues * sizeof *from->values);
    to->values_capacity = from->nvalues;
    for (int b = 0; b < MT_NBLOCKS; b++) {
        to->blocks[b] = (struct mt_block){0};
        for (int i = 0; i < from->blocks[b].ninstrs; i++)
            mt_program_add(to, (enum mt_block_kind)b, &from->blocks[b].instrs[i]);
    }
}

#endif
