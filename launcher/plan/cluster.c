/* A plan for a cluster, by the search. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/text/units.h"
#include "launcher/plan/modes.h"
#include "planner/make/planning.h"
#include "planner/make/recompute.h"
#include "planner/balance/split.h"
#include "profiler/describe/describe.h"
#include "planner/plan/choice.h"

enum mt_status mt_plan_by_speeds(struct mt_plan_flags *flags, struct mt_plan **plan, FILE *remarks,
                                 struct mt_err *err) {
    (void)remarks;
    return mt_plan_make(&flags->request, plan, err);
}

/* What the person decided. "auto" leaves the choice to the search, as nothing does. */
static enum mt_status fix(struct mt_plan_flags *f, struct mt_planning *planning, struct mt_err *err) {
    const struct mt_plan_request *q = &f->request;
    const struct mt_graph *g = planning->planned.graph;
    struct mt_plan_fixed *fixed = &planning->search.fixed;
    *fixed = q->fixed;
    int n = planning->cluster->ndevices;
    for (int r = 0; fixed->micro && r < n; r++)
        if (!fixed->micro[r] && !(fixed->shares && !fixed->shares[r]))
            return mt_fail(err, MT_EINPUT, "--micro: is 0 for rank %d, which may have samples", r);
    if (!f->shares_by || strcmp(f->shares_by, "--even")) return MT_OK;
    double *speeds = mt_new(&f->arena, double, n);
    int64_t *even = mt_new(&f->arena, int64_t, n);
    for (int r = 0; r < n; r++) speeds[r] = 1;
    fixed->shares = even;
    return mt_split_proportional(q->job.batch, g->labels[g->batch].align, speeds, n, even, err);
}

static bool free_to_search(const struct mt_plan_fixed *fixed) {
    return !fixed->shares && !fixed->micro && !fixed->nstorage_shares && mt_decisions_are_unset(&fixed->decisions);
}

static bool same_job(const struct mt_job *a, const struct mt_job *b) {
    struct mt_json_out left, right;
    mt_json_out_init(&left);
    mt_json_out_init(&right);
    mt_job_write(a, NULL, &left);
    mt_job_write(b, NULL, &right);
    bool same = !strcmp(left.text, right.text);
    mt_json_out_release(&left);
    mt_json_out_release(&right);
    return same;
}

/* The plan that is about to be replaced, if it is of the same model, job and cluster; else null. What is no plan will
 * be replaced all the same. */
static struct mt_plan *read_last(const char *out, const struct mt_plan *plan) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_plan *last;
    if (!strcmp(out, "-") || access(out, R_OK) || mt_plan_read_edited(out, &last, &err)) return NULL;
    if (last->nranks == plan->nranks && !strcmp(last->model, plan->model) &&
        !strcmp(last->cluster_hash, plan->cluster_hash) && same_job(&last->job, &plan->job))
        return last;
    mt_plan_free(last);
    return NULL;
}

static void remark_last(const struct mt_plan *last, const struct mt_plan *plan, const char *out, FILE *remarks) {
    char before[MT_UNITS_TEXT];
    const struct mt_plan_prediction *f = last->prediction;
    fprintf(remarks, "start      the plan that was in %s", out);
    double ratio = f ? plan->prediction->step_s / f->step_s : 1;
    if (f)
        fprintf(remarks, ", predicted %s: %s", mt_units_seconds(f->step_s, before),
                ratio < 1 - 1e-6   ? "this one is faster"
                : ratio < 1 + 1e-6 ? "nothing faster was found"
                                   : "it was faster, by what is never searched (as --gradient-wire) or by other costs");
    fputc('\n', remarks);
}

/* That what the search has made can be read again, and that rows which a person gave have an effect. */
static enum mt_status check_made(const struct mt_planning *planning, const struct mt_plan *plan, struct mt_err *err) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_choice choice;
    enum mt_status st = mt_plan_check(plan, err);
    if (!st) st = mt_choice_from_plan(planning->planned.graph, plan, &arena, &choice, err);
    if (!st) st = mt_choice_check_rows(planning->planned.graph, plan, &choice, err);
    mt_arena_release(&arena);
    return st;
}

/* One search, for one way of recomputation; and what is to be said of it, if its plan is taken. */
struct searching {
    struct mt_plan_flags *flags;
    const struct mt_cluster *cluster;
    char *remarks, *kept;
    size_t length;
};

static enum mt_status search(struct searching *s, struct mt_planning *planning, struct mt_plan *plan, FILE *remarks,
                             struct mt_err *err) {
    struct mt_plan_flags *f = s->flags;
    struct mt_search_report report;
    enum mt_status st = fix(f, planning, err);
    if (st) return st;
    struct mt_plan *last = free_to_search(&planning->search.fixed) ? read_last(f->out, plan) : NULL;
    planning->search.last = last;
    planning->search.limit_s = f->limit_s;
    if (!(st = mt_search(&planning->search, plan, &report, err))) {
        mt_plan_print_summary(plan, remarks);
        mt_planning_print_binding(&report, remarks);
        mt_search_report_release(&report);
        if (last) remark_last(last, plan, f->out, remarks);
        if (f->recompute < 0 && plan->job.recompute)
            fprintf(remarks, "recompute  %s: with less to keep it is the fastest that fits\n",
                    mt_recompute_names[plan->job.recompute]);
        st = check_made(planning, plan, err);
    }
    mt_plan_free(last);
    return st;
}

/* What-ifs may mix what no job can. */
static enum mt_status check_kinds(const struct mt_cluster *cluster, const char *text, struct mt_err *err) {
    const char *first = mt_cluster_kind(cluster);
    for (int d = 1; d < cluster->ndevices; d++) {
        const struct mt_cluster_class *class = &cluster->classes[cluster->devices[d].class];
        if (!strcmp(class->kind, first)) continue;
        mt_fail(err, MT_EINPUT,
                "--cluster: rank %d of %.200s is of kind %s, but rank 0 of kind %s: CPUs and GPUs do not "
                "train together",
                d, text, class->kind, first);
        return mt_err_hint(err, "profile or describe a cluster of one kind");
    }
    return MT_OK;
}

static enum mt_status make(void *context, const struct mt_job *job, struct mt_plan **plan, struct mt_err *err) {
    struct searching *s = context;
    struct mt_planning planning;
    enum mt_status st = mt_planning_open(s->cluster, s->flags->request.model, job, &planning, err);
    if (st) return st;
    struct mt_plan *made = mt_planning_plan(&planning);
    free(s->remarks);
    FILE *remarks = open_memstream(&s->remarks, &s->length);
    if ((st = search(s, &planning, made, remarks, err)))
        mt_plan_free(made);
    else
        *plan = made;
    fclose(remarks);
    mt_planning_close(&planning);
    return st;
}

static void keep(void *context) {
    struct searching *s = context;
    free(s->kept);
    s->kept = s->remarks;
    s->remarks = NULL;
}

enum mt_status mt_plan_for_cluster(struct mt_plan_flags *flags, struct mt_plan **plan, FILE *remarks,
                                   struct mt_err *err) {
    struct mt_cluster *cluster;
    enum mt_status st = mt_cluster_open(flags->cluster, &cluster, err);
    if (st) return st;
    struct searching s = {.flags = flags, .cluster = cluster};
    const struct mt_job *job = &flags->request.job;
    if (!(st = check_kinds(cluster, flags->cluster, err)) &&
        !(st = mt_plan_flags_ranks(flags, "--cluster", cluster->ndevices))) {
        if (flags->recompute >= 0)
            st = make(&s, job, plan, err);
        else
            st = mt_recompute_choose(&(struct mt_plan_maker){make, keep, &s}, job, flags->request.fixed.micro, plan,
                                     err);
    }
    const char *said = s.kept ? s.kept : s.remarks;
    if (!st && said) fputs(said, remarks);
    free(s.remarks);
    free(s.kept);
    mt_cluster_free(cluster);
    return st;
}
