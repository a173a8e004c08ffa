/* Multiplication of tiles by wgmma, 64 rows of four warps at a time: sm_90a. It is asynchronous:
 *
 *     rows_by_rows(x, own, tile), mma_commit();
 *     ...
 *     mma_wait<0>(), mma_barrier(x);      // now x may be read
 *
 * Right operands lie in shared memory and are described by 64 bits: the address (in units of 16 bytes), the
 * distance between groups of eight rows (1024 bytes), and, where a row is a column of the result and longer than 128
 * bytes, the distance between its panels. Lanes hold results and left operands as with mma.sync, so that all else is
 * the same. */
#define GROUP_FIRST(first) ((first)-WARP_ROW % 64)
#define GROUP_LAST(first) (GROUP_FIRST(first) + 63)

static_assert(TILES == 1 && WARPS % 4 == 0 && HEAD % 64 == 0 && !KEEP, "a warp has 16 rows, four multiply together");

/* Copies write shared memory through the generic proxy, wgmma reads it through the async one. */
__device__ inline void mma_see_copies() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ inline void mma_begin() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ inline void mma_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int LATER> __device__ inline void mma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LATER) : "memory");
}
/* A compiler barrier for registers: it does not know that wgmma still reads or writes them. Writes stay before this,
 * reads behind; left operands in registers are not reused before. */
template <int N> __device__ inline void mma_barrier(float (&x)[1][N][4]) {
#pragma unroll
    for (int n = 0; n < N; n++)
        asm volatile("" : "+f"(x[0][n][0]), "+f"(x[0][n][1]), "+f"(x[0][n][2]), "+f"(x[0][n][3])::"memory");
}
template <int N> __device__ inline void mma_barrier(u32 (&x)[1][N][4]) {
#pragma unroll
    for (int n = 0; n < N; n++)
        asm volatile("" : "+r"(x[0][n][0]), "+r"(x[0][n][1]), "+r"(x[0][n][2]), "+r"(x[0][n][3])::"memory");
}

template <int ROWS> __device__ inline u64 described(u32 at) {
    const u64 panels = ROWS * 128 / 16, groups = 1024 / 16, swizzle_128 = 1;
    return (u64)(at >> 4 & 0x3fff) | panels << 16 | groups << 32 | swizzle_128 << 62;
}

#define FOUR(access, c, n) access(c[n][0]), access(c[n][1]), access(c[n][2]), access(c[n][3])
#define SIXTEEN(access, c, n) FOUR(access, c, n), FOUR(access, c, n + 1), FOUR(access, c, n + 2), FOUR(access, c, n + 3)
#define THIRTYTWO(access, c, n) SIXTEEN(access, c, n), SIXTEEN(access, c, n + 4)
#define SIXTYFOUR(access, c, n) THIRTYTWO(access, c, n), THIRTYTWO(access, c, n + 8)
#define WRITTEN(x) "=f"(x)
#define CHANGED(x) "+f"(x)
#define NAMES16 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define NAMES32 NAMES16 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define NAMES64                                                                                                        \
    NAMES32 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,"    \
            "%57,%58,%59,%60,%61,%62,%63"

/* c[64 rows][N columns] = (SUM: +=) 64 x 16 by 16 x N, for each N: the left operand in shared memory or in registers;
 * the right one's rows are columns of c, or (TURNED) the 16 rows that are summed over. P1 to P7 name the operands after
 * c. */
#define WITH_SHARED(NAME, N, NAMES, LIST, ACCESS, SUM, P1, P2)                                                       \
    __device__ inline void NAME(float(&c)[N / 8][4], u64 a, u64 b) {                                                   \
        asm volatile("{.reg .pred p; setp.ne.b32 p, " SUM ", 0;\n"                                                     \
                     "wgmma.mma_async.sync.aligned.m64n" #N                                                            \
                     "k16.f32." TEXT(HALF) "." TEXT(HALF) " {" NAMES "}, " P1 ", " P2 ", p, 1, 1, 0, 0;}"              \
                     : LIST(ACCESS, c, 0)                                                                            \
                     : "l"(a), "l"(b));                                                                                \
    }
#define WITH_REGISTERS(NAME, N, NAMES, LIST, ACCESS, SUM, TURNED, P1, P2, P3, P4, P5)                                \
    __device__ inline void NAME(float(&c)[N / 8][4], const u32(&a)[4], u64 b) {                                        \
        asm volatile("{.reg .pred p; setp.ne.b32 p, " SUM ", 0;\n"                                                     \
                     "wgmma.mma_async.sync.aligned.m64n" #N                                                            \
                     "k16.f32." TEXT(HALF) "." TEXT(HALF) " {" NAMES "}, {" P1 "," P2 "," P3 "," P4 "}, " P5           \
                                                          ", p, 1, 1, " TURNED ";}"                                    \
                     : LIST(ACCESS, c, 0)                                                                            \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                            \
    }
#define MMAS(N, NAMES, LIST, P1, P2, P3, P4, P5)                                                              \
    WITH_SHARED(multiply, N, NAMES, LIST, WRITTEN, "0", P1, P2)                                                   \
    WITH_SHARED(multiply_add, N, NAMES, LIST, CHANGED, "1", P1, P2)                                               \
    WITH_REGISTERS(multiply_add_turned, N, NAMES, LIST, CHANGED, "1", "1", P1, P2, P3, P4, P5)
MMAS(32, NAMES16, SIXTEEN, "%16", "%17", "%18", "%19", "%20")
MMAS(64, NAMES32, THIRTYTWO, "%32", "%33", "%34", "%35", "%36")
MMAS(128, NAMES64, SIXTYFOUR, "%64", "%65", "%66", "%67", "%68")

/* A warpgroup's own 64 rows of a tile, as left operand. (Kept in registers from tile to tile, results were wrong.)
 */
struct own_rows {
    u32 tile;
    __device__ inline own_rows(u32 tile_) : tile(tile_ + (u32)(threadIdx.x / 128 * 64 * 128)) {
    }
    __device__ inline void keep() {
    }
};

/* x[row][column] = the sum over e of own[row][e] tile[column][e] */
__device__ inline void rows_by_rows(scores &x, const own_rows &own, u32 tile) {
    mma_begin();
#pragma unroll
    for (int k = 0; k < HEAD / 16; k++) {
        u32 panel = (u32)(k / 4), within = (u32)(k % 4 * 32);
        u64 b = described<PASS>(tile + panel * (PASS * 128) + within);
        u64 a = described<OWN>(own.tile + panel * (OWN * 128) + within);
        if (k == 0)
            multiply(x[0], a, b);
        else
            multiply_add(x[0], a, b);
    }
}

/* y[row][e] += the sum over columns of x[row][column] tile[column][e] */
__device__ inline void add_scores_by_rows(results &y, operands &x, u32 tile) {
    mma_barrier(y), mma_barrier(x);
    mma_begin();
#pragma unroll
    for (int k = 0; k < COLUMNS / 2; k++) multiply_add_turned(y[0], x[0][k], described<PASS>(tile + (u32)(k * 2048)));
}
