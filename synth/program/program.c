/* Programs as data: values, instructions, and the samples at the places of a block's batch axis. */
#include "synth/program/program.h"

#include <assert.h>

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

/* Whether there are several ranks and each sees every sample. */
static bool all_see_all(const struct mt_program *program) {
    const struct mt_graph *g = program->graph;
    int64_t sum = 0;
    for (int r = 0; r < program->nranks; r++) sum += program->batch_size[r];
    return g->batch >= 0 && sum > g->labels[g->batch].extent;
}

/* Each rank's number of samples in one run of the block. */
static const int64_t *block_sizes(const struct mt_program *program, enum mt_block_kind block) {
    switch (block) {
    case MT_BODY: return program->body_size;
    case MT_LAST: return program->last_size;
    default: return program->batch_size;
    }
}

int64_t mt_program_batch(const struct mt_program *program, enum mt_block_kind block) {
    const struct mt_graph *g = program->graph;
    if (block == MT_PROLOGUE || block == MT_EPILOGUE) return g->batch >= 0 ? g->labels[g->batch].extent : 0;
    const int64_t *sizes = block_sizes(program, block);
    if (all_see_all(program)) return sizes[0];
    int64_t sum = 0;
    for (int r = 0; r < program->nranks; r++) sum += sizes[r];
    return sum;
}

/* The first of a rank's samples in an iteration of BODY, or in LAST. */
static int64_t first_sample(const struct mt_program *program, enum mt_block_kind block, int rank, int64_t iteration) {
    return program->batch_start[rank] +
           (block == MT_BODY ? iteration : program->body_count[rank]) * program->body_size[rank];
}

int64_t mt_program_sample(const struct mt_program *program, enum mt_block_kind block, int64_t iteration, int64_t at) {
    if (block == MT_PROLOGUE || block == MT_EPILOGUE) return at;
    if (all_see_all(program)) return first_sample(program, block, 0, iteration) + at;
    const int64_t *sizes = block_sizes(program, block);
    int rank = 0;
    while (rank < program->nranks - 1 && at >= sizes[rank]) at -= sizes[rank++];
    assert(at < sizes[rank]); /* a place within the block */
    return first_sample(program, block, rank, iteration) + at;
}
