/* How fast attention runs on a CUDA device with each row of attention_tiles.def, in bf16.
 *
 *     bench_cuda_attention [p]      (dropout; 0 when it is not given)
 *
 * 32768 positions of 768 elements a call: heads of 64 and 128, contexts of 1024 to 8192, causal and full. TFLOP/s count
 * four operations forward and ten backward for each pair of positions that see each other and each element of a head;
 * the time is the least of several. Of backward's two kernels one has the row's tiles, the other the default's. '*' is
 * the best of a column, "-" what does not run; rows that are defaults are marked as in the table. */
#include "kernels/device.h"
#include "tests/check.h"

enum { POSITIONS = 32768, EMBED = 768, NCONTEXTS = 4, NCOLUMNS = 2 * NCONTEXTS, REPEATS = 7 };

static struct mt_device *device;
static struct mt_stream *stream;

static const struct {
    const char *kernel;
    int head;
    const char *text;
} tiles[] = {
#define TILES(kernel, head, ...) {#kernel, head, #__VA_ARGS__},
#include "kernels/cuda/attention_tiles.def"
#undef TILES
};
enum { NTILES = sizeof tiles / sizeof *tiles };

/* Random numbers in [-1, 1) on the device. */
static void *values(enum mt_type type, int64_t n, double offset) {
    struct mt_err err = MT_ERR_INIT;
    int64_t size_bytes = n * mt_type_size(type);
    char *host = malloc((size_t)size_bytes);
    uint32_t x = 12345;
    for (int64_t i = 0; i < n; i++) {
        x = x * 1664525u + 1013904223u;
        mt_type_store(type, host, i, (double)(x >> 8) * 0x1p-23 - 1 + offset);
    }
    void *memory;
    CHECK_OK(mt_device_alloc(device, size_bytes, &memory, &err), err);
    CHECK_OK(mt_device_copy_in(device, memory, host, size_bytes, &err), err);
    free(host);
    return memory;
}

/* The least seconds, or 0 where it does not run. */
static double seconds_of(const struct mt_call *call, const struct mt_backend *backend) {
    struct mt_err err = MT_ERR_INIT;
    double least = INFINITY;
    for (int i = 0; i < REPEATS; i++) {
        double times[2];
        mt_stream_op(stream, backend, call, times);
        if (mt_stream_sync(stream, 60, &err)) return 0;
        least = fmin(least, times[1] - times[0]);
    }
    return least;
}

static double tera(bool forward, int64_t s, int64_t h, int64_t d, bool causal, double p, void *const data[6]) {
    int64_t b = POSITIONS / s;
    struct mt_attr attr = {.scale = 1 / sqrt((double)d), .causal = causal, .p = p, .tag = 7};
    struct mt_clock clock = {.step = 1, .seed = 1};
    struct mt_tensor qkv = {data[0], MT_BF16, 5, {b, s, 3, h, d}, {0}, {b, s, 3, h, d}};
    struct mt_tensor o = {data[1], MT_BF16, 4, {b, s, h, d}, {0}, {b, s, h, d}}, dout = o, dqkv = qkv;
    struct mt_tensor lse = {data[2], MT_F32, 3, {b, h, s}, {0}, {b, h, s}};
    dout.data = data[3], dqkv.data = data[4];
    struct mt_tensor in[4] = {dout, qkv, o, lse}, out[2] = {o, lse};
    struct mt_call call = {.kind = forward ? MT_OP_attention : MT_OP_attention_grad,
                           .attr = &attr,
                           .nin = forward ? 1 : 4,
                           .nout = forward ? 2 : 1,
                           .in = forward ? &qkv : in,
                           .out = forward ? out : &dqkv,
                           .clock = &clock,
                           .scratch = forward ? NULL : data[5]};
    double flops = (forward ? 4.0 : 10.0) * (double)(b * h * s) * (double)(s * d) / (causal ? 2 : 1);
    double seconds = seconds_of(&call, mt_device_backend(device, &call));
    return seconds > 0 ? flops / seconds / 1e12 : 0;
}

static void table(const char *kernel, int d, double p, void *const data[6]) {
    double rates[NTILES][NCOLUMNS], best[NCOLUMNS] = {0};
    bool forward = !strcmp(kernel, "FORWARD");
    printf("\n%s, heads of %d, TFLOP/s %s\n%-4s%-44s", kernel, d, forward ? "forward" : "backward", "row",
           "queries keys warps stages blocks keep default");
    for (int c = 0; c < NCOLUMNS; c++) printf("%7s%2dk", c % 2 ? "full" : "causal", 1 << c / 2);
    putchar('\n');
    for (int i = 0; i < NTILES; i++) {
        if (strcmp(tiles[i].kernel, kernel) || tiles[i].head != d) continue;
        char row[12];
        snprintf(row, sizeof row, "%d", i);
        setenv("MOTLEY_CUDA_ATTENTION", row, 1);
        for (int c = 0; c < NCOLUMNS; c++) {
            rates[i][c] = tera(forward, 1024 << c / 2, EMBED / d, d, c % 2 == 0, p, data);
            best[c] = fmax(best[c], rates[i][c]);
        }
    }
    unsetenv("MOTLEY_CUDA_ATTENTION");
    for (int i = 0; i < NTILES; i++) {
        if (strcmp(tiles[i].kernel, kernel) || tiles[i].head != d) continue;
        printf("%-4d%-44s", i, tiles[i].text);
        for (int c = 0; c < NCOLUMNS; c++)
            if (rates[i][c] > 0)
                printf("%8.1f%c", rates[i][c], rates[i][c] < best[c] ? ' ' : '*');
            else
                printf("%8s ", "-");
        putchar('\n');
    }
    fflush(stdout);
}

int main(int argc, char **argv) {
    struct mt_err err = MT_ERR_INIT;
    double p = argc > 1 ? atof(argv[1]) : 0;
    if (mt_device_open("cuda", &device, &err)) {
        printf("skipped: %s\n", err.text);
        return 77;
    }
    printf("%s, dropout %g\n", mt_device_describe(device), p);
    CHECK_OK(mt_stream_new(device, "compute", &stream, &err), err);
    const int64_t n = (int64_t)POSITIONS * EMBED, rows = n / 64; /* most rows of heads */
    void *data[6] = {values(MT_BF16, 3 * n, 0), values(MT_BF16, n, 0),     values(MT_F32, rows, 8),
                     values(MT_BF16, n, 0),     values(MT_BF16, 3 * n, 0), values(MT_F32, 2 * rows, 0)};
    static const char *const kernels[] = {"FORWARD", "DQ", "DKDV"};
    for (int k = 0; k < 3; k++)
        for (int d = 64; d <= 128; d *= 2) table(kernels[k], d, p, data);
    for (int i = 0; i < 6; i++) mt_device_free(device, data[i]);
    mt_stream_free(stream);
    mt_device_close(device);
    return 0;
}
