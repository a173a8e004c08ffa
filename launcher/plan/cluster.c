/* A plan for a cluster, by the search. */
#include <math.h>
#include <string.h>

#include "kernels/base/working.h"
#include "kernels/base/text/units.h"
#include "launcher/plan/modes.h"
#include "launcher/plan/planning_line.h"
#include "planner/plan/tables.h"
#include "planner/review/bottleneck.h"
#include "profiler/describe/describe.h"

/* Whether gradients are to be reduced after each of several micro-batches, and there is one. */
static bool reduces_in_vain(const struct mt_plan *plan, const struct mt_decisions *fixed) {
    const int64_t *shares = mt_plan_split_named(plan, "batch")->sizes;
    bool several = false;
    for (int r = 0; r < plan->nranks; r++) several |= shares[r] > plan->micro[r];
    return (fixed->reduced == MT_REDUCED_NODE || fixed->reduced == MT_REDUCED_MICRO_BATCH) && !several;
}

enum mt_status mt_plan_by_speeds(struct mt_plan_flags *flags, struct mt_plan **plan, struct mt_tables *remarks,
                                 struct mt_err *err) {
    (void)remarks;
    const char *device = flags->request.device;
    if (device && !strcmp(device, "cuda") && flags->request.job.precision == MT_F64)
        return mt_fail(err, MT_EINPUT, "--precision f64: runs on CPUs only, but --device is cuda");
    enum mt_status st = mt_plan_make(&flags->request, plan, err);
    if (st || !reduces_in_vain(*plan, &flags->request.fixed.decisions)) return st;
    mt_plan_free(*plan);
    *plan = NULL;
    mt_fail(err, MT_EINPUT, "--reduce: has no use with one micro-batch, whose gradients are reduced once");
    return mt_err_hint(err, "--micro makes several");
}

enum mt_status mt_plan_print_found(const struct mt_plan *plan, const struct mt_cluster *cluster,
                                   const struct mt_plan_fixed *fixed, struct mt_tables *remarks, struct mt_err *err) {
    struct mt_bottlenecks found;
    char text[MT_BOTTLENECK_TEXT];
    mt_plan_summary(plan, remarks);
    enum mt_status st = mt_bottlenecks_of(cluster, plan, fixed, MT_BOTTLENECKS_GLANCE, &found, err);
    if (st) return st;
    mt_tables_say(remarks, "binds      %s", mt_bottlenecks_text(&found, text));
    struct mt_table *t = mt_tables_find(remarks, "prediction");
    if (t) mt_table_put_text(t, "binds", "%s", text);
    mt_bottlenecks_release(&found);
    return MT_OK;
}

static void add_strategies(const struct mt_plan_found *found, struct mt_tables *remarks) {
    double step_s = found->plan->prediction->step_s;
    struct mt_table *t =
        mt_tables_add(remarks, "strategies", "strategies", "the fastest plan of each, as --strategy finds it");
    t->bare = true;
    mt_table_columns(t, {"strategy", "strategy", MT_UNIT_TEXT}, {"step_s", "step", MT_UNIT_SECONDS},
                     {"against", "against this", MT_UNIT_CHANGE}, {"why", "why not", MT_UNIT_TEXT});
    for (int i = 0; i < found->nstrategies; i++) {
        const struct mt_plan_rejected *r = &found->strategies[i];
        mt_table_row(t);
        mt_cell_text(t, "%s", r->what);
        mt_cell_positive(t, r->step_s);
        mt_cell_real(t, r->step_s > 0 ? r->step_s / step_s - 1 : NAN);
        mt_cell_text(t, "%s", r->step_s > 0 ? "" : r->why);
    }
}

/* Why the plan that the search began at is faster than what it found: what it was not allowed to keep. */
static const char *why_lost(const struct mt_plan_request *request, const struct mt_plan *plan, struct mt_arena *arena) {
    const struct mt_plan *last = request->last;
    bool others = false; /* take part */
    for (int r = 0; r < plan->nranks; r++) others |= (mt_plan_place(last, r) < 0) != (mt_plan_place(plan, r) < 0);
    if (request->strategy) return mt_arena_printf(arena, "this one keeps to --strategy %s", request->strategy->name);
    if (others && request->fixed.use >= MT_USE_ALL) return "this one keeps to --use";
    if (mt_plan_wire(last) != mt_plan_wire(plan))
        return mt_arena_printf(arena, "it sends gradients as %s, which only --gradient-wire chooses",
                               mt_type_name(mt_plan_wire(last)));
    if (request->memory_bytes) return "this one keeps to --memory";
    return mt_arena_printf(arena, "by a prediction of %s that is not made again", last->made_by);
}

static void say_last(const struct mt_plan_request *request, const struct mt_plan *plan, const char *out,
                     struct mt_tables *remarks) {
    char before[MT_UNITS_TEXT];
    struct mt_arena arena = MT_ARENA_INIT;
    const struct mt_plan_prediction *f = request->last->prediction;
    double ratio = f ? plan->prediction->step_s / f->step_s : 1;
    if (!f) {
        mt_tables_say(remarks, "start      the plan that was in %s", out);
        return;
    }
    mt_tables_say(
        remarks, "start      the plan that was in %s, predicted %s: %s", out, mt_units_seconds(f->step_s, before),
        ratio < 1 - 1e-6   ? "this one is faster"
        : ratio < 1 + 1e-6 ? "nothing faster was found"
                           : mt_arena_printf(&arena, "it was faster, but %s", why_lost(request, plan, &arena)));
    mt_arena_release(&arena);
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

static void say_understood(const struct mt_cluster *cluster, struct mt_tables *remarks) {
    struct mt_arena arena = MT_ARENA_INIT;
    const char *text = mt_cluster_understood(cluster, &arena);
    if (*text) mt_tables_say(remarks, "cluster    %s", text);
    mt_arena_release(&arena);
}

static enum mt_status check_micro(const struct mt_plan_fixed *fixed, int nranks, struct mt_err *err) {
    for (int r = 0; fixed->micro && r < nranks; r++)
        if (!fixed->micro[r] && !(fixed->shares && !fixed->shares[r]))
            return mt_fail(err, MT_EINPUT, "--micro: is 0 for rank %d, which may have samples", r);
    return MT_OK;
}

/* A cap on what each rank may use. The plan's ranks have it as their memory; the cluster is the same one. */
static void cap_memory(struct mt_cluster *cluster, const int64_t *most_bytes) {
    for (int r = 0; r < cluster->ndevices && most_bytes; r++) {
        int64_t *has = &cluster->devices[r].memory_bytes;
        if (!*has || most_bytes[r] < *has) *has = most_bytes[r];
    }
}

enum mt_status mt_plan_for_cluster(struct mt_plan_flags *flags, struct mt_plan **plan, struct mt_tables *remarks,
                                   struct mt_err *err) {
    const struct mt_cluster *cluster = flags->opened;
    struct mt_plan_request *request = &flags->request;
    struct mt_plan_found found;
    enum mt_status st;
    if ((st = check_kinds(cluster, flags->cluster, err)) ||
        (st = mt_plan_flags_ranks(flags, "--cluster", cluster->ndevices)) ||
        (st = check_micro(&request->fixed, cluster->ndevices, err)))
        return st;
    cap_memory(flags->opened, request->memory_bytes);
    struct mt_planning_line line;
    mt_working_begin("planning");
    request->watch = mt_planning_line_begin(&line, flags->limit_s);
    st = mt_plan_fastest(cluster, request, &found, err);
    mt_working_end();
    if (st) return st;
    say_understood(cluster, remarks);
    if (request->hypothetical && !found.plan->hypothetical[0])
        mt_tables_say(remarks, "the plan is not hypothetical: its devices run it");
    if ((st = mt_plan_print_found(found.plan, cluster, &request->fixed, remarks, err))) {
        mt_plan_found_release(&found);
        return st;
    }
    if (request->compare) add_strategies(&found, remarks);
    if (found.began_at_last) say_last(request, found.plan, flags->out, remarks);
    if (found.limited)
        mt_tables_say(remarks,
                      "limit      --limit ended the search after %g s: with more time it may find a faster plan",
                      flags->limit_s);
    if (request->job.recompute < 0 && found.plan->job.recompute > MT_RECOMPUTE_NONE)
        mt_tables_say(remarks, "recompute  %s: the fastest plan that fits into memory",
                      mt_recompute_names[found.plan->job.recompute]);
    mt_job_flags_say_precision(&flags->job, flags->opened, remarks);
    *plan = found.plan;
    mt_search_report_release(&found.report);
    return MT_OK;
}
