/* A run's page: loss, drift, tokens a second, ranks. */
#include "tests/cli/report/check.h"

enum { PARTS = 200, COLUMNS = 7, STEP = 0, STEP_S = 5, TOKENS_PER_S = 6 };

/* ---- metrics.csv ---- */

static int nsteps;
static double *metrics[COLUMNS];

bool read_metrics(const char *path) {
    char line[1024];
    FILE *file = fopen(path, "r");
    if (!file) return false;
    for (bool head = true; fgets(line, sizeof line, file); head = false) {
        if (head) continue;
        char *at = line;
        for (int c = 0; c < COLUMNS && at; c++) {
            metrics[c] = realloc(metrics[c], (size_t)(nsteps + 1) * sizeof(double));
            if (!metrics[c]) abort();
            metrics[c][nsteps] = *at == ',' || *at == '\n' ? NAN : strtod(at, NULL);
            at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL;
        }
        nsteps++;
    }
    fclose(file);
    return nsteps > 0;
}

static int per_point(int n) {
    return n > PARTS ? (n + PARTS - 1) / PARTS : 1;
}

/* ---- pictures ---- */

static void check_loss(const json_t *run) {
    struct picture p = picture_of("loss-wide");
    const json_t *losses = json_object_get(run, "losses");
    struct scale x = {0}, y = {0};
    int n = (int)json_array_size(losses), lines = 0;
    double *values = malloc((size_t)(n + 1) * sizeof *values);
    if (!values) abort();
    for (int i = 0; i < n; i++) values[i] = json_number_value(json_array_get(losses, (size_t)i));
    if (!find_scale(&p, true, &x) || !find_scale(&p, false, &y)) differ("loss: no scale");
    const struct line_of line = {"loss", values, n, per_point(n), real_at(run, "first_step"), NAN};
    for (int i = 0; i < p.n; i++)
        if (!strcmp(p.elements[i].name, "path") && has_class(&p.elements[i], "line"))
            check_line(&p.elements[i], &x, &y, &line), lines++;
    if (!lines) differ("loss: no line");
    free(values);
    free(p.elements);
}

/* A picture of a column of the metrics, and its table. predicted: the level of a dashed line, with its band; NaN: there
 * is none. */
static void check_course(const char *id, int column, double predicted, double low, double high) {
    char name[48], text[MOST_CELLS][TEXT];
    struct cells row = {.text = text};
    struct scale x = {0}, y = {0};
    double top = INFINITY, xs[MOST_POINTS], ys[MOST_POINTS];
    int lines = 0, dashed = 0, rows = 0, per = per_point(nsteps);
    snprintf(name, sizeof name, "%s-wide", id);
    struct picture p = picture_of(name);
    if (!find_scale(&p, true, &x) || !find_scale(&p, false, &y)) differ("%s: no scale", id);
    for (int i = 0; i < p.n; i++)
        if (!strcmp(p.elements[i].name, "line") && has_class(&p.elements[i], "grid")) top = fmin(top, p.elements[i].y1);
    const struct line_of line = {id, metrics[column], nsteps, per, metrics[STEP][0], top};
    for (int i = 0; i < p.n; i++) {
        const struct element *e = &p.elements[i];
        if (strcmp(e->name, "path") != 0) continue;
        if (has_class(e, "line") && !has_class(e, "dash")) check_line(e, &x, &y, &line), lines++;
        if (!has_class(e, "dash")) continue;
        int n = read_path(e->path, xs, ys, MOST_POINTS);
        for (int k = 0; k < n; k++) same("predicted step", at_pixel(&y, ys[k]), predicted, 0, 0.02 * pixel_of(&y));
        dashed++;
    }
    for (int i = 0; i < p.n && isfinite(predicted); i++) { /* the area: along one end and back along the other */
        const struct element *e = &p.elements[i];
        if (strcmp(e->name, "path") != 0 || !has_class(e, "band")) continue;
        int n = read_path(e->path, xs, ys, MOST_POINTS);
        for (int k = 0; k < n; k++) {
            double level = at_pixel(&y, ys[k]);
            same("band of the predicted step", level, fabs(level - low) < fabs(level - high) ? low : high, 0,
                 0.02 * pixel_of(&y));
        }
    }
    if (lines != 1 || dashed != isfinite(predicted)) differ("%s: %d lines, %d dashed", id, lines, dashed);
    const char *at = find_table(page, id);
    for (bool head = true; at && next_row(page, &at, &row); head = false) {
        if (head) continue;
        int to = (int)(atoi(row.text[0]) - metrics[STEP][0]) + 1, from = (to - 1) / per * per;
        double sum = 0;
        if (to < 1 || to > nsteps) {
            differ("%s: step %s in the table", id, row.text[0]);
            continue;
        }
        for (int i = from; i < to; i++) sum += metrics[column][i];
        same(id, quantity(row.text[1]), sum / (to - from), 6e-3, 0);
        rows++;
    }
    if (!rows) differ("%s: no rows", id);
    free(p.elements);
}

static void check_ranks(const json_t *run) {
    struct scale x = {0};
    struct picture p = picture_of("run-ranks-wide");
    int rank = -1;
    bool measured = false, first_part = true;
    if (!find_scale(&p, true, &x)) differ("ranks: no scale");
    for (int i = 0; i < p.n; i++) {
        const struct element *e = &p.elements[i];
        if (!strcmp(e->name, "text") && !strncmp(e->text, "rank ", 5))
            rank = atoi(e->text + 5), measured = strstr(e->text, "measured") != NULL, first_part = true;
        if (strcmp(e->name, "rect") != 0 || e->height != 14 || rank < 0 || has_class(e, "ground")) continue;
        static const char *const keys[2][2] = {{"predicted_wait_s", "predicted_compute_s"},
                                               {"step_wait_s", "step_compute_s"}};
        same(keys[measured][first_part], e->width * pixel_of(&x),
             real_at(json_array_get(json_object_get(run, "ranks"), (size_t)rank), keys[measured][first_part]), 0,
             0.02 * pixel_of(&x));
        first_part = false;
    }
    free(p.elements);
}

void check_run(const json_t *run) {
    double predicted = real_at(run, "predicted_step_s"), above = real_at(run, "predicted_error");
    double below = json_object_get(run, "predicted_error_below") ? real_at(run, "predicted_error_below") : above;
    if (!(predicted > 0)) predicted = NAN;
    check_loss(run);
    if (nsteps) check_course("steps", STEP_S, predicted, predicted * (1 - below), predicted * (1 + above));
    if (nsteps) check_course("tokens", TOKENS_PER_S, NAN, NAN, NAN);
    check_ranks(run);
}
