/* Memory bandwidth by copies of large blocks, and the overhead of an operator by fills of one element; on a GPU also
 * the bandwidth of copies from and to the host. */
#include <math.h>
#include <stdlib.h>

#include "profiler/probes/internal.h"

enum { COPY, NOTHING, NCASES };

struct probe {
    struct mt_profile *profile;
    struct mt_grid_case cases[NCASES];
    struct mt_samples series[NCASES]; /* seconds */
};

static enum mt_status once(void *context, int which, double slot_s, struct mt_err *err) {
    struct probe *probe = context;
    struct mt_stream *stream = probe->profile->compute;
    struct mt_samples *series = &probe->series[which];
    double times_s[MT_MOST_CALLS], start_s = mt_now_s();
    do {
        enum mt_status st = mt_calls_queue(probe->profile->calls, stream, &probe->cases[which], MT_MOST_CALLS / 4, err);
        if (st || (st = mt_calls_wait(probe->profile->calls, stream, times_s, err))) return st;
        for (int i = 1; i < MT_MOST_CALLS / 4 - 1; i++) mt_samples_add(series, times_s[i]);
    } while (mt_now_s() - start_s < slot_s);
    return MT_OK;
}

/* Copies from and to pageable host memory, as for checkpoints; the fastest of several. */
static enum mt_status measure_host(struct mt_profile *p, struct mt_err *err) {
    enum { REPEATS = 4 };
    const int64_t size_bytes = 128 << 20;
    void *host = mt_calloc(1, (size_t)size_bytes), *device = NULL;
    enum mt_status st = mt_device_alloc(p->device, size_bytes, &device, err);
    for (int i = 0; i < 2 * REPEATS && !st; i++) {
        bool out = i % 2;
        double start_s = mt_now_s();
        st = out ? mt_device_copy_out(p->device, host, device, size_bytes, err)
                 : mt_device_copy_in(p->device, device, host, size_bytes, err);
        p->host_Bps[out] = fmax(p->host_Bps[out], (double)size_bytes / (mt_now_s() - start_s));
    }
    mt_device_free(p->device, device);
    free(host);
    return st;
}

enum mt_status mt_probe_memory(struct mt_profile *p, double budget_s, struct mt_err *err) {
    struct probe probe = {.profile = p};
    const int64_t large[3] = {p->gpu ? 64 << 20 : 4 << 20, 1, 1}, small[3] = {1, 1, 1};
    mt_grid_make(MT_OP_cast, &(struct mt_attr){0}, "Tr", "Tr", MT_F32, large, &probe.cases[COPY]);
    mt_grid_make(MT_OP_fill, &(struct mt_attr){0}, "Tr", "Tr", MT_F32, small, &probe.cases[NOTHING]);
    const struct mt_measure measure = {NCASES, probe.series, once, &probe, "memory and overhead"};
    enum mt_status st = mt_measure_run(&measure, p->exchange, budget_s, err);
    for (int i = 0; i < probe.series[COPY].count; i++)
        mt_samples_add(&p->copy_Bps, probe.cases[COPY].shape.bytes / probe.series[COPY].values[i]);
    for (int i = 0; i < probe.series[NOTHING].count; i++)
        mt_samples_add(&p->overhead_s, probe.series[NOTHING].values[i]);
    if (!st && p->gpu) st = mt_exchange_agree(p->exchange, measure_host(p, err), err);
    if (!st) {
        double slowest_s = mt_samples_interval(&probe.series[COPY]).median;
        st = mt_exchange_max(p->exchange, &slowest_s, 1, err);
        p->memory_Bps = probe.cases[COPY].shape.bytes / slowest_s;
    }
    for (int i = 0; i < NCASES; i++) mt_samples_release(&probe.series[i]);
    return st;
}
