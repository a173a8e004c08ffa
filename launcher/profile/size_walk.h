/* The sizes, in samples per step, at which a job is measured (job.c), as long as they fit into memory.
 *
 *     mt_size_walk_begin(&walk, gpu, batch, nranks);
 *     do fitted = measure(walk.size), most = ...;   // most: the largest size wanted, as known so far
 *     while (mt_size_walk_next(&walk, fitted, most));
 */
#ifndef MT_LAUNCHER_PROFILE_SIZE_WALK_H
#define MT_LAUNCHER_PROFILE_SIZE_WALK_H

#include <stdbool.h>
#include <stdint.h>

struct mt_size_walk {
    int64_t size;
    bool gpu;
    int64_t last, limit; /* the largest size that fitted, or 0; an upper bound of those that fit */
};

/* CPUs: sizes double from 1 up to `most`. GPUs: the first size is 8 (or half an even share, if that is less), the
 * second `most`, since small sizes say little about large ones and each size must be tuned. */
void mt_size_walk_begin(struct mt_size_walk *walk, bool gpu, int64_t batch, int nranks);

/* Go on to the next size; false: there is none. After a size that does not fit comes half of it, if that is larger than
 * the last that fitted; after a GPU's first size, 1. */
bool mt_size_walk_next(struct mt_size_walk *walk, bool fitted, int64_t most);

#endif
