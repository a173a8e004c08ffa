/* The report of a run. */
#include <string.h>

#include "kernels/base/file.h"
#include "launcher/report/run/internal.h"

static void say_head(struct mt_report_run *run) {
    const struct mt_run_doc *d = &run->doc;
    struct mt_page *page = run->page;
    mt_page_fact(page, "ended", "%s", d->ended);
    if (d->nlosses) {
        mt_page_fact(page, "steps", "%lld to %lld", (long long)d->first_step,
                     (long long)d->first_step + d->nlosses - 1);
        mt_page_fact(page, "loss", "%.4f to %.4f", d->losses[0], d->losses[d->nlosses - 1]);
    }
    if (d->nvals) mt_page_fact(page, "validation loss", "%.4f", d->vals[d->nvals - 1].loss);
    if (d->step_s > 0) {
        mt_page_fact(page, "tokens a second", "%s", mt_page_quantity(page, MT_UNIT_QUANTITY, d->tokens_per_s));
        mt_page_fact(page, "median step", "%s", mt_page_quantity(page, MT_UNIT_SECONDS, d->step_s));
    }
    mt_page_say(page, "Model %s, by %s, %s; plan %s.", d->model, d->made_by, d->mpi, d->plan_hash);
    if (d->step_s > 0) mt_page_say(page, "Measured %s.", mt_run_step_text(d, &page->arena));
    if (d->parameter_hash[0]) mt_page_say(page, "Hash of the parameters at the end: %s.", d->parameter_hash);
}

/* The trace that stands for a run: the first trace for the first run, and so on. */
static const char *trace_of(const struct mt_reporting *r, const char *path) {
    int at = 0, i = 0;
    for (int k = 0; k < r->request->npaths && r->paths[k] != path; k++) at += !strcmp(r->formats[k], MT_RUN_FORMAT);
    while (r->traces[i] && i < at) i++;
    return r->traces[i];
}

enum mt_status mt_report_run(struct mt_reporting *reporting, const char *path, struct mt_err *err) {
    struct mt_report_run run = {.reporting = reporting, .page = &reporting->page};
    enum mt_status st = mt_run_read(path, &run.doc, err);
    if (st) return st;
    run.folder = mt_folder_of(path, &run.page->arena);
    mt_page_section(run.page, "Run %s", path);
    const char *trace = trace_of(reporting, path);
    st = mt_restarts_read(run.folder, &run.page->arena, &run.restarts, &run.nrestarts, err);
    if (!st && !(st = mt_report_run_metrics(&run, err))) {
        mt_report_run_checkpoints(&run);
        say_head(&run);
        mt_report_progress(&run);
        mt_report_run_ranks(&run);
        if (trace) st = mt_report_traced(&run, trace, err);
    }
    mt_run_release(&run.doc);
    return st;
}
