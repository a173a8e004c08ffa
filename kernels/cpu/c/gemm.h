/* GEMM of blocks, for matmul.c and attention.c, which include it in their typed part.
 *
 * c[m,n] += a[m,k] b[k,n], with b packed in panels of NR columns, [n / NR][k][NR], and a of any strides. MR rows by NR
 * columns stay in registers over all of k. m is rounded up to a multiple of MR and n to one of NR: a, b and c have room
 * for that, and the content of the extra rows and columns does not matter. */
#undef NR
#define NR ((int64_t)(64 / sizeof(A)))
#ifndef MT_KERNELS_CPU_C_GEMM_H
#define MT_KERNELS_CPU_C_GEMM_H
enum { MR = 6 };
static inline int64_t round_up(int64_t n, int64_t to) {
    return (n + to - 1) / to * to;
}
/* Bytes of `count` elements, in whole cache lines. */
static inline int64_t lines(int64_t count, int64_t size_bytes) {
    return round_up(count * size_bytes, 64);
}
#endif

struct TYPED(gemm) {
    int64_t m, n, k;
    const A *a;
    int64_t a_row, a_column; /* strides */
    const A *b;              /* packed */
    int64_t b_depth;         /* the k with which it was packed, at least k */
    A *c;
    int64_t c_row;
};

ALWAYS_INLINE void TYPED(six_rows)(const struct TYPED(gemm) * p, const A *restrict a, const A *restrict b,
                                   A *restrict c) {
    A sum[MR][64 / sizeof(A)];
    for (int i = 0; i < MR; i++)
        for (int j = 0; j < NR; j++) sum[i][j] = c[i * p->c_row + j];
    for (int64_t k = 0; k < p->k; k++) {
#pragma GCC unroll 6
        for (int i = 0; i < MR; i++) {
#pragma omp simd
            for (int j = 0; j < NR; j++) sum[i][j] += a[i * p->a_row] * b[j];
        }
        a += p->a_column;
        b += NR;
    }
    for (int i = 0; i < MR; i++)
        for (int j = 0; j < NR; j++) c[i * p->c_row + j] = sum[i][j];
}

MT_CLONES static void TYPED(multiply)(const struct TYPED(gemm) * from) {
    const struct TYPED(gemm) p = *from;
    for (int64_t j = 0; j < p.n; j += NR)
        for (int64_t i = 0; i < p.m; i += MR)
            TYPED(six_rows)(&p, p.a + i * p.a_row, p.b + j * p.b_depth, p.c + i * p.c_row + j);
}

/* Convert a block x[rows, columns] of contiguous rows to `to`, in rows of `width`. */
MT_CLONES static void TYPED(load_block)(const T *restrict x, int64_t stride, int64_t rows, int64_t columns,
                                        A *restrict to, int64_t width) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) to[i * width + j] = LOAD(x[i * stride + j]);
}

/* Pack b[k, n] of any strides, with zeros up to the end of the last panel. */
MT_CLONES static void TYPED(pack)(const T *restrict b, const int64_t strides[2], int64_t k, int64_t n, A *restrict to) {
    for (int64_t j = 0; j < n; j += NR, to += k * NR, b += NR * strides[1]) {
        int64_t width = least(NR, n - j);
        if (width < NR) memset(to, 0, (size_t)(k * NR) * sizeof(A));
        if (strides[1] == 1) {
            for (int64_t p = 0; p < k; p++)
                for (int64_t i = 0; i < width; i++) to[p * NR + i] = LOAD(b[p * strides[0] + i]);
        } else {
            for (int64_t i = 0; i < width; i++)
                for (int64_t p = 0; p < k; p++) to[p * NR + i] = LOAD(b[p * strides[0] + i * strides[1]]);
        }
    }
}
