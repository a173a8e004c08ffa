/* A collective of tensors that are not contiguous, through a communicator that takes arrays.
 *
 * A message is packed because its tensors are not contiguous. A communicator that takes arrays needs no message, which
 * saves the copies: they would wait for the multiprocessors that GEMMs occupy. Arrays follow from the pieces that all
 * ranks know (coll.h), so that all ranks have the same arrays:
 *
 *   AllReduce       each piece is an array
 *   equal blocks    the j-th pieces of all blocks are one array, for NCCL's own ReduceScatter or AllGather
 *   other blocks    each piece is an array whose root is the rank of its block, if the communicator prefers that
 *                   (prefers_roots)
 *
 * Where an array is not contiguous in this rank's memory, or of another type, its part of the message takes its place:
 * then it alone is packed or unpacked. Other ranks need not know. */
#include <assert.h>
#include <stdlib.h>

#include "kernels/base/arena.h"
#include "kernels/cuda/nccl/call.h"
#include "kernels/cuda/nccl/pipeline.h"
#include "kernels/device/piece.h"

struct draft {
    const struct mt_coll_call *call;
    /* What all ranks know: of an AllReduce or ReduceScatter as it is packed, of an AllGather as it is unpacked. */
    const struct mt_piece *all;
    /* The other side: of an AllReduce as many, else those of this rank's block. */
    const struct mt_piece *own;
    int nall, nown;
    struct mt_piece *blocks; /* `all`, where the tensor itself is the message and there are no pieces; else null */
    int *first;              /* [n + 1]: the piece of `all` with which block r begins; not of an AllReduce */
    bool whole;              /* an AllReduce */
    bool rooted;             /* blocks are not equal */
    int n;                   /* arrays */
    int64_t *count;
    int *root;
    const void **from;
    void **to;
    struct mt_piece *pack, *unpack; /* pieces that go through the message */
    int npack, nunpack;
};

/* The blocks of a tensor that itself is the message, a piece each, as other ranks pack theirs. */
static void take_blocks(struct draft *d) {
    const struct mt_coll *problem = &d->call->problem;
    int64_t at = 0;
    d->all = d->blocks = mt_calloc((size_t)problem->n, sizeof *d->blocks);
    for (int r = 0; r < problem->n; at += problem->counts[r++])
        if (problem->counts[r])
            d->blocks[d->nall++] =
                (struct mt_piece){.at = at,
                                  .naxes = 1,
                                  .extent = {problem->counts[r]},
                                  .stride = {1},
                                  .data = (char *)d->call->message[0] + at * mt_type_size(problem->acc),
                                  .type = problem->acc};
}

static void find_blocks(struct draft *d) {
    const struct mt_coll *problem = &d->call->problem;
    int64_t end = 0;
    d->first = mt_calloc((size_t)problem->n + 1, sizeof *d->first);
    for (int r = 0, i = 0; r < problem->n; r++) {
        end += problem->counts[r];
        while (i < d->nall && d->all[i].at < end) i++;
        d->first[r + 1] = i;
    }
}

static bool blocks_alike(const struct draft *d) {
    int n = d->call->problem.n, each = d->first[1];
    for (int r = 0; r < n; r++)
        if (d->first[r + 1] - d->first[r] != each) return false;
    for (int i = each; i < d->nall; i++)
        if (mt_piece_elements(&d->all[i]) != mt_piece_elements(&d->all[i % each])) return false;
    return each > 0;
}

/* Whether the call is made with arrays: the same on all ranks, whose lists synth/check/lowered/arrays.c compares. */
static bool begin(struct draft *d, const struct mt_coll_call *call) {
    const struct mt_coll *problem = &call->problem;
    const struct mt_comm_class *class = call->comm ? call->comm->class : NULL;
    bool gathers = problem->kind == MT_ALL_GATHER;
    *d = (struct draft){.call = call, .whole = problem->kind == MT_ALL_REDUCE};
    if (!mt_coll_takes_arrays(problem) || !call->schedule || !class->queue_arrays) return false;
    assert(!call->zero);
    d->all = gathers ? call->unpack : call->pack, d->nall = gathers ? call->nunpack : call->npack;
    d->own = gathers ? call->pack : call->unpack, d->nown = gathers ? call->npack : call->nunpack;
    if (d->whole) return d->nall > 0 && d->nown == d->nall;
    if (!d->nall && !gathers) take_blocks(d);
    if (!d->nall) return false;
    find_blocks(d);
    d->rooted = !blocks_alike(d);
    return !d->rooted || class->prefers_roots(call->comm, problem, call->group);
}

static void end(struct draft *d) {
    free(d->blocks), free(d->first), free(d->count), free(d->root);
    free(d->from), free(d->to), free(d->pack), free(d->unpack);
}

/* The address of an array of `n` pieces, each `stride` after the last: of the first one, if they are contiguous, else
 * of element `at` of the message, with copies added to `copies`. */
static void *place(const struct draft *d, const struct mt_piece *pieces, int n, int stride, int64_t at,
                   struct mt_piece *copies, int *ncopies) {
    enum mt_type acc = d->call->problem.acc;
    int64_t size_bytes = mt_type_size(acc);
    char *next = pieces[0].data, *message = (char *)d->call->message[0] + at * size_bytes;
    bool follow = true;
    for (int i = 0; i < n && follow; i++) {
        const struct mt_piece *p = &pieces[i * stride];
        follow = p->type == acc && mt_piece_rows(p).naxes == 0 && p->data == next;
        next += mt_piece_elements(p) * size_bytes;
    }
    if (follow) return pieces[0].data;
    for (int i = 0; i < n; i++) {
        struct mt_piece *copy = &copies[(*ncopies)++];
        *copy = pieces[i * stride];
        copy->at = at;
        at += mt_piece_elements(copy);
    }
    return message;
}

static void add_all_reduces(struct draft *d) {
    for (; d->n < d->nall; d->n++) {
        const struct mt_piece *in = &d->all[d->n], *out = &d->own[d->n];
        d->count[d->n] = mt_piece_elements(in);
        d->from[d->n] = place(d, in, 1, 1, in->at, d->pack, &d->npack);
        d->to[d->n] = place(d, out, 1, 1, in->at, d->unpack, &d->nunpack);
    }
}

/* In the message, where it is needed, arrays follow each other instead of blocks. */
static void add_equal_blocks(struct draft *d) {
    const struct mt_coll *problem = &d->call->problem;
    int n = problem->n, each = d->first[1];
    int64_t at = 0;
    for (; d->n < each; d->n++) {
        const struct mt_piece *blocks = &d->all[d->n], *mine = &d->own[d->n];
        int64_t count = mt_piece_elements(blocks), my_at = at + problem->me * count;
        d->count[d->n] = count;
        if (problem->kind == MT_ALL_GATHER) {
            d->from[d->n] = place(d, mine, 1, 1, my_at, d->pack, &d->npack);
            d->to[d->n] = place(d, blocks, n, each, at, d->unpack, &d->nunpack);
        } else {
            d->from[d->n] = place(d, blocks, n, each, at, d->pack, &d->npack);
            d->to[d->n] = place(d, mine, 1, 1, my_at, d->unpack, &d->nunpack);
        }
        at += n * count;
    }
}

static void add_single_blocks(struct draft *d) {
    const struct mt_coll *problem = &d->call->problem;
    for (int r = 0; r < problem->n; r++)
        for (; d->n < d->first[r + 1]; d->n++) {
            const struct mt_piece *block = &d->all[d->n], *mine = NULL;
            if (r == problem->me) mine = &d->own[d->n - d->first[r]];
            d->count[d->n] = mt_piece_elements(block);
            d->root[d->n] = r;
            if (problem->kind == MT_ALL_GATHER) {
                d->from[d->n] = mine ? place(d, mine, 1, 1, block->at, d->pack, &d->npack) : NULL;
                d->to[d->n] = place(d, block, 1, 1, block->at, d->unpack, &d->nunpack);
            } else {
                d->from[d->n] = place(d, block, 1, 1, block->at, d->pack, &d->npack);
                d->to[d->n] = mine ? place(d, mine, 1, 1, block->at, d->unpack, &d->nunpack) : NULL;
            }
        }
}

enum mt_status cuda_coll_arrays(const struct cuda_queue *queue, struct cuda_pipeline *pipeline,
                                const struct mt_coll_call *call, bool *goes, struct mt_err *err) {
    const struct mt_coll *problem = &call->problem;
    struct draft d;
    *goes = begin(&d, call);
    if (!*goes) {
        end(&d);
        return MT_OK;
    }
    size_t most = (size_t)d.nall;
    d.count = mt_calloc(most, sizeof *d.count);
    d.root = mt_calloc(most, sizeof *d.root);
    d.from = mt_calloc(most, sizeof *d.from);
    d.to = mt_calloc(most, sizeof *d.to);
    d.pack = mt_calloc(most, sizeof *d.pack);
    d.unpack = mt_calloc(most, sizeof *d.unpack);
    if (d.whole)
        add_all_reduces(&d);
    else if (d.rooted)
        add_single_blocks(&d);
    else
        add_equal_blocks(&d);
    const struct mt_comm_arrays arrays = {d.n, d.count, d.rooted ? d.root : NULL, d.from, d.to};
    enum mt_status st = cuda_pipeline_pack(pipeline, queue, call, d.pack, d.npack, err);
    if (!st) st = call->comm->class->queue_arrays(call->comm, queue, problem, call->group, &arrays, err);
    if (!st) st = cuda_pipeline_unpack(pipeline, queue, call, d.unpack, d.nunpack, err);
    end(&d);
    return st;
}
