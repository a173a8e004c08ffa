/* Operands that are a function of an element's place in the whole matrix, so that every rank knows all of them; and the
 * check of results: a sample with an element of every tile, against products in f64. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/number/rng.h"
#include "launcher/bench/overlap/internal.h"

enum { SAMPLED = 64 /* rows and columns, of as many bands */ };

/* ---- elements ---- */

/* Blocks of four elements of a row. */
static int64_t blocks_of(int64_t width) {
    return (width + 3) / 4;
}

static float element(uint32_t word) {
    return (float)(int32_t)word * 0x1p-31f;
}

/* Elements [first, first + count) of a row of a matrix `width` wide, rounded to the type. */
static void fill_row(const struct mt_overlap *p, int matrix, int64_t width, int64_t row, int64_t first, int64_t count,
                     float *line, uint32_t *words, char *to) {
    int64_t block = first / 4, blocks = (first + count + 3) / 4 - block;
    mt_philox_blocks(MT_BENCH_OVERLAP_SEED, (uint64_t)matrix, (uint64_t)(row * blocks_of(width) + block), blocks,
                     words);
    for (int64_t j = 0; j < count; j++) line[j] = element(words[first - block * 4 + j]);
    mt_type_convert(p->type, to, MT_F32, line, count);
}

/* As a GEMM takes it: of tf32 are the first 10 bits of the mantissa. */
static double operand(const struct mt_overlap *p, int matrix, int64_t width, int64_t row, int64_t col) {
    uint64_t index = (uint64_t)(row * blocks_of(width) * 4 + col);
    double stored = 0, x = element(mt_random_u32(MT_BENCH_OVERLAP_SEED, (uint64_t)matrix, index));
    int exponent;
    mt_type_store(p->type, &stored, 0, x);
    x = mt_type_load(p->type, &stored, 0);
    if (!p->tf32 || x == 0) return x;
    double mantissa = frexp(x, &exponent);
    return ldexp(nearbyint(ldexp(mantissa, 11)), exponent - 11);
}

/* Rows and columns of a matrix, to the device. */
static enum mt_status fill(struct mt_bench_case *c, int matrix, int64_t width, int64_t row, int64_t rows, int64_t col,
                           int64_t cols, char *to, struct mt_err *err) {
    const struct mt_overlap *p = &c->problem;
    int64_t bytes = cols * mt_type_size(p->type);
    float *line = mt_malloc((size_t)(cols + 8) * sizeof *line);
    uint32_t *words = mt_malloc((size_t)(cols + 8) * sizeof *words);
    char *host = mt_malloc((size_t)(rows * bytes) + 1);
    for (int64_t i = 0; i < rows && cols; i++)
        fill_row(p, matrix, width, row + i, col, cols, line, words, host + i * bytes);
    enum mt_status st = rows * bytes > 0 ? mt_device_copy_in(c->bench->device, to, host, rows * bytes, err) : MT_OK;
    free(host);
    free(words);
    free(line);
    return st;
}

enum mt_status mt_bench_values_fill(struct mt_bench_case *c, struct mt_err *err) {
    const struct mt_overlap *p = &c->problem;
    int me = c->bench->rank;
    int64_t share = p->shares[me], at = 0;
    for (int r = 0; r < me; r++) at += p->shares[r];
    bool gather = p->form == MT_OVERLAP_GATHER;
    enum mt_status st =
        gather ? fill(c, 0, p->k, 0, p->m, 0, p->k, c->a, err) : fill(c, 0, p->k, 0, p->m, at, share, c->a, err);
    if (st) return st;
    return gather ? fill(c, 1, p->cols, 0, p->k, at, share, c->b, err)
                  : fill(c, 1, p->cols, at, share, 0, p->cols, c->b, err);
}

/* ---- results ---- */

static enum mt_status overwrite(struct mt_bench_case *c, char *memory, int64_t bytes, struct mt_err *err) {
    static const unsigned char nothing[8] = {255, 255, 255, 255, 255, 255, 255, 255}; /* NaN in every type */
    return bytes ? mt_device_repeat(c->bench->device, memory, bytes, nothing, sizeof nothing, err) : MT_OK;
}

enum mt_status mt_bench_values_poison(struct mt_bench_case *c, const struct mt_bench_variant *v, struct mt_err *err) {
    const struct mt_overlap *p = &c->problem;
    int me = c->bench->rank;
    enum mt_status st = overwrite(c, c->out, c->out_extent[0] * c->out_extent[1] * mt_type_size(p->out), err);
    if (!st && p->form != MT_OVERLAP_GATHER)
        st = overwrite(c, c->product, p->m * p->cols * mt_type_size(mt_type_acc(p->type)), err);
    if (!st && v->part == MT_BENCH_OVERLAPPED) st = overwrite(c, c->scratch, c->scratch_bytes, err);
    if (!st && v->part == MT_BENCH_OVERLAPPED) { /* what others put */
        int64_t staging = mt_overlap_place(&v->problem, MT_OVERLAP_STAGED, 0);
        st = overwrite(c, mt_device_window_ptr(v->window, v->window_at + staging, me),
                       mt_overlap_window_bytes(&v->problem) - staging, err);
    }
    int64_t row_bytes = p->k * mt_type_size(p->type), before = c->gathered_at * row_bytes;
    if (st || p->form != MT_OVERLAP_GATHER || v->part != MT_BENCH_SEQUENTIAL) return st;
    int64_t after = before + p->rows[me] * row_bytes; /* rows of others, which the collective must bring */
    st = overwrite(c, c->a, before, err);
    return st ? st : overwrite(c, c->a + after, p->m * row_bytes - after, err);
}

static double epsilon(enum mt_type type) {
    return type == MT_F64 ? 0x1p-52 : type == MT_F32 ? 0x1p-23 : type == MT_F16 ? 0x1p-10 : 0x1p-7;
}

/* The middle of band i of `extent`. */
static int64_t sampled(int64_t extent, int64_t bands, int64_t i) {
    return (2 * i + 1) * extent / (2 * bands);
}

static enum mt_status compare_row(const struct mt_bench_case *c, const struct mt_bench_variant *v, int64_t row,
                                  const double *a, const double *b, int64_t bands, const char *have, enum mt_type type,
                                  struct mt_err *err) {
    const struct mt_overlap *p = &c->problem;
    double acc = epsilon(mt_type_acc(p->type)), wire = p->form == MT_OVERLAP_GATHER ? 0 : epsilon(p->wire);
    for (int64_t j = 0; j < bands; j++) {
        int64_t col = sampled(c->out_extent[1], bands, j);
        double want = 0, size = 0, got = mt_type_load(type, have, col);
        for (int64_t k = 0; k < p->k; k++) {
            double term = a[k] * b[j * p->k + k];
            want += term;
            size += fabs(term);
        }
        double most = size * ((double)(p->k + p->n) * acc + 2 * wire) + fabs(want) * epsilon(p->out) + 1e-6 * wire;
        if (fabs(got - want) <= most) continue;
        return mt_fail(err, MT_EBUG, "%s: element (%lld, %lld) of the result is %g, not %g", v->name,
                       (long long)(c->first_row + row), (long long)(c->first_col + col), got, want);
    }
    return MT_OK;
}

enum mt_status mt_bench_values_check(struct mt_bench_case *c, const struct mt_bench_variant *v, struct mt_err *err) {
    const struct mt_overlap *p = &c->problem;
    int64_t rows = c->out_extent[0], cols = c->out_extent[1];
    int64_t across = rows < SAMPLED ? rows : SAMPLED, bands = cols < SAMPLED ? cols : SAMPLED;
    bool in_product = v->part == MT_BENCH_SEQUENTIAL && p->form != MT_OVERLAP_GATHER && !v->message.nunpack;
    enum mt_type type = in_product ? mt_type_acc(p->type) : p->out;
    int64_t row_bytes = cols * mt_type_size(type);
    const char *from = in_product ? c->product + c->first_row * row_bytes : c->out;
    double *a = mt_malloc((size_t)(p->k + 1) * sizeof *a), *b = mt_malloc((size_t)(bands * p->k + 1) * sizeof *b);
    char *have = mt_malloc((size_t)row_bytes + 1);
    for (int64_t j = 0; j < bands; j++)
        for (int64_t k = 0; k < p->k; k++)
            b[j * p->k + k] = operand(p, 1, p->cols, k, c->first_col + sampled(cols, bands, j));
    enum mt_status st = MT_OK;
    for (int64_t i = 0; i < across && cols && !st; i++) {
        int64_t row = sampled(rows, across, i);
        for (int64_t k = 0; k < p->k; k++) a[k] = operand(p, 0, p->k, c->first_row + row, k);
        st = mt_device_copy_out(c->bench->device, have, from + row * row_bytes, row_bytes, err);
        if (!st) st = compare_row(c, v, row, a, b, bands, have, type, err);
    }
    free(have);
    free(b);
    free(a);
    return st;
}
