/* GEMMs on the GPU against plain C in double: odd and zero extents, groups of axes, addresses off the vectors'
 * alignment, every transposition, types, accumulation and epilogue, with the library's first algorithm, the measured
 * one, those that a tuning file names, also a scrambled one, and our own kernel (`own [FORM]`: it alone; `large`:
 * results larger than the L2 cache). All failures are listed before the test ends. */
#include <unistd.h>

#include "kernels/base/arena.h"
#include "kernels/base/file.h"
#include "kernels/base/number/rng.h"
#include "kernels/device/device.h"
#include "tests/check.h"
#include "tests/kernels/op/calls.h"

static const uint64_t seed = 20261122;
static uint64_t drawn;
static struct mt_device *device;
static struct mt_stream *stream;
static int checks, failures;

struct problem {
    int64_t m[2], n[2], k[2];
    int nm, nn, nk;
};

/* How one GEMM is to be run. */
struct variant {
    enum mt_op_kind kind, epilogue;
    enum mt_type type;
    bool tf32, ta, tb, out_acc, accumulate;
    int shift; /* elements that every tensor's memory is off its alignment */
    bool heuristic;
    const char *gemm; /* of MOTLEY_GEMM; or null */
};

static const char *describe(const struct problem *p, const struct variant *v) {
    static char text[300];
    int64_t m = 1, n = 1, k = 1;
    for (int i = 0; i < p->nm; i++) m *= p->m[i];
    for (int i = 0; i < p->nn; i++) n *= p->n[i];
    for (int i = 0; i < p->nk; i++) k *= p->k[i];
    snprintf(text, sizeof text, "%s%s%s %s m=%lld n=%lld k=%lld (axes %d %d %d)%s%s%s%s%s%s%s%s",
             v->gemm ? v->gemm : "", v->gemm ? " " : "", mt_op_info[v->kind].name,
             v->tf32 ? "tf32" : mt_type_name(v->type), (long long)m, (long long)n, (long long)k, p->nm, p->nn, p->nk,
             v->ta ? " trans_a" : "", v->tb ? " trans_b" : "", v->out_acc ? " out_acc" : "",
             v->accumulate ? " accumulate" : "", v->kind == MT_OP_fused_matmul ? " epilogue " : "",
             v->kind == MT_OP_fused_matmul ? mt_op_info[v->epilogue].name : "", v->shift ? " off alignment" : "",
             v->heuristic ? ", library's choice" : "");
    return text;
}

static void fail(const struct problem *p, const struct variant *v, const char *what) {
    fprintf(stderr, "FAILED %s: %s\n", describe(p, v), what);
    failures++;
}

/* ---- tensors: on the host as the reference sees them and as the device does, and on the device ---- */

struct operand {
    struct mt_tensor wide;  /* f64 */
    struct mt_tensor there; /* device memory */
    void *memory;           /* that was allocated; there.data is `shift` elements into it */
    char *host;
    int64_t count, bytes;
};

static struct operand operand(const struct variant *v, enum mt_type type, int naxes, const int64_t *extent,
                              bool poison) {
    struct mt_err err = MT_ERR_INIT;
    struct operand o = {.wide = call_tensor(MT_F64, naxes, extent)};
    o.there = o.wide;
    o.there.type = type;
    o.there.data = NULL;
    o.count = mt_tensor_count(&o.wide);
    o.bytes = o.count * mt_type_size(type);
    o.host = mt_malloc((size_t)o.bytes + 1);
    for (int64_t i = 0; i < o.count; i++) {
        mt_type_store(type, o.host, i, poison ? NAN : 2 * mt_random_uniform(seed, 1, drawn++) - 1);
        mt_type_store(MT_F64, o.wide.data, i, mt_type_load(type, o.host, i));
    }
    if (!o.count) return o;
    int64_t shift = v->shift * mt_type_size(type);
    CHECK_OK(mt_device_alloc(device, o.bytes + shift, &o.memory, &err), err);
    o.there.data = (char *)o.memory + shift;
    CHECK_OK(mt_device_copy_in(device, o.there.data, o.host, o.bytes, &err), err);
    return o;
}

static void release(struct operand *o) {
    if (o->memory) mt_device_free(device, o->memory);
    free(o->wide.data);
    free(o->host);
}

/* Two groups of axes, `swapped` when the second is stored first. */
static struct operand matrix(const struct variant *v, enum mt_type type, const int64_t *first, int nfirst,
                             const int64_t *second, int nsecond, bool swapped, bool poison) {
    int64_t extent[4];
    const int64_t *x = swapped ? second : first, *y = swapped ? first : second;
    int nx = swapped ? nsecond : nfirst, ny = swapped ? nfirst : nsecond;
    for (int a = 0; a < nx; a++) extent[a] = x[a];
    for (int a = 0; a < ny; a++) extent[nx + a] = y[a];
    return operand(v, type, nx + ny, extent, poison);
}

static double squares_of(const struct operand *o) {
    double sum = 0;
    for (int64_t i = 0; i < o->count; i++) sum += pow(mt_type_load(MT_F64, o->wide.data, i), 2);
    return sum;
}

/* In the norm of the whole, as rounding goes, or of what was added up (least: its squares), which may have cancelled;
 * where all is zero, exactly. */
static void compare(const struct problem *p, const struct variant *v, struct operand *o, const char *name,
                    double least) {
    struct mt_err err = MT_ERR_INIT;
    double diff = 0, norm = 0, worst = -1;
    int64_t at = 0;
    char text[300];
    checks++;
    if (!o->count) return;
    CHECK_OK(mt_device_copy_out(device, o->host, o->there.data, o->bytes, &err), err);
    for (int64_t i = 0; i < o->count; i++) {
        double got = mt_type_load(o->there.type, o->host, i), want = mt_type_load(MT_F64, o->wide.data, i);
        double off = isfinite(got) ? fabs(got - want) : INFINITY;
        if (off > worst) worst = off, at = i;
        diff += off * off, norm += want * want;
    }
    static const double limits[MT_NTYPES] = {[MT_F32] = 1e-5, [MT_BF16] = 1e-2, [MT_F16] = 2e-3};
    if (norm < least) norm = least;
    double allowed = v->tf32 ? 1e-3 : limits[v->type], error = norm > 0 ? sqrt(diff / norm) : sqrt(diff);
    if (error <= allowed * (norm > 0)) return;
    snprintf(text, sizeof text, "%s is off by %g of its norm, at most %g is allowed; element %lld is %g, not %g", name,
             error, allowed, (long long)at, mt_type_load(o->there.type, o->host, at),
             mt_type_load(MT_F64, o->wide.data, at));
    fail(p, v, text);
}

static bool run_there(const struct problem *p, const struct variant *v, struct mt_call *call) {
    struct mt_err err = MT_ERR_INIT;
    void *scratch = NULL;
    CHECK_OK(mt_call_check(call, &err), err);
    const struct mt_backend *backend = mt_device_backend(device, call);
    if (!backend) {
        fail(p, v, "the device has no backend for it");
        return false;
    }
    int64_t bytes = backend->scratch_bytes(call);
    /* No better aligned than an arena's. */
    if (bytes) CHECK_OK(mt_device_alloc(device, bytes + 64, &scratch, &err), err);
    call->scratch = bytes ? (char *)scratch + 64 : NULL;
    if (v->heuristic)
        setenv("MOTLEY_TUNE", "off", 1);
    else
        unsetenv("MOTLEY_TUNE");
    if (v->gemm)
        setenv("MOTLEY_GEMM", v->gemm, 1);
    else
        unsetenv("MOTLEY_GEMM");
    mt_stream_op(stream, backend, call, NULL);
    enum mt_status st = mt_stream_sync(stream, 60, &err);
    if (scratch) mt_device_free(device, scratch);
    if (st) fail(p, v, err.text);
    return !st;
}

static void one(const struct problem *p, const struct variant *v) {
    bool fused = v->kind == MT_OP_fused_matmul;
    enum mt_type out_type = v->out_acc ? MT_F32 : v->type;
    struct mt_attr attr = {.nm = p->nm,
                           .nn = p->nn,
                           .nk = p->nk,
                           .trans_a = v->ta,
                           .trans_b = v->tb,
                           .out_acc = v->out_acc,
                           .tf32 = v->tf32,
                           .accumulate = v->accumulate,
                           .epilogue = fused ? v->epilogue : (enum mt_op_kind)0};
    const struct mt_op_epilogue *epilogue = fused ? mt_op_epilogue(v->epilogue) : NULL;
    int nin = fused ? epilogue->nin : 2, nout = mt_op_nout(v->kind, &attr);
    bool row = !epilogue || epilogue->bias, whole = !epilogue || epilogue->whole;
    struct operand in[3] = {matrix(v, v->type, p->m, p->nm, p->k, p->nk, v->ta, false),
                            matrix(v, v->type, p->k, p->nk, p->n, p->nn, v->tb, false),
                            row ? operand(v, v->type, p->nn, p->n, false)
                                : matrix(v, v->type, p->m, p->nm, p->n, p->nn, false, false)};
    struct operand out[2] = {matrix(v, out_type, p->m, p->nm, p->n, p->nn, false, !v->accumulate),
                             whole ? matrix(v, out_type, p->m, p->nm, p->n, p->nn, false, true)
                                   : operand(v, MT_F32, p->nn, p->n, !v->accumulate)};
    struct mt_tensor wide_in[3], wide_out[2], in_there[3], out_there[2];
    for (int i = 0; i < 3; i++) wide_in[i] = in[i].wide, in_there[i] = in[i].there;
    for (int o = 0; o < 2; o++) wide_out[o] = out[o].wide, out_there[o] = out[o].there;
    call_run(call_of(v->kind, &attr, NULL, nin, wide_in, nout, wide_out));
    struct mt_call call = call_of(v->kind, &attr, NULL, nin, in_there, nout, out_there);
    if (run_there(p, v, &call)) {
        compare(p, v, &out[0], "y", 0);
        if (nout == 2) compare(p, v, &out[1], whole ? "pre" : "sums", whole ? 0 : squares_of(&in[1]));
    }
    for (int i = 0; i < 3; i++) release(&in[i]);
    for (int o = 0; o < 2; o++) release(&out[o]);
}

/* Sets of `bits` below, and that nothing is fused. */
enum { ALL_WAYS = 0xffff, SOME_WAYS = 1 << 0 | 1 << 4 | 1 << 8 | 1 << 9 | 1 << 10 | 1 << 12, BARE = 1 << 16 };

/* All ways of one shape. */
static void every_way(const struct problem *p, int shift, bool heuristic, int ways) {
    static const enum mt_op_kind epilogues[] = {MT_OP_add, MT_OP_gelu, MT_OP_relu, MT_OP_gelu_grad, MT_OP_relu_grad};
    static const enum mt_type types[] = {MT_F32, MT_F32, MT_BF16, MT_F16};
    for (int bits = 0; bits < 16; bits++) {
        struct variant v = {.kind = MT_OP_matmul,
                            .type = types[bits / 4],
                            .tf32 = bits / 4 == 1,
                            .ta = bits & 1,
                            .tb = bits & 2,
                            .shift = shift,
                            .heuristic = heuristic};
        if (!(ways >> bits & 1)) continue;
        for (int out = 0; out < 4; out++) {
            v.out_acc = out & 1, v.accumulate = out & 2;
            one(p, &v);
        }
        if (ways & BARE) continue;
        v.kind = MT_OP_fused_matmul;
        v.epilogue = MT_OP_sum;
        for (int out = 0; out < 4; out++) {
            v.out_acc = out & 1, v.accumulate = out & 2;
            one(p, &v);
        }
        v.out_acc = v.accumulate = false;
        for (size_t e = 0; e < sizeof epilogues / sizeof *epilogues; e++) {
            v.epilogue = epilogues[e];
            one(p, &v);
        }
    }
}

/* The same call gives the same bits, again and again. */
static void same_bits(enum mt_type type) {
    struct mt_err err = MT_ERR_INIT;
    struct problem p = {{192}, {200}, {4096}, 1, 1, 1};
    struct variant v = {.kind = MT_OP_matmul, .type = type, .ta = true, .out_acc = true};
    struct mt_attr attr = {.nm = 1, .nn = 1, .nk = 1, .trans_a = true, .out_acc = true};
    struct operand in[2] = {matrix(&v, type, p.m, 1, p.k, 1, true, false),
                            matrix(&v, type, p.k, 1, p.n, 1, false, false)};
    struct operand out = matrix(&v, MT_F32, p.m, 1, p.n, 1, false, true);
    struct mt_tensor in_there[2] = {in[0].there, in[1].there};
    struct mt_call call = call_of(MT_OP_matmul, &attr, NULL, 2, in_there, 1, &out.there);
    char *first = mt_malloc((size_t)out.bytes);
    for (int i = 0; i < 20 && run_there(&p, &v, &call); i++) {
        checks++;
        CHECK_OK(mt_device_copy_out(device, i ? out.host : first, out.there.data, out.bytes, &err), err);
        if (i && memcmp(first, out.host, (size_t)out.bytes)) {
            fail(&p, &v, "other bits than in the first run");
            break;
        }
    }
    free(first);
    release(&in[0]), release(&in[1]), release(&out);
}

static const struct problem problems[] = {
    {{1}, {1}, {1}, 1, 1, 1},
    {{3, 5}, {7}, {11}, 2, 1, 1},
    {{2, 33}, {3, 17}, {65}, 2, 2, 1},
    {{64}, {257}, {31, 2}, 1, 1, 2},
    {{128}, {64}, {96}, 1, 1, 1},
    {{4, 64}, {2, 64}, {8, 72}, 2, 2, 2},
    {{1}, {104}, {304}, 1, 1, 1},
    {{301}, {1}, {77}, 1, 1, 1},
    {{96}, {1032}, {40}, 1, 1, 1},
    {{9}, {13}, {2051}, 1, 1, 1},
    {{1024}, {24}, {16}, 1, 1, 1},
    {{0}, {8}, {16}, 1, 1, 1},
    {{8}, {0}, {16}, 1, 1, 1},
    {{9, 2}, {5}, {0}, 2, 1, 1},
    {{16}, {8, 32}, {0, 3}, 1, 2, 2},
    {{0}, {0}, {0}, 1, 1, 1},
    {{24}, {40}, {0}, 1, 1, 0}, /* no axes to sum over: one term */
    {{0}, {40}, {24}, 0, 1, 1}, /* a vector by a matrix */
    /* odd and long: in strips */
    {{520}, {777}, {64}, 1, 1, 1},
    {{2, 264}, {72}, {1021}, 2, 1, 1},
    {{523}, {64}, {4, 136}, 1, 1, 2},
    {{514}, {8, 16}, {536}, 1, 2, 1},
};
enum { NPROBLEMS = sizeof problems / sizeof *problems, ODD = 4 /* of them */ };

static const char *const own_forms[] = {"own",
                                        "own:128x256/0/1",
                                        "own:128x256/1/1",
                                        "own:128x256/2/3",
                                        "own:256x128/0/2",
                                        "own:256x128/1/1",
                                        "own:256x128/2/1",
                                        "own:128x192/1/8",
                                        "own:128x128/0/1",
                                        "own:128x128/2/2",
                                        "own:128x64/0/5",
                                        "own:128x64/1/1",
                                        "own:64x256/2/4",
                                        "own:64x128/1/7",
                                        "own:64x64/0/1",
                                        "own:64x256/3/8",
                                        "own:64x64/3/4",
                                        "own:128x128/3/2",
                                        "own:128x256/3/4"};
enum { NFORMS = sizeof own_forms / sizeof *own_forms };

/* Our own kernel, with each of its tiles: within one, several, an odd number of them, edges, and parts of k. Where it
 * cannot, the library's is tested again. */
static void own_tiles(const char *only) {
    static const struct problem tiled[] = {{{8}, {8}, {8}, 1, 1, 1},        {{64}, {64}, {64}, 1, 1, 1},
                                           {{136}, {264}, {200}, 1, 1, 1},  {{392}, {776}, {72}, 1, 1, 1},
                                           {{24}, {1032}, {1544}, 1, 1, 1}, {{1288}, {16}, {640}, 1, 1, 1},
                                           {{520}, {520}, {520}, 1, 1, 1}};
    for (int f = 0; f < NFORMS; f++) {
        if (only && strcmp(only, own_forms[f])) continue;
        for (size_t i = 0; i < sizeof tiled / sizeof *tiled; i++)
            for (int turns = 0; turns < 4; turns++)
                for (int out = 0; out < 4; out++) { /* half; float; float, added to; f16 */
                    struct variant v = {.kind = MT_OP_matmul,
                                        .type = out == 3 ? MT_F16 : MT_BF16,
                                        .ta = turns & 1,
                                        .tb = turns & 2,
                                        .out_acc = out == 1 || out == 2,
                                        .accumulate = out == 2,
                                        .gemm = own_forms[f]};
                    if (!out || turns == f % 4) one(&tiled[i], &v); /* each has to be compiled */
                }
    }
}

/* A result that is larger than the L2 cache is stored otherwise: its rows have the bits of GEMMs of few of them. */
static void large_result(const char *form) {
    enum { ROWS = 9216, COLUMNS = 4096, K = 576, PARTS = 8, NOISE = 1 << 20 };
    static const int64_t extents[3][2] = {{ROWS, K}, {K, COLUMNS}, {ROWS, COLUMNS}};
    struct mt_err err = MT_ERR_INIT;
    struct mt_attr attr = {.nm = 1, .nn = 1, .nk = 1};
    struct mt_tensor t[3];
    const int64_t bytes = 2LL * ROWS * COLUMNS;
    char *whole = mt_malloc((size_t)bytes), *parts = mt_malloc((size_t)bytes), *noise = mt_malloc(2 * NOISE);
    mt_type_noise(MT_BF16, noise, NOISE, -0.5, 1);
    for (int i = 0; i < 3; i++) {
        int64_t rows = extents[i][0], columns = extents[i][1];
        t[i] = (struct mt_tensor){.type = MT_BF16, .naxes = 2, .extent = {rows, columns}, .global = {rows, columns}};
        CHECK_OK(mt_device_alloc(device, 2 * rows * columns, &t[i].data, &err), err);
        CHECK_OK(mt_device_repeat(device, t[i].data, 2 * rows * columns, noise, 2 * NOISE, &err), err);
    }
    struct mt_call call = {
        .kind = MT_OP_matmul, .attr = &attr, .nin = 2, .nout = 1, .in = t, .out = t + 2, .what = "large result"};
    const struct mt_backend *backend = mt_device_backend(device, &call);
    CHECK_OK(mt_device_alloc(device, backend->scratch_bytes(&call) + 1, &call.scratch, &err), err);
    setenv("MOTLEY_GEMM", form, 1);
    mt_stream_op(stream, backend, &call, NULL);
    CHECK_OK(mt_stream_sync(stream, 60, &err), err);
    CHECK_OK(mt_device_copy_out(device, whole, t[2].data, bytes, &err), err);
    CHECK_OK(mt_device_repeat(device, t[2].data, bytes, noise, 2 * NOISE, &err), err);
    char *a = t[0].data, *y = t[2].data;
    t[0].extent[0] = t[0].global[0] = t[2].extent[0] = t[2].global[0] = ROWS / PARTS;
    for (int i = 0; i < PARTS; i++) {
        t[0].data = a + i * (2 * ROWS / PARTS * K), t[2].data = y + i * (bytes / PARTS);
        mt_stream_op(stream, backend, &call, NULL);
    }
    CHECK_OK(mt_stream_sync(stream, 60, &err), err);
    CHECK_OK(mt_device_copy_out(device, parts, y, bytes, &err), err);
    unsetenv("MOTLEY_GEMM");
    checks++;
    if (memcmp(whole, parts, (size_t)bytes)) {
        fprintf(stderr, "FAILED %s: a large result has other bits than its rows\n", form);
        failures++;
    }
    void *memory[] = {a, t[1].data, y, call.scratch};
    for (int i = 0; i < 4; i++) mt_device_free(device, memory[i]);
    free(whole), free(parts), free(noise);
}

/* Each form in a process of its own, all at once: most of the time is the compiler's. */
static void own_tiles_apart(const char *program) {
    FILE *running[NFORMS];
    for (int f = 0; f < NFORMS; f++) {
        char command[4200];
        snprintf(command, sizeof command, "'%s' own %s", program, own_forms[f]);
        running[f] = popen(command, "w");
        CHECK(running[f], "%s: cannot be started", command);
    }
    for (int f = 0; f < NFORMS; f++) {
        checks++;
        if (!pclose(running[f])) continue;
        fprintf(stderr, "FAILED: %s\n", own_forms[f]);
        failures++;
    }
}

static void measured(void) {
    static const int odd[] = {1 << 6, 1 << 4, 1 << 5}; /* such that there are strips of n, of k and of m */
    every_way(&problems[5], 0, false, SOME_WAYS);
    for (int i = 0; i < 3; i++) every_way(&problems[NPROBLEMS - ODD + i], 0, false, odd[i] | BARE);
}

/* Some hexadecimal digits of the values become others: what is stored still looks like algorithms. */
static void scramble(const char *cache) {
    char path[100], *text;
    size_t length;
    struct mt_err err = MT_ERR_INIT;
    static const char mark[] = "\"value\": \"", digits[] = "0123456789abcdef";
    snprintf(path, sizeof path, "%s/tuning.json", cache);
    CHECK_OK(mt_file_read(path, 1 << 28, &text, &length, &err), err);
    int values = 0;
    for (char *at = strstr(text, mark); at; at = strstr(at, mark), values++) {
        at += strcspn(at + sizeof mark, " ") + sizeof mark; /* past the word before the digits */
        for (; *at && *at != '"'; at++)
            if (*at != ' ' && mt_random_uniform(seed, 2, drawn++) < 0.1) *at = digits[(int)(drawn * 7 % 16)];
    }
    CHECK(values > 0, "%s: has no values", path);
    CHECK_OK(mt_file_replace(path, text, length, &err), err);
    free(text);
}

/* This program once more, with what the tuning file now has. */
static void once_more(const char *program, const char *what) {
    char command[4200];
    snprintf(command, sizeof command, "'%s' again", program);
    int status = system(command);
    checks++;
    if (!status) return;
    fprintf(stderr, "FAILED: a second process with %s tuning file: status %d\n", what, status);
    failures++;
}

int main(int argc, char **argv) {
    struct mt_err err = MT_ERR_INIT;
    char cache[] = "/tmp/motley-matmul-XXXXXX", command[60];
    bool again = argc > 1;
    if (mt_device_open("cuda", &device, &err)) {
        printf("skipped: %s\n", err.text);
        return 77;
    }
    printf("%s, seed %llu\n", mt_device_describe(device), (unsigned long long)seed);
    if (!again) CHECK(mkdtemp(cache));
    if (!again) setenv("MOTLEY_CACHE", cache, 1);
    CHECK_OK(mt_stream_new(device, "compute", &stream, &err), err);
    bool own = argc > 1 && !strcmp(argv[1], "own");
    bool large = argc > 1 && !strcmp(argv[1], "large");
    if (own) own_tiles(argc > 2 ? argv[2] : NULL);
    if (large || !again) large_result("own:128x256/0/1"), large_result("own:128x128/1/1");
    if (!own && !large) measured();
    if (!again) {
        own_tiles_apart(argv[0]);
        for (int i = NPROBLEMS - 1; i >= 0; i--) every_way(&problems[i], 0, true, ALL_WAYS);
        for (int i = 3; i < 5; i++) every_way(&problems[i], 1, true, ALL_WAYS);
        same_bits(MT_F32), same_bits(MT_BF16), same_bits(MT_F16);
        once_more(argv[0], "this one's");
        scramble(cache);
        once_more(argv[0], "a scrambled");
        snprintf(command, sizeof command, "rm -r %s", cache);
        if (system(command)) fprintf(stderr, "%s is left behind\n", cache);
    }
    mt_stream_free(stream);
    mt_device_close(device);
    printf("%d of %d checks failed\n", failures, checks);
    return failures > 0;
}
