/* sum, sq_norm and count: reductions in pieces of fixed sizes. Each piece has a partial sum in scratch, and partial
 * sums are added in order, so the order of additions depends on the shape alone. */
#ifndef T
#include "kernels/cpu/c/internal.h"

enum { PIECE = 16384, COLUMNS = 2048 };

static int64_t pieces(int64_t length) {
    return (length + PIECE - 1) / PIECE;
}

/* The pieces of a sum. by_rows: the last group of axes is summed, an output element is the sum of rows, and partial
 * sums are [kept][pieces of a row]. Else the last group is kept, an output is a row, and partial sums are [kept][chunks
 * of rows][row]. */
struct cut {
    struct groups g; /* `in`: kept */
    bool by_rows;
    int64_t row, kept, summed, parts;
};

static void cut_sum(const struct mt_call *call, struct cut *c) {
    const struct mt_tensor *x = &call->in[0];
    unsigned all = (1u << x->naxes) - 1;
    mt_c_groups(x, all & ~call->attr->axes, &c->g);
    c->by_rows = !c->g.n || !c->g.in[c->g.n - 1];
    c->row = c->g.n ? c->g.extent[c->g.n - 1] : 1;
    c->kept = mt_c_outer_count(&c->g, true);
    c->summed = mt_c_outer_count(&c->g, false);
    c->parts = c->by_rows ? pieces(c->row) : chunk_count(c->summed);
}

static int64_t sum_scratch(const struct mt_call *call) {
    struct cut c;
    cut_sum(call, &c);
    return c.kept * c.parts * (c.by_rows ? 1 : c.row) * mt_type_size(call->out[0].type);
}

static int64_t sq_norm_scratch(const struct mt_call *call) {
    return pieces(mt_tensor_count(&call->in[0])) * (int64_t)sizeof(double);
}

static void count(const struct mt_call *call) {
    const int32_t *target = call->in[0].data;
    int64_t n = mt_tensor_count(&call->in[0]), counted = 0;
#pragma omp parallel for reduction(+ : counted) schedule(static) if (n >= WORTH_A_TEAM)
    for (int64_t i = 0; i < n; i++) counted += target[i] >= 0;
    mt_type_store(call->out[0].type, call->out[0].data, 0, (double)counted);
}
const struct mt_c_op mt_c_count = {{count, count, count, count}, NULL, NULL};

#define TYPED_SOURCE "kernels/cpu/c/sum.c"
#include "kernels/cpu/c/each_type.h"

void mt_c_add_partials(enum mt_type acc, int64_t parts, int64_t n, const void *partial, bool accumulate, void *to) {
    if (acc == MT_F64)
        add_partials_f64(parts, n, partial, accumulate, to);
    else
        add_partials_f32(parts, n, partial, accumulate, to);
}

C_OP_WITH(sum, sum_scratch, NULL);
C_OP_WITH(sq_norm, sq_norm_scratch, NULL);
C_OP_WITH(sq_norm_add, sq_norm_scratch, NULL);

#else

MT_CLONES static A TYPED(row_sum)(int64_t n, const T *x) {
    A s = 0;
#pragma omp simd reduction(+ : s)
    for (int64_t i = 0; i < n; i++) s += LOAD(x[i]);
    return s;
}

MT_CLONES static A TYPED(row_square)(int64_t n, const T *x) {
    A s = 0;
#pragma omp simd reduction(+ : s)
    for (int64_t i = 0; i < n; i++) s += LOAD(x[i]) * LOAD(x[i]);
    return s;
}

MT_CLONES static void TYPED(add_to)(int64_t n, const T *restrict x, A *restrict to) {
    for (int64_t i = 0; i < n; i++) to[i] += LOAD(x[i]);
}

MT_CLONES static void TYPED(add_four_to)(int64_t n, int64_t stride, const T *restrict x, A *restrict to) {
    for (int64_t i = 0; i < n; i++)
        to[i] += (LOAD(x[i]) + LOAD(x[i + stride])) + (LOAD(x[i + 2 * stride]) + LOAD(x[i + 3 * stride]));
}

MT_CLONES static void TYPED(add_partials_block)(int64_t parts, int64_t stride, int64_t n, const A *restrict partial,
                                                A *restrict to) {
    for (int64_t p = 0; p < parts; p++)
        for (int64_t i = 0; i < n; i++) to[i] += partial[p * stride + i];
}

static void TYPED(add_partials)(int64_t parts, int64_t n, const A *partial, bool accumulate, A *to) {
#pragma omp parallel for schedule(static) if (parts * n >= WORTH_A_TEAM)
    for (int64_t at = 0; at < n; at += COLUMNS) {
        int64_t count = least(COLUMNS, n - at);
        if (!accumulate) memset(to + at, 0, (size_t)count * sizeof(A));
        TYPED(add_partials_block)(parts, n, count, partial + at, to + at);
    }
}

static void TYPED(sum_rows)(const struct mt_call *call, const struct cut *c) {
    const T *x = call->in[0].data;
    A *y = call->out[0].data, *partial = call->scratch;
    bool team = c->kept * c->summed * c->row >= WORTH_A_TEAM;
#pragma omp parallel for collapse(2) schedule(static) if (team)
    for (int64_t k = 0; k < c->kept; k++)
        for (int64_t p = 0; p < c->parts; p++) {
            const T *from = x + mt_c_outer_offset(&c->g, true, k) + p * PIECE;
            A s = 0;
            for (int64_t q = 0; q < c->summed; q++)
                s += TYPED(row_sum)(least(PIECE, c->row - p * PIECE), from + mt_c_outer_offset(&c->g, false, q));
            partial[k * c->parts + p] = s;
        }
    for (int64_t k = 0; k < c->kept; k++) {
        double s = call->attr->accumulate ? (double)y[k] : 0;
        for (int64_t p = 0; p < c->parts; p++) s += (double)partial[k * c->parts + p];
        y[k] = (A)s;
    }
}

/* The sum of rows [first, end) of a column block, into `to`. */
static void TYPED(sum_chunk)(const struct cut *c, const T *x, int64_t first, int64_t end, int64_t columns, A *to) {
    bool dense = c->g.n == 2; /* [summed][kept]: four rows at a time, for fewer passes over `to` */
    memset(to, 0, (size_t)columns * sizeof(A));
    for (; dense && first + 4 <= end; first += 4) TYPED(add_four_to)(columns, c->row, x + first * c->row, to);
    for (; first < end; first++) TYPED(add_to)(columns, x + mt_c_outer_offset(&c->g, false, first), to);
}

static void TYPED(sum_columns)(const struct mt_call *call, const struct cut *c) {
    const T *x = call->in[0].data;
    A *y = call->out[0].data, *partial = call->scratch;
    int64_t rows = chunk_rows(c->summed), blocks = (c->row + COLUMNS - 1) / COLUMNS;
    bool team = c->kept * c->summed * c->row >= WORTH_A_TEAM;
#pragma omp parallel for collapse(3) schedule(static) if (team)
    for (int64_t k = 0; k < c->kept; k++)
        for (int64_t p = 0; p < c->parts; p++)
            for (int64_t b = 0; b < blocks; b++) {
                int64_t at = b * COLUMNS, first = p * rows;
                TYPED(sum_chunk)
                (c, x + mt_c_outer_offset(&c->g, true, k) + at, first, least(first + rows, c->summed),
                 least(COLUMNS, c->row - at), partial + (k * c->parts + p) * c->row + at);
            }
    for (int64_t k = 0; k < c->kept; k++) TYPED(add_partials)
    (c->parts, c->row, partial + k * c->parts * c->row, call->attr->accumulate, y + k * c->row);
}

static void TYPED(sum)(const struct mt_call *call) {
    struct cut c;
    cut_sum(call, &c);
    if (c.by_rows)
        TYPED(sum_rows)(call, &c);
    else
        TYPED(sum_columns)(call, &c);
}

static A TYPED(sum_of_squares)(const struct mt_call *call) {
    const T *x = call->in[0].data;
    double *partial = call->scratch, s = 0;
    int64_t n = mt_tensor_count(&call->in[0]), parts = pieces(n);
#pragma omp parallel for schedule(static) if (n >= WORTH_A_TEAM)
    for (int64_t p = 0; p < parts; p++)
        partial[p] = (double)TYPED(row_square)(least(PIECE, n - p * PIECE), x + p * PIECE);
    for (int64_t p = 0; p < parts; p++) s += partial[p];
    return (A)s;
}

static void TYPED(sq_norm)(const struct mt_call *call) {
    *(A *)call->out[0].data = TYPED(sum_of_squares)(call);
}

static void TYPED(sq_norm_add)(const struct mt_call *call) {
    A squares = TYPED(sum_of_squares)(call);
    *(A *)call->out[0].data = *(const A *)call->in[1].data + squares;
}
#endif
