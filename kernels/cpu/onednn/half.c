/* bf16 GEMM in half precision arithmetic: packing, tiles and their kernel. half.h has the reason and the error.
 *
 * As in Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008, blocks of a and b are packed
 * into panels of ROWS rows and COLS columns, which the kernel reads in order. Blocks are so large that nearly all
 * shapes are packed once. A task keeps some panels of a in the L2 cache while it reads the panels of b. */
#include "kernels/cpu/onednn/half.h"

#include <assert.h>
#include <string.h>

#include "kernels/cpu/onednn/internal.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#include <cpuid.h>
#include <immintrin.h>

#define HALF __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512fp16")))

enum {
    ROWS = 12,    /* of a tile: ROWS x COLS sums take 24 of the 32 registers */
    COLS = 32,    /* of a tile */
    CHUNK = 128,  /* of k: even and odd k are summed in f16 separately, 64 terms each */
    UNIT = 32,    /* k is packed in multiples of it */
    MAX_M = 3072, /* of a block, which is packed at a time, in whole panels and units */
    MAX_N = 3072,
    MAX_K = 3072,
    LINES = 96,           /* that a task packs, a multiple of ROWS and COLS; read twice, the second time from a cache */
    RUN = 16,             /* panels of b of a task */
    GROUP_BYTES = 3 << 18 /* panels of a of a task: they stay in the L2 cache */
};

bool half_is_best(void) {
    unsigned a, b, c, d;
    if (!__builtin_cpu_is("intel") || !__builtin_cpu_supports("avx512vl")) return false;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d >> 23 & 1) /* AVX512-FP16 */ && !(d >> 22 & 1); /* AMX-BF16 */
}

/* An operand as `lines` of k elements: the m rows of a, or the n columns of b. */
struct operand {
    const mt_bf16 *data;
    int64_t line_step, k_step; /* elements; one of them is 1 */
    int64_t width;             /* of a panel: ROWS or COLS */
};

/* A packed block of an operand: panels of [k / 2, width] pairs (even k, odd k), and for each line the factor that
 * undoes its scaling. The kernel multiplies a broadcast pair of a by pairs of b: even and odd k have separate sums,
 * which are added at the end. */
struct packed {
    uint32_t *panels;
    float *undo;
};

struct sizes {
    int64_t m, n, k;                                  /* of blocks; the last ones may be smaller */
    int64_t panels_a, panels_b, undo_a, undo_b, sums; /* bytes */
};

static int64_t block_size(int64_t extent, int64_t most, int64_t unit) {
    int64_t blocks = (extent + most - 1) / most;
    return round_up((extent + blocks - 1) / blocks, unit);
}

static struct sizes sizes_of(const struct gemm_shape *s) {
    struct sizes z = {
        .m = block_size(s->m, MAX_M, ROWS), .n = block_size(s->n, MAX_N, COLS), .k = block_size(s->k, MAX_K, UNIT)};
    z.panels_a = round_up(z.m * z.k * 2, 64), z.panels_b = round_up(z.n * z.k * 2, 64);
    z.undo_a = round_up(z.m * 4, 64), z.undo_b = round_up(z.n * 4, 64);
    z.sums = s->out == MT_F32 || s->k <= z.k ? 0 : round_up(s->m * z.n * 4, 64);
    return z;
}

int64_t half_scratch_bytes(const struct gemm_shape *shape) {
    struct sizes z = sizes_of(shape);
    return z.panels_a + z.panels_b + z.undo_a + z.undo_b + z.sums;
}

/* The power of two that scales a bf16 with these bits (without sign) to [8, 16), or as near as 2^-120 to 2^120 allow;
 * *undo: its inverse. */
static float scale_of(unsigned largest_bits, float *undo) {
    int exponent = (int)(largest_bits >> 7);
    int shift = exponent == 0 || exponent == 255 ? 0 : 127 + 3 - exponent; /* zeros and subnormals; infinities, NaNs */
    shift = shift > 120 ? 120 : shift < -120 ? -120 : shift;
    uint32_t up = (uint32_t)(127 + shift) << 23, down = (uint32_t)(127 - shift) << 23;
    float scale;
    memcpy(&scale, &up, sizeof scale), memcpy(undo, &down, sizeof *undo);
    return scale;
}

static inline __mmask32 first_lanes32(int64_t n) {
    return n >= 32 ? 0xffffffffu : n <= 0 ? 0 : (1u << n) - 1;
}

HALF static inline __m512i larger(__m512i most, const mt_bf16 *x, __mmask32 mask) {
    return _mm512_max_epu16(most, _mm512_and_si512(_mm512_maskz_loadu_epi16(mask, x), _mm512_set1_epi16(0x7fff)));
}

/* The largest magnitude, as bits, of each of `lines` lines (at most LINES). */
HALF static void largest(const struct operand *op, const mt_bf16 *x, int64_t lines, int64_t k, uint16_t *bits) {
    if (op->k_step == 1) {
        for (int64_t i = 0; i < lines; i++, x += op->line_step) {
            __m512i most = _mm512_setzero_si512();
            for (int64_t j = 0; j < k; j += 32) most = larger(most, x + j, first_lanes32(k - j));
            uint16_t lanes[32], m = 0;
            _mm512_storeu_si512(lanes, most);
            for (int j = 0; j < 32; j++) m = lanes[j] > m ? lanes[j] : m;
            bits[i] = m;
        }
    } else {
        __m512i most[LINES / 32];
        for (int g = 0; g < LINES / 32; g++) most[g] = _mm512_setzero_si512();
        for (int64_t j = 0; j < k; j++, x += op->k_step)
#pragma GCC unroll 6
            for (int g = 0; g < LINES / 32; g++) most[g] = larger(most[g], x + 32 * g, first_lanes32(lines - 32 * g));
        for (int g = 0; g < LINES / 32; g++) _mm512_storeu_si512(bits + 32 * g, most[g]);
    }
}

/* Sixteen bf16 numbers, scaled and converted to f16; lanes outside the mask are not read, and are zero. */
HALF static inline __m256i halves(const mt_bf16 *x, __mmask16 mask, __m512 scale) {
    __m512i wide = _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, x)), 16);
    return _mm512_cvtps_ph(_mm512_mul_ps(_mm512_castsi512_ps(wide), scale),
                           _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

static inline __mmask16 first_lanes(int64_t n) {
    return (__mmask16)(n >= 16 ? 0xffff : n <= 0 ? 0 : (1u << n) - 1);
}

/* Pairs of f16 for two k: low | high << 16. */
HALF static inline __m512i pairs(__m256i low, __m256i high) {
    return _mm512_or_si512(_mm512_cvtepu16_epi32(low), _mm512_slli_epi32(_mm512_cvtepu16_epi32(high), 16));
}

/* Transpose: row j of the result is stored at to + j * step, lanes of the mask only. */
HALF static void transpose(__m512i r[16], uint32_t *to, int64_t step, __mmask16 mask) {
    __m512i t[16];
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
    for (int i = 0; i < 16; i += 4)
        for (int h = 0; h < 2; h++) {
            r[i + 2 * h] = _mm512_unpacklo_epi64(t[i + h], t[i + h + 2]);
            r[i + 2 * h + 1] = _mm512_unpackhi_epi64(t[i + h], t[i + h + 2]);
        }
    for (int i = 0; i < 4; i++) { /* r[i + 4 g] has columns i, i + 4, i + 8, i + 12 of rows 4 g to 4 g + 3 */
        __m512i a = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88), b = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
        __m512i c = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88),
                d = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
        _mm512_mask_storeu_epi32(to + i * step, mask, _mm512_shuffle_i32x4(a, c, 0x88));
        _mm512_mask_storeu_epi32(to + (i + 8) * step, mask, _mm512_shuffle_i32x4(a, c, 0xdd));
        _mm512_mask_storeu_epi32(to + (i + 4) * step, mask, _mm512_shuffle_i32x4(b, d, 0x88));
        _mm512_mask_storeu_epi32(to + (i + 12) * step, mask, _mm512_shuffle_i32x4(b, d, 0xdd));
    }
}

/* Pack a panel whose lines are contiguous along k, so that pairs are adjacent: sixteen pairs of sixteen lines at a
 * time. */
HALF static void pack_lines(const struct operand *op, const mt_bf16 *x, int64_t lines, int64_t k, const float *scale,
                            uint32_t *to) {
    for (int64_t j = 0; j < round_up(k, UNIT); j += 32, to += 16 * op->width)
        for (int64_t first = 0; first < op->width; first += 16) {
            __m512i r[16];
            for (int64_t i = 0; i < 16; i++) {
                bool some = first + i < lines;
                const mt_bf16 *at = x + (first + i) * op->line_step + j;
                __m512 factor = _mm512_set1_ps(scale[first + i]);
                __m256i low = halves(at, some ? first_lanes(k - j) : 0, factor);
                __m256i high = halves(at + 16, some ? first_lanes(k - j - 16) : 0, factor);
                r[i] = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
            }
            transpose(r, to + first, op->width, first_lanes(op->width - first));
        }
}

/* Pack panels whose lines are adjacent for each k; panels are `size` pairs apart. */
HALF static void pack_columns(const struct operand *op, const mt_bf16 *x, int64_t lines, int64_t k, const float *scale,
                              uint32_t *to, int64_t size) {
    for (int64_t j = 0; j < round_up(k, UNIT); j += 2, x += 2 * op->k_step, to += op->width)
        for (int64_t line = 0; line < lines; line += op->width)
            for (int64_t i = 0; i < op->width; i += 16) {
                int64_t first = line + i;
                __mmask16 mask = first_lanes(least(op->width - i, lines - first));
                __m512 factors = _mm512_loadu_ps(scale + first);
                __m256i low = halves(x + first, j < k ? mask : 0, factors);
                __m256i high = halves(x + op->k_step + first, j + 1 < k ? mask : 0, factors);
                _mm512_mask_storeu_epi32(to + line / op->width * size + i, first_lanes(op->width - i),
                                         pairs(low, high));
            }
}

/* Pack `lines` lines (at most LINES) into panels of `size` pairs, with zeros up to whole panels and units of k. */
static void pack_panels(const struct operand *op, const mt_bf16 *x, int64_t lines, int64_t k, uint32_t *to,
                        int64_t size, float *undo) {
    uint16_t bits[LINES];
    float scale[LINES + 16] = {0};
    largest(op, x, lines, k, bits);
    for (int64_t i = 0; i < lines; i++) scale[i] = scale_of(bits[i], &undo[i]);
    for (int64_t i = lines; i < round_up(lines, op->width); i++) undo[i] = 0;
    if (op->k_step != 1) {
        pack_columns(op, x, lines, k, scale, to, size);
        return;
    }
    for (int64_t i = 0; i < lines; i += op->width, to += size)
        pack_lines(op, x + i * op->line_step, least(op->width, lines - i), k, scale + i, to);
}

static void pack(const struct operand *op, int64_t line0, int64_t lines, int64_t k0, int64_t k, struct packed to) {
    int64_t size = round_up(k, UNIT) / 2 * op->width;
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t line = 0; line < lines; line += LINES)
        pack_panels(op, op->data + (line0 + line) * op->line_step + k0 * op->k_step, least(LINES, lines - line), k,
                    to.panels + line / op->width * size, size, to.undo + line);
}

/* GEMM of two panels of k elements, a multiple of UNIT. tile[ROWS][COLS][2]: the sums over even and over odd k. */
HALF static void tile_gemm(int64_t k, const uint32_t *a, const uint32_t *b, float *tile) {
    __m512h sum[ROWS][2];
    for (int64_t first = 0; first < k; first += CHUNK) {
#pragma GCC unroll 12
        for (int i = 0; i < ROWS; i++) sum[i][0] = sum[i][1] = _mm512_setzero_ph();
        const uint32_t *end = a + least(CHUNK, k - first) / 2 * ROWS;
        for (; a < end; a += ROWS, b += COLS) {
            _mm_prefetch((const char *)(b + 8 * COLS), _MM_HINT_T0);
            _mm_prefetch((const char *)(b + 8 * COLS + 16), _MM_HINT_T0);
            _mm_prefetch((const char *)(a + 16 * ROWS), _MM_HINT_T0);
            __m512h b0 = _mm512_loadu_ph(b), b1 = _mm512_loadu_ph(b + 16);
#pragma GCC unroll 12
            for (int i = 0; i < ROWS; i++) {
                __m512h x = _mm512_castsi512_ph(_mm512_set1_epi32((int)a[i]));
                sum[i][0] = _mm512_fmadd_ph(x, b0, sum[i][0]);
                sum[i][1] = _mm512_fmadd_ph(x, b1, sum[i][1]);
            }
        }
#pragma GCC unroll 12
        for (int i = 0; i < ROWS; i++)
#pragma GCC unroll 2
            for (int h = 0; h < 2; h++) {
                __m512i s = _mm512_castph_si512(sum[i][h]);
                __m512 low = _mm512_cvtph_ps(_mm512_castsi512_si256(s));
                __m512 high = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(s, 1));
                float *t = tile + (i * 2 + h) * COLS;
                if (first)
                    low = _mm512_add_ps(low, _mm512_load_ps(t)), high = _mm512_add_ps(high, _mm512_load_ps(t + 16));
                _mm512_store_ps(t, low), _mm512_store_ps(t + 16, high);
            }
    }
}

/* The destination of a block's tiles. */
struct target {
    void *c;
    int64_t ld;
    enum mt_type type;
    bool add;           /* to c's old content */
    const float *extra; /* [m, n], leading dimension extra_ld: the sums of earlier blocks of k; or null */
    int64_t extra_ld;
    const mt_bf16 *bias; /* or null */
};

/* To bf16, nearest and ties to even; NaN stays NaN. */
HALF static inline __m256i to_bf16(__m512 x) {
    __m512i bits = _mm512_castps_si512(x);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
    __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    rounded = _mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x400000));
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16));
}

HALF static inline __m512 from_bf16(const mt_bf16 *x, __mmask16 mask) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, x)), 16));
}

HALF static void tile_store(const struct target *t, int64_t row, int64_t col, int64_t rows, int64_t cols,
                            const float *tile, const float *undo_a, const float *undo_b) {
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
    for (int64_t j = 0; j < cols; j += 16) {
        __mmask16 mask = first_lanes(cols - j);
        __m512 undo = _mm512_loadu_ps(undo_b + j), bias = _mm512_setzero_ps();
        if (t->bias) bias = from_bf16(t->bias + col + j, mask);
        for (int64_t i = 0; i < rows; i++) {
            int64_t at = (row + i) * t->ld + col + j;
            const float *both = tile + (i * COLS + j) * 2;
            __m512 low = _mm512_load_ps(both), high = _mm512_load_ps(both + 16);
            __m512 x = _mm512_add_ps(_mm512_permutex2var_ps(low, even, high), _mm512_permutex2var_ps(low, odd, high));
            x = _mm512_mul_ps(x, _mm512_set1_ps(undo_a[i]));
            x = _mm512_fmadd_ps(x, undo, bias);
            if (t->extra)
                x = _mm512_add_ps(x, _mm512_maskz_loadu_ps(mask, t->extra + (row + i) * t->extra_ld + col + j));
            if (t->type == MT_F32) {
                float *c = (float *)t->c + at;
                if (t->add) x = _mm512_add_ps(x, _mm512_maskz_loadu_ps(mask, c));
                _mm512_mask_storeu_ps(c, mask, x);
            } else {
                mt_bf16 *c = (mt_bf16 *)t->c + at;
                if (t->add) x = _mm512_add_ps(x, from_bf16(c, mask));
                _mm256_mask_storeu_epi16(c, mask, to_bf16(x));
            }
        }
    }
}

/* All tiles of a packed block of m by n by k; c, extra and bias begin at the block. */
static void multiply(int64_t m, int64_t n, int64_t k, struct packed a, struct packed b, const struct target *t) {
    int64_t panels_a = (m + ROWS - 1) / ROWS, panels_b = (n + COLS - 1) / COLS;
    k = round_up(k, UNIT);
    int64_t group = GROUP_BYTES / (ROWS * k * 2);
    group = group < 1 ? 1 : group;
    int64_t groups = (panels_a + group - 1) / group, runs = (panels_b + RUN - 1) / RUN;
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t task = 0; task < groups * runs; task++) {
        int64_t first = task / runs * group, end = least(first + group, panels_a), run = task % runs * RUN;
        for (int64_t pb = run; pb < least(run + RUN, panels_b); pb++)
            for (int64_t pa = first; pa < end; pa++) {
                _Alignas(64) float tile[ROWS * COLS * 2];
                tile_gemm(k, a.panels + pa * ROWS * k / 2, b.panels + pb * COLS * k / 2, tile);
                tile_store(t, pa * ROWS, pb * COLS, least(ROWS, m - pa * ROWS), least(COLS, n - pb * COLS), tile,
                           a.undo + pa * ROWS, b.undo + pb * COLS);
            }
    }
}

/* The destination of block (m0, n0) for block k0 of k. Sums of a block that is not the last of k are kept in f32: in c
 * itself if that is its type. */
static struct target target_of(const struct gemm_shape *s, const struct sizes *z, int64_t m0, int64_t n0, int64_t k0,
                               float *sums, const mt_bf16 *bias, void *c) {
    bool last = k0 + z->k >= s->k;
    struct target t = {.type = s->out, .ld = s->ldc, .bias = s->bias && last ? bias + n0 : NULL};
    t.c = (char *)c + (m0 * s->ldc + n0) * mt_type_size(s->out);
    if (s->out == MT_F32) {
        t.add = s->accumulate || k0 > 0;
        return t;
    }
    float *kept = z->sums ? sums + m0 * z->n : NULL;
    t.add = s->accumulate && last;
    if (k0 > 0) t.extra = kept, t.extra_ld = z->n;
    if (!last) t.c = kept, t.ld = z->n, t.type = MT_F32;
    return t;
}

void half_run(const struct gemm_shape *s, const mt_bf16 *a, const mt_bf16 *b, const mt_bf16 *bias, void *c,
              void *scratch) {
    struct sizes z = sizes_of(s);
    char *at = scratch;
    struct packed pa = {(uint32_t *)(void *)at, (float *)(void *)(at + z.panels_a)};
    at += z.panels_a + z.undo_a;
    struct packed pb = {(uint32_t *)(void *)at, (float *)(void *)(at + z.panels_b)};
    float *sums = (float *)(void *)(at + z.panels_b + z.undo_b);
    struct operand oa = {a, s->trans_a ? 1 : s->lda, s->trans_a ? s->lda : 1, ROWS};
    struct operand ob = {b, s->trans_b ? s->ldb : 1, s->trans_b ? 1 : s->ldb, COLS};
    int64_t held_m = -1, held_k = -1; /* the block of a that is packed */
    for (int64_t n0 = 0; n0 < s->n; n0 += z.n)
        for (int64_t k0 = 0; k0 < s->k; k0 += z.k) {
            int64_t n = least(z.n, s->n - n0), k = least(z.k, s->k - k0);
            pack(&ob, n0, n, k0, k, pb);
            for (int64_t m0 = 0; m0 < s->m; m0 += z.m) {
                int64_t m = least(z.m, s->m - m0);
                if (held_m != m0 || held_k != k0) pack(&oa, m0, m, k0, k, pa);
                held_m = m0, held_k = k0;
                struct target t = target_of(s, &z, m0, n0, k0, sums, bias, c);
                multiply(m, n, k, pa, pb, &t);
            }
        }
}

#else
bool half_is_best(void) {
    return false;
}
int64_t half_scratch_bytes(const struct gemm_shape *shape) {
    (void)shape;
    return 0;
}
void half_run(const struct gemm_shape *s, const mt_bf16 *a, const mt_bf16 *b, const mt_bf16 *bias, void *c,
              void *scratch) {
    (void)s, (void)a, (void)b, (void)bias, (void)c, (void)scratch;
    assert(!"half_is_best is false");
}
#endif
