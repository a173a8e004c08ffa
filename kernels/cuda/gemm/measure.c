/* How long the implementations and algorithms of a GEMM take.
 *
 * They run on operands of their own, since accumulating changes one, and on random ones (bench.h). There are several
 * sets of small operands, used in turns, so that they come from memory and not from a cache, as in a training step.
 *
 * First every offered algorithm runs once or twice; then the neighbours of the best few (other cluster shapes, options,
 * splits of k: the heuristic does not offer them all, which costs up to 13% of the time). Then the best of all and the
 * library's first choice run in rounds that are long enough for the device to reach the clocks that it can sustain:
 * what is fastest for a millisecond may draw the power that slows down everything after it. The mean of the rounds
 * decides; the library's first choice is kept unless another one is clearly faster. The winner's result must agree with
 * that of the first choice, else the next one wins: of what the heuristic does not offer, some algorithms are wrong for
 * some shapes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/arena.h"
#include "kernels/base/log.h"
#include "kernels/cuda/gemm/gemm.h"
#include "kernels/cuda/jit/shape.h"
#include "kernels/cuda/tune/bench.h"

enum {
    FINALISTS = 4, /* and the library's first choice */
    ROUNDS = 3,    /* of which the first warms up */
    MOST_RUNS = 200,
    PARENTS = 4,            /* whose neighbours are tried */
    LONG_PARENTS = 2,       /* of GEMMs that take longer than short_s */
    COLD_BYTES = 256 << 20, /* more than any cache holds */
    MOST_SETS = 16
};
static const double round_s = 15e-3; /* of a finalist */
static const double near = 1.2;      /* up to this times the best: is timed again */
static const double worth =
    0.99; /* below this times the time before: the search goes on, or the candidate is preferred */
static const double short_s = 1e-3;                          /* runs below this are timed more than once */
static const double agrees_half = 1e-2, agrees_float = 1e-3; /* of results of these types, relative in norm */
static const double load_s = 2e-2; /* that the first run of an algorithm may take longer, to load it */

struct candidate {
    struct gemm_choice choice;
    double time_s; /* of a run; infinite where it fails */
    bool parent;   /* its neighbours have been added */
    bool first;    /* the library's choice */
};

/* ---- operands ---- */

struct trial {
    struct cuda_bench bench;
    const struct gemm_shape *shape;
    struct gemm_data data[MOST_SETS];
    int sets, next;
    const struct gemm_choice *choice; /* that is timed */
    CUdeviceptr reference, sums;      /* y by the library's first choice; for comparisons with it */
};

struct block {
    int64_t count;
    enum mt_type type;
    size_t member; /* of struct gemm_data */
};
enum { NBLOCKS = 7 };

static void list_blocks(const struct gemm_shape *s, struct block blocks[NBLOCKS]) {
    enum mt_type in = s->in, out = s->out;
    bool biased = s->epilogue >= EPILOGUE_BIAS && s->epilogue <= EPILOGUE_RELU;
    bool slope = s->epilogue == EPILOGUE_GELU_GRAD || s->epilogue == EPILOGUE_RELU_GRAD;
#define AT(name) offsetof(struct gemm_data, name)
    const struct block all[NBLOCKS] = {{s->m * s->k, in, AT(a)},
                                       {s->k * s->n, in, AT(b)},
                                       {biased ? s->n : 0, in, AT(bias)},
                                       {slope ? s->m * s->n : 0, in, AT(x)},
                                       {s->m * s->n, out, AT(y)},
                                       {biased && s->epilogue > EPILOGUE_BIAS ? s->m * s->n : 0, out, AT(pre)},
                                       {s->epilogue == EPILOGUE_SUM ? s->n : 0, MT_F32, AT(sums)}};
#undef AT
    memcpy(blocks, all, sizeof all);
}

static int64_t round_up(int64_t bytes) {
    return divide_up(bytes, GEMM_ALIGN) * GEMM_ALIGN;
}

static enum mt_status place_set(struct trial *t, const struct block *blocks, CUdeviceptr *at, struct gemm_data *set,
                                struct mt_err *err) {
    enum mt_status st = MT_OK;
    for (int i = 0; !st && i < NBLOCKS; i++) {
        void *place = (void *)(uintptr_t)*at;
        if (!blocks[i].count) continue;
        memcpy((char *)set + blocks[i].member, &place, sizeof place);
        st = cuda_bench_numbers(&t->bench.queue, blocks[i].type, place, blocks[i].count, 0, -0.5f, 1, err);
        *at += (CUdeviceptr)round_up(blocks[i].count * mt_type_size(blocks[i].type));
    }
    return st;
}

static enum mt_status trial_init(struct trial *t, const struct cuda_queue *queue, const struct gemm_shape *shape,
                                 struct mt_err *err) {
    struct block blocks[NBLOCKS];
    int64_t set_bytes = 0, y_bytes = round_up(shape->m * shape->n * mt_type_size((enum mt_type)shape->out));
    int64_t scratch_bytes =
        round_up(gemm_scratch_bytes(queue->cuda, shape)) + y_bytes + round_up(CUDA_BENCH_SUMS_BYTES);
    list_blocks(shape, blocks);
    for (int i = 0; i < NBLOCKS; i++) set_bytes += round_up(blocks[i].count * mt_type_size(blocks[i].type));
    *t = (struct trial){.shape = shape};
    t->sets = (int)least(largest(divide_up(COLD_BYTES, set_bytes), 1), MOST_SETS);
    enum mt_status st = cuda_bench_init(&t->bench, queue, err);
    if (st) return st;
    CUdeviceptr *memory = &t->bench.memory;
    CUresult result = cuMemAlloc(memory, (size_t)(t->sets * set_bytes + scratch_bytes));
    if (result == CUDA_ERROR_OUT_OF_MEMORY && t->sets > 1) /* a device that is nearly full */
        t->sets = 1, result = cuMemAlloc(memory, (size_t)(set_bytes + scratch_bytes));
    CUDA_TRY(result, err, "memory to time GEMMs in");
    CUdeviceptr at = *memory + (CUdeviceptr)scratch_bytes;
    t->reference = at - (CUdeviceptr)y_bytes, t->sums = t->reference - (CUdeviceptr)round_up(CUDA_BENCH_SUMS_BYTES);
    for (int i = 0; !st && i < t->sets; i++) {
        st = place_set(t, blocks, &at, &t->data[i], err);
        t->data[i].scratch = (void *)(uintptr_t)*memory;
    }
    if (st) return st;
    CUDA_TRY(cuStreamSynchronize(t->bench.queue.stream), err, "filling operands");
    return MT_OK;
}

static enum mt_status run(void *context, struct mt_err *err) {
    struct trial *t = context;
    return gemm_run(&t->bench.queue, t->shape, t->choice, &t->data[t->next++ % t->sets], err);
}

static enum mt_status time_runs(struct trial *t, const struct gemm_choice *choice, int runs, double *time_s,
                                struct mt_err *err) {
    t->choice = choice;
    return cuda_bench_time(&t->bench, run, t, runs, time_s, err);
}

/* ---- candidates ---- */

static int by_time(const void *a, const void *b) {
    double x = ((const struct candidate *)a)->time_s, y = ((const struct candidate *)b)->time_s;
    return (x > y) - (x < y);
}

/* Run it once, which also loads it, and once more; twice more if that is short and near the best. One that is 10 times
 * as slow as the best, even without load_s, is not run again. */
static void try_out(struct trial *t, struct candidate *c, double best_s) {
    struct mt_err err = MT_ERR_INIT;
    double again_s = INFINITY;
    enum mt_status st = time_runs(t, &c->choice, 1, &c->time_s, &err);
    if (!st && c->time_s - load_s < 10 * best_s) st = time_runs(t, &c->choice, 1, &again_s, &err);
    if (!st && again_s < c->time_s) c->time_s = again_s;
    if (!st && c->time_s < best_s * near && c->time_s < short_s) {
        st = time_runs(t, &c->choice, 2, &again_s, &err);
        if (again_s < c->time_s) c->time_s = again_s;
    }
    if (!st) return;
    c->time_s = INFINITY;
    mt_log(MT_LOG_DEBUG, "a candidate is out: %s", err.text);
}

struct field {
    struct candidate *c;
    int count, capacity;
    double best_s;
};

/* Time those of the list that are new. */
static void enter(struct trial *t, struct field *f, const struct gemm_list *list) {
    int known = f->count;
    for (int i = 0; i < list->count; i++) {
        const struct gemm_choice *choice = &list->choices[i];
        bool fresh = true;
        for (int k = 0; k < known && fresh; k++)
            fresh =
                f->c[k].choice.impl != choice->impl || memcmp(&f->c[k].choice.algo, &choice->algo, sizeof choice->algo);
        if (!fresh) continue;
        if (f->count == f->capacity)
            f->c = mt_realloc(f->c, (size_t)(f->capacity = 2 * f->capacity + 64) * sizeof *f->c);
        struct candidate *c = &f->c[f->count++];
        *c = (struct candidate){.choice = *choice, .first = f->count == 1};
        try_out(t, c, f->best_s);
        if (c->time_s < f->best_s) f->best_s = c->time_s;
    }
    qsort(f->c, (size_t)f->count, sizeof *f->c, by_time);
}

static enum mt_status enter_neighbours(struct trial *t, struct field *f, struct mt_err *err) {
    struct gemm_list list = {0};
    enum mt_status st = MT_OK;
    int parents = 0, most = f->best_s < short_s ? PARENTS : LONG_PARENTS;
    for (int i = 0; !st && i < f->count && parents < most && f->c[i].time_s < f->best_s * near; i++) {
        if (f->c[i].parent) continue;
        f->c[i].parent = true, parents++;
        st = gemm_neighbours(t->shape, &f->c[i].choice, &list, err);
    }
    if (!st) enter(t, f, &list);
    free(list.choices);
    return st;
}

/* ---- agreement ---- */

/* y of the first set, from the same beginning each time. */
static enum mt_status compute(struct trial *t, const struct gemm_choice *choice, struct mt_err *err) {
    const struct cuda_queue *queue = &t->bench.queue;
    const struct gemm_shape *s = t->shape;
    enum mt_status st = cuda_bench_numbers(queue, (enum mt_type)s->out, t->data[0].y, s->m * s->n, 0, -0.5f, 1, err);
    return st ? st : gemm_run(queue, s, choice, &t->data[0], err);
}

/* *agrees: the results of two choices do. */
static enum mt_status compare(struct trial *t, const struct gemm_choice *first, const struct gemm_choice *choice,
                              bool *agrees, struct mt_err *err) {
    const struct cuda_queue *queue = &t->bench.queue;
    const struct gemm_shape *s = t->shape;
    enum mt_type out = (enum mt_type)s->out;
    double error;
    enum mt_status st = compute(t, first, err);
    if (st) return st;
    CUDA_TRY(cuMemcpyDtoDAsync(t->reference, (CUdeviceptr)t->data[0].y, (size_t)(s->m * s->n * mt_type_size(out)),
                               queue->stream),
             err, "keeping a result");
    if (!(st = compute(t, choice, err)))
        st = cuda_bench_compare(queue, out, t->data[0].y, t->reference, s->m * s->n, t->sums, &error, err);
    *agrees = !st && error <= (mt_type_is_half(out) ? agrees_half : agrees_float);
    if (!st && !*agrees) mt_log(MT_LOG_INFO, "a GEMM's algorithm is off by %g of its result, and is not used", error);
    return st;
}

/* The first of the candidates that agrees with the library's first choice. */
static enum mt_status choose_right(struct trial *t, const struct field *f, const struct gemm_choice *first, int *best,
                                   struct mt_err *err) {
    bool agrees = false;
    for (*best = 0; *best < f->count; ++*best) {
        const struct candidate *c = &f->c[*best];
        if (c->first || isinf(c->time_s)) break;
        enum mt_status st = compare(t, first, &c->choice, &agrees, err);
        if (st || agrees) return st;
    }
    for (int i = 0; i < f->count; i++)
        if (f->c[i].first) *best = i;
    return MT_OK;
}

/* ---- the race ---- */

/* Run the best few and the library's first choice in turns; the winner comes to the front. */
static void race(struct trial *t, struct field *f) {
    struct candidate *c = f->c;
    int count = f->count < FINALISTS ? f->count : FINALISTS;
    for (int i = count; i < f->count; i++)
        if (c[i].first && isfinite(c[i].time_s)) c[count++] = c[i];
    double sum_s[FINALISTS + 1] = {0};
    int runs = (int)fmax(1, fmin(MOST_RUNS, round_s / f->best_s));
    for (int round = 0; round < ROUNDS && count > 1; round++)
        for (int i = 0; i < count; i++) {
            struct mt_err err = MT_ERR_INIT;
            bool too_slow = c[i].time_s > f->best_s * near && !c[i].first;
            double time_s = c[i].time_s;
            if (!too_slow && time_runs(t, &c[i].choice, runs, &time_s, &err)) time_s = INFINITY;
            if (round) sum_s[i] += time_s;
        }
    for (int i = 0; i < count && count > 1; i++) c[i].time_s = sum_s[i] / (ROUNDS - 1) * (c[i].first ? worth : 1);
    qsort(c, (size_t)count, sizeof *c, by_time);
    if (c[0].first && count > 1) c[0].time_s /= worth;
}

enum mt_status gemm_measure(const struct cuda_queue *queue, const struct gemm_shape *shape,
                            const struct gemm_list *offered, struct gemm_choice *best, double *time_s,
                            struct mt_err *err) {
    struct trial t;
    struct field f = {.best_s = INFINITY};
    enum mt_status st = trial_init(&t, queue, shape, err);
    if (!st) enter(&t, &f, offered);
    for (double before_s = INFINITY; !st && isfinite(f.best_s) && f.best_s < before_s * worth;) {
        before_s = f.best_s;
        st = enter_neighbours(&t, &f, err);
    }
    if (!st && isinf(f.best_s)) st = mt_fail(err, MT_ESYSTEM, "none of the algorithms runs");
    int right = 0;
    if (!st) race(&t, &f);
    if (!st) st = choose_right(&t, &f, &offered->choices[0], &right, err);
    if (!st) *best = f.c[right].choice, *time_s = f.c[right].time_s;
    cuda_bench_release(&t.bench);
    free(f.c);
    return st;
}
