/* Lowering: one rank's program as its device runs it.
 *
 * Patterns become fused kernels, values get addresses in one arena from their lifetimes, instructions get streams and
 * waits, collectives get schedules. Everything is static: the executor allocates once and then only replays.
 *
 *     struct mt_lowered *low;
 *     if ((st = mt_lower(&program, rank, &options, &low, err))) return st;
 *     ... low->arena_bytes, mt_lowered_print(low, stdout) ...
 *     mt_lowered_free(low);
 *
 * The instructions are one sequence; block b is instrs[block_begin[b] .. block_begin[b + 1]). BODY stands there once
 * and is run body_count times; with a count of 0 its waits are kept and its work is left out. What is known of the
 * order in which instructions run ("i ends before j starts"):
 *   1. i and j are of one stream, and i < j;
 *   2. j waits for i (the last run of i before j); and what follows from 1 and 2 step by step;
 *   3. if body_barrier: PROLOGUE and every iteration of BODY come before the next iteration and before LAST (the first
 *      iteration may overlap PROLOGUE). Set where BODY has instructions of the communication stream; where it has
 *      none, rule 1 orders its iterations.
 *
 * Blocks are not separated by more than that, so the weights' gathers overlap the forward pass and the gradients'
 * collectives overlap the updates that do not need them. A step begins when the last one has ended on both streams.
 *
 * An ALIAS runs nothing, orders nothing and waits for nothing: out[0] is part of in[0]'s memory, ready when in[0] is.
 */
#ifndef MT_SYNTH_LOWER_LOWER_H
#define MT_SYNTH_LOWER_LOWER_H

#include <stdio.h>

#include "kernels/device/device.h"
#include "synth/lower/memory.h"
#include "synth/program/program.h"

/* A value's memory on this rank: values[p] is program value p; scratch and messages follow. Several values may have the
 * same bytes: an operator's output in place of an input that ends there, an accumulator's values, a slice and its
 * whole, a state and its next. */
struct mt_lvalue {
    int pvalue; /* what it carries, or -1: scratch, messages */
    /* In the arena; offset -1: nowhere (inside a fused kernel, or never made); size 0: an empty box. A BODY input: of
     * all iterations together. */
    int64_t offset_bytes, size_bytes;
    int64_t iteration_bytes; /* a BODY input: each iteration's part lies this much further; else 0 */
    struct mt_tensor tensor; /* this rank's box, of the first iteration; data is null: the executor adds the address */
};

enum mt_linstr_kind {
    MT_LOWERED_OP, /* an operator of ops.def; ZERO is `fill`, ACCUMULATE is `add` in place */
    MT_LOWERED_COLLECTIVE,
    MT_LOWERED_COPY, /* pack[0] of in[0] becomes all of out[0], which is message 0: slices, states' new values */
    MT_LOWERED_ALIAS,
};

/* What an iteration of BODY changes in operand `operand` (in, then out) of an operator: numbers of samples and, for
 * inputs, the place. */
struct mt_ladvance {
    int operand, axis;
    int64_t offset, bytes; /* added to tensor.offset[axis] and to the data's address each iteration */
};

/* Copies between tensors and a message; bytes: the mean of what is read and written. */
struct mt_lcopies {
    int n;
    int64_t bytes;
};

struct mt_linstr {
    enum mt_linstr_kind what;
    /* What it stands for: instructions of the program's block, in order (a fused kernel has several). None: the copy of
     * a state's new value to the state's place. */
    int nsources, *sources;
    int stream;
    int wait; /* an earlier instruction of the other stream that must have ended, or -1 */
    int nin, nout;
    int *in, *out; /* lvalues; of collectives the values packed and unpacked */
    char *name;    /* for people: "h.0.mlp.c_fc", "AllReduce h.1.ln_1.weight/grad + 3" */
    /* operators */
    enum mt_op_kind kind;
    struct mt_attr attr; /* attr.accumulate: the outputs' old content is read as well */
    struct mt_tensor
        *tensor;   /* [nin + nout]: the lvalues' tensors, empty boxes with the extents that the operator expects */
    int scratch;   /* an lvalue or -1 */
    int nadvances; /* in BODY */
    struct mt_ladvance *advances;
    /* collectives and copies */
    struct mt_coll problem;
    const struct mt_coll_algorithm *algorithm; /* the schedule's; null: nothing is sent */
    struct mt_schedule *schedule;
    int *group;
    int npack, nunpack;
    struct mt_lcopies packed, unpacked;             /* if a message goes */
    struct mt_lcopies packed_apart, unpacked_apart; /* if arrays go: what is no run of the message's type */
    struct mt_piece *pack, *unpack;                 /* data: the byte offset in the arena, cast to a pointer */
    int *pack_value, *unpack_value;                 /* the lvalues that the pieces are of */
    int message[2]; /* lvalues or -1; a tensor that is its own message is named directly */
    int64_t message_count[2];
    bool zero;
};

/* An operator's call of `tensors` ([nin + nout]: the instruction's own, or with memory), without clock and scratch. */
static inline struct mt_call mt_linstr_call(const struct mt_linstr *instr, const struct mt_tensor *tensors) {
    return (struct mt_call){.kind = instr->kind,
                            .attr = &instr->attr,
                            .nin = instr->nin,
                            .nout = instr->nout,
                            .in = tensors,
                            .out = tensors + instr->nin,
                            .what = instr->name};
}

/* A program value that is fed, and the samples that its rows are: rows[i] is the global number of the sample of which
 * row i on the leading axis is made, first those of the iterations of BODY in turn. Without the batch label: no rows,
 * the box is fed as it is. */
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
    struct mt_linput *inputs;
    int ninputs;
    int *state_at;  /* [graph->nvalues]: the lvalue of a state's memory, or -1 */
    int *output_at; /* [graph->nvalues]: the lvalue where a value for reports (loss_sum, token_count, sq_norm, scale;
                       logits of a forward program) can be read after the step, or -1 */
    int64_t arena_bytes, state_bytes; /* states lie first, and stay */
    int64_t value_bytes; /* of all temporary memory without sharing: what lifetimes save is the difference */
};

struct mt_lower_options {
    bool fuse;
    /* For prices and memory only: no schedules, and of messages no pieces, only how many and how many bytes. */
    bool sketch;
    double latency_s, bandwidth_Bps; /* of the network: chooses "auto" algorithms */
    /* A program of the same graph whose states this one uses where they lie; null: none. */
    const struct mt_lowered *states;
    /* The scratch that the device's backend wants for a call; null: none. */
    int64_t (*scratch_bytes)(void *context, const struct mt_call *call);
    /* Whether the device's backend runs a fused call no slower than the operators that it is made of, of which `member`
     * is the first; null: always. The calls have no memory yet. */
    bool (*worth_fusing)(void *context, const struct mt_call *fused, const struct mt_call *member);
    void *context;
};

/* MT_EINPUT when a collective's algorithm does not serve it or a box is too large to address, MT_EBUG when the program
 * contradicts itself. The result is freed with mt_lowered_free; the program must outlive it. */
enum mt_status mt_lower(const struct mt_program *program, int rank, const struct mt_lower_options *options,
                        struct mt_lowered **lowered, struct mt_err *err);
void mt_lowered_free(struct mt_lowered *lowered);

/* Classes of ranks whose lowered programs take the same memory: first[r] is the first rank of r's class. Ranks of a
 * class have boxes of the same extents, run BODY as often, communicate in the same groups, and take part in no AllToAll
 * (which gives each rank its own pieces). Ranks of different classes may take the same memory nevertheless. */
void mt_lower_fold(const struct mt_program *program, int *first);

void mt_lowered_print(const struct mt_lowered *lowered, FILE *file);

#endif
