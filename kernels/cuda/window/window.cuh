/* One-sided access between GPUs of a host, on the device: the terms and the rule of kernels/window/window.h, on memory
 * of peers that is mapped (mt_device_import). A window's part is an address; every rank knows those of all.
 *
 *     put_signal<BLOCK>(peer + at, mine + at, bytes, (u64 *)(peer + ready), 1, ADD);  // all threads of the block call
 *     if (!wait<BLOCK>((u64 *)(mine + ready), epoch, watch)) return;                   // on the peer: they are there
 *
 * These are the operations that kernels have of window.h's: put, put_signal, get, signal (SET, ADD), wait, test (each
 * with the six comparisons; without one, >=), fence, quiet, barrier. Those of streams are queued by the host
 * (kernels/device/window.h).
 *
 * Levels: what one thread, one warp or one block does together; all of its threads call, with equal arguments, and a
 * call begins and ends with the level's own barrier where other threads' accesses must be ordered.
 *
 * A signal is released, and a wait acquires, at the scope of the system: what threads of the level wrote before it, the
 * level that waits sees. Bulk copies (TMA, sm_90 and later) go through another proxy, so that both sides need fences:
 *
 *     bulk_put(...); bulk_commit(); bulk_quiet();     // done, and not merely read: .wait_group, not .wait_group.read
 *     proxy_fence(); signal<THREAD>(...);
 *     wait<THREAD>(...); proxy_fence(); bulk_get(...);
 *
 * No spin is without end: each polls an abort word, which this rank's host sets when another rank has given up, and the
 * GPU's clock. One that gives up sets the word, and says in `stalled` what it waited for. */
#ifndef MT_KERNELS_CUDA_WINDOW_WINDOW_CUH
#define MT_KERNELS_CUDA_WINDOW_WINDOW_CUH

enum level { THREAD, WARP, BLOCK };

struct watch {
    u64 *aborted; /* of this rank; 0: nobody has given up */
    /* [3]: the signal's address, its value, what it was compared with; [4]: the tag, if there is one; then what the
     * kernel's claim() has to say. */
    u64 *stalled;
    u64 deadline_ns; /* of one wait */
    u64 tag;         /* by which the host knows whose wait it was; 0: none */
};

/* ---- levels ---- */

template <level L> __device__ inline int lane() {
    return L == THREAD ? 0 : L == WARP ? (int)threadIdx.x % 32 : (int)threadIdx.x;
}
template <level L> __device__ inline int lanes() {
    return L == THREAD ? 1 : L == WARP ? 32 : (int)blockDim.x;
}
template <level L> __device__ inline void join() {
    if constexpr (L == WARP) __syncwarp();
    if constexpr (L == BLOCK) __syncthreads();
}

/* ---- words ---- */

__device__ inline void word_set(u64 *word, u64 value) {
    asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}
__device__ inline void word_add(u64 *word, u64 value) {
    asm volatile("red.release.sys.global.add.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}
__device__ inline u64 word_load(const u64 *word) {
    u64 value;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
}
__device__ inline u64 now_ns() {
    u64 now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    return now;
}

/* ---- put, get ---- */

/* Copy `bytes`, a multiple of 16, between aligned addresses; to or from a peer. */
template <level L> __device__ inline void put(void *to, const void *from, i64 bytes) {
    for (i64 i = lane<L>(); i < bytes / 16; i += lanes<L>()) ((uint4 *)to)[i] = ((const uint4 *)from)[i];
}
template <level L> __device__ inline void get(void *to, const void *from, i64 bytes) {
    put<L>(to, from, bytes);
    join<L>();
}

/* ---- signal, fence, quiet ---- */

/* Set a signal, or add to it, after all puts of the level. One thread releases what the barrier made it see. Over PCIe
 * peers have no atomic additions: there a counter with one writer is set. */
enum how { SET, ADD };
template <level L> __device__ inline void signal(u64 *signal, u64 value, how h) {
    join<L>();
    if (lane<L>()) return;
    if (h == ADD)
        word_add(signal, value);
    else
        word_set(signal, value);
}
template <level L>
__device__ inline void put_signal(void *to, const void *from, i64 bytes, u64 *word, u64 value, how h) {
    put<L>(to, from, bytes);
    signal<L>(word, value, h);
}

/* What the level puts from now on is seen after what it put before. The barrier is before the fence, so that each
 * thread's fence is also for what the others put. */
template <level L> __device__ inline void fence() {
    join<L>();
    asm volatile("fence.acq_rel.sys;" ::: "memory");
}
/* All of the level's puts are done: whoever hears of it, by whatever way, sees them. */
template <level L> __device__ inline void quiet() {
    join<L>();
    asm volatile("fence.sc.sys;" ::: "memory");
}

/* ---- wait, test ---- */

/* Without order: to look at a word again and again. An acquiring load also invalidates the multiprocessor's L1 cache
 * (CCTL.IVALL), which spinning warps should not do to the others. */
__device__ inline u64 word_look(const u64 *word) {
    u64 value;
    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
}
enum class cmp { EQ, NE, GT, GE, LT, LE }; /* as enum mt_cmp */
__device__ inline bool compare(u64 have, cmp c, u64 value) {
    switch (c) {
    case cmp::EQ: return have == value;
    case cmp::NE: return have != value;
    case cmp::GT: return have > value;
    case cmp::GE: return have >= value;
    case cmp::LT: return have < value;
    case cmp::LE: return have <= value;
    }
    return false;
}

/* One thread: whether the signal compares now; then what preceded it is seen. */
__device__ inline bool test(const u64 *signal, cmp c, u64 value) {
    return compare(word_load(signal), c, value);
}
__device__ inline bool test(const u64 *signal, u64 least) {
    return test(signal, cmp::GE, least);
}

/* Looks at a signal are so far apart; the abort word, which may be the host's, and the clock are looked at less often: a
 * look at the host's memory takes a microsecond, and those of several multiprocessors at one word come one after the
 * other (132 of them: 130 us). */
template <level L> __device__ inline void pause() {
    __nanosleep(L == THREAD ? 20 : 100);
}
enum { LOOKS = 512 };

/* One thread, which has waited since `begin` for a signal to compare with `value`: false: someone has given up, or now
 * does. claim(): whether this thread may say what it waited for; of many that give up at once, one. */
template <class F> __device__ inline bool keep_on(const u64 *signal, u64 value, u64 begin, const watch &w, F claim) {
    if (now_ns() - begin > w.deadline_ns && !word_load(w.aborted) && claim()) {
        w.stalled[0] = (u64)signal, w.stalled[1] = word_look(signal), w.stalled[2] = value;
        if (w.tag) w.stalled[3] = w.tag;
        word_set(w.aborted, 1);
    }
    return !word_load(w.aborted);
}
/* What the threads of a level return from a wait: what their first found. */
template <level L> __device__ inline bool agree(int fine) {
    if constexpr (L == WARP) {
        fine = __shfl_sync(~0u, fine, 0);
        __syncwarp(); /* a shuffle orders no memory */
    }
    if constexpr (L == BLOCK) fine = __syncthreads_and(lane<L>() || fine);
    return fine;
}

/* Until the signal is at least `least`; false: someone gave up, and all threads of the level return. claim(): as of
 * keep_on. Looks are as far apart as those of level P: many threads of one warp look as seldom as one that stands for
 * it. */
template <level L, level P = L, class F>
__device__ inline bool wait(const u64 *signal, u64 least, const watch &w, F claim) {
    int fine = 1;
    if (!lane<L>() && word_load(signal) < least) {
        u64 begin = now_ns();
        for (int looks = 1; word_look(signal) < least; looks++) {
            pause<P>();
            if (looks % LOOKS == 0 && !keep_on(signal, least, begin, w, claim)) {
                fine = 0;
                break;
            }
        }
        word_load(signal); /* what preceded it is seen */
    }
    return agree<L>(fine);
}
template <level L> __device__ inline bool wait(const u64 *signal, u64 least, const watch &w) {
    return wait<L>(signal, least, w, [] { return true; });
}

/* Until it compares with `value`. A loop of its own: with both in one, tuned kernels that wait for `least` become other
 * code. */
template <level L, class F> __device__ inline bool wait(const u64 *signal, cmp c, u64 value, const watch &w, F claim) {
    int fine = 1;
    if (!lane<L>() && !test(signal, c, value)) {
        u64 begin = now_ns();
        for (int looks = 1; fine && !compare(word_look(signal), c, value); looks++) {
            pause<L>();
            fine = looks % LOOKS || keep_on(signal, value, begin, w, claim);
        }
        word_load(signal); /* what preceded it is seen */
    }
    return agree<L>(fine);
}
template <level L> __device__ inline bool wait(const u64 *signal, cmp c, u64 value, const watch &w) {
    return wait<L>(signal, c, value, w, [] { return true; });
}

/* All ranks: what any of them put before is seen by all after. parts[n]: the ranks' windows; `place`: of n words, in
 * each the arrivals of one rank; `round` counts barriers, from 1. */
template <level L>
__device__ inline bool barrier(char *const *parts, i64 place, int rank, int n, u64 round, const watch &w) {
    bool fine = true;
    quiet<L>();
    for (int r = lane<L>(); r < n; r += lanes<L>()) word_set((u64 *)(parts[r] + place) + rank, round);
    for (int r = 0; r < n && fine; r++) fine = wait<L>((const u64 *)(parts[rank] + place) + r, round, w);
    return fine;
}

/* ---- bulk copies: one thread, through shared memory, 16 bytes and their multiples ---- */

#if __CUDA_ARCH__ >= 900
/* A barrier in shared memory that completes a phase when the bytes announced to it are there. */
__device__ inline void bytes_init(u64 *barrier) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(barrier)) : "memory");
}
__device__ inline void bytes_expect(u64 *barrier, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
                 : "memory");
}
/* Whether the phase of this parity is complete; waits for a while. */
__device__ inline bool bytes_there(u64 *barrier, u32 parity) {
    u32 there;
    asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                 : "=r"(there)
                 : "r"(shared_address(barrier)), "r"(parity)
                 : "memory");
    return there;
}
__device__ inline void bulk_get(void *shared, const void *from, u32 bytes, u64 *barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(shared)),
                 "l"(from), "r"(bytes), "r"(shared_address(barrier))
                 : "memory");
}
__device__ inline void bulk_put(void *to, const void *shared, u32 bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(shared_address(shared)),
                 "r"(bytes)
                 : "memory");
}
__device__ inline void bulk_commit() {
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
/* All but the last LATER groups have read their shared memory, which may be written again. */
template <int LATER> __device__ inline void bulk_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(LATER) : "memory");
}
/* All are done. */
__device__ inline void bulk_quiet() {
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
/* Between accesses of one proxy and those of the other. */
__device__ inline void proxy_fence() {
    asm volatile("fence.proxy.async;" ::: "memory");
}
#endif

#endif
