/* A shape and a form: its problem, this rank's operands, the window, collectives, and rounds of turns. */
#include <math.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/number/rng.h"
#include "kernels/base/text/units.h"
#include "kernels/base/wait.h"
#include "kernels/overlap/chunk.h"
#include "launcher/bench/overlap/internal.h"
#include "launcher/session/agree.h"
#include "planner/balance/split.h"

static const double before_final = 0.7;
enum { TAG = 6, ALIGN = 256, ALIGNED = 8 /* rows and columns of a share */, TRIED = 5, LEAST_ROUNDS = 5 };

/* ---- the problem ---- */

enum mt_status mt_bench_overlap_divide(const struct mt_bench_overlap *b, const char *what, int64_t extent,
                                       int64_t *sizes, struct mt_err *err) {
    int n = b->nranks;
    double *weights = mt_calloc((size_t)n, sizeof *weights);
    for (int r = 0; r < n; r++) weights[r] = b->options->shares ? (double)b->options->shares[r] : 1;
    enum mt_status st =
        mt_split_proportional(extent, extent % ALIGNED || extent < ALIGNED * n ? 1 : ALIGNED, weights, n, sizes, err);
    free(weights);
    for (int r = 0; r < n && !st; r++)
        if (!sizes[r]) {
            st = mt_fail(err, MT_EINPUT, "--shape: %s %lld is too small: rank %d would have none of it", what,
                         (long long)extent, r);
            mt_err_hint(err, "give a larger shape, or more even --shares");
        }
    return st;
}

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* On a GPU a tile is one GEMM, of whole waves. */
static void choose_tiles(const struct mt_bench_overlap *b, struct mt_overlap *p) {
    int all, workers = mt_device_multiprocessors(b->device, &all), busiest = 0;
    mt_overlap_choose_tiles(p);
    p->direct = false;
    if (!workers) return;
    int64_t most = 1;
    for (int r = 0; r < p->n; r++) {
        if (p->shares[r] > p->shares[busiest]) busiest = r;
        most = larger(most, p->rows[r]);
    }
    p->tile[0] = mt_overlap_chunk_rows(p, busiest, workers);
    if (p->tile[0] > most) p->tile[0] = most;
    p->tile[1] = larger(p->cols, 1);
}

enum mt_status mt_bench_case_pose(struct mt_bench_case *c, enum mt_overlap_form form, struct mt_err *err) {
    struct mt_bench_overlap *b = c->bench;
    struct mt_overlap *p = &c->problem;
    int64_t *rows = mt_new(&c->arena, int64_t, b->nranks), *shares = mt_new(&c->arena, int64_t, b->nranks);
    bool gather = form == MT_OVERLAP_GATHER;
    enum mt_type sums = b->f32_sums && !gather ? MT_F32 : b->precision;
    *p = (struct mt_overlap){.form = form,
                             .n = b->nranks,
                             .m = c->shape[0],
                             .cols = c->shape[gather ? 1 : 2],
                             .k = c->shape[gather ? 2 : 1],
                             .rows = rows,
                             .shares = shares,
                             .type = b->precision,
                             .out = c->of ? c->of->out : sums,
                             .wire = c->of ? c->of->wire : sums,
                             .tf32 = b->tf32};
    enum mt_status st = MT_OK;
    if (c->of) {
        memcpy(rows, c->of->rows, (size_t)p->n * sizeof *rows);
        memcpy(shares, c->of->shares, (size_t)p->n * sizeof *shares);
    } else {
        st = mt_bench_overlap_divide(b, "M", p->m, rows, err);
        if (!st) st = mt_bench_overlap_divide(b, "N", c->shape[1], shares, err);
    }
    if (st) return st;
    choose_tiles(b, p);
    for (int r = 0; r < b->rank; r++) {
        c->gathered_at += rows[r];
        if (gather) c->first_col += shares[r];
        if (form == MT_OVERLAP_SCATTER) c->first_row += rows[r];
    }
    mt_overlap_extent(p, b->rank, MT_OVERLAP_OUT, c->out_extent);
    return mt_overlap_check(p, err);
}

/* ---- operands ---- */

static int64_t padded(int64_t bytes) {
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static enum mt_status make_gemm(struct mt_bench_case *c, struct mt_err *err) {
    const struct mt_overlap *p = &c->problem;
    bool gather = p->form == MT_OVERLAP_GATHER;
    int64_t share = p->shares[c->bench->rank], k = gather ? p->k : share, cols = gather ? share : p->cols;
    int64_t extents[3][2] = {{p->m, k}, {k, cols}, {p->m, cols}};
    c->product_type = gather ? p->out : c->bench->wire->class->queue ? p->wire : mt_type_acc(p->type);
    c->attr = (struct mt_attr){.nm = 1, .nn = 1, .nk = 1, .out_acc = c->product_type != p->type, .tf32 = p->tf32};
    for (int i = 0; i < 3; i++) {
        struct mt_tensor *t = &c->tensors[i];
        *t = (struct mt_tensor){.type = i < 2 ? p->type : c->product_type, .naxes = 2};
        for (int a = 0; a < 2; a++) t->extent[a] = t->global[a] = extents[i][a];
    }
    c->gemm = (struct mt_call){.kind = MT_OP_matmul,
                               .attr = &c->attr,
                               .nin = 2,
                               .nout = 1,
                               .in = c->tensors,
                               .out = c->tensors + 2,
                               .what = "GEMM"};
    c->backend = mt_device_backend(c->bench->device, &c->gemm);
    if (c->backend->supports(&c->gemm)) return MT_OK;
    mt_fail(err, MT_EINPUT, "--precision: this device has no GEMM of %s", p->tf32 ? "tf32" : mt_type_name(p->type));
    return mt_err_hint(err, "--precision f32 is for all devices");
}

/* That variants from `first` on need. */
static int64_t scratch_of(const struct mt_bench_case *c, int first) {
    int64_t most = 0;
    for (int i = first; i < c->nvariants; i++)
        if (mt_bench_is_form(&c->variants[i]))
            most = larger(
                most, mt_device_overlap_scratch_bytes(c->bench->device, &c->variants[i].problem, c->bench->rank, 0));
    return most;
}

static enum mt_status allocate(struct mt_bench_case *c, struct mt_err *err) {
    const struct mt_overlap *p = &c->problem;
    bool gather = p->form == MT_OVERLAP_GATHER;
    struct mt_bench_overlap *b = c->bench;
    int64_t gemm_scratch = c->backend->scratch_bytes ? c->backend->scratch_bytes(&c->gemm) : 0;
    c->scratch_bytes = scratch_of(c, 0);
    int64_t bytes[] = {mt_tensor_bytes(&c->tensors[0]),
                       mt_tensor_bytes(&c->tensors[1]),
                       c->out_extent[0] * c->out_extent[1] * mt_type_size(p->out),
                       gather ? 0 : mt_tensor_bytes(&c->tensors[2]),
                       c->scratch_bytes,
                       gemm_scratch};
    char **memory[] = {&c->a, &c->b, &c->out, &c->product, &c->scratch, &c->gemm_scratch};
    enum mt_status st = MT_OK;
    for (int i = 0; i < 6 && !st; i++) st = mt_device_alloc(b->device, padded(bytes[i] + 1), (void **)memory[i], err);
    c->tensors[0].data = c->a, c->tensors[1].data = c->b, c->tensors[2].data = gather ? c->out : c->product;
    c->gemm.scratch = gemm_scratch ? c->gemm_scratch : NULL;
    return st;
}

/* ---- the collective ---- */

/* The collective by one algorithm, in `v`. */
static void set_message(struct mt_bench_case *c, struct mt_bench_variant *v) {
    const struct mt_overlap *p = &c->problem;
    struct mt_bench_overlap *b = c->bench;
    bool gather = p->form == MT_OVERLAP_GATHER, reduces = !gather;
    enum mt_type acc = reduces ? c->product_type : p->type;
    v->message = (struct mt_coll_call){.problem = {.kind = v->algorithm->kind,
                                                   .reduce = reduces ? MT_SUM : MT_REDUCE_NONE,
                                                   .wire = p->wire,
                                                   .acc = acc,
                                                   .n = p->n,
                                                   .me = b->rank,
                                                   .counts = c->counts},
                                       .comm = b->wire,
                                       .group = b->group,
                                       .tag = TAG,
                                       .deadline_s = b->options->deadline_s,
                                       .message = {gather ? c->a : c->product},
                                       .message_count = {gather ? p->m * p->k : p->m * p->cols},
                                       .what = mt_coll_name(v->algorithm->kind)};
    if (!reduces || acc == p->out) return;
    c->unpack = (struct mt_piece){.at = c->first_row * p->cols,
                                  .naxes = 1,
                                  .extent = {c->out_extent[0] * c->out_extent[1]},
                                  .stride = {1},
                                  .data = c->out,
                                  .type = p->out};
    v->message.nunpack = 1, v->message.unpack = &c->unpack;
}

/* The fastest algorithm of the collective, of a few runs each. */
static const struct mt_coll_algorithm *choose_algorithm(struct mt_bench_case *c, enum mt_coll_kind kind) {
    const struct mt_coll_algorithm *best = NULL;
    double best_s = INFINITY;
    if (c->bench->wire->class->queue) return mt_coll_of_nccl(kind); /* it chooses itself */
    for (int i = 0; i < mt_coll_nalgorithms; i++) {
        struct mt_bench_variant v = {.part = MT_BENCH_COLLECTIVE, .algorithm = mt_coll_algorithms[i]};
        if (v.algorithm->kind != kind || v.algorithm->by_node) continue;
        v.name = v.algorithm->name;
        set_message(c, &v);
        if (!v.algorithm->applies(&v.message.problem)) continue;
        v.algorithm->schedule(&v.message.problem, &v.steps);
        v.message.schedule = &v.steps;
        double own_s, least_s = INFINITY;
        for (int t = 0; t < TRIED; t++) least_s = fmin(least_s, mt_bench_variant_run(c, &v, t ? 2 : 1, &own_s));
        if (least_s < best_s) best_s = least_s, best = v.algorithm;
        mt_bench_variant_release(&v);
    }
    return best;
}

static enum mt_coll_kind kind_of(enum mt_overlap_form form) {
    return form == MT_OVERLAP_GATHER ? MT_ALL_GATHER : form == MT_OVERLAP_SCATTER ? MT_REDUCE_SCATTER : MT_ALL_REDUCE;
}

static void count_message(struct mt_bench_case *c) {
    const struct mt_overlap *p = &c->problem;
    int64_t all = p->m * p->cols;
    c->counts = mt_new(&c->arena, int64_t, p->n);
    for (int r = 0; r < p->n; r++) {
        c->counts[r] = p->rows[r] * (p->form == MT_OVERLAP_GATHER ? p->k : p->cols);
        if (p->form == MT_OVERLAP_REDUCE) c->counts[r] = all * (r + 1) / p->n - all * r / p->n;
    }
}

static void connect_collective(struct mt_bench_case *c, struct mt_bench_variant *v,
                               const struct mt_coll_algorithm *algorithm) {
    const struct mt_comm_class *class = c->bench->wire->class;
    v->algorithm = algorithm;
    set_message(c, v);
    algorithm->schedule(&v->message.problem, &v->steps);
    v->message.schedule = &v->steps;
    if (v->part == MT_BENCH_COLLECTIVE)
        v->name = mt_arena_printf(&c->arena, "%s, %s", mt_coll_name(algorithm->kind),
                                  class->queue ? class->name : algorithm->name);
}

static void connect_form(struct mt_bench_case *c, struct mt_bench_variant *v, char *scratch) {
    const struct mt_overlap *p = &c->problem;
    int64_t own = p->form == MT_OVERLAP_GATHER ? c->gathered_at * p->k * mt_type_size(p->type) : 0;
    bool any = v->problem.how == MT_OVERLAP_ANY;
    v->call = (struct mt_overlap_call){.problem = &v->problem,
                                       .schedule = &v->schedule,
                                       .window = c->window,
                                       .comm = c->bench->wire,
                                       .epoch = &v->epoch,
                                       .how = v->problem.how,
                                       .chunk_rows = any, /* 1: a tile is a chunk; 0: by waves */
                                       .operands = {.a = c->a + own,
                                                    .b = c->b,
                                                    .out = c->out,
                                                    .matmul = c->backend,
                                                    .scratch = scratch,
                                                    .what = mt_overlap_name(p->form)}};
}

/* Variants from `first` on. */
static void connect(struct mt_bench_case *c, int first, char *scratch) {
    const struct mt_coll_algorithm *algorithm = first ? NULL : choose_algorithm(c, kind_of(c->problem.form));
    for (int i = first; i < c->nvariants; i++) {
        struct mt_bench_variant *v = &c->variants[i];
        if (v->part == MT_BENCH_COLLECTIVE || v->part == MT_BENCH_SEQUENTIAL) connect_collective(c, v, algorithm);
        if (mt_bench_is_form(v)) connect_form(c, v, scratch);
    }
}

/* ---- the whole ---- */

static enum mt_status set_up(struct mt_bench_case *c, enum mt_overlap_form form, struct mt_err *err) {
    enum mt_status st = mt_bench_case_pose(c, form, err);
    if (!st) st = make_gemm(c, err);
    if ((st = mt_agree(MPI_COMM_WORLD, st, err))) return st;
    count_message(c);
    mt_bench_forms_add(c);
    c->window_bytes = mt_bench_forms_window_bytes(c);
    st = allocate(c, err);
    return st ? st : mt_bench_values_fill(c, err);
}

/* A variant that computes the whole does so right, in both copies of its staging. */
static enum mt_status check(struct mt_bench_case *c, struct mt_bench_variant *v, struct mt_err *err) {
    enum mt_status st = MT_OK;
    if (v->part != MT_BENCH_SEQUENTIAL && v->part != MT_BENCH_OVERLAPPED) return MT_OK;
    mt_bench_variant_begin(c, v);
    for (int copy = 0; copy < MT_OVERLAP_COPIES && !st; copy++) {
        double own_s;
        if ((st = mt_agree(MPI_COMM_WORLD, mt_bench_values_poison(c, v, err), err))) return st;
        mt_bench_variant_run(c, v, 1, &own_s);
        st = mt_agree(MPI_COMM_WORLD, mt_bench_values_check(c, v, err), err);
    }
    return st;
}

enum mt_status mt_bench_case_check(struct mt_bench_case *c, struct mt_err *err) {
    enum mt_status st = MT_OK;
    for (int i = 0; i < c->nvariants && !st; i++) st = check(c, &c->variants[i], err);
    return st;
}

enum mt_status mt_bench_case_check_final(struct mt_bench_case *c, struct mt_err *err) {
    int parts[] = {c->sequential, c->chosen, c->best};
    enum mt_status st = MT_OK;
    for (int i = 0; i < 3 && !st; i++) st = check(c, &c->variants[parts[i]], err);
    return st;
}

/* Whether this part of the case's seconds is over; the same answer on all ranks. */
static bool late(const struct mt_bench_case *c, double part) {
    double limit_s = part * c->bench->options->seconds;
    int is = limit_s > 0 && mt_now_s() - c->begun_s > limit_s;
    MPI_Bcast(&is, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return is;
}

/* A GPU is faster after it has rested: in each round other variants come before one. The same order on all ranks. */
static void shuffle(int *order, int count, int round) {
    for (int i = 0; i < count; i++) order[i] = i;
    for (int i = count - 1; i > 0; i--) {
        int j = (int)(mt_random_u32(MT_BENCH_OVERLAP_SEED, (uint64_t)round, (uint64_t)i) % (uint32_t)(i + 1));
        int was = order[i];
        order[i] = order[j], order[j] = was;
    }
}

void mt_bench_case_rounds(struct mt_bench_case *c, int rounds) {
    int order[MT_BENCH_VARIANTS];
    for (c->rounds = 0; c->rounds < rounds && !(c->rounds >= LEAST_ROUNDS && late(c, before_final)); c->rounds++) {
        shuffle(order, c->nvariants, c->rounds);
        for (int i = 0; i < c->nvariants; i++) {
            struct mt_bench_variant *v = &c->variants[order[i]];
            mt_bench_variant_turn(c, v, &v->time_s[c->rounds], &v->own_s[c->rounds]);
        }
    }
}

void mt_bench_case_final(struct mt_bench_case *c) {
    int parts[] = {c->gemm_alone, c->collective, c->sequential, c->chosen, c->best};
    enum { NPARTS = sizeof parts / sizeof *parts };
    for (int round = 0; round < c->rounds; round++)
        for (int i = 0; i < NPARTS; i++) {
            struct mt_bench_variant *v = &c->variants[parts[(i + round) % NPARTS]];
            double own_s;
            mt_bench_variant_turn(c, v, &v->final_s[round], &own_s);
        }
}

/* A few rounds give rates, by which those that are predicted to be fast are found. */
static enum mt_status add_fast(struct mt_bench_case *c, struct mt_err *err) {
    struct mt_bench_overlap *b = c->bench;
    int first = c->nvariants;
    mt_bench_case_rounds(c, MT_BENCH_PILOT_ROUNDS);
    enum mt_status st = mt_bench_forms_add_fast(c, err);
    if (st) return st;
    char *scratch = c->scratch;
    int64_t scratch_bytes = scratch_of(c, first);
    for (int i = first; i < c->nvariants; i++)
        if (mt_overlap_window_bytes(&c->variants[i].problem) > c->window_bytes)
            st = mt_fail(err, MT_EBUG, "%s needs a larger window than was foreseen", c->variants[i].name);
    if (!st && scratch_bytes > c->scratch_bytes) {
        st = mt_device_alloc(b->device, padded(scratch_bytes), (void **)&c->more_scratch, err);
        scratch = c->more_scratch;
    }
    if ((st = mt_agree(MPI_COMM_WORLD, st, err))) return st;
    connect(c, first, scratch);
    for (int i = first; i < c->nvariants && !st; i++) {
        st = check(c, &c->variants[i], err);
        if (!st) mt_bench_variant_prepare(c, &c->variants[i]);
    }
    return st;
}

enum mt_status mt_bench_case_init(struct mt_bench_case *c, struct mt_bench_overlap *bench, enum mt_overlap_form form,
                                  const int64_t shape[3], const struct mt_overlap *of, struct mt_err *err) {
    *c = (struct mt_bench_case){
        .bench = bench, .shape = {shape[0], shape[1], shape[2]}, .of = of, .begun_s = mt_now_s()};
    enum mt_status st = mt_agree(MPI_COMM_WORLD, set_up(c, form, err), err);
    if (st) return st;
    st = mt_device_window_new(bench->device, bench->wire, c->window_bytes, bench->options->deadline_s, &c->window, err);
    if ((st = mt_agree(MPI_COMM_WORLD, st, err))) return st;
    /* Rates are measured on parts of forms that run by puts. */
    st = mt_device_window_reaches(c->window, bench->group, bench->nranks, NULL, err);
    if ((st = mt_agree(MPI_COMM_WORLD, st, err))) return st;
    connect(c, 0, c->scratch);
    if ((st = mt_bench_case_check(c, err))) return st;
    for (int i = 0; i < c->nvariants; i++) mt_bench_variant_prepare(c, &c->variants[i]);
    return add_fast(c, err);
}

void mt_bench_case_release(struct mt_bench_case *c) {
    for (int i = 0; i < c->nvariants; i++) mt_bench_variant_release(&c->variants[i]);
    mt_window_free(c->window);
    char *memory[] = {c->a, c->b, c->out, c->product, c->scratch, c->gemm_scratch, c->more_scratch};
    for (int i = 0; i < 7; i++)
        if (memory[i]) mt_device_free(c->bench->device, memory[i]);
    mt_arena_release(&c->arena);
}
