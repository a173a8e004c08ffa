/* Names are text wherever they come: a device, a configuration and a job's model named as markup, as a formula or with
 * bytes that are no UTF-8 show as such, in pages and in cells of spreadsheets. A purchase's page has all of its
 * pictures. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "launcher/report/report.h"
#include "launcher/report/svg/svg.h"
#include "planner/buy/document/purchase.h"
#include "profiler/cluster/cluster.h"
#include "profiler/describe/describe.h"
#include "tests/check.h"

static const char *const evil = "<script>alert(\"1\")</script>&'",
                         *const shown = "&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&amp;&#39;";
static struct mt_err err = MT_ERR_INIT;

static char *report(const char *path, enum mt_report_format format) {
    char *text;
    size_t length;
    const struct mt_report_request request = {.paths = &path, .npaths = 1, .format = format, .out = "out"};
    CHECK_OK(mt_report(&request, &err), err);
    CHECK_OK(mt_file_read("out", 1 << 26, &text, &length, &err), err);
    return text;
}

static int count(const char *text, const char *what) {
    int n = 0;
    for (const char *at = text; (at = strstr(at, what)); at++) n++;
    return n;
}

static void test_cluster(void) {
    struct mt_cluster *c;
    CHECK_OK(mt_cluster_open("h100:1x2 nvlink=300G net=100G + a10:1x1", &c, &err), err);
    c->classes[0].model = evil;
    c->description = evil;
    CHECK_OK(mt_cluster_write(c, "cluster.json", &err), err);
    char *page = report("cluster.json", MT_REPORT_HTML);
    CHECK_EQ(count(page, "<script"), 0);
    CHECK(count(page, shown) >= 3, "%d", count(page, shown));
    CHECK(strstr(page, "font-weight") != NULL);
    free(page);
    mt_cluster_free(c);
}

/* One item, one job; the row that is named has the job's markup, too. */
static void test_purchase(void) {
    struct mt_purchase *p = mt_purchase_new();
    p->made_by = "test", p->network = evil, p->binds = "budget", p->objective = "time";
    p->limits.budget = 1e6;
    p->nitems = p->njobs = 1, p->nrows = 2, p->nnext = 1;
    p->items = mt_new(&p->arena, struct mt_purchase_item, 1);
    p->items[0] = (struct mt_purchase_item){"l4", "l4", "L4", 1, 24, "", 0, 25e9, 3000, 0.25, 0, "", 1, 7};
    p->jobs = mt_new(&p->arena, struct mt_purchase_job, 1);
    p->jobs[0] = (struct mt_purchase_job){.model = evil, .steps = 100};
    mt_job_default(&p->jobs[0].job);
    p->jobs[0].job.recompute = MT_RECOMPUTE_NONE, p->jobs[0].job.seq = 1024;
    p->jobs[0].tokens = 100 * (double)p->jobs[0].job.batch * 1024;
    p->rows = mt_new(&p->arena, struct mt_purchase_row, 2);
    for (int i = 0; i < 2; i++) {
        struct mt_purchase_row *r = &p->rows[i];
        *r = (struct mt_purchase_row){
            .what = evil, .cluster = "", .tie = -1, .frontier = true, .error = 0.1, .error_below = 0.1};
        r->counts = mt_new(&p->arena, int64_t, 1);
        r->counts[0] = r->nodes = r->devices = 2 - i;
        r->price = 3000 * (2 - i), r->per_hour = 0.25 * (2 - i), r->rack_units = 2 - i;
        r->time_s = 100 * (i + 1), r->cost = r->price + r->per_hour * r->time_s / 3600;
        r->jobs = mt_new(&p->arena, struct mt_purchase_job_row, 1);
        r->jobs[0] = (struct mt_purchase_job_row){.step_s = i + 1,
                                                  .error = 0.1,
                                                  .error_below = 0.1,
                                                  .time_s = r->time_s,
                                                  .end_s = r->time_s,
                                                  .headroom_of = "",
                                                  .program = evil,
                                                  .binds = evil};
    }
    p->next = mt_new(&p->arena, struct mt_purchase_next, 1);
    p->next[0] = (struct mt_purchase_next){1e5, 40, true, p->rows[0]};
    CHECK_OK(mt_purchase_write(p, "purchase.json", &err), err);
    char *page = report("purchase.json", MT_REPORT_HTML);
    CHECK_EQ(count(page, "<script"), 0);
    CHECK(count(page, shown) >= 5, "%d", count(page, shown));
    static const char *const pictures[] = {"<svg id=\"purchases-wide\"", "<svg id=\"purchases-narrow\"",
                                           "<svg id=\"next-wide\"", "<table id=\"jobs\"", "<table id=\"catalogue\""};
    for (int i = 0; i < 5; i++) CHECK_EQ(count(page, pictures[i]), 1);
    free(page);
    p->rows[0].what = "=cmd|' /C calc'!A0";
    CHECK_OK(mt_purchase_write(p, "purchase.json", &err), err);
    char *cells = report("purchase.json", MT_REPORT_CSV);
    CHECK_EQ(count(cells, ",=cmd") + count(cells, ",\"=cmd"), 0);
    CHECK(count(cells, "=cmd|") > 0);
    free(cells);
    mt_purchase_free(p);
}

static void test_bytes(void) {
    char text[200] = "";
    FILE *file = fmemopen(text, sizeof text, "w");
    mt_html_text(file, "a\x01\xff\xc3\xa9<\xc2\x85"
                       "b\n\xed\xa0\x80");
    fclose(file);
    CHECK_TEXT(text, "a\xef\xbf\xbd\xef\xbf\xbd\xc3\xa9&lt;\xef\xbf\xbd"
                     "b\n\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
}

int main(void) {
    char folder[] = "/tmp/test_report_XXXXXX";
    CHECK(mkdtemp(folder) && !chdir(folder));
    test_bytes();
    test_cluster();
    test_purchase();
    static const char *const files[] = {"out", "cluster.json", "purchase.json"};
    for (int i = 0; i < 3; i++) unlink(files[i]);
    CHECK(!rmdir(folder));
    return 0;
}
