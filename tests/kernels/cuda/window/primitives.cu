/* Two ranks use each primitive of window.cuh at one level: THREAD, WARP or BLOCK (LEVEL). One block of each; threads
 * that are not of the level leave. After the prelude, as kernels are. */
#include "kernels/cuda/window/window.cuh"

/* A rank's part: words, then places of `bytes` each. */
enum {
    SET_AT,
    ADD_AT,
    DOWN_AT,
    READ_AT,
    ABORTED_AT,
    STALLED_AT,
    ERRORS_AT = STALLED_AT + 7,
    ARRIVED_AT = 24,
    PLACES_AT = 64
};
enum { FIXED, SOURCE, GOT, BY_SET, BY_ADD = BY_SET + 2, FIRST = BY_ADD + 2, SECOND };
constexpr u64 HIGH = 1 << 20;

/* What goes wrong, by what it was. */
enum error { OF_SET, OF_ADD, OF_DOWN, OF_GET, OF_FENCE, OF_QUIET, OF_TEST, OF_WAIT };

struct part {
    char *base;
    i64 bytes;
    __device__ u64 *word(int at) const {
        return (u64 *)base + at;
    }
    __device__ u64 *place(int at) const {
        return (u64 *)(base + PLACES_AT * 8 + at * bytes);
    }
};

__device__ inline u64 word_of(int rank, i64 epoch, i64 i, int kind) {
    return (u64)(rank + 1) << 56 | (u64)kind << 48 | (u64)epoch << 24 | (u64)i;
}

__device__ inline void fill(u64 *to, i64 bytes, int rank, i64 epoch, int kind) {
    for (i64 i = lane<LEVEL>(); i < bytes / 8; i += lanes<LEVEL>()) to[i] = word_of(rank, epoch, i, kind);
    join<LEVEL>();
}

__device__ inline void check(const part &mine, const u64 *have, int rank, i64 epoch, int kind, error of) {
    u64 wrong = 0;
    for (i64 i = lane<LEVEL>(); i < mine.bytes / 8; i += lanes<LEVEL>())
        wrong += have[i] != word_of(rank, epoch, i, kind);
    if (wrong) atomicAdd(mine.word(ERRORS_AT + of), wrong);
}
__device__ inline void expect(const part &mine, bool well, error of) {
    if (!well && !lane<LEVEL>()) atomicAdd(mine.word(ERRORS_AT + of), 1ull);
}

/* Both send to each other in each epoch: with a signal that is set, by one that is added to, and one that counts down.
 * A peer may be two epochs ahead in none of them, since places are doubled by parity. False: a wait was given up. */
__device__ inline bool exchange(const part &mine, const part &peer, int rank, i64 e, const watch &w) {
    u64 *source = mine.place(SOURCE), *got = mine.place(GOT);
    int by_set = BY_SET + e % 2, by_add = BY_ADD + e % 2;
    if (e > 2 && !wait<LEVEL>(mine.word(READ_AT), (u64)e - 2, w)) return false;
    fill(source, mine.bytes, rank, e, 1);
    put_signal<LEVEL>(peer.place(by_set), source, mine.bytes, peer.word(SET_AT), (u64)e, SET);
    fill(source, mine.bytes, rank, e, 2);
    put_signal<LEVEL>(peer.place(by_add), source, mine.bytes, peer.word(ADD_AT), 3, ADD);
    signal<LEVEL>(peer.word(DOWN_AT), HIGH - (u64)e, SET);

    bool fine = e % 3 == 0   ? wait<LEVEL>(mine.word(SET_AT), (u64)e, w)
                : e % 3 == 1 ? wait<LEVEL>(mine.word(SET_AT), cmp::GT, (u64)e - 1, w)
                             : wait<LEVEL>(mine.word(SET_AT), cmp::NE, (u64)e - 1, w);
    if (!fine) return false;
    check(mine, mine.place(by_set), !rank, e, 1, OF_SET);
    if (!wait<LEVEL>(mine.word(ADD_AT), cmp::GE, 3 * (u64)e, w)) return false;
    check(mine, mine.place(by_add), !rank, e, 2, OF_ADD);
    fine = e % 2 ? wait<LEVEL>(mine.word(DOWN_AT), cmp::LE, HIGH - (u64)e, w)
                 : wait<LEVEL>(mine.word(DOWN_AT), cmp::LT, HIGH - (u64)e + 1, w);
    if (!fine) return false;
    expect(mine, test(mine.word(DOWN_AT), cmp::LE, HIGH - (u64)e), OF_DOWN);
    fill(got, mine.bytes, 7, 0, 0);
    get<LEVEL>(got, peer.place(FIXED), mine.bytes);
    check(mine, got, !rank, 0, 3, OF_GET);
    signal<LEVEL>(peer.word(READ_AT), (u64)e, SET);
    return true;
}

/* Puts without signals: nobody sees the second before the first. Threads look at words that others than theirs put. */
__device__ inline void fenced(const part &mine, const part &peer, i64 rounds) {
    u64 *source = mine.place(SOURCE), wrong = 0;
    i64 n = mine.bytes / 8;
    for (i64 round = 1; round <= rounds; round++) {
        join<LEVEL>();
        for (i64 i = lane<LEVEL>(); i < n; i += lanes<LEVEL>()) source[i] = (u64)round;
        join<LEVEL>();
        put<LEVEL>(peer.place(FIRST), source, mine.bytes);
        fence<LEVEL>();
        put<LEVEL>(peer.place(SECOND), source, mine.bytes);
        fence<LEVEL>();
        for (i64 i = lane<LEVEL>(); i < n; i += lanes<LEVEL>()) {
            u64 second = word_load(mine.place(SECOND) + i), first = word_load(mine.place(FIRST) + (n - 1 - i));
            wrong += first < second;
        }
    }
    if (wrong) atomicAdd(mine.word(ERRORS_AT + OF_FENCE), wrong);
    quiet<LEVEL>();
}

/* One thread: all comparisons with the last of the signals. */
__device__ inline bool tests(const part &mine, u64 last) {
    const u64 *signal = mine.word(SET_AT);
    return test(signal, last) && !test(signal, last + 1) && test(signal, cmp::EQ, last) &&
           !test(signal, cmp::EQ, last - 1) && test(signal, cmp::NE, last + 1) && !test(signal, cmp::NE, last) &&
           test(signal, cmp::GT, last - 1) && !test(signal, cmp::GT, last) && test(signal, cmp::GE, last) &&
           !test(signal, cmp::GE, last + 1) && test(signal, cmp::LT, last + 1) && !test(signal, cmp::LT, last) &&
           test(signal, cmp::LE, last) && !test(signal, cmp::LE, last - 1) &&
           test(mine.word(ADD_AT), cmp::EQ, 3 * last) && test(mine.word(DOWN_AT), cmp::EQ, HIGH - last);
}

__device__ inline bool is_of_level() {
    return LEVEL == BLOCK || threadIdx.x < (LEVEL == WARP ? 32 : 1);
}
__device__ inline watch watch_of(const part &mine, u64 deadline_ns) {
    return {mine.word(ABORTED_AT), mine.word(STALLED_AT), deadline_ns, 0};
}

/* Parts are zero at first. bytes: a multiple of 16. */
extern "C" __global__ void primitives(char *my_part, char *peer_part, int rank, i64 bytes, i64 epochs,
                                      u64 deadline_ns) {
    if (!is_of_level()) return;
    part mine = {my_part, bytes}, peer = {peer_part, bytes};
    char *parts[2] = {rank ? peer_part : my_part, rank ? my_part : peer_part};
    watch w = watch_of(mine, deadline_ns);
    bool fine = true;
    fill(mine.place(FIXED), bytes, rank, 0, 3);
    signal<LEVEL>(mine.word(DOWN_AT), HIGH, SET);
    if ((fine = barrier<LEVEL>(parts, ARRIVED_AT * 8, rank, 2, 1, w)))
        for (i64 e = 1; e <= epochs && fine; e++) fine = exchange(mine, peer, rank, e, w);
    if (fine && (fine = barrier<LEVEL>(parts, ARRIVED_AT * 8, rank, 2, 2, w))) {
        expect(mine, tests(mine, (u64)epochs), OF_TEST);
        fenced(mine, peer, epochs);
        fine = barrier<LEVEL>(parts, ARRIVED_AT * 8, rank, 2, 3, w);
    }
    for (i64 i = lane<LEVEL>(); i < bytes / 8 && fine; i += lanes<LEVEL>())
        if (mine.place(FIRST)[i] != (u64)epochs || mine.place(SECOND)[i] != (u64)epochs)
            atomicAdd(mine.word(ERRORS_AT + OF_QUIET), 1ull);
    expect(mine, fine, OF_WAIT);
}

/* Nobody signals: two waits, of which the first ends by the deadline, or by the abort word, and the second at once. */
extern "C" __global__ void wait_in_vain(char *my_part, u64 deadline_ns) {
    if (!is_of_level()) return;
    part mine = {my_part, 0};
    watch w = watch_of(mine, deadline_ns);
    bool first = wait<LEVEL>(mine.word(SET_AT), cmp::EQ, 5, w), second = wait<LEVEL>(mine.word(ADD_AT), 9, w);
    expect(mine, !first && !second, OF_WAIT);
}
