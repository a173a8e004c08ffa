/* Tiles in shared memory, copies to them, and what lanes hold of scores and results.
 *
 * A tile is rows of HEAD elements, in panels of PANEL elements. The 16-byte parts of a panel's row are permuted so that
 * the same part of eight rows falls into different banks. With rows of 128 bytes this is wgmma's 128-byte swizzle. */
#if DKDV
#define OWN BLOCK_N
#define PASS BLOCK_M
#else
#define OWN BLOCK_M
#define PASS BLOCK_N
#endif
#define TILES (OWN / WARPS / 16) /* of 16 rows: what a warp keeps */
#define COLUMNS (PASS / 8)       /* of 8: of scores */
#define PARTS (HEAD / 8)         /* of 8 elements, 16 bytes: of a row */
#define WORDS ((COLUMNS + 7) / 8)
#define THREADS (32 * WARPS)
#define PANEL (WGMMA ? 64 : HEAD)
#define PANEL_PARTS (PANEL / 8)
#define TILE_BYTES(rows) ((u32)(rows)*HEAD * 2)
#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#define EACH(i, count) _Pragma("unroll") for (int i = 0; i < (count); i++)

__device__ inline u32 permuted(int row) {
    return (u32)(PANEL % 64 ? row >> 1 & 3 : row & 7);
}
/* The address of a 16-byte part of a tile of ROWS rows. */
template <int ROWS> __device__ inline u32 part_at(u32 tile, int row, int part) {
    u32 panel = tile + (u32)(part / PANEL_PARTS * (ROWS * PANEL * 2));
    return panel + (u32)row * (PANEL * 2) + (((u32)(part % PANEL_PARTS) ^ permuted(row)) << 4);
}

/* Start the copy of rows [row, row + N) of a matrix of s rows into a tile; elements outside the matrix become zero. */
template <int N> __device__ inline void copy_tile(u32 tile, const HALF *from, int stride, int row, int s) {
    for (int i = threadIdx.x; i < N * PARTS; i += THREADS) {
        int r = i / PARTS, part = i % PARTS;
        bool there = row + r < s && part * 8 < D;
        const HALF *source = there ? from + (i64)(row + r) * stride + part * 8 : from;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(part_at<N>(tile, r, part)), "l"(source),
                     "r"(there ? 16 : 0)
                     : "memory");
    }
}
__device__ inline void copies_end() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int LATER> __device__ inline void copies_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LATER) : "memory");
}

__device__ inline void load_fragment(u32 (&f)[4], u32 at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(f[0]), "=r"(f[1]), "=r"(f[2]), "=r"(f[3])
                 : "r"(at));
}
__device__ inline u32 pack(float low, float high) {
    u32 x;
    asm("cvt.rn." TEXT(HALF) "x2.f32 %0, %1, %2;" : "=r"(x) : "f"(high), "f"(low));
    return x;
}

/* A lane holds four of 16 x 8 results: element i is in row lane / 4 + (i & 2 ? 8 : 0), column lane % 4 * 2 + i % 2. */
#define LANE (threadIdx.x % 32)
#define WARP_ROW (int)(threadIdx.x / 32 * (TILES * 16))
#define LANE_ROW (int)(LANE / 4)
#define LANE_COLUMN (int)(LANE % 4 * 2)

typedef float scores[TILES][COLUMNS][4];
typedef float results[TILES][PARTS][4];
typedef u32 operands[TILES][COLUMNS / 2][4]; /* scores as left operand */

__device__ inline void as_operands(operands &to, const scores &x) {
    EACH(m, TILES)
        EACH(n, COLUMNS) {
            to[m][n / 2][n % 2 * 2] = pack(x[m][n][0], x[m][n][1]);
            to[m][n / 2][n % 2 * 2 + 1] = pack(x[m][n][2], x[m][n][3]);
        }
}

__device__ inline void clear(results &y) {
    EACH(m, TILES)
        EACH(e, PARTS)
            EACH(i, 4) y[m][e][i] = 0;
}

/* Store the results of a warp's own rows, each times its factor, to rows of a matrix of s rows; the block's first own
 * row is row `from`. They pass through the warp's rows of `tile`, whose content is overwritten. */
__device__ inline void store_rows(const results &y, const float (&factor)[TILES][2], u32 tile, HALF *to, int stride,
                                  int from, int s) {
#if WGMMA
    __syncthreads(); /* other warps of the group may still read these rows */
#else
    __syncwarp();
#endif
    EACH(m, TILES)
        EACH(e, PARTS)
            EACH(i, 2) {
                u32 at = part_at<OWN>(tile, WARP_ROW + m * 16 + i * 8 + LANE_ROW, e) + (u32)LANE_COLUMN * 2;
                u32 both = pack(y[m][e][2 * i] * factor[m][i], y[m][e][2 * i + 1] * factor[m][i]);
                asm volatile("st.shared.b32 [%0], %1;" ::"r"(at), "r"(both) : "memory");
            }
    __syncwarp();
    for (int i = LANE; i < TILES * 16 * PARTS; i += 32) {
        int row = WARP_ROW + i / PARTS, part = i % PARTS;
        if (from + row >= s || part * 8 >= D) continue;
        uint4 x;
        asm volatile("ld.shared.v4.b32 {%0,%1,%2,%3}, [%4];"
                     : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                     : "r"(part_at<OWN>(tile, row, part))
                     : "memory");
        *(uint4 *)(to + (i64)(from + row) * stride + part * 8) = x;
    }
}

/* Scores become -inf where the key does not exist, or its query does not see it. The warp's own rows begin at `first`,
 * the other tile's rows at `pass`: positions of the value. */
__device__ inline void hide(scores &x, int first, int pass, const shape &g) {
    bool in_window = !WINDOW || (DKDV ? first + g.window >= pass + PASS : pass + g.window >= first + TILES * 16);
    if (in_window && (DKDV ? !CAUSAL || pass >= first + TILES * 16 - 1
                           : pass + PASS <= KEYS(g) && !(CAUSAL && pass + PASS - 1 > first)))
        return;
    EACH(m, TILES) EACH(c, COLUMNS) EACH(i, 4) {
                int own = first + m * 16 + LANE_ROW + (i & 2) * 4, passing = pass + c * 8 + LANE_COLUMN + (i & 1);
                int key = DKDV ? own : passing, query = DKDV ? passing : own;
                if ((!DKDV && key >= KEYS(g)) || !is_seen(g, query, key)) x[m][c][i] = -INF;
            }
}

#if DROP
/* A bit for each score of the 16 rows from `own` on, set where it is dropped: four bits for each 8 columns. Where rows
 * of scores are whole Philox blocks (DROP 4), lanes that need the same blocks compute one each and exchange them. */
__device__ inline void drop_bits(u32 (&bits)[WORDS], const dropping &r, int own, int pass) {
    EACH(w, WORDS) {
        u32 mine = 0;
#pragma unroll 1
        for (int n = 0; n < (COLUMNS < 8 ? COLUMNS : 8); n++) {
            int column = pass + (w * 8 + n) * 8;
            u32 four = 0;
#if DROP == 4 && DKDV
            int query = column + LANE_COLUMN + (int)(LANE / 4 % 2), key = own + (int)(LANE / 8 % 2 * 8 + LANE / 16 * 4);
            four = r.below(r.index(query, key) >> 2);
#elif DROP == 4
            int query = own + LANE_ROW + (int)(LANE % 2 * 8), key = column + (int)(LANE / 2 % 2 * 4);
            four = r.below(r.index(query, key) >> 2);
#else
#pragma unroll 1
            for (int i = 0; i < 4; i++) {
                int row = own + LANE_ROW + (i & 2) * 4, at = column + LANE_COLUMN + (i & 1);
                four |= (DKDV ? r.one(at, row) : r.one(row, at)) << i;
            }
#endif
            mine |= four << (4 * n);
        }
#if DROP == 4 && DKDV
        bits[w] = 0;
        EACH(i, 4)
            bits[w] |= (__shfl_sync(~0u, mine, (LANE & ~12u) | i << 2) >> LANE / 4 % 4 & 0x11111111u) << i;
#elif DROP == 4
        u32 other = __shfl_xor_sync(~0u, mine, 1), low = 0x33333333u;
        bits[w] = LANE % 2 ? (other >> 2 & low) | (mine & ~low) : (mine & low) | (other & low) << 2;
#else
        bits[w] = mine;
#endif
    }
}
#define IS_DROPPED(bits, n, i) ((bits)[(n) / 8] >> (4 * ((n) % 8) + (i)) & 1u)
#endif
