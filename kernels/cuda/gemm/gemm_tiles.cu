/* y[m, n] = the sum over k of a[m, k] b[k, n], or that added to y: tiles by wgmma on sm_90a, as mainloop.cuh says.
 *
 * Blocks are persistent. One thread of a block's last four warps issues loads (TMA, swizzled by 128 bytes, zeros beyond
 * the edges), as many slabs ahead as there are stages; each group of consumers multiplies its rows from shared memory,
 * in registers, and stores them through shared memory (TMA again, which leaves out what is beyond the edges): tiles of
 * half types while it multiplies the next one, from rounded copies in registers, f32 while the other group multiplies,
 * or before the next tile. k may be divided into parts, whose sums are stored apart, in f32, and added in order by
 * gemm_add_parts.
 *
 * Tiles go in groups of GROUP rows of tiles, down the columns of a group first, so that the tiles of a wave share what
 * is in the L2 cache. */
#include "kernels/cuda/gemm/mainloop.cuh"

constexpr int GROUP = ROWS > 128 ? 8 : 16;

/* Tiles of rows, of columns, parts of k; slabs of k in all and of a part. */
struct tiles {
    int rows, columns, parts, slabs, slabs_each;
};

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

extern "C" __global__ void __launch_bounds__(128 * (CONSUMERS + 1), 1)
#if SHARE
    __cluster_dims__(2, 1, 1)
#endif
        gemm_tiles(const __grid_constant__ tensor_map a, const __grid_constant__ tensor_map b,
                   const __grid_constant__ tensor_map y, tiles w) {
    extern __shared__ char memory[];
    __shared__ alignas(8) u64 barriers[BARRIERS];
    const stages m = {align_stages(memory), shared_address(barriers), shared_address(barriers) + 8 * STAGES};
    u32 rank = cluster_rank();
    int group = (int)threadIdx.x / 128, items = items_of(w), step = (int)gridDim.x / CLUSTER;
    if (threadIdx.x == 0) {
        init_stages(m);
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
                    u32 to = m.base + (u32)(at.stage * STAGE_BYTES), barrier = m.full + 8 * (u32)at.stage;
                    barrier_wait(m.empty + 8 * (u32)at.stage, at.parity ^ 1);
                    barrier_expect(barrier, STAGE_BYTES);
                    load_slab<ROWS, TURN_A, SHARE == 2>(to, &a, p.row * ROWS, s * SLAB, barrier, (int)rank);
                    load_slab<COLUMNS, TURN_B, SHARE == 1>(to + A_BYTES, &b, p.column * COLUMNS, s * SLAB, barrier,
                                                           (int)rank);
                }
            }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        int turn = 0, first = TOGETHER ? group * EACH : 0; /* of its rows in a tile */
        outlet out = {m.base + STAGES * STAGE_BYTES + (u32)(group * CHUNKS * CHUNK_BYTES), group, 0};
        rounded done; /* the tile before, which is stored late */
        tile p, before = {};
        bool late = false;
        auto store = [&](const tile &of, u32 chunk, int row, int column) {
            store_box(chunk, &y, of.column * COLUMNS + column, of.row * ROWS + first + row, of.part);
        };
        auto store_late = [&](int chunk) {
            if (late)
                store_chunk(done, chunk, out, [&](u32 at, int row, int column) { store(before, at, row, column); });
        };
        for (int i = (int)blockIdx.x / CLUSTER; i < items; i += step, turn ^= 1) {
            p = tile_of(w, i, rank);
            int slabs = slab_begin(w, p.part + 1) - slab_begin(w, p.part);
            if (!TOGETHER && turn != group) {
                at.skip(slabs);
                continue;
            }
            if (!TOGETHER && i >= step) await_turn(group);
            float c[HALVES][COLUMNS / 8][4];
            int last = multiply_slabs(c, at, slabs, m, first, store_late);
            if (!TOGETHER && i + step < items) give_turn(1 - group);
            multiply_finish(c, last, m);
            if constexpr (LATE > 0)
                done.set(c), before = p, late = true;
            else
                store_tile(c, out, [&](u32 chunk, int row, int column) { store(p, chunk, row, column); });
        }
#pragma unroll
        for (int chunk = 0; chunk < LATE; chunk++) store_late(chunk);
        if (threadIdx.x % 128 == 0) stores_done();
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
