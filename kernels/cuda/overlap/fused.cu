/* An overlapped GEMM (kernels/overlap/overlap.h) in one kernel, which reads its schedule from tables: tiles as
 * gemm_tiles.cu multiplies them, and movers in each block that put, add and copy meanwhile.
 *
 *   those of mainloop.cuh, where OUT is the type that tiles are stored as: of the result (gather), or of the wire
 *   WIRE, RESULT  types of what is sent, and of the result
 *   RANKS         of the problem
 *   SIGNALS       1: flags are raised when tiles are stored
 *   ADDS          1: some tiles add what the peer sent, and store the sum: of two ranks, all types halves of one kind
 *
 * Two counters give out work, so that blocks need not all be resident: *tiles*, whose waits one thread keeps before it
 * loads them, or the slab in the K loop that a wait is for; and *pieces* of boxes that are moved, one a warp: rows put
 * to a peer (gather), all of K or a range of it, slots added, sums copied. Tiles of partial sums are stored into their
 * owners' slots by TMA, at once into peers' windows, during the first slabs of the next tile; their flags are raised a
 * few slabs later, when the stores are done. Who finds no more tiles moves pieces.
 *
 * Nothing that others wait for waits for them in the same epoch: puts await at most the epoch before, so that any
 * rank's kernel ends once its peers have begun. The last block sets the counters back for the next launch. */
#include "kernels/cuda/gemm/mainloop.cuh"
#include "kernels/cuda/window/window.cuh"

/* Tiles handed to consumers, one of which may still be stored; tiles whose stores may be under way, more than are
 * handed; slabs after the last store in which it is done. */
enum { SLOTS = 4, TURNS = 8, SETTLE_AT = 8, NEVER = 0x7fffffff };
static_assert(SHARE == 0 && ACCUMULATE == 0 && (!ADDS || (LATE > 0 && SIGNALS && RANKS == 2)), "");

/* ---- tables: as fused.c writes them ---- */

struct wait_row {
    int place, count, lag, from; /* place: of the flag, in this rank's part of the window; from: who raises it */
    int slab;                    /* of a tile: the first that is loaded after it; those of a tile come in this order */
};
struct signal_row {
    int peer, place;
};
struct tile_row {
    int staged, from_row, first; /* from A, or from what was gathered; the slab at which it begins, and goes round */
    int adds;                    /* 1: what the peer sent is added, and the sum is stored */
    int to, row, column, more;   /* the rank whose map it is stored by, or ALL; more: 0 after the last tile */
    int first_wait, nwaits;      /* before its slabs are loaded */
    int first_ready, nready;     /* before it is stored, or before it is added to */
    int first_signal, nsignals;  /* when it is stored */
};
enum { ALL = -1 };
struct box_row {
    int kind, peer, staged, pieces;     /* peer: a put's; staged: as of a tile */
    int from_row, row, column, columns; /* row: of where it goes */
    int first_wait, nwaits, first_signal, nsignals;
};
enum { PUT, SUM, COPY_SUM, COPY_OPERAND };
struct piece_row {
    int box, row, rows, unused; /* rows of the box */
};

/* ---- the call ---- */

enum { MOST_RANKS = 8 };
struct maps {
    tensor_map a, b, staged[2];   /* of both copies of staging */
    tensor_map to[2][MOST_RANKS]; /* gather: a rank's rows of the result; else this rank's slot there, both copies */
    tensor_map slot[2], sum;      /* of tiles that add: what the peer sent, both copies; the result */
};
enum { TILES, PIECES, ENDED, GIVEN_UP, DONE }; /* counters; given out; blocks; 1: someone has said so */
struct call {
    char *part[MOST_RANKS]; /* of the window */
    const TYPE *a;
    RESULT *out;
    TYPE *whole;
    u64 *epoch; /* of the last run */
    u32 *work;  /* tiles, pieces given out; blocks that have ended; then of each box the pieces that are done */
    const tile_row *tiles;
    const box_row *boxes;
    const piece_row *pieces;
    const wait_row *waits;
    const signal_row *signals;
    i64 staged[2], slots[2], sums[2]; /* places in parts of the window, of both copies */
    int ntiles, nboxes, npieces, copies, me;
    int begun;                    /* 1: the epoch has been counted up */
    int slabs, k, columns, owned; /* of the result; rows that this rank adds */
    u32 adds;                     /* the ranks that have a part in sums */
    watch w;
};

/* What a kernel knows of its epoch. */
struct run {
    const call &c;
    u64 epoch;
    int copy;
};

/* ---- flags ---- */

__device__ inline bool claim(const run &r) {
    return !atomicExch(r.c.work + GIVEN_UP, 1);
}
template <level L> __device__ inline bool await_all(const run &r, int first, int count) {
    bool fine = true;
    for (int i = first; i < first + count && fine; i++) {
        wait_row flag = r.c.waits[i];
        i64 least = ((i64)r.epoch - flag.lag) * flag.count;
        watch w = r.c.w;
        if (flag.from == r.c.me) w.deadline_ns *= 2; /* what this rank awaits of itself awaits a peer, which is named */
        if (least > 0)
            fine = wait<L>((const u64 *)(r.c.part[r.c.me] + flag.place), (u64)least, w, [&] { return claim(r); });
    }
    return fine;
}
__device__ inline void raise_all(const run &r, int first, int count) {
    for (int i = first; i < first + count; i++) {
        signal_row flag = r.c.signals[i];
        word_add((u64 *)(r.c.part[flag.peer] + flag.place), 1);
    }
}
/* Count one more of so many, after what this thread has seen; returns whether it is the last. Who releases after that,
 * releases what came before all of them. */
__device__ inline bool is_last(u32 *done, u32 all) {
    u32 before;
    asm volatile("atom.release.sys.global.inc.u32 %0, [%1], %2;" : "=r"(before) : "l"(done), "r"(all - 1) : "memory");
    if (before != all - 1) return false;
    asm volatile("fence.acq_rel.sys;" ::: "memory");
    return true;
}

/* ---- pieces: one warp each ---- */

constexpr int UNIT = 8; /* elements that a lane moves at a time */
template <class element> struct unit {
    static constexpr int EACH_VEC = 16 / (int)sizeof(element), VECS = UNIT / EACH_VEC;
    vec<element, EACH_VEC> v[VECS];
    __device__ inline void read(const element *from) {
#pragma unroll
        for (int i = 0; i < VECS; i++) {
            uint4 word = __ldcg((const uint4 *)(from + i * EACH_VEC)); /* the L1 cache is small here */
            v[i].w[0] = word.x, v[i].w[1] = word.y, v[i].w[2] = word.z, v[i].w[3] = word.w;
        }
    }
    __device__ inline void write(element *to) const {
#pragma unroll
        for (int i = 0; i < VECS; i++) v[i].write(to + i * EACH_VEC);
    }
    __device__ inline void get(float (&x)[UNIT]) const {
#pragma unroll
        for (int i = 0; i < VECS; i++) v[i].get(x + i * EACH_VEC);
    }
    __device__ inline void set(const float (&x)[UNIT]) {
#pragma unroll
        for (int i = 0; i < VECS; i++) v[i].set(x + i * EACH_VEC);
    }
};

/* Contiguous bytes, a multiple of 16. */
__device__ inline void move_bytes(char *to, const char *from, i64 bytes) {
    constexpr int DEEP = 8;
    i64 n = bytes / 16, i = (i64)threadIdx.x % 32;
    for (; i + 32 * (DEEP - 1) < n; i += 32 * DEEP) {
        uint4 word[DEEP];
#pragma unroll
        for (int d = 0; d < DEEP; d++) word[d] = __ldcg((const uint4 *)from + i + 32 * d);
#pragma unroll
        for (int d = 0; d < DEEP; d++) ((uint4 *)to)[i + 32 * d] = word[d];
    }
    for (; i < n; i += 32) ((uint4 *)to)[i] = __ldcg((const uint4 *)from + i);
}

/* For each unit of `rows` by `columns`: read(place) DEEP times, then write(place, what was read); places in a matrix of
 * `stride` columns. */
template <int DEEP, class R, class W>
__device__ inline void move_units(int rows, int columns, int stride, R read, W write) {
    int across = columns / UNIT, n = rows * across;
    for (int i = (int)threadIdx.x % 32; i < n; i += 32 * DEEP) {
        decltype(read(0)) x[DEEP];
        int at[DEEP];
#pragma unroll
        for (int d = 0; d < DEEP; d++) {
            int u = min(i + 32 * d, n - 1), row = (int)((u32)u / (u32)across);
            at[d] = row * stride + (u - row * across) * UNIT;
            x[d] = read(at[d]);
        }
#pragma unroll
        for (int d = 0; d < DEEP; d++)
            if (i + 32 * d < n) write(at[d], x[d]);
    }
}

struct slots_unit {
    unit<WIRE> slot[RANKS];
};
/* The sum over ranks in order: into the result, or into everyone's window. */
__device__ inline void add_slots(const run &r, const box_row &box, const piece_row &p) {
    const call &c = r.c;
    i64 first = (i64)(box.from_row + p.row) * c.columns + box.column, size = (i64)c.owned * c.columns;
    i64 to = (i64)(box.row + p.row) * c.columns + box.column;
    const WIRE *slots = (const WIRE *)(c.part[c.me] + c.slots[r.copy]) + first;
    auto read = [&](int at) {
        slots_unit x;
#pragma unroll
        for (int s = 0; s < RANKS; s++)
            if (c.adds >> s & 1) x.slot[s].read(slots + s * size + at);
        return x;
    };
    auto write = [&](int at, const slots_unit &x) {
        float sum[UNIT] = {};
#pragma unroll
        for (int s = 0; s < RANKS; s++) {
            if (!(c.adds >> s & 1)) continue;
            float more[UNIT];
            x.slot[s].get(more);
#pragma unroll
            for (int i = 0; i < UNIT; i++) sum[i] += more[i];
        }
        if (box.staged) { /* sums of all rows are in windows first */
            unit<WIRE> y;
            y.set(sum);
#pragma unroll
            for (int q = 0; q < RANKS; q++) y.write((WIRE *)(c.part[q] + c.sums[r.copy]) + to + at);
        } else {
            unit<RESULT> y;
            y.set(sum);
            y.write(c.out + to + at);
        }
    };
    move_units<RANKS <= 2 ? 4 : RANKS <= 4 ? 2 : 1>(p.rows, box.columns, c.columns, read, write);
}
__device__ inline void copy_sums(const run &r, const box_row &box, const piece_row &p) {
    const call &c = r.c;
    i64 first = (i64)(box.row + p.row) * c.columns + box.column;
    const WIRE *from = (const WIRE *)(c.part[c.me] + c.sums[r.copy]) + first;
    auto read = [&](int at) {
        unit<WIRE> x;
        x.read(from + at);
        return x;
    };
    auto write = [&](int at, const unit<WIRE> &x) {
        unit<RESULT> y;
        float values[UNIT];
        x.get(values);
        y.set(values);
        y.write(c.out + first + at);
    };
    move_units<8>(p.rows, box.columns, c.columns, read, write);
}
__device__ inline void put_rows(const run &r, const box_row &box, const piece_row &p) {
    const call &c = r.c;
    const TYPE *from = c.a + (i64)(box.from_row + p.row) * c.k + box.column;
    TYPE *to = (TYPE *)(c.part[box.peer] + c.staged[r.copy]) + (i64)(box.row + p.row) * c.k + box.column;
    if (box.columns == c.k) {
        move_bytes((char *)to, (const char *)from, (i64)p.rows * c.k * (int)sizeof(TYPE));
        return;
    }
    auto read = [&](int at) {
        unit<TYPE> x;
        x.read(from + at);
        return x;
    };
    move_units<8>(p.rows, box.columns, c.k, read, [&](int at, const unit<TYPE> &x) { x.write(to + at); });
}
/* Of the operand, to where it is kept. */
__device__ inline void copy_operand(const run &r, const box_row &box, const piece_row &p) {
    const call &c = r.c;
    const TYPE *operand = box.staged ? (const TYPE *)(c.part[c.me] + c.staged[r.copy]) : c.a;
    const TYPE *from = operand + (i64)(box.from_row + p.row) * c.k + box.column;
    TYPE *to = c.whole + (i64)(box.row + p.row) * c.k + box.column;
    auto read = [&](int at) {
        unit<TYPE> x;
        x.read(from + at);
        return x;
    };
    move_units<8>(p.rows, box.columns, c.k, read, [&](int at, const unit<TYPE> &x) { x.write(to + at); });
}

__device__ inline void move_pieces(const run &r) {
    for (;;) {
        int i = 0;
        if (threadIdx.x % 32 == 0) i = (int)atomicAdd(r.c.work + PIECES, 1);
        i = __shfl_sync(~0u, i, 0);
        if (i >= r.c.npieces) return;
        const piece_row p = r.c.pieces[i];
        const box_row box = r.c.boxes[p.box];
        if (!await_all<WARP>(r, box.first_wait, box.nwaits)) return;
        __syncwarp();
        switch (box.kind) {
        case PUT: put_rows(r, box, p); break;
        case SUM: add_slots(r, box, p); break;
        case COPY_SUM: copy_sums(r, box, p); break;
        case COPY_OPERAND: copy_operand(r, box, p); break;
        }
        __syncwarp();
        if (box.nsignals && threadIdx.x % 32 == 0 && is_last(r.c.work + DONE + p.box, (u32)box.pieces))
            raise_all(r, box.first_signal, box.nsignals);
        __syncwarp();
    }
}

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
