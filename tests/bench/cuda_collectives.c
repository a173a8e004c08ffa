/* Collectives over NCCL, one GPU a rank: every way that blocks of unequal sizes can go, beside what the rule chooses.
 *
 *     mpirun -n N bench_cuda_collectives [--most BYTES] [--overlap] [--engines] [--cluster FILE]
 *
 * A line is a message's size (all blocks together), how it is divided, and microseconds by each way; the choice by the
 * rule (kernels/coll/nccl_unequal.h) against the best; and its bandwidth per rank as nccl-tests counts: bus bandwidth,
 * what a link carries. Calls are queued behind a long one, so that the GPU finds them all there: no time of the host
 * counts. Equal blocks by the native way are NCCL's own speed. --overlap: a product and an AllReduce at once, against
 * each alone; set NCCL_MAX_CTAS to see what fewer blocks of NCCL's do to both. --engines: large
 * messages go by copy engines (kernels/cuda/engine/engine.h), whatever the way. --cluster: instead, NCCL's own way and
 * the hierarchical one among the nodes of a cluster that was profiled with these ranks, beside what a plan would be
 * told that they take; with the part of the cases that is within 15%. */
#include "kernels/base/arena.h"
#include "kernels/base/text/units.h"
#include "kernels/coll/nccl_nodes.h"
#include "kernels/device/window.h"
#include "planner/cost/cost.h"
#include "tests/kernels/cuda/nccl/cuda_ranks.h"

/* ALIGN elements: 16 bytes, below which NCCL moves less at a time. HEADS: calls of the longest message in front, which
 * take the GPU longer than the host takes to queue the rest (some 65 us a call). */
enum { MOST_RANKS = 64, ALIGN = 64, CALLS = 20, HEADS = 3, TURNS = 3, PRODUCTS = 24 };
static const double deadline_s = 60;

static struct mt_device *device;
static struct mt_stream *stream, *compute;
static struct mt_comm *comm;
static struct mt_err err = MT_ERR_INIT;
static int rank, nranks, group[MOST_RANKS];
static void *message[2];
static int64_t most_bytes = 256 << 20;
static struct mt_schedule schedule = MT_SCHEDULE_INIT; /* no steps: NCCL has its own */

/* Shares of the ranks, in turn. */
static const struct skew {
    const char *name;
    int nshares, shares[4];
} skews[] = {{"even", 1, {1}}, {"5:4", 2, {5, 4}}, {"2:1", 2, {2, 1}}, {"4:1", 2, {4, 1}}, {"9:1", 2, {9, 1}}};
enum { NSKEWS = sizeof skews / sizeof *skews };

static void divide(const struct skew *skew, int64_t count, int64_t *counts) {
    int64_t sum = 0, left = count;
    for (int r = 0; r < nranks; r++) sum += skew->shares[r % skew->nshares];
    for (int r = 0; r < nranks; r++) {
        int64_t share = count * skew->shares[r % skew->nshares] / sum;
        counts[r] = r + 1 < nranks ? share - share % (share > ALIGN ? ALIGN : 1) : left;
        left -= counts[r];
    }
}

static void queue(const struct mt_coll *problem, double *seconds) {
    struct mt_coll_call call = {.problem = *problem,
                                .schedule = &schedule,
                                .comm = comm,
                                .group = group,
                                .deadline_s = deadline_s,
                                .message = {message[0], message[1]},
                                .what = mt_coll_name(problem->kind)};
    mt_stream_coll(stream, &call, seconds);
}

static void sync(struct mt_stream *of) {
    CHECK_OK(mt_stream_sync(of, deadline_s, &err), err);
}

/* Seconds a call, on the slowest rank: of several turns the quickest. */
static double measure(const struct mt_coll *problem) {
    int64_t counts[MOST_RANKS];
    struct mt_coll head = {MT_ALL_REDUCE, MT_SUM, MT_F32, MT_F32, nranks, rank, 0, counts, false, NULL};
    double best = INFINITY;
    schedule.by_node = problem->node;
    divide(&skews[0], most_bytes / 4, counts);
    for (int turn = 0; turn <= TURNS; turn++) {
        double before[2], last[2], took, slowest;
        MPI_Barrier(MPI_COMM_WORLD);
        for (int i = 0; i < HEADS; i++) queue(&head, i + 1 == HEADS ? before : NULL);
        for (int i = 0; i < CALLS; i++) queue(problem, i + 1 == CALLS ? last : NULL);
        sync(stream);
        took = (last[1] - before[1]) / CALLS;
        MPI_Allreduce(&took, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        if (turn && slowest < best) best = slowest; /* the first connects ranks */
    }
    return best;
}

/* Of the bytes of the whole, what a link carries. */
static double bus_factor(enum mt_coll_kind kind) {
    double n = nranks;
    switch (kind) {
    case MT_ALL_REDUCE: return 2 * (n - 1) / n;
    case MT_REDUCE_SCATTER:
    case MT_ALL_GATHER: return (n - 1) / n;
    case MT_ALL_TO_ALL: return (n - 1) / n;
    case MT_BROADCAST:
    case MT_NCOLLS: break;
    }
    return 1;
}

static int cases, within;
static double worst = 1;

/* All ways of one message, and the rule's. */
static void compare(enum mt_coll_kind kind, int64_t size_bytes, const struct skew *skew) {
    int64_t counts[MOST_RANKS];
    struct mt_coll problem = {
        kind, mt_coll_reduces(kind) ? MT_SUM : MT_REDUCE_NONE, MT_F32, MT_F32, nranks, rank, 0, counts, false, NULL};
    double took[MT_NCCL_NIMPLS] = {0}, best = INFINITY;
    char size[MT_UNITS_TEXT];
    divide(skew, size_bytes / 4, counts);
    enum mt_nccl_impl chosen = mt_nccl_impl_choose(&problem);
    for (enum mt_nccl_impl way = MT_NCCL_NATIVE; way < MT_NCCL_NIMPLS; way++) {
        if (!mt_nccl_impl_serves(way, &problem)) continue;
        mt_comm_nccl_impl(comm, way);
        took[way] = measure(&problem);
        if (took[way] < best) best = took[way];
    }
    mt_comm_nccl_impl(comm, MT_NCCL_AUTO);
    double ratio = took[chosen] / best;
    cases++, within += ratio <= 1.1;
    if (ratio > worst) worst = ratio;
    if (rank) return;
    printf("%-13s %10s %-5s", mt_coll_name(kind), mt_units_bytes((double)size_bytes, size), skew->name);
    for (enum mt_nccl_impl way = MT_NCCL_NATIVE; way < MT_NCCL_NIMPLS; way++) {
        if (took[way] > 0)
            printf(" %9.1f", 1e6 * took[way]);
        else
            printf(" %9s", "-");
    }
    static const char *const names[MT_NCCL_NIMPLS] = {"auto", "native", "padded", "rooted", "pairs"};
    printf("  %-6s %5.2f %s %7.1f GB/s\n", names[chosen], ratio, ratio > 1.1 ? "MISS" : "    ",
           1e-9 * bus_factor(kind) * (double)size_bytes / took[chosen]);
    fflush(stdout);
}

/* What has one way only. */
static void plain(enum mt_coll_kind kind, int64_t size_bytes) {
    int64_t counts[MOST_RANKS * MOST_RANKS];
    struct mt_coll problem = {
        kind, mt_coll_reduces(kind) ? MT_SUM : MT_REDUCE_NONE, MT_F32, MT_F32, nranks, rank, 0, counts, false, NULL};
    char size[MT_UNITS_TEXT];
    int cells = kind == MT_ALL_TO_ALL ? nranks : 1; /* all_to_all: a rank's buffer is the size */
    for (int c = 0; c < cells * nranks; c++) counts[c] = size_bytes / 4 / nranks;
    double took = measure(&problem);
    if (!rank)
        printf("%-13s %10s %-5s %9.1f %46.1f GB/s\n", mt_coll_name(kind), mt_units_bytes((double)size_bytes, size),
               "even", 1e6 * took, 1e-9 * bus_factor(kind) * (double)size_bytes / took);
}

/* ---- beside what is predicted ---- */

/* One message, in NCCL's own way or the hierarchical one. */
static void price(const struct mt_costs *costs, const int *node, enum mt_coll_kind kind, int64_t size_bytes,
                  const struct skew *skew, bool by_node) {
    int64_t counts[MOST_RANKS];
    struct mt_coll problem = {
        kind, mt_coll_reduces(kind) ? MT_SUM : MT_REDUCE_NONE, MT_F32, MT_F32, nranks, rank, 0, counts, false, NULL};
    const struct mt_coll_algorithm *algorithm = by_node ? mt_coll_find(kind, "hierarchical") : mt_coll_of_nccl(kind);
    char size[MT_UNITS_TEXT];
    divide(skew, size_bytes / 4, counts);
    struct mt_cost cost = mt_cost_coll(costs, &problem, group, algorithm);
    if (by_node) problem.node = node;
    double took = measure(&problem), off = cost.s / took - 1;
    cases++, within += fabs(off) <= 0.15;
    worst = fmax(worst, fabs(off));
    if (!rank)
        printf("%-13s %10s %-5s %-14s %10.1f %10.1f %+6.1f%%\n", mt_coll_name(kind),
               mt_units_bytes((double)size_bytes, size), skew->name, algorithm->name, 1e6 * took, 1e6 * cost.s,
               100 * off);
    fflush(stdout);
}

static void price_all(const char *file) {
    static const enum mt_coll_kind kinds[] = {MT_ALL_REDUCE, MT_REDUCE_SCATTER, MT_ALL_GATHER};
    struct mt_cluster *cluster;
    int node[MOST_RANKS], known = 0;
    CHECK_OK(mt_cluster_read(file, &cluster, &err), err);
    CHECK(cluster->ndevices == nranks, "%d ranks, but the cluster has %d devices", nranks, cluster->ndevices);
    for (int r = 0; r < nranks; r++) {
        node[r] = known;
        for (int s = r - 1; s >= 0; s--)
            if (cluster->devices[s].node == cluster->devices[r].node) node[r] = node[s];
        known += node[r] == known;
    }
    struct mt_costs costs = {.cluster = cluster, .nranks = nranks, .device = group, .memo = mt_cost_memo_new()};
    worst = 0;
    if (!rank)
        printf("%-13s %10s %-5s %-14s %10s %10s  (microseconds; %d nodes)\n", "collective", "bytes", "skew",
               "algorithm", "measured", "predicted", known);
    for (int k = 0; k < 3; k++)
        for (int64_t size = 256 << 10; size <= most_bytes; size *= 8)
            for (int s = 0; s < 3; s += 2)
                for (int by_node = 0; by_node <= (known > 1 && known < nranks); by_node++)
                    price(&costs, node, kinds[k], size, &skews[s], by_node);
    if (!rank) printf("%d of %d predictions within 15%%, the worst %.1f%% off\n", within, cases, 100 * worst);
    mt_cost_memo_free(costs.memo);
    mt_cluster_free(cluster);
}

/* ---- beside computation ---- */

static struct mt_tensor matrix(int64_t extent) {
    struct mt_tensor t = {.type = MT_BF16, .naxes = 2, .extent = {extent, extent}, .global = {extent, extent}};
    CHECK_OK(mt_device_alloc(device, mt_tensor_count(&t) * 2, &t.data, &err), err);
    void *zeros = mt_calloc((size_t)mt_tensor_count(&t), 2);
    CHECK_OK(mt_device_copy_in(device, t.data, zeros, mt_tensor_count(&t) * 2, &err), err);
    free(zeros);
    return t;
}

/* Seconds until products and AllReduces (of either there may be none) are done. */
static double both(const struct mt_backend *backend, const struct mt_call *call, int products,
                   const struct mt_coll *problem, int collectives, double *products_s, double *collectives_s) {
    double first[2], last[2], begun[2], ended[2];
    MPI_Barrier(MPI_COMM_WORLD);
    double start = mt_now_s();
    for (int i = 0; i < products; i++)
        mt_stream_op(compute, backend, call, !i ? first : i + 1 == products ? last : NULL);
    for (int i = 0; i < collectives; i++) queue(problem, !i ? begun : i + 1 == collectives ? ended : NULL);
    sync(compute);
    sync(stream);
    double took = mt_now_s() - start;
    if (products) *products_s = last[1] - first[0];
    if (collectives) *collectives_s = ended[1] - begun[0];
    return took;
}

static void overlap(int64_t extent, int64_t size_bytes) {
    int64_t counts[MOST_RANKS];
    struct mt_coll problem = {MT_ALL_REDUCE, MT_SUM, MT_BF16, MT_BF16, nranks, rank, 0, counts, false, NULL};
    struct mt_attr attr = {.nm = 1, .nn = 1, .nk = 1};
    struct mt_tensor in[2] = {matrix(extent), matrix(extent)}, out = matrix(extent);
    struct mt_call call = {
        .kind = MT_OP_matmul, .attr = &attr, .nin = 2, .nout = 1, .in = in, .out = &out, .what = "a product"};
    const struct mt_backend *backend = mt_device_backend(device, &call);
    double alone, sent, beside, sent_beside;
    int64_t scratch_bytes = backend->scratch_bytes(&call);
    if (scratch_bytes) CHECK_OK(mt_device_alloc(device, scratch_bytes, &call.scratch, &err), err);
    divide(&skews[0], size_bytes / 2, counts);
    both(backend, &call, 3, &problem, 3, &alone, &sent);
    both(backend, &call, PRODUCTS, &problem, 0, &alone, &sent);
    both(backend, &call, 0, &problem, CALLS, &alone, &sent);
    int collectives = (int)fmax(2, CALLS * 0.7 * alone / sent); /* they end before the products do */
    MPI_Bcast(&collectives, 1, MPI_INT, 0, MPI_COMM_WORLD);
    both(backend, &call, 0, &problem, collectives, &alone, &sent);
    both(backend, &call, PRODUCTS, &problem, collectives, &beside, &sent_beside);
    const char *most = getenv("NCCL_MAX_CTAS");
    char size[MT_UNITS_TEXT];
    if (!rank)
        printf("overlap, NCCL_MAX_CTAS %s: %d products of %lld (%.2f ms alone) beside %d AllReduces of %s (%.2f ms "
               "alone, %.1f GB/s): products +%.1f%%, AllReduces +%.1f%%, hidden work costs %.2f of its time\n",
               most ? most : "not set", PRODUCTS, (long long)extent, 1e3 * alone, collectives,
               mt_units_bytes((double)size_bytes, size), 1e3 * sent,
               1e-9 * bus_factor(MT_ALL_REDUCE) * (double)size_bytes * collectives / sent, 100 * (beside / alone - 1),
               100 * (sent_beside / sent - 1), (beside - alone) / sent_beside);
    for (int i = 0; i < 2; i++) mt_device_free(device, in[i].data);
    mt_device_free(device, out.data);
    mt_device_free(device, call.scratch);
}

/* ---- all of it ---- */

static void open_device(void) {
    CHECK(cuda_ranks_open(&device), "it takes a GPU for each rank");
    for (int b = 0; b < 2; b++) CHECK_OK(mt_device_alloc(device, most_bytes, &message[b], &err), err);
    CHECK_OK(mt_stream_new(device, "comm", &stream, &err), err);
    CHECK_OK(mt_stream_new(device, "compute", &compute, &err), err);
    comm = cuda_ranks_comm(deadline_s);
    for (int r = 0; r < nranks; r++) group[r] = r;
}

static struct mt_window *use_engines(void) {
    struct mt_window *window;
    MPI_Comm hosts = MPI_COMM_WORLD;
    int64_t size_bytes;
    setenv("MOTLEY_COLLECTIVES", "engines", 1);
    CHECK_OK(comm->class->window_bytes(comm, &size_bytes, &err), err);
    CHECK(size_bytes, "%d ranks are too many for copy engines", nranks);
    CHECK_OK(mt_comm_mpi_new(&hosts, &comm->host, &err), err);
    CHECK_OK(mt_device_window_new(device, comm, size_bytes, deadline_s, &window, &err), err);
    CHECK_OK(comm->class->use_window(comm, window, &err), err);
    return window;
}

int main(int argc, char **argv) {
    bool beside = false, engines = false;
    const char *cluster = NULL;
    struct mt_window *window = NULL;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    CHECK(nranks > 1 && nranks <= MOST_RANKS, "%d ranks", nranks);
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--overlap"))
            beside = true;
        else if (!strcmp(argv[i], "--engines"))
            engines = true;
        else if (!strcmp(argv[i], "--cluster") && i + 1 < argc)
            cluster = argv[++i];
        else
            CHECK(!strcmp(argv[i], "--most") && i + 1 < argc && mt_units_parse_bytes(argv[++i], &most_bytes), "%s",
                  argv[i]);
    }
    open_device();
    if (engines) window = use_engines();
    if (cluster) {
        price_all(cluster);
    } else if (beside) {
        overlap(4096, 16 << 20);
        overlap(4096, 64 << 20);
    } else {
        if (!rank)
            printf("%-13s %10s %-5s %9s %9s %9s %9s  (microseconds)\n", "collective", "bytes", "skew", "native",
                   "padded", "rooted", "pairs");
        for (int64_t size = 1 << 10; size <= most_bytes; size *= 8)
            for (int s = 0; s < NSKEWS; s++) {
                compare(MT_REDUCE_SCATTER, size, &skews[s]);
                compare(MT_ALL_GATHER, size, &skews[s]);
            }
        for (int64_t size = 1 << 10; size <= most_bytes; size *= 64) {
            plain(MT_ALL_REDUCE, size);
            plain(MT_BROADCAST, size);
            plain(MT_ALL_TO_ALL, size);
        }
        if (!rank) printf("%d of %d choices within 10%% of the best way, the worst %.2f\n", within, cases, worst);
    }
    if (window) CHECK_OK(comm->class->use_window(comm, NULL, &err), err);
    mt_window_free(window);
    mt_comm_free(comm);
    mt_stream_free(stream);
    mt_stream_free(compute);
    for (int b = 0; b < 2; b++) mt_device_free(device, message[b]);
    mt_device_close(device);
    MPI_Finalize();
    return 0;
}
