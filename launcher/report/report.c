/* From documents to a page: each goes to the report of its kind, in the order of reports.def. */
#include "launcher/report/report.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "kernels/base/text/printed.h"
#include "kernels/base/text/units.h"
#include "launcher/flags/document.h"
#include "launcher/report/internal.h"
#include "launcher/run/run.h"
#include "planner/make/planning.h"
#include "planner/plan/plan.h"
#include "profiler/describe/describe.h"

const char *const mt_report_formats[MT_REPORT_NFORMATS] = {"html", "md", "csv", "json"};

static const struct {
    const char *format;
    enum mt_status (*report)(struct mt_reporting *reporting, const char *path, struct mt_err *err);
} kinds[] = {
#define MT_REPORT(format, name) {format, mt_report_##name},
#include "launcher/report/reports.def"
#undef MT_REPORT
};
enum { NKINDS = sizeof kinds / sizeof *kinds };

static const char *const trace_format = "trace";

const struct mt_cluster *mt_report_cluster_of(const struct mt_reporting *r, const char *hash) {
    for (int i = 0; i < r->nclusters && hash[0]; i++)
        if (!strcmp(r->clusters[i]->hash, hash)) return r->clusters[i];
    return NULL;
}

/* A trace is a JSON array; it has no format of its own. */
static bool is_trace(const char *path) {
    FILE *file = fopen(path, "r");
    int c = file ? fgetc(file) : EOF;
    while (c == ' ' || c == '\n' || c == '\t' || c == '\r') c = fgetc(file);
    if (file) fclose(file);
    return c == '[';
}

static bool known(const char *format) {
    for (int k = 0; k < NKINDS; k++)
        if (!strcmp(kinds[k].format, format)) return true;
    return !strcmp(format, trace_format);
}

static enum mt_status refuse(const char *path, const char *format, struct mt_err *err) {
    char list[300] = "";
    for (int k = 0; k < NKINDS; k++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", k ? ", " : "", kinds[k].format);
    }
    mt_fail(err, MT_EINPUT, "%s: is a \"%.60s\", of which there is no report", path, format);
    return mt_err_hint(err, "reports are of: %s, and traces of `motley train --trace`", list);
}

static enum mt_status find_formats(struct mt_reporting *r, struct mt_err *err) {
    int n = r->request->npaths, ntraces = 0;
    r->paths = mt_new(&r->arena, const char *, n + 1);
    r->formats = mt_new(&r->arena, const char *, n + 1);
    r->traces = mt_new(&r->arena, const char *, n + 1);
    for (int i = 0; i < n; i++) {
        char format[64];
        const char *path = r->request->paths[i];
        if (mt_is_folder(path)) path = mt_arena_printf(&r->arena, "%s/run.json", path);
        enum mt_status st = MT_OK;
        if (is_trace(path))
            strcpy(format, trace_format), r->traces[ntraces++] = path;
        else
            st = mt_document_format(path, format, err);
        if (st) return st;
        if (!known(format)) return refuse(path, format, err);
        r->paths[i] = path;
        r->formats[i] = mt_arena_strdup(&r->arena, format);
    }
    return MT_OK;
}

/* Clusters that plans may need: all documents of that kind, and --cluster. */
static enum mt_status open_clusters(struct mt_reporting *r, struct mt_err *err) {
    const struct mt_report_request *request = r->request;
    enum mt_status st = MT_OK;
    r->clusters = mt_new(&r->arena, struct mt_cluster *, request->npaths + 1);
    r->cluster_names = mt_new(&r->arena, const char *, request->npaths + 1);
    for (int i = 0; i <= request->npaths && !st; i++) {
        bool last = i == request->npaths;
        if (last ? !request->cluster : strcmp(r->formats[i], MT_CLUSTER_FORMAT) != 0) continue;
        r->cluster_names[r->nclusters] = last ? request->cluster : r->paths[i];
        st = last ? mt_cluster_open(request->cluster, &r->clusters[r->nclusters], err)
                  : mt_cluster_read(r->paths[i], &r->clusters[r->nclusters], err);
        r->nclusters += !st;
    }
    return st;
}

/* The plan of a document: itself, or that in a run's folder; null: there is none. */
static const char *plan_of(struct mt_reporting *r, int i) {
    if (!strcmp(r->formats[i], MT_PLAN_FORMAT)) return r->paths[i];
    if (strcmp(r->formats[i], MT_RUN_FORMAT)) return NULL;
    const char *path = mt_arena_printf(&r->arena, "%s/plan.json", mt_folder_of(r->paths[i], &r->arena));
    return access(path, F_OK) ? NULL : path;
}

/* --cluster is that of a plan. */
static enum mt_status check_cluster(struct mt_reporting *r, struct mt_err *err) {
    const char *text = r->request->cluster;
    if (!text) return MT_OK;
    enum mt_status st = mt_fail(err, MT_EINPUT, "--cluster: has no use without a plan that was made for it");
    for (int i = 0; i < r->request->npaths; i++) {
        struct mt_plan *plan;
        const char *path = plan_of(r, i);
        if (!path) continue;
        if ((st = mt_plan_read(path, &plan, err))) return st;
        st = mt_planning_same(plan, path, r->clusters[r->nclusters - 1], text, err);
        mt_plan_free(plan);
        if (!st) return MT_OK;
    }
    return st;
}

static enum mt_status report_all(struct mt_reporting *r, struct mt_err *err) {
    enum mt_status st = MT_OK;
    for (int k = 0; k < NKINDS; k++)
        for (int i = 0; i < r->request->npaths && !st; i++)
            if (!strcmp(r->formats[i], kinds[k].format)) st = kinds[k].report(r, r->paths[i], err);
    if (!st && !r->page.section)
        return mt_fail(err, MT_EINPUT, "%s: a trace is reported beside its run: name the run's folder, too",
                       r->traces[0]);
    return st;
}

/* Spreadsheets run texts that begin like formulas: such a text gets an apostrophe, after which they take it as it is.
 */
static bool like_formula(const char *text) {
    double value;
    if (*text == '-') return text[1] && !mt_units_parse_real(text, &value);
    return *text && strchr("=+@\t\r", *text) != NULL;
}

static void guard_formulas(struct mt_reporting *r) {
    for (int i = 0; i < r->page.tables.count; i++) {
        const struct mt_table *t = r->page.tables.items[i].table;
        for (int row = 0; t && row < t->nrows; row++)
            for (int c = 0; c < t->rows[row].ncells; c++) {
                struct mt_cell *cell = &t->rows[row].cells[c];
                if (cell->kind == MT_CELL_TEXT && like_formula(cell->text))
                    cell->text = mt_arena_printf(&r->arena, "'%s", cell->text);
            }
    }
}

static enum mt_status write_page(struct mt_reporting *r, struct mt_err *err) {
    static const enum mt_tables_format formats[] = {
        [MT_REPORT_MD] = MT_TABLES_MARKDOWN, [MT_REPORT_CSV] = MT_TABLES_CSV, [MT_REPORT_JSON] = MT_TABLES_JSON};
    struct mt_printed printed;
    enum mt_status st = MT_OK;
    if (r->request->format == MT_REPORT_CSV) guard_formulas(r);
    FILE *file = mt_printed_begin(&printed);
    if (r->request->format == MT_REPORT_HTML)
        mt_page_write_html(&r->page, file);
    else
        mt_tables_write(&r->page.tables, formats[r->request->format], file);
    char *text = mt_printed_end(&printed);
    if (r->request->out)
        st = mt_file_replace(r->request->out, text, printed.length, err);
    else if (fwrite(text, 1, printed.length, stdout) != printed.length || fflush(stdout))
        st = mt_fail_errno(err, "standard output");
    free(text);
    return st;
}

static const char *title_of(struct mt_reporting *r) {
    const char *name = r->request->paths[0], *slash = strrchr(name, '/');
    if (slash && slash[1]) name = slash + 1;
    if (r->request->npaths == 1) return mt_arena_printf(&r->arena, "Report of %s", name);
    return mt_arena_printf(&r->arena, "Report of %s and %d more document%s", name, r->request->npaths - 1,
                           r->request->npaths == 2 ? "" : "s");
}

enum mt_status mt_report(const struct mt_report_request *request, struct mt_err *err) {
    struct mt_reporting r = {.request = request};
    mt_page_init(&r.page, title_of(&r), request->format == MT_REPORT_HTML);
    enum mt_status st = find_formats(&r, err);
    if (!st) st = open_clusters(&r, err);
    if (!st) st = check_cluster(&r, err);
    if (!st) st = report_all(&r, err);
    if (!st) st = write_page(&r, err);
    for (int i = 0; i < r.nclusters; i++) mt_cluster_free(r.clusters[i]);
    mt_page_release(&r.page);
    mt_arena_release(&r.arena);
    return st;
}
