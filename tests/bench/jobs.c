/* All ordinary jobs (tests/planner/make/jobs.h): 6 models, 6 clusters, 5 batches; planned, or rightly refused. Then a
 * table of optimality gaps: how far each plan's step is above the lower bound of all plans, in percent.
 *
 *     MOTLEY_MODULES=build/release build/release/tests/bench_jobs [--steps tests/planner/make/steps.def]
 *
 * No step may be longer than in steps.def by more than 1%; with --steps the file is written anew instead. */
#include "tests/planner/make/jobs.h"

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_table(const struct jobs_found *jobs) {
    printf("\nstep above the lower bound, in percent; -: refused\n%-12s%6s", "", "batch");
    for (int c = 0; c < JOBS_CLUSTERS; c++) printf("  %s", jobs_clusters[c]);
    printf("\n");
    for (int m = 0; m < JOBS_MODELS; m++)
        for (int b = 0; b < JOBS_BATCHES; b++) {
            printf("%-12s%6d", jobs_models[m], (int)jobs_batches[b]);
            for (int c = 0; c < JOBS_CLUSTERS; c++) {
                int width = (int)strlen(jobs_clusters[c]);
                double found = jobs[(m * JOBS_CLUSTERS + c) * JOBS_BATCHES + b].gap;
                if (isnan(found))
                    printf("  %*s", width, "-");
                else
                    printf("  %*.1f", width, 100 * found);
            }
            printf("\n");
        }
}

static void write_steps(const char *path, const struct jobs_found *jobs) {
    FILE *file = fopen(path, "w");
    CHECK(file, "%s", path);
    for (int which = 0; which < JOBS; which++)
        fprintf(file, "%.4g,%c", isnan(jobs[which].step_s) ? 0 : jobs[which].step_s,
                which % JOBS_BATCHES == JOBS_BATCHES - 1 ? '\n' : ' ');
    CHECK(!fclose(file), "%s", path);
}

int main(int argc, char **argv) {
    const char *steps = argc == 3 && !strcmp(argv[1], "--steps") ? argv[2] : NULL;
    struct jobs_found jobs[JOBS];
    double sorted[JOBS];
    int planned = 0, large = 0;
    for (int which = 0; which < JOBS; which++) {
        if (!jobs_plan(which, true, steps, &jobs[which])) continue;
        sorted[planned++] = jobs[which].gap;
        large += jobs[which].gap > 0.1;
        fflush(stdout);
    }
    if (steps) write_steps(steps, jobs);
    print_table(jobs);
    qsort(sorted, (size_t)planned, sizeof *sorted, by_size);
    printf(
        "%d of %d jobs planned, the others rightly refused; gap: %.1f%% in the median, at worst %.1f%%, over 10%% in "
        "%d\n",
        planned, JOBS, 100 * sorted[planned / 2], 100 * sorted[planned - 1], large);
    return 0;
}
