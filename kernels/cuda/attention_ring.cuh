/* Pairs of tiles that pass by, in a ring of STAGES in shared memory: copied by all threads (cp.async), who wait for one
 * another at each tile. AHEAD are on their way. DKDV's queries have {lse, delta} with them. */
#define AHEAD (STAGES - 1)
#define MAPS
#define MAP(name) NULL

struct passing {
    matrix one, two;
    int s, begin, n; /* rows; the first tile, and how many */
    u32 tiles;
    const float2 *rows; /* DKDV */

    __device__ inline u32 tile(int t) const {
        return tiles + (u32)(t % STAGES) * TILE_BYTES(2 * PASS);
    }
    __device__ inline u32 numbers(int t) const {
        return tiles + STAGES * TILE_BYTES(2 * PASS) + (u32)(t % STAGES * PASS * 8);
    }
    __device__ inline int row(int t) const {
        return (begin + t) * PASS;
    }
    __device__ inline void open() const {}
    __device__ inline void own(u32 to, const matrix &from, int from_row) const {
        copy_tile<OWN>(to, from.rows, from.stride, from_row, s);
    }
    __device__ inline void copy(int t) const {
        if (t < n) {
            copy_tile<PASS>(tile(t), one.rows, one.stride, row(t), s);
            copy_tile<PASS>(tile(t) + TILE_BYTES(PASS), two.rows, two.stride, row(t), s);
#if DKDV
            for (int i = threadIdx.x; i < PASS; i += THREADS) {
                bool there = row(t) + i < s;
                asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(numbers(t) + 8 * (u32)i),
                             "l"(there ? rows + row(t) + i : rows), "r"(there ? 8 : 0)
                             : "memory");
            }
#endif
        }
        copies_end();
    }
    /* After own(), so many times. */
    __device__ inline void start(int) const {
#pragma unroll
        for (int t = 0; t < AHEAD; t++) copy(t);
    }
    /* Tile t is there, and with the first all that own() asked for; the next is sent for. */
    __device__ inline void arrive(int t) const {
        copies_wait<AHEAD - 1>();
        __syncthreads();
        copy(t + AHEAD);
    }
    /* The warp needs tile t no more. */
    __device__ inline void leave(int) const {}
};
