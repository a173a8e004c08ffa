/* Overlapped GEMMs on GPUs: a rank's schedule (kernels/overlap/overlap.h) on windows in the memory of GPUs that map
 * each other's (kernels/window/window.h).
 *
 *   chunks.c, chunks.cu   copy engines move chunks, and cuBLASLt multiplies them, in stream order
 *   fused.c, fused/       one kernel does it all, on sm_90: fused.cu; tables.c: the schedule as it reads it;
 *                         putter.cuh, sender.cuh: what it puts and sends; movers.cuh; epilogue.cuh
 *   few.c, few.cu         the same for few rows
 *   waves.c               NCCL moves chunks, wave by wave, where a peer's memory is out of reach
 *   compute.c             GEMMs and sums of chunks
 *   engine.c              puts by copy engines
 *   overlap.c             which implementation runs
 *
 * All addresses but the epoch, and the parity of staging, are known when a run is queued. Flags only grow: in epoch e a
 * wait is for (e - lag) * count, and the epoch is a word of this GPU's memory that kernels of the run count up. So
 * captured runs replay; captures are made for both parities (launcher/execute/replay.c).
 *
 * One implementation runs a problem on its memory from epoch 1 on, since by NCCL no flag is raised. What it takes to
 * choose one is the same in all runs on that memory: the problem, and how the operands lie (mt_pairs_find). */
#ifndef MT_KERNELS_CUDA_OVERLAP_OVERLAP_H
#define MT_KERNELS_CUDA_OVERLAP_OVERLAP_H

#include "kernels/cuda/driver/driver.h"
#include "kernels/cuda/window/watch.h"
#include "kernels/overlap/overlap.h"

enum { CUDA_OVERLAP_RANKS = 64 };

/* One run of a rank's part. */
struct cuda_overlap {
    const struct mt_overlap *problem;
    const struct mt_overlap_schedule *schedule;
    const struct mt_overlap_operands *operands; /* addresses of this GPU; `scratch` of mt_overlap_scratch_bytes */
    int me;                                     /* this rank's place */
    /* By place: where the problem's part of each rank's window begins, as this GPU maps it; its own included. Buffers
     * are at mt_overlap_place, flags at mt_overlap_flag_place. 0: out of reach. */
    CUdeviceptr parts[CUDA_OVERLAP_RANKS];
    struct mt_comm *comm;    /* NCCL's, which reaches all; or null */
    const int *ranks;        /* its ranks, by place; null: the same */
    CUdeviceptr epoch;       /* u64: of the last run; this one counts it up */
    int copy;                /* of staging: epoch % schedule->copies */
    int64_t chunk_rows;      /* chunks: most rows of a GEMM; 0: by the device */
    struct cuda_watch watch; /* its tag: the host's address of the struct mt_overlap_call */
    CUstream moves;          /* a second stream, for puts */
    CUevent joint;           /* between the two; may be recorded again once it is waited for */
};

/* An implementation queues all of a run on queue->stream, with what it forks to `moves` joined again. It counts the
 * epoch up, or has cuda_overlap_begin do so. It may be captured; then all that it loads and chooses has been by a run
 * before. What may wait for other work of this GPU's queues, as loading kernels does, comes before it queues a wait for
 * a peer. */
struct cuda_overlap_impl {
    enum mt_overlap_how how;
    bool (*can)(const struct cuda *cuda, const struct cuda_overlap *overlap);
    enum mt_status (*queue)(const struct cuda_queue *queue, const struct cuda_overlap *overlap, struct mt_err *err);
};
extern const struct cuda_overlap_impl cuda_overlap_chunks, cuda_overlap_fused, cuda_overlap_waves;

/* Queue the kernel that counts the epoch up, and writes it to words[count] of this GPU's memory (count may be 0); 0 if
 * someone has given up. */
enum mt_status cuda_overlap_begin(const struct cuda_queue *queue, const struct cuda_overlap *overlap, void *words,
                                  int64_t count, struct mt_err *err);

/* mt_device_overlaps. */
bool cuda_overlap_serves(const struct cuda *cuda, const struct mt_overlap *problem, int me);

/* Queue a run by the implementation that `how` names; or the first one that can: that of the problem (of the plan), or
 * the one that MOTLEY_OVERLAP in the environment names instead (chunks, fused or nccl, the same on all ranks); then by
 * chunks, in one kernel, by NCCL. MT_EINPUT if none can. */
enum mt_status cuda_overlap_run(const struct cuda_queue *queue, const struct cuda_overlap *overlap,
                                enum mt_overlap_how how, struct mt_err *err);

#endif
