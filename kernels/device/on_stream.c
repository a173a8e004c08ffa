/* One-sided operations as work of a stream: each becomes what the device's class queues; a put with its signal, both.
 */
#include <assert.h>

#include "kernels/device/class.h"
#include "kernels/device/window.h"

/* A mistake of the caller's. */
static void check(const struct mt_window_work *work) {
    const struct mt_window_memory *memory = mt_window_attached(work->window);
    bool signals = work->kind == MT_WINDOW_SIGNAL || work->kind == MT_WINDOW_WAIT;
    int64_t bytes = signals ? 8 : work->rows ? (work->rows - 1) * work->stride + work->row_bytes : 0;
    int64_t end = memory ? memory->size_bytes : mt_window_size_bytes(work->window);
    assert(work->rank >= 0 && work->rank < mt_window_nranks(work->window));
    assert(work->at >= 0 && work->at <= end - bytes && (!signals || work->at % 8 == 0));
    (void)bytes, (void)end;
}

static void queue(struct mt_stream *stream, struct mt_window_work work) {
    check(&work);
    stream->device->class->stream_window(stream, &work);
}

void mt_window_put_on_stream(struct mt_window *window, int64_t to, const void *from, int64_t size_bytes, int rank,
                             struct mt_stream *stream) {
    mt_window_put_rows_on_stream(window, to, size_bytes, from, size_bytes, size_bytes, 1, rank, stream);
}

void mt_window_put_rows_on_stream(struct mt_window *window, int64_t to, int64_t to_stride, const void *from,
                                  int64_t from_stride, int64_t row_bytes, int64_t rows, int rank,
                                  struct mt_stream *stream) {
    if (rows <= 0 || row_bytes <= 0) return;
    queue(stream, (struct mt_window_work){.kind = MT_WINDOW_PUT,
                                          .window = window,
                                          .rank = rank,
                                          .at = to,
                                          .stride = to_stride,
                                          .here = (char *)(uintptr_t)from,
                                          .here_stride = from_stride,
                                          .row_bytes = row_bytes,
                                          .rows = rows,
                                          .what = "a put"});
}

void mt_window_signal_on_stream(struct mt_window *window, int64_t signal, uint64_t value, enum mt_signal how, int rank,
                                struct mt_stream *stream) {
    queue(stream, (struct mt_window_work){.kind = MT_WINDOW_SIGNAL,
                                          .window = window,
                                          .rank = rank,
                                          .at = signal,
                                          .value = value,
                                          .how = how,
                                          .what = "a signal"});
}

void mt_window_put_signal_on_stream(struct mt_window *window, int64_t to, const void *from, int64_t size_bytes,
                                    int64_t signal, uint64_t value, enum mt_signal how, int rank,
                                    struct mt_stream *stream) {
    mt_window_put_on_stream(window, to, from, size_bytes, rank, stream);
    mt_window_signal_on_stream(window, signal, value, how, rank, stream);
}

void mt_window_get_on_stream(struct mt_window *window, void *to, int64_t from, int64_t size_bytes, int rank,
                             struct mt_stream *stream) {
    if (size_bytes <= 0) return;
    queue(stream, (struct mt_window_work){.kind = MT_WINDOW_GET,
                                          .window = window,
                                          .rank = rank,
                                          .at = from,
                                          .stride = size_bytes,
                                          .here = to,
                                          .here_stride = size_bytes,
                                          .row_bytes = size_bytes,
                                          .rows = 1,
                                          .what = "a get"});
}

void mt_window_wait_on_stream(struct mt_window *window, int64_t signal, enum mt_cmp cmp, uint64_t value, int from_rank,
                              const char *what, struct mt_stream *stream) {
    queue(stream, (struct mt_window_work){.kind = MT_WINDOW_WAIT,
                                          .window = window,
                                          .rank = from_rank,
                                          .at = signal,
                                          .value = value,
                                          .cmp = cmp,
                                          .what = what});
}

void mt_window_quiet_on_stream(struct mt_window *window, struct mt_stream *stream) {
    queue(stream, (struct mt_window_work){
                      .kind = MT_WINDOW_QUIET, .window = window, .rank = mt_window_rank(window), .what = "quiet"});
}
