/* An edited plan: checked, priced, and ready to be signed. */
#include <string.h>

#include "launcher/plan/modes.h"
#include "planner/make/planning.h"

static void add_row(struct mt_table *t, const char *what, double step_s, double edited_s, const char *remark) {
    mt_table_row(t);
    mt_cell_text(t, "%s", what);
    mt_cell_real(t, step_s);
    if (step_s == edited_s)
        mt_cell_blank(t);
    else
        mt_cell_real(t, step_s / edited_s - 1);
    mt_cell_text(t, "%s", remark);
}

/* The edited plan's step, what was expected before the edit (0: not known), and the best known. */
static void add_steps(double edited_s, double before_s, double best_s, struct mt_tables *remarks) {
    bool better = best_s < edited_s * (1 - 1e-6);
    struct mt_table *t = mt_tables_add(remarks, "steps", "", "");
    t->indent = 0;
    mt_table_columns(t, {"what", "", MT_UNIT_TEXT}, {"step_s", "step", MT_UNIT_SECONDS},
                     {"against", "", MT_UNIT_CHANGE}, {"remark", "", MT_UNIT_TEXT});
    add_row(t, "as edited", edited_s, edited_s, "");
    if (before_s > 0) add_row(t, "as it said before", before_s, edited_s, "");
    add_row(t, "best known", better ? best_s : edited_s, edited_s,
            better ? "`motley plan --cluster` makes it" : "it is this one");
}

/* before: the prediction that it had, or null. */
static enum mt_status price(const struct mt_plan_flags *f, struct mt_plan *plan,
                            const struct mt_plan_prediction *before, struct mt_tables *remarks, struct mt_err *err) {
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
    add_steps(plan->prediction->step_s, before ? before->step_s : 0, best_s, remarks);
    return MT_OK;
}

/* The plan as it was signed; null: it has been edited. */
static struct mt_plan *read_signed(const char *path) {
    struct mt_plan *plan;
    struct mt_err ignored = MT_ERR_INIT;
    return mt_plan_read(path, &plan, &ignored) ? NULL : plan;
}

/* Whether what follows from an unedited plan is what it says, so that it stays as it is, with what is known of its
 * cluster: signing twice is signing once. */
static bool still_holds(const struct mt_plan *was, const struct mt_plan *is) {
    bool same = !strcmp(was->model_hash, is->model_hash) && !strcmp(was->program_hash, is->program_hash);
    if (!is->prediction) return same;
    return same && was->prediction && was->prediction->step_s == is->prediction->step_s;
}

/* What is derived anew becomes the plan, or *plan is replaced by the unedited one. */
static enum mt_status sign(struct mt_plan_flags *flags, struct mt_plan **edited, struct mt_tables *remarks,
                           struct mt_err *err) {
    struct mt_plan *plan = *edited, *before = read_signed(flags->check);
    struct mt_plan_prediction *prediction = plan->prediction;
    enum mt_status st;
    plan->made_by = "motley " MOTLEY_VERSION;
    plan->prediction = NULL;
    if (flags->cluster)
        st = price(flags, plan, prediction, remarks, err);
    else if ((st = mt_plan_edited(plan, err)))
        mt_err_context(err, "%s", flags->check);
    if (!st && !before && prediction && !flags->cluster)
        mt_tables_say(remarks, "the prediction was of the plan before the edit; --cluster FILE predicts it again");
    if (!st && before && still_holds(before, plan)) *edited = before, before = plan;
    mt_plan_free(before);
    return st;
}

enum mt_status mt_plan_check_edited(struct mt_plan_flags *flags, struct mt_plan **plan, struct mt_tables *remarks,
                                    struct mt_err *err) {
    struct mt_plan *edited;
    enum mt_status st = mt_plan_read_edited(flags->check, &edited, err);
    if (st) return st;
    st = sign(flags, &edited, remarks, err);
    if (st)
        mt_plan_free(edited);
    else
        *plan = edited;
    return st;
}
