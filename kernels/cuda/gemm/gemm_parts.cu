/* y[m, n] = (y +) the sum over k of a[m, k] b[k, n], where there are few tiles and k is long: the PARTS blocks of a
 * cluster multiply parts of k of one tile, as mainloop.cuh says, and add them through the cluster's shared memory, in
 * order, each some columns of the tile. So all multiprocessors read, and nothing is stored but the result.
 *
 * Blocks have one tile each: the room that its stages leave is that of its sum, in f32. */
#include "kernels/cuda/gemm/mainloop.cuh"

constexpr int THREADS = 128 * (CONSUMERS + 1), PITCH = COLUMNS + 8; /* floats of a row: no two of a store in one bank */
constexpr int EACH_COLUMNS = COLUMNS / PARTS, UNITS = EACH_COLUMNS / 4;
static_assert(SHARE == 0 && EACH_COLUMNS % 4 == 0, "");
static_assert(ROWS * PITCH * 4 <= STAGES * STAGE_BYTES, "");

struct few {
    int m, n, columns, slabs, slabs_each; /* columns: of tiles */
};

__device__ inline void parts_sync() {
    asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}
__device__ inline float4 part_of(u32 at, int part) {
    float4 x;
    asm volatile("{.reg .b32 there; mapa.shared::cluster.u32 there, %4, %5;\n"
                 "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [there];}"
                 : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
                 : "r"(at), "r"(part)
                 : "memory");
    return x;
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) __cluster_dims__(PARTS, 1, 1)
    gemm_parts(const __grid_constant__ tensor_map a, const __grid_constant__ tensor_map b, OUT *y, few w) {
    extern __shared__ char memory[];
    __shared__ alignas(8) u64 barriers[BARRIERS];
    const stages m = {align_stages(memory), shared_address(barriers), shared_address(barriers) + 8 * STAGES};
    int part = (int)blockIdx.x % PARTS, tile = (int)blockIdx.x / PARTS, group = (int)threadIdx.x / 128;
    int row0 = tile / w.columns * ROWS, column0 = tile % w.columns * COLUMNS;
    int begin = part * w.slabs_each, end = min(w.slabs, begin + w.slabs_each);
    if (threadIdx.x == 0) {
        init_stages(m);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    ring at = {0, 0};
    if (group == CONSUMERS) {
        if (threadIdx.x % 128 == 0)
            for (int s = begin; s < end; s++, at.next()) {
                u32 to = m.base + (u32)(at.stage * STAGE_BYTES), barrier = m.full + 8 * (u32)at.stage;
                barrier_wait(m.empty + 8 * (u32)at.stage, at.parity ^ 1);
                barrier_expect(barrier, STAGE_BYTES);
                load_slab<ROWS, TURN_A, false>(to, &a, row0, s * SLAB, barrier, 0);
                load_slab<COLUMNS, TURN_B, false>(to + A_BYTES, &b, column0, s * SLAB, barrier, 0);
            }
        __syncwarp();
    } else {
        int first = TOGETHER ? group * EACH : 0, lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32 % 4;
        if (TOGETHER || group == 0) {
            float c[HALVES][COLUMNS / 8][4];
            auto none = [](int) {};
            multiply_finish(c, multiply_slabs(c, at, end - begin, m, first, none), m);
            if (TOGETHER) asm volatile("bar.sync 1, 256;" ::: "memory"); /* nobody reads stages */
#pragma unroll
            for (int h = 0; h < HALVES; h++)
#pragma unroll
                for (int n = 0; n < COLUMNS / 8; n++)
#pragma unroll
                    for (int below = 0; below < 2; below++) {
                        int row = first + h * 64 + warp * 16 + below * 8 + lane / 4;
                        u32 to = m.base + (u32)(row * PITCH + n * 8 + lane % 4 * 2) * 4;
                        if (row0 + row < w.m)
                            asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to), "f"(c[h][n][2 * below]),
                                         "f"(c[h][n][2 * below + 1])
                                         : "memory");
                    }
        }
    }
    parts_sync();
    int rows = min(ROWS, w.m - row0);
    for (int i = (int)threadIdx.x; i < rows * UNITS; i += THREADS) {
        int row = i / UNITS, column = part * EACH_COLUMNS + i % UNITS * 4;
        if (column0 + column >= w.n) continue;
        float4 x[PARTS];
#pragma unroll
        for (int p = 0; p < PARTS; p++) x[p] = part_of(m.base + (u32)(row * PITCH + column) * 4, p);
        float sum[4] = {};
#pragma unroll
        for (int p = 0; p < PARTS; p++) sum[0] += x[p].x, sum[1] += x[p].y, sum[2] += x[p].z, sum[3] += x[p].w;
        OUT *to = y + (i64)(row0 + row) * w.n + column0 + column;
        vec<OUT, 4> io;
#if ACCUMULATE
        float before[4];
        io.read(to);
        io.get(before);
        for (int v = 0; v < 4; v++) sum[v] += before[v];
#endif
        io.set(sum);
        io.write(to);
    }
    parts_sync(); /* nobody reads what this block leaves */
}
