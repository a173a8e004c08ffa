/* An edited plan: checked, priced, and ready to be signed. */
#include "kernels/base/text/plain_table.h"
#include "kernels/base/text/units.h"
#include "launcher/plan/modes.h"
#include "planner/make/planning.h"

static void add_row(struct mt_plain_table *table, const char *what, double step_s, double edited_s, const char *remark) {
    char time[MT_UNITS_TEXT];
    mt_plain_table_row(table);
    mt_plain_table_cell(table, "%s", what);
    mt_plain_table_cell(table, "%s", mt_units_seconds(step_s, time));
    if (step_s == edited_s)
        mt_plain_table_cell(table, "%s", "");
    else
        mt_plain_table_cell(table, "%+.1f%%", 100 * (step_s / edited_s - 1));
    mt_plain_table_cell(table, "%s", remark);
}

/* The edited plan's step, what was expected before the edit (0: not known), and the best known. */
static void print_steps(double edited_s, double before_s, double best_s, FILE *remarks) {
    struct mt_plain_table table = MT_PLAIN_TABLE_INIT;
    bool better = best_s < edited_s * (1 - 1e-6);
    mt_plain_table_header(&table, "", ">step", ">", "", NULL);
    add_row(&table, "as edited", edited_s, edited_s, "");
    if (before_s > 0) add_row(&table, "as it said before", before_s, edited_s, "");
    add_row(&table, "best known", better ? best_s : edited_s, edited_s,
            better ? "`motley plan --cluster` makes it" : "it is this one");
    mt_plain_table_print(&table, 0, remarks);
}

/* before: the prediction that it had, or null. */
static enum mt_status price(const struct mt_plan_flags *f, struct mt_plan *plan,
                            const struct mt_plan_prediction *before, FILE *remarks, struct mt_err *err) {
    double best_s;
    enum mt_status st = MT_OK;
    if (plan->cluster_hash[0] && (st = mt_planning_same(plan, f->check, f->opened, f->cluster, err))) return st;
    bool hypothetical = plan->hypothetical[0] || f->request.hypothetical;
    if (plan->nranks == f->opened->ndevices) mt_plan_mark_hypothetical(f->opened, plan);
    if (plan->hypothetical[0] && !hypothetical) {
        mt_job_refuse(plan->hypothetical, err);
        return mt_err_context(err, "%s", f->check);
    }
    if ((st = mt_plan_edited_on(f->opened, f->limit_s, plan, &best_s, err))) return mt_err_context(err, "%s", f->check);
    mt_plan_explain_idle(plan, before, "left out by an edit");
    if ((st = mt_plan_print_found(plan, f->opened, NULL, remarks, err))) return st;
    print_steps(plan->prediction->step_s, before ? before->step_s : 0, best_s, remarks);
    return MT_OK;
}

enum mt_status mt_plan_check_edited(struct mt_plan_flags *flags, struct mt_plan **plan, FILE *remarks,
                                    struct mt_err *err) {
    struct mt_plan *edited, *signed_plan;
    struct mt_err ignored = MT_ERR_INIT;
    enum mt_status st = mt_plan_read_edited(flags->check, &edited, err);
    if (st) return st;
    /* Left as it is but for idle ranks, it keeps its prediction. */
    if (flags->without_idle && !flags->cluster && !mt_plan_read(flags->check, &signed_plan, &ignored)) {
        mt_plan_free(signed_plan);
        *plan = edited;
        return MT_OK;
    }
    edited->made_by = "motley " MOTLEY_VERSION;
    const struct mt_plan_prediction *before = edited->prediction;
    edited->prediction = NULL;
    if (flags->cluster) {
        st = price(flags, edited, before, remarks, err);
    } else {
        if ((st = mt_plan_edited(edited, err))) mt_err_context(err, "%s", flags->check);
        if (before)
            fprintf(remarks, "the prediction was of the plan before the edit; --cluster FILE predicts it again\n");
    }
    if (st)
        mt_plan_free(edited);
    else
        *plan = edited;
    return st;
}
