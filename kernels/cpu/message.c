/* A collective call on the CPU: pack pieces of tensors into the message, run the schedule, unpack.
 *
 * Each contiguous row of a piece is copied, converted or reduced by a vectorised loop. */
#include "kernels/coll/reduce.h"
#include "kernels/cpu/internal.h"
#include "kernels/device/piece.h"

enum direction { PACK, UNPACK };

static void do_row(const struct mt_piece *piece, enum direction direction, enum mt_type acc, char *tensor,
                   char *message, int64_t count) {
    if (piece->at < 0)
        mt_coll_neutral(piece->reduce, piece->type, tensor, count);
    else if (direction == PACK)
        mt_type_convert(acc, message, piece->type, tensor, count);
    else if (piece->reduce == MT_REDUCE_NONE)
        mt_type_convert(piece->type, tensor, acc, message, count);
    else
        mt_coll_reduce(piece->reduce, piece->type, tensor, acc, message, count);
}

static void move_piece(const struct mt_piece *piece, enum direction direction, enum mt_type acc, void *message) {
    struct mt_piece_rows rows = mt_piece_rows(piece);
    if (!rows.row) return;
    int64_t size_bytes = mt_type_size(piece->type), index[MT_MAX_AXES] = {0}, row_bytes = rows.row * mt_type_size(acc);
    char *tensor = piece->data;
    char *at = piece->at < 0 ? NULL : (char *)message + piece->at * mt_type_size(acc);
    for (;;) {
        do_row(piece, direction, acc, tensor, at, rows.row);
        if (at) at += row_bytes;
        int a = 0;
        for (; a < rows.naxes; a++) { /* axis 0 is the innermost here */
            tensor += rows.stride[a] * size_bytes;
            if (++index[a] < rows.extent[a]) break;
            tensor -= rows.stride[a] * rows.extent[a] * size_bytes;
            index[a] = 0;
        }
        if (a == rows.naxes) return;
    }
}

enum mt_status mt_cpu_coll(const struct mt_coll_call *call, struct mt_err *err) {
    const struct mt_coll *problem = &call->problem;
    if (call->zero) mt_coll_neutral(problem->reduce, problem->acc, call->message[0], call->message_count[0]);
    for (int i = 0; i < call->npack; i++)
        move_piece(&call->pack[i], PACK, problem->acc, call->message[call->pack[i].buffer]);
    if (call->schedule) {
        enum mt_status st = mt_comm_run(call->comm, problem, call->schedule, call->group, call->message, call->tag,
                                        call->deadline_s, err);
        if (st) return st;
    }
    for (int i = 0; i < call->nunpack; i++)
        move_piece(&call->unpack[i], UNPACK, problem->acc, call->message[call->unpack[i].buffer]);
    return MT_OK;
}
