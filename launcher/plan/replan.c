/* Planning again what a run trained, by what its ranks were seen to do.
 *
 * Without a cluster, a rank's speed is the samples that it computed a second, and the batch is divided by that; all
 * else of the plan stays. With one, its devices' speeds are scaled by predicted over measured time of computing, and
 * the search decides anew. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "kernels/base/log.h"
#include "kernels/base/text/table.h"
#include "kernels/base/text/units.h"
#include "planner/balance/drift.h"
#include "launcher/plan/modes.h"
#include "planner/make/planning.h"
#include "launcher/run/run.h"
#include "planner/balance/split.h"
#include "profiler/describe/describe.h"

struct again {
    struct mt_plan_flags *flags;
    const char *run_path, *plan_path;
    struct mt_run_doc run;
    struct mt_plan *old;
    const int64_t *old_shares; /* of the batch */
    FILE *remarks;
    struct mt_err *err;
};

static bool is_folder(const char *path) {
    struct stat about;
    return !stat(path, &about) && S_ISDIR(about.st_mode);
}

static const char *beside(struct mt_arena *arena, const char *path, const char *name) {
    const char *slash = strrchr(path, '/');
    return slash ? mt_arena_printf(arena, "%.*s/%s", (int)(slash - path), path, name) : name;
}

/* The run and the plan that it ran, which must belong together and tell of steps that were timed. */
static enum mt_status open_run(struct again *a) {
    struct mt_arena *arena = &a->flags->arena;
    const char *from = a->flags->from;
    enum mt_status st;
    a->run_path = is_folder(from) ? mt_arena_printf(arena, "%s/run.json", from) : from;
    a->plan_path = beside(arena, a->run_path, "plan.json");
    if ((st = mt_run_read(a->run_path, &a->run, a->err))) return st;
    if ((st = mt_plan_read(a->plan_path, &a->old, a->err)))
        return mt_err_context(a->err, "the plan that the run of %s keeps beside it", a->run_path);
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

static double measured_s(const struct again *a, int rank) {
    return a->run.ranks[rank].step_compute_s;
}

static void print_shares(const struct again *a, const struct mt_plan *plan, const double *speeds, const char *title) {
    const int64_t *shares = mt_plan_split_named(plan, "batch")->sizes;
    struct mt_table table = MT_TABLE_INIT;
    char time[MT_UNITS_TEXT];
    mt_table_header(&table, ">rank", "host", ">computed in a step", ">share was", ">now", NULL);
    mt_table_column(&table, mt_arena_printf(&table.arena, ">%s", title));
    for (int r = 0; r < plan->nranks; r++) {
        mt_table_row(&table);
        mt_table_cell(&table, "%d", r);
        mt_table_cell(&table, "%s", a->run.ranks[r].host);
        mt_table_cell(&table, "%s", mt_units_seconds(measured_s(a, r), time));
        mt_table_cell(&table, "%lld", (long long)a->old_shares[r]);
        mt_table_cell(&table, "%lld", (long long)shares[r]);
        mt_table_cell(&table, "%.3g", speeds[r]);
    }
    mt_table_print(&table, 0, a->remarks);
}

/* from_s, to_s: by the same reckoning, the old plan and the new. */
static void print_gain(const struct again *a, double from_s, double to_s) {
    char from[MT_UNITS_TEXT], to[MT_UNITS_TEXT];
    if (to_s >= from_s * (1 - 1e-6))
        fprintf(a->remarks, "expected   no gain: steps take %s as they are\n", mt_units_seconds(from_s, from));
    else
        fprintf(a->remarks, "expected   %s a step instead of %s: %.0f%% faster\n", mt_units_seconds(to_s, to),
                mt_units_seconds(from_s, from), 100 * (from_s / to_s - 1));
}

/* ---- without a cluster ---- */

/* Samples a second relative to the fastest, three digits: speeds are for people too. A rank without samples has shown
 * nothing, and stays without. */
static void seen_speeds(const struct again *a, double *speeds) {
    double fastest = 0;
    for (int r = 0; r < a->run.nranks; r++) {
        speeds[r] = a->old_shares[r] ? (double)a->old_shares[r] / measured_s(a, r) : 0;
        if (speeds[r] > fastest) fastest = speeds[r];
    }
    for (int r = 0; r < a->run.nranks; r++) speeds[r] = round(1000 * speeds[r] / fastest) / 1000;
}

static enum mt_status by_seen_speeds(struct again *a, struct mt_plan **plan) {
    struct mt_plan *p;
    enum mt_status st = mt_plan_copy(a->old, &p, a->err);
    if (st) return st;
    double *speeds = mt_new(&a->flags->arena, double, p->nranks), *compute_s = mt_new(&p->arena, double, p->nranks);
    struct mt_plan_split *batch = NULL;
    for (int s = 0; s < p->nsplits; s++)
        if (!strcmp(p->splits[s].name, "batch")) batch = &p->splits[s];
    seen_speeds(a, speeds);
    p->made_by = "motley " MOTLEY_VERSION;
    p->prediction = NULL; /* it was of other shares */
    st = mt_split_proportional(p->job.batch, batch->align, speeds, p->nranks, batch->sizes, a->err);
    for (int r = 0; r < p->nranks; r++) {
        bool whole = p->micro[r] == a->old_shares[r];
        if (a->old_shares[r]) p->ranks[r].speed = speeds[r];
        if (whole || p->micro[r] > batch->sizes[r]) p->micro[r] = batch->sizes[r];
        compute_s[r] = measured_s(a, r);
    }
    if (!st) st = mt_plan_derive(p, a->err);
    if (st) {
        mt_plan_free(p);
        return st;
    }
    print_shares(a, p, speeds, "speed seen");
    print_gain(a, a->run.step_s, mt_drift_step_after(p->nranks, a->old_shares, batch->sizes, compute_s, a->run.step_s));
    *plan = p;
    return MT_OK;
}

/* ---- with a cluster ---- */

/* The old plan's step on the planning's cluster. */
static enum mt_status price_old(const struct again *a, struct mt_planning *planning, struct mt_plan **priced) {
    struct mt_search_report report;
    enum mt_status st = mt_plan_copy(a->old, priced, a->err);
    if (st) return st;
    strcpy((*priced)->cluster_hash, planning->cluster->hash);
    if ((st = mt_search_price(&planning->search, *priced, &report, a->err)))
        mt_plan_free(*priced);
    else
        mt_search_report_release(&report);
    return st;
}

/* The cluster with devices as fast as they were seen; factors[nranks] is what its speeds were multiplied by. */
static enum mt_status scale(const struct again *a, struct mt_planning *planning, struct mt_cluster *seen,
                            double *factors) {
    struct mt_plan *priced;
    enum mt_status st = price_old(a, planning, &priced);
    if (st) return st;
    for (int r = 0; r < a->run.nranks; r++) {
        factors[r] = a->old_shares[r] ? priced->prediction->times[r].compute_s / measured_s(a, r) : 1;
        seen->devices[r].speed *= factors[r];
    }
    mt_plan_free(priced);
    seen->source = "edited";
    seen->description = mt_arena_printf(&seen->arena, "%s%sspeeds as a run of plan %s saw them", seen->description,
                                        seen->description[0] ? "; " : "", a->old->hash);
    if ((st = mt_cluster_check(seen, a->err))) return st;
    if (a->flags->cluster_out) return mt_cluster_write(seen, a->flags->cluster_out, a->err);
    mt_log(MT_LOG_WARN, "the plan is for the cluster with the speeds that were seen, which no file keeps: give "
                        "--cluster-out FILE to explain or to check the plan later");
    size_t length;
    free(mt_cluster_text(seen, &length)); /* its hash */
    return MT_OK;
}

static enum mt_status search_seen(const struct again *a, struct mt_planning *planning, const double *factors,
                                  struct mt_plan **plan) {
    struct mt_plan *before, *p = mt_planning_plan(planning);
    struct mt_search_report report;
    enum mt_status st = price_old(a, planning, &before);
    if (st) goto out;
    planning->search.last = before;
    planning->search.limit_s = a->flags->limit_s;
    if (!(st = mt_search(&planning->search, p, &report, a->err))) {
        mt_plan_print_summary(p, a->remarks);
        mt_planning_print_binding(&report, a->remarks);
        mt_search_report_release(&report);
        print_shares(a, p, factors, "as fast as profiled");
        print_gain(a, before->prediction->step_s, p->prediction->step_s);
        *plan = p;
    }
    mt_plan_free(before);
out:
    if (st) mt_plan_free(p);
    return st;
}

/* Rank r of the run is device r of the cluster. */
static enum mt_status same_devices(const struct again *a, const struct mt_cluster *cluster) {
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

static enum mt_status on_cluster(struct again *a, struct mt_plan **plan) {
    struct mt_cluster *cluster, *seen = NULL;
    struct mt_planning planning;
    enum mt_status st = mt_cluster_open(a->flags->cluster, &cluster, a->err);
    if (st) return st;
    if (!(st = same_devices(a, cluster)) &&
        !(st = mt_planning_open(cluster, a->old->model, &a->old->job, &planning, a->err))) {
        double *factors = mt_new(&a->flags->arena, double, a->run.nranks);
        seen = mt_cluster_copy(cluster);
        if (!(st = scale(a, &planning, seen, factors))) {
            mt_planning_move(&planning, seen);
            st = search_seen(a, &planning, factors, plan);
        }
        mt_planning_close(&planning);
    }
    mt_cluster_free(seen);
    mt_cluster_free(cluster);
    return st;
}

enum mt_status mt_plan_replan(struct mt_plan_flags *flags, struct mt_plan **plan, FILE *remarks, struct mt_err *err) {
    struct again a = {.flags = flags, .remarks = remarks, .err = err};
    enum mt_status st = open_run(&a);
    if (!st) st = flags->cluster ? on_cluster(&a, plan) : by_seen_speeds(&a, plan);
    mt_plan_free(a.old);
    mt_run_release(&a.run);
    return st;
}
