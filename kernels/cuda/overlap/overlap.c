/* Which implementation runs, and the begin of all runs but those of one kernel that puts itself. */
#include "kernels/cuda/overlap/overlap.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/overlap/compute.h"
#include "kernels/cuda/overlap/fused.h"

static const struct {
    const char *name; /* in MOTLEY_OVERLAP */
    const struct cuda_overlap_impl *impl;
} implementations[] = {{"chunks", &cuda_overlap_chunks}, {"fused", &cuda_overlap_fused}, {"nccl", &cuda_overlap_waves}};
enum { NIMPLS = sizeof implementations / sizeof *implementations };

bool cuda_overlap_serves(const struct cuda *cuda, const struct mt_overlap *problem, int me) {
    switch (problem->how) {
    case MT_OVERLAP_FUSED: return cuda_fused_serves(cuda, problem, me);
    case MT_OVERLAP_CHUNKS:
    case MT_OVERLAP_NCCL: return cuda_overlap_computes(problem);
    default: return false;
    }
}

/* Whether this GPU maps the parts of all ranks. */
static bool reaches(const struct cuda_overlap *o) {
    bool all = true;
    for (int p = 0; p < o->problem->n; p++) all &= o->parts[p] != 0;
    return all;
}

/* Whom the environment prefers, else the problem. */
static enum mt_status find_first(const struct mt_overlap *problem, int *first, struct mt_err *err) {
    const char *name = getenv("MOTLEY_OVERLAP");
    *first = 0;
    while (*first < NIMPLS &&
           (name ? strcmp(name, implementations[*first].name) != 0 : implementations[*first].impl->how != problem->how))
        ++*first;
    if (*first < NIMPLS) return MT_OK;
    *first = 0;
    if (!name) return MT_OK;
    return mt_fail(err, MT_EINPUT, "MOTLEY_OVERLAP is \"%s\", not \"chunks\", \"fused\" or \"nccl\"", name);
}

enum mt_status cuda_overlap_run(const struct cuda_queue *queue, const struct cuda_overlap *o, enum mt_overlap_how how,
                                struct mt_err *err) {
    int first;
    enum mt_status st = find_first(o->problem, &first, err);
    if (st) return st;
    for (int i = 0; i <= NIMPLS; i++) {
        const struct cuda_overlap_impl *impl = implementations[i ? i - 1 : first].impl;
        if (impl->how != MT_OVERLAP_NCCL && !reaches(o)) continue;
        if ((how && impl->how != how) || !impl->can(queue->cuda, o)) continue;
        return impl->queue(queue, o, err);
    }
    return mt_fail(err, MT_EINPUT, "%s of %s, sent as %s, does not run on this GPU%s",
                   mt_overlap_name(o->problem->form), mt_type_name(o->problem->type), mt_type_name(o->problem->wire),
                   how == MT_OVERLAP_FUSED  ? " in one kernel"
                   : how == MT_OVERLAP_NCCL ? " by NCCL"
                                            : "");
}

enum mt_status cuda_overlap_begin(const struct cuda_queue *queue, const struct cuda_overlap *o, void *words,
                                  int64_t count, struct mt_err *err) {
    enum { THREADS = 256 };
    CUdeviceptr epoch = o->epoch;
    CUfunction kernel;
    enum mt_status st = cuda_kernel(queue->cuda, "overlap", "", "overlap_begin", 0, &kernel, err);
    void *arguments[] = {&epoch, &words, &count, (void *)&o->watch};
    return st ? st : cuda_launch(queue, kernel, 1, THREADS, 0, arguments, err);
}
