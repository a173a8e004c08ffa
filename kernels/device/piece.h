/* How a piece (device.h) is walked: in rows of contiguous elements. Its axes are merged as far as they can be, so that
 * a whole tensor is one row and a block of columns is a row each. */
#ifndef MT_KERNELS_DEVICE_PIECE_H
#define MT_KERNELS_DEVICE_PIECE_H

#include "kernels/device/device.h"

/* Axis 0 is the innermost here; in the message row follows row. */
struct mt_piece_rows {
    int naxes;
    int64_t extent[MT_MAX_AXES], stride[MT_MAX_AXES]; /* of the rows, in the tensor's elements */
    int64_t row;                                      /* elements; 0: there are none at all */
};

static inline int64_t mt_piece_elements(const struct mt_piece *piece) {
    int64_t count = 1;
    for (int a = 0; a < piece->naxes; a++) count *= piece->extent[a];
    return count;
}

static inline struct mt_piece_rows mt_piece_rows(const struct mt_piece *piece) {
    struct mt_piece_rows rows = {.row = 1};
    for (int a = piece->naxes - 1; a >= 0; a--) {
        int64_t extent = piece->extent[a], stride = piece->stride[a];
        if (extent == 0) return (struct mt_piece_rows){.row = 0};
        if (extent == 1) continue;
        int last = rows.naxes - 1;
        if (!rows.naxes && stride == rows.row) {
            rows.row *= extent;
        } else if (rows.naxes && stride == rows.stride[last] * rows.extent[last]) {
            rows.extent[last] *= extent;
        } else {
            rows.extent[rows.naxes] = extent;
            rows.stride[rows.naxes++] = stride;
        }
    }
    return rows;
}

#endif
