/* Predictions of overlapped forms against times that were measured on two or four GPUs, from the same parts: golden/
 * has what `motley bench overlap` measured of each shape, variants and parts alike (tests/bench/overlap_choice.sh and
 * results_gpu.sh, with KEEP). A device that computes nothing stands for the GPUs. Of each case the forms are predicted
 * and one is chosen; the mean error, and how often the choice is within 2% of the best, are at least as good as they
 * have been.
 *
 * Shares are even: of uneven ones the file would have to say what each rank took.
 *
 *     mpirun -n 2 mpi_bench_overlap_predictions [-v] [FILE]        // -v: each form of each case
 *
 * ranks: 2 4 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/arena.h"
#include "kernels/comm/internal.h"
#include "kernels/device/class.h"
#include "launcher/bench/overlap/internal.h"
#include "launcher/session/session.h"
#include "tests/check.h"

/* Of the golden cases: the mean error, and parts of the cases. Of four GPUs there are few, all gathers. */
static const struct golden {
    int ranks;
    const char *file;
    double most_error, least_near, most_slower;
} goldens[] = {{2, "overlap_2h200.txt", 0.052, 0.8, 0}, {4, "overlap_4h200.txt", 0.05, 0.75, 0}};
enum { NGOLDENS = sizeof goldens / sizeof *goldens, MOST_RANKS = 4 };
enum { MOST_LINE = 200, MOST_TIMES = 80, MULTIPROCESSORS = 132 };

struct times {
    char name[MOST_TIMES][MOST_LINE];
    double s[MOST_TIMES];
    int count;
};
struct sums {
    double errors, chosen_errors, worst;
    int predicted, cases, near, sequential, slower;
};
static bool verbose;

static bool serves(struct mt_device *device, const struct mt_overlap *p, int me) {
    (void)device;
    return p->how == MT_OVERLAP_FUSED && mt_overlap_fused_serves(p, me, false, false, false);
}
static enum mt_status capture(struct mt_stream *const *streams, int count, struct mt_capture **c, struct mt_err *err) {
    (void)streams, (void)count, (void)c;
    return mt_fail(err, MT_EBUG, "nothing is captured");
}

/* ---- the file ---- */

static bool read_line(FILE *file, char line[MOST_LINE]) {
    if (!fgets(line, MOST_LINE, file)) return false;
    line[strcspn(line, "\n")] = 0;
    return true;
}

/* A case's times, up to the next case's line, which is left in `line`. */
static void read_times(FILE *file, char line[MOST_LINE], bool *more, struct times *t) {
    t->count = 0;
    while ((*more = read_line(file, line)) && *line == '\t') {
        char *number = strrchr(line, '\t');
        CHECK(number > line && t->count < MOST_TIMES, "%s", line);
        *number = 0;
        snprintf(t->name[t->count], MOST_LINE, "%s", line + 1);
        t->s[t->count++] = 1e-6 * strtod(number + 1, NULL);
    }
}

/* ---- a case ---- */

/* Give variants from `first` on their times; those that were not measured go. */
static void give_times(struct mt_bench_case *c, int first, const struct times *t) {
    int kept = first;
    for (int i = first; i < c->nvariants; i++) {
        struct mt_bench_variant *v = &c->variants[i];
        int at = 0;
        if (v->part == MT_BENCH_COLLECTIVE)
            while (at < t->count && !strstr(t->name[at], ", nccl")) at++;
        else
            while (at < t->count && strcmp(t->name[at], v->name)) at++;
        if (at == t->count) {
            CHECK(v->part == MT_BENCH_OVERLAPPED, "\"%s\" was not measured", v->name);
            mt_bench_variant_release(v);
            continue;
        }
        v->time_s[0] = v->own_s[0] = v->final_s[0] = t->s[at];
        c->variants[kept++] = *v;
    }
    c->nvariants = kept;
}

static void tell(const struct mt_bench_case *c, const char *of) {
    printf("%s\n", of);
    for (int i = 0; i < c->nvariants && verbose; i++) {
        const struct mt_bench_variant *v = &c->variants[i];
        if (v->part == MT_BENCH_SEQUENTIAL || v->part == MT_BENCH_OVERLAPPED)
            printf("  %-55s %8.1f %8.1f us %+6.1f%%%s%s\n", v->name, 1e6 * v->median_s, 1e6 * v->predicted_s,
                   100 * (v->predicted_s / v->median_s - 1), i == c->chosen ? " chosen" : "",
                   i == c->best ? " best" : "");
    }
}

static void take(const struct mt_bench_case *c, const char *of, struct sums *s) {
    double best_s = INFINITY;
    for (int i = 0; i < c->nvariants; i++) {
        const struct mt_bench_variant *v = &c->variants[i];
        if (v->part != MT_BENCH_SEQUENTIAL && v->part != MT_BENCH_OVERLAPPED) continue;
        best_s = fmin(best_s, v->median_s);
        if (isnan(v->predicted_s)) continue;
        double error = fabs(v->predicted_s / v->median_s - 1);
        s->errors += error, s->predicted++;
        s->worst = fmax(s->worst, error);
    }
    const struct mt_bench_variant *chosen = &c->variants[c->chosen];
    double over = chosen->median_s / best_s;
    s->cases++, s->near += over <= 1.02, s->sequential += c->chosen == c->sequential;
    s->slower += chosen->median_s > c->variants[c->sequential].median_s / 0.99;
    s->chosen_errors += fabs(chosen->predicted_s / chosen->median_s - 1);
    if (c->bench->rank) return;
    if (verbose) tell(c, of);
    if (over > 1.02)
        printf("%s: %s is chosen, %.3f times the best, %s\n", of, chosen->name, over, c->variants[c->best].name);
}

static void run(struct mt_bench_overlap *bench, const char *of, const struct times *t, struct sums *s) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_bench_case c = {.bench = bench, .rounds = 1};
    char form[20];
    long long shape[3];
    int64_t shares[MOST_RANKS];
    int n = 0, at = 0;
    struct mt_bench_overlap_options options = *bench->options;
    CHECK(sscanf(of, "%19s %lld %lld %lld%n", form, &shape[0], &shape[1], &shape[2], &at) == 4, "%s", of);
    for (const char *text = of + at; *text && n < MOST_RANKS; n++) {
        char *end;
        shares[n] = strtoll(text + 1, &end, 10); /* after a tab, or a colon */
        CHECK(end > text + 1 && shares[n] > 0, "%s", of);
        text = end;
    }
    CHECK(n == bench->nranks, "%s: %d ranks, not %d", of, n, bench->nranks);
    for (int i = 0; i < 3; i++) c.shape[i] = shape[i];
    options.shares = shares, options.nshares = n;
    bench->options = &options;
    CHECK_OK(mt_bench_case_pose(&c,
                                *form == 'g'   ? MT_OVERLAP_GATHER
                                : *form == 's' ? MT_OVERLAP_SCATTER
                                               : MT_OVERLAP_REDUCE,
                                &err),
             err);
    mt_bench_forms_add(&c);
    give_times(&c, 0, t);
    int first = c.nvariants;
    CHECK_OK(mt_bench_forms_add_fast(&c, &err), err);
    give_times(&c, first, t);
    CHECK_OK(mt_bench_case_judge(&c, &err), err);
    take(&c, of, s);
    for (int i = 0; i < c.nvariants; i++) mt_bench_variant_release(&c.variants[i]);
    mt_arena_release(&c.arena);
}

int main(int argc, char **argv) {
    const struct mt_watch_options watch = {.heartbeat_s = MT_WATCH_HEARTBEAT_S, .deadline_s = 600};
    static const struct mt_device_class gpu = {.overlaps = serves, .capture_begin = capture};
    static const struct mt_comm_class nccl = {.name = "nccl"};
    struct mt_device device = {
        .class = &gpu, .multiprocessors = MULTIPROCESSORS, .all_multiprocessors = MULTIPROCESSORS};
    struct mt_comm wire = {.class = &nccl};
    const struct mt_bench_overlap_options options = {.repetitions = 1, .precision = MT_BF16};
    struct mt_bench_overlap bench = {.options = &options, .precision = MT_BF16, .device = &device, .wire = &wire};
    struct mt_err err = MT_ERR_INIT;
    struct times times;
    struct sums s = {0};
    char line[MOST_LINE], of[MOST_LINE];
    verbose = argc > 1 && !strcmp(argv[1], "-v");
    CHECK_OK(mt_session_begin(&watch, MT_OK, &err), err);
    MPI_Comm_rank(MPI_COMM_WORLD, &bench.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &bench.nranks);
    wire.nranks = bench.nranks;
    const struct golden *golden = goldens;
    while (golden < goldens + NGOLDENS && golden->ranks != bench.nranks) golden++;
    CHECK(golden < goldens + NGOLDENS, "there are no times of %d GPUs", bench.nranks);
    char path[4096];
    snprintf(path, sizeof path, "%s",
             argc > 1 + verbose ? argv[1 + verbose] : MOTLEY_SOURCE "/tests/launcher/bench/golden/");
    if (argc <= 1 + verbose) strcat(path, golden->file);
    FILE *file = fopen(path, "r");
    CHECK(file, "%s", path);
    for (bool more = read_line(file, line); more;) {
        memcpy(of, line, sizeof of);
        read_times(file, line, &more, &times);
        bench.options = &options;
        run(&bench, of, &times, &s);
    }
    fclose(file);
    if (!bench.rank)
        printf("%d forms: %.1f%% off on average, %.1f%% at worst; %d cases: chosen %.1f%% off, within 2%% of the best "
               "%d, sequential %d, slower than it %d\n",
               s.predicted, 100 * s.errors / s.predicted, 100 * s.worst, s.cases, 100 * s.chosen_errors / s.cases,
               s.near, s.sequential, s.slower);
    if (argc == 1) {
        CHECK(s.errors < golden->most_error * s.predicted, "the predictions");
        CHECK(s.near >= golden->least_near * s.cases && s.slower <= golden->most_slower * s.cases, "the choices");
    }
    return mt_session_end(MT_OK, 0, &err);
}
