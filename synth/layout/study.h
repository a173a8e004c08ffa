/* Inside the conversions: a collective that is tried, and whether the terms that it gives each new part are those that
 * the new layout promises: equal on all ranks of a part, and those of a cover's parts together one whole old cover,
 * each once. */
#ifndef MT_SYNTH_LAYOUT_STUDY_H
#define MT_SYNTH_LAYOUT_STUDY_H

#include "synth/layout/layout.h"

struct mt_study {
    const struct mt_layout *from, *to;
    int nranks;
    int *group;   /* [nranks]: the first rank of its group */
    int *key;     /* [nranks]: candidates for one group have equal keys; -1: takes no part */
    int *replica; /* [nranks]: ranks of one key with equal numbers are replicas; -1: has none */
    int *members; /* [nranks]: the ranks by group, in order; those of the group of first rank r begin at begin[r] */
    int *begin;   /* [nranks + 1] */
};

bool mt_study_slice(const struct mt_study *study);     /* each rank keeps its part */
bool mt_study_reduction(const struct mt_study *study); /* each rank gets the different parts of its group */
bool mt_study_gather(const struct mt_study *study);    /* each rank gets boxes of its group, which tile the new one */

#endif
