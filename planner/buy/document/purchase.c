/* The purchase document in memory, and its consistency. */
#include "planner/buy/document/purchase.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct mt_purchase *mt_purchase_new(void) {
    struct mt_purchase *p = mt_calloc(1, sizeof *p);
    p->made_by = p->network = p->binds = p->owned.what = p->owned.cluster_hash = "";
    p->objective = "time";
    return p;
}

void mt_purchase_free(struct mt_purchase *purchase) {
    if (!purchase) return;
    mt_arena_release(&purchase->arena);
    free(purchase);
}

/* Equal but for rounding. */
static bool near(double a, double b) {
    return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b)) + 1e-12;
}

static enum mt_status check_items(const struct mt_purchase *p, struct mt_err *err) {
    for (int i = 0; i < p->nitems; i++) {
        const struct mt_purchase_item *item = &p->items[i];
        if (!item->name[0]) return mt_fail(err, MT_EINPUT, "items[%d].name: is empty", i);
        for (int k = 0; k < i; k++)
            if (!strcmp(p->items[k].name, item->name))
                return mt_fail(err, MT_EINPUT, "items[%d].name: \"%.60s\" is there already", i, item->name);
        if ((item->devices > 1) != (item->link[0] != 0))
            return mt_fail(err, MT_EINPUT, "items[%d].link: must be given for nodes of several devices alone", i);
        if ((item->link_Bps > 0) != (item->link[0] != 0))
            return mt_fail(err, MT_EINPUT, "items[%d].link_Bps: is %g with link \"%.60s\"", i, item->link_Bps,
                           item->link);
    }
    return MT_OK;
}

static enum mt_status check_job_rows(const struct mt_purchase *p, const struct mt_purchase_row *row, const char *path,
                                     struct mt_err *err) {
    double end_s = 0;
    bool late = false;
    for (int j = 0; j < p->njobs; j++) {
        const struct mt_purchase_job_row *job = &row->jobs[j];
        if (!near(job->time_s, job->step_s * p->jobs[j].steps))
            return mt_fail(err, MT_EINPUT, "%s.jobs[%d].time_s: is %g, but %g steps of %g s are %g", path, j,
                           job->time_s, p->jobs[j].steps, job->step_s, job->step_s * p->jobs[j].steps);
        end_s += job->time_s;
        if (!near(job->end_s, end_s))
            return mt_fail(err, MT_EINPUT, "%s.jobs[%d].end_s: is %g, but it ends after %g", path, j, job->end_s,
                           end_s);
        if (job->late != (p->jobs[j].deadline_s > 0 && job->end_s > p->jobs[j].deadline_s))
            return mt_fail(err, MT_EINPUT, "%s.jobs[%d].late: does not agree with its deadline", path, j);
        late |= job->late;
    }
    if (!near(row->time_s, end_s))
        return mt_fail(err, MT_EINPUT, "%s.time_s: is %g, but its jobs take %g", path, row->time_s, end_s);
    if (row->late != late) return mt_fail(err, MT_EINPUT, "%s.late: does not agree with its jobs", path);
    return MT_OK;
}

static enum mt_status check_row(const struct mt_purchase *p, const struct mt_purchase_row *row, const char *path,
                                struct mt_err *err) {
    double price = 0, per_hour = 0, rack_units = 0, nodes = p->owned.nodes, devices = p->owned.devices;
    for (int i = 0; i < p->nitems; i++) {
        const struct mt_purchase_item *item = &p->items[i];
        double count = (double)row->counts[i];
        price += count * item->price, per_hour += count * item->per_hour;
        rack_units += count * item->rack_units;
        nodes += count, devices += count * item->devices;
    }
    const struct {
        const char *key;
        double has, needs;
    } sums[] = {{"price", row->price, price},
                {"per_hour", row->per_hour, per_hour},
                {"cost", row->cost, price + per_hour * row->time_s / 3600},
                {"rack_units", row->rack_units, rack_units},
                {"nodes", row->nodes, nodes},
                {"devices", row->devices, devices}};
    for (size_t i = 0; i < sizeof sums / sizeof sums[0]; i++)
        if (!near(sums[i].has, sums[i].needs))
            return mt_fail(err, MT_EINPUT, "%s.%s: is %.17g, but what it has makes %.17g", path, sums[i].key,
                           sums[i].has, sums[i].needs);
    return check_job_rows(p, row, path, err);
}

/* No row that is not late costs as much or less and takes less time, nor less and as much. */
static bool is_on_frontier(const struct mt_purchase *p, int row) {
    const struct mt_purchase_row *a = &p->rows[row];
    for (int i = 0; i < p->nrows && !a->late; i++) {
        const struct mt_purchase_row *b = &p->rows[i];
        if (b->late || b->cost > a->cost || b->time_s > a->time_s) continue;
        if (b->cost < a->cost || b->time_s < a->time_s) return false;
    }
    return !a->late;
}

static enum mt_status check_order(const struct mt_purchase *p, struct mt_err *err) {
    bool by_cost = !strcmp(p->objective, "cost");
    if (!by_cost && strcmp(p->objective, "time"))
        return mt_fail(err, MT_EINPUT, "objective: must be \"time\" or \"cost\", not \"%.60s\"", p->objective);
    for (int i = 0; i < p->nrows; i++) {
        const struct mt_purchase_row *row = &p->rows[i], *before = i ? row - 1 : row;
        bool sorted = by_cost ? before->cost <= row->cost : before->time_s <= row->time_s;
        if (before->late > row->late || (before->late == row->late && !sorted))
            return mt_fail(err, MT_EINPUT, "rows[%d]: is not in the order of %s", i, p->objective);
        if (row->tie >= i) return mt_fail(err, MT_EINPUT, "rows[%d].tie: is %d, not a row above", i, row->tie);
        if (row->frontier && !is_on_frontier(p, i))
            return mt_fail(err, MT_EINPUT, "rows[%d].frontier: another row costs less and is as fast, or is faster", i);
    }
    return MT_OK;
}

enum mt_status mt_purchase_check(const struct mt_purchase *p, struct mt_err *err) {
    char path[40];
    enum mt_status st = check_items(p, err);
    if (!st && !p->njobs) st = mt_fail(err, MT_EINPUT, "jobs: there is none");
    for (int j = 0; j < p->njobs && !st; j++) {
        const struct mt_purchase_job *job = &p->jobs[j];
        if ((st = mt_job_check(&job->job, err))) return mt_err_context(err, "jobs[%d].job", j);
        if (!near(job->tokens, job->steps * (double)job->job.batch * (double)job->job.seq))
            st = mt_fail(err, MT_EINPUT, "jobs[%d].tokens: is %g, but its steps have %g", j, job->tokens,
                         job->steps * (double)job->job.batch * (double)job->job.seq);
    }
    for (int i = 0; i < p->nrows && !st; i++) {
        snprintf(path, sizeof path, "rows[%d]", i);
        st = check_row(p, &p->rows[i], path, err);
    }
    for (int i = 0; i < p->nnext && !st; i++) {
        snprintf(path, sizeof path, "next[%d].row", i);
        if (p->next[i].row.tie > 0 || p->next[i].row.tie < -1)
            return mt_fail(err, MT_EINPUT, "%s.tie: is %d, not -1 or 0", path, p->next[i].row.tie);
        st = check_row(p, &p->next[i].row, path, err);
    }
    return st ? st : check_order(p, err);
}
