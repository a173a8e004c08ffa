/* Inside the lowering: what its passes hand to each other.
 *
 *   passes.c   each program instruction becomes a lowered one (operands are program values, which are the first
 *              lvalues); inputs, states and reports; the other passes in order
 *   chunks.c   large collectives are cut
 *   overlap.c  a matmul and its collective become one overlapped instruction
 *   fuse/      patterns of operators become fused operators
 *   buffers.c  buffer assignment: each value gets a buffer of its own or that of a value that it continues; messages
 *              and scratch
 *   order.c    waits; the order that they make known; lifetimes; offsets */
#ifndef MT_SYNTH_LOWER_INTERNAL_H
#define MT_SYNTH_LOWER_INTERNAL_H

#include "synth/lower/lower.h"
#include "synth/program/message.h"
#include "synth/program/pair.h"

/* Memory of one or several lvalues. */
struct mt_buffer {
    int64_t size_bytes;
    bool fixed;         /* states, inputs and kept casts: placed first, never reused */
    int last_use;       /* the last instruction that reads a value in it; INT_MAX: kept to the end */
    bool body, outside; /* has values of BODY; of other blocks */
    int writer;         /* the stream that wrote it last */
    int64_t offset_bytes;
};

/* Pieces of the operands of a collective. */
struct mt_lpieces {
    struct mt_piece *pieces; /* null: not made yet */
    int *of;
};

struct mt_made_message { /* shared by collectives with equal messages */
    struct mt_instr source;
    int part, parts;
    struct mt_message message;
    struct mt_lpieces packed, unpacked, in_place[2];
    const struct mt_coll_algorithm *algorithm; /* of the schedule that was made last, or null */
    struct mt_schedule *schedule;
};

struct mt_chunks { /* of one collective */
    struct mt_message_chunk *items;
    int count;
};

struct mt_lowering {
    const struct mt_program *program;
    int rank;
    const struct mt_lower_options *options;
    struct mt_lowered *low;
    struct mt_arena scratch;
    struct mt_err *err;
    int *last_use; /* [pvalues]: the last instruction that reads it; INT_MAX: kept; -1: none */
    int *adds_to;  /* [pvalues]: the accumulator that an ACCUMULATE's output continues, or the operand that a fused
                      addition  adds to in place; else -1 */
    int *state_of; /* [pvalues]: the state (a pvalue) whose next value it is; else -1 */
    struct mt_pairs pairs;
    int *pair_of[MT_NBLOCKS]; /* [instructions of the program's block]: of the matmul and of the collective; or -1 */
    struct mt_chunks *chunks[MT_NBLOCKS]; /* [instructions of the program's block] */
    struct mt_buffer *buffers;
    int nbuffers, buffers_capacity;
    int *buffer, buffer_capacity; /* [lvalues]: index into buffers; or -1 */
    int64_t *at;                  /* [lvalues]: offset in the buffer, bytes */
    int at_capacity;
    /* Of the present collective's chunks: their buffer, or -1; of the present value's pipelined parts, the room that
     * the even ones need, after which the odd ones have theirs. */
    int staging;
    int64_t half_bytes;
    struct mt_made_message *messages;
    int nmessages, messages_capacity;
    int ncopies; /* so far, on streams of copies */
};

static inline enum mt_block_kind mt_lowered_block(const struct mt_lowered *low, int instr) {
    int b = 0;
    while (instr >= low->block_begin[b + 1]) b++;
    return (enum mt_block_kind)b;
}

/* Set the chunks of all collectives: the same on all ranks. */
enum mt_status mt_lowering_cut(struct mt_lowering *lowering);

/* Find the pairs of the program: the same on all ranks. */
void mt_lowering_pair(struct mt_lowering *lowering);
/* Draft the overlapped instruction of a pair, in the place of its matmul. */
void mt_draft_overlap(struct mt_lowering *lowering, const struct mt_pair *pair);
/* Its scratch; its output has a buffer. */
int64_t mt_overlapped_scratch_bytes(const struct mt_lowering *lowering, const struct mt_linstr *instr);

/* Replace attention of parts by packed attention; before mt_fuse. */
void mt_fuse_packed(struct mt_lowering *lowering);
/* Replace patterns of operators by fused ones. The members leave the sequence. */
void mt_fuse(struct mt_lowering *lowering);

/* Let updates write the casts that the next step begins with; after mt_fuse, with last uses. */
void mt_fuse_updates(struct mt_lowering *lowering);

/* Set the tensors of a fused operator from its members'. False if members are empty along different axes (one has no
 * batch, another no heads), so that no single call computes all. */
bool mt_fuse_tensors(struct mt_linstr *const *members, int count, struct mt_linstr *fused, struct mt_arena *arena);

enum mt_status mt_assign_buffers(struct mt_lowering *lowering);
int mt_lowering_value(struct mt_lowering *lowering, int pvalue, int64_t size_bytes); /* a new lvalue */
struct mt_linstr *mt_lowering_instr(struct mt_lowering *lowering); /* a new instruction at the end of the sequence */

/* Waits, lifetimes, offsets. */
void mt_order_and_place(struct mt_lowering *lowering);

#endif
