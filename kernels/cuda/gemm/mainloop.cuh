/* What kernels of tiles by wgmma share, on sm_90a: a ring of slabs in shared memory, filled by TMA, multiplied by two
 * groups of consumers, and tiles stored through shared memory.
 *
 *   TYPE, HALF      of a and b: bf16 or f16; as PTX names it
 *   OUT             of what is stored: TYPE, or float
 *   TURN_A, TURN_B  1: a is stored as [k, m]; b as [k, n] (0: as [n, k])
 *   ROWS, COLUMNS   of a tile
 *   HELD            columns of b that a stage holds, a multiple of 8 [COLUMNS]; the others are what follows it
 *   TOGETHER        1: both groups of consumers, of four warps each, have half of a tile's rows; 0: tiles in turns, so
 *                   that one group stores while the other multiplies
 *   STAGES          slabs of 64 terms in shared memory
 *   SHARE           0: blocks are alone. 1: the two of a cluster have tiles of the same columns, and each loads half
 *                   of b for both; 2: tiles of the same rows, and halves of a
 *   SPREAD          1: a tile's stores are spread over twice as many slabs of the next: slower for each tile, but
 *                   memory takes them evenly, and loads wait less for them
 *   STREAMED        1: what is stored leaves the L2 cache first, as it is more than fits there
 *   ACCUMULATE      1: what is stored is added to */
#ifndef MT_KERNELS_CUDA_GEMM_MAINLOOP_CUH
#define MT_KERNELS_CUDA_GEMM_MAINLOOP_CUH

#ifndef HELD
#define HELD COLUMNS
#endif

using T = TYPE;
constexpr int SLAB = 64, ROW_BYTES = 128;
constexpr int CONSUMERS = 2, EACH = TOGETHER ? ROWS / CONSUMERS : ROWS, HALVES = EACH / 64; /* 64 rows at a time */
constexpr int A_BYTES = ROWS * ROW_BYTES, B_BYTES = HELD * ROW_BYTES, STAGE_BYTES = A_BYTES + B_BYTES;
constexpr int CLUSTER = SHARE ? 2 : 1;
constexpr int WIDE = ROW_BYTES / (int)sizeof(OUT);                     /* columns that are stored at a time */
constexpr int CHUNK_BYTES = 64 * ROW_BYTES, CHUNKS = TOGETHER ? 2 : 4; /* of a group of consumers, in turns */
/* Chunks of a tile; those that are stored while the next tile is multiplied, one during each slab: of half types, which
 * take few enough registers. */
constexpr bool HALF_OUT = sizeof(OUT) == 2;
constexpr int TILE_CHUNKS = HALVES * COLUMNS / WIDE, LATE = TOGETHER && HALF_OUT ? TILE_CHUNKS : 0;
static_assert(EACH % 64 == 0 && COLUMNS % 64 == 0 && COLUMNS <= 256 && HALVES * COLUMNS <= 256, "");

struct alignas(64) tensor_map {
    u64 words[16];
};

/* ---- barriers in shared memory ---- */

__device__ inline void barrier_init(u32 barrier, u32 arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ inline void barrier_expect(u32 barrier, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ inline void barrier_arrive(u32 barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
/* At the barrier of block `rank` of the cluster. Nothing was written that the other would read: a release for the
 * cluster would cost a memory barrier in each turn. */
__device__ inline void barrier_arrive_at(u32 barrier, u32 rank) {
    asm volatile("{.reg .b32 there; mapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [there];}" ::"r"(barrier),
                 "r"(rank)
                 : "memory");
}
#define AWAIT(barrier, parity, ACQUIRE)                                                                                \
    for (u32 passed = 0; !passed;)                                                                                     \
    asm volatile("{.reg .pred p; mbarrier.try_wait.parity" ACQUIRE ".shared::cta.b64 p, [%1], %2;\n"                   \
                 "selp.u32 %0, 1, 0, p;}"                                                                              \
                 : "=r"(passed)                                                                                        \
                 : "r"(barrier), "r"(parity)                                                                           \
                 : "memory")
__device__ inline void barrier_wait(u32 barrier, u32 parity) {
    AWAIT(barrier, parity, "");
}
/* For what another block of the cluster has written, with the bytes that the barrier awaits. */
__device__ inline void barrier_wait_for_cluster(u32 barrier, u32 parity) {
    AWAIT(barrier, parity, ".acquire.cluster");
}

__device__ inline void cluster_sync() {
    if constexpr (CLUSTER > 1)
        asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
    else
        __syncthreads();
}
__device__ inline u32 cluster_rank() {
    u32 rank = 0;
    if constexpr (CLUSTER > 1) asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

/* ---- copies ---- */

/* The box of the map at column x, row y, into shared memory; mask: of the cluster's blocks that get it (0: this one),
 * each at the same address, announced at the same barrier. */
__device__ inline void load_box(u32 to, const tensor_map *map, int x, int y, u32 barrier, u16 mask) {
    if (mask)
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                     "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
                     "l"(map), "r"(x), "r"(y), "r"(barrier), "h"(mask)
                     : "memory");
    else
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                     "[%0], [%1, {%2, %3}], [%4];" ::"r"(to),
                     "l"(map), "r"(x), "r"(y), "r"(barrier)
                     : "memory");
}
#if ACCUMULATE
#define STORE "cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.tile.bulk_group"
#else
#define STORE "cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group"
#endif
__device__ inline void store_box(u32 from, const tensor_map *map, int x, int y, int part) {
#if STREAMED
    asm volatile("{.reg .b64 first; createpolicy.fractional.L2::evict_first.b64 first, 1.0;\n" STORE
                 ".L2::cache_hint [%0, {%2, %3, %4}], [%1], first;}" ::"l"(map),
                 "r"(from), "r"(x), "r"(y), "r"(part)
                 : "memory");
#else
    asm volatile(STORE " [%0, {%2, %3, %4}], [%1];" ::"l"(map), "r"(from), "r"(x), "r"(y), "r"(part) : "memory");
#endif
}
__device__ inline void stores_commit() {
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
template <int LATER> __device__ inline void stores_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(LATER) : "memory");
}
__device__ inline void stores_done() {
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

/* One slab of an operand: EXTENT rows of y, or columns, beginning at `from`. Rows of a slab have 64 terms; turned, its
 * rows are terms, in panels of 64 columns. Where it is shared, this block loads one half for both: of the rows, or of
 * the terms of each panel; the map's box is half as long. */
template <int EXTENT, int TURN, bool SHARED>
__device__ inline void load_slab(u32 to, const tensor_map *map, int from, int term, u32 barrier, int half) {
    constexpr int PANELS = TURN ? EXTENT / 64 : 1, BOX_ROWS = (TURN ? SLAB : EXTENT) / (SHARED ? 2 : 1);
    int first = SHARED ? half * BOX_ROWS : 0;
#pragma unroll
    for (int p = 0; p < PANELS; p++)
        load_box(to + (u32)((p * SLAB + first) * ROW_BYTES), map, TURN ? from + p * 64 : term,
                 TURN ? term + first : from + first, barrier, SHARED ? 3 : 0);
}

/* ---- multiplication ---- */

/* As wgmma takes an operand: the address, the distance between panels of 64 (where it is turned), and between groups of
 * eight rows, in units of 16 bytes; swizzled by 128 bytes. */
__device__ inline u64 described(u32 at) {
    const u64 panels = 64 * ROW_BYTES / 16, groups = 8 * ROW_BYTES / 16, swizzle_128 = 1;
    return (u64)(at >> 4 & 0x3fff) | panels << 16 | groups << 32 | swizzle_128 << 62;
}

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#define FOUR(c, n) "+f"(c[n][0]), "+f"(c[n][1]), "+f"(c[n][2]), "+f"(c[n][3])
#define SIXTEEN(c, n) FOUR(c, n), FOUR(c, n + 1), FOUR(c, n + 2), FOUR(c, n + 3)
#define C32(c) SIXTEEN(c, 0), SIXTEEN(c, 4)
#define C64(c) C32(c), SIXTEEN(c, 8), SIXTEEN(c, 12)
#define C96(c) C64(c), SIXTEEN(c, 16), SIXTEEN(c, 20)
#define C128(c) C96(c), SIXTEEN(c, 24), SIXTEEN(c, 28)
#define N32                                                                                                            \
    "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,"   \
    "%30,%31"
#define N64                                                                                                            \
    N32 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,"    \
        "%58,%59,%60,%61,%62,%63"
#define N96                                                                                                            \
    N64 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,"    \
        "%90,%91,%92,%93,%94,%95"
#define N128                                                                                                           \
    N96 ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,%116,%117,"  \
        "%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"

/* c[64 rows][COLUMNS] = (adds: c +) 64 x 16 by 16 x COLUMNS */
#define MULTIPLY(NAMES, LIST, A, B, ADDS)                                                                              \
    asm volatile("{.reg .pred adds; setp.ne.b32 adds, " ADDS ", 0;\n"                                                  \
                 "wgmma.mma_async.sync.aligned.m64n" TEXT(COLUMNS) "k16.f32." TEXT(HALF) "." TEXT(                     \
                     HALF) " {" NAMES "}, " A ", " B ", adds, 1, 1, " TEXT(TURN_A) ", " TEXT(TURN_B) ";}"              \
                 : LIST(c)                                                                                             \
                 : "l"(a), "l"(b), "r"(adds))
__device__ inline void multiply(float (&c)[COLUMNS / 8][4], u64 a, u64 b, int adds) {
#if COLUMNS == 64
    MULTIPLY(N32, C32, "%32", "%33", "%34");
#elif COLUMNS == 128
    MULTIPLY(N64, C64, "%64", "%65", "%66");
#elif COLUMNS == 192
    MULTIPLY(N96, C96, "%96", "%97", "%98");
#else
    MULTIPLY(N128, C128, "%128", "%129", "%130");
#endif
}
__device__ inline void multiply_begin() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ inline void multiply_end() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/* Until all but LATER groups are done. The compiler does not know that they change c: it is told here. */
template <int LATER> __device__ inline void multiply_wait(float (&c)[HALVES][COLUMNS / 8][4]) {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LATER) : "memory");
    if constexpr (LATER == 0) {
#pragma unroll
        for (int h = 0; h < HALVES; h++)
#pragma unroll
            for (int n = 0; n < COLUMNS / 8; n++)
                asm volatile("" : "+f"(c[h][n][0]), "+f"(c[h][n][1]), "+f"(c[h][n][2]), "+f"(c[h][n][3])::"memory");
    }
}

/* Groups that take turns: one begins when the other has waited for all of its slabs. (A parity tells only whether the
 * turn before has ended, so that no group may be further behind.) */
__device__ inline void await_turn(int group) {
    asm volatile("bar.sync %0, 256;" ::"r"(group + 3) : "memory");
}
__device__ inline void give_turn(int group) {
    asm volatile("bar.arrive %0, 256;" ::"r"(group + 3) : "memory");
}

/* ---- slabs ---- */

struct ring { /* a stage, and the parity of its turn */
    int stage;
    u32 parity;
    __device__ inline void next() {
        if (++stage == STAGES) stage = 0, parity ^= 1;
    }
    __device__ inline void skip(int turns) {
        stage += turns;
        parity ^= (u32)(stage / STAGES) & 1;
        stage %= STAGES;
    }
};
/* Stages from `base` on, and their barriers. */
struct stages {
    u32 base, full, empty;
};
constexpr int BARRIERS = 2 * STAGES;
__device__ inline u32 align_stages(const void *memory) {
    return (shared_address(memory) + 1023) / 1024 * 1024;
}
__device__ inline void init_stages(const stages &m) {
    for (int s = 0; s < STAGES; s++) {
        barrier_init(m.full + 8 * (u32)s, 1);
        barrier_init(m.empty + 8 * (u32)s, 4 * CLUSTER * (TOGETHER ? CONSUMERS : 1));
    }
}

/* A warp is done with a stage. It tells all blocks of the cluster that share the stage's loads. */
__device__ inline void stage_free(const stages &m, int stage) {
    u32 barrier = m.empty + 8 * (u32)stage, lane = threadIdx.x % 32;
    if constexpr (CLUSTER > 1) {
        if (lane < CLUSTER) barrier_arrive_at(barrier, lane);
    } else if (!lane) {
        barrier_arrive(barrier);
    }
}

/* Slab s of a tile: c = (after the first: c +) its product. `last` is the stage of the slab before (-1: none), which is
 * released. Returns the stage of this slab, which is still being read. */
__device__ __forceinline__ int multiply_slab(float (&c)[HALVES][COLUMNS / 8][4], ring &at, int s, int last,
                                             const stages &m, int first) {
    u32 from = m.base + (u32)(at.stage * STAGE_BYTES), right = from + A_BYTES;
    u32 left = from + (u32)(first * ROW_BYTES);
    int stage = at.stage;
    barrier_wait(m.full + 8 * (u32)stage, at.parity);
    multiply_begin();
#pragma unroll
    for (int k = 0; k < SLAB / 16; k++)
#pragma unroll
        for (int h = 0; h < HALVES; h++)
            multiply(c[h], described(left + (u32)(h * 64 * ROW_BYTES + k * (TURN_A ? 16 * ROW_BYTES : 32))),
                     described(right + (u32)(k * (TURN_B ? 16 * ROW_BYTES : 32))), s || k);
    multiply_end();
    if (last >= 0) {
        multiply_wait<1>(c);
        stage_free(m, last);
    }
    at.next();
    return stage;
}
/* c = the sum of the slabs of a tile, from `at` on; `first` is the group's first row in a stage. Meanwhile early(i) is
 * called for each i < LATE, a constant, even if the tile has fewer slabs: after every slab, or with SPREAD after every
 * second one, where there are enough. Returns the last stage, which is still being read. */
template <class E>
__device__ __forceinline__ int multiply_slabs(float (&c)[HALVES][COLUMNS / 8][4], ring &at, int slabs, const stages &m,
                                              int first, E early) {
    int last = -1, s = 0, each = SPREAD && slabs >= 2 * LATE ? 2 : 1;
#pragma unroll
    for (int i = 0; i < LATE; i++) {
        for (int end = min(each * (i + 1), slabs); s < end; s++) last = multiply_slab(c, at, s, last, m, first);
        early(i);
    }
    for (; s < slabs; s++) last = multiply_slab(c, at, s, last, m, first);
    return last;
}
__device__ inline void multiply_finish(float (&c)[HALVES][COLUMNS / 8][4], int last, const stages &m) {
    multiply_wait<0>(c);
    stage_free(m, last);
}

/* ---- storing ---- */

/* A tile of a half type, rounded: it takes half of the registers. */
struct rounded {
    u32 pair[HALVES][COLUMNS / 8][2]; /* of columns, of rows r and r + 8 */
    __device__ inline void set(const float (&c)[HALVES][COLUMNS / 8][4]) {
#pragma unroll
        for (int h = 0; h < HALVES; h++)
#pragma unroll
            for (int n = 0; n < COLUMNS / 8; n++)
#pragma unroll
                for (int below = 0; below < 2; below++)
                    pair[h][n][below] = ::pair((const T *)0, c[h][n][2 * below], c[h][n][2 * below + 1]);
    }
};

/* A group's 64 rows of WIDE columns into shared memory, from column n on; pairs of columns as `change` makes them. */
struct unchanged {
    __device__ inline u32 operator()(u32 pair) const {
        return pair;
    }
};
template <class G = unchanged>
__device__ inline void chunk_write(const u32 (&c)[COLUMNS / 8][2], int n, u32 to, G change = {}) {
    int lane = (int)threadIdx.x % 32, in = (int)threadIdx.x / 32 % 4 * 16 + lane % 16;
#pragma unroll
    for (int j = 0; j < WIDE / 16; j++) {
        const u32(&l)[2] = c[n / 8 + 2 * j], (&r)[2] = c[n / 8 + 2 * j + 1];
        u32 at = to + (u32)(in * ROW_BYTES + (((2 * j + lane / 16) ^ (in & 7)) << 4));
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(change(l[0])),
                     "r"(change(l[1])), "r"(change(r[0])), "r"(change(r[1]))
                     : "memory");
    }
}
__device__ inline void chunk_write(const float (&c)[COLUMNS / 8][4], int n, u32 to) {
    int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32 % 4;
#pragma unroll
    for (int j = 0; j < WIDE / 8; j++)
#pragma unroll
        for (int below = 0; below < 2; below++) {
            int in = warp * 16 + below * 8 + lane / 4;
            const float *x = &c[n / 8 + j][2 * below];
            u32 at = to + (u32)(in * ROW_BYTES + (((2 * j + lane % 4 / 2) ^ (in & 7)) << 4) + lane % 2 * 8);
            asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(at), "f"(x[0]), "f"(x[1]) : "memory");
        }
}

/* Of pairs of a half type what chunk_write would write, with what is in shared memory already: merge(one, other). */
template <class F> __device__ inline void chunk_merge(const u32 (&c)[COLUMNS / 8][2], int n, u32 to, F merge) {
    int lane = (int)threadIdx.x % 32, in = (int)threadIdx.x / 32 % 4 * 16 + lane % 16;
#pragma unroll
    for (int j = 0; j < WIDE / 16; j++) {
        u32 at = to + (u32)(in * ROW_BYTES + (((2 * j + lane / 16) ^ (in & 7)) << 4)), there[4];
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(there[0]), "=r"(there[1]), "=r"(there[2]), "=r"(there[3])
                     : "r"(at)
                     : "memory");
#pragma unroll
        for (int i = 0; i < 4; i++) there[i] = merge(c[n / 8 + 2 * j + i / 2][i % 2], there[i]);
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(there[0]),
                     "r"(there[1]), "r"(there[2]), "r"(there[3])
                     : "memory");
    }
}

/* Where a group's chunks go through shared memory. */
struct outlet {
    u32 room;
    int group, count;
    /* Of the next chunk. */
    __device__ inline u32 at() const {
        return room + (u32)(count % CHUNKS * CHUNK_BYTES);
    }
    /* The group writes a chunk into shared memory, by write(memory); then the thread that leads calls store(memory).
     * Before the barrier it has seen that the memory of the next chunk is free. */
    template <class W, class F> __device__ __forceinline__ void pass_written(W write, F store) {
        bool leads = threadIdx.x % 128 == 0;
        u32 to = at();
        count++;
        write(to);
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        if (leads) stores_read<CHUNKS - 2>();
        asm volatile("bar.sync %0, 128;" ::"r"(group + 1) : "memory");
        if (leads) {
            store(to);
            stores_commit();
        }
    }
    template <class C, class F> __device__ __forceinline__ void pass(const C &c, int n, F store) {
        pass_written([&](u32 to) { chunk_write(c, n, to); }, store);
    }
};

/* Chunk i of a tile, a constant: where it is in the tile; store(memory, row, column). */
__device__ constexpr int chunk_row(int i) {
    return i * WIDE / COLUMNS * 64;
}
__device__ constexpr int chunk_column(int i) {
    return i * WIDE % COLUMNS;
}
template <class O, class F> __device__ __forceinline__ void store_chunk(const rounded &tile, int i, O &out, F store) {
    out.pass(tile.pair[chunk_row(i) / 64], chunk_column(i),
             [&](u32 chunk) { store(chunk, chunk_row(i), chunk_column(i)); });
}
template <class C, class O, class F> __device__ __forceinline__ void store_all(const C (&c)[HALVES], O &out, F store) {
#pragma unroll
    for (int h = 0; h < HALVES; h++)
#pragma unroll
        for (int n = 0; n < COLUMNS; n += WIDE) out.pass(c[h], n, [&](u32 chunk) { store(chunk, h * 64, n); });
}
/* All chunks of a tile. */
template <class O, class F>
__device__ __forceinline__ void store_tile(const float (&c)[HALVES][COLUMNS / 8][4], O &out, F store) {
    if constexpr (HALF_OUT) {
        rounded tile;
        tile.set(c);
        store_all(tile.pair, out, store);
    } else {
        store_all(c, out, store);
    }
}

#endif
