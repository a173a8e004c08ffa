/* Overlapped GEMMs that are divided evenly, without tiles. */
#ifndef MT_TESTS_KERNELS_OVERLAP_EVEN_H
#define MT_TESTS_KERNELS_OVERLAP_EVEN_H

#include "kernels/overlap/overlap.h"

/* A problem of n ranks with all matrices of one type.
 *
 * extents            m; what ranks have shares of: columns of a gather, k of the others; the other of the two
 * rows[n], shares[n] out: the problem refers to them */
static inline struct mt_overlap even_overlap(enum mt_overlap_form form, int n, const int64_t extents[3],
                                             enum mt_type type, int64_t *rows, int64_t *shares) {
    bool gather = form == MT_OVERLAP_GATHER;
    int64_t m = extents[0], divided = extents[1], whole = extents[2];
    for (int r = 0; r < n; r++) rows[r] = m / n, shares[r] = divided / n;
    return (struct mt_overlap){.form = form,
                               .n = n,
                               .m = m,
                               .cols = gather ? divided : whole,
                               .k = gather ? whole : divided,
                               .rows = rows,
                               .shares = shares,
                               .type = type,
                               .out = type,
                               .wire = type};
}

#endif
