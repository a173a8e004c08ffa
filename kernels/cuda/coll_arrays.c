/* A collective of tensors that lie apart, on a wire that takes arrays.
 *
 * A message is packed because its tensors lie apart; a wire that takes arrays needs none, and copies would wait for the
 * multiprocessors that products hold. What is an array follows from the pieces that all ranks know, so that all come to
 * the same answer:
 *
 *   AllReduce                each piece is one
 *   blocks of equal pieces   the j-th pieces of all blocks are one, so that NCCL's own ReduceScatter or AllGather
 * serves other blocks             each piece is one, of its block's rank
 *
 * Where an array is not one run of this rank's memory, or of another type, its part of the message stands for it: then
 * it alone is packed or unpacked. That is this rank's affair, the others' arrays are met all the same. */
#include <stdlib.h>

#include "kernels/base/arena.h"
#include "kernels/cuda/coll.h"
#include "kernels/piece.h"

struct draft {
    const struct mt_coll_call *call;
    const struct mt_piece *all,
        *own; /* what all ranks know; what is this rank's: of AllReduce as many, else its block's */
    int nall, nown;
    int *first; /* [n + 1]: the piece of `all` with which block r begins */
    int n;      /* arrays */
    int64_t *count;
    int *root;
    const void **from;
    void **to;
    struct mt_piece *pack, *unpack; /* what goes by the message */
    int npack, nunpack;
};

static int64_t elements(const struct mt_piece *piece) {
    int64_t count = 1;
    for (int a = 0; a < piece->naxes; a++) count *= piece->extent[a];
    return count;
}

static bool is_blocks(const struct mt_coll *problem) {
    return problem->kind != MT_ALL_REDUCE;
}

static void read_call(struct draft *d, const struct mt_coll_call *call) {
    bool gathers = call->problem.kind == MT_ALL_GATHER;
    d->call = call;
    d->all = gathers ? call->unpack : call->pack, d->nall = gathers ? call->nunpack : call->npack;
    d->own = gathers ? call->pack : call->unpack, d->nown = gathers ? call->npack : call->nunpack;
}

static void find_blocks(struct draft *d) {
    const struct mt_coll *problem = &d->call->problem;
    int64_t end = 0;
    d->first = mt_calloc((size_t)problem->n + 1, sizeof *d->first);
    for (int r = 0, i = 0; r < problem->n && is_blocks(problem); r++) {
        end += problem->counts[r];
        while (i < d->nall && d->all[i].at < end) i++;
        d->first[r + 1] = i;
    }
}

static bool blocks_alike(const struct draft *d) {
    int n = d->call->problem.n, each = d->first[1];
    if (!each) return false;
    for (int i = each; i < d->nall; i++)
        if (elements(&d->all[i]) != elements(&d->all[i % each])) return false;
    for (int r = 0; r < n; r++)
        if (d->first[r + 1] - d->first[r] != each) return false;
    return true;
}

/* Where `n` pieces, each `stride` after the last, lie: in memory, if they follow each other there, else in the message
 * from its element `at` on, by copies that are added to `copies`. */
static void *place(const struct draft *d, const struct mt_piece *pieces, int n, int stride, int64_t at,
                   struct mt_piece *copies, int *ncopies) {
    enum mt_type acc = d->call->problem.acc;
    int64_t size_bytes = mt_type_size(acc);
    char *end = pieces[0].data, *message = (char *)d->call->message[0] + at * size_bytes;
    bool follow = true;
    for (int i = 0; i < n && follow; i++) {
        const struct mt_piece *p = &pieces[i * stride];
        follow = p->type == acc && mt_piece_rows(p).naxes == 0 && p->data == end;
        end += elements(p) * size_bytes;
    }
    if (follow) return pieces[0].data;
    for (int i = 0; i < n; i++) {
        struct mt_piece *copy = &copies[(*ncopies)++];
        *copy = pieces[i * stride];
        copy->at = at;
        at += elements(copy);
    }
    return message;
}

static void add_all_reduces(struct draft *d) {
    for (; d->n < d->nall; d->n++) {
        const struct mt_piece *in = &d->all[d->n], *out = &d->own[d->n];
        d->count[d->n] = elements(in);
        d->from[d->n] = place(d, in, 1, 1, in->at, d->pack, &d->npack);
        d->to[d->n] = place(d, out, 1, 1, in->at, d->unpack, &d->nunpack);
    }
}

/* In the message, where they need it, arrays follow each other instead of blocks. */
static void add_equal_blocks(struct draft *d) {
    const struct mt_coll *problem = &d->call->problem;
    int n = problem->n, each = d->first[1];
    int64_t at = 0;
    for (; d->n < each; d->n++) {
        const struct mt_piece *blocks = &d->all[d->n], *mine = &d->own[d->n];
        int64_t count = elements(blocks), my_at = at + problem->me * count;
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
            d->count[d->n] = elements(block);
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

/* A tensor that is the message itself has no pieces: nothing is gained then. */
bool cuda_coll_goes_as_arrays(const struct mt_coll_call *call) {
    const struct mt_coll *problem = &call->problem;
    const struct mt_comm_class *class = call->comm ? call->comm->class : NULL;
    if (!mt_coll_goes_as_arrays(problem) || !call->schedule || !class->queue_arrays) return false;
    struct draft d = {0};
    read_call(&d, call);
    if (!d.nall || (!is_blocks(problem) && !d.nown)) return false;
    if (!is_blocks(problem)) return true;
    find_blocks(&d);
    int mine = d.first[problem->me + 1] - d.first[problem->me];
    bool goes = d.nown == mine && (blocks_alike(&d) || class->parts_blocks(call->comm, problem));
    free(d.first);
    return goes;
}

enum mt_status cuda_coll_arrays(const struct cuda_queue *queue, const struct mt_coll_call *call, struct mt_err *err) {
    const struct mt_coll *problem = &call->problem;
    struct draft d = {0};
    read_call(&d, call);
    find_blocks(&d);
    size_t most = (size_t)d.nall;
    d.count = mt_calloc(most, sizeof *d.count);
    d.root = mt_calloc(most, sizeof *d.root);
    d.from = mt_calloc(most, sizeof *d.from);
    d.to = mt_calloc(most, sizeof *d.to);
    d.pack = mt_calloc(most, sizeof *d.pack);
    d.unpack = mt_calloc(most, sizeof *d.unpack);
    bool rooted = is_blocks(problem) && !blocks_alike(&d);
    if (!is_blocks(problem))
        add_all_reduces(&d);
    else if (rooted)
        add_single_blocks(&d);
    else
        add_equal_blocks(&d);
    const struct mt_comm_arrays arrays = {d.n, d.count, rooted ? d.root : NULL, d.from, d.to};
    enum mt_status st = cuda_pack(queue, problem->acc, call->message, d.pack, d.npack, err);
    if (!st) st = call->comm->class->queue_arrays(call->comm, (void *)queue, problem, call->group, &arrays, err);
    if (!st) st = cuda_unpack(queue, problem->acc, call->message, d.unpack, d.nunpack, err);
    free(d.first), free(d.count), free(d.root), free(d.from), free(d.to), free(d.pack), free(d.unpack);
    return st;
}
