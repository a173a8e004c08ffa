/* Pairs of tiles that pass by, in a ring of STAGES in shared memory: copied by the copy engine of a multiprocessor (TMA,
 * sm_90) as one thread asks for it, with the permutation and with zeros for rows that are not there. Each stage has two
 * barriers, "full" and "left", so that warpgroups wait for tiles and not for one another: one may be a tile ahead. */
#define AHEAD (STAGES - 2)
#define MAPS , const __grid_constant__ tensor_map qkv_map, const __grid_constant__ tensor_map dout_map
#define MAP(name) &name
#define BOX (PASS < 64 ? PASS : 64) /* rows of a copy */
static_assert(STAGES >= 3, "one at work, one that another warpgroup still has, one on its way");

struct passing {
    matrix one, two;
    int s, begin, n; /* rows; the first tile, and how many */
    u32 tiles;
    const float2 *rows; /* DKDV: there are whole tiles of them */

    __device__ inline u32 tile(int t) const {
        return tiles + (u32)(t % STAGES) * TILE_BYTES(2 * PASS);
    }
    __device__ inline u32 numbers(int t) const {
        return tiles + STAGES * TILE_BYTES(2 * PASS) + (u32)(t % STAGES * PASS * 8);
    }
    __device__ inline int row(int t) const {
        return (begin + t) * PASS;
    }
    __device__ inline u32 full(int t) const {
        return tiles + STAGES * (TILE_BYTES(2 * PASS) + (DKDV ? PASS * 8 : 0)) + (u32)(t % STAGES * 16);
    }
    __device__ inline u32 left(int t) const {
        return full(t) + 8;
    }
    __device__ inline bool asks() const {
        return threadIdx.x == 0;
    }
    __device__ inline void open() const {
        if (asks()) {
#pragma unroll
            for (int t = 0; t < STAGES; t++)
                asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\n mbarrier.init.shared::cta.b64 [%1], %2;" ::"r"(
                                 full(t)),
                             "r"(left(t)), "n"(WARPS)
                             : "memory");
            asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        }
        __syncthreads();
    }
    __device__ inline void wait(u32 barrier, int phase) const {
        asm volatile("{.reg .pred done;\n"
                     "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                     "@!done bra again;}" ::"r"(barrier),
                     "r"(phase & 1)
                     : "memory");
    }
    template <int ROWS> __device__ inline void copy_rows(u32 to, const matrix &from, int from_row, u32 barrier) const {
#pragma unroll
        for (int panel = 0; panel < HEAD / 64; panel++)
#pragma unroll
            for (int r = 0; r < ROWS; r += BOX)
                asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], "
                             "[%1, {%2, %3, %4, %5}], [%6];" ::"r"(to + (u32)(panel * ROWS * 128 + r * 128)),
                             "l"(from.map), "r"(panel * 64), "r"(from.plane), "r"(from_row + r), "r"(from.sample),
                             "r"(barrier)
                             : "memory");
    }
    __device__ inline void own(u32 to, const matrix &from, int from_row) const {
        if (asks()) copy_rows<OWN>(to, from, from_row, full(0));
    }
    __device__ inline void copy(int t, u32 more_bytes) const {
        if (!asks() || t >= n) return;
        if (t >= STAGES) wait(left(t), t / STAGES - 1);
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(full(t)),
                     "r"(TILE_BYTES(2 * PASS) + (DKDV ? PASS * 8 : 0) + more_bytes)
                     : "memory");
        copy_rows<PASS>(tile(t), one, row(t), full(t));
        copy_rows<PASS>(tile(t) + TILE_BYTES(PASS), two, row(t), full(t));
#if DKDV
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                         numbers(t)),
                     "l"(rows + row(t)), "r"(PASS * 8), "r"(full(t))
                     : "memory");
#endif
    }
    /* After own(), so many times. */
    __device__ inline void start(int owned) const {
#pragma unroll
        for (int t = 0; t < AHEAD; t++) copy(t, t ? 0 : (u32)owned * TILE_BYTES(OWN));
    }
    /* Tile t is there, and with the first all that own() asked for; the next is sent for. */
    __device__ inline void arrive(int t) const {
        copy(t + AHEAD, 0);
        wait(full(t), t / STAGES);
        __syncwarp();
    }
    /* The warp needs tile t no more. */
    __device__ inline void leave(int t) const {
        __syncwarp();
        if (LANE == 0) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(left(t)) : "memory");
    }
};
