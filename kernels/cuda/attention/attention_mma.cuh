/* Multiplication of tiles by mma.sync, a warp's 16 x 8 at a time: sm_80 and later. It is synchronous, so that the
 * functions that wgmma needs (attention_wgmma.cuh) do nothing. */
#define GROUP_FIRST(first) (first)
#define GROUP_LAST(first) ((first) + TILES * 16 - 1) /* the last row of those that multiply together */

__device__ inline void mma_see_copies() {
}
__device__ inline void mma_commit() {
}
template <int LATER> __device__ inline void mma_wait() {
}
template <class registers> __device__ inline void mma_barrier(registers &) {
}

__device__ inline void load_transposed(u32 (&f)[4], u32 at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(f[0]), "=r"(f[1]), "=r"(f[2]), "=r"(f[3])
                 : "r"(at));
}
__device__ inline void multiply(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32." TEXT(HALF) "." TEXT(
            HALF) ".f32 "
                  "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* A warp's own rows of a tile, as left operand. */
struct own_rows {
    u32 at, flip;
#if KEEP
    u32 kept[TILES][HEAD / 16][4];
#endif
    __device__ inline void fetch(u32 (&f)[4], int m, int k) const {
        load_fragment(f, at + (u32)(m * 16 * HEAD * 2) + (flip ^ (u32)(k << 5)));
    }
    __device__ inline own_rows(u32 tile) {
        int row = WARP_ROW + (int)(LANE % 16);
        at = tile + (u32)row * (HEAD * 2), flip = (LANE / 16 ^ permuted(row)) << 4;
    }
    /* To be called when the tile has arrived. */
    __device__ inline void keep() {
#if KEEP
#pragma unroll
        for (int m = 0; m < TILES; m++)
#pragma unroll
            for (int k = 0; k < HEAD / 16; k++) fetch(kept[m][k], m, k);
#endif
    }
    __device__ inline void get(u32 (&f)[4], int m, int k) const {
#if KEEP
        for (int i = 0; i < 4; i++) f[i] = kept[m][k][i];
#else
        fetch(f, m, k);
#endif
    }
};

/* x[row][column] = the sum over e of own[row][e] tile[column][e] */
__device__ inline void rows_by_rows(scores &x, const own_rows &own, u32 tile) {
    int row = (int)(LANE % 8 + LANE / 16 * 8);
    u32 at = tile + (u32)row * (HEAD * 2), flip = (LANE / 8 % 2 ^ permuted(row)) << 4;
#pragma unroll
    for (int m = 0; m < TILES; m++)
#pragma unroll
        for (int n = 0; n < COLUMNS; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) x[m][n][i] = 0;
#pragma unroll
    for (int k = 0; k < HEAD / 16; k++) {
        u32 a[TILES][4];
#pragma unroll
        for (int m = 0; m < TILES; m++) own.get(a[m], m, k);
#pragma unroll
        for (int n = 0; n < COLUMNS; n += 2) {
            u32 b[4];
            load_fragment(b, at + (u32)(n * 8 * HEAD * 2) + (flip ^ (u32)(k << 5)));
#pragma unroll
            for (int m = 0; m < TILES; m++) {
                multiply(x[m][n], a[m], b[0], b[1]);
                multiply(x[m][n + 1], a[m], b[2], b[3]);
            }
        }
    }
}

/* y[row][e] += the sum over columns of x[row][column] tile[column][e] */
__device__ inline void add_scores_by_rows(results &y, const operands &x, u32 tile) {
    int row = (int)(LANE % 16);
    u32 at = tile + (u32)row * (HEAD * 2), flip = (LANE / 16 ^ permuted(row)) << 4;
#pragma unroll
    for (int k = 0; k < COLUMNS / 2; k++)
#pragma unroll
        for (int e = 0; e < PARTS; e += 2) {
            u32 b[4];
            load_transposed(b, at + (u32)(k * 16 * HEAD * 2) + (flip ^ (u32)(e << 4)));
#pragma unroll
            for (int m = 0; m < TILES; m++) {
                multiply(y[m][e], x[m][k], b[0], b[1]);
                multiply(y[m][e + 1], x[m][k], b[2], b[3]);
            }
        }
}
