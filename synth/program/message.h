/* A collective instruction as a message of one rank: which elements of which values are sent, and in which order.
 *
 *   message  a buffer of elements that a collective sends, receives, or both
 *   piece    a box of one value at a place of the message, dense and row-major
 *   pack     copy pieces from values to the message; unpack: from the message to values
 *   in place a piece of an AllToAll that is not copied: its elements are sent from, or received into, the value's
 * tensor
 *
 *     struct mt_message m;
 *     if ((st = mt_message_make(&program, instr, rank, NULL, &arena, &m, err))) return st;
 *
 * Counts are computed from boxes and are the same on all ranks of the group. All vectors are in `arena`. For costs,
 * a sketch leaves the pieces out, which are as many as values times ranks.
 *
 *   part     a collective may be run in several parts: part i of n has the i-th n-th of every piece (cut.h), so that
 *            all ranks send and receive equally much in each part; together the parts are the collective */
#ifndef MT_SYNTH_PROGRAM_MESSAGE_H
#define MT_SYNTH_PROGRAM_MESSAGE_H

#include "synth/program/program.h"

/* A piece: elements [at, + the box's count) of message `buffer`. */
struct mt_message_piece {
    int operand; /* of the instruction: in[operand] is packed, out[operand] is unpacked */
    int buffer;
    int64_t at;            /* -1: no message (see mt_piece) */
    enum mt_reduce reduce; /* see mt_piece */
    struct mt_box box;     /* in the value's coordinates */
};

/* What is packed, or unpacked. */
struct mt_message_side {
    struct mt_message_piece *pieces; /* [count]; null in a sketch */
    int count, capacity;
    int64_t bytes; /* read and written by the copies of all pieces */
    int nrest;     /* pieces that are no array: not contiguous in their tensor, or not of the message's type */
    int64_t rest_bytes;
    /* All pieces are of one value and have the same places in the message and in its tensor, which they fill; so the
     * tensor can serve as the message. */
    bool is_tensor;
    /* Of an AllToAll: blocks that are one piece, contiguous in its tensor and of the message's type. Of what a rank
     * sends to itself one side at most is in place. They are not among `pieces`. */
    struct mt_message_piece *in_place; /* [nin_place], by place in the message; null in a sketch */
    int nin_place, in_place_capacity;
};

struct mt_message {
    struct mt_coll problem;
    int *group;       /* [problem.n]: ranks */
    int64_t count[2]; /* elements of the buffers; 0 where there is none */
    /* Of an AllToAll, [problem.n]: the elements of each member's buffers that need memory, those that are not in place.
     * What a rank sends to itself is in buffer 1 only. */
    int64_t *staged[2];
    struct mt_message_side pack, unpack;
    bool zero; /* some elements of message 0 have no piece on this rank and count as zero */
};

struct mt_message_form {
    bool sketch;     /* no pieces, but their number and bytes */
    int part, parts; /* part i of n; parts 0: the collective is in one part */
    /* Who sums adds in the wire type (NCCL): then the message is of that type, not of the accumulation type, and values
     * of that type need no conversion. */
    bool wire_sums;
};

/* `form` null: with pieces, in one part. MT_EBUG if the layouts and the group contradict the instruction. */
enum mt_status mt_message_make(const struct mt_program *program, const struct mt_instr *instr, int rank,
                               const struct mt_message_form *form, struct mt_arena *arena, struct mt_message *message,
                               struct mt_err *err);

/* Whether two collectives have equal messages, of other values: layers repeat. */
bool mt_message_same(const struct mt_program *program, const struct mt_instr *a, const struct mt_instr *b);

/* The size of a collective: bytes on the wire of all blocks together, in the group where they are most. */
int64_t mt_message_bytes(const struct mt_program *program, const struct mt_instr *instr);

/* Whether `part` is contiguous in a row-major tensor of box `whole`; *start gets its first element. */
bool mt_box_run(const struct mt_box *part, const struct mt_box *whole, int naxes, int64_t *start);

#endif
