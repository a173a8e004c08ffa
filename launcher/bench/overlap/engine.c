/* Copies by copy engines, of the bytes that a rank sends to each peer: to one peer after the other, each rank to the
 * next but k at the same time, so that every link has one sender. The least that a collective by copies takes: nothing
 * is cut, awaited or added. */
#include <math.h>
#include <mpi.h>

#include "kernels/device/put.h"
#include "launcher/bench/overlap/internal.h"

static int64_t start_of(const int64_t *shares, int rank) {
    int64_t start = 0;
    for (int r = 0; r < rank; r++) start += shares[r];
    return start;
}

bool mt_bench_engine_serves(const struct mt_bench_case *c) {
    int all;
    return mt_device_captures(c->bench->device) && mt_device_multiprocessors(c->bench->device, &all) > 0;
}

/* Rows and bytes of a row that rank `me` copies to a peer. */
static int64_t rows_for(const struct mt_overlap *p, int me, int peer) {
    return p->form == MT_OVERLAP_SCATTER  ? p->rows[peer]
           : p->form == MT_OVERLAP_GATHER ? p->rows[me]
                                          : p->rows[peer] + p->rows[me];
}
static int64_t row_bytes_of(const struct mt_overlap *p) {
    return (p->form == MT_OVERLAP_GATHER ? p->k : p->cols) * mt_type_size(p->wire);
}

double mt_bench_engine_bytes(const struct mt_overlap *p) {
    double most = 0;
    for (int r = 0; r < p->n; r++) {
        int64_t rows = 0;
        for (int peer = 0; peer < p->n; peer++) rows += peer == r ? 0 : rows_for(p, r, peer);
        most = fmax(most, (double)(rows * row_bytes_of(p)));
    }
    return most;
}

/* A gather's own rows; else partial sums of the peer's rows, and of a reduce the sums of its own. Into staging, where
 * they fit. */
static struct mt_put_probe probe_of(const struct mt_bench_case *c, int peer, int count) {
    const struct mt_overlap *p = &c->problem;
    int me = c->bench->rank;
    bool gather = p->form == MT_OVERLAP_GATHER;
    int64_t rows = rows_for(p, me, peer), row_bytes = row_bytes_of(p);
    int64_t at = mt_overlap_place(p, gather ? MT_OVERLAP_STAGED : MT_OVERLAP_SLOTS, 0);
    if (gather) at += start_of(p->rows, me) * row_bytes;
    return (struct mt_put_probe){.how = MT_PUT_ENGINE,
                                 .to = mt_device_window_ptr(c->window, at, peer),
                                 .from = gather ? c->a + c->gathered_at * row_bytes : c->product,
                                 .size_bytes = rows * row_bytes,
                                 .repeats = count};
}

enum mt_status mt_bench_engine_run(struct mt_bench_case *c, int count, double *each_s, struct mt_err *err) {
    const struct mt_bench_overlap *b = c->bench;
    enum mt_status st = MT_OK;
    *each_s = 0;
    for (int k = 1; k < b->nranks && !st; k++) {
        struct mt_put_probe probe = probe_of(c, (b->rank + k) % b->nranks, count);
        double s;
        if (k > 1) MPI_Barrier(MPI_COMM_WORLD);
        st = mt_device_puts_start(b->device, &probe, err);
        if (!st) st = mt_device_puts_finish(b->device, &s, err);
        if (!st) *each_s += s;
    }
    return st;
}
