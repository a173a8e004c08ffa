/* Attention, forward and backward, over contexts and head sizes, causal and full, with a constant number of positions.
 *
 * Flops: forward, two GEMMs over the pairs of positions that attend to each other; backward, 2.5 times as many, as is
 * usual. */
#include <math.h>

#include "kernels/base/working.h"
#include "kernels/device/tuner.h"
#include "launcher/session/agree.h"
#include "launcher/bench/suite.h"
#include "launcher/watch/watch.h"

enum { GPU_POSITIONS = 16384, CPU_POSITIONS = 1024, WIDTH = 1024 /* of all heads */ };

static struct mt_tensor tensor(enum mt_type type, int naxes, const int64_t *extent) {
    struct mt_tensor t = {.type = type, .naxes = naxes};
    for (int a = 0; a < naxes; a++) t.extent[a] = t.global[a] = extent[a];
    return t;
}

/* The vendor library's time for the call, if the device's tuner measures it; else 0. */
static double vendor_s(struct mt_bench *b, const struct mt_call *call) {
    const struct mt_tuner *tuner = mt_device_tuner(b->device);
    char key[MT_TUNING_KEY];
    struct mt_tuning tuning;
    struct mt_err ignored = MT_ERR_INIT;
    if (!tuner) return 0;
    tuner->key(b->device, call, key);
    return !tuner->tune(b->stream, call, &ignored) && tuner->find(b->device, key, &tuning) ? tuning.vendor_s : 0;
}

static enum mt_status time_both(struct mt_bench *b, int64_t positions, int64_t s, int64_t d, bool causal,
                                double times_s[2], double vendors_s[2], struct mt_err *err) {
    int64_t n = positions / s, h = WIDTH / d;
    enum mt_type type = b->job.precision;
    struct mt_attr attr = {.scale = 1 / sqrt((double)d), .causal = causal, .tag = 7}, back = attr;
    back.any_order = b->job.any_order;
    struct mt_tensor qkv = tensor(type, 5, (const int64_t[]){n, s, 3, h, d});
    struct mt_tensor o = tensor(type, 4, (const int64_t[]){n, s, h, d});
    struct mt_tensor lse = tensor(mt_type_acc(type), 3, (const int64_t[]){n, h, s});
    const struct mt_tensor out[2] = {o, lse}, in[4] = {o, qkv, o, lse};
    const struct mt_call forward = {
        .kind = MT_OP_attention_packed, .attr = &attr, .nin = 1, .nout = 2, .in = &qkv, .out = out};
    const struct mt_call backward = {
        .kind = MT_OP_attention_packed_grad, .attr = &back, .nin = 4, .nout = 1, .in = in, .out = &qkv};
    vendors_s[0] = vendor_s(b, &forward), vendors_s[1] = vendor_s(b, &backward);
    enum mt_status st = mt_bench_call(b, &forward, b->options->seconds, &times_s[0], err);
    if (!st) st = mt_bench_call(b, &backward, b->options->seconds, &times_s[1], err);
    mt_watch_progress();
    return st;
}

static void add_columns(struct mt_table *t) {
    static const char *const directions[] = {"forward", "backward"};
    mt_table_columns(t, {"head", "head", MT_UNIT_COUNT}, {"context", "context", MT_UNIT_COUNT},
                     {"mask", "mask", MT_UNIT_TEXT});
    for (int back = 0; back < 2; back++) {
        const char *way = directions[back];
        mt_table_columns(t, {mt_arena_printf(t->arena, "%s_s", way), way, MT_UNIT_SECONDS},
                         {mt_arena_printf(t->arena, "%s_flops", way), "rate", MT_UNIT_FLOPS},
                         {mt_arena_printf(t->arena, "%s_part", way), "of peak", MT_UNIT_FRACTION},
                         {mt_arena_printf(t->arena, "%s_vendor_flops", way), "vendor", MT_UNIT_FLOPS});
    }
}

enum mt_status mt_bench_attention(struct mt_bench *b, struct mt_err *err) {
    bool large = b->peak.flops > 5e12;
    int64_t positions = large ? GPU_POSITIONS : CPU_POSITIONS, most = large ? 8192 : 1024, least = large ? 1024 : 256;
    enum mt_status st = MT_OK;
    int count = 0;
    for (int64_t s = least; s <= most; s *= 2) count += 4; /* two sizes of heads, with and without mask */
    struct mt_table *t =
        mt_tables_add(&b->doc, "attention", "attention", "1024 wide; backward counts 2.5 times forward");
    add_columns(t);
    for (int64_t d = 64; d <= 128 && !st; d *= 2)
        for (int64_t s = least; s <= most && !st; s *= 2)
            for (int causal = 1; causal >= 0 && !st; causal--) {
                double times_s[2] = {0, 0}, vendors_s[2],
                       flops = 4.0 * (double)(positions * s) * WIDTH / (causal ? 2 : 1);
                mt_working(t->nrows, count, "attention, context %lld", (long long)s);
                if ((st = time_both(b, positions, s, d, causal, times_s, vendors_s, err))) break;
                mt_table_row(t);
                mt_cell_positive(t, (double)d);
                mt_cell_positive(t, (double)s);
                mt_cell_text(t, "%s", causal ? "causal" : "full");
                for (int back = 0; back < 2; back++) {
                    double work = (back ? 2.5 : 1) * flops, rate = times_s[back] > 0 ? work / times_s[back] : 0;
                    mt_cell_positive(t, times_s[back]);
                    mt_cell_positive(t, rate);
                    mt_cell_positive(t, b->peak.flops > 0 ? rate / b->peak.flops : 0);
                    mt_cell_positive(t, vendors_s[back] > 0 ? work / vendors_s[back] : 0);
                }
            }
    st = mt_agree(MPI_COMM_WORLD, st, err);
    return st;
}
