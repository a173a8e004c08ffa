/* Replanning: the run and its plan are read, the plan is made again, and the gain is printed. */
#include <string.h>

#include "kernels/base/file.h"
#include "kernels/base/log.h"
#include "kernels/base/text/units.h"
#include "launcher/plan/modes.h"
#include "launcher/run/run.h"

struct replanning {
    struct mt_plan_flags *flags;
    const char *run_path, *plan_path;
    struct mt_run_doc run;
    struct mt_plan *old;
    const int64_t *old_shares; /* of the batch */
    struct mt_tables *remarks;
    struct mt_err *err;
};

static const char *sibling(struct mt_arena *arena, const char *path, const char *name) {
    const char *slash = strrchr(path, '/');
    return slash ? mt_arena_printf(arena, "%.*s/%s", (int)(slash - path), path, name) : name;
}

/* The run and its plan, which must belong together; the run must have timed steps. */
static enum mt_status open_run(struct replanning *a) {
    struct mt_arena *arena = &a->flags->arena;
    const char *from = a->flags->from;
    enum mt_status st;
    a->run_path = mt_is_folder(from) ? mt_arena_printf(arena, "%s/run.json", from) : from;
    a->plan_path = sibling(arena, a->run_path, "plan.json");
    if ((st = mt_run_read(a->run_path, &a->run, a->err))) return st;
    if ((st = mt_plan_read(a->plan_path, &a->old, a->err)))
        return mt_err_context(a->err, "the plan in the folder of %s", a->run_path);
    a->old_shares = mt_plan_split_named(a->old, "batch")->sizes;
    if (strcmp(a->old->hash, a->run.plan_hash))
        return mt_fail(a->err, MT_EINPUT, "%s: plan_hash: the run is of another plan (%s) than %s (%s)", a->run_path,
                       a->run.plan_hash, a->plan_path, a->old->hash);
    if (a->run.nranks != a->old->nranks)
        return mt_fail(a->err, MT_EINPUT, "%s: ranks: has %d, but its plan has %d", a->run_path, a->run.nranks,
                       a->old->nranks);
    for (int r = 0; r < a->run.nranks; r++) {
        bool works = a->old_shares[r] > 0;
        if (a->run.ranks[r].samples != a->old_shares[r])
            return mt_fail(a->err, MT_EINPUT, "%s: ranks[%d].samples: is %lld, but its plan gives the rank %lld",
                           a->run_path, r, (long long)a->run.ranks[r].samples, (long long)a->old_shares[r]);
        if (a->run.step_s > 0 && (!works || a->run.ranks[r].step_compute_s > 0)) continue;
        mt_fail(a->err, MT_EINPUT, "%s: the run has no times of steps", a->run_path);
        return mt_err_hint(a->err, "it must have trained some steps");
    }
    return MT_OK;
}

static double measured_s(const struct replanning *a, int rank) {
    return a->run.ranks[rank].step_compute_s;
}

static void add_shares(const struct replanning *a, const struct mt_plan *plan, const double *speeds,
                       const char *title) {
    const int64_t *shares = mt_plan_split_named(plan, "batch")->sizes;
    struct mt_table *t = mt_tables_add(a->remarks, "shares", "", "");
    t->indent = 0;
    mt_table_columns(t, {"rank", "rank", MT_UNIT_COUNT}, {"host", "host", MT_UNIT_TEXT},
                     {"compute_s", "computed in a step", MT_UNIT_SECONDS}, {"share_was", "share was", MT_UNIT_COUNT},
                     {"share", "now", MT_UNIT_COUNT}, {"speed", title, MT_UNIT_NUMBER});
    for (int r = 0; r < plan->nranks; r++) {
        mt_table_row(t);
        mt_cell_int(t, r);
        mt_cell_text(t, "%s", a->run.ranks[r].host);
        mt_cell_real(t, measured_s(a, r));
        mt_cell_int(t, a->old_shares[r]);
        mt_cell_int(t, shares[r]);
        mt_cell_real(t, speeds[r]);
    }
    mt_table_fold(t, 2, "ranks");
}

/* from_s, to_s: steps of the old plan and of the new, by the same model. */
static void say_gain(const struct replanning *a, double from_s, double to_s) {
    char from[MT_UNITS_TEXT], to[MT_UNITS_TEXT];
    struct mt_table *t = mt_tables_add_values(a->remarks, "gain");
    mt_table_put_real(t, "step_was_s", MT_UNIT_SECONDS, from_s);
    mt_table_put_real(t, "step_s", MT_UNIT_SECONDS, to_s);
    if (to_s >= from_s * (1 - 1e-6))
        mt_tables_say(a->remarks, "expected   no gain: steps take %s as they are", mt_units_seconds(from_s, from));
    else
        mt_tables_say(a->remarks, "expected   %s a step instead of %s: %.0f%% faster", mt_units_seconds(to_s, to),
                      mt_units_seconds(from_s, from), 100 * (from_s / to_s - 1));
}

/* Rank r of the run is device r of the cluster. */
static enum mt_status same_devices(const struct replanning *a, const struct mt_cluster *cluster) {
    if (cluster->ndevices != a->run.nranks)
        return mt_fail(a->err, MT_EINPUT, "--cluster: has %d devices, but the run had %d ranks", cluster->ndevices,
                       a->run.nranks);
    for (int r = 0; r < a->run.nranks; r++) {
        const char *was = a->old->ranks[r].class, *is = cluster->classes[cluster->devices[r].class].name;
        if (was[0] && strcmp(was, is))
            return mt_fail(a->err, MT_EINPUT,
                           "--cluster: its device %d is a \"%.60s\", but rank %d of the run was a "
                           "\"%.60s\"",
                           r, is, r, was);
    }
    return MT_OK;
}

/* The cluster with the speeds that were seen is what the plan is for. */
static enum mt_status keep_cluster(const struct replanning *a, struct mt_cluster *seen) {
    if (a->flags->cluster_out) return mt_cluster_write(seen, a->flags->cluster_out, a->err);
    mt_log(MT_LOG_WARN, "the plan is for the cluster with the speeds that were seen, which no file keeps: give "
                        "--cluster-out FILE to explain or to check the plan later");
    return MT_OK;
}

static enum mt_status plan_again(const struct replanning *a, struct mt_plan **plan) {
    const struct mt_plan_flags *f = a->flags;
    int nranks = a->run.nranks;
    double *compute_s = mt_new(&a->flags->arena, double, nranks);
    struct mt_replanned re = {.speeds = mt_new(&a->flags->arena, double, nranks)};
    struct mt_plan_seen seen = {compute_s, a->run.step_s, f->request.fixed.use, f->request.fixed.used};
    enum mt_status st;
    for (int r = 0; r < nranks; r++) compute_s[r] = measured_s(a, r);
    if (f->opened) {
        if (!(st = same_devices(a, f->opened)) &&
            !(st = mt_replan_cluster(a->old, &seen, f->opened, f->limit_s, &re, a->err)) &&
            !(st = keep_cluster(a, re.cluster)))
            st = mt_plan_print_found(re.found.plan, re.cluster, NULL, a->remarks, a->err);
    } else {
        st = mt_replan_shares(a->old, &seen, &re, a->err);
    }
    if (!st) {
        add_shares(a, re.found.plan, re.speeds, f->opened ? "as fast as profiled" : "speed seen");
        say_gain(a, re.before_s, re.after_s);
        *plan = re.found.plan;
        re.found.plan = NULL;
    }
    mt_cluster_free(re.cluster);
    mt_plan_found_release(&re.found);
    return st;
}

enum mt_status mt_plan_replan(struct mt_plan_flags *flags, struct mt_plan **plan, struct mt_tables *remarks,
                              struct mt_err *err) {
    struct replanning a = {.flags = flags, .remarks = remarks, .err = err};
    enum mt_status st = open_run(&a);
    if (!st) st = plan_again(&a, plan);
    mt_plan_free(a.old);
    mt_run_release(&a.run);
    return st;
}
