/* y[m, n] = the sum over k of a[m, k] b[k, n], or that added to y: tiles by wgmma on sm_90a.
 *
 *   TYPE, HALF      of a and b: bf16 or f16; as PTX names it
 *   OUT             of y: TYPE, or float
 *   TURN_A, TURN_B  1: a is stored as [k, m]; b as [k, n] (0: as [n, k])
 *   ROWS, COLUMNS   of a tile
 *   TOGETHER        1: both groups of consumers, of four warps each, have half of a tile's rows; 0: tiles in turns, so
 *                   that one group stores while the other multiplies
 *   STAGES          slabs of 64 terms in shared memory
 *   SHARE           0: blocks are alone. 1: the two of a cluster have tiles of the same columns, and each loads half
 *                   of b for both; 2: tiles of the same rows, and halves of a
 *   ADD             1: y is added to
 *
 * Blocks are persistent. One thread of a block's last four warps issues loads (TMA, swizzled by 128 bytes, zeros beyond
 * the edges), as many slabs ahead as there are stages; each group of consumers multiplies its rows from shared memory,
 * in registers, and stores them through shared memory (TMA again, which leaves out what is beyond the edges) while
 * loads for the next tile go on. k may be divided into parts, whose sums are stored apart, in f32, and added in order
 * by gemm_add_parts.
 *
 * Tiles go in groups of GROUP rows of tiles, down the columns of a group first, so that the tiles of a wave share what
 * is in the L2 cache. */
using T = TYPE;
constexpr int SLAB = 64, ROW_BYTES = 128, GROUP = ROWS > 128 ? 8 : 16;
constexpr int CONSUMERS = 2, EACH = TOGETHER ? ROWS / CONSUMERS : ROWS, HALVES = EACH / 64; /* 64 rows at a time */
constexpr int A_BYTES = ROWS * ROW_BYTES, B_BYTES = COLUMNS * ROW_BYTES, STAGE_BYTES = A_BYTES + B_BYTES;
constexpr int CLUSTER = SHARE ? 2 : 1;
constexpr int WIDE = ROW_BYTES / (int)sizeof(OUT); /* columns that are stored at a time */
constexpr int CHUNK_BYTES = 64 * ROW_BYTES, CHUNKS = TOGETHER ? 2 : 4; /* of a group of consumers, in turns */
static_assert(EACH % 64 == 0 && COLUMNS % 64 == 0 && COLUMNS <= 256 && HALVES * COLUMNS <= 256, "");

struct alignas(64) tensor_map {
    u64 words[16];
};
/* Tiles of rows, of columns, parts of k; slabs of k in all and of a part. */
struct tiles {
    int rows, columns, parts, slabs, slabs_each;
};

/* ---- barriers in shared memory ---- */

__device__ inline u32 shared_address(const void *p) {
    return (u32)__cvta_generic_to_shared(p);
}
__device__ inline void barrier_init(u32 barrier, u32 arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ inline void barrier_expect(u32 barrier, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
/* At the barrier of block `rank` of the cluster. Nothing was written that the other would read: a release for the
 * cluster would cost a memory barrier in each turn. */
__device__ inline void barrier_arrive(u32 barrier, u32 rank) {
    asm volatile("{.reg .b32 there; mapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [there];}" ::"r"(barrier),
                 "r"(rank)
                 : "memory");
}
__device__ inline void barrier_wait(u32 barrier, u32 parity) {
    u32 passed;
    do {
        asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                     "selp.u32 %0, 1, 0, p;}"
                     : "=r"(passed)
                     : "r"(barrier), "r"(parity)
                     : "memory");
    } while (!passed);
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
#if ADD
#define STORE "cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.tile.bulk_group"
#else
#define STORE "cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group"
#endif
__device__ inline void store_box(u32 from, const tensor_map *map, int x, int y, int part) {
    asm volatile(STORE " [%0, {%2, %3, %4}], [%1];\ncp.async.bulk.commit_group;" ::"l"(map), "r"(from), "r"(x), "r"(y),
                 "r"(part)
                 : "memory");
}
template <int LATER> __device__ inline void stores_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(LATER) : "memory");
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

/* c[64 rows][COLUMNS] += 64 x 16 by 16 x COLUMNS */
#define MULTIPLY(NAMES, LIST, A, B)                                                                                    \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" TEXT(COLUMNS) "k16.f32." TEXT(HALF) "." TEXT(HALF) " {" NAMES     \
                 "}, " A ", " B ", 1, 1, 1, " TEXT(TURN_A) ", " TEXT(TURN_B) ";"                                       \
                 : LIST(c)                                                                                             \
                 : "l"(a), "l"(b))
__device__ inline void multiply(float (&c)[COLUMNS / 8][4], u64 a, u64 b) {
#if COLUMNS == 64
    MULTIPLY(N32, C32, "%32", "%33");
#elif COLUMNS == 128
    MULTIPLY(N64, C64, "%64", "%65");
#elif COLUMNS == 192
    MULTIPLY(N96, C96, "%96", "%97");
#else
    MULTIPLY(N128, C128, "%128", "%129");
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

/* ---- which tile ---- */

struct tile {
    int row, column, part; /* of tiles */
};
/* Item i of those of a cluster; its blocks have neighbouring tiles. */
__device__ inline tile tile_of(const tiles &w, int i, u32 rank) {
    constexpr int DOWN = SHARE == 1 ? 2 : 1, ACROSS = SHARE == 2 ? 2 : 1;
    int rows = (w.rows + DOWN - 1) / DOWN, columns = (w.columns + ACROSS - 1) / ACROSS;
    int part = i / (rows * columns), in = i % (rows * columns);
    int group = in / (GROUP / DOWN * columns), first = group * (GROUP / DOWN);
    int height = min(GROUP / DOWN, rows - first), at = in - first * columns;
    return {(first + at % height) * DOWN + (SHARE == 1 ? (int)rank : 0),
            at / height * ACROSS + (SHARE == 2 ? (int)rank : 0), part};
}
__device__ inline int items_of(const tiles &w) {
    constexpr int DOWN = SHARE == 1 ? 2 : 1, ACROSS = SHARE == 2 ? 2 : 1;
    return (w.rows + DOWN - 1) / DOWN * ((w.columns + ACROSS - 1) / ACROSS) * w.parts;
}
/* The slabs of a part: [begin, end). */
__device__ inline int slab_begin(const tiles &w, int part) {
    return min(w.slabs, part * w.slabs_each);
}

/* Groups that take turns: one begins when the other has waited for all of its slabs. (A parity tells only whether the
 * turn before has ended, so that no group may be further behind.) */
__device__ inline void await_turn(int group) {
    asm volatile("bar.sync %0, 256;" ::"r"(group + 3) : "memory");
}
__device__ inline void give_turn(int group) {
    asm volatile("bar.arrive %0, 256;" ::"r"(group + 3) : "memory");
}

/* ---- the kernel ---- */

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

/* Before the barrier of one chunk, the thread that leads has seen that the memory of the next one is free. */
__device__ inline void store_tile(const float (&c)[HALVES][COLUMNS / 8][4], u32 room, const tensor_map *y, int row,
                                  int column, int part, int group, int &count) {
    int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32 % 4;
    bool leads = threadIdx.x % 128 == 0;
#pragma unroll
    for (int h = 0; h < HALVES; h++)
#pragma unroll
        for (int n = 0; n < COLUMNS; n += WIDE, count++) {
            u32 to = room + (u32)(count % CHUNKS * CHUNK_BYTES);
            if constexpr (sizeof(OUT) == 2) {
                int in = warp * 16 + lane % 16;
#pragma unroll
                for (int j = 0; j < WIDE / 16; j++) {
                    const float(&l)[4] = c[h][n / 8 + 2 * j], (&r)[4] = c[h][n / 8 + 2 * j + 1];
                    u32 at = to + (u32)(in * ROW_BYTES + (((2 * j + lane / 16) ^ (in & 7)) << 4));
                    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at),
                                 "r"(pair((const T *)0, l[0], l[1])), "r"(pair((const T *)0, l[2], l[3])),
                                 "r"(pair((const T *)0, r[0], r[1])), "r"(pair((const T *)0, r[2], r[3]))
                                 : "memory");
                }
            } else {
#pragma unroll
                for (int j = 0; j < WIDE / 8; j++)
#pragma unroll
                    for (int below = 0; below < 2; below++) {
                        int in = warp * 16 + below * 8 + lane / 4;
                        const float *x = &c[h][n / 8 + j][2 * below];
                        u32 at = to + (u32)(in * ROW_BYTES + (((2 * j + lane % 4 / 2) ^ (in & 7)) << 4) + lane % 2 * 8);
                        asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(at), "f"(x[0]), "f"(x[1]) : "memory");
                    }
            }
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
            if (leads) stores_read<CHUNKS - 2>(); /* what the next chunk overwrites */
            asm volatile("bar.sync %0, 128;" ::"r"(group + 1) : "memory");
            if (leads) store_box(to, y, column + n, row + h * 64, part);
        }
}

extern "C" __global__ void __launch_bounds__(128 * (CONSUMERS + 1), 1)
#if SHARE
    __cluster_dims__(2, 1, 1)
#endif
        gemm_tiles(const __grid_constant__ tensor_map a, const __grid_constant__ tensor_map b,
                   const __grid_constant__ tensor_map y, tiles w) {
    extern __shared__ char memory[];
    __shared__ alignas(8) u64 barriers[2 * STAGES];
    u32 base = (shared_address(memory) + 1023) / 1024 * 1024, rank = cluster_rank();
    u32 full = shared_address(barriers), empty = full + 8 * STAGES;
    int group = (int)threadIdx.x / 128, items = items_of(w), step = (int)gridDim.x / CLUSTER;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            barrier_init(full + 8 * (u32)s, 1);
            barrier_init(empty + 8 * (u32)s, 4 * CLUSTER * (TOGETHER ? CONSUMERS : 1));
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    cluster_sync();
    ring at = {0, 0};
    if (group == CONSUMERS) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x % 128 == 0)
            for (int i = (int)blockIdx.x / CLUSTER; i < items; i += step) {
                tile p = tile_of(w, i, rank);
                int end = slab_begin(w, p.part + 1);
                for (int s = slab_begin(w, p.part); s < end; s++, at.next()) {
                    u32 to = base + (u32)(at.stage * STAGE_BYTES), barrier = full + 8 * (u32)at.stage;
                    barrier_wait(empty + 8 * (u32)at.stage, at.parity ^ 1);
                    barrier_expect(barrier, STAGE_BYTES);
                    load_slab<ROWS, TURN_A, SHARE == 2>(to, &a, p.row * ROWS, s * SLAB, barrier, (int)rank);
                    load_slab<COLUMNS, TURN_B, SHARE == 1>(to + A_BYTES, &b, p.column * COLUMNS, s * SLAB, barrier,
                                                           (int)rank);
                }
            }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        u32 room = base + STAGES * STAGE_BYTES + (u32)(group * CHUNKS * CHUNK_BYTES);
        bool arrives = threadIdx.x % 32 < CLUSTER;
        int stored = 0, turn = 0, first = TOGETHER ? group * EACH : 0; /* of its rows in a tile */
        for (int i = (int)blockIdx.x / CLUSTER; i < items; i += step, turn ^= 1) {
            tile p = tile_of(w, i, rank);
            int begin = slab_begin(w, p.part), end = slab_begin(w, p.part + 1), last = -1;
            if (!TOGETHER && turn != group) {
                at.skip(end - begin);
                continue;
            }
            if (!TOGETHER && i >= step) await_turn(group);
            float c[HALVES][COLUMNS / 8][4] = {};
            for (int s = begin; s < end; s++, at.next()) {
                u32 from = base + (u32)(at.stage * STAGE_BYTES), right = from + A_BYTES;
                u32 left = from + (u32)(first * ROW_BYTES);
                barrier_wait(full + 8 * (u32)at.stage, at.parity);
                multiply_begin();
#pragma unroll
                for (int k = 0; k < SLAB / 16; k++)
#pragma unroll
                    for (int h = 0; h < HALVES; h++)
                        multiply(c[h], described(left + (u32)(h * 64 * ROW_BYTES + k * (TURN_A ? 16 * ROW_BYTES : 32))),
                                 described(right + (u32)(k * (TURN_B ? 16 * ROW_BYTES : 32))));
                multiply_end();
                if (last >= 0) {
                    multiply_wait<1>(c);
                    if (arrives) barrier_arrive(empty + 8 * (u32)last, threadIdx.x % 32);
                }
                last = at.stage;
            }
            if (!TOGETHER && i + step < items) give_turn(1 - group);
            multiply_wait<0>(c);
            if (arrives) barrier_arrive(empty + 8 * (u32)last, threadIdx.x % 32);
            store_tile(c, room, &y, p.row * ROWS + first, p.column * COLUMNS, p.part, group, stored);
        }
        if (threadIdx.x % 128 == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
    __syncwarp();
    cluster_sync();
}

/* y[n] = (y +) the sum of sums[parts][n], in order; n is a multiple of 4. */
extern "C" __global__ void gemm_add_parts(const float *sums, OUT *y, i64 n, int parts) {
    i64 i = ((i64)blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (i >= n) return;
    float sum[4] = {0, 0, 0, 0};
    for (int p = 0; p < parts; p++) {
        float4 more = *(const float4 *)(sums + p * n + i);
        sum[0] += more.x, sum[1] += more.y, sum[2] += more.z, sum[3] += more.w;
    }
    vec<OUT, 4> io;
#if ADD_PARTS
    float before[4];
    io.read(y + i);
    io.get(before);
    for (int v = 0; v < 4; v++) sum[v] += before[v];
#endif
    io.set(sum);
    io.write(y + i);
}
