/* The purchase document: what is written reads back the same; numbers that do not agree with each other are refused by
 * their path, and a text that was changed by its hash. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/buy/document/purchase.h"
#include "tests/check.h"

static struct mt_err err = MT_ERR_INIT;

/* Two items, two jobs of 100 and 200 steps, and the rows [count]: nodes of each item and the steps of both jobs. */
struct given {
    int64_t counts[2];
    double step_s[2];
};

static struct mt_purchase_row row_of(struct mt_purchase *p, const struct given *given) {
    struct mt_purchase_row row = {.what = "a row", .cluster = "", .tie = -1, .nodes = 1, .devices = 2};
    row.counts = mt_arena_memdup(&p->arena, given->counts, sizeof given->counts);
    row.jobs = mt_new(&p->arena, struct mt_purchase_job_row, 2);
    for (int i = 0; i < 2; i++) {
        double count = (double)given->counts[i];
        row.price += count * p->items[i].price, row.per_hour += count * p->items[i].per_hour;
        row.nodes += (int)given->counts[i], row.devices += (int)given->counts[i] * p->items[i].devices;
        row.rack_units += count * p->items[i].rack_units;
    }
    for (int j = 0; j < 2; j++) {
        double time_s = given->step_s[j] * p->jobs[j].steps;
        row.time_s += time_s;
        row.jobs[j] = (struct mt_purchase_job_row){.step_s = given->step_s[j],
                                                   .error = 0.25,
                                                   .time_s = time_s,
                                                   .end_s = row.time_s,
                                                   .headroom_of = "",
                                                   .program = "samples",
                                                   .binds = ""};
    }
    row.jobs[1].late = row.late = row.time_s > p->jobs[1].deadline_s;
    row.cost = row.price + row.per_hour * row.time_s / 3600;
    return row;
}

static struct mt_purchase *make(void) {
    static const struct given given[] = {
        {{2, 1}, {0.1, 0.2}}, {{1, 0}, {0.3, 0.4}}, {{0, 3}, {0.35, 0.5}}, {{0, 0}, {9, 9}}};
    struct mt_purchase *p = mt_purchase_new();
    p->made_by = "test", p->network = "net=25G", p->binds = "budget";
    p->owned = (struct mt_purchase_owned){"h100:1x2", "", 1, 2, 1400};
    p->limits.budget = 1e6;
    p->nitems = 2, p->njobs = 2, p->nrows = 4, p->nnext = 1, p->nexcluded = 1;
    p->items = mt_new(&p->arena, struct mt_purchase_item, 2);
    p->items[0] =
        (struct mt_purchase_item){"h100x8", "h100", "H100", 8, 80, "nvlink", 4e11, 0, 250e3, 1.5, 5600, "sheet", 8, 0};
    p->items[1] = (struct mt_purchase_item){"l4", "l4", "L4", 1, 24, "", 0, 25e9, 3000, 0.25, 0, "", 1, 7};
    p->excluded = mt_new(&p->arena, struct mt_purchase_excluded, 1);
    p->excluded[0] = (struct mt_purchase_excluded){"a10", "it has no price"};
    p->jobs = mt_new(&p->arena, struct mt_purchase_job, 2);
    for (int j = 0; j < 2; j++) {
        p->jobs[j] = (struct mt_purchase_job){.model = "gpt2:124m", .steps = 100 * (j + 1), .deadline_s = j ? 500 : 0};
        mt_job_default(&p->jobs[j].job);
        p->jobs[j].job.recompute = MT_RECOMPUTE_NONE;
        p->jobs[j].job.seq = 1024;
        p->jobs[j].tokens = p->jobs[j].steps * (double)p->jobs[j].job.batch * 1024;
    }
    p->rows = mt_new(&p->arena, struct mt_purchase_row, 4);
    for (int i = 0; i < 4; i++) p->rows[i] = row_of(p, &given[i]);
    p->rows[2].tie = 1;
    p->rows[0].frontier = p->rows[1].frontier = p->rows[2].frontier = true;
    p->next = mt_new(&p->arena, struct mt_purchase_next, 1);
    p->next[0] = (struct mt_purchase_next){1e5, 40, true, row_of(p, &given[0])};
    return p;
}

static void test_same(void) {
    struct mt_purchase *p = make(), *again;
    size_t length, length_again;
    CHECK_OK(mt_purchase_check(p, &err), err);
    char *text = mt_purchase_text(p, &length);
    CHECK_OK(mt_purchase_parse("text", text, length, &again, &err), err);
    char *text_again = mt_purchase_text(again, &length_again);
    CHECK_TEXT(text_again, text);
    CHECK_TEXT(again->hash, p->hash);
    CHECK_EQ(again->rows[0].counts[0], 2);
    CHECK_NEAR(again->rows[0].cost, 503000 + 3.25 * 50 / 3600, 1e-6);
    CHECK(again->rows[3].late && again->rows[3].jobs[1].late && !again->rows[3].jobs[0].late);
    mt_purchase_free(again);
    char *at = strstr(text, "\"budget\": 1000000"); /* a digit of a figure that agrees with anything */
    CHECK(at != NULL);
    at[10] = '2';
    CHECK_EQ(mt_purchase_parse("text", text, length, &again, &err), MT_EINPUT);
    CHECK(strstr(err.text, "hash: does not fit"), "%s", err.text);
    free(text), free(text_again);
    mt_purchase_free(p);
}

/* Each refusal changes one number, and its message names the path. */
static void refused(struct mt_purchase *p, const char *path) {
    CHECK_EQ(mt_purchase_check(p, &err), MT_EINPUT);
    CHECK(!strncmp(err.text, path, strlen(path)), "%s, not %s", err.text, path);
    mt_purchase_free(p);
}

static void test_refused(void) {
    struct mt_purchase *p = make();
    p->rows[1].price += 1;
    refused(p, "rows[1].price");
    p = make(), p->rows[0].counts[1]++;
    refused(p, "rows[0].price");
    p = make(), p->rows[0].cost *= 1.001;
    refused(p, "rows[0].cost");
    p = make(), p->rows[0].devices = 3;
    refused(p, "rows[0].devices");
    p = make(), p->rows[2].jobs[1].time_s *= 1.01;
    refused(p, "rows[2].jobs[1].time_s");
    p = make(), p->rows[2].jobs[1].end_s *= 1.01;
    refused(p, "rows[2].jobs[1].end_s");
    p = make(), p->rows[3].late = false;
    refused(p, "rows[3].late");
    p = make(), p->rows[1].tie = 1;
    refused(p, "rows[1].tie");
    p = make(), p->next[0].row.tie = 1;
    refused(p, "next[0].row.tie");
    p = make(), p->rows[3].frontier = true;
    refused(p, "rows[3].frontier");
    p = make(), p->objective = "cost";
    refused(p, "rows[1]: is not in the order of cost");
    p = make(), p->jobs[0].tokens += 1024;
    refused(p, "jobs[0].tokens");
    p = make(), p->jobs[1].job.batch = 0;
    refused(p, "jobs[1].job: batch");
    p = make(), p->items[1].link = "pcie";
    refused(p, "items[1].link");
    p = make(), p->items[1].name = "h100x8";
    refused(p, "items[1].name");
    p = make(), p->items[0].price = -1; /* as text: the reader's ranges */
    size_t length;
    struct mt_purchase *again;
    char *text = mt_purchase_text(p, &length);
    CHECK_EQ(mt_purchase_parse("text", text, length, &again, &err), MT_EINPUT);
    CHECK(strstr(err.text, "items[0].price"), "%s", err.text);
    free(text);
    mt_purchase_free(p);
}

int main(void) {
    test_same();
    test_refused();
    return 0;
}
