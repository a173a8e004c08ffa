/* Lowering: one rank's program as its device runs it.
 *
 *   lowered program  one rank's instructions in one sequence, with memory, streams, waits and schedules. Everything is
 *                    static: the executor allocates once and then only replays.
 *   fusion           a pattern of operators becomes one fused kernel
 *   lvalue           the memory of a value on this rank
 *   arena            the one allocation that all lvalues are in, by offset
 *   buffer           memory in the arena that one or several lvalues share (buffer assignment: buffers.c)
 *   lifetime         the first and the last instruction that use a buffer (order.c, memory.h)
 *   stream           compute, communication, or one of copies; each runs its instructions in order
 *   wait             an instruction of another stream that must have ended before this one starts
 *   chunk            one of several collectives by which a large one is run, so that its messages need little memory;
 *                    parts of one value may be pipelined (cut.h)
 *   overlapped       an instruction that runs a GEMM together with its collective, by a schedule that it carries
 *                    (kernels/overlap/overlap.h); it computes, and communicates while no collective does: one that is
 *                    before it in the sequence has ended, one that is after it waits
 *   window           memory of all ranks that peers write to, for overlapped instructions (kernels/window/window.h);
 *                    beside the arena, as its own allocation, with the same places on all ranks
 *   kept             a cast of a state whose result the update of the step before has written already: it runs in the
 *                    first step, and after states have been written from outside or another program has run
 *   alias            an instruction that runs nothing, orders nothing and waits for nothing: out[0] is part of in[0]'s
 *                    memory, and ready when in[0] is
 *
 *     struct mt_lowered *low;
 *     if ((st = mt_lower(&program, rank, &options, &low, err))) return st;
 *     ... low->arena_bytes, mt_lowered_print(low, stdout) ...
 *     mt_lowered_free(low);
 *
 * Block b is instrs[block_begin[b] .. block_begin[b + 1]). BODY is in the sequence once and is run body_count times;
 * with a count of 0 its waits are kept and its work is left out. "i ends before j starts" is known exactly where
 *   1. i and j are on one stream, and i < j;
 *   2. j waits for i (the last run of i before j); and by transitivity of 1 and 2;
 *   3. body_barrier is set, for PROLOGUE and every iteration of BODY before the next iteration and before LAST (the
 *      first iteration may overlap PROLOGUE). It is set where BODY has instructions of other streams than compute;
 *      where it has none, rule 1 orders its iterations.
 *
 * Nothing else separates blocks, so that the weights' gathers overlap the forward pass, and the gradients' collectives
 * overlap updates that do not need them. A step begins when the last one has ended on all streams. */
#ifndef MT_SYNTH_LOWER_LOWER_H
#define MT_SYNTH_LOWER_LOWER_H

#include <stdio.h>

#include "kernels/device/device.h"
#include "kernels/overlap/overlap.h"
#include "synth/lower/memory.h"
#include "synth/program/cut.h"

/* A value's memory on this rank: values[p] is program value p; scratch and messages follow. Several values may share
 * bytes: an operator's output in place of an input whose last use it is, an accumulator's values, a slice and its
 * whole, a state and its next value. */
struct mt_lvalue {
    int pvalue; /* the program value; -1: scratch or a message */
    /* In the arena. Offset -1: no memory (inside a fused kernel, or never made); size 0: an empty box. The size of a
     * BODY input is that of all iterations together. */
    int64_t offset_bytes, size_bytes;
    int64_t iteration_bytes; /* a BODY input: the distance from one iteration's part to the next; else 0 */
    struct mt_tensor tensor; /* this rank's box in the first iteration; data is null, the executor adds the address */
};

enum mt_linstr_kind {
    MT_LOWERED_OP, /* an operator of ops.def; ZERO is `fill`, ACCUMULATE is `add` in place */
    MT_LOWERED_COLLECTIVE,
    MT_LOWERED_OVERLAP, /* a matmul with its collective, from in[0] (the A of its problem) and in[1] to out[0]; it may
                           have an epilogue, and is a fused_matmul then (in[2], of a gather out[1]), of sums a bias that
                           is added to what the collective makes; the last output: the gathered A, where it is kept */
    MT_LOWERED_COPY, /* pack[0] of in[0] is copied to all of out[0], which is message 0: slices, states' new values */
    MT_LOWERED_ALIAS,
};

/* What each iteration of BODY adds in operand `operand` (in, then out) of an operator: to its first sample's number
 * and, for inputs, to its address. */
struct mt_ladvance {
    int operand, axis;
    int64_t offset, bytes; /* added to tensor.offset[axis] and to the data's address */
};

/* Copies between tensors and a message: how many, and the mean of the bytes read and written. */
struct mt_lcopies {
    int n;
    int64_t bytes;
};

/* Of an overlapped instruction, whose place in its group is `me`. */
struct mt_loverlap {
    struct mt_overlap problem;
    struct mt_overlap_schedule *schedule; /* null in a sketch */
    int me;
    bool trans_a, trans_b, trans_out; /* of its operands, see struct mt_overlap_operands */
    int region;                       /* whose runs in a program are epochs, from 1 */
    int64_t window_at;                /* where it begins in the window, bytes */
};

struct mt_linstr {
    enum mt_linstr_kind what;
    /* The instructions of the program's block that this one implements, in order; an overlapped one's matmul comes
     * first, its collective second, its epilogue's after them. A fused kernel has several, the copy of a state's new
     * value to the state's memory none. All have one source each, but that the parts of a value are a source of every
     * packed kernel that reads the value in their place, and the last one. */
    int nsources, *sources;
    int stream;
    int nwaits, *waits; /* earlier instructions of other streams that must have ended, in order: at most one of each */
    int nin, nout;
    int *in, *out; /* lvalues; of a collective the values that are packed and unpacked */
    const char
        *name; /* for messages: "h.0.mlp.c_fc", "AllReduce h.1.ln_1.weight/grad + 3"; in a sketch only the value's */
    /* operators, and the GEMM of an overlapped instruction */
    enum mt_op_kind kind;
    struct mt_attr attr; /* with attr.accumulate the outputs' old contents are read too */
    /* [nin + nout]: the lvalues' tensors; empty boxes have the extents that the operator expects; of a gather the first
     * is that of the gathered A; of overlapped sums in[2] and out[0] are those of the addition of the bias */
    struct mt_tensor *tensor;
    bool kept;     /* see above: an operator of PROLOGUE, without waits; its output is an update's too */
    int scratch;   /* an lvalue or -1 */
    int nadvances; /* in BODY */
    struct mt_ladvance *advances;
    /* collectives and copies */
    struct mt_coll problem;
    const struct mt_coll_algorithm *algorithm; /* null: nothing is sent */
    struct mt_schedule *schedule;              /* may be that of other collectives with equal messages */
    int *group;
    int npack, nunpack;
    struct mt_lcopies packed, unpacked;           /* where the collective runs on a message */
    struct mt_lcopies packed_rest, unpacked_rest; /* where it runs on the tensors: pieces that need a copy */
    /* data: the byte offset in the operand's memory, cast to a pointer. Collectives with equal messages share pieces.
     */
    struct mt_piece *pack, *unpack;
    int *pack_of, *unpack_of; /* the operands that the pieces are of: places in `in`; in `out` */
    /* Of an AllToAll: the blocks of messages 0 and 1 that are not copied (device.h), and the operands they are of. */
    int nin_place[2];
    struct mt_piece *in_place[2];
    int *in_place_of[2];
    int message[2]; /* lvalues or -1; a tensor that serves as the message is named directly */
    /* Of a collective that is run in several (cut.h): which of its values, or which part of one, and which of them it
     * is. They follow each other without other instructions in between, and share their message. */
    struct mt_message_chunk chunk;
    int chunk_index, nchunks;
    /* It may be packed while the instruction before it runs, the part before it of the same value, and that one may be
     * unpacked while this one runs. For the order of all other instructions they still end one after the other. */
    bool ahead;
    int64_t message_count[2];
    bool zero;
    struct mt_loverlap *overlap; /* of an overlapped instruction; its group is `group` */
};

/* Of an overlapped instruction: the gathered A, where it is kept; the input and the second output of its epilogue; or
 * -1. */
static inline int mt_linstr_whole(const struct mt_linstr *instr) {
    return instr->overlap->problem.keep ? instr->out[instr->nout - 1] : -1;
}
static inline int mt_linstr_extra(const struct mt_linstr *instr) {
    return instr->nin > 2 ? instr->in[2] : -1;
}
static inline int mt_linstr_pre(const struct mt_linstr *instr) {
    return instr->nout > 1 + instr->overlap->problem.keep ? instr->out[1] : -1;
}

/* Whether it is an overlapped sum. */
static inline bool mt_linstr_sums(const struct mt_linstr *instr) {
    return instr->overlap && instr->overlap->problem.form != MT_OVERLAP_GATHER;
}

/* The call of an operator on `tensors` ([nin + nout]: the instruction's own, or with addresses), without clock and
 * scratch. Of an overlapped gather, its GEMM on the gathered A; of overlapped sums, what is no valid call: this rank's
 * operands, and its part of the sum. */
static inline struct mt_call mt_linstr_call(const struct mt_linstr *instr, const struct mt_tensor *tensors) {
    return (struct mt_call){.kind = instr->kind,
                            .attr = &instr->attr,
                            .nin = instr->nin,
                            .nout = instr->nout - (instr->overlap && instr->overlap->problem.keep),
                            .in = tensors,
                            .out = tensors + instr->nin,
                            .what = instr->name};
}

/* A program value that is fed. rows[i] is the global number of the sample that row i of the leading axis holds; an
 * input of BODY has the rows of all iterations in turn. Without the batch label there are no rows, and the box is fed
 * as it is. */
struct mt_linput {
    int gvalue;
    enum mt_block_kind block;
    int value; /* the lvalue */
    int64_t nrows, *rows;
};

struct mt_lowered {
    struct mt_arena arena;
    const struct mt_program *program; /* not owned */
    int rank;
    struct mt_lvalue *values;
    int nvalues, values_capacity;
    struct mt_linstr *instrs;
    int ninstrs, instrs_capacity;
    int block_begin[MT_NBLOCKS + 1];
    int64_t body_count; /* iterations on this rank */
    bool body_barrier;
    int nstreams; /* compute, communication, and those that copy */
    struct mt_linput *inputs;
    int ninputs;
    int *state_at;  /* [graph->nvalues]: the lvalue of a state; or -1 */
    int *output_at; /* [graph->nvalues]: the lvalue of a reported value (loss_sum, token_count, sq_norm, scale; logits
                       of a forward program) after the step; or -1 */
    int64_t arena_bytes, state_bytes; /* states are first, [0, state_bytes) */
    int64_t window_bytes;             /* equal on all ranks */
    int nregions;
    int64_t value_bytes; /* of all temporary buffers if none shared memory */
};

struct mt_lower_options {
    bool fuse;
    /* For costs and memory only: no schedules; of messages the number and bytes of pieces, but no pieces. */
    bool sketch;
    bool unplaced;                   /* no offsets and no arena, which take as long as the rest */
    int copy_streams;                /* that run copies between tensors, in turn; 0: compute and communication do */
    double latency_s, bandwidth_Bps; /* of the network: chooses "auto" algorithms */
    /* A lowered program of the same graph whose states' memory this one uses; null: none. */
    const struct mt_lowered *states;
    /* The scratch that the device's backend needs for a call; null: none. */
    int64_t (*scratch_bytes)(void *context, const struct mt_call *call);
    /* Whether the device's backend runs the fused call no slower than its members, of which `member` is the first;
     * null: always. The calls have no memory yet. */
    bool (*worth_fusing)(void *context, const struct mt_call *fused, const struct mt_call *member);
    void *context;
    bool chunks;    /* overlapped instructions run by chunks (kernels/overlap/chunk.h), as on GPUs; else by tiles */
    bool wire_sums; /* collectives add in the wire type, as NCCL's do, and messages are of it (message.h) */
};

/* MT_EINPUT if a collective's algorithm does not apply to it or a box is too large to address, MT_EBUG if the program
 * contradicts itself. Free the result with mt_lowered_free; the program must outlive it. */
enum mt_status mt_lower(const struct mt_program *program, int rank, const struct mt_lower_options *options,
                        struct mt_lowered **lowered, struct mt_err *err);
void mt_lowered_free(struct mt_lowered *lowered);

/* Where a piece of operand `of` begins in the arena, bytes. unpack: of `out`, else of `in`. */
static inline int64_t mt_linstr_piece_at(const struct mt_lowered *low, const struct mt_linstr *instr, bool unpack,
                                         const struct mt_piece *piece, int of) {
    int value = unpack ? instr->out[of] : instr->in[of];
    return low->values[value].offset_bytes + (int64_t)(uintptr_t)piece->data;
}

/* Classes of ranks whose lowered programs are alike, and take the same memory: first[r] is the first rank of r's class.
 * Ranks of a class have boxes of the same extents, run BODY as often, and communicate in the same groups, or in groups
 * whose members are of the same classes in the same order; of an AllToAll, boxes of the one group are those of the
 * other, moved. tag[nranks]: groups are told apart by tags of their members as well (what their messages cost); null:
 * no tags. First ranks of classes that share a group share it with each other. Ranks of different classes may be alike
 * nevertheless. */
void mt_lower_fold(const struct mt_program *program, const uint64_t *tag, int *first);

const char *mt_lowered_stream_name(int stream); /* "compute", "comm", "copy", ... */
void mt_lowered_print(const struct mt_lowered *lowered, FILE *file);

#endif
