#include "kernels/cuda/tune/bench.h"

#include <math.h>
#include <stdio.h>

#include "kernels/cuda/jit/shape.h"

enum { THREADS = 256, MOST_BLOCKS = CUDA_BENCH_SUMS_BYTES / (2 * (int)sizeof(double)) };

static enum mt_status make_stream(CUstream other, CUstream *stream, struct mt_err *err) {
    CUgreenCtx green = NULL;
    CUDA_TRY(cuStreamGetGreenCtx(other, &green), err, "cuStreamGetGreenCtx");
    if (green)
        CUDA_TRY(cuGreenCtxStreamCreate(stream, green, CU_STREAM_NON_BLOCKING, 0), err, "a stream to measure on");
    else
        CUDA_TRY(cuStreamCreate(stream, CU_STREAM_NON_BLOCKING), err, "a stream to measure on");
    return MT_OK;
}

enum mt_status cuda_bench_init(struct cuda_bench *b, const struct cuda_queue *queue, struct mt_err *err) {
    *b = (struct cuda_bench){.queue = *queue};
    b->queue.stream = NULL;
    CUDA_TRY(cuStreamSynchronize(queue->stream), err, "before measuring");
    CUDA_TRY(cuEventCreate(&b->begin, CU_EVENT_DEFAULT), err, "cuEventCreate");
    CUDA_TRY(cuEventCreate(&b->end, CU_EVENT_DEFAULT), err, "cuEventCreate");
    return make_stream(queue->stream, &b->queue.stream, err);
}

void cuda_bench_release(struct cuda_bench *b) {
    if (b->queue.stream) cuStreamSynchronize(b->queue.stream);
    if (b->begin) cuEventDestroy(b->begin);
    if (b->end) cuEventDestroy(b->end);
    if (b->queue.stream) cuStreamDestroy(b->queue.stream);
    if (b->memory) cuMemFree(b->memory);
}

enum mt_status cuda_bench_time(struct cuda_bench *b, enum mt_status (*run)(void *context, struct mt_err *err),
                               void *context, int runs, double *time_s, struct mt_err *err) {
    float ms = 0;
    enum mt_status st = MT_OK;
    CUDA_TRY(cuEventRecord(b->begin, b->queue.stream), err, "cuEventRecord");
    for (int i = 0; !st && i < runs; i++) st = run(context, err);
    CUDA_TRY(cuEventRecord(b->end, b->queue.stream), err, "cuEventRecord");
    CUDA_TRY(cuEventSynchronize(b->end), err, "timing");
    CUDA_TRY(cuEventElapsedTime(&ms, b->begin, b->end), err, "cuEventElapsedTime");
    *time_s = 1e-3 * (double)ms / runs;
    return st;
}

/* ---- bench.cu ---- */

static enum mt_status launch(const struct cuda_queue *queue, enum mt_type type, const char *name, int64_t count,
                             void **arguments, struct mt_err *err) {
    char definitions[32];
    CUfunction kernel;
    snprintf(definitions, sizeof definitions, "-DTYPE=%s", cuda_type(type));
    enum mt_status st = cuda_kernel(queue->cuda, "bench", definitions, name, 0, &kernel, err);
    return st ? st
              : cuda_launch(queue, kernel, least(divide_up(count, THREADS), MOST_BLOCKS), THREADS, 0, arguments, err);
}

enum mt_status cuda_bench_numbers(const struct cuda_queue *queue, enum mt_type type, void *to, int64_t count,
                                  uint32_t seed, float low, float span, struct mt_err *err) {
    return launch(queue, type, "numbers", count, (void *[]){&to, &count, &seed, &low, &span}, err);
}

enum mt_status cuda_bench_ids(const struct cuda_queue *queue, void *to, int64_t count, uint32_t seed, uint32_t below,
                              struct mt_err *err) {
    return launch(queue, MT_F32, "ids", count, (void *[]){&to, &count, &seed, &below}, err);
}

enum mt_status cuda_bench_compare(const struct cuda_queue *queue, enum mt_type type, const void *x, CUdeviceptr y,
                                  int64_t count, CUdeviceptr sums, double *error, struct mt_err *err) {
    double got[2 * MOST_BLOCKS], difference = 0, whole = 0;
    int64_t blocks = least(divide_up(count, THREADS), MOST_BLOCKS);
    *error = 0;
    if (!count || type == MT_I32) return MT_OK;
    enum mt_status st = launch(queue, type, "compare", count, (void *[]){&x, &y, &count, &sums}, err);
    if (st) return st;
    CUDA_TRY(cuStreamSynchronize(queue->stream), err, "comparing outputs");
    CUDA_TRY(cuMemcpyDtoH(got, sums, (size_t)blocks * 2 * sizeof *got), err, "comparing outputs");
    for (int64_t i = 0; i < blocks; i++) difference += got[2 * i], whole += got[2 * i + 1];
    *error = difference == 0 ? 0 : sqrt(difference / whole); /* infinite where nothing was expected */
    return MT_OK;
}
