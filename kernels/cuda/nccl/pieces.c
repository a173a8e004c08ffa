/* Pieces of the same work and types go into one launch, unless they might write the same elements: those keep their
 * order. */
#include "kernels/cuda/nccl/pieces.h"

#include <stdio.h>
#include <stdlib.h>

#include "kernels/cuda/driver/driver.h"
#include "kernels/device/piece.h"

enum { PIECES = 16, THREADS = 256, UNROLL = 4, BLOCKS_A_MULTIPROCESSOR = 16 };

/* ---- parameters of the kernel: as in pieces.cu ---- */

struct piece {
    void *tensor, *message;
    int64_t rows, row;
    int64_t extent[MT_MAX_AXES], stride[MT_MAX_AXES];
    int64_t naxes;
};
struct piece_batch {
    struct piece pieces[PIECES];
};

enum direction { OUT_OF_TENSORS, INTO_TENSORS };
enum work { PACK, OVERWRITE, SUM, MAXIMUM, ZERO, LOWEST };

static enum work work_of(enum direction direction, const struct mt_piece *piece) {
    static const enum work joins[] = {[MT_REDUCE_NONE] = OVERWRITE, [MT_SUM] = SUM, [MT_MAX] = MAXIMUM};
    if (piece->at < 0) return piece->reduce == MT_MAX ? LOWEST : ZERO;
    return direction == OUT_OF_TENSORS ? PACK : joins[piece->reduce];
}

static struct piece piece_of(const struct mt_piece *piece, enum mt_type acc, void *const message[2]) {
    struct mt_piece_rows rows = mt_piece_rows(piece);
    struct piece p = {.tensor = piece->data, .rows = rows.row > 0, .row = rows.row, .naxes = rows.naxes};
    if (piece->at >= 0) p.message = (char *)message[piece->buffer] + piece->at * mt_type_size(acc);
    for (int a = 0; a < rows.naxes; a++) {
        p.extent[a] = rows.extent[a], p.stride[a] = rows.stride[a];
        p.rows *= rows.extent[a];
    }
    return p;
}

/* The elements of one access: 16 bytes of the larger type at most. */
static int width_of(const struct piece *p, int64_t tensor_size, int64_t message_size) {
    int64_t width = 16 / (tensor_size > message_size ? tensor_size : message_size);
    uintptr_t steps = (uintptr_t)p->row;
    for (int a = 0; a < p->naxes; a++) steps |= (uintptr_t)p->stride[a];
    while (width > 1 && (steps % (uintptr_t)width || (uintptr_t)p->tensor % (uintptr_t)(width * tensor_size) ||
                         (uintptr_t)p->message % (uintptr_t)(width * message_size)))
        width /= 2;
    return (int)width;
}

/* ---- which pieces may share a launch ---- */

/* Whether two boxes in one dense tensor overlap: whether indices i of p and j of q over axes 0...axis exist for which
 * the sum of stride * (i - j) is `distance`. For each axis, from the innermost on, there are at most two candidates of
 * i - j, since inner axes do not carry. */
static bool boxes_overlap(const struct mt_piece *p, const struct mt_piece *q, int axis, int64_t distance) {
    if (axis < 0) return distance == 0;
    int64_t stride = p->stride[axis], around = axis ? p->stride[axis - 1] / stride : 0, k = distance / stride;
    if (distance % stride) return false;
    if (axis) k = (k % around + around) % around;
    for (int carry = 0; carry <= (axis > 0); carry++, k -= around)
        if (k > -q->extent[axis] && k < p->extent[axis] && boxes_overlap(p, q, axis - 1, distance - k * stride))
            return true;
    return false;
}

/* Whether the strides are those of a dense tensor that can contain the box. */
static bool dense(const struct mt_piece *p) {
    for (int a = 0; a < p->naxes; a++) {
        if (p->stride[a] <= 0) return false;
        if (a && (p->stride[a - 1] % p->stride[a] || p->stride[a - 1] < p->stride[a] * p->extent[a])) return false;
    }
    return true;
}

static const char *end_of(const struct mt_piece *p) {
    int64_t last = 0;
    for (int a = 0; a < p->naxes; a++) {
        if (!p->extent[a]) return p->data;
        last += (p->extent[a] - 1) * p->stride[a];
    }
    return (const char *)p->data + (last + 1) * mt_type_size(p->type);
}

static bool may_overlap(const struct mt_piece *p, const struct mt_piece *q) {
    const char *p_data = p->data, *q_data = q->data;
    if (end_of(p) <= q_data || end_of(q) <= p_data) return false;
    bool comparable = p->type == q->type && p->naxes == q->naxes && dense(p) && dense(q);
    for (int a = 0; comparable && a < p->naxes; a++) comparable = p->stride[a] == q->stride[a];
    int64_t size_bytes = mt_type_size(p->type);
    if (!comparable || (q_data - p_data) % size_bytes) return true;
    return boxes_overlap(p, q, p->naxes - 1, (q_data - p_data) / size_bytes);
}

/* How many of the first pieces can share a launch. */
static int together(enum direction direction, const struct mt_piece *pieces, int count) {
    int n = 1;
    for (; n < count && n < PIECES; n++) {
        if (pieces[n].type != pieces[0].type || work_of(direction, &pieces[n]) != work_of(direction, &pieces[0])) break;
        bool overlaps = false;
        for (int i = 0; i < n && direction == INTO_TENSORS && !overlaps; i++)
            overlaps = may_overlap(&pieces[i], &pieces[n]);
        if (overlaps) break;
    }
    return n;
}

/* ---- launches ---- */

/* Kernels are compiled for floats and halves; integers are only moved, as floats. */
static enum mt_status type_for(enum mt_type type, enum mt_type other, bool reduces, const char **name,
                               struct mt_err *err) {
    bool moved = type == MT_I32 && other == MT_I32 && !reduces;
    if (!moved && type != MT_F32 && !mt_type_is_half(type))
        return mt_fail(err, MT_EBUG, "CUDA: messages of %s and %s%s are not supported", mt_type_name(type),
                       mt_type_name(other), reduces ? ", reduced," : "");
    *name = cuda_type(moved ? MT_F32 : type);
    return MT_OK;
}

/* Blocks a piece for copies that run while NCCL does, whose blocks take a multiprocessor each: on half of the
 * multiprocessors, which is enough to copy faster than links are, but more where threads are idle since rows are
 * shorter than what their threads handle at a time (`segment` elements). */
static int64_t sharing_blocks(int nsm, const struct piece_batch *batch, int count, int64_t segment) {
    int64_t elements = 0, slots = 0;
    for (int i = 0; i < count; i++) {
        const struct piece *p = &batch->pieces[i];
        elements += p->rows * p->row;
        slots += p->rows * ((p->row + segment - 1) / segment) * segment;
    }
    int64_t idle = elements ? (slots + elements - 1) / elements : 1; /* times as many slots */
    int64_t blocks = idle * nsm / 2 / count, most = (int64_t)BLOCKS_A_MULTIPROCESSOR * nsm;
    if (blocks > most) blocks = most;
    return blocks > 0 ? blocks : 1;
}

static enum mt_status launch(const struct cuda_queue *queue, enum direction direction, enum mt_type acc,
                             void *const message[2], const struct mt_piece *pieces, int count, struct mt_err *err) {
    struct piece_batch batch = {0};
    enum mt_type tensor = pieces[0].type, other = pieces[0].at < 0 ? tensor : acc;
    int64_t tensor_size = mt_type_size(tensor), message_size = mt_type_size(other), longest = 0, most = 0;
    int width = 8, lanes = 1;
    for (int i = 0; i < count; i++) {
        batch.pieces[i] = piece_of(&pieces[i], acc, message);
        int here = width_of(&batch.pieces[i], tensor_size, message_size);
        if (batch.pieces[i].rows && here < width) width = here;
        if (batch.pieces[i].row > longest) longest = batch.pieces[i].row;
    }
    while (lanes < 32 && lanes * width < longest) lanes *= 2;
    for (int i = 0; i < count; i++) {
        int64_t segment = (int64_t)lanes * width * UNROLL, segments = (batch.pieces[i].row + segment - 1) / segment;
        if (batch.pieces[i].rows * segments > most) most = batch.pieces[i].rows * segments;
    }
    if (!most) return MT_OK;
    const char *tensor_type = NULL, *message_type = NULL;
    enum work work = work_of(direction, &pieces[0]);
    bool reduces = work == SUM || work == MAXIMUM;
    enum mt_status st = type_for(tensor, other, reduces, &tensor_type, err);
    if (!st) st = type_for(other, tensor, reduces, &message_type, err);
    if (st) return st;
    char definitions[160];
    snprintf(definitions, sizeof definitions, "-DTENSOR=%s -DMESSAGE=%s -DWORK=%d -DWIDTH=%d -DPIECES=%d", tensor_type,
             message_type, (int)work, width, PIECES);
    CUfunction kernel;
    if ((st = cuda_kernel(queue->cuda, "pieces", definitions, "move_pieces", 0, &kernel, err))) return st;
    int64_t groups = THREADS / lanes, blocks = (most + groups - 1) / groups,
            at_most = (int64_t)BLOCKS_A_MULTIPROCESSOR * queue->cuda->nsm;
    if (queue->shares) at_most = sharing_blocks(queue->cuda->nsm, &batch, count, (int64_t)lanes * width * UNROLL);
    if (blocks > at_most) blocks = at_most;
    return cuda_launch3(queue, kernel, (int64_t[3]){blocks, count, 1}, THREADS, 0, (void *[]){&batch, &lanes}, err);
}

static enum mt_status move(const struct cuda_queue *queue, enum direction direction, enum mt_type acc,
                           void *const message[2], const struct mt_piece *pieces, int count, struct mt_err *err) {
    for (int done = 0, n; done < count; done += n) {
        n = together(direction, pieces + done, count - done);
        enum mt_status st = launch(queue, direction, acc, message, pieces + done, n, err);
        if (st) return st;
    }
    return MT_OK;
}

enum mt_status cuda_pack(const struct cuda_queue *queue, enum mt_type acc, void *const message[2],
                         const struct mt_piece *pieces, int count, struct mt_err *err) {
    return move(queue, OUT_OF_TENSORS, acc, message, pieces, count, err);
}

enum mt_status cuda_unpack(const struct cuda_queue *queue, enum mt_type acc, void *const message[2],
                           const struct mt_piece *pieces, int count, struct mt_err *err) {
    return move(queue, INTO_TENSORS, acc, message, pieces, count, err);
}
