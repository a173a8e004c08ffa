/* Trials of collectives on GPUs: all kinds, even and uneven blocks, short and long, types of wire, sums and maxima; and
 * of tensors that are not contiguous. For the tests of what moves messages. */
#ifndef MT_TESTS_KERNELS_CUDA_NCCL_COLLECTIVES_H
#define MT_TESTS_KERNELS_CUDA_NCCL_COLLECTIVES_H

#include "kernels/base/number/hash.h"
#include "kernels/coll/nccl_nodes.h"
#include "tests/kernels/coll/reference.h"
#include "tests/kernels/cuda/nccl/cuda_ranks.h"

enum { MOST_RANKS = 16, LONG = 300000, ROOM = 4 * LONG * MOST_RANKS };

static struct mt_device *device;
static struct mt_stream *stream;
static struct mt_comm *comm;
static struct mt_err err = MT_ERR_INIT;
static int rank, nranks;
static void *message[2];
static int64_t room_bytes;

/* Shapes of reference.h, and one that padding suits. */
enum { NEARLY_EVEN = REFERENCE_NSHAPES, NSHAPES };
static void make_counts(int shape, int n, int cells, int64_t scale, int64_t *counts) {
    if (shape < REFERENCE_NSHAPES)
        reference_counts(shape, n, cells, scale, counts);
    else
        for (int i = 0; i < cells; i++) counts[i] = scale + 3 * i;
}

static void trial(const struct mt_coll *problem, const int *group, const char *name) {
    int64_t size_bytes = mt_type_size(problem->acc),
            count[2] = {reference_size(problem, 0), reference_size(problem, 1)};
    struct mt_schedule schedule = MT_SCHEDULE_INIT;
    schedule.by_node = problem->node;
    void *host[2];
    for (int b = 0; b < 2; b++) {
        CHECK(count[b] * size_bytes <= room_bytes);
        host[b] = malloc((size_t)(count[b] * size_bytes) + 1);
    }
    reference_fill(problem, host[0], host[1]);
    for (int b = 0; b < 2; b++)
        CHECK_OK(mt_device_copy_in(device, message[b], host[b], count[b] * size_bytes, &err), err);
    struct mt_coll_call call = {.problem = *problem,
                                .schedule = &schedule,
                                .comm = comm,
                                .group = group,
                                .tag = 1,
                                .deadline_s = 60,
                                .message = {message[0], message[1]},
                                .message_count = {count[0], count[1]},
                                .what = name};
    mt_stream_coll(stream, &call, NULL);
    CHECK_OK(mt_stream_sync(stream, 60, &err), err);
    for (int b = 0; b < 2; b++)
        CHECK_OK(mt_device_copy_out(device, host[b], message[b], count[b] * size_bytes, &err), err);
    reference_check(problem, host[0], host[1], name);
    if (reference_replicates(problem->kind) && problem->n == nranks) {
        uint64_t mine = mt_hash64(host[0], (size_t)(count[0] * size_bytes), 0), first = mine;
        MPI_Bcast(&first, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
        CHECK(mine == first, "%s: rank %d has other bits than rank 0", name, rank);
    }
    for (int b = 0; b < 2; b++) free(host[b]);
    mt_schedule_release(&schedule);
}

/* node: of each place, and no long messages; or null. */
static void trials(enum mt_coll_kind kind, int n, int me, const int *group, const int *node, const char *group_name) {
    static const int64_t scales[] = {7, 5000, LONG};
    bool reduces = mt_coll_reduces(kind);
    int64_t counts[MOST_RANKS * MOST_RANKS];
    char name[160];
    for (int s = 0; s < (node ? 2 : 3); s++)
        for (int shape = 0; shape < NSHAPES; shape++)
            for (int t = 0; t < REFERENCE_NTYPES; t++) {
                enum mt_type wire = reference_types[t].wire, acc = reference_types[t].acc;
                if (acc == MT_F64 || (!reduces && wire != acc)) continue;
                make_counts(shape, n, kind == MT_ALL_TO_ALL ? n * n : n, scales[s], counts);
                struct mt_coll problem = {
                    kind, reduces ? MT_SUM : MT_REDUCE_NONE, wire, acc, n, me, n - 1, counts, false, node};
                snprintf(name, sizeof name, "%s, %s, shape %d by %lld, %s in %s", mt_coll_name(kind), group_name, shape,
                         (long long)scales[s], mt_type_name(wire), mt_type_name(acc));
                trial(&problem, group, name);
                if (!reduces) continue;
                problem.reduce = MT_MAX;
                strcat(name, ", maximum");
                trial(&problem, group, name);
            }
    if (reduces) return;
    make_counts(1, n, kind == MT_ALL_TO_ALL ? n * n : n, 50, counts);
    struct mt_coll integers = {kind, MT_REDUCE_NONE, MT_I32, MT_I32, n, me, 0, counts, false, node};
    snprintf(name, sizeof name, "%s, %s, integers", mt_coll_name(kind), group_name);
    trial(&integers, group, name);
}

/* Hierarchical: all ranks, as if they were on several nodes, in each of the ways of reference_nodes that gives a node
 * several ranks; two ranks have none. */
static inline void trials_by_node(const int *all) {
    static const enum mt_coll_kind kinds[] = {MT_ALL_REDUCE, MT_REDUCE_SCATTER, MT_ALL_GATHER};
    char name[32];
    int node[MOST_RANKS];
    for (int map = 0; map < REFERENCE_NMAPS; map++) {
        reference_nodes(map, nranks, node);
        int64_t counts[MOST_RANKS] = {0};
        struct mt_coll problem = {MT_ALL_REDUCE, MT_SUM, MT_F32, MT_F32, nranks, rank, 0, counts, false, node};
        snprintf(name, sizeof name, "nodes in way %d", map);
        for (int k = 0; k < 3 && mt_nccl_by_node(&problem); k++) trials(kinds[k], nranks, rank, all, node, name);
    }
}

/* An AllReduce of tensors that are not contiguous: arrays, one of halves (which must be converted), and one of columns,
 * on rank 0 only, so that there it is packed into the message. Whole numbers, so that sums are exact. */
static void trial_of_tensors(enum mt_reduce reduce, const int *all) {
    enum { TENSORS = 4, COLUMNS = 3, STRIDE = 8 };
    static const int64_t rows[TENSORS] = {50000, 1, 700, 12000};
    static const enum mt_type types[TENSORS] = {MT_F32, MT_F32, MT_BF16, MT_F32};
    struct mt_piece pieces[TENSORS];
    char *host[TENSORS];
    int64_t at = 0, room = 0, counts[MOST_RANKS] = {0};
    for (int i = 0; i < TENSORS; i++) {
        int64_t stride = i == 3 && rank == 0 ? STRIDE : COLUMNS, size_bytes = rows[i] * stride * mt_type_size(types[i]);
        pieces[i] = (struct mt_piece){.at = at,
                                      .naxes = 2,
                                      .extent = {rows[i], COLUMNS},
                                      .stride = {stride, 1},
                                      .data = (char *)message[1] + room,
                                      .type = types[i]};
        host[i] = malloc((size_t)size_bytes);
        for (int64_t k = 0; k < rows[i] * stride; k++)
            mt_type_store(types[i], host[i], k,
                          k % stride < COLUMNS ? (double)((k / stride * COLUMNS + k % stride) % 17 + rank) : -5);
        CHECK_OK(mt_device_copy_in(device, pieces[i].data, host[i], size_bytes, &err), err);
        at += rows[i] * COLUMNS, room += (size_bytes + 255) / 256 * 256;
    }
    for (int r = 0; r < nranks; r++) counts[r] = at / nranks + (r < at % nranks);
    struct mt_schedule schedule = MT_SCHEDULE_INIT;
    struct mt_coll_call call = {.problem = {MT_ALL_REDUCE, reduce, MT_F32, MT_F32, nranks, rank, 0, counts, true},
                                .schedule = &schedule,
                                .comm = comm,
                                .group = all,
                                .deadline_s = 60,
                                .npack = TENSORS,
                                .nunpack = TENSORS,
                                .pack = pieces,
                                .unpack = pieces,
                                .message = {message[0]},
                                .message_count = {at},
                                .what = "AllReduce of tensors"};
    mt_stream_coll(stream, &call, NULL);
    CHECK_OK(mt_stream_sync(stream, 60, &err), err);
    for (int i = 0; i < TENSORS; i++) {
        int64_t stride = pieces[i].stride[0], n = rows[i] * stride;
        CHECK_OK(mt_device_copy_out(device, host[i], pieces[i].data, n * mt_type_size(types[i]), &err), err);
        for (int64_t k = 0; k < n; k++) {
            double own = (double)((k / stride * COLUMNS + k % stride) % 17), want = own + nranks - 1;
            if (reduce == MT_SUM) want = nranks * own + nranks * (nranks - 1) / 2;
            if (k % stride >= COLUMNS) want = -5;
            CHECK(mt_type_load(types[i], host[i], k) == want, "tensor %d, element %lld: %g, not %g", i, (long long)k,
                  mt_type_load(types[i], host[i], k), want);
        }
        free(host[i]);
    }
    mt_schedule_release(&schedule);
}

/* A ReduceScatter or AllGather of tensors that are not contiguous, each divided by rows among ranks: evenly, or by 1,
 * 2, ...; the second tensor of halves, the third of columns, on rank 0 only. Whole numbers. */
static void trial_of_blocks(enum mt_coll_kind kind, bool even, enum mt_nccl_impl way, const int *all) {
    enum { TENSORS = 3, COLUMNS = 24, ROWS = 400, STRIDE = 32 };
    static const enum mt_type types[TENSORS] = {MT_F32, MT_BF16, MT_F32};
    static const int64_t rows_of[TENSORS] = {1, 3, 7}; /* times what a rank has */
    struct mt_piece blocks[TENSORS * MOST_RANKS], own[TENSORS];
    bool sums = kind == MT_REDUCE_SCATTER;
    char *tensor[TENSORS], *part[TENSORS], *next = message[1];
    int64_t stride[TENSORS], rows[MOST_RANKS], first[MOST_RANKS + 1] = {0}, counts[MOST_RANKS] = {0}, at = 0;
    for (int r = 0; r < nranks; r++) rows[r] = even ? ROWS : ROWS * (r + 1), first[r + 1] = first[r] + rows[r];
    for (int t = 0; t < TENSORS; t++) {
        stride[t] = t == 2 && rank == 0 ? STRIDE : COLUMNS;
        tensor[t] = next, next += first[nranks] * rows_of[t] * stride[t] * 4;
        part[t] = next, next += rows[rank] * rows_of[t] * COLUMNS * 4;
    }
    CHECK(next - (char *)message[1] <= room_bytes);
    int nblocks = 0;
    for (int r = 0; r < nranks; r++)
        for (int t = 0; t < TENSORS; t++) {
            int64_t n = rows[r] * rows_of[t], size_bytes = mt_type_size(types[t]);
            struct mt_piece piece = {
                .at = at, .naxes = 2, .extent = {n, COLUMNS}, .stride = {stride[t], 1}, .type = types[t]};
            piece.data = tensor[t] + first[r] * rows_of[t] * stride[t] * size_bytes;
            blocks[nblocks++] = piece;
            at += n * COLUMNS, counts[r] += n * COLUMNS;
            if (r != rank) continue;
            piece.data = part[t], piece.stride[0] = COLUMNS;
            own[t] = piece;
        }
    char *host = calloc((size_t)room_bytes, 1);
    for (int t = 0; t < TENSORS; t++)
        for (int64_t i = 0; i < (sums ? first[nranks] : rows[rank]) * rows_of[t]; i++)
            for (int64_t c = 0; c < COLUMNS; c++) {
                int64_t row = sums ? i : first[rank] * rows_of[t] + i, lies = i * (sums ? stride[t] : COLUMNS) + c;
                char *to = host + ((sums ? tensor[t] : part[t]) - (char *)message[1]);
                mt_type_store(types[t], to, lies, (double)((row * COLUMNS + c + t) % 31 + (sums ? rank : 0)));
            }
    CHECK_OK(mt_device_copy_in(device, message[1], host, room_bytes, &err), err);
    struct mt_schedule schedule = MT_SCHEDULE_INIT;
    struct mt_coll_call call = {
        .problem = {kind, sums ? MT_SUM : MT_REDUCE_NONE, MT_F32, MT_F32, nranks, rank, 0, counts, true},
        .schedule = &schedule,
        .comm = comm,
        .group = all,
        .deadline_s = 60,
        .npack = sums ? nblocks : TENSORS,
        .nunpack = sums ? TENSORS : nblocks,
        .pack = sums ? blocks : own,
        .unpack = sums ? own : blocks,
        .message = {message[0]},
        .message_count = {at},
        .what = "tensors in blocks"};
    mt_comm_nccl_impl(comm, way);
    mt_stream_coll(stream, &call, NULL);
    CHECK_OK(mt_stream_sync(stream, 60, &err), err);
    mt_comm_nccl_impl(comm, MT_NCCL_AUTO);
    CHECK_OK(mt_device_copy_out(device, host, message[1], room_bytes, &err), err);
    for (int t = 0; t < TENSORS; t++)
        for (int64_t i = 0; i < (sums ? rows[rank] : first[nranks]) * rows_of[t]; i++)
            for (int64_t c = 0; c < COLUMNS; c++) {
                int64_t row = sums ? first[rank] * rows_of[t] + i : i, lies = i * (sums ? COLUMNS : stride[t]) + c;
                const char *from = host + ((sums ? part[t] : tensor[t]) - (char *)message[1]);
                double own_value = (double)((row * COLUMNS + c + t) % 31);
                double want = sums ? nranks * own_value + nranks * (nranks - 1) / 2 : own_value;
                CHECK(mt_type_load(types[t], from, lies) == want,
                      "%s, %s, implementation %d: tensor %d, row %lld: %g, not %g", mt_coll_name(kind),
                      even ? "even" : "uneven", (int)way, t, (long long)row, mt_type_load(types[t], from, lies), want);
            }
    free(host);
    mt_schedule_release(&schedule);
}

/* After MPI_Init, with `device` open and `comm` made. */
static inline void trials_begin(void) {
    room_bytes = ROOM * 4;
    for (int b = 0; b < 2; b++) CHECK_OK(mt_device_alloc(device, room_bytes, &message[b], &err), err);
    CHECK_OK(mt_stream_new(device, "comm", &stream, &err), err);
}
static inline void trials_of_tensors(const int *all) {
    trial_of_tensors(MT_SUM, all);
    trial_of_tensors(MT_MAX, all);
    for (enum mt_nccl_impl way = MT_NCCL_AUTO; way < MT_NCCL_NIMPLS; way++)
        for (int even = 0; even < 2; even++) {
            trial_of_blocks(MT_REDUCE_SCATTER, even, way, all);
            trial_of_blocks(MT_ALL_GATHER, even, way, all);
        }
}
static inline void trials_end(void) {
    mt_stream_free(stream);
    for (int b = 0; b < 2; b++) mt_device_free(device, message[b]);
}

#endif
