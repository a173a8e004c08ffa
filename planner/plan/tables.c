/* The plan as typed tables: shares, memory, rows, collectives, prediction. */
#include "planner/plan/tables.h"

#include <math.h>
#include <string.h>

#include "kernels/base/text/ranks.h"
#include "kernels/base/text/units.h"
#include "planner/plan/overlapped.h"
#include "planner/plan/planned.h"

enum { SPLITS_SHOWN = 11 }; /* side by side */

static void cell_share(struct mt_table *t, int64_t size, int64_t sum) {
    mt_cell_int(t, size);
    mt_cell_real(t, sum ? (double)size / (double)sum : 0);
}

/* "3 x 8 + 2": whole micro-batches and what is left. */
static void cell_micro(struct mt_table *t, bool idle, int64_t share, int64_t micro) {
    if (idle)
        mt_cell_text(t, "idle");
    else if (!share)
        mt_cell_text(t, "-");
    else if (share % micro)
        mt_cell_text(t, "%lld x %lld + %lld", (long long)(share / micro), (long long)micro, (long long)(share % micro));
    else
        mt_cell_text(t, "%lld x %lld", (long long)(share / micro), (long long)micro);
}

/* Only where it is not the document's. */
static void say_order(const struct mt_plan *p, struct mt_tables *out) {
    bool rises = true;
    for (int i = 1; i < p->nplaces; i++) rises &= p->order[i] > p->order[i - 1];
    if (!rises)
        mt_tables_say(out, "  order of the ranks in the program: %s",
                      mt_ranks_text(p->order, p->nplaces, MT_RANKS_RANGES, &out->arena));
}

/* Another step's time, if it is known, and how much longer it is than the plan's: columns, and a row's cells. */
static void add_against(struct mt_table *t, const char *step) {
    mt_table_column(t, "step_s", step, MT_UNIT_SECONDS);
    mt_table_column(t, "against", "against this", MT_UNIT_CHANGE);
}
static void cell_against(struct mt_table *t, double other_s, double step_s) {
    mt_cell_positive(t, other_s);
    if (other_s > 0)
        mt_cell_real(t, other_s / step_s - 1);
    else
        mt_cell_blank(t);
}

/* Why ranks take no part, and what using them would cost. */
static void add_idle(const struct mt_plan *p, struct mt_tables *out) {
    const struct mt_plan_prediction *f = p->prediction;
    if (!f->nidle) return;
    struct mt_table *t = mt_tables_add(out, "idle", "idle ranks", "they join no message of the step");
    mt_table_column(t, "rank", "rank", MT_UNIT_COUNT);
    mt_table_column(t, "why", "why", MT_UNIT_TEXT);
    add_against(t, "best step that uses it");
    for (int i = 0; i < f->nidle; i++) {
        const struct mt_plan_idle *row = &f->idle[i];
        mt_table_row(t);
        mt_cell_int(t, row->rank);
        mt_cell_text(t, "%s", row->why);
        cell_against(t, row->step_s, f->step_s);
    }
    mt_table_fold(t, 1, "ranks");
}

/* ---- ranks ---- */

struct shown { /* columns that have something to say */
    bool hosts, classes, limits, reserved;
};

static struct shown shown_of(const struct mt_plan *p) {
    struct shown shown = {.hosts = p->ranks[0].host[0] != 0};
    for (int r = 0; r < p->nranks; r++) {
        shown.classes |= p->ranks[r].class[0] != 0;
        shown.limits |= p->ranks[r].memory_bytes > 0;
        shown.reserved |= p->ranks[r].reserved_bytes > 0;
    }
    return shown;
}

static struct mt_table *begin_ranks(const struct mt_plan *p, struct shown shown, struct mt_tables *out) {
    const char *batch = mt_plan_split_text(mt_plan_split_named(p, "batch"), &out->arena);
    const char *besides = shown.reserved ? "; besides: what a GPU needs for itself" : "";
    struct mt_table *t = mt_tables_add(
        out, "ranks", "ranks",
        mt_arena_printf(&out->arena, "speed is relative; the arena holds the state and all else%s", besides));
    mt_table_column(t, "rank", "rank", MT_UNIT_COUNT);
    mt_table_column(t, "host", "host", MT_UNIT_TEXT)->machines_only = !shown.hosts;
    mt_table_column(t, "class", "class", MT_UNIT_TEXT)->machines_only = !shown.classes;
    mt_table_columns(t, {"speed", "speed", MT_UNIT_NUMBER}, {"batch", batch, MT_UNIT_COUNT},
                     {"batch_part", "", MT_UNIT_FRACTION}, {"micro_batches", "micro-batches", MT_UNIT_TEXT});
    mt_table_column(t, "micro", "micro-batch", MT_UNIT_COUNT)->machines_only = true;
    mt_table_column(t, "state_bytes", "state", MT_UNIT_BYTES);
    mt_table_column(t, "arena_bytes", "arena", MT_UNIT_BYTES);
    mt_table_column(t, "memory_bytes", "of", MT_UNIT_BYTES)->machines_only = !shown.limits;
    mt_table_column(t, "reserved_bytes", "besides", MT_UNIT_BYTES)->machines_only = !shown.reserved;
    return t;
}

static void add_ranks(const struct mt_plan *p, struct mt_tables *out) {
    const struct mt_plan_split *batch = mt_plan_split_named(p, "batch");
    const int *place = mt_plan_places(p, &out->arena);
    struct mt_table *t = begin_ranks(p, shown_of(p), out);
    int64_t state = 0, arena = 0;
    for (int r = 0; r < p->nranks; r++) {
        mt_table_row(t);
        mt_cell_int(t, r);
        mt_cell_text(t, "%s", p->ranks[r].host);
        mt_cell_text(t, "%s", p->ranks[r].class);
        mt_cell_real(t, p->ranks[r].speed);
        cell_share(t, batch->sizes[r], p->job.batch);
        cell_micro(t, place[r] < 0, batch->sizes[r], p->micro[r]);
        mt_cell_int(t, p->micro[r]);
        mt_cell_int(t, p->memory[r].state_bytes);
        mt_cell_int(t, p->memory[r].arena_bytes);
        mt_cell_positive(t, (double)p->ranks[r].memory_bytes);
        mt_cell_int(t, p->ranks[r].reserved_bytes);
        state += p->memory[r].state_bytes;
        arena += p->memory[r].arena_bytes;
    }
    mt_table_fold(t, 2, "ranks");
    mt_table_total(t);
    mt_cell_word(t, "all");
    for (int c = 0; c < 3; c++) mt_cell_blank(t);
    mt_cell_int(t, p->job.batch);
    for (int c = 0; c < 3; c++) mt_cell_blank(t);
    mt_cell_int(t, state);
    mt_cell_int(t, arena);
    say_order(p, out);
}

/* ---- splits ---- */

/* What a rank's share of a split over devices is a part of. */
static int64_t host_sum(const struct mt_plan *p, const struct mt_plan_split *split, int rank) {
    int64_t sum = 0;
    for (int r = 0; r < p->nranks; r++)
        if (!strcmp(p->ranks[r].host, p->ranks[rank].host)) sum += split->sizes[r];
    return sum;
}

static void cell_of_split(const struct mt_plan *p, struct mt_table *t, const struct mt_plan_split *split, int rank) {
    bool devices = split->over == MT_OVER_DEVICE;
    int64_t sum = devices ? 0 : mt_plan_split_sum(p, split);
    if (rank < p->nranks) {
        cell_share(t, split->sizes[rank], devices ? host_sum(p, split, rank) : sum);
    } else if (devices) {
        mt_cell_blank(t);
        mt_cell_blank(t);
    } else {
        cell_share(t, sum, sum);
    }
}

static void add_some_splits(const struct mt_plan *p, const struct mt_plan_split *const *splits, int n,
                            struct mt_tables *out) {
    struct mt_arena *arena = &out->arena;
    struct mt_table *t = mt_tables_add(out, "splits", "splits of storage and other labels", "");
    mt_table_column(t, "rank", "rank", MT_UNIT_COUNT);
    for (int s = 0; s < n; s++) {
        const char *over = splits[s]->over == MT_OVER_ALL ? "" : mt_over_names[splits[s]->over];
        const char *key = mt_arena_printf(arena, "%s%s%s", splits[s]->name, *over ? "_over_" : "", over);
        mt_table_column(t, key, mt_plan_split_text(splits[s], arena), MT_UNIT_COUNT);
        mt_table_column(t, mt_arena_printf(arena, "%s_part", key), "", MT_UNIT_FRACTION);
    }
    mt_table_fold(t, 1, "ranks");
    for (int r = 0; r <= p->nranks; r++) {
        if (r < p->nranks) {
            mt_table_row(t);
            mt_cell_int(t, r);
        } else {
            mt_table_total(t);
            mt_cell_word(t, "all");
        }
        for (int s = 0; s < n; s++) cell_of_split(p, t, splits[s], r);
    }
}

/* One line a rank, as many splits side by side as a line has room for. */
static void add_splits(const struct mt_plan *p, struct mt_tables *out) {
    for (int first = 0; first < p->nsplits;) {
        const struct mt_plan_split *shown[SPLITS_SHOWN];
        int n = 0;
        for (; first < p->nsplits && n < SPLITS_SHOWN; first++)
            if (strcmp(p->splits[first].name, "batch")) shown[n++] = &p->splits[first];
        if (n) add_some_splits(p, shown, n, out);
    }
}

/* ---- decisions ---- */

static void add_rows(const struct mt_decisions *d, struct mt_tables *out) {
    struct mt_table *t = mt_tables_add(out, "rows", "rows", "the first that matches a name applies");
    t->bare = true;
    mt_table_columns(t, {"of", "of", MT_UNIT_TEXT}, {"pattern", "name", MT_UNIT_TEXT}, {"how", "how", MT_UNIT_TEXT});
    for (int i = 0; i < d->nrules; i++) {
        mt_table_row(t);
        mt_cell_text(t, "operators on samples");
        mt_cell_text(t, "%s", d->rules[i].pattern);
        mt_cell_text(t, "%s", mt_plan_rule_text(&d->rules[i], &out->arena));
    }
    for (int i = 0; i < d->nstorage; i++) {
        mt_table_row(t);
        mt_cell_text(t, "parameters, their state");
        mt_cell_text(t, "%s", d->storage[i].pattern);
        mt_cell_text(t, "%s", mt_plan_storage_text(&d->storage[i], &out->arena));
    }
}

/* Of one kind, the rows that others precede say from where on they hold. */
static void cell_size(struct mt_table *t, const struct mt_algorithm_row *rows, int i) {
    const struct mt_algorithm_row *row = &rows[i];
    char bytes[MT_UNITS_TEXT];
    bool first = true;
    for (int j = 0; j < i; j++) first &= rows[j].kind != row->kind;
    if (row->up_to_bytes)
        mt_cell_text(t, "up to %s", mt_units_bytes((double)row->up_to_bytes, bytes));
    else
        mt_cell_text(t, first ? "of any size" : "larger");
}

/* "staging at most 64.0 MiB, gradients by reduce_scatter, in buckets of 32.0 MiB". That no GEMM runs together with its
 * collective, whatever is decided, is said of the window (print.c). */
static const char *decisions_text(const struct mt_plan *p, struct mt_arena *arena) {
    const struct mt_decisions *d = &p->decisions;
    char bytes[MT_UNITS_TEXT];
    const char *text = "";
    if (d->staging_bytes)
        text = mt_arena_printf(arena, "staging at most %s, ", mt_units_bytes((double)d->staging_bytes, bytes));
    for (int i = 0; i < MT_NDECISIONS; i++) {
        const struct mt_decision *row = &mt_decision_table[i];
        int value = mt_decision_get(d, (enum mt_decision_id)i);
        bool idle = i == MT_DECISION_OVERLAPPED && !mt_plan_window_bytes(p);
        if (value >= 0 && value != row->omitted && !idle)
            text = mt_arena_printf(arena, "%s%s %s, ", text, row->what, row->words[value]);
    }
    if (!d->bucket_bytes) return mt_arena_printf(arena, "%sone by one", text);
    return mt_arena_printf(arena, "%sin buckets of %s", text, mt_units_bytes((double)d->bucket_bytes, bytes));
}

static void add_collectives(const struct mt_plan *p, struct mt_tables *out) {
    const struct mt_decisions *d = &p->decisions;
    struct mt_table *t = mt_tables_add(out, "collectives", "collectives", decisions_text(p, &out->arena));
    bool sized = false;
    for (int i = 0; i < d->nalgorithms; i++) sized |= d->algorithms[i].up_to_bytes > 0;
    t->bare = true;
    mt_table_column(t, "collective", "collective", MT_UNIT_TEXT);
    mt_table_column(t, "sizes", "sizes", MT_UNIT_TEXT)->machines_only = !sized;
    mt_table_column(t, "up_to_bytes", "up to", MT_UNIT_BYTES)->machines_only = true;
    mt_table_column(t, "algorithm", "algorithm", MT_UNIT_TEXT);
    mt_table_column(t, "types", "types", MT_UNIT_TEXT);
    for (int i = 0; i < d->nalgorithms; i++) {
        const struct mt_algorithm_row *row = &d->algorithms[i];
        mt_table_row(t);
        mt_cell_text(t, "%s", mt_coll_name(row->kind));
        cell_size(t, d->algorithms, i);
        mt_cell_positive(t, (double)row->up_to_bytes);
        mt_cell_text(t, "%s", row->algorithm);
        if (mt_coll_reduces(row->kind))
            mt_cell_text(t, "gradients as %s, summed in %s", mt_type_name(mt_plan_wire(p)),
                         mt_type_name(mt_type_acc(p->job.precision)));
        else
            mt_cell_text(t, "values in their own type");
    }
    if (!d->nalgorithms) mt_tables_say(out, "  none");
}

static struct mt_table *begin_overlapped(struct mt_tables *out) {
    struct mt_table *t = mt_tables_add(out, "overlapped", "overlapped",
                                       "GEMMs with their collectives, each of m by k by n, and how many run so");
    t->bare = true;
    mt_table_columns(t, {"form", "form", MT_UNIT_TEXT}, {"m", "m", MT_UNIT_COUNT}, {"k", "k", MT_UNIT_COUNT},
                     {"n", "n", MT_UNIT_COUNT}, {"gemms", "GEMMs", MT_UNIT_COUNT}, {"by", "by", MT_UNIT_TEXT});
    return t;
}

/* count: 0: it is not known, or they stay apart. */
static void add_gemms(struct mt_table *t, const struct mt_overlap_choice *row, int count, struct mt_arena *arena) {
    mt_table_row(t);
    mt_cell_text(t, "%s", mt_overlap_name(row->form));
    mt_cell_int(t, row->m);
    mt_cell_int(t, row->k);
    mt_cell_int(t, row->cols);
    mt_cell_positive(t, count);
    mt_cell_text(t, "%s", mt_overlap_choice_text(row, arena));
}

/* How GEMMs run with their collectives, by shape: as the plan's program has them, whether they have rows or not; then
 * rows of others. */
static void add_overlapped(const struct mt_plan *p, struct mt_tables *out) {
    const struct mt_decisions *d = &p->decisions;
    struct mt_overlapped_gemms found = {.count = 0};
    struct mt_planned planned;
    struct mt_err err = MT_ERR_INIT;
    if (d->overlapped <= MT_OVERLAPPED_NONE && !d->noverlaps) return;
    bool opened = !mt_planned_open(p, &planned, &err);
    if (opened) mt_overlapped_find(p, &planned.program, &out->arena, &found);
    struct mt_table *t = found.count || d->noverlaps ? begin_overlapped(out) : NULL;
    for (int i = 0; i < found.count; i++) add_gemms(t, &found.items[i].row, found.items[i].count, &out->arena);
    for (int i = 0; i < d->noverlaps; i++)
        if (!mt_overlapped_of_shape(&found, &d->overlaps[i]).count) add_gemms(t, &d->overlaps[i], 0, &out->arena);
    const char *vain = opened && found.count ? mt_overlapped_in_vain(p, &planned.program) : NULL;
    if (vain)
        mt_tables_say(out, "  %s has no effect: no GEMM of this plan can run together with such a collective", vain);
    if (!opened) mt_tables_say(out, "  other GEMMs that run so are not known here: %s", err.text);
    if (opened) mt_planned_release(&planned);
}

/* ---- prediction ---- */

static void cell_part(struct mt_table *t, double s, double whole) {
    mt_cell_real(t, s);
    mt_cell_real(t, s / whole);
}

static void add_times(const struct mt_plan *p, struct mt_tables *out) {
    static const char *const columns[][2] = {{"compute", "computing"}, {"exposed", "communicating"}, {"idle", "idle"}};
    const struct mt_plan_prediction *f = p->prediction;
    const int *place = mt_plan_places(p, &out->arena);
    struct mt_table *t =
        mt_tables_add(out, "times", "predicted step by rank", "communication as far as computing does not hide it");
    mt_table_column(t, "rank", "rank", MT_UNIT_COUNT);
    for (int c = 0; c < 3; c++) {
        mt_table_column(t, mt_arena_printf(&out->arena, "%s_s", columns[c][0]), columns[c][1], MT_UNIT_SECONDS);
        mt_table_column(t, mt_arena_printf(&out->arena, "%s_part", columns[c][0]), "", MT_UNIT_FRACTION)->decimals = 0;
    }
    for (int r = 0; r < p->nranks; r++) {
        mt_table_row(t);
        mt_cell_int(t, r);
        if (place[r] < 0) {
            mt_cell_word(t, "idle");
            continue;
        }
        cell_part(t, f->times[r].compute_s, f->step_s);
        cell_part(t, f->times[r].exposed_s, f->step_s);
        cell_part(t, f->times[r].idle_s, f->step_s);
    }
    mt_table_fold(t, 1, "ranks");
}

static void add_rejected(const struct mt_plan *p, struct mt_tables *out) {
    const struct mt_plan_prediction *f = p->prediction;
    if (!f->nrejected) return;
    struct mt_table *t = mt_tables_add(out, "rejected", "rejected alternatives", "");
    mt_table_column(t, "what", "what", MT_UNIT_TEXT);
    add_against(t, "step");
    mt_table_column(t, "why", "why", MT_UNIT_TEXT);
    for (int i = 0; i < f->nrejected; i++) {
        const struct mt_plan_rejected *row = &f->rejected[i];
        mt_table_row(t);
        mt_cell_text(t, "%s", row->what);
        cell_against(t, row->step_s, f->step_s);
        mt_cell_text(t, "%s", row->why);
    }
}

void mt_plan_add_tables(const struct mt_plan *plan, struct mt_tables *out) {
    add_ranks(plan, out);
    if (plan->prediction) add_idle(plan, out);
    if (plan->prediction) add_times(plan, out);
    add_splits(plan, out);
    add_rows(&plan->decisions, out);
    add_collectives(plan, out);
    add_overlapped(plan, out);
    if (plan->prediction) add_rejected(plan, out);
}
