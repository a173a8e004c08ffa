/* Figures of puts between made-up devices, whose clocks follow rates that this test sets: the figures are those rates.
 * A rank whose memory cannot be reached, or whose signals are lost, leaves its pairs without figures, and no others. */
#include <math.h>
#include <string.h>

#include "kernels/base/log.h"
#include "kernels/device/class.h"
#include "profiler/probes/internal.h"
#include "tests/check.h"
#include "tests/kernels/device/made_up.h"
#include "tests/profiler/threads.h"

enum { NRANKS = 5, HIDDEN = 3, DEAF = 4, NPAIRS = NRANKS * (NRANKS - 1) / 2 };
static const double gemm_s = 1e-3, gemm_slowed = 1.1, put_slowed = 1.25, engine_s = 5e-6, engine_Bps = 4e11;
static const double stores_Bps = 3e11, bulk_Bps = 3.5e11, signal_s[2] = {1.7e-6, 1.9e-6};

struct made_up {
    struct mt_device device;
    int rank;
    bool bulk;      /* it has bulk copies */
    double now_s;   /* of the stream: GEMMs one after the other, from 0 when puts start, or when it is empty */
    double gemms_s; /* how long GEMMs have run since puts started */
    double puts_s;  /* how long the puts that were started take, if nothing slows them; 0: none */
    int repeats;
    bool cleared; /* the words of signals */
};

static struct made_up *of(struct mt_device *device) {
    return (struct made_up *)device;
}

static enum mt_status alloc(struct mt_device *device, int64_t size_bytes, void **memory, struct mt_err *err) {
    (void)device, (void)size_bytes, (void)err;
    *memory = mt_calloc(1, 1); /* nothing is read or written */
    return MT_OK;
}
static void free_memory(struct mt_device *device, void *memory) {
    (void)device;
    free(memory);
}
static enum mt_status copy_in(struct mt_device *device, void *to, const void *from, int64_t size_bytes,
                              struct mt_err *err) {
    (void)to, (void)from, (void)err;
    if (size_bytes == MT_TURNS_BYTES) of(device)->cleared = true;
    return MT_OK;
}

/* A handle names its rank. */
static enum mt_status export_memory(struct mt_device *device, void *memory, void *handle, struct mt_err *err) {
    (void)memory;
    if (of(device)->rank == HIDDEN) return mt_fail(err, MT_EMISSING, "no peer access");
    memset(handle, 1 + of(device)->rank, MT_DEVICE_HANDLE_BYTES);
    return MT_OK;
}
static enum mt_status import_memory(struct mt_device *device, const void *handle, void **memory, struct mt_err *err) {
    const char *bytes = handle;
    (void)err;
    CHECK(bytes[0] > 0 && bytes[0] != 1 + of(device)->rank && bytes[0] != 1 + HIDDEN, "imports of rank %d",
          bytes[0] - 1);
    *memory = mt_calloc(1, 1);
    return MT_OK;
}
static void forget(struct mt_device *device, void *memory) {
    (void)device;
    free(memory);
}

static enum mt_status puts_start(struct mt_device *device, const struct mt_put_probe *probe, struct mt_err *err) {
    struct made_up *d = of(device);
    double bytes = (double)probe->size_bytes;
    CHECK(d->puts_s == 0 && probe->repeats > 0 && probe->to && probe->from, "puts");
    if (probe->how == MT_PUT_BULK && !d->bulk) return mt_fail(err, MT_EMISSING, "no bulk copies");
    double each_s = probe->how == MT_PUT_ENGINE ? engine_s + bytes / engine_Bps
                                                : bytes / (probe->how == MT_PUT_BULK ? bulk_Bps : stores_Bps);
    CHECK(probe->how == MT_PUT_ENGINE || probe->blocks == 132, "%d blocks", probe->blocks);
    d->puts_s = each_s * probe->repeats, d->repeats = probe->repeats;
    d->now_s = d->gemms_s = 0;
    return MT_OK;
}
/* Puts are slowed while GEMMs run. */
static enum mt_status puts_finish(struct mt_device *device, double *each_s, struct mt_err *err) {
    struct made_up *d = of(device);
    (void)err;
    double slowed_s = fmin(d->gemms_s, put_slowed * d->puts_s);
    *each_s = (slowed_s + (d->puts_s - slowed_s / put_slowed)) / d->repeats;
    d->puts_s = 0;
    return MT_OK;
}
static enum mt_status turns(struct mt_device *device, const struct mt_turns_probe *probe, double *each_s,
                            struct mt_err *err) {
    struct made_up *d = of(device);
    CHECK(d->cleared, "signals begin as zeros");
    d->cleared = false;
    if (d->rank == DEAF) return mt_fail(err, MT_ESTALL, "the peer's message did not come");
    *each_s = signal_s[probe->leads];
    return MT_OK;
}

static const struct mt_backend backend = {"made up", NULL, NULL, NULL};
static const struct mt_backend *backend_of(struct mt_device *device, const struct mt_call *call) {
    (void)device, (void)call;
    return &backend;
}
/* A GEMM is slowed while puts run, themselves slowed by GEMMs. */
static void stream_op(struct mt_stream *stream, const struct mt_backend *by, const struct mt_call *call,
                      double *seconds) {
    struct made_up *d = of(stream->device);
    (void)by;
    if (!seconds || call->kind != MT_OP_matmul) return;
    double s = d->now_s < put_slowed * d->puts_s ? gemm_slowed * gemm_s : gemm_s;
    seconds[0] = d->now_s, seconds[1] = d->now_s += s;
    d->gemms_s = d->now_s;
}
static enum mt_status stream_sync(struct mt_stream *stream, double deadline_s, struct mt_err *err) {
    (void)stream, (void)deadline_s, (void)err;
    return MT_OK;
}

static const struct mt_device_class class = {.kind = "cuda",
                                             .backend = backend_of,
                                             .alloc = alloc,
                                             .free = free_memory,
                                             .copy_in = copy_in,
                                             .export_memory = export_memory,
                                             .import_memory = import_memory,
                                             .forget = forget,
                                             .puts_start = puts_start,
                                             .puts_finish = puts_finish,
                                             .turns = turns,
                                             .stream_new = made_up_stream_new,
                                             .stream_free = made_up_stream_free,
                                             .stream_op = stream_op,
                                             .stream_sync = stream_sync};

static void check_pair(const struct mt_pair_times *pair) {
    const struct mt_cluster_puts *puts = &pair->puts;
    bool hidden = pair->a == HIDDEN || pair->b == HIDDEN, deaf = pair->a == DEAF || pair->b == DEAF;
    double engine = 64.0 * (1 << 20) / (engine_s + 64.0 * (1 << 20) / engine_Bps);
    if (pair->between || hidden) {
        CHECK(pair->copy_Bps == 0 && puts->signal_s == 0 && puts->blocks_Bps == 0, "%d-%d has figures", pair->a,
              pair->b);
        return;
    }
    CHECK_NEAR(pair->copy_Bps, engine, 1e-6 * engine);
    if (deaf) {
        CHECK(puts->signal_s == 0 && puts->blocks_Bps == 0 && puts->compute_slowdown == 0, "%d-%d", pair->a, pair->b);
        return;
    }
    CHECK_NEAR(puts->copy_s, engine_s, 0.02 * engine_s); /* the line through two sizes */
    CHECK_NEAR(puts->blocks_Bps, pair->a ? bulk_Bps : stores_Bps, 1e3);
    CHECK_NEAR(puts->signal_s, signal_s[1], 1e-12); /* the slower of the two ranks */
    CHECK_NEAR(puts->compute_slowdown, gemm_slowed - 1, 1e-6);
    CHECK_NEAR(puts->put_slowdown, put_slowed - 1, 1e-6);
}

static void measure(struct mt_comm *comm) {
    struct mt_err err = MT_ERR_INIT;
    struct made_up device = {.device = {.class = &class}, .rank = comm->rank, .bulk = comm->rank > 0};
    struct mt_pair_times pairs[NPAIRS] = {{0}};
    struct mt_profile p = {.comm = comm, .rank = comm->rank, .nranks = NRANKS, .nnodes = 1, .nclasses = 1};
    p.gpu = true, p.device = &device.device, p.deadline_s = 60, p.pairs = pairs;
    p.flops[MT_BF16] = 1e15;
    for (int a = 0; a < NRANKS; a++)
        for (int b = a + 1; b < NRANKS; b++) pairs[p.npairs++] = (struct mt_pair_times){.a = a, .b = b};
    p.exchange = mt_exchange_new(comm, p.deadline_s);
    p.places = mt_new(&p.arena, struct mt_place, NRANKS);
    for (int r = 0; r < NRANKS; r++) p.places[r].threads = 132;
    CHECK_OK(mt_probe_puts(&p, 1, &err), err);
    for (int i = 0; i < p.npairs; i++) check_pair(&pairs[i]);
    mt_exchange_free(p.exchange);
    mt_arena_release(&p.arena);
}

int main(void) {
    mt_log_level(MT_LOG_WARN);
    run_ranks(NRANKS, measure);
    return 0;
}
