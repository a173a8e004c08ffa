/* What one rank does in tests of one-sided operations queued on a stream, on any device: the host queues far ahead,
 * with delays before every step, on both sides of every signal. Run by threads (test_window_stream.c, also under
 * ThreadSanitizer), ranks over MPI (mpi_window_stream.c), and GPUs (mpi_cuda_window.c). */
#ifndef MT_TESTS_KERNELS_DEVICE_STREAM_TRIALS_H
#define MT_TESTS_KERNELS_DEVICE_STREAM_TRIALS_H

#include "kernels/device/window.h"
#include "tests/kernels/window/trials.h"

enum { STREAM_BLOCK = TRIAL_WORDS * 8 };
static const double stream_deadline_s = 120;

struct stream_rank {
    struct mt_device *device;
    struct mt_stream *stream;
    struct mt_window *window;
};

static inline void stream_sync(const struct stream_rank *s) {
    struct mt_err err = MT_ERR_INIT;
    CHECK_OK(mt_stream_sync(s->stream, stream_deadline_s, &err), err);
}

static inline char *stream_place(const struct stream_rank *s, int64_t at) {
    return mt_device_window_ptr(s->window, at, mt_window_rank(s->window));
}

/* From `block`, in the device's memory, as trial_exchange puts: odd ranks rows, which other rows follow. */
static inline void stream_put(const struct stream_rank *s, const char *block, int64_t epoch, int peer, int64_t *step,
                              uint64_t seed) {
    struct mt_window *w = s->window;
    int me = mt_window_rank(w);
    int64_t to = trial_block(epoch % 2, me), half = TRIAL_WORDS / 2 * 8;
    if (me % 2) {
        for (int part = 0; part < 2; part++)
            mt_window_put_rows_on_stream(w, to + part * 80, 160, block + part * 80, 160, 80, TRIAL_WORDS / 20, peer,
                                         s->stream);
        trial_delay(me, (*step)++, seed);
        mt_window_signal_on_stream(w, trial_signal(0, me), 1, MT_SIGNAL_ADD, peer, s->stream);
    } else {
        mt_window_put_on_stream(w, to, block, half, peer, s->stream);
        trial_delay(me, (*step)++, seed);
        mt_window_put_signal_on_stream(w, to + half, block + half, STREAM_BLOCK - half, trial_signal(0, me), 1,
                                       MT_SIGNAL_ADD, peer, s->stream);
    }
    mt_window_signal_on_stream(w, trial_signal(2, 0), (uint64_t)me + 1, MT_SIGNAL_ADD, peer, s->stream);
}

/* Each rank gets from the next what that has of the last epoch. All streams are idle. */
static inline void stream_get(const struct stream_rank *s, void *block, uint64_t *words, int64_t epoch) {
    struct mt_window *w = s->window;
    int n = mt_window_nranks(w), other = (mt_window_rank(w) + 1) % n, of = (other + n - 1) % n;
    struct mt_err err = MT_ERR_INIT;
    CHECK_OK(mt_window_barrier(w, &err), err);
    mt_window_get_on_stream(w, block, trial_block(epoch % 2, of), STREAM_BLOCK, other, s->stream);
    mt_stream_copy(s->stream, MT_COPY_OUT, words, block, STREAM_BLOCK);
    stream_sync(s);
    if (n > 1) trial_check(words, of, other, epoch);
    CHECK_OK(mt_window_barrier(w, &err), err);
}

/* trial_exchange on a stream: what has come is copied to the host in the stream's order, and looked at in the end. */
static inline void stream_exchange(const struct stream_rank *s, int epochs, uint64_t seed) {
    struct mt_window *w = s->window;
    int me = mt_window_rank(w), n = mt_window_nranks(w);
    struct mt_err err = MT_ERR_INIT;
    void *out_at, *in_at, *blocks;
    int64_t bytes = (int64_t)epochs * n * STREAM_BLOCK, step = 0;
    CHECK_OK(mt_device_host_alloc(s->device, bytes, &out_at, &err), err);
    CHECK_OK(mt_device_host_alloc(s->device, bytes, &in_at, &err), err);
    CHECK_OK(mt_device_alloc(s->device, n * STREAM_BLOCK, &blocks, &err), err);
    uint64_t *out = out_at, *in = in_at, sum = 0;
    for (int64_t e = 1; e <= epochs; e++) {
        for (int k = 1; k < n; k++) {
            int peer = (me + k) % n;
            uint64_t *words = out + ((e - 1) * n + peer) * TRIAL_WORDS;
            char *block = (char *)blocks + peer * STREAM_BLOCK;
            for (int64_t i = 0; i < TRIAL_WORDS; i++) words[i] = trial_word(me, peer, e, i);
            if (e > 2)
                mt_window_wait_on_stream(w, trial_signal(1, peer), MT_CMP_GE, (uint64_t)e - 2, peer, "room", s->stream);
            mt_stream_copy(s->stream, MT_COPY_IN, block, words, STREAM_BLOCK);
            trial_delay(me, step++, seed);
            stream_put(s, block, e, peer, &step, seed);
        }
        for (int k = 1; k < n; k++) {
            int from = (me + n - k) % n;
            trial_delay(me, step++, seed);
            mt_window_wait_on_stream(w, trial_signal(0, from), MT_CMP_GE, (uint64_t)e, from, "a block", s->stream);
            mt_stream_copy(s->stream, MT_COPY_OUT, in + ((e - 1) * n + from) * TRIAL_WORDS,
                           stream_place(s, trial_block(e % 2, from)), STREAM_BLOCK);
            mt_window_signal_on_stream(w, trial_signal(1, me), (uint64_t)e, MT_SIGNAL_SET, from, s->stream);
        }
        mt_window_quiet_on_stream(w, s->stream); /* `blocks` are written again */
    }
    for (int r = 0; r < n; r++) sum += r == me ? 0 : (uint64_t)(r + 1) * (uint64_t)epochs;
    mt_window_wait_on_stream(w, trial_signal(2, 0), MT_CMP_EQ, sum, (me + 1) % n, "the sum of all", s->stream);
    stream_sync(s);
    for (int64_t e = 1; e <= epochs; e++)
        for (int from = 0; from < n; from++)
            if (from != me) trial_check(in + ((e - 1) * n + from) * TRIAL_WORDS, from, me, e);
    stream_get(s, blocks, in, epochs);
    mt_device_free(s->device, blocks);
    mt_device_host_free(s->device, in_at);
    mt_device_host_free(s->device, out_at);
}

/* Each comparison, one after the other, of a signal that counts down: what a wait lets through too early overtakes. */
static inline void stream_compare(const struct stream_rank *s) {
    static const struct {
        enum mt_cmp cmp;
        uint64_t value;
    } waits[] = {{MT_CMP_GT, 8}, {MT_CMP_LT, 9}, {MT_CMP_EQ, 7}, {MT_CMP_NE, 7}, {MT_CMP_LE, 5}, {MT_CMP_GE, 20}};
    static const uint64_t sets[] = {9, 8, 7, 6, 5, 20};
    struct mt_window *w = s->window;
    int me = mt_window_rank(w), n = mt_window_nranks(w), to = (me + 1) % n, from = (me + n - 1) % n;
    enum { STEPS = 6 };
    uint64_t *seen;
    void *seen_at;
    struct mt_err err = MT_ERR_INIT;
    CHECK_OK(mt_device_host_alloc(s->device, 8 * STEPS, &seen_at, &err), err);
    seen = seen_at;
    for (int i = 0; i < STEPS; i++) {
        trial_delay(me, 100 + i, 1);
        mt_window_signal_on_stream(w, trial_signal(3, 0), sets[i], MT_SIGNAL_SET, to, s->stream);
        mt_window_wait_on_stream(w, trial_signal(3, 0), waits[i].cmp, waits[i].value, from, "a step", s->stream);
        mt_stream_copy(s->stream, MT_COPY_OUT, &seen[i], stream_place(s, trial_signal(3, 0)), 8);
        /* The peer goes on when this rank has looked. */
        mt_window_signal_on_stream(w, trial_signal(3, 1), 1, MT_SIGNAL_ADD, from, s->stream);
        mt_window_wait_on_stream(w, trial_signal(3, 1), MT_CMP_GE, (uint64_t)i + 1, to, "its look", s->stream);
    }
    stream_sync(s);
    for (int i = 0; i < STEPS; i++) CHECK(seen[i] == sets[i], "step %d: %llu", i, (unsigned long long)seen[i]);
    mt_device_host_free(s->device, seen_at);
    CHECK_OK(mt_window_barrier(w, &err), err);
}

/* Rank 0 stays away: the others name it and what they wait for, and signal nothing after. Of a window with a short
 * deadline. */
static inline void stream_silence(const struct stream_rank *s) {
    struct mt_window *w = s->window;
    struct mt_err err = MT_ERR_INIT;
    if (!mt_window_rank(w)) return;
    mt_window_wait_on_stream(w, trial_signal(0, 0), MT_CMP_GE, 1, 0, "the rows of x", s->stream);
    mt_window_signal_on_stream(w, trial_signal(3, 2), 5, MT_SIGNAL_SET, 0, s->stream);
    enum mt_status st = mt_stream_sync(s->stream, stream_deadline_s, &err);
    CHECK(st == MT_ESTALL || st == MT_EPEER, "status %d: %s", (int)st, err.text);
    if (st == MT_ESTALL)
        CHECK(strstr(err.text, "for rank 0, for the rows of x") && strstr(err.text, "is 0, not >= 1"), "%s", err.text);
    else
        CHECK(strstr(err.text, "gave up"), "%s", err.text);
    err = (struct mt_err)MT_ERR_INIT;
    mt_window_signal_on_stream(w, trial_signal(3, 2), 5, MT_SIGNAL_SET, 0, s->stream);
    CHECK_EQ(mt_stream_sync(s->stream, stream_deadline_s, &err), MT_EPEER);
}
/* On rank 0, when all others have ended. */
static inline void stream_check_silence(const struct stream_rank *s) {
    uint64_t signal;
    struct mt_err err = MT_ERR_INIT;
    CHECK_OK(mt_device_copy_out(s->device, &signal, stream_place(s, trial_signal(3, 2)), 8, &err), err);
    CHECK_EQ(signal, 0);
}

/* Rank 0 gives up while the others' streams wait. */
static inline void stream_abort(const struct stream_rank *s) {
    struct mt_window *w = s->window;
    struct mt_err err = MT_ERR_INIT;
    if (!mt_window_rank(w)) {
        mt_sleep_s(0.05);
        mt_window_abort(w, "out of paper");
        return;
    }
    mt_window_wait_on_stream(w, trial_signal(0, 0), MT_CMP_GE, 1, 0, "the rows of x", s->stream);
    CHECK_EQ(mt_stream_sync(s->stream, stream_deadline_s, &err), MT_EPEER);
    CHECK(strstr(err.text, "rank 0 gave up: out of paper"), "%s", err.text);
}

#endif
