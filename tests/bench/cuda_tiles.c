/* How fast our GEMM's tiles (kernels/cuda/gemm/tiles.c) are beside the best of cuBLASLt, shape by shape.
 *
 *     cuda_tiles [halves] [wholes] [gradients] [few] [MxNxK]... [FORM]...
 *                                                            (FORM: own, own:128x256/1/1, ... as $MOTLEY_GEMM)
 *
 * halves: what each of two GPUs multiplies of AllGather+GEMM and GEMM+ReduceScatter; wholes: one GPU alone; gradients:
 * of such weights, in f32, added to; few: of 16 to 256 rows. Without a FORM, `own`: the tiles that tuning finds.
 *
 * Each is captured as a graph of some milliseconds. The graphs run in turns, with the library's between any two. A
 * ratio is the library's time, averaged over its turns before and after, over the form's time; the median is printed.
 */
#include <inttypes.h>

#include "kernels/base/number/stats.h"
#include "kernels/base/wait.h"
#include "kernels/device/device.h"
#include "tests/check.h"

enum { TURNS = 10, MOST_FORMS = 40, CHUNK = 1 << 22 };
static const double turn_s = 6e-3, deadline_s = 300;

static struct mt_device *device;
static struct mt_stream *stream;
static struct mt_err err = MT_ERR_INIT;
static char *noise;

static struct mt_tensor tensor(enum mt_type type, int64_t first, int64_t second) {
    struct mt_tensor t = {.type = type, .naxes = 2, .extent = {first, second}, .global = {first, second}};
    int64_t bytes = first * second * mt_type_size(type);
    CHECK_OK(mt_device_alloc(device, bytes, &t.data, &err), err);
    if (type == MT_BF16) CHECK_OK(mt_device_repeat(device, t.data, bytes, noise, CHUNK * 2, &err), err);
    return t;
}

struct shape {
    int64_t m, n, k;
    bool gradient;
};

/* One implementation of a shape, captured. */
struct form {
    const char *name;
    struct mt_call call;
    struct mt_capture *capture;
    int calls;
    double s[TURNS], ratio[TURNS];
};

static double launch(const struct form *f) {
    struct mt_clock clock = {0};
    uint64_t number;
    double start = mt_now_s();
    CHECK_OK(mt_capture_launch(f->capture, &clock, &number, &err), err);
    CHECK_OK(mt_stream_sync(stream, deadline_s, &err), err);
    return (mt_now_s() - start) / f->calls;
}

static void form_init(struct form *f, const struct mt_call *call, const char *name) {
    setenv("MOTLEY_GEMM", name, 1);
    *f = (struct form){.name = name, .call = *call};
    const struct mt_backend *backend = mt_device_backend(device, &f->call);
    CHECK(backend, "the device does not take it");
    CHECK_OK(mt_device_alloc(device, backend->scratch_bytes(&f->call) + 16, &f->call.scratch, &err), err);
    mt_stream_op(stream, backend, &f->call, NULL);
    CHECK_OK(mt_stream_sync(stream, deadline_s, &err), err);
    double start = mt_now_s();
    for (int i = 0; i < 5; i++) mt_stream_op(stream, backend, &f->call, NULL);
    CHECK_OK(mt_stream_sync(stream, deadline_s, &err), err);
    double once_s = (mt_now_s() - start) / 5;
    f->calls = once_s < turn_s ? (int)ceil(turn_s / once_s) : 1;
    CHECK_OK(mt_capture_begin(&stream, 1, &f->capture, &err), err);
    for (int i = 0; i < f->calls; i++) mt_stream_op(stream, backend, &f->call, NULL);
    CHECK_OK(mt_capture_end(f->capture, &err), err);
    launch(f);
}

static void compare(const struct shape *s, const char *const *names, int count) {
    static struct form library, forms[MOST_FORMS];
    struct mt_attr attr = {
        .nm = 1, .nn = 1, .nk = 1, .trans_a = s->gradient, .out_acc = s->gradient, .accumulate = s->gradient};
    struct mt_tensor in[2] = {s->gradient ? tensor(MT_BF16, s->k, s->m) : tensor(MT_BF16, s->m, s->k),
                              tensor(MT_BF16, s->k, s->n)},
                     out = tensor(s->gradient ? MT_F32 : MT_BF16, s->m, s->n);
    struct mt_call call = {
        .kind = MT_OP_matmul, .attr = &attr, .nin = 2, .nout = 1, .in = in, .out = &out, .what = "bench"};
    CHECK_OK(mt_call_check(&call, &err), err);
    form_init(&library, &call, "library");
    for (int i = 0; i < count; i++) form_init(&forms[i], &call, names[i]);
    for (int turn = 0; turn < TURNS; turn++) {
        double before = launch(&library);
        for (int i = 0; i < count; i++) {
            forms[i].s[turn] = launch(&forms[i]);
            double after = launch(&library);
            forms[i].ratio[turn] = (before + after) / 2 / forms[i].s[turn];
            before = after;
        }
        library.s[turn] = before;
    }
    double flops = 2 * (double)s->m * (double)s->n * (double)s->k, s_library = mt_median(library.s, TURNS);
    printf("%6lld %6lld %6lld%s library %7.1f us %5.1f TFLOP/s", (long long)s->m, (long long)s->n, (long long)s->k,
           s->gradient ? " dw" : "", 1e6 * s_library, 1e-12 * flops / s_library);
    for (int i = 0; i < count; i++)
        printf("   %s %.1f us %.3f", forms[i].name, 1e6 * mt_median(forms[i].s, TURNS),
               mt_median(forms[i].ratio, TURNS));
    printf("\n");
    for (int i = -1; i < count; i++) {
        struct form *f = i < 0 ? &library : &forms[i];
        mt_capture_free(f->capture);
        mt_device_free(device, f->call.scratch);
    }
    mt_device_free(device, in[0].data), mt_device_free(device, in[1].data), mt_device_free(device, out.data);
}

static bool chosen(int argc, char **argv, const char *section) {
    bool any = false;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], section)) return true;
        any |= strncmp(argv[i], "own", 3) != 0;
    }
    return !any;
}

int main(int argc, char **argv) {
    static const int64_t shapes[][3] = {{8192, 1024, 8192}, {8192, 2048, 8192},  {8192, 4096, 8192},
                                        {8192, 8192, 8192}, {4096, 14336, 4096}, {4096, 12288, 12288},
                                        {8192, 28672, 8192}};
    const char *forms[MOST_FORMS] = {"own"};
    int count = 0;
    for (int i = 1; i < argc && count < MOST_FORMS; i++)
        if (!strncmp(argv[i], "own", 3)) forms[count++] = argv[i];
    if (!count) count = 1;
    if (mt_device_open("cuda", &device, &err)) {
        mt_err_print(&err);
        return mt_exit_code(err.status);
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("%s\n", mt_device_describe(device));
    CHECK_OK(mt_stream_new(device, "compute", &stream, &err), err);
    noise = mt_malloc(2 * CHUNK);
    mt_type_noise(MT_BF16, noise, CHUNK, -0.5, 1);
    for (int i = 1; i < argc; i++) {
        struct shape s = {0};
        if (sscanf(argv[i], "%" SCNd64 "x%" SCNd64 "x%" SCNd64, &s.m, &s.n, &s.k) == 3) compare(&s, forms, count);
    }
    for (int parts = 2; parts >= 1; parts--)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes && chosen(argc, argv, parts > 1 ? "halves" : "wholes");
             i++) {
            int64_t m = shapes[i][0], n = shapes[i][1] / parts, k = shapes[i][2];
            compare(&(struct shape){m, n, k, false}, forms, count);
            if (n != k) compare(&(struct shape){m, k, n, false}, forms, count);
        }
    for (size_t i = 0; i < 6 && chosen(argc, argv, "gradients"); i++)
        compare(&(struct shape){shapes[i][2], shapes[i][1] / 2, shapes[i][0], true}, forms, count);
    for (int64_t m = 16; m <= 256 && chosen(argc, argv, "few"); m *= 2) {
        compare(&(struct shape){m, 4096, 8192, false}, forms, count);
        compare(&(struct shape){m, 8192, 4096, false}, forms, count);
    }
    mt_stream_free(stream);
    mt_device_close(device);
    return 0;
}
