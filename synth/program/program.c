/* Programs as data: values, instructions, and the samples at the places of a block's batch axis. */
#include "synth/program/program.h"

#include <assert.h>
#include <stdlib.h>

const char *mt_block_name(enum mt_block_kind block) {
    static const char *const names[MT_NBLOCKS] = {"prologue", "body", "last", "epilogue"};
    return names[block];
}

void mt_program_init(struct mt_program *program, const struct mt_graph *graph, int nranks) {
    *program = (struct mt_program){.graph = graph, .nranks = nranks};
    mt_layouts_init(&program->layouts, nranks);
    int64_t **vectors[] = {&program->batch_size, &program->batch_start, &program->body_size, &program->body_count,
                           &program->last_size};
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
        *vectors[i] = mt_new(&program->arena, int64_t, nranks);
}

void mt_program_release(struct mt_program *program) {
    mt_layouts_release(&program->layouts);
    mt_arena_release(&program->arena);
    *program = (struct mt_program){0};
}

int mt_program_value(struct mt_program *program, int gvalue, int layout, enum mt_type type, enum mt_block_kind block) {
    mt_arena_grow(&program->arena, &program->values, program->nvalues, &program->values_capacity,
                  sizeof *program->values);
    program->values[program->nvalues] =
        (struct mt_pvalue){.gvalue = gvalue, .layout = layout, .type = type, .block = block, .next = -1};
    return program->nvalues++;
}

/* A copy of the instruction with vectors in the program's arena. */
static struct mt_instr own_instr(struct mt_program *program, const struct mt_instr *instr) {
    struct mt_instr own = *instr;
    own.in = mt_arena_memdup(&program->arena, instr->in, (size_t)instr->nin * sizeof *instr->in);
    own.out = mt_arena_memdup(&program->arena, instr->out, (size_t)instr->nout * sizeof *instr->out);
    if (instr->group)
        own.group = mt_arena_memdup(&program->arena, instr->group, (size_t)program->nranks * sizeof *instr->group);
    if (instr->algorithm) own.algorithm = mt_arena_strdup(&program->arena, instr->algorithm);
    return own;
}

struct mt_instr *mt_program_add(struct mt_program *program, enum mt_block_kind block, const struct mt_instr *instr) {
    struct mt_block *b = &program->blocks[block];
    struct mt_instr own = own_instr(program, instr);
    mt_arena_grow(&program->arena, &b->instrs, b->ninstrs, &b->capacity, sizeof *b->instrs);
    b->instrs[b->ninstrs] = own;
    return &b->instrs[b->ninstrs++];
}

/* Each rank's number of samples in one run of the block. */
static const int64_t *block_sizes(const struct mt_program *program, enum mt_block_kind block) {
    switch (block) {
    case MT_BODY: return program->body_size;
    case MT_LAST: return program->last_size;
    default: return program->batch_size;
    }
}

/* Whether each rank's samples begin where those of the rank before do, or later. */
static bool in_order(const struct mt_program *p) {
    int64_t last = 0;
    for (int r = 0; r < p->nranks; r++) {
        if (p->batch_size[r] <= 0) continue;
        if (p->batch_start[r] < last) return false;
        last = p->batch_start[r];
    }
    return true;
}

struct first_sample {
    int64_t start;
    int rank;
};

static int compare_starts(const void *a, const void *b) {
    const struct first_sample *x = a, *y = b;
    if (x->start != y->start) return x->start < y->start ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

int mt_program_sample_groups(const struct mt_program *p, int *first) {
    struct first_sample *starts = mt_malloc((size_t)p->nranks * sizeof *starts);
    int count = 0, groups = 0;
    for (int r = 0; r < p->nranks; r++)
        if (p->batch_size[r] > 0) starts[count++] = (struct first_sample){p->batch_start[r], r};
    if (!in_order(p)) qsort(starts, (size_t)count, sizeof *starts, compare_starts);
    for (int i = 0; i < count; i++)
        if (!i || starts[i].start != starts[i - 1].start) first[groups++] = starts[i].rank;
    free(starts);
    return groups;
}

int64_t mt_program_batch(const struct mt_program *program, enum mt_block_kind block) {
    const struct mt_graph *g = program->graph;
    if (block == MT_PROLOGUE || block == MT_EPILOGUE) return g->batch >= 0 ? g->labels[g->batch].extent : 0;
    const int64_t *sizes = block_sizes(program, block);
    int *first = mt_malloc((size_t)program->nranks * sizeof *first);
    int groups = mt_program_sample_groups(program, first);
    int64_t sum = 0;
    for (int i = 0; i < groups; i++) sum += sizes[first[i]];
    free(first);
    return sum;
}

/* The first of a rank's samples in an iteration of BODY, or in LAST. */
static int64_t first_sample(const struct mt_program *program, enum mt_block_kind block, int rank, int64_t iteration) {
    return program->batch_start[rank] +
           (block == MT_BODY ? iteration : program->body_count[rank]) * program->body_size[rank];
}

/* The first rank of the sample group with place *at of the block, from which *at becomes its place in the group. */
static int group_at(const struct mt_program *p, const int64_t *sizes, int64_t *at) {
    int found = -1;
    if (in_order(p)) { /* without memory: this is asked for every sample */
        int64_t last = -1;
        for (int r = 0; r < p->nranks; r++) {
            if (p->batch_size[r] <= 0 || p->batch_start[r] == last) continue;
            if (found >= 0) *at -= sizes[found];
            found = r, last = p->batch_start[r];
            if (*at < sizes[r]) break;
        }
    } else {
        int *first = mt_malloc((size_t)p->nranks * sizeof *first), groups = mt_program_sample_groups(p, first), i = 0;
        while (i < groups - 1 && *at >= sizes[first[i]]) *at -= sizes[first[i++]];
        found = first[i];
        free(first);
    }
    assert(found >= 0 && *at < sizes[found]); /* a place within the block */
    return found;
}

int64_t mt_program_sample(const struct mt_program *program, enum mt_block_kind block, int64_t iteration, int64_t at) {
    if (block == MT_PROLOGUE || block == MT_EPILOGUE) return at;
    int rank = group_at(program, block_sizes(program, block), &at);
    return first_sample(program, block, rank, iteration) + at;
}
