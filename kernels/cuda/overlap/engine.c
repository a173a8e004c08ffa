/* Puts by copy engines, on the stream `moves`: a copy of a box, then its flags, copied from words that have the epoch.
 * So a captured run replays.
 *
 * An operation of a stream begins after all effects of the one before, those at a peer too: a copy may read there what
 * the last one wrote. So a flag is written after its data; MSCCL++ relies on the same. A write by stream memory
 * operation between the two, which is ordered after them for the whole system by its definition, costs 6 us a put; and
 * flags on a stream of their own come after all copies of the other, since copies to peers have one queue (two H100).
 */
#include "kernels/cuda/overlap/compute.h"

/* Write the epoch to flags that lie `step` bytes apart. */
static enum mt_status raise_row(const struct cuda_overlap_run *run, CUdeviceptr flag, int64_t step, int count,
                                struct mt_err *err) {
    CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = (CUdeviceptr)run->scratch.words,
                          .srcPitch = 8,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = flag,
                          .dstPitch = (size_t)step,
                          .WidthInBytes = 8,
                          .Height = (size_t)count};
    if (count == 1 || step == 8)
        CUDA_TRY(cuMemcpyDtoDAsync(flag, (CUdeviceptr)run->scratch.words, 8 * (size_t)count, run->o->moves), err,
                 "raising a flag");
    else
        CUDA_TRY(cuMemcpy2DAsync(&rows, run->o->moves), err, "raising flags");
    return MT_OK;
}

/* In rows of equal steps. */
static enum mt_status raise(const struct cuda_overlap_run *run, int peer, const int *flags, int count,
                            struct mt_err *err) {
    enum mt_status st = MT_OK;
    for (int i = 0, end; i < count && !st; i = end) {
        int step = i + 1 < count ? flags[i + 1] - flags[i] : 1;
        for (end = i + 1; end < count && step > 0 && flags[end] - flags[end - 1] == step;) end++;
        st = raise_row(run, run->o->parts[peer] + (CUdeviceptr)mt_overlap_flag_place(run->problem, flags[i]),
                       mt_overlap_flag_place(run->problem, step), end - i, err);
    }
    return st;
}

static enum mt_status put_box(const struct cuda_overlap_run *run, const struct mt_overlap_put *box,
                              struct mt_err *err) {
    const struct mt_overlap *p = run->problem;
    int64_t size = mt_type_size(mt_overlap_type(p, box->to)), to[2], stride = run->extent[box->from][1];
    mt_overlap_extent(p, box->peer, box->to, to);
    CUdeviceptr source = (CUdeviceptr)cuda_overlap_place(run, box->from, box->from_row, box->col);
    CUdeviceptr target = run->o->parts[box->peer] + (CUdeviceptr)(mt_overlap_place(p, box->to, run->o->copy) +
                                                                  (box->to_row * to[1] + box->col) * size);
    CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = source,
                          .srcPitch = (size_t)(stride * size),
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = target,
                          .dstPitch = (size_t)(to[1] * size),
                          .WidthInBytes = (size_t)(box->cols * size),
                          .Height = (size_t)box->rows};
    if (box->rows == 1 || (box->cols == stride && box->cols == to[1]))
        CUDA_TRY(cuMemcpyDtoDAsync(target, source, rows.WidthInBytes * rows.Height, run->o->moves), err,
                 "putting rows");
    else
        CUDA_TRY(cuMemcpy2DAsync(&rows, run->o->moves), err, "putting a box");
    return MT_OK;
}

enum mt_status cuda_overlap_put_data(const struct cuda_overlap_run *run, const struct mt_overlap_put *box,
                                     struct mt_err *err) {
    return box->rows ? put_box(run, box, err) : MT_OK;
}

enum mt_status cuda_overlap_raise(const struct cuda_overlap_run *run, const struct mt_overlap_put *box,
                                  const int *flags, int count, struct mt_err *err) {
    return raise(run, box->peer, flags, count, err);
}
