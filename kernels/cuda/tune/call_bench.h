/* An operator's call on operands of its own, random numbers, to be timed and compared (bench.h).
 *
 *     struct cuda_call_bench b;
 *     if (!(st = cuda_call_bench_init(&b, queue, call, err)) && !(st = cuda_call_bench_keep(&b, err))) {
 *         ... choose another variant ...
 *         st = cuda_call_bench_error(&b, &error, err);   // against what was kept
 *         st = cuda_call_bench_record(&b, &graph, err);  // then cuda_call_bench_time(&b, graph, &time_s, err)
 *     }
 *     cuda_bench_release(&b.bench);                      // also after a failure
 *
 * As many copies of the operands as exceed the level-2 cache run one after the other, as one graph, so that neither a
 * warm cache nor the host's time is measured. Operands that are too large for the memory that is left are cut along the
 * leading axis; times are of the whole call all the same. */
#ifndef MT_KERNELS_CUDA_TUNE_CALL_BENCH_H
#define MT_KERNELS_CUDA_TUNE_CALL_BENCH_H

#include "kernels/cuda/tune/bench.h"

enum { CUDA_CALL_BENCH_SETS = 16 };

struct cuda_call_bench {
    struct cuda_bench bench; /* with a clock of its own */
    int nsets, cut;          /* cut: the whole call is about so many of what is here */
    struct mt_call calls[CUDA_CALL_BENCH_SETS];
    struct mt_tensor tensors[CUDA_CALL_BENCH_SETS][MT_MAX_IN + MT_MAX_OUT];
    CUdeviceptr kept[MT_MAX_OUT], sums;
    int64_t ids_below;
    /* What runs the call: the operator, unless it is set to something else after cuda_call_bench_init. */
    enum mt_status (*run)(const struct cuda_queue *queue, const struct mt_call *call, struct mt_err *err);
};

enum mt_status cuda_call_bench_init(struct cuda_call_bench *bench, const struct cuda_queue *queue,
                                    const struct mt_call *call, struct mt_err *err);

/* Run the call once and keep its outputs; compare them with those of another run: the worst output's difference,
 * relative in norm (NaN equals NaN). Outputs are poisoned before, unless the call reads them. */
enum mt_status cuda_call_bench_keep(struct cuda_call_bench *bench, struct mt_err *err);
enum mt_status cuda_call_bench_error(struct cuda_call_bench *bench, double *error, struct mt_err *err);

/* The call as it would be enqueued now, for timing; its kernels must have been compiled (by a run). */
enum mt_status cuda_call_bench_record(struct cuda_call_bench *bench, CUgraphExec *graph, struct mt_err *err);
enum mt_status cuda_call_bench_time(struct cuda_call_bench *bench, CUgraphExec graph, double *time_s,
                                    struct mt_err *err);

#endif
