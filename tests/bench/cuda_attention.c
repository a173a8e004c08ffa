/* How fast attention runs on a CUDA device, in bf16: each way to run it, or each row of attention_tiles.def.
 *
 *     bench_cuda_attention [ways | tiles | choose] [--json] [--quick] [--verbose] [--share=N] [p]
 *
 * p: dropout; 0 when it is not given. N: query heads that share a head of keys and values, a divisor of 16, queries
 * then being apart from keys and values; 0, packed, when it is not given. choose: what is chosen when nobody asks for a
 * way, without and with the permission to add up gradients in any order.
 *
 * 16384 positions a call, 16 heads of 64 and of 128, contexts of 1024 to 8192, causal and full. TFLOP/s count four
 * operations forward and ten backward for each pair of positions that see each other and each element of a head, as is
 * usual: what a kernel computes again is not counted. The time is the least of several calls. In the table of tiles,
 * of backward's two kernels one has the row's tiles, the other the default's. '*' is the best of a column, "-" what
 * does not run. */
#include "kernels/base/log.h"
#include "kernels/device/device.h"
#include "tests/check.h"

enum { POSITIONS = 16384, HEADS = 16, NCONTEXTS = 4, NCOLUMNS = 2 * NCONTEXTS, REPEATS = 7, MOST_ROWS = 64 };

static struct mt_device *device;
static struct mt_stream *stream;
static bool json, quick;
static int64_t share;
static double p;

static const struct {
    const char *kernel;
    int head;
    const char *text;
} tiles[] = {
#define TILES(kernel, head, ...) {#kernel, head, #__VA_ARGS__},
#include "kernels/cuda/attention/attention_tiles.def"
#undef TILES
};
enum { NTILES = sizeof tiles / sizeof *tiles };
static const char *const ways[] = {
#define IMPL(name) #name,
#include "kernels/cuda/attention/implementations.def"
#undef IMPL
};
enum { NWAYS = sizeof ways / sizeof *ways };
static const char any_way[] = "cudnn_any_order"; /* of these, what is only for gradients in any order */

/* Random numbers in [-1, 1) on the device. */
static void *values(enum mt_type type, int64_t n, double offset) {
    struct mt_err err = MT_ERR_INIT;
    int64_t size_bytes = n * mt_type_size(type);
    char *host = malloc((size_t)size_bytes);
    mt_type_noise(type, host, n, offset - 1, 2);
    void *memory;
    CHECK_OK(mt_device_alloc(device, size_bytes, &memory, &err), err);
    CHECK_OK(mt_device_copy_in(device, memory, host, size_bytes, &err), err);
    free(host);
    return memory;
}

/* The least seconds, or 0 where it does not run, which is said on stderr. */
static double seconds_of(struct mt_call *call) {
    struct mt_err err = MT_ERR_INIT;
    double least = INFINITY;
    const struct mt_backend *backend = mt_device_backend(device, call);
    int64_t scratch_bytes = backend->scratch_bytes(call);
    if (scratch_bytes) CHECK_OK(mt_device_alloc(device, scratch_bytes, &call->scratch, &err), err);
    for (int i = 0; i < REPEATS && !err.status; i++) {
        double times[2];
        mt_stream_op(stream, backend, call, times);
        if (!mt_stream_sync(stream, 60, &err)) least = fmin(least, times[1] - times[0]);
    }
    if (scratch_bytes) mt_device_free(device, call->scratch);
    if (err.status) fprintf(stderr, "%s\n", err.text);
    return err.status ? 0 : least;
}

static double tera(bool forward, int64_t s, int64_t d, bool causal, bool any_order, void *const data[5]) {
    int64_t b = POSITIONS / s, h = HEADS;
    struct mt_attr attr = {.scale = 1 / sqrt((double)d), .causal = causal, .p = p, .tag = 7, .any_order = any_order};
    struct mt_clock clock = {.step = 1, .seed = 1};
    int64_t g = share ? h / share : h, part = POSITIONS * h * d; /* q lies before kv */
    struct mt_tensor o = {data[1], MT_BF16, 4, {b, s, h, d}, {0}, {b, s, h, d}}, dout = o, q = o, dq = o;
    struct mt_tensor kv = {(uint16_t *)data[0] + part, MT_BF16, 5, {b, s, 2, g, d}, {0}, {b, s, 2, g, d}}, dkv = kv;
    struct mt_tensor qkv = {data[0], MT_BF16, 5, {b, s, 3, h, d}, {0}, {b, s, 3, h, d}}, dqkv = qkv;
    struct mt_tensor lse = {data[2], MT_F32, 3, {b, h, s}, {0}, {b, h, s}};
    dout.data = data[3], dqkv.data = dq.data = data[4], q.data = data[0], dkv.data = (uint16_t *)data[4] + part;
    struct mt_tensor packed[4] = {dout, qkv, o, lse}, apart[5] = {dout, q, kv, o, lse};
    struct mt_tensor out[2] = {o, lse}, grads[2] = {dq, dkv};
    struct mt_tensor *in = share ? apart : packed;
    struct mt_call call = {.kind = forward ? MT_OP_attention_packed : MT_OP_attention_packed_grad,
                           .attr = &attr,
                           .nin = share ? (forward ? 2 : 5) : (forward ? 1 : 4),
                           .nout = forward || share ? 2 : 1,
                           .in = in + forward,
                           .out = forward ? out
                                  : share ? grads
                                          : &dqkv,
                           .clock = &clock};
    if (share) call.kind = forward ? MT_OP_attention : MT_OP_attention_grad;
    double flops = (forward ? 4.0 : 10.0) * (double)(b * h * s) * (double)(s * d) / (causal ? 2 : 1);
    double seconds = seconds_of(&call);
    return seconds > 0 ? flops / seconds / 1e12 : 0;
}

/* Rows of a table: what MOTLEY_CUDA_ATTENTION says, and what is printed. */
struct rows {
    int n;
    char given[MOST_ROWS][20];
    const char *text[MOST_ROWS];
    bool any_order[MOST_ROWS];
};

static void add_row(struct rows *rows, const char *given, const char *text, bool any_order) {
    int i = rows->n++;
    snprintf(rows->given[i], sizeof rows->given[i], "%s", given);
    rows->text[i] = text, rows->any_order[i] = any_order;
}

static void print_json(const struct rows *rows, const char *pass, int d, double rates[MOST_ROWS][NCOLUMNS]) {
    for (int i = 0; i < rows->n; i++)
        for (int c = 0; c < NCOLUMNS; c++)
            if (rates[i][c] > 0)
                printf("{\"pass\": \"%s\", \"head\": %d, \"context\": %d, \"causal\": %s, \"dropout\": %g, "
                       "\"any_order\": %s, \"way\": \"%s\", \"TFLOPs\": %.1f}\n",
                       pass, d, 1024 << c / 2, c % 2 ? "false" : "true", p, rows->any_order[i] ? "true" : "false",
                       rows->given[i], rates[i][c]);
}

static void table(const char *pass, bool forward, int d, const struct rows *rows, void *const data[5]) {
    double rates[MOST_ROWS][NCOLUMNS] = {0}, best[NCOLUMNS] = {0};
    for (int i = 0; i < rows->n; i++) {
        setenv("MOTLEY_CUDA_ATTENTION", rows->given[i], 1);
        for (int c = 0; c < (quick ? 2 : NCOLUMNS); c++) {
            rates[i][c] = tera(forward, 1024 << c / 2, d, c % 2 == 0, rows->any_order[i], data);
            best[c] = fmax(best[c], rates[i][c]);
        }
    }
    unsetenv("MOTLEY_CUDA_ATTENTION");
    if (json) {
        print_json(rows, pass, d, rates);
        return;
    }
    printf("\n%s, heads of %d, TFLOP/s %s\n%-48s", pass, d, forward ? "forward" : "backward", "");
    for (int c = 0; c < NCOLUMNS; c++) printf("%7s%2dk", c % 2 ? "full" : "causal", 1 << c / 2);
    putchar('\n');
    for (int i = 0; i < rows->n; i++) {
        char label[80];
        snprintf(label, sizeof label, "%-6s %s", rows->given[i], rows->text[i]);
        printf("%-48s", label);
        for (int c = 0; c < NCOLUMNS; c++)
            if (rates[i][c] > 0)
                printf("%8.1f%c", rates[i][c], rates[i][c] < best[c] ? ' ' : '*');
            else
                printf("%8s ", "-");
        putchar('\n');
    }
    fflush(stdout);
}

static void by_ways(void *const data[5]) {
    for (int d = 64; d <= 128; d *= 2)
        for (int forward = 1; forward >= 0; forward--) {
            struct rows rows = {0};
            for (int i = 0; i < NWAYS; i++) {
                bool any_order = !strcmp(ways[i], any_way);
                if (!strcmp(ways[i], "row") || (forward && any_order)) continue; /* row is slow by design */
                add_row(&rows, ways[i], "", any_order);
            }
            table(forward ? "forward" : "backward", forward, d, &rows, data);
        }
}

static void by_choice(void *const data[5]) {
    for (int d = 64; d <= 128; d *= 2)
        for (int forward = 1; forward >= 0; forward--) {
            struct rows rows = {0};
            add_row(&rows, "", "(what is chosen)", false);
            if (!forward) add_row(&rows, "", "(what is chosen, in any order)", true);
            table(forward ? "forward" : "backward", forward, d, &rows, data);
        }
}

static void by_tiles(void *const data[5]) {
    static const char *const kernels[] = {"FORWARD", "DQ", "DKDV"};
    for (int k = 0; k < 3; k++)
        for (int d = 64; d <= 128; d *= 2) {
            struct rows rows = {0};
            char row[12];
            for (int i = 0; i < NTILES && rows.n < MOST_ROWS; i++) {
                if (strcmp(tiles[i].kernel, kernels[k]) || tiles[i].head != d) continue;
                snprintf(row, sizeof row, "%d", i);
                add_row(&rows, row, tiles[i].text, false);
            }
            table(kernels[k], k == 0, d, &rows, data);
        }
}

int main(int argc, char **argv) {
    struct mt_err err = MT_ERR_INIT;
    void (*what)(void *const data[5]) = by_ways;
    for (int i = 1; i < argc; i++) {
        char *end;
        if (!strcmp(argv[i], "--json"))
            json = true;
        else if (!strcmp(argv[i], "--quick"))
            quick = true; /* contexts of 1024 only */
        else if (!strcmp(argv[i], "--verbose"))
            mt_log_level(MT_LOG_DEBUG);
        else if (!strcmp(argv[i], "tiles"))
            what = by_tiles;
        else if (!strcmp(argv[i], "choose"))
            what = by_choice;
        else if (!strcmp(argv[i], "ways"))
            what = by_ways;
        else if (!strncmp(argv[i], "--share=", 8) && (share = atoi(argv[i] + 8)) > 0 && HEADS % share == 0)
            continue;
        else if (p = strtod(argv[i], &end), *end || end == argv[i] || p < 0 || p >= 1) {
            fprintf(stderr, "usage: %s [ways | tiles | choose] [--json] [--quick] [--verbose] [--share=N] [dropout]\n",
                    argv[0]);
            return 2;
        }
    }
    if (mt_device_open("cuda", &device, &err)) {
        printf("skipped: %s\n", err.text);
        return 77;
    }
    if (!json) printf("%s, dropout %g\n", mt_device_describe(device), p);
    CHECK_OK(mt_stream_new(device, "compute", &stream, &err), err);
    const int64_t n = (int64_t)POSITIONS * HEADS * 128;
    void *data[5] = {values(MT_BF16, 3 * n, 0), values(MT_BF16, n, 0), values(MT_F32, POSITIONS * HEADS, 8),
                     values(MT_BF16, n, 0), values(MT_BF16, 3 * n, 0)};
    what(data);
    for (int i = 0; i < 5; i++) mt_device_free(device, data[i]);
    mt_stream_free(stream);
    mt_device_close(device);
    return 0;
}
