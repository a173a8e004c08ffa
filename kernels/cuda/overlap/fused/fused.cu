/* An overlapped GEMM (kernels/overlap/overlap.h) in one kernel, which reads its schedule from tables: tiles as
 * gemm_tiles.cu multiplies them, and beside them what is put, told, added and copied.
 *
 *   those of mainloop.cuh, where OUT is the type that tiles are stored as: of the result (gather), or of the wire
 *   WIRE, RESULT  types of what is sent, and of the result
 *   RANKS         of the problem
 *   SIGNALS       1: flags are raised when tiles are stored
 *   ADDS          1: some tiles add what the peer sent, and store the sum: of two ranks, all types halves of one kind
 *   PUTTER        1: rows are put to peers, by this kernel
 *   SHARE         0; or 1: tiles come in pairs of the same columns, which the two blocks of a cluster take
 *   EPILOGUE      1: a bias is added to complete sums; of a gather, whose result has a half type, 2, 3: and gelu, relu
 *                 is applied to them as they are rounded, and they are stored too; 4, 5: they are multiplied by the
 *                 slope of gelu, relu at another matrix; 0, or left out: none
 *
 * Counters give out work, so that blocks need not all be resident: *tiles*, whose waits the warp that loads keeps, each
 * before the slab in the K loop that it is for; and *pieces* of boxes: rows put to a peer (gather; putter.cuh), all of
 * K or a range of it; slots added, sums copied, a piece a warp (movers.cuh). Who finds no more tiles moves pieces.
 *
 * Tiles of partial sums pass through shared memory to their owners' slots, at once into peers' windows, while the next
 * tiles are multiplied: a thread beside sends them, and raises their flags. Where a rank's own tiles add, that thread
 * stores their sums, and sends them to the peer if it wants them too. As of puts (putter.cuh), no more is under way
 * than a link needs, or loads would queue behind it.
 *
 * The two blocks of a cluster load half of a slab of B each, for both, and so go through pairs slab by slab together;
 * an EMPTY tile loads its half as well. Who has given up takes tiles all the same, and loads them as they are: the
 * other block counts on its halves, and the counter ends it.
 *
 * Nothing that others wait for waits for them in the same epoch, but for tiles that add, whose order makes no circle
 * (tables.c), and for sums of movers: puts await at most the epoch before, so that any rank's kernel ends once its
 * peers have begun. A cluster is as one block with two tiles at a time, for each other's loads and stages are all that
 * its blocks wait for: a tile's slabs wait for those of the pair, and for pairs before it to be stored; its stores for
 * its own waits, and for the next pair's slabs, which await no flag where tiles are sent. So a pair awaits what its
 * tiles do, and the pairs before it in its cluster, which come before it in the table too. The last block sets the
 * counters back for the next launch. */
#include "kernels/cuda/overlap/fused/call.cuh"
#include "kernels/cuda/overlap/fused/epilogue.cuh"
#include "kernels/cuda/overlap/fused/movers.cuh"
#include "kernels/cuda/overlap/fused/pairs.cuh"
#include "kernels/cuda/overlap/fused/putter.cuh"
#include "kernels/cuda/overlap/fused/sender.cuh"

enum { NEVER = 0x7fffffff };
static_assert(SHARE <= 1 && (!SHARE || TOGETHER) && ACCUMULATE == 0 && !(SIGNALS && PUTTER) &&
                  (!ADDS || (LATE > 0 && SIGNALS && RANKS == 2)) && (EPILOGUE <= 1 || !SIGNALS) && (!EPILOGUE || SIGNALS || HALF_OUT),
              "");

/* ---- tiles ---- */

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

__device__ inline tile_row tile_of(const call &c, int i) {
    return i < c.ntiles ? c.tiles[i] : tile_row{};
}
/* One warp: tiles from the counter, to consumers, and their slabs, which its first lane loads. While it loads one, it
 * looks for the next; the second block of a cluster a slab later, when the number has come. After someone has given up
 * it loads all slabs as they are, for consumers count them. */
__device__ inline void load_tiles(const run &r, const maps &maps, const stages &m, hand &h, numbers &n) {
    enum { TAKE_AT = 1, LOOK_AT = 3, WAITS_AT = 5 };
    bool leads = threadIdx.x % 32 == 0, fine = true;
    ring at = {0, 0};
    place_of_hand to = {0, 0};
    taker tiles = {n, cluster_rank(), 0, 0};
    int next = 0, take_at = TAKE_AT + (int)tiles.rank;
    tile_waits waits, later;
    tile_row ahead;
    waits.begin(r, ahead = tile_of(r.c, tiles.take(r.c)));
    for (tile_row t = ahead;; t = ahead, waits = later, to.next()) {
        barrier_wait(shared_address(&h.empty[to.slot]), to.parity ^ 1);
        if (leads) {
            h.tile[to.slot] = t;
            barrier_arrive(shared_address(&h.full[to.slot]));
        }
        if (!t.more) return;
        const tensor_map *a = t.staged ? &maps.staged[r.copy] : &maps.a;
        int k = t.first;
        for (int s = 0; s < r.c.slabs; s++, at.next(), k = k + 1 < r.c.slabs ? k + 1 : 0) {
            u32 stage = m.base + (u32)(at.stage * STAGE_BYTES), barrier = m.full + 8 * (u32)at.stage;
            if (fine && (waits.next <= s || (waits.next == NEVER && waits.left))) fine = await_slab(r, waits, s);
            barrier_wait(m.empty + 8 * (u32)at.stage, at.parity ^ 1);
            if (leads) {
                bool loads = !SHARE || t.more != EMPTY; /* what an EMPTY tile multiplies is whatever is there */
                barrier_expect(barrier, loads ? STAGE_BYTES : B_BYTES);
                if (loads) load_slab<ROWS, TURN_A, false>(stage, a, t.from_row, k * SLAB, barrier, 0);
                load_slab<COLUMNS, TURN_B, SHARE == 1>(stage + A_BYTES, &maps.b, t.column, k * SLAB, barrier,
                                                       (int)tiles.rank);
            }
            __syncwarp();
            if (s == take_at) next = tiles.take(r.c);
            if (s == LOOK_AT) ahead = tile_of(r.c, next);
            if (s == WAITS_AT) later.begin(r, ahead);
        }
        if (r.c.slabs <= take_at) next = tiles.take(r.c);
        if (r.c.slabs <= LOOK_AT) ahead = tile_of(r.c, next);
        if (r.c.slabs <= WAITS_AT) later.begin(r, ahead);
    }
}

/* ---- multiplying ---- */

/* How a group passes its tiles on, and adds to them. */
struct passing {
    int group, first; /* its first row in a tile */
    int slot;         /* of the tile */
    int adding;       /* tiles that added before it */
    u32 parities;     /* bit i: of what next comes into the memory of chunk i, to be added or for a slope */
};

#if SIGNALS
using way_out = outbox;
__device__ inline way_out make_way(u32 room, int group, hand &h) {
    return {room, h, group, 0};
}
#else
using way_out = outlet;
__device__ inline way_out make_way(u32 room, int group, hand &) {
    return {room, group, 0};
}
#endif

/* What tiles add is asked for so many chunks ahead. */
enum { AHEAD = CHUNKS / 2 };

#if ADDS
struct added {
    __device__ inline u32 operator()(u32 one, u32 other) const {
        float x[2], y[2];
        unpair((const T *)0, one, x[0], x[1]);
        unpair((const T *)0, other, y[0], y[1]);
        return ::pair((const T *)0, x[0] + y[0], x[1] + y[1]);
    }
};
/* The thread that leads: what is added to chunk i of a tile, the group's chunk number `number`, goes to where the sum
 * will be. */
__device__ inline void load_added(const run &r, const maps &maps, hand &h, const passing &now, const outbox &out, int i,
                                  int number) {
    const tile_row &t = h.tile[now.slot];
    u32 barrier = shared_address(&h.added[now.group][number % CHUNKS]);
    out.await_room(number);
    barrier_expect(barrier, CHUNK_BYTES);
    load_box(out.at(number), &maps.slot[r.copy], t.column + chunk_column(i), t.row + now.first + chunk_row(i), barrier,
             0);
}
/* Chunk i, a constant, of a tile that adds: the sum is passed on. */
__device__ __forceinline__ void add_late(const run &r, const maps &maps, hand &h, passing &now, const rounded &tile,
                                         int i, outbox &out) {
    int number = out.count, slot = number % CHUNKS;
    barrier_wait(shared_address(&h.added[now.group][slot]), now.parities >> slot & 1);
    now.parities ^= 1u << slot;
    chunk_merge(tile.pair[chunk_row(i) / 64], chunk_column(i), out.at(number), added{});
    out.pass_written();
    if (i + AHEAD < LATE && threadIdx.x % 128 == 0) load_added(r, maps, h, now, out, i + AHEAD, number + AHEAD);
}
#endif
#if EPILOGUE > 3
/* The thread that leads: what the slope is taken at, of chunk i of a tile, goes to where the chunk will be: that memory
 * is free since the chunk before was passed. */
__device__ inline void load_at(const maps &maps, hand &h, const passing &now, const outlet &out, int i) {
    const tile_row &t = h.tile[now.slot];
    u32 barrier = shared_address(&h.added[now.group][out.count % CHUNKS]);
    if (SHARE && t.more == EMPTY) return;
    barrier_expect(barrier, CHUNK_BYTES);
    load_box(out.at(), &maps.to[1][t.to], t.column + chunk_column(i), t.row + now.first + chunk_row(i), barrier, 0);
}
#endif
/* A tile that is passed on, or will be while the next one is multiplied (mainloop.cuh); its row stays in its slot until
 * then. The next tile is multiplied once what this one adds has come, but before it is added. */
__device__ inline void pass_begin(const run &r, const maps &maps, hand &h, passing &now, const way_out &out) {
#if ADDS
    if (!h.tile[now.slot].adds) return;
    if (threadIdx.x % 128 == 0) {
        barrier_wait(shared_address(&h.ready[now.adding % TURNS]), (u32)(now.adding / TURNS & 1));
        proxy_fence();
#pragma unroll
        for (int i = 0; i < AHEAD; i++) load_added(r, maps, h, now, out, i, out.count + i);
    }
    now.adding++;
#endif
#if EPILOGUE > 3
    if (threadIdx.x % 128 == 0) load_at(maps, h, now, out, 0);
#endif
}
/* Where a thread that leads stores itself: what is gathered is multiplied for the rank that has it. `map`: of that
 * rank's two. */
__device__ inline void store_one(int map, const maps &maps, const hand &h, const passing &now, u32 chunk, int row,
                                 int column) {
    const tile_row &t = h.tile[now.slot];
    if (SHARE && t.more == EMPTY) return;
    store_box(chunk, &maps.to[map][t.to], t.column + column, t.row + now.first + row, 0);
}
#if EPILOGUE > 3
/* Chunk i, a constant, of a tile, times the slope. */
__device__ __forceinline__ void pass_changed(const maps &maps, hand &h, passing &now, const rounded &tile, int i,
                                             way_out &out) {
    int slot = out.count % CHUNKS;
    if (!SHARE || h.tile[now.slot].more != EMPTY) {
        barrier_wait(shared_address(&h.added[now.group][slot]), now.parities >> slot & 1);
        now.parities ^= 1u << slot;
    }
    out.pass_written([&](u32 to) { chunk_merge(tile.pair[chunk_row(i) / 64], chunk_column(i), to, sloped{}); },
                     [&](u32 chunk) { store_one(0, maps, h, now, chunk, chunk_row(i), chunk_column(i)); });
    if (i + 1 < TILE_CHUNKS && threadIdx.x % 128 == 0) load_at(maps, h, now, out, i + 1);
}
#elif EPILOGUE > 1
/* Chunk i, a constant, of a tile before its activation, and after. */
__device__ __forceinline__ void pass_changed(const maps &maps, hand &h, passing &now, const rounded &tile, int i,
                                             way_out &out) {
    store_chunk(tile, i, out, [&](u32 chunk, int row, int column) { store_one(1, maps, h, now, chunk, row, column); });
    out.pass_written([&](u32 to) { chunk_write(tile.pair[chunk_row(i) / 64], chunk_column(i), to, activated{}); },
                     [&](u32 chunk) { store_one(0, maps, h, now, chunk, chunk_row(i), chunk_column(i)); });
}
#endif
/* All threads: the slot is free. */
__device__ inline void pass_end(hand &h, const passing &now) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) barrier_arrive(shared_address(&h.empty[now.slot]));
}
/* Chunk i, a constant, of a tile that is passed on late. */
__device__ __forceinline__ void pass_late(const run &r, const maps &maps, hand &h, passing &now, const rounded &tile,
                                          int i, way_out &out) {
#if EPILOGUE > 1
    pass_changed(maps, h, now, tile, i, out);
#else
#if ADDS
    if (h.tile[now.slot].adds)
        add_late(r, maps, h, now, tile, i, out);
    else
#endif
        store_chunk(tile, i, out,
                    [&](u32 chunk, int row, int column) { store_one(r.copy, maps, h, now, chunk, row, column); });
#endif
    if (i == LATE - 1) pass_end(h, now);
}

/* `room`: shared memory of each group's chunks. */
__device__ inline void multiply_tiles(const run &r, const maps &maps, const stages &m, hand &h, u32 room) {
    int group = (int)threadIdx.x / 128, turn = 0;
    way_out out = make_way(room + (u32)(group * CHUNKS * CHUNK_BYTES), group, h);
    passing now = {group, TOGETHER * group * EACH, 0, 0, 0};
    rounded done; /* the tile before, which is passed on late */
    ring at = {0, 0};
    place_of_hand from = {0, 0};
    for (;; turn++, from.next()) {
        barrier_wait(shared_address(&h.full[from.slot]), from.parity);
        bool mine = TOGETHER || turn % CONSUMERS == group;
        if (!TOGETHER && mine && turn) await_turn(group);
        if (!h.tile[from.slot].more) break;
        if (!mine) {
            __syncwarp();
            if (threadIdx.x % 32 == 0) barrier_arrive(shared_address(&h.empty[from.slot]));
            at.skip(r.c.slabs);
            continue;
        }
        if (BIASED && (!ADDS || h.tile[from.slot].adds)) fetch_bias(r, h.tile[from.slot].column);
        float c[HALVES][COLUMNS / 8][4];
        int last = multiply_slabs(c, at, r.c.slabs, m, now.first, [&](int i) {
            if (turn) pass_late(r, maps, h, now, done, i, out);
        });
        if (!TOGETHER) give_turn(1 - group);
        multiply_finish(c, last, m);
        now.slot = from.slot;
        if (BIASED && (!ADDS || h.tile[now.slot].adds)) add_bias(r, h.tile[now.slot].column, c);
        pass_begin(r, maps, h, now, out);
        if constexpr (LATE > 0) {
            done.set(c);
        } else {
#if EPILOGUE > 1
            done.set(c);
#pragma unroll
            for (int i = 0; i < TILE_CHUNKS; i++) pass_changed(maps, h, now, done, i, out);
#else
            store_tile(c, out,
                       [&](u32 chunk, int row, int column) { store_one(r.copy, maps, h, now, chunk, row, column); });
#endif
            pass_end(h, now);
        }
    }
#pragma unroll
    for (int i = 0; i < LATE; i++)
        if (turn) pass_late(r, maps, h, now, done, i, out);
    if (!SIGNALS && threadIdx.x % 128 == 0) stores_done();
    __syncwarp();
}

extern "C" __global__ void __launch_bounds__(128 * (CONSUMERS + 1), 1)
#if SHARE
    __cluster_dims__(2, 1, 1)
#endif
        overlap_fused(const __grid_constant__ maps maps, const __grid_constant__ call c) {
    extern __shared__ char memory[];
    __shared__ alignas(8) u64 barriers[BARRIERS];
    __shared__ alignas(16) hand h;
    __shared__ putting put;
    __shared__ numbers n;
    const stages m = {align_stages(memory), shared_address(barriers), shared_address(barriers) + 8 * STAGES};
    if (threadIdx.x == 0) {
        init_stages(m);
        for (int s = 0; s < SLOTS; s++) {
            barrier_init(shared_address(&h.full[s]), 1);
            barrier_init(shared_address(&h.empty[s]), 4 * CONSUMERS + SIGNALS + ADDS);
        }
        for (int t = 0; t < TURNS; t++) barrier_init(shared_address(&h.ready[t]), 1);
        for (int g = 0; g < CONSUMERS; g++)
            for (int i = 0; i < CHUNKS; i++) {
                barrier_init(shared_address(&h.added[g][i]), 1);
                barrier_init(shared_address(&h.passed[g][i]), 1);
                barrier_init(shared_address(&h.read[g][i]), 1);
            }
        if (PUTTER) init_putting(put);
        if (SHARE) init_numbers(n);
        h.lost = 0;
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    u64 epoch = *c.epoch + !c.begun;
    const run r = {c, epoch, (int)(epoch % (u64)c.copies)};
    const u32 room = m.base + STAGES * STAGE_BYTES;
    cluster_sync();
    if (threadIdx.x >= 128 * CONSUMERS) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(ADDS ? 72 : 88));
        int warp = (int)threadIdx.x / 32 - 4 * CONSUMERS;
        bool leads = threadIdx.x % 32 == 0;
        if (warp == 0) load_tiles(r, maps, m, h, n);
        if (SIGNALS && warp == 1 && leads) send_tiles(r, maps, h, room);
        if (ADDS && warp == 2 && leads) keep_ready(r, h);
        if (PUTTER && warp == 1 && leads) put_pieces(r, put, room + (u32)(CONSUMERS * CHUNKS * CHUNK_BYTES));
        if (PUTTER && warp == 2 && leads) tell_pieces(r, put);
        __syncwarp();
        /* Of sums that tiles do not add, one warp looks for the flags: two of a block that spin for long made a GEMM of
         * 8192^3 six times as slow (two H200). */
        bool idle = SIGNALS && !ADDS && warp == 2;
        if (warp && !idle) move_pieces(r);
        __syncwarp();
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(ADDS ? 216 : 208));
        multiply_tiles(r, maps, m, h, room);
        move_pieces(r);
    }
    cluster_sync(); /* the other block has told this one all that it will */
    if (threadIdx.x || !is_last(c.work + ENDED, gridDim.x)) return;
    *c.epoch = epoch;
    c.work[TILES] = c.work[PUTS] = c.work[PIECES] = c.work[GIVEN_UP] = 0;
    for (int i = 0; i < c.nboxes && word_load(c.w.aborted); i++) c.work[DONE + i] = 0; /* pieces that were left */
}
