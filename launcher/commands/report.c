/* motley report: documents as one page of pictures and tables. */
#include <errno.h>
#include <stdio.h>

#include "kernels/base/table/table.h"
#include "launcher/commands/command.h"
#include "launcher/flags/files.h"
#include "launcher/flags/flags.h"
#include "launcher/report/report.h"

enum { KEY_OUT = 'o', KEY_CLUSTER = 'c', KEY_FORMAT = 'f', MOST_DOCUMENTS = 64 };

struct report_flags {
    struct mt_err *err;
    struct mt_report_request request;
    const char *paths[MOST_DOCUMENTS];
};

static const struct argp_option flag_table[] = {
    {"out", KEY_OUT, "FILE", 0, "write to FILE [standard output]", 1},
    {"format", KEY_FORMAT, "FORMAT", 0, "html; or the tables alone: md, csv, json [html]", 1},
    {"cluster", KEY_CLUSTER, "FILE", 0,
     "the profile or description of the cluster that a plan was made for, where it is not one of the documents: with "
     "it "
     "the plan's step is simulated",
     1},
    {0}};

static error_t parse(int key, char *text, struct argp_state *state) {
    struct report_flags *f = state->input;
    int which = 0;
    switch (key) {
    case KEY_OUT: return mt_flag_path("--out", text, &f->request.out, f->err) ? EINVAL : 0;
    case KEY_CLUSTER: return mt_flag_path("--cluster", text, &f->request.cluster, f->err) ? EINVAL : 0;
    case KEY_FORMAT:
        if (mt_flag_name("--format", text, mt_report_formats, MT_REPORT_NFORMATS, &which, f->err)) return EINVAL;
        f->request.format = (enum mt_report_format)which;
        return 0;
    case ARGP_KEY_ARG:
        if (f->request.npaths == MOST_DOCUMENTS)
            return mt_fail(f->err, MT_EINPUT, "at most %d documents go into one report", MOST_DOCUMENTS) ? EINVAL : 0;
        f->paths[f->request.npaths] = NULL;
        return mt_flag_path("document", text, &f->paths[f->request.npaths++], f->err) ? EINVAL : 0;
    }
    return ARGP_ERR_UNKNOWN;
}

static enum mt_status check_files(const struct report_flags *f) {
    struct mt_files files = {0};
    for (int i = 0; i < f->request.npaths; i++) mt_files_reads(&files, NULL, f->paths[i]);
    mt_files_reads(&files, "--cluster", f->request.cluster);
    mt_files_writes(&files, "--out", f->request.out, f->request.format == MT_REPORT_JSON ? MT_TABLES_FORMAT : NULL);
    return mt_files_check(&files, f->err);
}

int mt_command_report(int argc, char **argv) {
    static const struct argp argp = {
        .options = flag_table,
        .parser = parse,
        .args_doc = "DOCUMENT...",
        .doc =
            "Write documents as one HTML page of pictures and tables, which needs no network and no scripts: clusters, "
            "plans, runs (a folder, and the file of `motley train --trace`, for the measured step), what-ifs and "
            "purchases.\v"
            "Several documents are sections of one page. `motley report cluster.json plan.json -o report.html` also "
            "simulates the plan's step on its cluster: a timeline, memory over time, what binds."};
    struct mt_err err = MT_ERR_INIT;
    struct report_flags f = {.err = &err};
    f.request.paths = f.paths;
    enum mt_status st = mt_flags_parse(&argp, argc, argv, &f, &err);
    if (!st && !f.request.npaths) {
        st = mt_fail(&err, MT_EINPUT, "report of what? Name a document");
        mt_err_hint(&err, "as `motley report cluster.json plan.json -o report.html`");
    }
    if (!st) st = check_files(&f);
    if (!st) st = mt_report(&f.request, &err);
    return st ? mt_command_fail(&err) : 0;
}
