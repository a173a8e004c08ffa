/* Overlapped GEMMs in one kernel: what fused.c keeps on a device, and hands to fused.cu and few.cu. */
#ifndef MT_KERNELS_CUDA_OVERLAP_FUSED_H
#define MT_KERNELS_CUDA_OVERLAP_FUSED_H

#include "kernels/cuda/overlap/overlap.h"

/* As in call.cuh. */
enum { CUDA_FUSED_RANKS = 8 };
struct cuda_fused_call {
    CUdeviceptr part[CUDA_FUSED_RANKS], a, out, whole, epoch, work, tiles, boxes, pieces, waits, signals;
    int64_t staged[2], slots[2], sums[2];
    int32_t ntiles, nboxes, nputs, npieces, copies, me, begun, slabs, k, columns, owned;
    uint32_t adds;
    struct cuda_watch watch;
    CUdeviceptr bias;
};

/* Free the tables of a stream, which is idle and will be freed; null: of all on the device, which will be closed. */
void cuda_fused_forget(const struct cuda *cuda, CUstream stream);

/* mt_device_overlaps, in one kernel. */
bool cuda_fused_serves(const struct cuda *cuda, const struct mt_overlap *problem, int me);

#endif
