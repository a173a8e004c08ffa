/* The SPMD program: what all ranks run in one training step, before lowering.
 *
 *   program      blocks of instructions on program values
 *   instruction  one of the graph's operators on laid-out values; a collective, which changes layouts; a slice, which
 *                changes a layout without communication; zeroing or adding to an accumulator
 *   value        a graph value in one layout, in single assignment
 *   micro-batch  the samples of one iteration: gradients are accumulated over the micro-batches of a step
 *   accumulator  the running sum of a gradient over micro-batches
 *   collective   communication of all ranks of a group: AllReduce, ReduceScatter, AllGather, AllToAll or Broadcast
 *   bucket       the values that one collective carries together
 *   block        PROLOGUE  once                 casts and gathers of weights; accumulators are zeroed
 *                BODY      body_count[r] times  forward and backward of one micro-batch, gradients accumulated. May be
 *                                               absent; if it has a collective, all counts are equal.
 *                LAST      once                 the last micro-batch, overlapped by the gradients' collectives
 *                EPILOGUE  once                 the remaining reductions, the norm, the update
 *
 * Rank r's samples are [batch_start[r], + batch_size[r]). Iteration i of BODY takes body_size[r] of them from
 * batch_start[r] + i body_size[r] on; LAST takes the last last_size[r]; batch_size = body_count body_size + last_size.
 * A rank without samples runs LAST on empty boxes and contributes zeros. Ranks whose samples begin at the same place
 * are one sample group: they have the same samples in the same micro-batches (the ranks of a node, where the nodes
 * divide the batch; all ranks, where every rank sees every sample). The groups tile the batch.
 *
 * In BODY and LAST a value with the batch label has the block's batch extent, the sum of the groups' sizes, as its
 * layout's extent; the groups follow each other there in order of their samples. A value without it that is summed over
 * samples is partial, and `covers` has the range of samples.
 *
 *     struct mt_program p;
 *     mt_program_init(&p, graph, nranks);
 *     int w = mt_program_value(&p, gvalue, layout, MT_F32, MT_PROLOGUE), ...;
 *     mt_program_add(&p, MT_PROLOGUE, &(struct mt_instr){.kind = MT_INSTR_OP, .gop = op, .nin = 1, .in = &w, ...});
 *     mt_program_print(&p, -1, stdout);
 *     mt_program_release(&p); */
#ifndef MT_SYNTH_PROGRAM_PROGRAM_H
#define MT_SYNTH_PROGRAM_PROGRAM_H

#include <stdio.h>

#include "kernels/overlap/choice.h"
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
    enum mt_covers covers;    /* BODY, LAST: summed over this block's samples only; else ALL */
    bool input;               /* fed: an input, or a state at the start of the step */
    int next;                 /* a fed state: the program value that replaces it after the step; else -1 */
};

enum mt_instr_kind {
    MT_INSTR_OP,         /* graph operator `gop` on in[] -> out[] */
    MT_INSTR_COLLECTIVE, /* in[i] -> out[i] for each i: from in's layout to out's, all in one message */
    MT_INSTR_SLICE,      /* in[0] -> out[0]: each rank keeps its new box, which is within the old one */
    MT_INSTR_ZERO,       /* -> out[0]: an accumulator, zero on every rank, partial, covers BODY */
    MT_INSTR_ACCUMULATE, /* in[0] (accumulator) + in[1] -> out[0]. In BODY out[0] is the accumulator after the iteration
                            and replaces in[0] from then on; in LAST it is the sum over all samples */
};

/* What a collective computes, value by value. For each element of its new box rank r gets, with G the group of r:
 *   AllReduce, ReduceScatter  the reduction over *all* members of G that hold the element: no two may be replicas
 *   AllGather                 the element of the first member of G that holds it
 *   Broadcast                 the element of G's first rank
 *   AllToAll                  by parts, see layout.h
 * Contributions are rounded to the type `wire`, sums are kept in `acc`, and AllReduce rounds the result to `wire`. */
struct mt_instr {
    enum mt_instr_kind kind;
    int gop;
    int nin, nout;
    int *in, *out;
    /* collectives */
    enum mt_coll_kind coll;
    enum mt_reduce reduce;
    enum mt_type wire, acc;
    int *group;            /* [nranks]: the number of each rank's group, from 0 by first rank */
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
    int *node; /* [nranks]: the node (host) of each rank, numbered from 0 by first rank; null: nobody asks. In the arena
                */
    /* [nranks]: ranks with equal numbers have devices that are alike: from the same operands they compute the same bits
     * (mt_op_repeats). Null: nobody knows. In the arena */
    int *alike;
    bool needs_alike; /* replicas are bit-equal only because their ranks' devices are alike: compare them before running
                       */
    struct mt_layouts layouts;
    int64_t *batch_size, *batch_start; /* [nranks]: shares of the whole batch (zeros if the graph has no batch) */
    int64_t *body_size, *body_count, *last_size; /* [nranks] */
    struct mt_pvalue *values;
    int nvalues, values_capacity;
    struct mt_block blocks[MT_NBLOCKS];
    bool train;                 /* false: forward only, no state changes */
    enum mt_type gradient_wire; /* a wire type that sums of gradients may have besides their own type */
    unsigned overlap; /* of pairs of these forms (1 << enum mt_overlap_form; pair.h) one instruction is made */
    const struct mt_overlap_choice *overlaps; /* how they run, by their shapes; in the arena */
    int noverlaps;
    bool overlap_yielding; /* collectives before an operator that yields (mt_op_yields) start with it */
    /* A rank's messages of one collective at a time, at most (synth/program/cut.h). 0: MT_STAGING_BYTES for conversions
     * of one value; buckets of several, whose size is a decision of its own, are not cut. */
    int64_t staging_bytes;
    bool staging_in_turn; /* parts of a value are not pipelined: each has all of the staging buffer */
};

void mt_program_init(struct mt_program *program, const struct mt_graph *graph, int nranks);
void mt_program_release(struct mt_program *program);
int mt_program_value(struct mt_program *program, int gvalue, int layout, enum mt_type type, enum mt_block_kind block);
/* Append; in, out and group are copied into the program's arena. */
struct mt_instr *mt_program_add(struct mt_program *program, enum mt_block_kind block, const struct mt_instr *instr);

/* The first rank of each sample group, in order of their samples, to first[nranks]. Returns how many groups there are.
 */
int mt_program_sample_groups(const struct mt_program *program, int *first);
/* The batch extent of a block's values: the sum of the sample groups' sizes. PROLOGUE and EPILOGUE: the whole batch. */
int64_t mt_program_batch(const struct mt_program *program, enum mt_block_kind block);
/* The global number of the sample at place `at` of the block's batch axis, in an iteration of BODY. */
int64_t mt_program_sample(const struct mt_program *program, enum mt_block_kind block, int64_t iteration, int64_t at);

/* A program value's layout, and the box that `rank` holds of it. */
static inline const struct mt_layout *mt_pvalue_layout(const struct mt_program *p, int value) {
    return &p->layouts.items[p->values[value].layout];
}
static inline const struct mt_box *mt_pvalue_box(const struct mt_program *p, int value, int rank) {
    return &mt_pvalue_layout(p, value)->box[rank];
}

/* The tensors of a graph operator's operands on a rank, without data: box, type, offsets and whole extents (op.h). An
 * empty box has no extents of its own: they are those of the other operands. MT_EBUG if the boxes or types do not fit
 * the operator. */
enum mt_status mt_program_tensors(const struct mt_program *program, enum mt_block_kind block,
                                  const struct mt_instr *instr, int rank, int64_t iteration, struct mt_tensor *in,
                                  struct mt_tensor *out, struct mt_err *err);

/* Print every instruction with operands, layouts, and collectives' bytes; as one rank sees it, or for rank -1 as all
 * do. */
void mt_program_print(const struct mt_program *program, int rank, FILE *file);

/* 32 hex digits: a hash of all that decides what is computed. Nodes are part of it where a collective names an
 * algorithm that depends on them (by_node): the same program on other nodes then has other schedules, which add in
 * another order.
 */
void mt_program_hash(const struct mt_program *program, char out[33]);

#endif
