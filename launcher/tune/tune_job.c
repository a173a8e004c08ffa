/* motley tune: build and lower the programs, tune their calls together, print the gains. */
#include "launcher/tune/tune_job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/text/plain_table.h"
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

/* ---- printing ---- */

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

static void shape_text(const struct mt_linstr *c, char *text, size_t room) {
    size_t used = 0;
    *text = 0;
    for (int i = 0; i < c->nin && used < room; i++) {
        used += (size_t)snprintf(text + used, room - used, "%s%s", i ? " " : "", mt_type_name(c->tensor[i].type));
        for (int a = 0; a < c->tensor[i].naxes && used < room; a++)
            used +=
                (size_t)snprintf(text + used, room - used, "%s%lld", a ? "x" : ":", (long long)c->tensor[i].extent[a]);
    }
    if (used >= room) strcpy(text + room - 4, "...");
}

static void time_cell(struct mt_plain_table *table, double seconds) {
    char text[MT_UNITS_TEXT];
    mt_plain_table_cell(table, "%s", seconds > 0 ? mt_units_seconds(seconds, text) : "-");
}

static void gain_cell(struct mt_plain_table *table, double before_s, double after_s) {
    if (before_s > 0 && after_s > 0)
        mt_plain_table_cell(table, "%+.1f%%", 100 * (before_s / after_s - 1));
    else
        mt_plain_table_cell(table, "-");
}

static void print_program(const struct mt_tuning_report *r, const struct mt_lowered *low, const char *title) {
    struct mt_plain_table table = MT_PLAIN_TABLE_INIT;
    mt_plain_table_header(&table, "operator", "of", ">runs", ">default", ">tuned", ">gain", ">vendor", ">in a step", "chosen",
                    NULL);
    double default_s = 0, tuned_s = 0;
    for (int i = 0; i < r->ncalls; i++) {
        const struct mt_tuned_call *c = &r->calls[i];
        const struct mt_linstr *instr = &low->instrs[c->instr];
        char shape[64];
        if (c->lowered != low || !c->known) continue;
        shape_text(instr, shape, sizeof shape);
        mt_plain_table_row(&table);
        mt_plain_table_cell(&table, "%s", mt_op_info[instr->kind].name);
        mt_plain_table_cell(&table, "%s", shape);
        mt_plain_table_cell(&table, "%lld", (long long)c->runs);
        time_cell(&table, c->tuning.default_s);
        time_cell(&table, c->tuning.tuned_s);
        gain_cell(&table, c->tuning.default_s, c->tuning.tuned_s);
        time_cell(&table, c->tuning.vendor_s);
        time_cell(&table, (double)c->runs * c->tuning.tuned_s);
        mt_plain_table_cell(&table, "%s", c->tuning.choice);
        default_s += (double)c->runs * c->tuning.default_s, tuned_s += (double)c->runs * c->tuning.tuned_s;
    }
    printf("\n%s\n", title);
    mt_plain_table_row(&table);
    mt_plain_table_cell(&table, "all");
    mt_plain_table_cell(&table, "%s", "");
    mt_plain_table_cell(&table, "%s", "");
    time_cell(&table, default_s);
    time_cell(&table, tuned_s);
    gain_cell(&table, default_s, tuned_s);
    mt_plain_table_print(&table, 2, stdout);
}

static void print_ranks(const struct totals *all, int n) {
    struct mt_plain_table table = MT_PLAIN_TABLE_INIT;
    mt_plain_table_header(&table, ">process", "device", ">calls", ">measured here", ">step, default", ">step, tuned", ">gain",
                    NULL);
    for (int p = 0; p < n; p++) {
        mt_plain_table_row(&table);
        mt_plain_table_cell(&table, "%d", p);
        mt_plain_table_cell(&table, "%s", all[p].device);
        mt_plain_table_cell(&table, "%d", all[p].ncalls);
        mt_plain_table_cell(&table, "%d", all[p].nmeasured);
        time_cell(&table, all[p].default_s);
        time_cell(&table, all[p].tuned_s);
        gain_cell(&table, all[p].default_s, all[p].tuned_s);
    }
    printf("\nprocesses (operators of a step, one after the other)\n");
    mt_plain_table_print(&table, 2, stdout);
}

static void print(const struct job *j, struct mt_tuning_report *r) {
    struct totals mine = {.ncalls = r->ncalls, .nmeasured = r->nmeasured},
                  *all = mt_malloc((size_t)j->nprocesses * sizeof *all);
    char time[MT_UNITS_TEXT], title[96];
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
        printf("%s\n%s: tuned in %s\n", mt_device_describe(j->device), j->options->plan,
               mt_units_seconds(r->time_s, time));
        for (int l = 0; l < j->nlowered && l < 2; l++) {
            snprintf(title, sizeof title, "%s, rank %d (operands in no cache; vendor: cuBLASLt's first choice)",
                     l ? "evaluation" : "training", j->plan->order[j->lowered[l]->rank]);
            print_program(r, j->lowered[l], title);
        }
        print_ranks(all, j->nprocesses);
        fflush(stdout);
    }
    free(all);
}

enum mt_status mt_tune_job(const struct mt_tune_options *options, struct mt_err *err) {
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
            printf("%s: there is nothing to tune: this device's kernels have no variants\n",
                   mt_device_describe(j.device));
    } else if (!st) {
        const struct mt_lowered *const *lowered = (const struct mt_lowered *const *)j.lowered;
        if (!(st = mt_tuning_share(MPI_COMM_WORLD, j.device, lowered, j.nlowered, &report, err))) print(&j, &report);
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
