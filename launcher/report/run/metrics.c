/* What a run's folder tells of its steps: metrics.csv, and the names of checkpoints. */
#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/file.h"
#include "launcher/metrics/metrics.h"
#include "launcher/report/run/internal.h"

enum { COLUMNS = 7, STEP = 0, LOSS = 2, STEP_S = 5, TOKENS_PER_S = 6, MOST_CSV_BYTES = 1 << 30 };

static void grow(struct mt_report_run *run) {
    struct mt_arena *arena = &run->page->arena;
    double **lists[] = {&run->step, &run->loss, &run->step_s, &run->tokens_per_s};
    int capacity = run->capacity;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        capacity = run->capacity;
        mt_arena_grow(arena, lists[i], run->nsteps, &capacity, sizeof(double));
    }
    run->capacity = capacity;
}

/* "12,3072,2.31,,0.001,0.0062,48000": an empty cell is not known. */
static bool read_line(char *line, double *cells) {
    for (int c = 0; c < COLUMNS; c++) {
        char *end, *comma = strchr(line, ',');
        if ((comma == NULL) != (c == COLUMNS - 1)) return false;
        if (comma) *comma = 0;
        cells[c] = NAN;
        if (*line) {
            cells[c] = strtod(line, &end);
            if (*end) return false;
        }
        line = comma + 1;
    }
    return true;
}

enum mt_status mt_report_run_metrics(struct mt_report_run *run, struct mt_err *err) {
    const char *path = mt_arena_printf(&run->page->arena, "%s/%s", run->folder, MT_METRICS_CSV);
    char *text, *rest;
    size_t length;
    FILE *there = fopen(path, "r");
    if (!there) return MT_OK; /* of a run whose folder was not kept */
    fclose(there);
    enum mt_status st = mt_file_read(path, MOST_CSV_BYTES, &text, &length, err);
    if (st) return st;
    int number = 0;
    for (char *line = strtok_r(text, "\r\n", &rest); line && !st; line = strtok_r(NULL, "\r\n", &rest)) {
        double cells[COLUMNS];
        if (!number++) {
            if (strncmp(line, "step,tokens,loss,", 17) != 0)
                st = mt_fail(err, MT_EINPUT, "%s: its header is not that of a run's metrics: \"%.60s\"", path, line);
            continue;
        }
        if (!read_line(line, cells)) {
            st = mt_fail(err, MT_EINPUT, "%s:%d: is not a row of %d numbers", path, number, COLUMNS);
            continue;
        }
        grow(run);
        run->step[run->nsteps] = cells[STEP], run->loss[run->nsteps] = cells[LOSS];
        run->step_s[run->nsteps] = cells[STEP_S], run->tokens_per_s[run->nsteps++] = cells[TOKENS_PER_S];
    }
    free(text);
    return st;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* "step-00000300.safetensors" */
void mt_report_run_checkpoints(struct mt_report_run *run) {
    DIR *folder = opendir(run->folder);
    int capacity = 0;
    if (!folder) return;
    for (struct dirent *entry; (entry = readdir(folder));) {
        char *end;
        if (strncmp(entry->d_name, "step-", 5) != 0) continue;
        double step = (double)strtoll(entry->d_name + 5, &end, 10);
        if (end == entry->d_name + 5 || strcmp(end, ".safetensors") != 0) continue;
        mt_arena_grow(&run->page->arena, &run->checkpoints, run->ncheckpoints, &capacity, sizeof(double));
        run->checkpoints[run->ncheckpoints++] = step;
    }
    closedir(folder);
    if (run->ncheckpoints) qsort(run->checkpoints, (size_t)run->ncheckpoints, sizeof(double), by_value);
}
