/* A ring of STAGES pairs of tiles in shared memory: the loop reads one pair while the copies of the next AHEAD are in
 * flight. In DKDV, {lse, delta} of the queries are copied with them. */
#define AHEAD (STAGES - 1)
#if PACKED
#define OF_EACH
#else
#define OF_EACH , each
#endif
struct passing {
    const HALF *one, *two;
    int one_stride, two_stride, s, begin, n; /* rows; the first tile, and access many */
    u32 tiles;
    const float2 *rows; /* DKDV */
#if !PACKED
    int each; /* DKDV: tiles of a head of queries; the next head's follow */
#endif

    __device__ inline u32 tile(int t) const {
        return tiles + (u32)(t % STAGES) * TILE_BYTES(2 * PASS);
    }
    __device__ inline u32 numbers(int t) const {
        return tiles + STAGES * TILE_BYTES(2 * PASS) + (u32)(t % STAGES * PASS * 8);
    }
#if DKDV && !PACKED
    __device__ inline int row(int t) const {
        return (begin + t % each) * PASS;
    }
    /* The rings of the t-th tile's head, which its tiles are a part of. */
    __device__ inline passing of_head(int t) const {
        passing p = *this;
        int head = t / each;
        p.one += head * D, p.two += head * D, p.rows += (i64)head * s;
        return p;
    }
#else
    __device__ inline int row(int t) const {
        return (begin + t) * PASS;
    }
    __device__ inline const passing &of_head(int) const {
        return *this;
    }
#endif
    __device__ inline void copy(int t) const {
        if (t < n) of_head(t).copy_pair(t);
        copies_end();
    }
    __device__ inline void copy_pair(int t) const {
        copy_tile<PASS>(tile(t), one, one_stride, row(t), s);
        copy_tile<PASS>(tile(t) + TILE_BYTES(PASS), two, two_stride, row(t), s);
#if DKDV
        for (int i = threadIdx.x; i < PASS; i += THREADS) {
            bool there = row(t) + i < s;
            asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(numbers(t) + 8 * (u32)i),
                         "l"(there ? rows + row(t) + i : rows), "r"(there ? 8 : 0)
                         : "memory");
        }
#endif
    }
    __device__ inline void start() const {
#pragma unroll
        for (int t = 0; t < AHEAD; t++) copy(t);
    }
    /* Wait until all threads see pair t; then start the next copy. */
    __device__ inline void arrive(int t) const {
        copies_wait<AHEAD - 1>();
        mma_see_copies();
        __syncthreads();
        copy(t + AHEAD);
    }
};
