/* Inside the lowering: what its passes hand to each other.
 *
 *   lower.c    program instructions become drafts (operands are program values, which are the first lvalues)
 *   fuse.c     drafts become fused drafts, with tensors by fuse_tensors.c
 *   buffers.c  values get buffers: own ones, or that of a value that they continue; messages and scratch
 *   order.c    streams and waits; what they make known of the order; lifetimes; addresses */
#ifndef MT_SYNTH_LOWER_INTERNAL_H
#define MT_SYNTH_LOWER_INTERNAL_H

#include "synth/lower/lower.h"
#include "synth/program/message.h"

/* Memory that one or several lvalues lie in. */
struct mt_buffer {
    int64_t size_bytes;
    bool fixed;         /* states and inputs: placed first, never taken over */
    int last_use;       /* the last instruction that reads a value in it; INT_MAX: kept to the end */
    bool body, outside; /* holds values of BODY; of other blocks */
    int writer;         /* the stream that wrote it last */
    int64_t offset_bytes;
};

struct mt_made_message { /* for collectives like this one */
    const struct mt_instr *source;
    struct mt_message message;
};

struct mt_lowering {
    const struct mt_program *program;
    int rank;
    const struct mt_lower_options *options;
    struct mt_lowered *low;
    struct mt_arena scratch;
    struct mt_err *err;
    int *last_use; /* [pvalues]: the last instruction that reads it; INT_MAX: kept; -1: none */
    int *adds_to;  /* [pvalues]: the accumulator that an ACCUMULATE's output continues, or what a fused addition
                      adds to; else -1 */
    int *state_of; /* [pvalues]: the state (a pvalue) whose next it is; else -1 */
    struct mt_buffer *buffers;
    int nbuffers, buffers_capacity;
    int *buffer, buffer_capacity; /* [lvalues]: or -1 */
    int64_t *at;                  /* [lvalues]: bytes from the buffer's start */
    int at_capacity;
    struct mt_made_message *messages;
    int nmessages, messages_capacity;
};

/* The block of instruction `instr`. */
static inline enum mt_block_kind mt_lowered_block(const struct mt_lowered *low, int instr) {
    int b = 0;
    while (instr >= low->block_begin[b + 1]) b++;
    return (enum mt_block_kind)b;
}

/* Replace patterns of operators by fused ones. Instructions that are absorbed disappear from the sequence. */
void mt_fuse(struct mt_lowering *lowering);

/* The tensors of an operator (what it computes, in and out) made of members. False where members are empty for
 * different reasons (the batch here, the heads there), so that no one call says both. */
bool mt_fuse_tensors(struct mt_linstr *const *members, int count, struct mt_linstr *fused, struct mt_arena *arena);

enum mt_status mt_assign_buffers(struct mt_lowering *lowering);
int mt_lowering_value(struct mt_lowering *lowering, int pvalue, int64_t size_bytes); /* a new lvalue */
struct mt_linstr *mt_lowering_instr(struct mt_lowering *lowering); /* a new one at the end of the sequence */

/* Waits, lifetimes, addresses. */
void mt_order_and_place(struct mt_lowering *lowering);

#endif
