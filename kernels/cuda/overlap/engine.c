/* Puts by copy engines, on the stream `moves`: a copy of a box, then its flags, copied from words that have the epoch.
 * So a captured run replays.
 *
 * An operation of a stream begins after all effects of the one before, those at a peer too: a copy may read there what
 * the last one wrote. So a flag is written after its data; MSCCL++ relies on the same. A write by stream memory
 * operation between the two, which is ordered after them for the whole system by its definition, costs 6 us a put; and
 * flags on a stream of their own come after all copies of the other, since copies to peers have one queue (two H100).
 */
#include "kernels/cuda/overlap/compute.h"
#include "kernels/cuda/window/on_stream.h"

static enum mt_status put_box(const struct cuda_overlap_run *run, const struct mt_overlap_put *box,
                              struct mt_err *err) {
    const struct mt_overlap *p = run->problem;
    int64_t size = mt_type_size(mt_overlap_type(p, box->to)), to[2], stride = run->extent[box->from][1];
    mt_overlap_extent(p, box->peer, box->to, to);
    CUdeviceptr source = (CUdeviceptr)cuda_overlap_place(run, box->from, box->from_row, box->col);
    CUdeviceptr target = run->o->parts[box->peer] + (CUdeviceptr)(mt_overlap_place(p, box->to, run->o->copy) +
                                                                  (box->to_row * to[1] + box->col) * size);
    return cuda_put_rows(run->o->moves, target, to[1] * size, source, stride * size, box->cols * size, box->rows, err);
}

enum mt_status cuda_overlap_put_data(const struct cuda_overlap_run *run, const struct mt_overlap_put *box,
                                     struct mt_err *err) {
    return box->rows ? put_box(run, box, err) : MT_OK;
}

/* In rows of equal steps. */
enum mt_status cuda_overlap_raise(const struct cuda_overlap_run *run, const struct mt_overlap_put *box,
                                  const int *flags, int count, struct mt_err *err) {
    enum mt_status st = MT_OK;
    for (int i = 0, end; i < count && !st; i = end) {
        int step = i + 1 < count ? flags[i + 1] - flags[i] : 1;
        for (end = i + 1; end < count && step > 0 && flags[end] - flags[end - 1] == step;) end++;
        CUdeviceptr flag = run->o->parts[box->peer] + (CUdeviceptr)mt_overlap_flag_place(run->problem, flags[i]);
        st = cuda_put_rows(run->o->moves, flag, mt_overlap_flag_place(run->problem, step),
                           (CUdeviceptr)run->scratch.words, 8, 8, end - i, err);
    }
    return st;
}
