/* What every measurement on a GPU has: a stream of its own concurrent with the queue's, with the multiprocessors that
 * the queue has, two events, memory, and random numbers in it. (Zeros draw less power than random operands, and run at
 * higher clocks.)
 *
 *     struct cuda_bench b;
 *     if (!(st = cuda_bench_init(&b, queue, err)) && !(st = allocate(&b.memory, ...)))
 *         st = cuda_bench_time(&b, run, context, 10, &time_s, err);
 *     cuda_bench_release(&b);     // also after a failure */
#ifndef MT_KERNELS_CUDA_TUNE_BENCH_H
#define MT_KERNELS_CUDA_TUNE_BENCH_H

#include "kernels/cuda/driver/driver.h"

struct cuda_bench {
    struct cuda_queue queue; /* with the clock and the room of the queue it was made for */
    CUevent begin, end;
    CUdeviceptr memory; /* the user's to allocate; released with the bench */
};

/* Waits for the queue first. */
enum mt_status cuda_bench_init(struct cuda_bench *bench, const struct cuda_queue *queue, struct mt_err *err);
void cuda_bench_release(struct cuda_bench *bench);

/* The mean time of `runs` calls of `run`, which enqueues work on the bench's stream, one after the other. */
enum mt_status cuda_bench_time(struct cuda_bench *bench, enum mt_status (*run)(void *context, struct mt_err *err),
                               void *context, int runs, double *time_s, struct mt_err *err);

/* Random numbers from low to low + span, or from 0 to below - 1, into device memory. */
enum mt_status cuda_bench_numbers(const struct cuda_queue *queue, enum mt_type type, void *to, int64_t count,
                                  uint32_t seed, float low, float span, struct mt_err *err);
enum mt_status cuda_bench_ids(const struct cuda_queue *queue, void *to, int64_t count, uint32_t seed, uint32_t below,
                              struct mt_err *err);

/* The difference of x[count] from y[count], relative in norm; 0 for integers. Two NaN are equal. sums: room for
 * CUDA_BENCH_SUMS_BYTES on the device. */
enum { CUDA_BENCH_SUMS_BYTES = 2 * 1024 * 8 };
enum mt_status cuda_bench_compare(const struct cuda_queue *queue, enum mt_type type, const void *x, CUdeviceptr y,
                                  int64_t count, CUdeviceptr sums, double *error, struct mt_err *err);

#endif
