/* The facts of a purchase. */
#include "launcher/show/diff/diff.h"

#include "planner/buy/document/purchase.h"

static void add_row(struct mt_facts *facts, const char *name, const struct mt_purchase_row *row) {
    mt_fact_real(facts, mt_fact_name(facts, "%s: time", name), row->time_s, row->error, MT_UNIT_SECONDS);
    mt_fact_real(facts, mt_fact_name(facts, "%s: cost", name), row->cost, 0, MT_UNIT_MONEY);
}

static void add_item(struct mt_facts *facts, const struct mt_purchase_item *item) {
    mt_fact(facts, mt_fact_name(facts, "item %s", item->name), "%d of %s", item->devices, item->device);
    mt_fact_real(facts, mt_fact_name(facts, "item %s: price", item->name), item->price, 0, MT_UNIT_MONEY);
    mt_fact_real(facts, mt_fact_name(facts, "item %s: an hour", item->name), item->per_hour, 0, MT_UNIT_MONEY);
    mt_fact_real(facts, mt_fact_name(facts, "item %s: watts", item->name), item->power_W, 0, MT_UNIT_WATTS);
}

enum mt_status mt_facts_of_purchase(const char *path, struct mt_facts *facts, struct mt_err *err) {
    struct mt_purchase *p;
    enum mt_status st = mt_purchase_read(path, &p, err);
    if (st) return st;
    mt_fact(facts, "objective", "%s", p->objective);
    mt_fact(facts, "network", "%s", p->network);
    mt_fact(facts, "owned", "%s", p->owned.what);
    mt_fact_real(facts, "budget", p->limits.budget, 0, MT_UNIT_MONEY);
    mt_fact_real(facts, "budget for an hour", p->limits.budget_per_hour, 0, MT_UNIT_MONEY);
    mt_fact_real(facts, "power", p->limits.power_W, 0, MT_UNIT_WATTS);
    mt_fact_real(facts, "rack units", p->limits.rack_units, 0, MT_UNIT_NUMBER);
    mt_fact(facts, "nodes", "%d", p->limits.nodes);
    mt_fact(facts, "devices", "%d", p->limits.devices);
    for (int i = 0; i < p->nitems; i++) add_item(facts, &p->items[i]);
    for (int j = 0; j < p->njobs; j++) {
        mt_fact(facts, mt_fact_name(facts, "job %d", j + 1), "%s, %lld x %lld, %s", p->jobs[j].model,
                (long long)p->jobs[j].job.batch, (long long)p->jobs[j].job.seq, mt_job_precision(&p->jobs[j].job));
        mt_fact_real(facts, mt_fact_name(facts, "job %d: tokens", j + 1), p->jobs[j].tokens, 0, MT_UNIT_QUANTITY);
    }
    mt_fact(facts, "best", "%s", p->nrows ? p->rows[0].what : "none");
    for (int i = 0; i < p->nrows; i++) add_row(facts, p->rows[i].what, &p->rows[i]);
    for (int i = 0; i < p->nnext; i++)
        mt_fact(facts, mt_fact_name(facts, "with %.10g more", p->next[i].money), "%s", p->next[i].row.what);
    mt_purchase_free(p);
    return MT_OK;
}
