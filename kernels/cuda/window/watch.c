#include "kernels/cuda/window/watch.h"

#include <stddef.h>
#include <string.h>

#include "kernels/base/wait.h"

static const double look_s = 0.02; /* between looks at the window */

enum mt_status cuda_watcher_make(struct cuda_watcher *w, struct mt_err *err) {
    if (w->words) return MT_OK;
    CUDA_TRY(cuMemHostAlloc((void **)&w->words, sizeof *w->words, CU_MEMHOSTALLOC_DEVICEMAP), err, "cuMemHostAlloc");
    memset(w->words, 0, sizeof *w->words);
    CUDA_TRY(cuMemHostGetDevicePointer(&w->words_at, w->words, 0), err, "cuMemHostGetDevicePointer");
    return MT_OK;
}

void cuda_watcher_release(struct cuda_watcher *w) {
    if (w->words) cuMemFreeHost(w->words);
    *w = (struct cuda_watcher){.words = NULL};
}

struct cuda_watch cuda_watcher_watch(const struct cuda_watcher *w, double deadline_s, uint64_t tag) {
    return (struct cuda_watch){.aborted = w->words_at + offsetof(struct cuda_watch_words, aborted),
                               .stalled = w->words_at + offsetof(struct cuda_watch_words, stalled),
                               .deadline_ns = (uint64_t)(1e9 * deadline_s),
                               .tag = tag};
}

bool cuda_watcher_stalled(const struct cuda_watcher *w) {
    return w->words && __atomic_load_n(&w->words->aborted, __ATOMIC_ACQUIRE);
}

void cuda_watcher_abort(const struct cuda_watcher *w) {
    if (w->words) __atomic_store_n(&w->words->aborted, 1, __ATOMIC_RELEASE);
}

enum mt_status cuda_watcher_look(struct cuda_watcher *w, struct mt_window *window, const char *what,
                                 struct mt_err *err) {
    double now_s = mt_now_s();
    if (now_s - w->looked_s <= look_s) return MT_OK;
    w->looked_s = now_s;
    enum mt_status st = mt_window_check(window, what, err);
    if (st) cuda_watcher_abort(w);
    return st;
}
