/* Which implementation runs, and the begin of runs by chunks. */
#include "kernels/cuda/overlap/overlap.h"

#include <stdlib.h>
#include <string.h>

static const struct cuda_overlap_impl *const implementations[] = {&cuda_overlap_chunks, &cuda_overlap_fused};
enum { NIMPLS = sizeof implementations / sizeof *implementations };

enum mt_status cuda_overlap_run(const struct cuda_queue *queue, const struct cuda_overlap *o, enum mt_overlap_how how,
                                struct mt_err *err) {
    const char *first = getenv("MOTLEY_OVERLAP");
    bool turned = first ? !strcmp(first, "fused") : o->problem->how == MT_OVERLAP_FUSED;
    if (first && !turned && strcmp(first, "chunks"))
        return mt_fail(err, MT_EINPUT, "MOTLEY_OVERLAP is \"%s\", not \"chunks\" or \"fused\"", first);
    for (int i = 0; i < NIMPLS; i++) {
        const struct cuda_overlap_impl *impl = implementations[turned ? NIMPLS - 1 - i : i];
        if ((how && impl->how != how) || !impl->can(queue->cuda, o)) continue;
        return impl->queue(queue, o, err);
    }
    return mt_fail(err, MT_EINPUT, "%s of %s, sent as %s, does not run on this GPU%s",
                   mt_overlap_name(o->problem->form), mt_type_name(o->problem->type), mt_type_name(o->problem->wire),
                   how == MT_OVERLAP_FUSED ? " in one kernel" : "");
}

enum mt_status cuda_overlap_begin(const struct cuda_queue *queue, const struct cuda_overlap *o, void *words,
                                  int64_t count, struct mt_err *err) {
    enum { THREADS = 256 };
    CUdeviceptr epoch = o->epoch;
    CUfunction kernel;
    enum mt_status st = cuda_kernel(queue->cuda, "overlap", "", "overlap_begin", 0, &kernel, err);
    return st ? st : cuda_launch(queue, kernel, 1, THREADS, 0, (void *[]){&epoch, &words, &count}, err);
}
