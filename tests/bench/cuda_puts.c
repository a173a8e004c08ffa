/* What overlapped kernels can hope for, measured on two GPUs: how fast one writes to the other by copy engine, by
 * stores and by bulk copies, by blocks and bytes in flight, and both to each other; the same beside a GEMM, and what
 * either costs the other; and how long a message with a signal takes, by its size and by who sends it.
 *
 *     mpirun -n 2 bench_cuda_puts [quick]
 *
 * But for both ways, rank 0 writes, computes and leads; rank 1 holds the memory, and answers messages. "sm" are the
 * multiprocessors that a put's kernel takes from the GEMM; "GEMM x" and "put x" how many times as long each takes
 * beside the other. A GEMM of 8192 by 8192 by 8192 in bf16. */
#include <string.h>

#include "kernels/base/arena.h"
#include "kernels/device/put.h"
#include "tests/kernels/cuda/nccl/cuda_ranks.h"

enum { SIZE = 8192, MESSAGES = 1 << 20, GEMMS = 12 };
static const int64_t most_bytes = 256 << 20;
static const double deadline_s = 60;
static struct mt_device *device;
static struct mt_stream *stream;
static struct mt_err err = MT_ERR_INIT;
static int rank;
static void *here, *there; /* most_bytes: this rank's memory, the other's */

static double put_s(struct mt_put_probe probe) {
    double each_s = 0, best_s = INFINITY;
    probe.to = there, probe.from = here;
    for (int turn = 0; turn < 3; turn++) {
        CHECK_OK(mt_device_puts_start(device, &probe, &err), err);
        CHECK_OK(mt_device_puts_finish(device, &each_s, &err), err);
        if (each_s < best_s) best_s = each_s;
    }
    return best_s;
}

static double rate(int64_t bytes, double s) {
    return 1e-9 * (double)bytes / s;
}

static void engine(void) {
    printf("copy engine, GB/s by size\n");
    for (int64_t bytes = 4 << 10; bytes <= most_bytes; bytes *= 4) {
        double s = put_s((struct mt_put_probe){MT_PUT_ENGINE, .size_bytes = bytes, .repeats = 50});
        printf("  %10lld B %8.2f us %7.1f GB/s\n", (long long)bytes, 1e6 * s, rate(bytes, s));
    }
}

/* Rates by blocks (lines) and bytes in flight of each (columns). False: this GPU has no such copies. */
static bool kernels(enum mt_put_how how, const char *name, int least, int most, bool quick) {
    static const int blocks[] = {1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 132};
    struct mt_put_probe probe = {how, here, here, 1 << 20, 1, least, 1};
    enum mt_status st = mt_device_puts_start(device, &probe, &err);
    if (st == MT_EMISSING) {
        printf("%s: %s\n", name, err.text);
        return false;
    }
    double ignored;
    CHECK_OK(st, err);
    CHECK_OK(mt_device_puts_finish(device, &ignored, &err), err);
    printf("%s, GB/s by blocks and KiB in flight of each\n  blocks", name);
    for (int flight = least; flight <= most; flight *= quick ? 4 : 2) printf("%8.1f", flight / 1024.0);
    printf("\n");
    for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b += quick ? 3 : 1) {
        printf("  %6d", blocks[b]);
        for (int flight = least; flight <= most; flight *= quick ? 4 : 2) {
            int64_t bytes = blocks[b] < 8 ? 16 << 20 : 128 << 20;
            double s = put_s((struct mt_put_probe){how, .size_bytes = bytes, .blocks = blocks[b],
                                                   .flight_bytes = flight, .repeats = 4});
            printf("%8.1f", rate(bytes, s));
        }
        printf("\n");
    }
    return true;
}

/* ---- beside a GEMM ---- */

static struct mt_tensor matrix(enum mt_type type) {
    struct mt_tensor t = {.type = type, .naxes = 2, .extent = {SIZE, SIZE}, .global = {SIZE, SIZE}};
    int64_t bytes = mt_tensor_bytes(&t), noise_bytes = 1 << 20;
    char *noise = mt_malloc((size_t)noise_bytes);
    mt_type_noise(type, noise, noise_bytes / mt_type_size(type), -0.5, 1);
    CHECK_OK(mt_device_alloc(device, bytes, &t.data, &err), err);
    CHECK_OK(mt_device_repeat(device, t.data, bytes, noise, noise_bytes, &err), err);
    free(noise);
    return t;
}

struct gemm {
    struct mt_tensor x[2], y;
    struct mt_attr attr;
    struct mt_call call; /* of these: a gemm stays where it is */
    const struct mt_backend *backend;
    void *scratch;
};

static void gemm_init(struct gemm *g) {
    *g = (struct gemm){.x = {matrix(MT_BF16), matrix(MT_BF16)}, .y = matrix(MT_BF16)};
    g->attr = (struct mt_attr){.nm = 1, .nn = 1, .nk = 1};
    g->call = (struct mt_call){.kind = MT_OP_matmul, .attr = &g->attr, .nin = 2, .nout = 1, .in = g->x, .out = &g->y};
    g->backend = mt_device_backend(device, &g->call);
    CHECK(g->backend, "a GEMM");
    int64_t scratch_bytes = g->backend->scratch_bytes(&g->call);
    if (scratch_bytes) CHECK_OK(mt_device_alloc(device, scratch_bytes, &g->scratch, &err), err);
    g->call.scratch = g->scratch;
}

static void gemm_release(struct gemm *g) {
    if (g->scratch) mt_device_free(device, g->scratch);
    for (int i = 0; i < 2; i++) mt_device_free(device, g->x[i].data);
    mt_device_free(device, g->y.data);
}

/* The fastest of a few in the middle of many. */
static double gemms_s(const struct gemm *g) {
    double times[GEMMS][2], best_s = INFINITY;
    for (int i = 0; i < GEMMS; i++) mt_stream_op(stream, g->backend, &g->call, times[i]);
    CHECK_OK(mt_stream_sync(stream, deadline_s, &err), err);
    for (int i = GEMMS / 4; i < GEMMS * 3 / 4; i++) best_s = fmin(best_s, times[i][1] - times[i][0]);
    return best_s;
}

/* Puts for longer than the GEMMs take; these begin later and end earlier, so that each is beside the other. */
static void beside(const struct gemm *g, double alone_s, const char *name, struct mt_put_probe probe) {
    probe.size_bytes = 64 << 20;
    probe.repeats = 8;
    double put_alone_s = put_s(probe), each_s;
    probe.to = there, probe.from = here;
    probe.repeats = 1 + (int)(3 * GEMMS * alone_s / put_alone_s);
    CHECK_OK(mt_device_puts_start(device, &probe, &err), err);
    double gemm_s = gemms_s(g);
    CHECK_OK(mt_device_puts_finish(device, &each_s, &err), err);
    /* A third of the puts, or more, had no GEMM beside them. */
    double beside_s = GEMMS * gemm_s, puts = probe.repeats - (probe.repeats * each_s - beside_s) / put_alone_s;
    printf("  %-8s %4d %6d %9.1f %9.3f %9.2f %9.2f\n", name, probe.blocks, probe.flight_bytes,
           rate(64 << 20, put_alone_s), 1e3 * gemm_s, gemm_s / alone_s,
           puts > 0.5 ? beside_s / puts / put_alone_s : NAN);
}

static void with_gemm(bool bulk, bool quick) {
    static const int blocks[] = {1, 2, 4, 8, 16, 32};
    struct gemm g;
    gemm_init(&g);
    gemms_s(&g);
    double alone_s = gemms_s(&g);
    printf("beside a GEMM of %d^3, alone %.3f ms, %.0f TFLOP/s\n  %-8s %4s %6s %9s %9s %9s %9s\n", SIZE, 1e3 * alone_s,
           2e-12 * SIZE * (double)SIZE * SIZE / alone_s, "by", "sm", "flight", "alone", "GEMM ms", "GEMM x", "put x");
    beside(&g, alone_s, "engine", (struct mt_put_probe){.how = MT_PUT_ENGINE});
    for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b += quick ? 2 : 1) {
        beside(&g, alone_s, "stores",
               (struct mt_put_probe){.how = MT_PUT_STORES, .blocks = blocks[b], .flight_bytes = 32 << 10});
        if (bulk)
            beside(&g, alone_s, "bulk",
                   (struct mt_put_probe){.how = MT_PUT_BULK, .blocks = blocks[b], .flight_bytes = 32 << 10});
    }
    gemm_release(&g);
}

/* ---- both ways ---- */

/* Both ranks put to each other at the same time; of the slowest. */
static void both_ways(const char *when) {
    static const struct mt_put_probe probes[] = {
        {MT_PUT_ENGINE, .size_bytes = 64 << 20, .repeats = 8},
        {MT_PUT_STORES, .size_bytes = 64 << 20, .repeats = 8, .blocks = 132, .flight_bytes = 32 << 10},
        {MT_PUT_BULK, .size_bytes = 64 << 20, .repeats = 8, .blocks = 132, .flight_bytes = 32 << 10},
    };
    double each_s[3];
    for (int i = 0; i < 3; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        each_s[i] = put_s(probes[i]);
    }
    MPI_Allreduce(MPI_IN_PLACE, each_s, 3, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (!rank)
        printf("  %-24s engine %6.1f  stores %6.1f  bulk %6.1f\n", when, rate(64 << 20, each_s[0]),
               rate(64 << 20, each_s[1]), rate(64 << 20, each_s[2]));
}

static void burn(void) {
    struct gemm g;
    gemm_init(&g);
    for (int i = 0; i < 100; i++) gemms_s(&g);
    gemm_release(&g);
}

/* At rest, after a second of GEMMs, and both again where NCCL is open. */
static void all_both_ways(void) {
    if (!rank) printf("64 MiB both ways, GB/s\n");
    both_ways("at rest");
    burn();
    both_ways("after GEMMs");
    struct mt_comm *comm = cuda_ranks_comm(deadline_s);
    both_ways("NCCL open");
    burn();
    both_ways("NCCL open, after GEMMs");
    mt_comm_free(comm);
    both_ways("NCCL closed");
}

/* ---- messages ---- */

static void messages(void) {
    static const char *const levels[] = {"thread", "warp", "block"};
    static const char zeros[MT_TURNS_BYTES];
    if (!rank) printf("a message with its signal, us by bytes\n");
    for (int level = MT_TURNS_THREAD; level <= MT_TURNS_BLOCK; level++) {
        if (!rank) printf("  %-8s", levels[level]);
        for (int64_t bytes = 16; bytes <= (level ? MESSAGES / 4 : 4096); bytes *= 4) {
            struct mt_turns_probe probe = {here, there, bytes, 200, !rank, 5, (enum mt_turns_level)level};
            double each_s = 0;
            for (int turn = 0; turn < 2; turn++) { /* the first compiles */
                CHECK_OK(mt_device_copy_in(device, here, zeros, sizeof zeros, &err), err);
                MPI_Barrier(MPI_COMM_WORLD);
                CHECK_OK(mt_device_turns(device, &probe, &each_s, &err), err);
                MPI_Barrier(MPI_COMM_WORLD);
            }
            if (!rank) printf(" %lld: %.2f", (long long)bytes, 1e6 * each_s);
        }
        if (!rank) printf("\n");
    }
}

int main(int argc, char **argv) {
    int level, nranks;
    bool quick = argc > 1 && !strcmp(argv[1], "quick");
    char handle[2][MT_DEVICE_HANDLE_BYTES];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    CHECK(nranks == 2, "mpirun -n 2");
    if (!cuda_ranks_open(&device)) {
        MPI_Finalize();
        return 77;
    }
    CHECK_OK(mt_stream_new(device, "compute", &stream, &err), err);
    CHECK_OK(mt_device_alloc(device, most_bytes, &here, &err), err);
    CHECK_OK(mt_device_export(device, here, handle[rank], &err), err);
    for (int r = 0; r < 2; r++) MPI_Bcast(handle[r], MT_DEVICE_HANDLE_BYTES, MPI_BYTE, r, MPI_COMM_WORLD);
    CHECK_OK(mt_device_import(device, handle[!rank], &there, &err), err);
    if (!rank) printf("%s\n", mt_device_describe(device));
    all_both_ways();
    if (!rank) {
        engine();
        kernels(MT_PUT_STORES, "stores", 1 << 10, 32 << 10, quick);
        bool bulk = kernels(MT_PUT_BULK, "bulk copies", 2 << 10, 128 << 10, quick);
        with_gemm(bulk, quick);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    messages();
    MPI_Barrier(MPI_COMM_WORLD);
    mt_device_forget(device, there);
    MPI_Barrier(MPI_COMM_WORLD);
    mt_device_free(device, here);
    mt_stream_free(stream);
    mt_device_close(device);
    MPI_Finalize();
    return 0;
}
