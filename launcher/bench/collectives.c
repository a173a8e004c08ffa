/* Collectives between all ranks, on the communication stream, by size: AllReduce, AllGather, ReduceScatter, Broadcast
 * and AllToAll of even blocks, as training queues them.
 *
 * Bus bandwidth, as in nccl-tests, does not depend on the number of ranks: the bytes that a rank must send, over the
 * time. The link's peak is that of the largest message from one rank to another, in one direction. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/working.h"
#include "kernels/base/number/stats.h"
#include "kernels/base/text/units.h"
#include "kernels/base/wait.h"
#include "launcher/session/agree.h"
#include "launcher/bench/suite.h"
#include "launcher/session/session.h"
#include "launcher/watch/watch.h"

enum { LEAST_BYTES = 1 << 10, MOST_BATCH = 32, MOST_ROUNDS = 20, TAG = 5 };
static const double deadline_s = 60;

struct run {
    struct mt_bench *bench;
    struct mt_stream *stream;
    struct mt_coll_call call;
    struct mt_schedule schedule;
    int *group;
    int64_t *counts;
};

static int64_t count_of(const struct mt_coll *problem) {
    int64_t count = 0, cells = problem->kind == MT_ALL_TO_ALL ? (int64_t)problem->n * problem->n : problem->n;
    for (int64_t i = 0; i < cells; i++) count += problem->counts[i];
    return count;
}

static double slowest(double value) {
    MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return value;
}

/* A number of collectives back to back, after a barrier; *time_s: the slowest rank's time of one. */
static enum mt_status run_some(struct run *r, int batch, double *time_s, struct mt_err *err) {
    double seconds[2];
    MPI_Barrier(MPI_COMM_WORLD);
    double start_s = mt_now_s();
    for (int i = 0; i < batch; i++) mt_stream_coll(r->stream, &r->call, seconds);
    enum mt_status st = mt_stream_sync(r->stream, deadline_s, err);
    if (st) return st;
    *time_s = slowest((mt_now_s() - start_s) / batch);
    return MT_OK;
}

static enum mt_status measure(struct run *r, double *time_s, struct mt_err *err) {
    double times_s[MOST_ROUNDS], each_s, budget_s = r->bench->options->seconds;
    int rounds = 0;
    enum mt_status st = run_some(r, 1, &each_s, err);
    if (!st) st = run_some(r, 2, &each_s, err);
    int batch = (int)fmin(fmax(budget_s / 10 / fmax(each_s, 1e-6), 1), MOST_BATCH);
    int wanted = (int)fmin(fmax(budget_s / (batch * fmax(each_s, 1e-6)), 3), MOST_ROUNDS);
    for (; rounds < wanted && !st; rounds++) st = run_some(r, batch, &times_s[rounds], err);
    if (!st) *time_s = mt_median(times_s, (size_t)rounds);
    mt_watch_progress();
    return st;
}

/* `count` elements in all; with `pair`, all of them from rank 0 to rank 1. */
static enum mt_status run_case(struct mt_bench *b, struct mt_stream *stream, enum mt_coll_kind kind, enum mt_type wire,
                               int64_t count, bool pair, void *const memory[2], double *time_s, struct mt_err *err) {
    struct run r = {.bench = b, .stream = stream, .schedule = {.nsteps = 0}};
    int n = b->nranks, cells = kind == MT_ALL_TO_ALL ? n * n : n;
    r.group = mt_malloc((size_t)n * sizeof *r.group);
    r.counts = mt_calloc((size_t)cells, sizeof *r.counts);
    for (int i = 0; i < n; i++) r.group[i] = i;
    for (int i = 0; i < cells; i++)
        r.counts[i] = pair ? (i == 1 ? count : 0) : count * (i + 1) / cells - count * i / cells;
    bool reduces = mt_coll_reduces(kind), gpu = !strcmp(mt_device_kind(b->device), "cuda");
    r.call.problem = (struct mt_coll){.kind = kind,
                                      .reduce = reduces ? MT_SUM : MT_REDUCE_NONE,
                                      .wire = wire,
                                      .acc = mt_coll_acc(kind, wire, gpu),
                                      .n = n,
                                      .me = b->rank,
                                      .counts = r.counts};
    mt_coll_choose(&r.call.problem, 20e-6, 1e9)->schedule(&r.call.problem, &r.schedule);
    r.call.schedule = &r.schedule, r.call.comm = b->wire, r.call.group = r.group, r.call.tag = TAG;
    r.call.deadline_s = deadline_s, r.call.what = mt_coll_name(kind);
    for (int i = 0; i < 2; i++) r.call.message[i] = memory[i], r.call.message_count[i] = count_of(&r.call.problem);
    enum mt_status st = measure(&r, time_s, err);
    mt_schedule_release(&r.schedule);
    free(r.counts);
    free(r.group);
    return st;
}

/* The fraction of a message's bytes that a rank must send. */
static double bus_factor(enum mt_coll_kind kind, int n) {
    if (kind == MT_BROADCAST) return 1;
    if (kind == MT_ALL_TO_ALL) return (double)(n - 1) / (n * (double)n); /* of all ranks' messages together */
    return (kind == MT_ALL_REDUCE ? 2 : 1) * (double)(n - 1) / n;
}

static void add_row(struct mt_bench *b, struct mt_table *t, enum mt_coll_kind kind, enum mt_type wire,
                    int64_t size_bytes, double time_s) {
    double bus = (double)size_bytes * bus_factor(kind, b->nranks) / time_s;
    mt_table_row(t);
    mt_cell_text(t, "%s", mt_coll_name(kind));
    mt_cell_text(t, "%s", mt_type_name(wire));
    mt_cell_positive(t, (double)size_bytes);
    mt_cell_positive(t, time_s);
    mt_cell_positive(t, (double)size_bytes / time_s);
    mt_cell_positive(t, bus);
    mt_cell_positive(t, b->peak.link_Bps > 0 ? bus / b->peak.link_Bps : 0);
}

static enum mt_status run_all(struct mt_bench *b, struct mt_stream *stream, int64_t most, void *const memory[2],
                              struct mt_table *t, struct mt_err *err) {
    enum mt_type types[] = {MT_F32, MT_BF16};
    double time_s;
    enum mt_status st = run_case(b, stream, MT_ALL_TO_ALL, MT_F32, most / 4, true, memory, &time_s, err);
    if (!st) b->peak.link_Bps = (double)most / time_s;
    for (int k = 0; k < MT_NCOLLS && !st; k++)
        for (int w = 0; w < 2 && !st; w++)
            for (int64_t size = LEAST_BYTES; size <= most && !st; size *= 8) {
                if (types[w] != MT_F32 && !mt_coll_reduces((enum mt_coll_kind)k)) continue;
                int64_t count = size / mt_type_size(types[w]);
                mt_working(k, MT_NCOLLS, "%s", mt_coll_name((enum mt_coll_kind)k));
                st = run_case(b, stream, (enum mt_coll_kind)k, types[w], count, false, memory, &time_s, err);
                if (!st) add_row(b, t, (enum mt_coll_kind)k, types[w], size, time_s);
            }
    return st;
}

static void add_columns(struct mt_table *t) {
    mt_table_columns(t, {"kind", "collective", MT_UNIT_TEXT}, {"wire", "wire", MT_UNIT_TEXT},
                     {"size_bytes", "size", MT_UNIT_BYTES}, {"time_s", "time", MT_UNIT_SECONDS},
                     {"bandwidth_Bps", "rate", MT_UNIT_BPS}, {"bus_Bps", "bus", MT_UNIT_BPS},
                     {"part", "of link", MT_UNIT_FRACTION});
}

enum mt_status mt_bench_collectives(struct mt_bench *b, struct mt_err *err) {
    int64_t most = !strcmp(b->options->device, "cuda") ? INT64_C(256) << 20 : INT64_C(32) << 20;
    struct mt_stream *stream = NULL;
    void *memory[2] = {NULL, NULL};
    char link[MT_UNITS_TEXT];
    if (b->nranks == 1) {
        mt_tables_say(&b->doc, "\ncollectives: there is one rank; `mpirun -n N motley bench collectives` has several");
        return MT_OK;
    }
    enum mt_status st = mt_stream_new(b->device, "comm", &stream, err);
    for (int i = 0; i < 2 && !st; i++) st = mt_device_alloc(b->device, 2 * most, &memory[i], err); /* sums are f32 */
    char *zeros = mt_calloc(1, (size_t)most);
    for (int i = 0; i < 4 && !st; i++)
        st = mt_device_copy_in(b->device, (char *)memory[i / 2] + i % 2 * most, zeros, most, err);
    free(zeros);
    if (!(st = mt_agree(MPI_COMM_WORLD, st, err))) {
        struct mt_table *t = mt_tables_add(&b->doc, "collectives", "", "");
        add_columns(t);
        if (run_all(b, stream, most, memory, t, err)) mt_session_abort(err);
        t->title = mt_arena_printf(t->arena, "collectives of %d ranks", b->nranks);
        t->note = mt_arena_printf(t->arena, "link: %s one way", mt_units_Bps(b->peak.link_Bps, link));
    }
    if (stream) mt_stream_free(stream);
    for (int i = 0; i < 2; i++)
        if (memory[i]) mt_device_free(b->device, memory[i]);
    return st;
}
