/* A call on operands of its own, made up, to be timed and compared.
 *
 *     struct cuda_bench b;
 *     if (!(st = cuda_bench_init(&b, queue, call, err)) && !(st = cuda_bench_keep(&b, err))) {
 *         ... choose another variant ...
 *         st = cuda_bench_error(&b, &error, err);       // against what was kept
 *         st = cuda_bench_record(&b, &graph, err);      // then cuda_bench_time(&b, graph, &time_s, err) as often as
 * wanted
 *     }
 *     cuda_bench_release(&b);                           // also after a failure
 *
 * It runs on a stream beside the queue's, with the multiprocessors that the queue has, and waits for the queue first.
 * As many copies of the operands as exceed the level-2 cache run one after the other, as one graph, so that neither a
 * warm cache nor the host's time is measured. Operands that are too large for the memory that is left are cut along the
 * leading axis; times are of the whole call all the same. */
#ifndef MT_KERNELS_CUDA_TUNE_BENCHMARK_H
#define MT_KERNELS_CUDA_TUNE_BENCHMARK_H

#include "kernels/cuda/driver/cuda.h"

enum { CUDA_BENCH_SETS = 16 };

struct cuda_bench {
    struct cuda_queue queue;
    CUevent begin, end;
    CUdeviceptr memory;
    int nsets, cut; /* cut: the whole call is about so many of what is here */
    struct mt_call calls[CUDA_BENCH_SETS];
    struct mt_tensor tensors[CUDA_BENCH_SETS][MT_MAX_IN + MT_MAX_OUT];
    CUdeviceptr kept[MT_MAX_OUT], sums;
    int64_t ids_below;
    /* What runs the call: the operator, unless it is set to something else after cuda_bench_init. */
    enum mt_status (*run)(const struct cuda_queue *queue, const struct mt_call *call, struct mt_err *err);
};

enum mt_status cuda_bench_init(struct cuda_bench *bench, const struct cuda_queue *queue, const struct mt_call *call,
                               struct mt_err *err);
void cuda_bench_release(struct cuda_bench *bench);

/* Run the call once and keep its outputs; compare them with those of another run: the worst output's difference,
 * relative in norm (NaN equals NaN). Outputs are poisoned before, unless the call reads them. */
enum mt_status cuda_bench_keep(struct cuda_bench *bench, struct mt_err *err);
enum mt_status cuda_bench_error(struct cuda_bench *bench, double *error, struct mt_err *err);

/* The call as it is queued now, for timing; kernels must have been made (by a run). */
enum mt_status cuda_bench_record(struct cuda_bench *bench, CUgraphExec *graph, struct mt_err *err);
enum mt_status cuda_bench_time(struct cuda_bench *bench, CUgraphExec graph, double *time_s, struct mt_err *err);

/* For measurements of other kinds: a stream beside another, with the same multiprocessors; the end of what one measures
 * with, each of which may be null; numbers from low to low + span, on the device. */
enum mt_status cuda_stream_beside(CUstream stream, CUstream *beside, struct mt_err *err);
void cuda_measuring_release(CUstream stream, CUevent begin, CUevent end, CUdeviceptr memory);
enum mt_status cuda_numbers(const struct cuda_queue *queue, enum mt_type type, void *to, int64_t count, uint32_t seed,
                            float low, float span, struct mt_err *err);

#endif
