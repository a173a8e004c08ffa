/* What the probes share. */
#ifndef MT_PROFILER_PROBES_INTERNAL_H
#define MT_PROFILER_PROBES_INTERNAL_H

#include "profiler/measure/fit.h"
#include "profiler/probes/calls.h"
#include "profiler/probes/probes.h"

/* The pairs to measure, into profile->pairs. Up to 64 pairs: all. Of more: up to eight of each kind (the classes of the
 * two ranks, and whether they share a node), evenly spaced, and the first pair of each node. Needs nranks, nnodes,
 * nclasses and places. */
void mt_pairs_choose(struct mt_profile *profile);
/* round_of[npairs]: within a round no two pairs share a rank, a node's memory or a node's network. Returns the number
 * of rounds. */
int mt_pairs_rounds(const struct mt_profile *profile, int *round_of);

/* A series of collectives on a wire that queues; two problems alternate. */
struct mt_probe_row {
    const int *ranks; /* of the group */
    struct mt_coll problem[2];
    struct mt_schedule schedule[2];
    void *const *buffer;
    const char *what; /* for messages */
};
/* Queue some that wait for all ranks and are not timed, then `count`; *each_s: mean time of these on this rank, from
 * end to end. On a device that captures, in one launch, as in a training step. */
enum mt_status mt_probe_queue(struct mt_profile *profile, const struct mt_probe_row *row, int count, double *each_s,
                              struct mt_err *err);
enum { MT_PROBE_MOST_QUEUED = 64 };

/* Queue `count` round trips between two ranks: bytes[0] from group[0] to group[1], then bytes[1] back. *pair_s: mean
 * time of a round trip. */
enum mt_status mt_probe_queue_pairs(struct mt_profile *profile, const int group[2], const int64_t bytes[2],
                                    void *const buffer[2], int count, double *pair_s, struct mt_err *err);

/* Messages between the n ranks of a group, by a matrix of counts (words of 4 bytes); both buffers of this rank. On a
 * wire that does not queue. */
enum mt_status mt_probe_move(struct mt_profile *profile, const int *group, int n, const int64_t *counts,
                             void *const buffer[2], struct mt_err *err);

/* A message buffer in the memory of profile->device, zeroed by writing: untouched pages would all be the kernel's one
 * page of zeros, which every cache holds. */
enum mt_status mt_probe_buffer(struct mt_profile *profile, int64_t size_bytes, void **buffer, struct mt_err *err);

/* This rank's group in a division of the ranks, for probes that nodes run concurrently: the ranks of its node (between:
 * false), or all ranks. In the profile's arena. */
struct mt_group mt_probe_group(struct mt_profile *profile, bool between);
/* Whether there are two ranks on one node (between: false), or two nodes. */
bool mt_probe_has_link(const struct mt_profile *profile, bool between);

#endif
