/* An overlapped GEMM (kernels/overlap/overlap.h) in one kernel, which reads its schedule from tables: tiles as
 * gemm_tiles.cu multiplies them, and movers in each block that put, add and copy meanwhile.
 *
 *   those of mainloop.cuh, where OUT is the type that tiles are stored as: of the result (gather), or of the wire
 *   WIRE, RESULT  types of what is sent, and of the result
 *   RANKS         of the problem
 *   SIGNALS       1: flags are raised when tiles are stored
 *   ADDS          1: some tiles add what the peer sent, and store the sum: of two ranks, all types halves of one kind
 *
 * Two counters give out work, so that blocks need not all be resident: *tiles*, whose waits the warp that loads keeps,
 * each before the slab in the K loop that it is for; and *pieces* of boxes that are moved, one a warp (movers.cuh):
 * rows put to a peer (gather), all of K or a range of it, slots added, sums copied. Tiles of partial sums are stored
 * into their owners' slots by TMA, at once into peers' windows, during the first slabs of the next tile; their flags
 * are raised by a warp beside when the stores are done. Who finds no more tiles moves pieces.
 *
 * Nothing that others wait for waits for them in the same epoch, but for tiles that add, whose order makes no circle
 * (tables.c): puts await at most the epoch before, so that any rank's kernel ends once its peers have begun. The last
 * block sets the counters back for the next launch. */
#include "kernels/cuda/overlap/call.cuh"
#include "kernels/cuda/overlap/movers.cuh"

/* Tiles handed to consumers, one of which may still be stored; tiles whose stores may be under way, more than are
 * handed; slabs after the last store in which it is done. */
enum { SLOTS = 4, TURNS = 8, SETTLE_AT = 8, NEVER = 0x7fffffff };
static_assert(SHARE == 0 && ACCUMULATE == 0 && (!ADDS || (LATE > 0 && SIGNALS && RANKS == 2)), "");

/* ---- tiles ---- */

/* What follows the stores of a group's tile. */
struct unsettled {
    int fine; /* the flags that the stores await are there */
    int turn; /* of the tile; -1: its stores are done, and it is said */
};
/* Tiles on their way to consumers, and after. */
struct hand {
    tile_row tile[SLOTS];
    u64 full[SLOTS], empty[SLOTS];
    u64 stored[TURNS];          /* by all groups that have a part of the tile */
    u64 ready[TURNS];           /* of tiles that add: what they add is there */
    u64 added[CONSUMERS];       /* it is in shared memory, for the group's next chunk */
    unsettled after[CONSUMERS]; /* of the thread that leads: registers are short */
    volatile int lost;          /* a tile was not stored */
};
struct place_of_hand {
    int slot;
    u32 parity;
    __device__ inline void next() {
        if (++slot == SLOTS) slot = 0, parity ^= 1;
    }
};
__device__ inline void hand_arrive(u64 *barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

/* The waits of a tile, one a lane of the warp that loads: a lane knows its flag, and whether that has its count. They
 * are looked at while the tile before is loaded, and all at once, so that loads stall only for what is not there. */
struct tile_waits {
    const u64 *flag; /* of the lane; null: none, or it is there */
    i64 least;
    int slab;     /* the first that is loaded after it */
    int next;     /* the first slab that must not be loaded yet */
    int at, left; /* waits that no lane has yet */

    __device__ inline void take(const run &r) {
        int lane = (int)threadIdx.x % 32;
        flag = nullptr, slab = NEVER;
        if (lane < left) {
            wait_row row = r.c.waits[at + lane];
            least = ((i64)r.epoch - row.lag) * row.count;
            slab = row.slab;
            flag = (const u64 *)(r.c.part[r.c.me] + row.place);
        }
        int taken = min(left, 32);
        at += taken, left -= taken;
        look();
    }
    __device__ inline void begin(const run &r, const tile_row &t) {
        at = t.first_wait, left = t.nwaits;
        take(r);
        if (!t.nwaits) return;
        __syncwarp(); /* what a lane has seen, all have, and loads by TMA: who finds all there waits for nothing more */
        proxy_fence();
    }
    __device__ inline void look() {
        if (flag && (i64)word_look(flag) >= least) {
            word_load(flag); /* what preceded it is seen */
            flag = nullptr, slab = NEVER;
        }
        next = __reduce_min_sync(~0u, slab);
    }
};

/* The warp that loads, before a slab: what the peers have put of it is there, for loads by TMA as well. False: someone
 * has given up. */
__device__ inline bool await_slab(const run &r, tile_waits &waits, int s) {
    u64 begin = now_ns();
    for (int looks = 1; waits.next <= s || (waits.next == NEVER && waits.left); looks++) {
        if (waits.next == NEVER) {
            waits.take(r);
            continue;
        }
        pause<THREAD>();
        waits.look();
        if (looks % LOOKS) continue;
        int gone = 0;
        if (waits.slab <= s) gone = !keep_on(waits.flag, (u64)waits.least, begin, r.c.w, [&] { return claim(r); });
        if (__any_sync(~0u, gone)) return false;
    }
    __syncwarp(); /* what a lane has seen, all have */
    proxy_fence();
    return true;
}

/* One warp: tiles from the counter, to consumers, and their slabs, which its first lane loads. While it loads one, it
 * looks for the next. After someone has given up it loads the tile's other slabs as they are, for consumers count them,
 * and takes no more. */
__device__ inline tile_row tile_of(const call &c, int i) {
    return i < c.ntiles ? c.tiles[i] : tile_row{};
}
__device__ inline int take_tile(const call &c) {
    int i = 0;
    if (threadIdx.x % 32 == 0) i = (int)atomicAdd(c.work + TILES, 1);
    return __shfl_sync(~0u, i, 0);
}
__device__ inline void load_tiles(const run &r, const maps &maps, const stages &m, hand &h) {
    enum { TAKE_AT = 1, LOOK_AT = 3, WAITS_AT = 5 };
    bool leads = threadIdx.x % 32 == 0, fine = true;
    ring at = {0, 0};
    place_of_hand to = {0, 0};
    int next = 0;
    tile_waits waits, later;
    tile_row ahead;
    waits.begin(r, ahead = tile_of(r.c, take_tile(r.c)));
    for (tile_row t = ahead;; t = ahead, waits = later, to.next()) {
        t.more &= (int)fine;
        barrier_wait(shared_address(&h.empty[to.slot]), to.parity ^ 1);
        if (leads) {
            h.tile[to.slot] = t;
            hand_arrive(&h.full[to.slot]);
        }
        if (!t.more) return;
        const tensor_map *a = t.staged ? &maps.staged[r.copy] : &maps.a;
        int k = t.first;
        for (int s = 0; s < r.c.slabs; s++, at.next(), k = k + 1 < r.c.slabs ? k + 1 : 0) {
            u32 stage = m.base + (u32)(at.stage * STAGE_BYTES), barrier = m.full + 8 * (u32)at.stage;
            if (fine && (waits.next <= s || (waits.next == NEVER && waits.left))) fine = await_slab(r, waits, s);
            barrier_wait(m.empty + 8 * (u32)at.stage, at.parity ^ 1);
            if (leads) {
                barrier_expect(barrier, STAGE_BYTES);
                load_slab<ROWS, TURN_A, false>(stage, a, t.from_row, k * SLAB, barrier, 0);
                load_slab<COLUMNS, TURN_B, false>(stage + A_BYTES, &maps.b, t.column, k * SLAB, barrier, 0);
            }
            __syncwarp();
            if (s == TAKE_AT) next = take_tile(r.c);
            if (s == LOOK_AT) ahead = tile_of(r.c, next);
            if (s == WAITS_AT) later.begin(r, ahead);
        }
        if (r.c.slabs <= TAKE_AT) next = take_tile(r.c);
        if (r.c.slabs <= LOOK_AT) ahead = tile_of(r.c, next);
        if (r.c.slabs <= WAITS_AT) later.begin(r, ahead);
    }
}

/* The thread that leads a group: its stores of a tile are done. */
__device__ inline void settle(hand &h, int group) {
    unsettled &u = h.after[group];
    if (!SIGNALS || u.turn < 0) return;
    stores_done();
    hand_arrive(&h.stored[u.turn % TURNS]);
    u.turn = -1;
}
/* One thread beside: what a tile adds is there; and when its stores are done, so say its flags. To acquire and to
 * release flags takes as long as a message, and would hold up a group. */
__device__ inline void keep_flags(const run &r, hand &h) {
    place_of_hand from = {0, 0};
    for (int turn = 0, adding = 0;; turn++, from.next()) {
        barrier_wait(shared_address(&h.full[from.slot]), from.parity);
        const tile_row t = h.tile[from.slot];
        hand_arrive(&h.empty[from.slot]);
        if (!t.more) return;
        int first = t.first_signal, count = t.nsignals;
        if (ADDS && t.adds) {
            if (!await_all<THREAD>(r, t.first_ready, t.nready)) h.lost = 1;
            hand_arrive(&h.ready[adding++ % TURNS]);
        }
        barrier_wait(shared_address(&h.stored[turn % TURNS]), (u32)(turn / TURNS & 1));
        proxy_fence();
        if (!h.lost) raise_all(r, first, count);
    }
}

/* How a group stores its tiles, and adds to them. */
struct storing {
    int group, first; /* its first row in a tile */
    int slot, turn;   /* of the tile */
    int adding;       /* tiles that added before it */
    u32 parity;       /* of the next chunk that is added */
};

/* The thread that leads: what is added to chunk i of a tile goes to where the group will write the chunk. */
__device__ inline void load_added(const run &r, const maps &maps, hand &h, const storing &now, int i,
                                  const outlet &out) {
    const tile_row &t = h.tile[now.slot];
    u32 barrier = shared_address(&h.added[now.group]);
    barrier_expect(barrier, CHUNK_BYTES);
    load_box(out.place(0), &maps.slot[r.copy], t.column + chunk_column(i), t.row + now.first + chunk_row(i), barrier,
             0);
}
/* A tile that is stored, or will be while the next one is multiplied (mainloop.cuh); its row stays in its slot until
 * then. No store waits for its own effect: multiplying the next tile needs no sum of this one. */
__device__ inline void store_begin(const run &r, const maps &maps, hand &h, storing &now, const outlet &out) {
    const tile_row &t = h.tile[now.slot];
    bool adds = ADDS && t.adds;
    if (threadIdx.x % 128 == 0) {
        if (adds) {
            barrier_wait(shared_address(&h.ready[now.adding % TURNS]), (u32)(now.adding / TURNS & 1));
            proxy_fence();
            load_added(r, maps, h, now, 0, out);
        } else {
            h.after[now.group].fine = await_all<THREAD>(r, t.first_ready, t.nready);
            if (!h.after[now.group].fine) h.lost = 1;
        }
    }
    now.adding += adds;
}
/* The thread that leads. */
__device__ inline void store_one(const run &r, const maps &maps, const hand &h, const storing &now, u32 chunk, int row,
                                 int column) {
    const tile_row &t = h.tile[now.slot];
    int x = t.column + column, y = t.row + now.first + row;
    if (ADDS && t.adds) {
        store_box(chunk, &maps.sum, x, y, 0);
        return;
    }
    if (!h.after[now.group].fine) return;
    if (t.to != ALL) store_box(chunk, &maps.to[r.copy][t.to], x, y, 0);
#pragma unroll
    for (int q = 0; q < RANKS; q++)
        if (t.to == ALL) store_box(chunk, &maps.to[r.copy][q], x, y, 0);
}
/* All threads: the slot is free. */
__device__ inline void store_end(hand &h, const storing &now) {
    if (threadIdx.x % 128 == 0) h.after[now.group].turn = now.turn;
    __syncwarp();
    if (threadIdx.x % 32 == 0) hand_arrive(&h.empty[now.slot]);
}
/* Chunk i, a constant, of a tile that is stored late. */
__device__ __forceinline__ void store_late(const run &r, const maps &maps, hand &h, storing &now, const rounded &tile,
                                           int i, outlet &out) {
    auto store = [&](u32 chunk, int row, int column) { store_one(r, maps, h, now, chunk, row, column); };
    if (ADDS && h.tile[now.slot].adds) {
        barrier_wait(shared_address(&h.added[now.group]), now.parity);
        now.parity ^= 1;
        add_chunk(tile, i, out, store);
        if (i < LATE - 1 && threadIdx.x % 128 == 0) load_added(r, maps, h, now, i + 1, out);
    } else {
        store_chunk(tile, i, out, store);
    }
    if (i == LATE - 1) store_end(h, now);
}

__device__ inline void multiply_tiles(const run &r, const maps &maps, const stages &m, hand &h) {
    int group = (int)threadIdx.x / 128, turn = 0;
    bool leads = threadIdx.x % 128 == 0;
    outlet out = {m.base + STAGES * STAGE_BYTES + (u32)(group * CHUNKS * CHUNK_BYTES), group, 0};
    storing now = {group, TOGETHER ? group * EACH : 0, 0, 0, 0, 0};
    rounded done; /* the tile before, which is stored late */
    if (leads) h.after[group].turn = -1;
    ring at = {0, 0};
    place_of_hand from = {0, 0};
    for (;; turn++, from.next()) {
        barrier_wait(shared_address(&h.full[from.slot]), from.parity);
        bool mine = TOGETHER || turn % CONSUMERS == group;
        if (!TOGETHER && mine && turn) await_turn(group);
        if (!h.tile[from.slot].more) break;
        if (!mine) {
            __syncwarp();
            if (threadIdx.x % 32 == 0) hand_arrive(&h.empty[from.slot]);
            at.skip(r.c.slabs);
            continue;
        }
        float c[HALVES][COLUMNS / 8][4];
        int last = multiply_slabs(
            c, at, r.c.slabs, m, now.first,
            [&](int i) {
                if (turn) store_late(r, maps, h, now, done, i, out);
            },
            [&](int i) {
                if (i == SETTLE_AT && leads) settle(h, group);
            });
        if (!TOGETHER) give_turn(1 - group);
        multiply_finish(c, last, m);
        if (leads) settle(h, group);
        now.slot = from.slot, now.turn = turn;
        store_begin(r, maps, h, now, out);
        if constexpr (LATE > 0) {
            done.set(c);
        } else {
            store_tile(c, out, [&](u32 chunk, int row, int column) { store_one(r, maps, h, now, chunk, row, column); });
            store_end(h, now);
            if (!TOGETHER && leads) settle(h, group);
        }
    }
#pragma unroll
    for (int i = 0; i < LATE; i++)
        if (turn) store_late(r, maps, h, now, done, i, out);
    if (leads) {
        settle(h, group);
        stores_done();
    }
    __syncwarp();
}

extern "C" __global__ void __launch_bounds__(128 * (CONSUMERS + 1), 1)
    overlap_fused(const __grid_constant__ maps maps, const __grid_constant__ call c) {
    extern __shared__ char memory[];
    __shared__ alignas(8) u64 barriers[BARRIERS];
    __shared__ alignas(16) hand h;
    const stages m = {align_stages(memory), shared_address(barriers), shared_address(barriers) + 8 * STAGES};
    if (threadIdx.x == 0) {
        init_stages(m);
        for (int s = 0; s < SLOTS; s++) {
            barrier_init(shared_address(&h.full[s]), 1);
            barrier_init(shared_address(&h.empty[s]), 4 * CONSUMERS + SIGNALS);
        }
        for (int t = 0; t < TURNS; t++) {
            barrier_init(shared_address(&h.stored[t]), TOGETHER ? CONSUMERS : 1);
            barrier_init(shared_address(&h.ready[t]), 1);
        }
        for (int g = 0; g < CONSUMERS; g++) barrier_init(shared_address(&h.added[g]), 1);
        h.lost = 0;
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    u64 epoch = *c.epoch + !c.begun;
    const run r = {c, epoch, (int)(epoch % (u64)c.copies)};
    __syncthreads();
    if (threadIdx.x >= 128 * CONSUMERS) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(ADDS ? 72 : 88));
        int warp = (int)threadIdx.x / 32 - 4 * CONSUMERS;
        if (warp == 0) load_tiles(r, maps, m, h);
        if (SIGNALS && warp == 1 && threadIdx.x % 32 == 0) keep_flags(r, h);
        __syncwarp();
        if (warp) move_pieces(r);
        __syncwarp();
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(ADDS ? 216 : 208));
        multiply_tiles(r, maps, m, h);
        move_pieces(r);
    }
    __syncthreads();
    if (threadIdx.x || !is_last(c.work + ENDED, gridDim.x)) return;
    *c.epoch = epoch;
    c.work[TILES] = c.work[PIECES] = c.work[GIVEN_UP] = 0;
    for (int i = 0; i < c.nboxes && word_load(c.w.aborted); i++) c.work[DONE + i] = 0; /* pieces that were left */
}
