/* What runs by chunks (chunks.c) and by waves (waves.c) share: the chunks' work on the stream that computes, and the
 * stream beside it, on which copy engines put for fused.c too.
 *
 *     cuda_overlap_run_init(&run, queue, overlap);
 *     cuda_overlap_prepare(&run, &chunks, &err);              // loads and chooses
 *     ... cuda_overlap_compute(&run, &chunks.chunks[c], &err) ... */
#ifndef MT_KERNELS_CUDA_OVERLAP_COMPUTE_H
#define MT_KERNELS_CUDA_OVERLAP_COMPUTE_H

#include "kernels/cuda/overlap/overlap.h"
#include "kernels/overlap/chunk.h"

enum { CUDA_OVERLAP_WAITS = 128 /* chunks.cu is compiled for so many flags of a launch */ };

struct cuda_overlap_run {
    const struct cuda_queue *queue;
    const struct cuda_overlap *o;
    const struct mt_overlap *problem;
    char *buffer[MT_OVERLAP_NBUFFERS];
    int64_t extent[MT_OVERLAP_NBUFFERS][2];
    struct mt_overlap_scratch scratch;
};

/* Whether GPUs compute the problem's types. */
bool cuda_overlap_computes(const struct mt_overlap *problem);
void cuda_overlap_run_init(struct cuda_overlap_run *run, const struct cuda_queue *queue,
                           const struct cuda_overlap *overlap);
/* Load the kernels of the chunks, and choose their GEMMs: both may wait for the GPU. */
enum mt_status cuda_overlap_prepare(const struct cuda_overlap_run *run, const struct mt_overlap_chunks *chunks,
                                    struct mt_err *err);
/* Where an element of this rank's buffer is. */
char *cuda_overlap_place(const struct cuda_overlap_run *run, enum mt_overlap_buffer buffer, int64_t row, int64_t col);
enum mt_status cuda_overlap_compute(const struct cuda_overlap_run *run, const struct mt_overlap_chunk *chunk,
                                    struct mt_err *err);
/* What is queued on `moves` comes after what the computing stream has; and the other way round. */
enum mt_status cuda_overlap_fork(const struct cuda_overlap_run *run, struct mt_err *err);
enum mt_status cuda_overlap_join(const struct cuda_overlap_run *run, struct mt_err *err);
/* Queue a put's data on `moves`, by copy engine; then the peer's flags that it raises. Words of the scratch must have
 * the epoch before these (cuda_overlap_begin), as many as there are flags. Its waits are the caller's. */
enum mt_status cuda_overlap_put_data(const struct cuda_overlap_run *run, const struct mt_overlap_put *box,
                                     struct mt_err *err);
enum mt_status cuda_overlap_raise(const struct cuda_overlap_run *run, const struct mt_overlap_put *box,
                                  const int *flags, int count, struct mt_err *err);

#endif
