/* motley tune: build and lower the programs, tune their calls together, print the gains. */
#include "launcher/tune/tune_job.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/text/units.h"
#include "kernels/device/device.h"
#include "launcher/session/agree.h"
#include "planner/plan/planned.h"
#include "launcher/session/rank_device.h"
#include "launcher/tune/tuning.h"
#include "launcher/watch/watch.h"

struct job {
    const struct mt_tune_options *options;
    int rank, nprocesses;
    struct mt_plan *plan;
    struct mt_planned planned;
    struct mt_graph forward_graph;
    struct mt_program forward;
    struct mt_device *device;
    struct mt_lowered **lowered; /* train and forward programs of each of this process's ranks */
    int nlowered;
};

static enum mt_status refuse_processes(const struct job *j, struct mt_err *err) {
    int n = j->plan->nplaces;
    const char *some = n == j->plan->nranks ? "" : n == 1 ? " that takes part" : " that take part";
    mt_fail(err, MT_EINPUT, "%s: the plan is for %d rank%s%s, but %d processes were started", j->options->plan, n,
            n == 1 ? "" : "s", some, j->nprocesses);
    return mt_err_hint(err, "start it with `mpirun -n %d`%s", n, *some ? ": idle ranks have nothing to tune" : "");
}

static enum mt_status read_plan(struct job *j, struct mt_err *err) {
    mt_watch_phase(MT_WATCH_SLOW, "reading the plan");
    enum mt_status st = mt_agree(MPI_COMM_WORLD, mt_plan_read(j->options->plan, &j->plan, err), err);
    if (st || (st = mt_agree_same(MPI_COMM_WORLD, "the plan", j->plan->hash, err))) return st;
    if (j->nprocesses > j->plan->nplaces) st = refuse_processes(j, err);
    if (!st) st = mt_emulation_check(&j->options->emulation, j->nprocesses, j->options->device, err);
    if (!st && (st = mt_planned_open(j->plan, &j->planned, err))) mt_err_context(err, "%s", j->options->plan);
    if (!st) st = mt_planned_evaluation(&j->planned, &j->forward_graph, &j->forward, err);
    return mt_agree(MPI_COMM_WORLD, st, err);
}

static enum mt_status lower(struct job *j, struct mt_err *err) {
    double speed;
    enum mt_status st = mt_emulation_apply(&j->options->emulation, j->rank, j->device, &speed, err);
    if (st) return st;
    j->lowered = mt_calloc(2 * (size_t)j->plan->nplaces, sizeof *j->lowered);
    for (int r = j->rank; r < j->plan->nplaces && !st; r += j->nprocesses) {
        struct mt_lower_options options = mt_planned_lower_options(j->device);
        struct mt_lowered **low = &j->lowered[j->nlowered];
        if ((st = mt_lower(&j->planned.program, r, &options, &low[0], err))) break;
        j->nlowered++;
        options.states = low[0];
        if (!(st = mt_lower(&j->forward, r, &options, &low[1], err))) j->nlowered++;
    }
    return st;
}

/* ---- tables ---- */

/* Of the training step of this process's first rank. */
struct totals {
    double default_s, tuned_s;
    int ncalls, nmeasured;
    char device[128];
};

static int by_time(const void *a, const void *b) {
    const struct mt_tuned_call *x = a, *y = b;
    double left = (double)x->runs * x->tuning.tuned_s, right = (double)y->runs * y->tuning.tuned_s;
    return (left < right) - (left > right);
}

static void shape_text(const struct mt_tensor *in, int nin, char *text, size_t room) {
    size_t used = 0;
    *text = 0;
    for (int i = 0; i < nin && used < room; i++) {
        used += (size_t)snprintf(text + used, room - used, "%s%s", i ? " " : "", mt_type_name(in[i].type));
        for (int a = 0; a < in[i].naxes && used < room; a++)
            used += (size_t)snprintf(text + used, room - used, "%s%lld", a ? "x" : ":", (long long)in[i].extent[a]);
    }
    if (used >= room) strcpy(text + room - 4, "...");
}

/* How much faster; none where a time is not known. */
static void cell_gain(struct mt_table *t, double before_s, double after_s) {
    double gain = before_s > 0 && after_s > 0 ? before_s / after_s - 1 : NAN;
    mt_cell_real(t, gain);
    if (gain > 0.01) mt_cell_style(t, MT_STYLE_BETTER);
}

static void add_program(const struct mt_tuning_report *r, const struct mt_lowered *low, const char *name,
                        const char *title, struct mt_tables *out) {
    static const char note[] = "operands in no cache; vendor: cuBLASLt's first choice";
    double default_s = 0, tuned_s = 0;
    struct mt_table *t = mt_tables_add(out, name, title, note);
    mt_table_columns(t, {"operator", "operator", MT_UNIT_TEXT}, {"of", "of", MT_UNIT_TEXT},
                     {"runs", "runs", MT_UNIT_COUNT}, {"default_s", "default", MT_UNIT_SECONDS},
                     {"tuned_s", "tuned", MT_UNIT_SECONDS}, {"gain", "gain", MT_UNIT_CHANGE},
                     {"vendor_s", "vendor", MT_UNIT_SECONDS}, {"step_s", "in a step", MT_UNIT_SECONDS},
                     {"chosen", "chosen", MT_UNIT_TEXT});
    for (int i = 0; i < r->ncalls; i++) {
        const struct mt_tuned_call *c = &r->calls[i];
        const struct mt_linstr *instr = &low->instrs[c->instr];
        char shape[64];
        if (c->lowered != low || !c->known) continue;
        shape_text(c->gemm ? c->gemm->in : instr->tensor, c->gemm ? c->gemm->call.nin : instr->nin, shape,
                   sizeof shape);
        mt_table_row(t);
        mt_cell_text(t, "%s", mt_op_info[c->gemm ? c->gemm->call.kind : instr->kind].name);
        mt_cell_text(t, "%s", shape);
        mt_cell_int(t, c->runs);
        mt_cell_positive(t, c->tuning.default_s);
        mt_cell_positive(t, c->tuning.tuned_s);
        cell_gain(t, c->tuning.default_s, c->tuning.tuned_s);
        mt_cell_positive(t, c->tuning.vendor_s);
        mt_cell_positive(t, (double)c->runs * c->tuning.tuned_s);
        mt_cell_text(t, "%s", c->tuning.choice);
        default_s += (double)c->runs * c->tuning.default_s, tuned_s += (double)c->runs * c->tuning.tuned_s;
    }
    mt_table_total(t);
    mt_cell_text(t, "all");
    mt_cell_blank(t);
    mt_cell_blank(t);
    mt_cell_positive(t, default_s);
    mt_cell_positive(t, tuned_s);
    cell_gain(t, default_s, tuned_s);
}

static void add_processes(const struct totals *all, int n, struct mt_tables *out) {
    struct mt_table *t = mt_tables_add(out, "processes", "processes", "operators of a step, one after the other");
    mt_table_columns(t, {"process", "process", MT_UNIT_COUNT}, {"device", "device", MT_UNIT_TEXT},
                     {"calls", "calls", MT_UNIT_COUNT}, {"measured", "measured here", MT_UNIT_COUNT},
                     {"default_s", "step, default", MT_UNIT_SECONDS}, {"tuned_s", "step, tuned", MT_UNIT_SECONDS},
                     {"gain", "gain", MT_UNIT_CHANGE});
    for (int p = 0; p < n; p++) {
        mt_table_row(t);
        mt_cell_int(t, p);
        mt_cell_text(t, "%s", all[p].device);
        mt_cell_int(t, all[p].ncalls);
        mt_cell_int(t, all[p].nmeasured);
        mt_cell_positive(t, all[p].default_s);
        mt_cell_positive(t, all[p].tuned_s);
        cell_gain(t, all[p].default_s, all[p].tuned_s);
    }
    mt_table_fold(t, 1, "processes");
}

static void tell(const struct job *j, struct mt_tuning_report *r, struct mt_tables *out) {
    struct totals mine = {.ncalls = r->ncalls, .nmeasured = r->nmeasured},
                  *all = mt_malloc((size_t)j->nprocesses * sizeof *all);
    char time[MT_UNITS_TEXT];
    snprintf(mine.device, sizeof mine.device, "%.*s", (int)strcspn(mt_device_describe(j->device), ","),
             mt_device_describe(j->device));
    for (int i = 0; i < r->ncalls; i++) {
        const struct mt_tuned_call *c = &r->calls[i];
        if (c->lowered != j->lowered[0]) continue;
        mine.default_s += (double)c->runs * c->tuning.default_s, mine.tuned_s += (double)c->runs * c->tuning.tuned_s;
    }
    MPI_Gather(&mine, (int)sizeof mine, MPI_BYTE, all, (int)sizeof mine, MPI_BYTE, 0, MPI_COMM_WORLD);
    if (!j->rank) {
        qsort(r->calls, (size_t)r->ncalls, sizeof *r->calls, by_time);
        mt_tables_say(out, "%s\n%s: tuned in %s", mt_device_describe(j->device), j->options->plan,
                      mt_units_seconds(r->time_s, time));
        for (int l = 0; l < j->nlowered && l < 2; l++) {
            const char *name = l ? "evaluation" : "training";
            int rank = j->plan->order[j->lowered[l]->rank];
            add_program(r, j->lowered[l], name, mt_arena_printf(&out->arena, "%s, rank %d", name, rank), out);
        }
        add_processes(all, j->nprocesses, out);
    }
    free(all);
}

enum mt_status mt_tune_job(const struct mt_tune_options *options, struct mt_tables *out, struct mt_err *err) {
    struct job j = {.options = options};
    struct mt_tuning_report report = {.calls = NULL};
    MPI_Comm_rank(MPI_COMM_WORLD, &j.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &j.nprocesses);
    enum mt_status st = read_plan(&j, err);
    if (!st) st = mt_rank_device_open(MPI_COMM_WORLD, options->device, &j.device, err);
    if (!st) {
        mt_watch_phase(MT_WATCH_SLOW, "lowering the program");
        st = mt_agree(MPI_COMM_WORLD, lower(&j, err), err);
    }
    if (!st && !mt_device_tuner(j.device)) {
        if (!j.rank)
            mt_tables_say(out, "%s: there is nothing to tune: this device's kernels have no variants",
                          mt_device_describe(j.device));
    } else if (!st) {
        const struct mt_lowered *const *lowered = (const struct mt_lowered *const *)j.lowered;
        if (!(st = mt_tuning_share(MPI_COMM_WORLD, j.device, lowered, j.nlowered, &report, err)))
            tell(&j, &report, out);
        mt_tuning_report_release(&report);
    }
    for (int l = 0; l < j.nlowered; l++) mt_lowered_free(j.lowered[l]);
    free(j.lowered);
    mt_device_close(j.device);
    if (j.forward.graph) mt_program_release(&j.forward);
    mt_planned_release(&j.planned);
    mt_plan_free(j.plan);
    return st;
}
