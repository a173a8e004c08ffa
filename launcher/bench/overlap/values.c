/* Operands that are a function of an element's place in the whole matrix, so that every rank knows all of them; rows
 * repeat with a period that is prime, so that few have to be made, and none stands for another by a whole tile or put.
 * And the check of results: a sample with an element of every tile, against products in f64, which are made once. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/number/rng.h"
#include "kernels/device/put.h"
#include "launcher/bench/overlap/internal.h"

enum { SAMPLED = 64 /* rows and columns, of as many bands */, PERIOD = 509 /* rows */ };

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
    mt_philox_blocks(MT_BENCH_OVERLAP_SEED, (uint64_t)matrix, (uint64_t)(row % PERIOD * blocks_of(width) + block),
                     blocks, words);
    for (int64_t j = 0; j < count; j++) line[j] = element(words[first - block * 4 + j]);
    mt_type_convert(p->type, to, MT_F32, line, count);
}

/* As a GEMM takes it: of tf32 are the first 10 bits of the mantissa. */
static double operand(const struct mt_overlap *p, int matrix, int64_t width, int64_t row, int64_t col) {
    uint64_t index = (uint64_t)(row % PERIOD * blocks_of(width) * 4 + col);
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
    int64_t bytes = cols * mt_type_size(p->type), fresh = rows < PERIOD ? rows : PERIOD;
    float *line = mt_malloc((size_t)(cols + 8) * sizeof *line);
    uint32_t *words = mt_malloc((size_t)(cols + 8) * sizeof *words);
    char *host = mt_malloc((size_t)(fresh * bytes) + 1);
    for (int64_t i = 0; i < fresh && cols; i++)
        fill_row(p, matrix, width, row + i, col, cols, line, words, host + i * bytes);
    enum mt_status st =
        rows * bytes > 0 ? mt_device_repeat(c->bench->device, to, rows * bytes, host, fresh * bytes, err) : MT_OK;
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
    char *rows = c->a + c->gathered_at * p->k * mt_type_size(p->type); /* the collective brings the others */
    enum mt_status st = gather ? fill(c, 0, p->k, c->gathered_at, p->rows[me], 0, p->k, rows, err)
                               : fill(c, 0, p->k, 0, p->m, at, share, c->a, err);
    if (st) return st;
    return gather ? fill(c, 1, p->cols, 0, p->k, at, share, c->b, err)
                  : fill(c, 1, p->cols, at, share, 0, p->cols, c->b, err);
}

/* ---- results ---- */

enum { POISON_BYTES = 64 << 20 };
static const unsigned char nothing[8] = {255, 255, 255, 255, 255, 255, 255, 255}; /* NaN in every type */

static enum mt_status make_poison(struct mt_bench_overlap *b, struct mt_err *err) {
    enum mt_status st = mt_device_alloc(b->device, POISON_BYTES, (void **)&b->poison, err);
    return st ? st : mt_device_repeat(b->device, b->poison, POISON_BYTES, nothing, sizeof nothing, err);
}

/* On a GPU copied within its memory: from the host's it would take longer than all turns. */
static enum mt_status overwrite(struct mt_bench_case *c, char *memory, int64_t bytes, struct mt_err *err) {
    struct mt_bench_overlap *b = c->bench;
    enum mt_status st = MT_OK;
    double unused;
    int all;
    if (bytes && !mt_device_multiprocessors(b->device, &all))
        return mt_device_repeat(b->device, memory, bytes, nothing, sizeof nothing, err);
    if (bytes && !b->poison) st = make_poison(b, err);
    for (int64_t done = 0, most = POISON_BYTES; done < bytes && !st; done += most) {
        struct mt_put_probe probe = {.how = MT_PUT_ENGINE,
                                     .to = memory + done,
                                     .from = b->poison,
                                     .size_bytes = bytes - done < most ? bytes - done : most,
                                     .repeats = 1};
        st = mt_device_puts_start(b->device, &probe, err);
        if (!st) st = mt_device_puts_finish(b->device, &unused, err);
    }
    return st;
}

enum mt_status mt_bench_values_poison(struct mt_bench_case *c, const struct mt_bench_variant *v, struct mt_err *err) {
    const struct mt_overlap *p = &c->problem;
    int me = c->bench->rank;
    enum mt_status st = overwrite(c, c->out, c->out_extent[0] * c->out_extent[1] * mt_type_size(p->out), err);
    if (!st && p->form != MT_OVERLAP_GATHER)
        st = overwrite(c, c->product, p->m * p->cols * mt_type_size(c->product_type), err);
    if (!st && v->part == MT_BENCH_OVERLAPPED) st = overwrite(c, c->scratch, c->scratch_bytes, err);
    if (!st && v->part == MT_BENCH_OVERLAPPED) { /* what others put */
        int64_t staging = mt_overlap_place(&v->problem, MT_OVERLAP_STAGED, 0);
        st = overwrite(c, mt_device_window_ptr(c->window, staging, me), mt_overlap_window_bytes(&v->problem) - staging,
                       err);
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

/* What the sample should be, [rows][columns]: row i, column j is in the middle of their bands. */
static void make_sample(struct mt_bench_case *c, int64_t across, int64_t bands) {
    const struct mt_overlap *p = &c->problem;
    int64_t rows = c->out_extent[0], cols = c->out_extent[1];
    double *a = mt_malloc((size_t)(p->k + 1) * sizeof *a), *b = mt_malloc((size_t)(bands * p->k + 1) * sizeof *b);
    c->want = mt_new(&c->arena, double, (int)(across * bands) + 1);
    c->size = mt_new(&c->arena, double, (int)(across * bands) + 1);
    for (int64_t j = 0; j < bands; j++)
        for (int64_t k = 0; k < p->k; k++)
            b[j * p->k + k] = operand(p, 1, p->cols, k, c->first_col + sampled(cols, bands, j));
    for (int64_t i = 0; i < across; i++) {
        for (int64_t k = 0; k < p->k; k++) a[k] = operand(p, 0, p->k, c->first_row + sampled(rows, across, i), k);
        for (int64_t j = 0; j < bands; j++)
            for (int64_t k = 0; k < p->k; k++) {
                double term = a[k] * b[j * p->k + k];
                c->want[i * bands + j] += term;
                c->size[i * bands + j] += fabs(term);
            }
    }
    free(b);
    free(a);
}

/* Row i of the sample, of which the device's result is `have`. */
static enum mt_status compare_row(const struct mt_bench_case *c, const struct mt_bench_variant *v, int64_t i,
                                  int64_t row, int64_t bands, const char *have, enum mt_type type, struct mt_err *err) {
    const struct mt_overlap *p = &c->problem;
    double acc = epsilon(mt_type_acc(p->type)), wire = p->form == MT_OVERLAP_GATHER ? 0 : epsilon(p->wire);
    /* Some CPUs are faster where a few products of bf16 are added in f16 (kernels/cpu/onednn/half.h). */
    double few = p->type == MT_BF16 && strcmp(mt_device_kind(c->bench->device), "cuda") ? epsilon(MT_F16) : 0;
    for (int64_t j = 0; j < bands; j++) {
        int64_t col = sampled(c->out_extent[1], bands, j);
        double want = c->want[i * bands + j], size = c->size[i * bands + j], got = mt_type_load(type, have, col);
        double most =
            size * ((double)(p->k + p->n) * acc + few + 2 * wire) + fabs(want) * epsilon(p->out) + 1e-6 * wire;
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
    enum mt_type type = in_product ? c->product_type : p->out;
    int64_t row_bytes = cols * mt_type_size(type);
    const char *from = in_product ? c->product + c->first_row * row_bytes : c->out;
    char *have = mt_malloc((size_t)row_bytes + 1);
    if (!c->want) make_sample(c, across, bands);
    enum mt_status st = MT_OK;
    for (int64_t i = 0; i < across && cols && !st; i++) {
        int64_t row = sampled(rows, across, i);
        st = mt_device_copy_out(c->bench->device, have, from + row * row_bytes, row_bytes, err);
        if (!st) st = compare_row(c, v, i, row, bands, have, type, err);
    }
    free(have);
    return st;
}
