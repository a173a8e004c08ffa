/* A run as tables. */
#include "launcher/run/run.h"
#include "launcher/show/show.h"

enum mt_status mt_show_run(const char *path, struct mt_tables *out, bool *outliers, struct mt_err *err) {
    (void)outliers;
    struct mt_run_doc run;
    enum mt_status st = mt_run_read(path, &run, err);
    if (st) return st;
    mt_run_tables(&run, out);
    mt_run_release(&run);
    return MT_OK;
}
