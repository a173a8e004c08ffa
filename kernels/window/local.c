/* Windows of threads of one process, and the end of every window. */
#include <stdlib.h>
#include <sys/mman.h>

#include "kernels/base/arena.h"
#include "kernels/window/internal.h"

void mt_window_local_new(int nranks, int64_t size_bytes, double deadline_s, struct mt_window **windows) {
    int64_t part_bytes = mt_window_part_bytes(size_bytes);
    char *memory = mt_calloc((size_t)nranks, (size_t)part_bytes);
    atomic_int *users = mt_malloc(sizeof *users);
    atomic_init(users, nranks);
    for (int r = 0; r < nranks; r++) {
        struct mt_window *w = windows[r] = mt_calloc(1, sizeof *w);
        *w = (struct mt_window){.rank = r, .nranks = nranks, .size_bytes = size_bytes, .deadline_s = deadline_s};
        w->part = mt_calloc((size_t)nranks, sizeof *w->part);
        for (int peer = 0; peer < nranks; peer++) w->part[peer] = memory + peer * part_bytes;
        w->mapping = memory;
        w->users = users;
    }
}

void mt_window_free(struct mt_window *w) {
    if (!w) return;
    struct mt_err ignored = MT_ERR_INIT;
    if (!w->users && !w->failed) mt_window_barrier(w, &ignored);
    if (w->memory) w->memory->release(w, w->memory);
    if (!w->users) atomic_store(&mt_window_header(w, w->rank)->process, 0);
    bool exposed = w->remote && w->failed; /* ranks of other hosts may still access it */
    mt_window_remote_free(w->remote, w->failed);
    if (w->users) {
        if (atomic_fetch_sub(w->users, 1) == 1) {
            free(w->mapping);
            free(w->users);
        }
    } else if (!exposed) {
        munmap(w->mapping, (size_t)w->mapping_bytes);
    }
    free(w->part);
    free(w);
}
