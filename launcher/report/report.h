/* Reports: documents as one page of tables and pictures, for people who decide by them.
 *
 *     struct mt_report_request request = {.paths = paths, .npaths = 2, .format = MT_REPORT_HTML, .out = "report.html"};
 *     st = mt_report(&request, err);
 *
 * The report of a kind of document is a file NAME.c with mt_report_NAME and a row in reports.def. svg/ draws pictures,
 * page/ is the page. */
#ifndef MT_LAUNCHER_REPORT_REPORT_H
#define MT_LAUNCHER_REPORT_REPORT_H

#include "kernels/base/err.h"

enum mt_report_format { MT_REPORT_HTML, MT_REPORT_MD, MT_REPORT_CSV, MT_REPORT_JSON, MT_REPORT_NFORMATS };
extern const char *const mt_report_formats[MT_REPORT_NFORMATS]; /* "html", "md", "csv", "json" */

struct mt_report_request {
    const char *const *paths; /* documents, folders of runs, traces of `motley train --trace` */
    int npaths;
    const char *cluster; /* a profile or a description for plans that it was made for; or null */
    enum mt_report_format format;
    const char *out; /* null: standard output */
};

/* MT_EINPUT for a document that cannot be read, or is of no kind that has a report, and for a cluster that no plan
 * among the documents was made for. */
enum mt_status mt_report(const struct mt_report_request *request, struct mt_err *err);

#endif
