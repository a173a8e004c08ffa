/* Waits of kernels for peers, as the host sees them: the words by which a kernel tells that it has given up, and the
 * host tells kernels to. */
#ifndef MT_KERNELS_CUDA_WINDOW_WATCH_H
#define MT_KERNELS_CUDA_WINDOW_WATCH_H

#include "kernels/cuda/driver/driver.h"
#include "kernels/window/window.h"

enum { CUDA_WATCH_STALLED = 7 };

/* As window.cuh's struct watch; passed to kernels by value. Both words are in the host's memory. */
struct cuda_watch {
    CUdeviceptr aborted; /* u64: 0 while nobody has given up */
    /* u64 [CUDA_WATCH_STALLED]: a flag's address, its value, what was waited for, the tag; of on_stream.cu also the
     * comparison, the rank that was waited for, and the window, as the host addresses it */
    CUdeviceptr stalled;
    uint64_t deadline_ns;
    uint64_t tag; /* the host's, by which the wait is named; 0: none */
};

struct cuda_watch_words {
    uint64_t aborted, stalled[CUDA_WATCH_STALLED];
};
struct cuda_watcher {
    struct cuda_watch_words *words; /* pinned; null: not made */
    CUdeviceptr words_at;
    double looked_s; /* when the window was looked at */
};

/* Does nothing if it is made. */
enum mt_status cuda_watcher_make(struct cuda_watcher *watcher, struct mt_err *err);
void cuda_watcher_release(struct cuda_watcher *watcher); /* no kernel waits */
struct cuda_watch cuda_watcher_watch(const struct cuda_watcher *watcher, double deadline_s, uint64_t tag);
/* Whether a kernel has given up: words->stalled says on what. */
bool cuda_watcher_stalled(const struct cuda_watcher *watcher);
/* From now on waits end at once. */
void cuda_watcher_abort(const struct cuda_watcher *watcher);
/* From time to time, look whether others have given up (mt_window_check, of `what`); then waits end here too. */
enum mt_status cuda_watcher_look(struct cuda_watcher *watcher, struct mt_window *window, const char *what,
                                 struct mt_err *err);

#endif
