/* An edited plan: checked, priced, and ready to be signed. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/text/table.h"
#include "kernels/base/text/units.h"
#include "launcher/plan/modes.h"
#include "planner/make/planning.h"
#include "profiler/describe/describe.h"

/* A plan that was made by speeds becomes one for the cluster. */
static enum mt_status adopt(const struct mt_planning *planning, struct mt_plan *plan, struct mt_err *err) {
    const struct mt_cluster *cluster = planning->cluster;
    if (plan->nranks != cluster->ndevices)
        return mt_fail(err, MT_EINPUT, "ranks: the plan has %d, but the cluster has %d devices", plan->nranks,
                       cluster->ndevices);
    struct mt_plan *ranks = mt_planning_plan(planning);
    for (int r = 0; r < plan->nranks; r++) {
        plan->ranks[r] = ranks->ranks[r];
        plan->ranks[r].host = mt_arena_strdup(&plan->arena, ranks->ranks[r].host);
        plan->ranks[r].class = mt_arena_strdup(&plan->arena, ranks->ranks[r].class);
    }
    strcpy(plan->cluster_hash, cluster->hash);
    mt_plan_free(ranks);
    return MT_OK;
}

static void add_row(struct mt_table *table, const char *what, double step_s, double edited_s, const char *remark) {
    char time[MT_UNITS_TEXT];
    mt_table_row(table);
    mt_table_cell(table, "%s", what);
    mt_table_cell(table, "%s", mt_units_seconds(step_s, time));
    if (step_s == edited_s)
        mt_table_cell(table, "%s", "");
    else
        mt_table_cell(table, "%+.1f%%", 100 * (step_s / edited_s - 1));
    mt_table_cell(table, "%s", remark);
}

/* The edited plan's step and what binds it, what was expected before the edit (0: not known), and the best known. */
static enum mt_status compare(struct mt_planning *planning, struct mt_plan *plan, const struct mt_search_report *binds,
                              double before_s, FILE *remarks, struct mt_err *err) {
    struct mt_plan *best = mt_planning_plan(planning);
    struct mt_search_report report;
    planning->search.last = plan;
    enum mt_status st = mt_search(&planning->search, best, &report, err);
    if (!st) {
        double edited_s = plan->prediction->step_s, best_s = best->prediction->step_s;
        struct mt_table table = MT_TABLE_INIT;
        /* Priced, it was that of the plan's own structure. */
        plan->prediction->bound_s = fmin(plan->prediction->bound_s, best->prediction->bound_s);
        mt_plan_print_summary(plan, remarks);
        mt_planning_print_binding(binds, remarks);
        mt_table_header(&table, "", ">step", ">", "", NULL);
        add_row(&table, "as edited", edited_s, edited_s, "");
        if (before_s > 0) add_row(&table, "as it said before", before_s, edited_s, "");
        bool better = best_s < edited_s * (1 - 1e-6);
        add_row(&table, "best known", better ? best_s : edited_s, edited_s,
                better ? "`motley plan --cluster` makes it" : "it is this one");
        mt_table_print(&table, 0, remarks);
        mt_search_report_release(&report);
    }
    mt_plan_free(best);
    return st;
}

static enum mt_status price(struct mt_plan_flags *f, struct mt_plan *plan, double before_s, FILE *remarks,
                            struct mt_err *err) {
    struct mt_cluster *cluster;
    struct mt_planning planning;
    struct mt_search_report report;
    enum mt_status st = mt_cluster_open(f->cluster, &cluster, err);
    if (st) return st;
    bool foreign = plan->cluster_hash[0] && mt_planning_same(plan, f->check, cluster, f->cluster, err);
    if (foreign) st = err->status;
    if (!st && !(st = mt_planning_open(cluster, plan->model, &plan->job, &planning, err))) {
        planning.search.limit_s = f->limit_s;
        if (!plan->cluster_hash[0]) st = adopt(&planning, plan, err);
        if (!st) st = mt_plan_derive(plan, err);
        if (st) mt_err_context(err, "%s", f->check);
        if (!st && !(st = mt_search_price(&planning.search, plan, &report, err))) {
            st = compare(&planning, plan, &report, before_s, remarks, err);
            mt_search_report_release(&report);
        }
        mt_planning_close(&planning);
    }
    mt_cluster_free(cluster);
    return st;
}

enum mt_status mt_plan_check_edited(struct mt_plan_flags *flags, struct mt_plan **plan, FILE *remarks,
                                    struct mt_err *err) {
    struct mt_plan *edited;
    enum mt_status st = mt_plan_read_edited(flags->check, &edited, err);
    if (st) return st;
    edited->made_by = "motley " MOTLEY_VERSION;
    double before_s = edited->prediction ? edited->prediction->step_s : 0;
    edited->prediction = NULL;
    if (flags->cluster) {
        st = price(flags, edited, before_s, remarks, err);
    } else {
        if ((st = mt_plan_derive(edited, err))) mt_err_context(err, "%s", flags->check);
        if (before_s > 0)
            fprintf(remarks, "what was predicted of it holds no more; --cluster FILE predicts it again\n");
    }
    if (st)
        mt_plan_free(edited);
    else
        *plan = edited;
    return st;
}
