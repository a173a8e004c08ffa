/* The SPMD program: what all ranks run in one training step, before lowering.
 *
 * It speaks of the training graph only: an instruction is one of the graph's operators on laid-out values, a collective
 * that changes layouts, a slice (a change of layout that moves nothing), or one of two things that only programs know:
 * zeroing and adding up an accumulator over micro-batches.
 *
 * Blocks run in this order on every rank:
 *   PROLOGUE  once                  casts and gathers of weights; accumulators are zeroed
 *   BODY      body_count[r] times   forward and backward of a micro-batch; gradients are accumulated.
 *                                   May be absent. If it has a collective, all counts are equal.
 *   LAST      once                  the last micro-batch, with the gradients' collectives overlapped
 *   EPILOGUE  once                  what remains of reductions, the norm, the update
 * Rank r's samples are [batch start, + batch size of r). Iteration i of the body takes body_size[r] of them from
 * start + i body_size[r]; LAST takes the last last_size[r]; body_count[r] body_size[r] + last_size[r] is the
 * rank's share. A rank without samples runs LAST on empty boxes and contributes zeros.
 *
 * Values are in single assignment; each names the graph value that it carries, its layout and type. In BODY and LAST a
 * value with the batch label has the block's own batch extent (the sum of the block's sizes) as its layout's extent. A
 * value without it that is summed over samples is partial; *which* samples it covers is `covers`. */
#ifndef MT_SYNTH_PROGRAM_PROGRAM_H
#define MT_SYNTH_PROGRAM_PROGRAM_H

#include <stdio.h>

#include "synth/graph/graph.h"
#include "synth/layout/layout.h"

enum mt_block_kind { MT_PROLOGUE, MT_BODY, MT_LAST, MT_EPILOGUE, MT_NBLOCKS };
const char *mt_block_name(enum mt_block_kind block);

enum mt_covers { MT_COVERS_ALL, MT_COVERS_BODY, MT_COVERS_LAST };

struct mt_pvalue {
    int gvalue;
    int layout;
    enum mt_type type;
    enum mt_block_kind block; /* where it is defined */
    enum mt_covers covers;    /* BODY, LAST: a sum over this block's samples alone; ALL otherwise */
    bool input;               /* fed: an input, or a state at the start of the step */
    int next;                 /* a state at the start: the program value that takes its place after the step; else -1 */
};

enum mt_instr_kind {
    MT_INSTR_OP,         /* graph operator `gop` on in[] -> out[] */
    MT_INSTR_COLLECTIVE, /* in[i] -> out[i] for each i: from its layout to the other's, one message (a bucket) */
    MT_INSTR_SLICE,      /* in[0] -> out[0]: each rank keeps the part of its box that the new layout gives it */
    MT_INSTR_ZERO,       /* -> out[0]: an accumulator, zero on every rank, partial, covers BODY */
    MT_INSTR_ACCUMULATE, /* in[0] (accumulator) + in[1] -> out[0]. In BODY: out[0] is in[0]'s value after the iteration
                            and stands for it from then on. In LAST: body + last = all */
};

/* What a collective computes, value by value. Rank r gets, for each element of its new box, in group G (r's):
 *   AllReduce, ReduceScatter  the reduction over *all* members of G that hold the element: no two may be replicas
 *   AllGather                 the element of the first member of G that holds it
 *   Broadcast                 the element of G's first rank
 *   AllToAll                  by parts, see layout.h
 * What is contributed is rounded to `wire`, sums are kept in `acc`, AllReduce rounds the result to `wire` as well. */
struct mt_instr {
    enum mt_instr_kind kind;
    int gop;
    int nin, nout;
    int *in, *out;
    /* collectives */
    enum mt_coll_kind coll;
    enum mt_reduce reduce;
    enum mt_type wire, acc;
    int *group;            /* [nranks]: ranks with the same number work together; numbered from 0 by first rank */
    const char *algorithm; /* a row of kernels/coll/algorithms.def, or "auto" */
};

struct mt_block {
    struct mt_instr *instrs;
    int ninstrs, capacity;
};

struct mt_program {
    struct mt_arena arena;
    const struct mt_graph *graph; /* not owned */
    int nranks;
    struct mt_layouts layouts;
    struct mt_split *splits; /* for printing and by the builder; their vectors live in the arena */
    int nsplits;
    int64_t *batch_size, *batch_start; /* [nranks]: shares of the whole batch (zeros if the graph has no batch) */
    int64_t *body_size, *body_count, *last_size; /* [nranks] */
    struct mt_pvalue *values;
    int nvalues, values_capacity;
    struct mt_block blocks[MT_NBLOCKS];
    bool train;                 /* false: forward only, no state changes */
    enum mt_type gradient_wire; /* what sums of gradients may travel in, beside their own type */
    bool beside;                /* messages before an operator that gives way set off with it */
};

void mt_program_init(struct mt_program *program, const struct mt_graph *graph, int nranks);
void mt_program_release(struct mt_program *program);
int mt_program_value(struct mt_program *program, int gvalue, int layout, enum mt_type type, enum mt_block_kind block);
/* Append; in, out and group are copied into the program's arena. */
struct mt_instr *mt_program_add(struct mt_program *program, enum mt_block_kind block, const struct mt_instr *instr);

/* The batch extent of a block's values: the sum of the ranks' sizes, or the one size where all ranks see all samples
 * (batch_size[r] is the whole batch on each of several ranks). PROLOGUE and EPILOGUE: the whole batch. */
int64_t mt_program_batch(const struct mt_program *program, enum mt_block_kind block);
/* The global number of the sample at place `at` of the block's batch axis, in an iteration. */
int64_t mt_program_sample(const struct mt_program *program, enum mt_block_kind block, int64_t iteration, int64_t at);

/* A program value's layout, and the box that `rank` holds of it. */
static inline const struct mt_layout *mt_pvalue_layout(const struct mt_program *p, int value) {
    return &p->layouts.items[p->values[value].layout];
}
static inline const struct mt_box *mt_pvalue_box(const struct mt_program *p, int value, int rank) {
    return &mt_pvalue_layout(p, value)->box[rank];
}

/* The tensors of a graph operator's operands on a rank, without data: box, type, and offsets and whole extents as op.h
 * wants them. An interned empty box says nothing of its axes: their extents are taken from the other operands. MT_EBUG
 * when the boxes or types do not fit the operator. */
enum mt_status mt_program_tensors(const struct mt_program *program, enum mt_block_kind block,
                                  const struct mt_instr *instr, int rank, int64_t iteration, struct mt_tensor *in,
                                  struct mt_tensor *out, struct mt_err *err);

/* Print for people: every instruction with operands, layouts, collectives with bytes. rank -1: all ranks. */
void mt_program_print(const struct mt_program *program, int rank, FILE *file);

/* 32 hex digits over everything that decides what is computed. */
void mt_program_hash(const struct mt_program *program, char out[33]);

#endif
