/* ReduceScatter, AllGather and AllReduce of ranks whose memory is in each other's reach, by copy engines: no
 * multiprocessor moves data, so that GEMMs lose none. Each rank has staging memory that the others write to, with a
 * few *slots* for each of them. A rank's part is a list of steps, in the order of one queue:
 *
 *   room    wait until each of `peers` has emptied the slot that piece `piece` goes to
 *   put     copy piece `piece` to the peer's slot, then raise the peer's flag of arrivals
 *   data    wait for piece `piece` of each of `peers`
 *   merge   add up the piece of all ranks, in the order of ranks (ReduceScatter), or copy a peer's (AllGather)
 *   empty   tell each of `peers` that piece `piece` has been used
 *   end     tell all that all has been: only then do they begin the next message
 *
 *     struct mt_engine_job job = {MT_REDUCE_SCATTER, n, me, 4, nparts, parts, slot_bytes};
 *     mt_engine_list(&job, &list);
 *     mt_engine_release(&list);
 *
 * A message is a list of *parts*, equal on all ranks but for addresses: contiguous elements of the block of one rank,
 * the owner. Parts of an owner follow each other in the pieces that are sent for it, each at a multiple of 16 bytes; a
 * piece is what fills a slot. A part of a piece is a *segment*.
 *
 * Cost, for n blocks of b bytes: (n - 1) b / bandwidth, as copies to several peers share a rank's link; then per piece
 * the latencies of two copies and a kernel. */
#ifndef MT_KERNELS_COLL_ENGINE_H
#define MT_KERNELS_COLL_ENGINE_H

#include "kernels/coll/coll.h"

enum { MT_ENGINE_SLOTS = 2, MT_ENGINE_RANKS = 8, MT_ENGINE_ALIGN = 16 };

struct mt_engine_part {
    int64_t count; /* elements */
    int owner;     /* place in the group */
    /* ReduceScatter: from: what this rank adds; to: where the sum goes, on the owner. AllGather: from: the block, on
     * the owner; to: where it goes. The two may be equal. */
    const void *from;
    void *to;
};
struct mt_engine_job {
    enum mt_coll_kind kind; /* MT_REDUCE_SCATTER or MT_ALL_GATHER */
    int n, me;              /* at most MT_ENGINE_RANKS */
    int64_t size_bytes;     /* of an element */
    int nparts;
    const struct mt_engine_part *parts;
    int64_t slot_bytes; /* a multiple of MT_ENGINE_ALIGN */
};

struct mt_engine_segment {
    int part;
    int64_t first, count; /* elements of the part */
    int64_t at;           /* byte of the piece */
};
enum mt_engine_what { MT_ENGINE_ROOM, MT_ENGINE_PUT, MT_ENGINE_DATA, MT_ENGINE_MERGE, MT_ENGINE_EMPTY, MT_ENGINE_END };
struct mt_engine_step {
    enum mt_engine_what what;
    int piece;                    /* in slot piece % MT_ENGINE_SLOTS */
    int peer;                     /* put: to whom; merge: whose piece, or -1: of all that add up */
    uint32_t peers;               /* room, data, empty, end: a bit each */
    int first_segment, nsegments; /* put, merge */
};
struct mt_engine_list {
    struct mt_arena arena;
    struct mt_engine_step *steps;
    struct mt_engine_segment *segments;
    int nsteps, nsegments, npieces; /* the last: at most, of any owner */
    int steps_capacity, segments_capacity;
};

void mt_engine_list(const struct mt_engine_job *job, struct mt_engine_list *list);
void mt_engine_release(struct mt_engine_list *list);

/* The most pieces of any owner. */
int64_t mt_engine_pieces(const struct mt_engine_job *job);

/* Divide parts, of no owner yet, among n owners: about as many elements each, in their order; part i is cut where need
 * be, at a multiple of 16 elements. out[nparts + n]: returns how many. For an AllReduce: a ReduceScatter of these, from
 * `from` to `to`, then an AllGather from `to` to `to`. */
int mt_engine_divide(const struct mt_engine_part *parts, int nparts, int n, int64_t size_bytes,
                     struct mt_engine_part *out);

#endif
