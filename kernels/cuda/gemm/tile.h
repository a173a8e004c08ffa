/* What the host tells kernels of tiles by wgmma (mainloop.cuh): which tiles there are, their shared memory, and how TMA
 * sees matrices. */
#ifndef MT_KERNELS_CUDA_GEMM_TILE_H
#define MT_KERNELS_CUDA_GEMM_TILE_H

#include "kernels/cuda/driver/driver.h"

enum { GEMM_SLAB = 64, GEMM_ROW_BYTES = 128, GEMM_TILE_THREADS = 384 };

/* A tile, whether both groups of consumers have a part of each, and the time that one takes beside 128 x 256, for its
 * size. */
struct gemm_tile {
    int rows, columns;
    bool together;
    double slower;
};
const struct gemm_tile *gemm_tile_of(int64_t rows, int64_t columns); /* or null */
/* Slabs in shared memory, beside so many bytes for something else; 0: too few fit. */
int gemm_tile_stages(const struct cuda *cuda, const struct gemm_tile *tile, int64_t beside_bytes);
int gemm_tile_shared_bytes(const struct cuda *cuda, const struct gemm_tile *tile, int64_t beside_bytes);

/* Matrices [parts][rows][columns], or with 0 parts one, mapped for boxes of one matrix, swizzled by 128 bytes. Rows
 * begin at multiples of 16 bytes. */
struct gemm_matrix {
    enum mt_type type;
    const void *data;
    int64_t rows, columns, parts;
};
enum mt_status gemm_map(CUtensorMap *to, const struct gemm_matrix *x, int64_t box_columns, int64_t box_rows,
                        struct mt_err *err);
/* Whether storing so many bytes drives operands out of the L2 cache, unless what is stored leaves it first. */
static inline bool gemm_streams(const struct cuda *cuda, int64_t bytes) {
    return bytes > cuda->l2_bytes;
}

#endif
