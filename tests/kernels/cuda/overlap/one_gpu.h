/* Ranks of an overlapped GEMM in one process, on one GPU: each has a window in its memory, which the others reach by
 * plain addresses, a stream, and a part of the multiprocessors, so that the kernels of all are resident at once.
 *
 * The module's functions and the driver's are looked up: neither is linked, and where they are not there is no GPU. */
#ifndef MT_TESTS_KERNELS_CUDA_OVERLAP_ONE_GPU_H
#define MT_TESTS_KERNELS_CUDA_OVERLAP_ONE_GPU_H

#include <dlfcn.h>
#include <stdbool.h>

#include "kernels/base/arena.h"
#include "kernels/base/number/rng.h"
#include "kernels/cuda/device/internal.h"
#include "kernels/cuda/overlap/overlap.h"
#include "tests/check.h"

enum { MOST_GPU_RANKS = 4 };

static struct {
    CUresult (*stream_new)(CUstream *, unsigned), (*stream_sync)(CUstream), (*stream_free)(CUstream);
    CUresult (*fill)(CUdeviceptr, unsigned char, size_t, CUstream), (*context_sync)(void);
    CUresult (*copy)(CUdeviceptr, CUdeviceptr, size_t, CUstream);
    CUresult (*capture)(CUstream, CUstreamCaptureMode), (*end_capture)(CUstream, CUgraph *), (*graph_free)(CUgraph);
    CUresult (*instantiate)(CUgraphExec *, CUgraph, unsigned long long), (*launch)(CUgraphExec, CUstream);
    CUresult (*exec_free)(CUgraphExec);
    CUresult (*event_new)(CUevent *, unsigned), (*record)(CUevent, CUstream), (*elapsed)(float *, CUevent, CUevent);
    CUresult (*stream_wait)(CUstream, CUevent, unsigned);
} gpu;

static struct mt_device *device;
static const struct cuda_overlap_impl *fused;
static struct mt_err err = MT_ERR_INIT;

static bool open_gpu(void) {
    static const struct {
        void *place;
        const char *name;
    } symbols[] = {{&gpu.stream_new, "cuStreamCreate"},
                   {&gpu.stream_sync, "cuStreamSynchronize"},
                   {&gpu.stream_free, "cuStreamDestroy_v2"},
                   {&gpu.fill, "cuMemsetD8Async"},
                   {&gpu.copy, "cuMemcpyDtoDAsync_v2"},
                   {&gpu.context_sync, "cuCtxSynchronize"},
                   {&gpu.capture, "cuStreamBeginCapture_v2"},
                   {&gpu.end_capture, "cuStreamEndCapture"},
                   {&gpu.graph_free, "cuGraphDestroy"},
                   {&gpu.instantiate, "cuGraphInstantiateWithFlags"},
                   {&gpu.launch, "cuGraphLaunch"},
                   {&gpu.exec_free, "cuGraphExecDestroy"},
                   {&gpu.event_new, "cuEventCreate"},
                   {&gpu.record, "cuEventRecord"},
                   {&gpu.elapsed, "cuEventElapsedTime"},
                   {&gpu.stream_wait, "cuStreamWaitEvent"}};
    char path[4096];
    const char *folder = getenv("MOTLEY_MODULES");
    if (mt_device_open("cuda", &device, &err)) return false;
    snprintf(path, sizeof path, "%s/motley_cuda.so", folder ? folder : ".");
    void *module = dlopen(path, RTLD_NOW), *driver = dlopen("libcuda.so.1", RTLD_NOW);
    CHECK(module && driver, "%s", dlerror());
    fused = dlsym(module, "cuda_overlap_fused");
    CHECK(fused, "%s", dlerror());
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *symbol = dlsym(driver, symbols[i].name);
        CHECK(symbol, "%s", symbols[i].name);
        memcpy(symbols[i].place, &symbol, sizeof symbol);
    }
    return true;
}

#define GPU(call) CHECK_EQ(call, CUDA_SUCCESS)

/* One rank of a problem. Operands as mt_overlap_extent says, B as struct mt_overlap_operands. */
struct gpu_rank {
    struct cuda cuda; /* with its part of the multiprocessors */
    struct cuda_queue queue;
    struct mt_overlap_schedule schedule;
    struct mt_overlap_operands operands;
    struct cuda_overlap overlap;
    char *window;
    void *a, *b, *out, *whole, *extra, *pre; /* extra: for a bias, or as large as out */
    int64_t b_bytes, bytes[MT_OVERLAP_NBUFFERS];
    CUdeviceptr words; /* aborted, stalled[4] */
};
struct gpu_ranks {
    const struct mt_overlap *problem;
    struct gpu_rank rank[MOST_GPU_RANKS];
};

static void *gpu_alloc(int64_t bytes) {
    void *memory;
    CHECK_OK(mt_device_alloc(device, bytes + 16, &memory, &err), err);
    return memory;
}

static void gpu_fill(void *memory, int byte, int64_t bytes) {
    GPU(gpu.fill((CUdeviceptr)memory, (unsigned char)byte, (size_t)bytes, NULL));
}

/* All of the windows as before epoch 1; staging has bits of NaNs. */
static void reset_windows(struct gpu_ranks *g) {
    const struct mt_overlap *p = g->problem;
    int64_t staging = mt_overlap_place(p, MT_OVERLAP_STAGED, 0), bytes = mt_overlap_window_bytes(p);
    for (int r = 0; r < p->n; r++) {
        gpu_fill(g->rank[r].window, 0, staging);
        gpu_fill(g->rank[r].window + staging, 0xff, bytes - staging);
        gpu_fill((void *)g->rank[r].words, 0, 5 * 8);
    }
    GPU(gpu.context_sync());
}

static void make_ranks(struct gpu_ranks *g, const struct mt_overlap *p, bool trans_a, bool trans_b, double deadline_s) {
    CHECK_OK(mt_overlap_check(p, &err), err);
    *g = (struct gpu_ranks){.problem = p};
    for (int r = 0; r < p->n; r++) {
        struct gpu_rank *rank = &g->rank[r];
        int64_t size = mt_type_size(p->type);
        mt_overlap_schedule(p, r, &rank->schedule);
        for (enum mt_overlap_buffer b = 0; b < MT_OVERLAP_NBUFFERS; b++) {
            int64_t extent[2];
            mt_overlap_extent(p, r, b, extent);
            rank->bytes[b] = extent[0] * extent[1] * mt_type_size(mt_overlap_type(p, b));
        }
        rank->b_bytes = (p->form == MT_OVERLAP_GATHER ? p->k * p->shares[r] : p->shares[r] * p->cols) * size;
        rank->a = gpu_alloc(rank->bytes[MT_OVERLAP_A]), rank->b = gpu_alloc(rank->b_bytes);
        rank->out = gpu_alloc(rank->bytes[MT_OVERLAP_OUT]), rank->whole = gpu_alloc(rank->bytes[MT_OVERLAP_WHOLE]);
        rank->extra = gpu_alloc(rank->bytes[MT_OVERLAP_OUT] + p->cols * size);
        rank->pre = gpu_alloc(rank->bytes[MT_OVERLAP_OUT]);
        rank->window = gpu_alloc(mt_overlap_window_bytes(p));
        rank->words = (CUdeviceptr)gpu_alloc(5 * 8);
        rank->cuda = cuda_of(device)->cuda;
        rank->cuda.nsm /= p->n;
        rank->queue = (struct cuda_queue){.cuda = &rank->cuda};
        GPU(gpu.stream_new(&rank->queue.stream, CU_STREAM_NON_BLOCKING));
        rank->operands = (struct mt_overlap_operands){.a = rank->a,
                                                      .b = rank->b,
                                                      .out = rank->out,
                                                      .whole = rank->whole,
                                                      .extra = rank->extra,
                                                      .pre = rank->pre,
                                                      .trans_a = trans_a,
                                                      .trans_b = trans_b,
                                                      .what = "GEMM"};
        rank->overlap =
            (struct cuda_overlap){.problem = p,
                                  .schedule = &rank->schedule,
                                  .operands = &rank->operands,
                                  .me = r,
                                  .epoch = (CUdeviceptr)rank->window + (CUdeviceptr)mt_overlap_epoch_place(p),
                                  .watch = {rank->words, rank->words + 8, (uint64_t)(1e9 * deadline_s), 1}};
    }
    for (int r = 0; r < p->n; r++)
        for (int q = 0; q < p->n; q++) g->rank[r].overlap.parts[q] = (CUdeviceptr)g->rank[q].window;
    reset_windows(g);
}

static void free_ranks(struct gpu_ranks *g) {
    for (int r = 0; r < g->problem->n; r++) {
        struct gpu_rank *rank = &g->rank[r];
        void *memory[] = {rank->a,     rank->b,   rank->out,    rank->whole,
                          rank->extra, rank->pre, rank->window, (void *)rank->words};
        mt_overlap_schedule_release(&rank->schedule);
        for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) mt_device_free(device, memory[i]);
        gpu.stream_free(rank->queue.stream);
    }
}

static void queue_rank(struct gpu_rank *rank) {
    CHECK(fused->can(&rank->cuda, &rank->overlap));
    CHECK_OK(fused->queue(&rank->queue, &rank->overlap, &err), err);
}

/* `runs` runs as a graph. The first capture also compiles and loads what a run needs, which waits for the GPU: not
 * while another rank's kernel awaits this one. */
static CUgraphExec capture_rank(struct gpu_rank *rank, int runs) {
    CUgraph graph;
    CUgraphExec exec;
    GPU(gpu.capture(rank->queue.stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    for (int i = 0; i < runs; i++) queue_rank(rank);
    GPU(gpu.end_capture(rank->queue.stream, &graph));
    GPU(gpu.instantiate(&exec, graph, 0));
    GPU(gpu.graph_free(graph));
    return exec;
}

#endif
