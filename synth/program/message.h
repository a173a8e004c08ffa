/* A collective instruction as a message: which elements of which values travel in which order, for one rank.
 *
 *     struct mt_message m;
 *     if ((st = mt_message_make(&program, instr, rank, &arena, &m, err))) return st;
 *
 * Counts are computed from boxes and are the same on all ranks of the group. All vectors live in `arena`. */
#ifndef MT_SYNTH_PROGRAM_MESSAGE_H
#define MT_SYNTH_PROGRAM_MESSAGE_H

#include "synth/program/program.h"

/* A box of a value in the message: dense and row-major at elements [at, + its count) of `buffer`. */
struct mt_message_piece {
    int operand; /* of the instruction: in[operand] is packed, out[operand] is unpacked */
    int buffer;
    int64_t at;            /* -1: no message (see mt_piece) */
    enum mt_reduce reduce; /* see mt_piece */
    struct mt_box box;     /* in the value's coordinates */
};

struct mt_message {
    struct mt_coll problem;
    int *group;       /* [problem.n]: ranks */
    int64_t count[2]; /* elements of the buffers; 0 where there is none */
    struct mt_message_piece *pack, *unpack;
    int npack, nunpack, pack_capacity, unpack_capacity;
    bool zero; /* some elements are packed by nobody here and count as zero */
};

/* MT_EBUG when the layouts and the group do not allow what the instruction says. */
enum mt_status mt_message_make(const struct mt_program *program, const struct mt_instr *instr, int rank,
                               struct mt_arena *arena, struct mt_message *message, struct mt_err *err);

/* Whether two collectives make the same messages, if not of the same values: layers repeat. */
bool mt_message_same(const struct mt_program *program, const struct mt_instr *a, const struct mt_instr *b);

/* What a collective brings on its way: bytes on the wire of all blocks together, in the group where they are most. */
int64_t mt_message_bytes(const struct mt_program *program, const struct mt_instr *instr);

/* Whether the pieces of a side (all of one value) lie in a tensor of box `box` as they lie in the message, so that the
 * tensor can be the message. */
bool mt_message_is_tensor(const struct mt_message_piece *pieces, int npieces, int64_t message_count,
                          const struct mt_box *box, int naxes);

/* If `part` is one run of elements of a row-major tensor of box `whole`: true, and where it starts. */
bool mt_box_run(const struct mt_box *part, const struct mt_box *whole, int naxes, int64_t *start);

#endif
