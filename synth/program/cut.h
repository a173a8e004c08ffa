/* Cutting collectives, so that their messages need little memory.
 *
 *   staging   a collective's messages on one rank, where they are no tensors: a copy of what is sent and received
 *   chunk     a run of a collective's values, or a part of one value (message.h), that is one collective by itself. The
 *             chunks of a collective follow each other, in the same order on all ranks, and share one staging buffer
 *   pipeline  parts whose copies take time use one half of the staging buffer each, in turn: a part is packed, and the
 *             one before it unpacked, while another is sent
 *
 *     struct mt_message_chunk *chunks;
 *     int nchunks;
 *     if ((st = mt_message_cut(&program, instr, &form, &arena, &chunks, &nchunks, err))) ...
 *     struct mt_instr one = mt_message_chunk_instr(instr, &chunks[0]);
 *     mt_message_make(&program, &one, rank, &(struct mt_message_form){.part = chunks[0].part, .parts = ...}, ...); */
#ifndef MT_SYNTH_PROGRAM_CUT_H
#define MT_SYNTH_PROGRAM_CUT_H

#include "synth/program/message.h"

struct mt_message_chunk {
    int first, count; /* operands of the collective */
    int part, parts;  /* parts > 1: part i of n of the only operand; else 0 of 1 */
    int pipelined;    /* bool: parts have halves of the staging buffer in turn; else each has all of it */
};

/* Messages begin at multiples of 64 bytes. */
static inline int64_t mt_message_round(int64_t size_bytes) {
    return (size_bytes + 63) / 64 * 64;
}

#define MT_STAGING_BYTES ((int64_t)64 << 20)

/* The chunks of a collective, such that no rank of any group stages more than program->staging_bytes for one, or for
 * two in turn; few, and of about equal parts. They are the same for all ranks. Values whose tensors serve as messages
 * are not cut. O(values x parts x pieces). MT_EINPUT where even single elements stage more. The list is in `arena`. */
struct mt_cut_form {
    const bool
        *takes;     /* [operands]: of a ReduceScatter, whether its input may serve as the message; null: it may not */
    bool wire_sums; /* as of struct mt_message_form */
};
enum mt_status mt_message_cut(const struct mt_program *program, const struct mt_instr *instr,
                              const struct mt_cut_form *form, struct mt_arena *arena, struct mt_message_chunk **chunks,
                              int *nchunks, struct mt_err *err);

/* The collective of a chunk's operands alone. It borrows the vectors. */
struct mt_instr mt_message_chunk_instr(const struct mt_instr *instr, const struct mt_message_chunk *chunk);

/* Part `part` of `parts` of a box with axes, possibly empty. Together the parts tile it. The first axis that is much
 * longer than `parts` is cut, so that rows stay contiguous; else the longest; and where that has fewer places than
 * there are parts, several parts divide the boxes of one place in the same way. */
struct mt_box mt_box_cut(const struct mt_box *box, int naxes, int part, int parts);

#endif
