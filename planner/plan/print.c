/* The plan as tables: shares, memory, rows, collectives, prediction. */
#include <string.h>

#include "kernels/base/text/ranks.h"
#include "kernels/base/text/plain_table.h"
#include "kernels/base/text/units.h"
#include "planner/plan/plan.h"

enum { MOST_REASONS = 4 };

const char *mt_plan_bound_space(const struct mt_plan *p) {
    bool samples = true;
    for (int i = 0; i < p->decisions.nrules; i++) {
        const struct mt_rule_row *row = &p->decisions.rules[i];
        samples &= row->operators != MT_OPERATORS_SPLIT || (!strcmp(row->split, "batch") && !row->levels.ninner);
    }
    for (int i = 0; i < p->decisions.nstorage; i++) samples &= !mt_storage_row_names_split(&p->decisions.storage[i]);
    samples &= !mt_decisions_in_step(&p->decisions);
    return samples ? "no plan for this model, batch, precision and recomputation that divides the samples over any of "
                     "these devices"
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

static void print_job(const struct mt_plan *p, FILE *file) {
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

static void cell_share(struct mt_plain_table *table, int64_t size, int64_t sum) {
    mt_plain_table_cell(table, "%lld", (long long)size);
    mt_plain_table_cell(table, "%.1f%%", sum ? 100.0 * (double)size / (double)sum : 0);
}

/* "3 x 8 + 2": whole micro-batches and what is left. */
static void cell_micro(struct mt_plain_table *table, bool idle, int64_t share, int64_t micro) {
    if (idle)
        mt_plain_table_cell(table, "idle");
    else if (!share)
        mt_plain_table_cell(table, "-");
    else if (share % micro)
        mt_plain_table_cell(table, "%lld x %lld + %lld", (long long)(share / micro), (long long)micro,
                      (long long)(share % micro));
    else
        mt_plain_table_cell(table, "%lld x %lld", (long long)(share / micro), (long long)micro);
}

/* Only where it is not the document's. */
static void print_order(const struct mt_plan *p, FILE *file) {
    struct mt_arena arena = MT_ARENA_INIT;
    bool rises = true;
    for (int i = 1; i < p->nplaces; i++) rises &= p->order[i] > p->order[i - 1];
    if (!rises)
        fprintf(file, "  order of the ranks in the program: %s\n",
                mt_ranks_text(p->order, p->nplaces, MT_RANKS_RANGES, &arena));
    mt_arena_release(&arena);
}

/* Another step's time, if it is known, and how much longer it is than the plan's. */
static void cell_against(struct mt_plain_table *table, double other_s, double step_s) {
    char time[MT_UNITS_TEXT];
    mt_plain_table_cell(table, "%s", other_s > 0 ? mt_units_seconds(other_s, time) : "-");
    if (other_s > 0)
        mt_plain_table_cell(table, "%+.1f%%", 100 * (other_s / step_s - 1));
    else
        mt_plain_table_cell(table, "%s", "");
}

/* Why ranks take no part, and what using them would cost. */
static void print_idle(const struct mt_plan *p, FILE *file) {
    const struct mt_plan_prediction *f = p->prediction;
    struct mt_plain_table table = MT_PLAIN_TABLE_INIT;
    if (!f->nidle) return;
    fprintf(file, "\nidle ranks (they join no message of the step)\n");
    mt_plain_table_header(&table, ">rank", "why", ">best step that uses it", ">against this", NULL);
    for (int i = 0; i < f->nidle; i++) {
        const struct mt_plan_idle *row = &f->idle[i];
        mt_plain_table_row(&table);
        mt_plain_table_cell(&table, "%d", row->rank);
        mt_plain_table_cell(&table, "%s", row->why);
        cell_against(&table, row->step_s, f->step_s);
    }
    mt_plain_table_fold(&table, 1, ">ranks");
    mt_plain_table_print(&table, 2, file);
}

static void print_ranks(const struct mt_plan *p, FILE *file) {
    const struct mt_plan_split *batch = mt_plan_split_named(p, "batch");
    struct mt_plain_table table = MT_PLAIN_TABLE_INIT;
    char bytes[MT_UNITS_TEXT];
    const int *place = mt_plan_places(p, &table.arena);
    bool hosts = p->ranks[0].host[0], classes = false, limits = false, reserved = false;
    for (int r = 0; r < p->nranks; r++) {
        classes |= p->ranks[r].class[0] != 0, limits |= p->ranks[r].memory_bytes > 0;
        reserved |= p->ranks[r].reserved_bytes > 0;
    }
    mt_plain_table_column(&table, ">rank");
    if (hosts) mt_plain_table_column(&table, "host");
    if (classes) mt_plain_table_column(&table, "class");
    mt_plain_table_column(&table, ">speed");
    mt_plain_table_column(&table, mt_arena_printf(&table.arena, ">%s", mt_plan_split_text(batch, &table.arena)));
    mt_plain_table_header(&table, ">", "micro-batches", ">state", ">arena", NULL);
    if (limits) mt_plain_table_column(&table, ">of");
    if (reserved) mt_plain_table_column(&table, ">besides");
    int64_t state = 0, arena = 0;
    for (int r = 0; r < p->nranks; r++) {
        mt_plain_table_row(&table);
        mt_plain_table_cell(&table, "%d", r);
        if (hosts) mt_plain_table_cell(&table, "%s", p->ranks[r].host);
        if (classes) mt_plain_table_cell(&table, "%s", p->ranks[r].class);
        mt_plain_table_cell(&table, "%.4g", p->ranks[r].speed);
        cell_share(&table, batch->sizes[r], p->job.batch);
        cell_micro(&table, place[r] < 0, batch->sizes[r], p->micro[r]);
        mt_plain_table_cell(&table, "%s", mt_units_bytes((double)p->memory[r].state_bytes, bytes));
        mt_plain_table_cell(&table, "%s", mt_units_bytes((double)p->memory[r].arena_bytes, bytes));
        if (p->ranks[r].memory_bytes)
            mt_plain_table_cell(&table, "%s", mt_units_bytes((double)p->ranks[r].memory_bytes, bytes));
        else if (reserved && limits)
            mt_plain_table_cell(&table, "-");
        if (reserved) mt_plain_table_cell(&table, "%s", mt_units_bytes((double)p->ranks[r].reserved_bytes, bytes));
        state += p->memory[r].state_bytes;
        arena += p->memory[r].arena_bytes;
    }
    mt_plain_table_fold(&table, 1 + hosts, ">ranks");
    mt_plain_table_row(&table);
    mt_plain_table_cell(&table, "all");
    for (int c = 0; c < hosts + classes + 1; c++) mt_plain_table_cell(&table, "%s", "");
    mt_plain_table_cell(&table, "%lld", (long long)p->job.batch);
    mt_plain_table_cell(&table, "%s", "");
    mt_plain_table_cell(&table, "%s", "");
    mt_plain_table_cell(&table, "%s", mt_units_bytes((double)state, bytes));
    mt_plain_table_cell(&table, "%s", mt_units_bytes((double)arena, bytes));
    fprintf(file, "\nranks (speed is relative; the arena holds the state and all else%s)\n",
            reserved ? "; besides: what a GPU needs for itself" : "");
    mt_plain_table_print(&table, 2, file);
    print_order(p, file);
}

static bool is_batch(const struct mt_plan_split *split) {
    return !strcmp(split->name, "batch");
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

/* What a rank's share of a split over devices is a part of. */
static int64_t host_sum(const struct mt_plan *p, const struct mt_plan_split *split, int rank) {
    int64_t sum = 0;
    for (int r = 0; r < p->nranks; r++)
        if (!strcmp(p->ranks[r].host, p->ranks[rank].host)) sum += split->sizes[r];
    return sum;
}

static void cell_of_split(const struct mt_plan *p, struct mt_plain_table *table, const struct mt_plan_split *split,
                          int rank) {
    bool devices = split->over == MT_OVER_DEVICE;
    int64_t sum = devices ? 0 : mt_plan_split_sum(p, split);
    if (rank < p->nranks) {
        cell_share(table, split->sizes[rank], devices ? host_sum(p, split, rank) : sum);
    } else if (devices) {
        mt_plain_table_cell(table, "%s", "");
        mt_plain_table_cell(table, "%s", "");
    } else {
        cell_share(table, sum, sum);
    }
}

/* One line a rank, as many splits side by side as a table has room for. */
static void print_splits(const struct mt_plan *p, FILE *file) {
    int most = (MT_PLAIN_TABLE_COLUMNS - 1) / 2;
    for (int first = 0; first < p->nsplits;) {
        struct mt_plain_table table = MT_PLAIN_TABLE_INIT;
        const struct mt_plan_split *shown[MT_PLAIN_TABLE_COLUMNS];
        int n = 0;
        for (; first < p->nsplits && n < most; first++)
            if (!is_batch(&p->splits[first])) shown[n++] = &p->splits[first];
        if (!n) return;
        mt_plain_table_column(&table, ">rank");
        for (int s = 0; s < n; s++) {
            mt_plain_table_column(&table, mt_arena_printf(&table.arena, ">%s", mt_plan_split_text(shown[s], &table.arena)));
            mt_plain_table_column(&table, ">");
        }
        for (int r = 0; r <= p->nranks; r++) {
            if (r == p->nranks) mt_plain_table_fold(&table, 1, ">ranks");
            mt_plain_table_row(&table);
            if (r < p->nranks)
                mt_plain_table_cell(&table, "%d", r);
            else
                mt_plain_table_cell(&table, "all");
            for (int s = 0; s < n; s++) cell_of_split(p, &table, shown[s], r);
        }
        fprintf(file, "\nsplits of storage and other labels\n");
        mt_plain_table_print(&table, 2, file);
    }
}

static void print_rows(const struct mt_decisions *d, FILE *file) {
    struct mt_plain_table table = MT_PLAIN_TABLE_INIT;
    fprintf(file, "\nrows (the first that matches a name applies)\n");
    for (int i = 0; i < d->nrules; i++) {
        mt_plain_table_row(&table);
        mt_plain_table_cell(&table, "operators on samples");
        mt_plain_table_cell(&table, "%s", d->rules[i].pattern);
        mt_plain_table_cell(&table, "%s", mt_plan_rule_text(&d->rules[i], &table.arena));
    }
    for (int i = 0; i < d->nstorage; i++) {
        mt_plain_table_row(&table);
        mt_plain_table_cell(&table, "parameters, their state");
        mt_plain_table_cell(&table, "%s", d->storage[i].pattern);
        mt_plain_table_cell(&table, "%s", mt_plan_storage_text(&d->storage[i], &table.arena));
    }
    mt_plain_table_print(&table, 2, file);
}

/* Of one kind, the rows that others precede say from where on they hold. */
static void cell_size(struct mt_plain_table *table, const struct mt_algorithm_row *rows, int i) {
    const struct mt_algorithm_row *row = &rows[i];
    char bytes[MT_UNITS_TEXT];
    bool first = true;
    for (int j = 0; j < i; j++) first &= rows[j].kind != row->kind;
    if (row->up_to_bytes)
        mt_plain_table_cell(table, "up to %s", mt_units_bytes((double)row->up_to_bytes, bytes));
    else
        mt_plain_table_cell(table, first ? "of any size" : "larger");
}

static void print_collectives(const struct mt_plan *p, FILE *file) {
    const struct mt_decisions *d = &p->decisions;
    char bytes[MT_UNITS_TEXT];
    fprintf(file, "\ncollectives (");
    if (d->staging_bytes) fprintf(file, "staging at most %s, ", mt_units_bytes((double)d->staging_bytes, bytes));
    for (int i = 0; i < MT_NDECISIONS; i++) {
        const struct mt_decision *row = &mt_decision_table[i];
        int value = mt_decision_get(d, (enum mt_decision_id)i);
        if (value >= 0 && value != row->omitted) fprintf(file, "%s %s, ", row->what, row->words[value]);
    }
    if (d->bucket_bytes)
        fprintf(file, "in buckets of %s)\n", mt_units_bytes((double)d->bucket_bytes, bytes));
    else
        fprintf(file, "one by one)\n");
    struct mt_plain_table table = MT_PLAIN_TABLE_INIT;
    bool sized = false;
    for (int i = 0; i < d->nalgorithms; i++) sized |= d->algorithms[i].up_to_bytes > 0;
    for (int i = 0; i < d->nalgorithms; i++) {
        const struct mt_algorithm_row *row = &d->algorithms[i];
        mt_plain_table_row(&table);
        mt_plain_table_cell(&table, "%s", mt_coll_name(row->kind));
        if (sized) cell_size(&table, d->algorithms, i);
        mt_plain_table_cell(&table, "%s", row->algorithm);
        if (mt_coll_reduces(row->kind))
            mt_plain_table_cell(&table, "gradients as %s, summed in %s", mt_type_name(mt_plan_wire(p)),
                          mt_type_name(mt_type_acc(p->job.precision)));
        else
            mt_plain_table_cell(&table, "values in their own type");
    }
    if (!d->nalgorithms) fprintf(file, "  none\n");
    mt_plain_table_print(&table, 2, file);
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

void mt_plan_print_summary(const struct mt_plan *p, FILE *file) {
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

static void cell_part(struct mt_plain_table *table, double s, double whole) {
    char time[MT_UNITS_TEXT];
    mt_plain_table_cell(table, "%s", mt_units_seconds(s, time));
    mt_plain_table_cell(table, "%.0f%%", 100 * s / whole);
}

static void print_times(const struct mt_plan *p, FILE *file) {
    const struct mt_plan_prediction *f = p->prediction;
    struct mt_plain_table table = MT_PLAIN_TABLE_INIT;
    const int *place = mt_plan_places(p, &table.arena);
    fprintf(file, "\npredicted step by rank (communication as far as computing does not hide it)\n");
    mt_plain_table_header(&table, ">rank", ">computing", ">", ">communicating", ">", ">idle", ">", NULL);
    for (int r = 0; r < p->nranks; r++) {
        mt_plain_table_row(&table);
        mt_plain_table_cell(&table, "%d", r);
        if (place[r] < 0) {
            mt_plain_table_cell(&table, "idle");
            continue;
        }
        cell_part(&table, f->times[r].compute_s, f->step_s);
        cell_part(&table, f->times[r].exposed_s, f->step_s);
        cell_part(&table, f->times[r].idle_s, f->step_s);
    }
    mt_plain_table_fold(&table, 1, ">ranks");
    mt_plain_table_print(&table, 2, file);
}

static void print_rejected(const struct mt_plan *p, FILE *file) {
    const struct mt_plan_prediction *f = p->prediction;
    struct mt_plain_table table = MT_PLAIN_TABLE_INIT;
    if (!f->nrejected) return;
    fprintf(file, "\nrejected alternatives\n");
    mt_plain_table_header(&table, "what", ">step", ">against this", "why", NULL);
    for (int i = 0; i < f->nrejected; i++) {
        const struct mt_plan_rejected *row = &f->rejected[i];
        mt_plain_table_row(&table);
        mt_plain_table_cell(&table, "%s", row->what);
        cell_against(&table, row->step_s, f->step_s);
        mt_plain_table_cell(&table, "%s", row->why);
    }
    mt_plain_table_print(&table, 2, file);
}

void mt_plan_print(const struct mt_plan *plan, FILE *file) {
    print_job(plan, file);
    mt_plan_print_summary(plan, file);
    print_ranks(plan, file);
    if (plan->prediction) print_idle(plan, file);
    if (plan->prediction) print_times(plan, file);
    print_splits(plan, file);
    print_rows(&plan->decisions, file);
    print_collectives(plan, file);
    if (plan->prediction) print_rejected(plan, file);
}
