/* A one-sided operation of a stream, by the window's own functions: its memory is the host's. */
#include <stdio.h>

#include "kernels/cpu/internal.h"

static enum mt_status await(const struct mt_window_work *work, struct mt_err *err) {
    char what[200];
    snprintf(what, sizeof what, "rank %d, for %s", mt_window_name(work->window, work->rank), work->what);
    return mt_window_wait(work->window, work->at, work->cmp, work->value, what, err);
}

enum mt_status mt_cpu_window(const struct mt_window_work *work, struct mt_err *err) {
    struct mt_window *window = work->window;
    if (mt_window_attached(window)) return mt_fail(err, MT_EBUG, "a window in the memory of another device");
    switch (work->kind) {
    case MT_WINDOW_PUT:
        return mt_window_put_rows(window, work->at, work->stride, work->here, work->here_stride, work->row_bytes,
                                  work->rows, work->rank, err);
    case MT_WINDOW_GET: return mt_window_get(window, work->here, work->at, work->row_bytes, work->rank, err);
    case MT_WINDOW_SIGNAL: return mt_window_signal(window, work->at, work->value, work->how, work->rank, err);
    case MT_WINDOW_WAIT: return await(work, err);
    case MT_WINDOW_QUIET: return mt_window_quiet(window, err);
    }
    return MT_OK;
}
