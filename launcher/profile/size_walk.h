/* How many samples a step a job is measured at (job.c): one size after the other, as long as they fit.
 *
 *     mt_size_walk_begin(&walk, gpu, batch, nranks);
 *     do fitted = measure(walk.size), most = ...;   // most: the largest that is wanted, as far as is known now
 *     while (mt_size_walk_next(&walk, fitted, most));
 */
#ifndef MT_LAUNCHER_PROFILE_SIZE_WALK_H
#define MT_LAUNCHER_PROFILE_SIZE_WALK_H

#include <stdbool.h>
#include <stdint.h>

struct mt_size_walk {
    int64_t size;
    bool gpu;
    int64_t last, limit; /* the largest that fitted, or 0; the largest that may fit */
};

/* From 1 on and each twice the last, up to `most`. A GPU's small sizes tell little of its large ones, and each costs
 * its tuning: there the first is 8 (or half an even share, if that is less), and the second `most`. */
void mt_size_walk_begin(struct mt_size_walk *walk, bool gpu, int64_t batch, int nranks);

/* Go on to the next size; false: there is none. In the place of one that does not fit comes half of it, if it is above
 * the last that did; of a GPU's first one 1. */
bool mt_size_walk_next(struct mt_size_walk *walk, bool fitted, int64_t most);

#endif
