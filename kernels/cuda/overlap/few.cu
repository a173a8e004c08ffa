/* An overlapped GEMM of few rows (kernels/overlap/overlap.h, mt_overlap_fused_few) in one kernel. To read B takes
 * longest, so it is read once, by all multiprocessors: a tile has all rows, and the roles of operands are swapped, so
 * that a result's columns are the 64 or 128 rows of wgmma, and its few rows the columns, of which only as many are
 * loaded as there are. What mainloop.cuh calls a is B, and b is A.
 *
 *   those of mainloop.cuh: ROWS of B's columns, COLUMNS the rows of A, rounded up to 64, and HELD to 8; OUT is float
 *   PARTS         blocks of a cluster, which multiply parts of K of one tile, and add them through shared memory, in
 *                 order
 *   GATHER        1: A is gathered: its rows are put to all at first, while the first slabs of B are loaded. 0: partial
 *                 sums are exchanged: put to all peers, and added in the order of ranks by all
 *   WIRE, RESULT  types of what is sent, and of the result
 *   RANKS         of the problem
 *
 * Block 0's cluster has tile 0, the next one tile 1, and so on round all clusters. Blocks await what peers send in the
 * same epoch. For a gather they need not all be resident: a counter gives out its puts, so that any block puts them all
 * before it awaits any. Of sums a cluster awaits only its own tile's, which it has sent itself; it ends then, and makes
 * room for others, in order. Where it has several, all clusters are to be resident, and few.c launches no more. */
#include "kernels/cuda/overlap/fused/call.cuh"

constexpr int THREADS = 128 * (CONSUMERS + 1), LOADER = 4 * CONSUMERS, READER = LOADER + 1; /* warps */
/* Movers: the warps that neither load nor multiply. */
constexpr int MULTIPLY = TOGETHER ? 128 * CONSUMERS : 128, MOVERS = THREADS - MULTIPLY - 32;
constexpr int PITCH = ROWS + 4;          /* floats of a row of sums: no two of a store in one bank */
constexpr int DEEP = RANKS <= 2 ? 4 : 1; /* units of a thread that are moved at a time */
constexpr int UNIT = 8, ACROSS = ROWS / UNIT, MOST = (COLUMNS * ACROSS + PARTS * THREADS - 1) / (PARTS * THREADS);
static_assert(SHARE == 0 && !TURN_B && LATE == 0 && ROWS <= 128 && sizeof(OUT) == 4, "");

struct few_maps {
    tensor_map weights, rows[2]; /* of A: of both copies of staging */
};
struct few {
    int m, slabs_each;           /* of a part */
    int pace_ns;                 /* that memory takes for a slab of all blocks */
    int row, rows, each, puts;   /* gather: this rank's rows, which are put to each rank in so many puts of `each` */
    int sends;                   /* sums: to peers, and what they send is added; 0: a part of a schedule does not */
    int flag, flags, first_flag; /* places: of the first put's, then come the others'; how many all ranks' are, and
                                    where they begin */
};

/* A tile's flags, read from the tables while it is multiplied. */
struct tile_flags {
    wait_row wait[MOST_RANKS];
    signal_row signal[MOST_RANKS];
    int nwaits, nsignals;
};
/* One warp. */
__device__ inline void read_flags(const call &c, int t, tile_flags &flags) {
    int lane = (int)threadIdx.x % 32;
    const tile_row &tile = c.tiles[t];
    if (lane < tile.nready) flags.wait[lane] = c.waits[tile.first_ready + lane];
    if (lane < tile.nsignals) flags.signal[lane] = c.signals[tile.first_signal + lane];
    if (lane == 0) flags.nwaits = tile.nready, flags.nsignals = tile.nsignals;
}

/* One thread, which has nothing else to do: it acquires at each look. */
__device__ inline bool await_at_once(const run &r, const wait_row &flag) {
    const u64 *word = (const u64 *)(r.c.part[r.c.me] + flag.place);
    i64 least = ((i64)r.epoch - flag.lag) * flag.count;
    u64 begin = now_ns();
    for (int looks = 1; (i64)word_load(word) < least; looks++)
        if (looks % LOOKS == 0 && !keep_on(word, (u64)least, begin, r.c.w, [&] { return claim(r); })) return false;
    return true;
}

__device__ inline void parts_sync() {
    if constexpr (PARTS > 1)
        asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
    else
        __syncthreads();
}
__device__ inline float4 part_of(u32 at, int part) {
    float4 x;
    if constexpr (PARTS > 1)
        asm volatile("{.reg .b32 there; mapa.shared::cluster.u32 there, %4, %5;\n"
                     "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [there];}"
                     : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
                     : "r"(at), "r"(part)
                     : "memory");
    else
        asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
                     : "r"(at)
                     : "memory");
    return x;
}

/* ---- putting rows of A ---- */

/* Put i of a rank: to a peer, itself last. */
struct put_of {
    int peer, number, first, words;
    __device__ inline put_of(const call &c, const few &f, int i) {
        peer = (c.me + 1 + i / f.puts) % RANKS, number = i % f.puts, first = number * f.each;
        words = min(f.each, f.rows - first) * c.k / UNIT;
    }
};
__device__ inline void put_words(uint4 *to, const uint4 *from, int words, int mover) {
    constexpr int AT_ONCE = 8;
    for (int first = mover; first < words; first += MOVERS * AT_ONCE) {
        uint4 word[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            if (first + i * MOVERS < words) word[i] = __ldcg(from + first + i * MOVERS);
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            if (first + i * MOVERS < words) to[first + i * MOVERS] = word[i];
    }
}
/* The movers of a block: puts from the counter, of which put i is theirs already. */
__device__ inline void put_rows(const run &r, const few &f, int mover, int i) {
    __shared__ volatile int next;
    const call &c = r.c;
    while (i < f.puts * RANKS) {
        const put_of put(c, f, i);
        put_words((uint4 *)((TYPE *)(c.part[put.peer] + c.staged[r.copy]) + (i64)(f.row + put.first) * c.k),
                  (const uint4 *)(c.a + (i64)put.first * c.k), put.words, mover);
        asm volatile("bar.sync 1, %0;" ::"n"(MOVERS) : "memory");
        if (mover == 0) word_set((u64 *)(c.part[put.peer] + f.flag) + put.number, r.epoch);
        if (mover == 32) next = (int)atomicAdd(c.work + PIECES, 1);
        asm volatile("bar.sync 1, %0;" ::"n"(MOVERS) : "memory");
        i = next;
    }
}
/* One warp: until all of the puts are there, for loads by TMA as well, or someone has given up; meanwhile its first
 * lane calls meanwhile(). */
template <class F> __device__ inline void await_rows(const run &r, const few &f, F meanwhile) {
    const u64 *flags = (const u64 *)(r.c.part[r.c.me] + f.first_flag), *own = (const u64 *)(r.c.part[r.c.me] + f.flag);
    u64 begin = now_ns();
    for (int looks = 1, fine = 1; fine; looks++) {
        const u64 *behind = nullptr;
        if (threadIdx.x % 32 == 0) meanwhile();
        __syncwarp();
#pragma unroll 4
        for (int i = (int)threadIdx.x % 32; i < f.flags; i += 32)
            if (word_load(flags + i) < r.epoch) behind = flags + i;
        if (!__any_sync(~0u, behind != nullptr)) break;
        if (looks % LOOKS == 0 && behind) {
            watch w = r.c.w;
            if (behind >= own && behind < own + f.puts) w.deadline_ns *= 2; /* a peer's is named first */
            fine = keep_on(behind, r.epoch, begin, w, [&] { return claim(r); });
        }
        fine = __all_sync(~0u, fine);
    }
    __syncwarp(); /* what a lane has seen, all have */
    proxy_fence();
    __syncwarp();
}

/* ---- loading: one warp ---- */

struct loader {
    const few_maps &maps;
    const few &f;
    const stages &m;
    int begin, end; /* the block's slabs of K */
    ring at;
    u64 start;  /* of the first tile */
    int asked;  /* slabs of the first tile whose weights have been asked for */
    bool ready; /* the rows of A are there */

    /* One lane. Of slab s of K: the weights; rows of A. */
    __device__ inline void weights(const ring &to, int column, int s) const {
        u32 barrier = m.full + 8 * (u32)to.stage;
        barrier_wait(m.empty + 8 * (u32)to.stage, to.parity ^ 1);
        barrier_expect(barrier, (u32)(A_BYTES + f.m * ROW_BYTES));
        load_slab<ROWS, TURN_A, false>(m.base + (u32)(to.stage * STAGE_BYTES), &maps.weights, column, s * SLAB, barrier,
                                       0);
    }
    __device__ inline void rows(const ring &to, const tensor_map *map, int s) const {
        load_slab<COLUMNS, 0, false>(m.base + (u32)(to.stage * STAGE_BYTES + A_BYTES), map, 0, s * SLAB,
                                     m.full + 8 * (u32)to.stage, 0);
    }
    /* Weights of the first tile, as many slabs as there are stages. Before A's rows are gathered no more are under way
     * than keep memory busy: what puts read, and flags, would queue behind them. */
    __device__ inline void ask(int column) {
        enum { AT_ONCE = 4 };
        i64 due = GATHER ? AT_ONCE + (i64)(now_ns() - start) / f.pace_ns : STAGES;
        for (int most = min(end - begin, (int)min(due, (i64)STAGES)); asked < most; asked++) {
            weights({asked, 0}, column, begin + asked);
            if (!GATHER) rows({asked, 0}, &maps.rows[0], begin + asked);
        }
    }
    /* The warp: a tile, of which slabs may have been asked for. */
    __device__ inline void load(const run &r, int column) {
        if (!ready) await_rows(r, f, [&] { ask(column); }); /* who gives up loads what is there */
        bool leads = threadIdx.x % 32 == 0;
        for (int s = begin; s < end && leads; s++, at.next()) {
            if (s >= begin + asked) weights(at, column, s);
            if (GATHER || s >= begin + asked) rows(at, &maps.rows[GATHER ? r.copy : 0], s);
        }
        ready = true, asked = 0;
        __syncwarp();
    }
};

/* ---- a tile's sums ---- */

/* A group's columns of the tile, from `first` on, to shared memory: a row of it for each row of the result. */
__device__ inline void write_sums(const float (&c)[HALVES][COLUMNS / 8][4], int first, int rows, u32 to) {
    int lane = (int)threadIdx.x % 32, column = first + (int)threadIdx.x / 32 % 4 * 16 + lane / 4;
#pragma unroll
    for (int n = 0; n < COLUMNS / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int row = n * 8 + lane % 4 * 2 + i % 2;
            u32 at = to + (u32)(row * PITCH + column + i / 2 * 8) * 4;
            if (row < rows) asm volatile("st.shared.f32 [%0], %1;" ::"r"(at), "f"(c[0][n][i]) : "memory");
        }
}

/* A unit of a tile, and whether it is in the result. */
struct spot {
    int row, column;
    bool live;
};
/* Unit i of a thread, of its block's part; `columns`: that the result has from the tile's first on. */
__device__ inline spot spot_of(int i, const few &f, int columns) {
    int u = (i * PARTS + (int)blockIdx.x % PARTS) * THREADS + (int)threadIdx.x, row = u / ACROSS,
        column = u % ACROSS * UNIT;
    return {row, column, row < f.m && column < columns};
}
/* The sum of all parts, rounded. */
template <class element> __device__ inline vec<element, UNIT> sum_of(const stages &m, const spot &p) {
    float sum[UNIT] = {};
    u32 at = m.base + (u32)(p.row * PITCH + p.column) * 4;
#pragma unroll
    for (int part = 0; part < PARTS; part++) {
        float4 x = part_of(at, part), y = part_of(at + 16, part);
        sum[0] += x.x, sum[1] += x.y, sum[2] += x.z, sum[3] += x.w;
        sum[4] += y.x, sum[5] += y.y, sum[6] += y.z, sum[7] += y.w;
    }
    vec<element, UNIT> rounded;
    rounded.set(sum);
    return rounded;
}
__device__ inline void write_tile(const call &c, const few &f, const stages &m, int column) {
#pragma unroll DEEP
    for (int i = 0; i < MOST; i++) {
        const spot p = spot_of(i, f, c.columns - column);
        if (p.live) sum_of<RESULT>(m, p).write(c.out + (i64)p.row * c.columns + column + p.column);
    }
}

/* This rank's part of a unit to all, itself last. */
__device__ inline void put_unit(const run &r, const few &f, const vec<WIRE, UNIT> &mine, i64 at, i64 slot) {
#pragma unroll
    for (int k = 1; k <= RANKS; k++)
        if (f.sends || k == RANKS)
            mine.write((WIRE *)(r.c.part[(r.c.me + k) % RANKS] + r.c.slots[r.copy]) + r.c.me * slot + at);
}
/* All ranks' parts of a unit, added in their order. */
__device__ inline void add_unit(const run &r, i64 at, i64 slot) {
    const WIRE *slots = (const WIRE *)(r.c.part[r.c.me] + r.c.slots[r.copy]) + at;
    vec<WIRE, UNIT> part[RANKS];
    float sum[UNIT] = {};
#pragma unroll
    for (int q = 0; q < RANKS; q++) {
        uint4 w = __ldcg((const uint4 *)(slots + q * slot));
        part[q].w[0] = w.x, part[q].w[1] = w.y, part[q].w[2] = w.z, part[q].w[3] = w.w;
    }
#pragma unroll
    for (int q = 0; q < RANKS; q++) {
        float x[UNIT];
        part[q].get(x);
#pragma unroll
        for (int v = 0; v < UNIT; v++) sum[v] += x[v];
    }
    vec<RESULT, UNIT> io;
    io.set(sum);
    io.write(r.c.out + at);
}
/* This rank's part of the sum to all, then what the peers have put is added. */
__device__ inline void exchange_tile(const run &r, const few &f, const stages &m, const tile_flags &flags, int column) {
    const call &c = r.c;
    i64 slot = (i64)f.m * c.columns;
#pragma unroll DEEP
    for (int i = 0; i < MOST; i++) {
        const spot p = spot_of(i, f, c.columns - column);
        if (p.live) put_unit(r, f, sum_of<WIRE>(m, p), (i64)p.row * c.columns + column + p.column, slot);
    }
    parts_sync();
    if (!f.sends) return;
    bool leads = threadIdx.x == 0, fine = true;
    if (leads && blockIdx.x % PARTS == 0)
        for (int i = 0; i < flags.nsignals; i++) raise(r, flags.signal[i]);
    for (int i = 0; leads && i < flags.nwaits; i++) fine = fine && await_at_once(r, flags.wait[i]);
    if (!__syncthreads_and(fine)) return;
#pragma unroll DEEP
    for (int i = 0; i < MOST; i++) {
        const spot p = spot_of(i, f, c.columns - column);
        if (p.live) add_unit(r, (i64)p.row * c.columns + column + p.column, slot);
    }
}

/* What one thread of a block finds out for all, while the first slabs are asked for: the epoch, and the block's first
 * put. */
struct beginning {
    u64 epoch;
    int put;
};
__device__ inline beginning find_beginning(const call &c, int warp, const beginning &found) {
    __shared__ beginning here;
    if (threadIdx.x == 32 * READER) here = found;
    __syncwarp();
    if (warp == LOADER) {
        asm volatile("bar.sync 4, 64;" ::: "memory");
    } else {
        if (warp == READER) asm volatile("bar.arrive 4, 64;" ::: "memory");
        asm volatile("bar.sync 3, %0;" ::"n"(THREADS - 32) : "memory");
    }
    return here;
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) __cluster_dims__(PARTS, 1, 1)
    overlap_few(const __grid_constant__ few_maps maps, const __grid_constant__ call c, few f) {
    extern __shared__ char memory[];
    __shared__ alignas(8) u64 barriers[BARRIERS];
    __shared__ tile_flags flags;
    const stages m = {align_stages(memory), shared_address(barriers), shared_address(barriers) + 8 * STAGES};
    int part = (int)blockIdx.x % PARTS, step = (int)gridDim.x / PARTS, warp = (int)threadIdx.x / 32;
    int begin = min(c.slabs, part * f.slabs_each), end = min(c.slabs, begin + f.slabs_each);
    int first_tile = (int)blockIdx.x / PARTS;
    loader l = {maps, f, m, begin, end, {0, 0}, now_ns(), 0, !GATHER};
    beginning found = {};
    if (threadIdx.x == 32 * READER) {
        found.epoch = *c.epoch + !c.begun;
        if (GATHER) found.put = (int)atomicAdd(c.work + PIECES, 1);
    }
    if (threadIdx.x == 32 * LOADER) {
        init_stages(m);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (threadIdx.x == 32 * LOADER) l.ask(first_tile * ROWS);
    const beginning begins = find_beginning(c, warp, found);
    u64 epoch = begins.epoch;
    const run r = {c, epoch, (int)(epoch % (u64)c.copies)};
    if (GATHER && (int)threadIdx.x >= MULTIPLY && warp != LOADER)
        put_rows(r, f, (int)threadIdx.x - MULTIPLY - (warp > LOADER ? 32 : 0), begins.put);
    /* The last block that has read the epoch, and taken its last put, sets all for the next launch. */
    if (threadIdx.x == 32 * READER && is_last(c.work + ENDED, gridDim.x))
        *c.epoch = epoch, c.work[PIECES] = c.work[GIVEN_UP] = 0;
    ring at = {0, 0};
    for (int t = first_tile; t < c.ntiles; t += step) {
        int column = t * ROWS;
        if (warp == LOADER) l.load(r, column);
        if (!GATHER && warp == READER) read_flags(c, t, flags);
        if (threadIdx.x < MULTIPLY) {
            float sums[HALVES][COLUMNS / 8][4];
            auto none = [](int) {};
            int first = (int)threadIdx.x / 128 * EACH * TOGETHER;
            multiply_finish(sums, multiply_slabs(sums, at, end - begin, m, first, none), m);
            asm volatile("bar.sync 2, %0;" ::"n"(MULTIPLY) : "memory"); /* nobody reads stages */
            write_sums(sums, first, f.m, m.base);
        }
        parts_sync();
        if constexpr (GATHER)
            write_tile(c, f, m, column);
        else
            exchange_tile(r, f, m, flags, column);
        if (t + step >= c.ntiles && (PARTS == 1 || !GATHER)) break;  /* nobody reads this block's sums any more */
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); /* before the next tile's slabs are loaded there */
        parts_sync();
    }
}
