/* A piece (device.h) as rows of contiguous elements, with its axes merged where possible: a whole tensor is one row, a
 * block of columns has one row for each row of the tensor.
 *
 *     struct mt_piece_rows rows = mt_piece_rows(&piece);
 *     // rows.naxes nested loops over rows.extent[] with rows.stride[]; each step handles rows.row elements */
#ifndef MT_KERNELS_DEVICE_PIECE_H
#define MT_KERNELS_DEVICE_PIECE_H

#include "kernels/device/device.h"

/* Axis 0 is the innermost. In the message the rows are contiguous. */
struct mt_piece_rows {
    int naxes;
    int64_t extent[MT_MAX_AXES], stride[MT_MAX_AXES]; /* of the rows, in the tensor's elements */
    int64_t row;                                      /* elements of a row; 0: the piece is empty */
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
