/* Whether the algorithm that a profile chooses is the fastest, by size, division and kind:
 *
 *     mpirun -n 2 motley profile --budget 60 --out cluster.json
 *     mpirun -n 2 bench_collectives cluster.json [--seconds 0.3] [--kind AllReduce] [--least 1KiB] [--most 64MiB]
 *
 * With --list 1 the times of all algorithms are printed, measured and predicted.
 *
 * Every algorithm of every case is run in turn, round after round, from a barrier, several times in a row when it is
 * short (with roots that alternate, or the first would run ahead); a round's time is that of the slowest rank, and a
 * case's the median of its rounds. Algorithms that make the
 * same schedules on all ranks (there are such for two) are one, and are run once. What is printed: the algorithm that
 * mt_cost_choose takes, its time, the best, the ratio of the two, and predicted over measured. */
#include <mpi.h>

#include <sys/prctl.h>

#include "kernels/base/number/stats.h"
#include "kernels/base/text/units.h"
#include "kernels/base/wait.h"
#include "planner/cost/cost.h"
#include "profiler/measure/exchange.h"
#include "tests/check.h"

enum { MOST_ALGORITHMS = 8, MOST_ROUNDS = 200, LEAST_ROUNDS = 5, MOST_IN_A_ROW = 64 };
static const double least_run_s = 2e-3, deadline_s = 60;

enum skew { EVEN, ONE_TO_THREE, ONE_TO_FIFTEEN, NSKEWS };
static const char *const skew_names[NSKEWS] = {"even", "1:3", "1:15"};

struct bench {
    struct mt_comm *comm;
    struct mt_exchange *exchange;
    struct mt_costs costs;
    int n, me, *group;
    int *node; /* [n], numbered by first rank */
    char *buffer[2];
    double seconds; /* for each case */
    int64_t least_bytes, most_bytes;
    double list;
    int kind; /* only this one; -1: all */
};

/* One algorithm of a case; `same` is the first that makes the same schedules. */
struct candidate {
    const struct mt_coll_algorithm *algorithm;
    struct mt_schedule schedule[2];
    int same, nrounds;
    double each_s[MOST_ROUNDS], median_s;
};

struct figures {
    int cases, within;
    double worst, sum_off;
};

static void divide(const struct bench *b, enum mt_coll_kind kind, int64_t count, enum skew skew, int64_t *counts) {
    static const int64_t large[NSKEWS] = {1, 3, 15};
    int cells = kind == MT_ALL_TO_ALL ? b->n * b->n : b->n;
    int64_t sum = 0, at = 0, weight = 0;
    for (int i = 0; i < cells; i++) {
        counts[i] = (kind == MT_ALL_TO_ALL ? i / b->n : i) % 2 ? large[skew] : 1;
        sum += counts[i];
    }
    for (int i = 0; i < cells; i++) {
        weight += counts[i];
        int64_t end = (int64_t)((double)count * (double)weight / (double)sum);
        counts[i] = end - at;
        at = end;
    }
}

/* Whether two schedules are the same here; all ranks must agree. */
static bool same_schedule(struct bench *b, const struct mt_schedule *x, const struct mt_schedule *y) {
    struct mt_err err = MT_ERR_INIT;
    double differ = x->nsteps != y->nsteps || x->nrounds != y->nrounds;
    for (int i = 0; i < x->nrounds && differ == 0; i++) differ = x->round_end[i] != y->round_end[i];
    for (int i = 0; i < x->nsteps && differ == 0; i++) {
        const struct mt_step *s = &x->steps[i], *t = &y->steps[i];
        differ = s->kind != t->kind || s->peer != t->peer || s->buffer != t->buffer || s->to_buffer != t->to_buffer ||
                 s->offset != t->offset || s->count != t->count || s->to != t->to;
    }
    CHECK_OK(mt_exchange_max(b->exchange, &differ, 1, &err), err);
    return differ == 0;
}

static struct mt_coll with_root(const struct mt_coll *problem, int turn) {
    struct mt_coll own = *problem;
    own.root = turn % 2 ? problem->n - 1 : 0;
    return own;
}

static double run(struct bench *b, const struct mt_coll *problem, const struct mt_schedule *schedule, int in_a_row) {
    struct mt_err err = MT_ERR_INIT;
    double none = 0;
    CHECK_OK(mt_exchange_max(b->exchange, &none, 1, &err), err);
    double start_s = mt_now_s();
    for (int i = 0; i < in_a_row; i++) {
        struct mt_coll own = with_root(problem, i);
        CHECK_OK(mt_comm_run(b->comm, &own, &schedule[i % 2], b->group, (void **)b->buffer, 1, deadline_s, &err), err);
    }
    double each_s = (mt_now_s() - start_s) / in_a_row;
    CHECK_OK(mt_exchange_max(b->exchange, &each_s, 1, &err), err);
    return each_s;
}

/* All candidates in turn until the time is spent: rank 0's clock decides for all. */
static void measure(struct bench *b, const struct mt_coll *problem, struct candidate *candidates, int ncandidates) {
    struct mt_err err = MT_ERR_INIT;
    int in_a_row[MOST_ALGORITHMS];
    for (int c = 0; c < ncandidates; c++) {
        if (candidates[c].same != c) continue;
        double each_s = run(b, problem, candidates[c].schedule, 1);
        in_a_row[c] = (int)fmin(fmax(least_run_s / each_s, 1), MOST_IN_A_ROW);
    }
    double start_s = mt_now_s();
    for (int round = 0; round < MOST_ROUNDS; round++) {
        for (int c = 0; c < ncandidates; c++)
            if (candidates[c].same == c)
                candidates[c].each_s[candidates[c].nrounds++] = run(b, problem, candidates[c].schedule, in_a_row[c]);
        double spent_s = mt_now_s() - start_s;
        CHECK_OK(mt_exchange_max(b->exchange, &spent_s, 1, &err), err);
        if (round + 1 >= LEAST_ROUNDS && spent_s > b->seconds) break;
    }
    for (int c = 0; c < ncandidates; c++)
        if (candidates[c].same == c)
            candidates[c].median_s = mt_median(candidates[c].each_s, (size_t)candidates[c].nrounds);
    for (int c = 0; c < ncandidates; c++) candidates[c].median_s = candidates[candidates[c].same].median_s;
}

static int list_candidates(struct bench *b, const struct mt_coll *problem, struct candidate *candidates) {
    int n = 0;
    for (int a = 0; a < mt_coll_nalgorithms; a++) {
        const struct mt_coll_algorithm *algorithm = mt_coll_algorithms[a];
        if (algorithm->kind != problem->kind || !algorithm->applies(problem)) continue;
        candidates[n] = (struct candidate){.algorithm = algorithm, .same = n};
        for (int turn = 0; turn < 2; turn++) {
            struct mt_coll own = with_root(problem, turn);
            algorithm->schedule(&own, &candidates[n].schedule[turn]);
        }
        for (int c = n - 1; c >= 0; c--)
            if (same_schedule(b, &candidates[c].schedule[0], &candidates[n].schedule[0])) candidates[n].same = c;
        n++;
    }
    return n;
}

static void report(struct bench *b, const struct mt_coll *problem, const struct candidate *candidates, int n,
                   int64_t size_bytes, enum skew skew, struct figures *figures) {
    struct mt_cost cost;
    const struct mt_coll_algorithm *chosen = mt_cost_choose(&b->costs, problem, b->group, &cost);
    int taken = 0, best = 0;
    for (int c = 0; c < n; c++) {
        if (candidates[c].algorithm == chosen) taken = c;
        if (candidates[c].median_s < candidates[best].median_s) best = c;
    }
    double ratio = candidates[taken].median_s / candidates[best].median_s, off = cost.s / candidates[taken].median_s;
    figures->cases++;
    figures->within += ratio <= 1.1;
    figures->worst = fmax(figures->worst, ratio);
    figures->sum_off += fabs(off - 1);
    if (b->me) return;
    char size[MT_UNITS_TEXT];
    mt_units_bytes((double)size_bytes, size);
    printf("%-14s %-4s %10s %-5s %-20s %10.1f us, best %-20s %10.1f us %6.3f %s predicted/measured %5.2f (+-%.0f%%)",
           mt_coll_name(problem->kind), mt_type_name(problem->wire), size, skew_names[skew], chosen->name,
           1e6 * candidates[taken].median_s, candidates[best].algorithm->name, 1e6 * candidates[best].median_s, ratio,
           ratio > 1.1 ? "MISS" : "    ", off, 100 * cost.error);
    if (ratio > 1.1 || b->list > 0)
        for (int c = 0; c < n; c++) {
            struct mt_cost of = mt_cost_coll(&b->costs, problem, b->group, candidates[c].algorithm);
            printf("\n    %-20s measured %10.1f us, predicted %10.1f us", candidates[c].algorithm->name,
                   1e6 * candidates[c].median_s, 1e6 * of.s);
        }
    printf("\n");
    fflush(stdout);
}

static void bench_case(struct bench *b, enum mt_coll_kind kind, enum mt_type wire, int64_t size_bytes, enum skew skew,
                       struct figures *figures) {
    struct candidate candidates[MOST_ALGORITHMS];
    int64_t counts[4096];
    bool sums = mt_coll_reduces(kind);
    divide(b, kind, size_bytes / mt_type_size(wire), skew, counts);
    struct mt_coll problem = {
        kind, sums ? MT_SUM : MT_REDUCE_NONE, wire, sums ? MT_F32 : wire, b->n, b->me, 0, counts, false, b->node};
    memset(b->buffer[0], 0, (size_t)(2 * size_bytes));
    int n = list_candidates(b, &problem, candidates);
    measure(b, &problem, candidates, n);
    report(b, &problem, candidates, n, size_bytes, skew, figures);
    for (int c = 0; c < 2 * n; c++) mt_schedule_release(&candidates[c / 2].schedule[c % 2]);
}

static void take_flags(struct bench *b, int argc, char **argv) {
    b->seconds = 0.3;
    b->least_bytes = 1 << 10, b->most_bytes = 64 << 20;
    b->kind = -1;
    for (int i = 2; i + 1 < argc; i += 2) {
        bool seconds = !strcmp(argv[i], "--seconds"), list = !strcmp(argv[i], "--list");
        bool least = !strcmp(argv[i], "--least"), most = !strcmp(argv[i], "--most");
        CHECK(seconds || list || least || most || !strcmp(argv[i], "--kind"), "%s", argv[i]);
        if (seconds || list)
            CHECK(mt_units_parse_real(argv[i + 1], seconds ? &b->seconds : &b->list), "%s", argv[i + 1]);
        if (least || most)
            CHECK(mt_units_parse_bytes(argv[i + 1], least ? &b->least_bytes : &b->most_bytes), "%s", argv[i + 1]);
        for (int k = 0; k < MT_NCOLLS && !strcmp(argv[i], "--kind"); k++)
            if (!strcmp(argv[i + 1], mt_coll_name((enum mt_coll_kind)k))) b->kind = k;
    }
}

static void number_nodes(struct bench *b, const struct mt_cluster *cluster) {
    int *number = mt_calloc((size_t)cluster->nnodes, sizeof *number), known = 0; /* + 1 */
    b->node = mt_calloc((size_t)b->n, sizeof *b->node);
    for (int r = 0; r < b->n; r++) {
        int *of = &number[cluster->devices[r].node];
        if (!*of) *of = ++known;
        b->node[r] = *of - 1;
    }
    free(number);
}

int main(int argc, char **argv) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_cluster *cluster;
    struct bench b = {0};
    struct figures figures = {0};
    int level;
    CHECK(argc >= 2, "bench_collectives CLUSTER [--seconds S] [--kind KIND] [--least BYTES] [--most BYTES] [--list 1]");
    setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
    prctl(PR_SET_TIMERSLACK, 1000UL); /* as streams have it: communicators sleep for short times */
    MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);
    take_flags(&b, argc, argv);
    CHECK_OK(mt_cluster_read(argv[1], &cluster, &err), err);
    CHECK_OK(mt_comm_mpi_new(&(MPI_Comm){MPI_COMM_WORLD}, &b.comm, &err), err);
    b.exchange = mt_exchange_new(b.comm, deadline_s);
    b.n = b.comm->nranks, b.me = b.comm->rank;
    CHECK(b.n == cluster->ndevices && b.n <= 64, "%d ranks, but the cluster has %d devices", b.n, cluster->ndevices);
    b.group = mt_calloc((size_t)b.n, sizeof *b.group);
    for (int r = 0; r < b.n; r++) b.group[r] = r;
    number_nodes(&b, cluster);
    b.costs = (struct mt_costs){.cluster = cluster, .nranks = b.n, .device = b.group, .memo = mt_cost_memo_new()};
    for (int i = 0; i < 2; i++) b.buffer[i] = mt_calloc(2, (size_t)b.most_bytes);
    for (int k = 0; k < MT_NCOLLS; k++)
        for (int64_t size = b.least_bytes; size <= b.most_bytes && (b.kind < 0 || b.kind == k); size *= 4)
            for (int skew = EVEN; skew < NSKEWS; skew++)
                for (int bf16 = 0; bf16 <= (mt_coll_reduces((enum mt_coll_kind)k) && skew == EVEN); bf16++)
                    bench_case(&b, (enum mt_coll_kind)k, bf16 ? MT_BF16 : MT_F32, size, (enum skew)skew, &figures);
    if (!b.me)
        printf(
            "%d of %d cases within 10%% of the best, the worst %.3f; predicted times are off by %.1f%% in the mean\n",
            figures.within, figures.cases, figures.worst, 100 * figures.sum_off / figures.cases);
    for (int i = 0; i < 2; i++) free(b.buffer[i]);
    free(b.group);
    free(b.node);
    mt_cost_memo_free(b.costs.memo);
    mt_exchange_free(b.exchange);
    mt_comm_free(b.comm);
    mt_cluster_free(cluster);
    MPI_Finalize();
    return 0;
}
