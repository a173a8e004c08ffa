/* Collectives of separate tensors, as arrays, on any number of ranks: threads act as ranks, and a wire in
 * memory for NCCL, which takes arrays only if all ranks bring as many, as long, with the same roots. Tensors divided by
 * rows and by columns, of other types, with gaps on some ranks; even blocks, uneven ones, a rank without any; a tensor
 * that is its own message on some ranks only. Whole numbers, so that sums are exact. */
#include <pthread.h>
#include <stdlib.h>

#include "tests/check.h"

#ifndef MOTLEY_CUDA
int main(void) {
    printf("skipped: built without CUDA\n");
    return 77;
}
#else
#include "kernels/cuda/nccl/call.h"
#include "kernels/cuda/nccl/pipeline.h"

enum { MOST_RANKS = 5, TENSORS = 4, ROOM = 1 << 16 };

/* ---- the wire ---- */

static pthread_barrier_t meeting;
static const struct mt_comm_arrays *brought[MOST_RANKS];
static bool parts;
static int went[MOST_RANKS]; /* calls that came to the wire */

static double sum_at(const struct mt_coll *problem, int i, int64_t k) {
    double sum = 0;
    for (int r = 0; r < problem->n; r++) sum += ((const float *)brought[r]->from[i])[k];
    return sum;
}

/* What array i becomes on this rank; returns how many elements. */
static int64_t combine(const struct mt_coll *problem, const struct mt_comm_arrays *a, int i, float *out) {
    int64_t count = a->count[i], n = problem->n;
    bool mine = !a->root || a->root[i] == problem->me;
    if (problem->kind == MT_ALL_GATHER) {
        for (int64_t r = 0; r < (a->root ? 1 : n); r++)
            memcpy(out + r * count, brought[a->root ? a->root[i] : r]->from[i], (size_t)count * sizeof *out);
        return a->root ? count : n * count;
    }
    int64_t first = problem->kind == MT_REDUCE_SCATTER && !a->root ? problem->me * count : 0;
    for (int64_t k = 0; k < count && mine; k++) out[k] = (float)sum_at(problem, i, first + k);
    return mine ? count : 0;
}

/* NCCL works in place where a rank's block lies where it belongs among all; else memory must not overlap. */
static void check_place(const struct mt_coll *problem, const struct mt_comm_arrays *a, int i) {
    int64_t count = a->count[i], whole = a->root || problem->kind == MT_ALL_REDUCE ? count : problem->n * count;
    bool gathers = problem->kind == MT_ALL_GATHER;
    const float *all = gathers ? a->to[i] : a->from[i], *mine = gathers ? a->from[i] : a->to[i];
    if (!mine || mine == all + (whole > count ? problem->me * count : 0)) return;
    CHECK(mine + count <= all || all + whole <= mine, "%s, array %d", mt_coll_name(problem->kind), i);
}

static enum mt_status queue_arrays(struct mt_comm *comm, const void *stream, const struct mt_coll *problem,
                                   const int *group, const struct mt_comm_arrays *a, struct mt_err *why) {
    (void)stream, (void)group, (void)why;
    brought[comm->rank] = a;
    pthread_barrier_wait(&meeting);
    CHECK_EQ(a->n, brought[0]->n);
    CHECK_EQ(!a->root, !brought[0]->root);
    for (int i = 0; i < a->n; i++) {
        CHECK_EQ(a->count[i], brought[0]->count[i]);
        if (a->root) CHECK_EQ(a->root[i], brought[0]->root[i]);
        check_place(problem, a, i);
    }
    float **out = calloc((size_t)a->n + 1, sizeof *out);
    int64_t *count = calloc((size_t)a->n + 1, sizeof *count);
    for (int i = 0; i < a->n; i++) {
        out[i] = malloc((size_t)(a->count[i] * problem->n + 1) * sizeof **out);
        count[i] = combine(problem, a, i, out[i]);
    }
    pthread_barrier_wait(&meeting); /* all have read */
    for (int i = 0; i < a->n; i++) {
        if (count[i]) memcpy(a->to[i], out[i], (size_t)count[i] * sizeof **out);
        free(out[i]);
    }
    free(out), free(count);
    went[comm->rank]++;
    pthread_barrier_wait(&meeting);
    return MT_OK;
}

static bool prefers_roots(struct mt_comm *comm, const struct mt_coll *problem, const int *group) {
    (void)comm, (void)problem, (void)group;
    return parts;
}

static const struct mt_comm_class wire = {.name = "wire", .queue_arrays = queue_arrays, .prefers_roots = prefers_roots};

/* Copies between tensors and messages of f32, as the device's kernels make them. */
static void copy_pieces(void *const message[2], const struct mt_piece *pieces, int count, bool pack) {
    for (int i = 0; i < count; i++) {
        const struct mt_piece *p = &pieces[i];
        for (int64_t row = 0; row < p->extent[0]; row++)
            for (int64_t column = 0; column < p->extent[1]; column++) {
                float *at = (float *)message[0] + p->at + row * p->extent[1] + column;
                int64_t lies = row * p->stride[0] + column * p->stride[1];
                if (pack)
                    *at = (float)mt_type_load(p->type, p->data, lies);
                else
                    mt_type_store(p->type, p->data, lies, *at);
            }
    }
}

enum mt_status cuda_pipeline_pack(struct cuda_pipeline *pipeline, const struct cuda_queue *queue,
                                  const struct mt_coll_call *call, const struct mt_piece *pieces, int count,
                                  struct mt_err *why) {
    (void)pipeline, (void)queue, (void)why;
    copy_pieces(call->message, pieces, count, true);
    return MT_OK;
}
enum mt_status cuda_pipeline_unpack(struct cuda_pipeline *pipeline, const struct cuda_queue *queue,
                                    const struct mt_coll_call *call, const struct mt_piece *pieces, int count,
                                    struct mt_err *why) {
    (void)pipeline, (void)queue, (void)why;
    copy_pieces(call->message, pieces, count, false);
    return MT_OK;
}

/* ---- trials ---- */

/* Tensor t has ROWS x COLUMNS units of the ranks' shares, by rows or by columns. */
static const struct {
    enum mt_type type;
    bool columns;
    int64_t unit, across;
} tensors[TENSORS] = {{MT_F32, false, 2, 12}, {MT_BF16, false, 1, 5}, {MT_F32, true, 3, 7}, {MT_F32, false, 1, 8}};

static struct trial {
    enum mt_coll_kind kind;
    int n, ntensors;
    int64_t share[MOST_RANKS];
    bool message; /* on odd ranks the tensor is its own message */
    bool gaps;    /* tensor 3 of even ranks has rows further apart */
} now;

struct rank {
    struct mt_comm comm;
    bool goes;
};

static double value_of(int t, int64_t row, int64_t column) {
    return (double)((7 * row + column + t) % 23);
}

/* A box of a tensor: whole, or a rank's part, which has its own memory. */
static struct mt_piece box(int t, int64_t lo, int64_t hi, int64_t from, int64_t extent, int64_t stride, char *data) {
    int64_t size_bytes = mt_type_size(tensors[t].type), first = (lo - from) * (tensors[t].columns ? 1 : stride);
    struct mt_piece piece = {
        .naxes = 2, .stride = {stride, 1}, .data = data + first * size_bytes, .type = tensors[t].type};
    piece.extent[tensors[t].columns] = hi - lo;
    piece.extent[!tensors[t].columns] = extent;
    return piece;
}

static int64_t elements_of(const struct mt_piece *piece) {
    return piece->extent[0] * piece->extent[1];
}

/* Each element of a box that begins at row or column lo: set, or compared. */
static void visit(const struct mt_piece *p, int t, int64_t lo, double factor, double more, bool check) {
    for (int64_t row = 0; row < p->extent[0]; row++)
        for (int64_t column = 0; column < p->extent[1]; column++) {
            int64_t lies = row * p->stride[0] + column;
            double value =
                factor * value_of(t, row + (tensors[t].columns ? 0 : lo), column + (tensors[t].columns ? lo : 0));
            if (!check)
                mt_type_store(p->type, p->data, lies, value + more);
            else
                CHECK(mt_type_load(p->type, p->data, lies) == value + more, "%s of %d, tensor %d: %g, not %g",
                      mt_coll_name(now.kind), now.n, t, mt_type_load(p->type, p->data, lies), value + more);
        }
}

static void *run_rank(void *argument) {
    struct rank *rank = argument;
    int me = rank->comm.rank, nblocks = 0, nown = 0;
    int64_t first[MOST_RANKS + 1] = {0}, counts[MOST_RANKS] = {0}, at = 0;
    char *memory = calloc(2 * TENSORS + 1, ROOM), *message = memory + 2 * TENSORS * ROOM;
    struct mt_piece blocks[TENSORS * MOST_RANKS], own[TENSORS], whole[TENSORS], part[TENSORS];
    bool sums = now.kind != MT_ALL_GATHER, all = now.kind == MT_ALL_REDUCE;
    for (int r = 0; r < now.n; r++) first[r + 1] = first[r] + now.share[r];
    for (int t = 0; t < now.ntensors; t++) {
        int64_t unit = tensors[t].unit, across = tensors[t].across, end = first[now.n] * unit;
        int64_t stride = tensors[t].columns ? end : across + (now.gaps && t == 3 && me % 2 == 0 ? 3 : 0);
        whole[t] = box(t, 0, end, 0, across, stride, memory + 2 * t * ROOM);
        int64_t lo = all ? 0 : first[me] * unit, hi = all ? end : first[me + 1] * unit;
        part[t] = box(t, lo, hi, lo, across, tensors[t].columns ? hi - lo : across, memory + (2 * t + 1) * ROOM);
        visit(sums ? &whole[t] : &part[t], t, sums ? 0 : lo, 1, sums ? me : 0, false);
    }
    for (int r = 0; r < (all ? 1 : now.n); r++)
        for (int t = 0; t < now.ntensors; t++) {
            int64_t unit = tensors[t].unit, lo = all ? 0 : first[r] * unit,
                    hi = (all ? first[now.n] : first[r + 1]) * unit;
            struct mt_piece piece = box(t, lo, hi, 0, tensors[t].across, whole[t].stride[0], whole[t].data);
            piece.at = at, at += elements_of(&piece), counts[r] += elements_of(&piece);
            if (!elements_of(&piece)) continue;
            blocks[nblocks++] = piece;
            if (r != me && !all) continue;
            own[nown] = part[t], own[nown++].at = piece.at;
        }
    struct mt_schedule schedule = MT_SCHEDULE_INIT;
    struct mt_coll_call call = {.problem = {.kind = now.kind,
                                            .reduce = sums ? MT_SUM : MT_REDUCE_NONE,
                                            .wire = MT_F32,
                                            .acc = MT_F32,
                                            .n = now.n,
                                            .me = me,
                                            .counts = counts,
                                            .same_pieces = true},
                                .schedule = &schedule,
                                .comm = &rank->comm,
                                .npack = sums ? nblocks : nown,
                                .nunpack = sums ? nown : nblocks,
                                .pack = sums ? blocks : own,
                                .unpack = sums ? own : blocks,
                                .message = {message},
                                .message_count = {at},
                                .what = "a trial"};
    if (now.message && me % 2) call.npack = 0, call.message[0] = whole[0].data;
    struct mt_err why = MT_ERR_INIT;
    CHECK_OK(cuda_coll_arrays(NULL, NULL, &call, &rank->goes, &why), why);
    if (rank->goes) {
        for (int t = 0; t < now.ntensors; t++) {
            double more = sums ? now.n * (now.n - 1) / 2 : 0;
            visit(sums ? &part[t] : &whole[t], t, sums && !all ? first[me] * tensors[t].unit : 0, sums ? now.n : 1,
                  more, true);
        }
    }
    free(memory);
    return NULL;
}

static void try(bool expected) {
    struct rank ranks[MOST_RANKS];
    pthread_t threads[MOST_RANKS];
    pthread_barrier_init(&meeting, NULL, (unsigned)now.n);
    for (int r = 0; r < now.n; r++) {
        ranks[r] = (struct rank){.comm = {&wire, r, now.n}};
        CHECK(!pthread_create(&threads[r], NULL, run_rank, &ranks[r]));
    }
    for (int r = 0; r < now.n; r++) pthread_join(threads[r], NULL);
    pthread_barrier_destroy(&meeting);
    for (int r = 0; r < now.n; r++) CHECK(ranks[r].goes == expected, "%s of %d", mt_coll_name(now.kind), now.n);
}

int main(void) {
    int tried = 0;
    for (int n = 2; n <= MOST_RANKS; n++)
        for (enum mt_coll_kind kind = MT_ALL_REDUCE; kind <= MT_ALL_GATHER; kind++)
            for (int shares = 0; shares < 4; shares++) /* even; uneven; a rank has none; one unit each */
                for (int mixed = 0; mixed < 2; mixed++)
                    for (int message = 0; message < 1 + (kind == MT_REDUCE_SCATTER && !mixed); message++) {
                        now = (struct trial){.kind = kind, .n = n, .ntensors = mixed ? TENSORS : 1};
                        now.gaps = mixed, now.message = message;
                        for (int r = 0; r < n; r++)
                            now.share[r] = shares == 0 ? 3 : shares == 1 ? 2 + r : shares == 2 ? r % 3 : 1;
                        for (int p = 0; p < 2; p++, tried++) {
                            parts = p;
                            try(kind == MT_ALL_REDUCE || shares % 3 == 0 || parts);
                        }
                    }
    CHECK(went[0] > tried / 2);
    printf("%d trials, %d of them by arrays\n", tried, went[0]);
    return 0;
}
#endif
