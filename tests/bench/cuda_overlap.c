/* Overlapped GEMMs in one kernel (kernels/cuda/overlap/fused/fused.cu), on one GPU.
 *
 *     cuda_overlap [alone] [pairs] [ROWSxCOLUMNS]      (of tiles; 128x256)
 *
 * alone: one rank, which has nothing to send: the product M x K by K x N as the library's best algorithm, our GEMM of
 * gemm_tiles.cu, and the overlapped kernel run it; then with the sum of one slot. This is what tables, counters and
 * flags cost.
 *
 * pairs: two ranks of half of the multiprocessors each, whose link is this GPU's own memory: AllGather+GEMM and
 * GEMM+ReduceScatter of M x K by K x N, N divided, against the product alone and copies of the same bytes, one after
 * the other (for ReduceScatter without the addition). What is printed as eta is the longer of the two over the time.
 *
 * All run in turns of 20 ms; times are medians of turns. */
#include <inttypes.h>

#include "kernels/base/number/stats.h"
#include "kernels/base/wait.h"
#include "tests/kernels/cuda/overlap/one_gpu.h"

enum { TURNS = 7, CHUNK = 1 << 22 };
static const double turn_s = 0.02, deadline_s = 100;
static struct mt_stream *stream;
static int64_t tile[2] = {128, 256};

static void noise(void *to, int64_t bytes) {
    static char *values;
    if (!values) {
        values = mt_malloc(2 * CHUNK);
        mt_type_noise(MT_BF16, values, CHUNK, -0.5, 1);
    }
    if (bytes) CHECK_OK(mt_device_repeat(device, to, bytes, values, 2 * CHUNK, &err), err);
}

/* What is timed: `calls` of it, to the end; returns the seconds of one. */
struct timed {
    const char *name;
    void (*start)(void *context, int calls);
    void (*finish)(void *context);
    void *context;
    double s[TURNS];
};

static double once(struct timed *t, int calls) {
    double start = mt_now_s();
    t->start(t->context, calls);
    t->finish(t->context);
    return (mt_now_s() - start) / calls;
}

static void take_turns(struct timed *t, int count) {
    int calls[8];
    for (int i = 0; i < count; i++) {
        once(&t[i], 1);
        double s = once(&t[i], 5);
        calls[i] = s < turn_s ? (int)ceil(turn_s / s) : 1;
    }
    for (int turn = 0; turn < TURNS; turn++)
        for (int i = 0; i < count; i++) t[i].s[turn] = once(&t[i], calls[i]);
}

static double median(const struct timed *t) {
    double s[TURNS];
    memcpy(s, t->s, sizeof s);
    return mt_median(s, TURNS);
}

/* ---- one GEMM by operators ---- */

struct gemm {
    struct mt_call call;
    struct mt_attr attr;
    struct mt_tensor in[2], out;
    const struct mt_backend *backend;
    const char *by; /* MOTLEY_GEMM */
};

static struct mt_tensor tensor(int64_t first, int64_t second) {
    struct mt_tensor t = {.type = MT_BF16, .naxes = 2, .extent = {first, second}, .global = {first, second}};
    t.data = gpu_alloc(2 * first * second);
    noise(t.data, 2 * first * second);
    return t;
}

static void gemm_init(struct gemm *g, int64_t m, int64_t n, int64_t k, const char *by) {
    *g = (struct gemm){
        .attr = {.nm = 1, .nn = 1, .nk = 1}, .in = {tensor(m, k), tensor(k, n)}, .out = tensor(m, n), .by = by};
    g->call = (struct mt_call){
        .kind = MT_OP_matmul, .attr = &g->attr, .nin = 2, .nout = 1, .in = g->in, .out = &g->out, .what = "bench"};
    g->backend = mt_device_backend(device, &g->call);
    g->call.scratch = gpu_alloc(g->backend->scratch_bytes(&g->call));
}

static void gemm_free(struct gemm *g) {
    void *memory[] = {g->in[0].data, g->in[1].data, g->out.data, g->call.scratch};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) mt_device_free(device, memory[i]);
}

static void gemm_start(void *context, int calls) {
    struct gemm *g = context;
    setenv("MOTLEY_GEMM", g->by, 1);
    for (int i = 0; i < calls; i++) mt_stream_op(stream, g->backend, &g->call, NULL);
}

static void gemm_finish(void *context) {
    (void)context;
    CHECK_OK(mt_stream_sync(stream, deadline_s, &err), err);
}

/* ---- ranks ---- */

/* What ranks run: a copy from memory[rank] to the other's, an overlapped GEMM, or one after the other. */
struct load {
    int count;
    struct gpu_rank *rank[2];
    char *memory[2];
    int64_t copied_bytes;
    bool gemm;
};

static void load_start(void *context, int calls) {
    const struct load *l = context;
    for (int i = 0; i < calls * l->count; i++) {
        int r = i % l->count;
        if (l->copied_bytes)
            GPU(gpu.copy((CUdeviceptr)l->memory[1 - r] + (CUdeviceptr)l->copied_bytes, (CUdeviceptr)l->memory[r],
                         (size_t)l->copied_bytes, l->rank[r]->queue.stream));
        if (l->gemm) queue_rank(l->rank[r]);
    }
}

static void load_finish(void *context) {
    const struct load *l = context;
    for (int r = 0; r < l->count; r++) {
        uint64_t words[5];
        GPU(gpu.stream_sync(l->rank[r]->queue.stream));
        CHECK_OK(mt_device_copy_out(device, words, (void *)l->rank[r]->words, sizeof words, &err), err);
        CHECK(!words[0], "rank %d gave up: byte %lld is %lld, not %lld", r,
              (long long)(words[1] - (uint64_t)l->rank[r]->window), (long long)words[2], (long long)words[3]);
    }
}

static void ranks_init(struct gpu_ranks *g, const struct mt_overlap *p) {
    make_ranks(g, p, false, false, deadline_s);
    for (int r = 0; r < p->n; r++) {
        noise(g->rank[r].a, g->rank[r].bytes[MT_OVERLAP_A]);
        noise(g->rank[r].b, g->rank[r].b_bytes);
    }
    for (int r = 0; r < p->n; r++) GPU(gpu.exec_free(capture_rank(&g->rank[r], 1)));
}

static struct mt_overlap problem(enum mt_overlap_form form, const int64_t shape[3], int n, const int64_t *rows,
                                 const int64_t *shares) {
    return (struct mt_overlap){.form = form,
                               .n = n,
                               .m = shape[0],
                               .cols = shape[1],
                               .k = shape[2],
                               .rows = rows,
                               .shares = shares,
                               .type = MT_BF16,
                               .out = MT_BF16,
                               .wire = MT_BF16,
                               .tile = {tile[0], tile[1]},
                               .chunk = 512,
                               .mix = 1};
}

static void alone(const int64_t shape[3]) {
    struct gemm library, own;
    struct gpu_ranks plain, sums;
    struct mt_overlap gather = problem(MT_OVERLAP_GATHER, shape, 1, &shape[0], &shape[1]);
    struct mt_overlap scatter = problem(MT_OVERLAP_SCATTER, shape, 1, &shape[0], &shape[2]);
    double flops = 2 * (double)shape[0] * (double)shape[1] * (double)shape[2];
    gemm_init(&library, shape[0], shape[1], shape[2], "library");
    gemm_init(&own, shape[0], shape[1], shape[2], "own");
    ranks_init(&plain, &gather), ranks_init(&sums, &scatter);
    struct load without = {1, {&plain.rank[0]}, {NULL}, 0, true}, with = {1, {&sums.rank[0]}, {NULL}, 0, true};
    struct timed t[] = {{"library", gemm_start, gemm_finish, &library, {0}},
                        {"own", gemm_start, gemm_finish, &own, {0}},
                        {"overlapped", load_start, load_finish, &without, {0}},
                        {"with sum", load_start, load_finish, &with, {0}}};
    take_turns(t, 4);
    printf("%6lld %6lld %6lld", (long long)shape[0], (long long)shape[1], (long long)shape[2]);
    for (int i = 0; i < 4; i++)
        printf("   %s %7.1f us %5.1f TFLOP/s %5.3f", t[i].name, 1e6 * median(&t[i]), 1e-12 * flops / median(&t[i]),
               median(&t[0]) / median(&t[i]));
    printf("\n");
    gemm_free(&library), gemm_free(&own);
    free_ranks(&plain), free_ranks(&sums);
}

/* ---- two ranks ---- */

static void pair(enum mt_overlap_form form, const int64_t given[3]) {
    bool gathers = form == MT_OVERLAP_GATHER;
    /* The scattered product is M x N by N x K. */
    const int64_t shape[3] = {given[0], given[gathers ? 1 : 2], given[gathers ? 2 : 1]};
    const int64_t rows[2] = {shape[0] / 2, shape[0] / 2}, shares[2] = {given[1] / 2, given[1] / 2};
    const int64_t half[3] = {shape[0], gathers ? shares[0] : shape[1], gathers ? shape[2] : shares[0]};
    struct mt_overlap p = problem(form, shape, 2, rows, shares);
    struct mt_overlap alone_p = problem(MT_OVERLAP_GATHER, half, 1, &half[0], &half[1]);
    struct gpu_ranks ranks, product[2]; /* product: a rank's, of a problem of one rank */
    ranks_init(&ranks, &p);
    struct load overlapped = {2, {&ranks.rank[0], &ranks.rank[1]}, {NULL}, 0, true}, gemm = overlapped;
    for (int r = 0; r < 2; r++) {
        ranks_init(&product[r], &alone_p);
        product[r].rank[0].cuda.nsm /= 2;
        gemm.rank[r] = &product[r].rank[0];
    }
    struct load sequential = gemm, copies;
    sequential.copied_bytes = rows[0] * given[2] * mt_type_size(MT_BF16);
    for (int r = 0; r < 2; r++) sequential.memory[r] = gpu_alloc(2 * sequential.copied_bytes);
    copies = sequential, copies.gemm = false;
    struct timed t[] = {{"GEMM", load_start, load_finish, &gemm, {0}},
                        {"copies", load_start, load_finish, &copies, {0}},
                        {"sequential", load_start, load_finish, &sequential, {0}},
                        {"overlapped", load_start, load_finish, &overlapped, {0}}};
    take_turns(t, 4);
    double longer = fmax(median(&t[0]), median(&t[1]));
    printf("%-18s %6lld %6lld %6lld", mt_overlap_name(form), (long long)given[0], (long long)given[1],
           (long long)given[2]);
    for (int i = 0; i < 4; i++) printf("   %s %7.1f us", t[i].name, 1e6 * median(&t[i]));
    printf("   eta %.3f, %.3f times as fast as the sequential\n", longer / median(&t[3]),
           median(&t[2]) / median(&t[3]));
    free_ranks(&ranks);
    for (int r = 0; r < 2; r++) {
        mt_device_free(device, sequential.memory[r]);
        free_ranks(&product[r]);
    }
}

/* Whether a section is named, or none is. */
static bool chosen(int argc, char **argv, const char *section) {
    bool any = false;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], section)) return true;
        any |= sscanf(argv[i], "%" SCNd64 "x%" SCNd64, &tile[0], &tile[1]) != 2;
    }
    return !any;
}

int main(int argc, char **argv) {
    static const int64_t shapes[][3] = {{8192, 1024, 8192}, {8192, 2048, 8192},  {8192, 4096, 8192},
                                        {8192, 8192, 8192}, {4096, 14336, 4096}, {4096, 12288, 12288},
                                        {8192, 28672, 8192}};
    if (!open_gpu()) {
        mt_err_print(&err);
        return mt_exit_code(err.status);
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("%s\n", mt_device_describe(device));
    CHECK_OK(mt_stream_new(device, "compute", &stream, &err), err);
    bool alones = chosen(argc, argv, "alone"), pairs = chosen(argc, argv, "pairs");
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const int64_t *s = shapes[i], columns[3] = {s[0], s[1] / 2, s[2]}, rows[3] = {s[0], s[2], s[1] / 2};
        if (alones) alone(columns), alone(rows);
        if (pairs) pair(MT_OVERLAP_GATHER, s), pair(MT_OVERLAP_SCATTER, s);
    }
    mt_stream_free(stream);
    mt_device_close(device);
    return 0;
}
