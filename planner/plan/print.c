/* The plan in sentences: its job, what is predicted, who is idle; and rows as text. Its tables are in tables.c. */
#include <math.h>
#include <string.h>

#include "kernels/base/text/ranks.h"
#include "kernels/base/text/units.h"
#include "planner/plan/tables.h"

enum { MOST_REASONS = 4 };

const char *mt_plan_bound_space(const struct mt_plan *p) {
    bool samples = p->decisions.overlapped <= MT_OVERLAPPED_NONE; /* else messages count for nothing */
    for (int i = 0; i < p->decisions.nrules; i++) {
        const struct mt_rule_row *row = &p->decisions.rules[i];
        samples &= row->operators != MT_OPERATORS_SPLIT || (!strcmp(row->split, "batch") && !row->levels.ninner);
    }
    for (int i = 0; i < p->decisions.nstorage; i++) samples &= !mt_storage_row_names_split(&p->decisions.storage[i]);
    samples &= !mt_decisions_in_step(&p->decisions);
    return samples ? "no plan for this model, batch, precision and recomputation that divides the samples over any of "
                     "these devices and overlaps no GEMM"
                   : "no plan for this model, batch, precision and recomputation, however it divides the work over "
                     "these devices,";
}

const char *const mt_plan_left_out = "left out by --use";

/* On the rank where they take most. */
static void print_communicators(const struct mt_plan *p, FILE *file) {
    int most = 0;
    char bytes[MT_UNITS_TEXT];
    for (int r = 1; r < p->nranks; r++)
        if (p->memory[r].communicator_bytes > p->memory[most].communicator_bytes) most = r;
    if (p->memory[most].communicator_bytes)
        fprintf(file, "NCCL       its communicators take up to %s beside the arena (rank %d), by public figures\n",
                mt_units_bytes((double)p->memory[most].communicator_bytes, bytes), most);
}

static void print_window(const struct mt_plan *p, FILE *file) {
    int64_t bytes = mt_plan_window_bytes(p);
    char text[MT_UNITS_TEXT];
    if (bytes)
        fprintf(file, "window     %s on each rank beside the arena, for GEMMs that run together with collectives\n",
                mt_units_bytes((double)bytes, text));
    else if (p->decisions.overlapped > MT_OVERLAPPED_NONE)
        fprintf(file,
                "window     none: no GEMM of this plan runs together with its collective (\"overlapped\" is \"%s\")\n",
                mt_overlapped_names[p->decisions.overlapped]);
}

static void say_job(const struct mt_plan *p, FILE *file) {
    const struct mt_job *j = &p->job;
    const struct mt_optimizer *o = &j->optimizer;
    char number[MT_UNITS_TEXT];
    fprintf(file, "plan       %s, by %s\n", p->hash, p->made_by);
    if (p->cluster_hash[0]) fprintf(file, "cluster    %s\n", p->cluster_hash);
    fprintf(file, "model      %s\n", p->model);
    fprintf(file, "           %s parameters", mt_units_count((double)p->parameters, number));
    fprintf(file, ", %s flop a step\n", mt_units_count(p->flops_per_step, number));
    fprintf(file, "job        %lld samples of %lld a step, %lld steps, %s, seed %llu, dropout %g%s%s%s\n",
            (long long)j->batch, (long long)j->seq, (long long)j->steps, mt_type_name(j->precision),
            (unsigned long long)j->seed, j->dropout, j->recompute ? ", recomputing " : "",
            j->recompute ? mt_recompute_names[j->recompute] : "",
            j->any_order ? ", attention's gradients in any order" : "");
    if (strcmp(p->device, "cpu")) fprintf(file, "devices    %s\n", p->device);
    print_communicators(p, file);
    print_window(p, file);
    fprintf(file, "optimizer  %s, learning rate %g", mt_optimizer_names[o->kind], o->lr);
    if (o->schedule != MT_LR_CONSTANT) fprintf(file, " to %g (%s)", o->lr_min, mt_schedule_names[o->schedule]);
    if (o->warmup) fprintf(file, ", %lld steps of warm-up", (long long)o->warmup);
    if (o->kind == MT_ADAMW)
        fprintf(file, ", beta %g %g, eps %g", o->beta1, o->beta2, o->eps);
    else
        fprintf(file, ", %smomentum %g", o->nesterov ? "Nesterov " : "", o->momentum);
    fprintf(file, ", weight decay %g, ", o->decay);
    if (o->clip > 0)
        fprintf(file, "clipped at norm %g\n", o->clip);
    else
        fprintf(file, "not clipped\n");
}

const char *mt_plan_split_text(const struct mt_plan_split *split, struct mt_arena *arena) {
    if (split->over == MT_OVER_ALL) return split->name;
    return mt_arena_printf(arena, "%s over %ss", split->name, mt_over_names[split->over]);
}

/* " by batch", " by batch over hosts, heads within them", " within hosts by: heads, ffn (second)". */
static const char *levels_text(const char *split, const struct mt_row_levels *levels, struct mt_arena *arena) {
    const char *text = "", *none = "nothing";
    if (split && split[0]) text = mt_arena_printf(arena, " by %s", split);
    if (levels->occurrence > 1) text = mt_arena_printf(arena, "%s (axis %d of its label)", text, levels->occurrence);
    if (!levels->ninner) return text;
    text = mt_arena_printf(arena, "%s, within hosts by", text);
    for (int i = 0; i < levels->ninner; i++)
        text = mt_arena_printf(arena, "%s%s %s", text, i ? "," : "", levels->inner[i][0] ? levels->inner[i] : none);
    if (levels->inner_occurrence > 1)
        text = mt_arena_printf(arena, "%s (axis %d of its label)", text, levels->inner_occurrence);
    return text;
}

const char *mt_plan_rule_text(const struct mt_rule_row *row, struct mt_arena *arena) {
    const char *levels = levels_text(row->split, &row->levels, arena);
    return mt_arena_printf(arena, "%s%s", mt_operators_names[row->operators], levels);
}

const char *mt_plan_storage_text(const struct mt_storage_row *row, struct mt_arena *arena) {
    return mt_arena_printf(arena, "%s%s", mt_state_names[row->state], levels_text(row->split, &row->levels, arena));
}

/* Ranks that a person leaves out are not in the bound's space. */
static const char *bound_exception(const struct mt_plan_prediction *f) {
    for (int i = 0; i < f->nidle; i++)
        if (!strcmp(f->idle[i].why, mt_plan_left_out)) return ", but for those left out by --use,";
    return "";
}

static void summarize_reason(const struct mt_plan_prediction *f, const struct mt_plan_idle *first, const int *ranks,
                             int n, struct mt_arena *arena, FILE *file) {
    fprintf(file, "idle       rank%s %s", n == 1 ? "" : "s", mt_ranks_text(ranks, n, MT_RANKS_RANGES, arena));
    if (first) fprintf(file, ": %s", first->why);
    if (first && first->step_s > 1.0005 * f->step_s) fprintf(file, " (%+.1f%%)", 100 * (first->step_s / f->step_s - 1));
    fputc('\n', file);
}

/* "idle       ranks 0 2: slower with it: 13.1 ms instead of 1.05 ms (+3.2%)": a line for each of the first few reasons,
 * the last for the ranks that are left. */
static void summarize_idle(const struct mt_plan *p, FILE *file) {
    const struct mt_plan_prediction *f = p->prediction;
    struct mt_arena arena = MT_ARENA_INIT;
    const int *place = mt_plan_places(p, &arena);
    bool *said = mt_new(&arena, bool, p->nranks);
    int *ranks = mt_new(&arena, int, p->nranks), n, reasons = 0;
    for (int i = 0; i < f->nidle && reasons < MOST_REASONS; i++) {
        const struct mt_plan_idle *first = &f->idle[i];
        if (said[first->rank]) continue;
        n = 0;
        for (int j = i; j < f->nidle; j++)
            if (f->idle[j].step_s == first->step_s && !strcmp(f->idle[j].why, first->why))
                said[ranks[n++] = f->idle[j].rank] = true;
        summarize_reason(f, first, ranks, n, &arena, file);
        reasons++;
    }
    n = 0;
    for (int r = 0; r < p->nranks; r++)
        if (place[r] < 0 && !said[r]) ranks[n++] = r;
    if (n) summarize_reason(f, NULL, ranks, n, &arena, file);
    mt_arena_release(&arena);
}

static void say_summary(const struct mt_plan *p, FILE *file) {
    const struct mt_plan_prediction *f = p->prediction;
    char step[MT_UNITS_TEXT], least[MT_UNITS_TEXT], most[MT_UNITS_TEXT], bound[MT_UNITS_TEXT], rate[MT_UNITS_TEXT];
    if (p->hypothetical[0]) fprintf(file, "cannot run here: %s\n", p->hypothetical);
    if (!f) return;
    double below = f->error_below < 1 ? f->error_below : 1;
    fprintf(file, "predicted  %s a step (%s to %s, -%.0f%% +%.0f%%)", mt_units_seconds(f->step_s, step),
            mt_units_seconds(f->step_s * (1 - below), least), mt_units_seconds(f->step_s * (1 + f->error), most),
            100 * below, 100 * f->error);
    fprintf(file, ", %s tokens/s%s\n", mt_units_count((double)(p->job.batch * p->job.seq) / f->step_s, rate),
            f->nominal ? "; nominal: it rests on public figures that were not measured" : "");
    if (f->bound_s > 0)
        fprintf(file, "bound      %s, the gap is %.1f%%: %s%s is faster\n", mt_units_seconds(f->bound_s, bound),
                100 * (f->step_s / f->bound_s - 1), mt_plan_bound_space(p), bound_exception(f));
    else
        fprintf(file, "bound      none: the devices' rates are not known\n");
    summarize_idle(p, file);
}

/* ---- the same in numbers ---- */

static void put_prediction(const struct mt_plan *p, struct mt_tables *out) {
    const struct mt_plan_prediction *f = p->prediction;
    struct mt_table *t = mt_tables_add_values(out, "prediction");
    mt_table_put_real(t, "step_s", MT_UNIT_SECONDS, f->step_s);
    mt_table_put_real(t, "error_below", MT_UNIT_FRACTION, f->error_below);
    mt_table_put_real(t, "error", MT_UNIT_FRACTION, f->error);
    mt_table_put_real(t, "tokens_per_s", MT_UNIT_QUANTITY, (double)(p->job.batch * p->job.seq) / f->step_s);
    mt_table_put_text(t, "figures", f->nominal ? "nominal" : "measured");
    mt_table_put_real(t, "bound_s", MT_UNIT_SECONDS, f->bound_s > 0 ? f->bound_s : NAN);
    mt_table_put_real(t, "gap", MT_UNIT_FRACTION, f->bound_s > 0 ? f->step_s / f->bound_s - 1 : NAN);
}

static void put_job(const struct mt_plan *p, struct mt_tables *out) {
    const struct mt_job *j = &p->job;
    struct mt_table *t = mt_tables_add_values(out, "plan");
    mt_table_put_text(t, "hash", "%s", p->hash);
    mt_table_put_text(t, "made_by", "%s", p->made_by);
    mt_table_put_text(t, "cluster_hash", "%s", p->cluster_hash);
    mt_table_put_text(t, "model", "%s", p->model);
    mt_table_put_real(t, "parameters", MT_UNIT_QUANTITY, (double)p->parameters);
    mt_table_put_real(t, "flops_per_step", MT_UNIT_QUANTITY, p->flops_per_step);
    mt_table_put_real(t, "batch", MT_UNIT_COUNT, (double)j->batch);
    mt_table_put_real(t, "seq", MT_UNIT_COUNT, (double)j->seq);
    mt_table_put_real(t, "steps", MT_UNIT_COUNT, (double)j->steps);
    mt_table_put_text(t, "precision", "%s", mt_type_name(j->precision));
    mt_table_put_text(t, "device", "%s", p->device);
    mt_table_put_text(t, "optimizer", "%s", mt_optimizer_names[j->optimizer.kind]);
    mt_table_put_text(t, "recompute", "%s", mt_recompute_names[j->recompute]);
    mt_table_put_text(t, "cannot_run", "%s", p->hypothetical);
    mt_table_put_real(t, "ranks", MT_UNIT_COUNT, p->nranks);
    mt_table_put_real(t, "ranks_that_work", MT_UNIT_COUNT, p->nplaces);
}

void mt_plan_summary(const struct mt_plan *plan, struct mt_tables *out) {
    say_summary(plan, mt_tables_say_begin(out));
    mt_tables_say_end(out);
    if (plan->prediction) put_prediction(plan, out);
}

void mt_plan_tables(const struct mt_plan *plan, struct mt_tables *out) {
    say_job(plan, mt_tables_say_begin(out));
    mt_tables_say_end(out);
    put_job(plan, out);
    mt_plan_summary(plan, out);
    mt_plan_add_tables(plan, out);
}
