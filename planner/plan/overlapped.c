/* Overlapped GEMMs of a plan, and rows that are about none. */
#include "planner/plan/overlapped.h"

#include <string.h>

#include "planner/plan/planned.h"
#include "synth/program/pair.h"

enum { MOST_LISTED = 6 };

static bool same_shape(const struct mt_overlap_choice *a, const struct mt_overlap_choice *b) {
    return a->form == b->form && a->m == b->m && a->cols == b->cols && a->k == b->k;
}

/* ---- what there is ---- */

static bool on_one_host(const struct mt_plan *plan, const int *host, const int *group, int n) {
    bool one = true;
    for (int i = 1; i < n; i++) one &= host[plan->order[group[i]]] == host[plan->order[group[0]]];
    return one;
}

static bool in_one_kernel(const struct mt_overlap *p, const bool transposed[3]) {
    bool all = mt_overlap_fused_few(p) || mt_overlap_fused_time(p->tile) > 0; /* its tiles are known */
    for (int i = 0; i < p->n && all; i++)
        all = mt_overlap_fused_serves(p, i, transposed[0], transposed[1], transposed[2]);
    return all;
}

/* The item of GEMMs that run so. */
static struct mt_overlapped_gemm *item_of(struct mt_overlapped_gemms *found, const struct mt_overlap *problem,
                                          struct mt_arena *arena) {
    const struct mt_overlap_choice row = mt_overlap_choice_of(problem);
    for (int i = 0; i < found->count; i++)
        if (mt_overlap_choice_equal(&found->items[i].row, &row)) return &found->items[i];
    mt_arena_grow(arena, &found->items, found->count, &found->capacity, sizeof *found->items);
    found->items[found->count] = (struct mt_overlapped_gemm){.row = row, .last = -1};
    return &found->items[found->count++];
}

/* One pair, in each group that runs it. */
static void add_pair(const struct mt_plan *plan, const int *host, const struct mt_program *program,
                     const struct mt_pairs *pairs, int i, struct mt_arena *arena, struct mt_overlapped_gemms *found) {
    const struct mt_pair *pair = &pairs->items[i];
    const int *group_of = program->blocks[pair->block].instrs[pair->collective].group;
    bool *seen = mt_new(arena, bool, program->nranks), transposed[3];
    mt_pair_transposes(program, pair, transposed);
    for (int r = 0; r < program->nranks; r++) {
        struct mt_overlap problem;
        int *group;
        if (seen[group_of[r]]) continue;
        seen[group_of[r]] = true;
        mt_pair_problem(program, pair, r, arena, &problem, &group);
        if (problem.n < 2) continue;
        struct mt_overlapped_gemm *item = item_of(found, &problem, arena);
        item->count += item->last != i;
        item->last = i;
        item->one_host |= on_one_host(plan, host, group, problem.n);
        item->one_kernel |= in_one_kernel(&problem, transposed);
    }
}

void mt_overlapped_find(const struct mt_plan *plan, const struct mt_program *program, struct mt_arena *arena,
                        struct mt_overlapped_gemms *found) {
    struct mt_pairs pairs;
    int nhosts, *host = mt_plan_hosts(plan, arena, &nhosts);
    *found = (struct mt_overlapped_gemms){0};
    mt_pairs_find(program, arena, &pairs);
    for (int i = 0; i < pairs.count; i++) add_pair(plan, host, program, &pairs, i, arena, found);
}

/* What the shape's GEMMs have in common, or what one of them has; count 0: there is none. */
struct mt_overlapped_gemm mt_overlapped_of_shape(const struct mt_overlapped_gemms *found,
                                                 const struct mt_overlap_choice *row) {
    struct mt_overlapped_gemm all = {.count = 0};
    for (int i = 0; i < found->count; i++) {
        const struct mt_overlapped_gemm *item = &found->items[i];
        if (!same_shape(&item->row, row)) continue;
        all.count += item->count;
        all.one_host |= item->one_host, all.one_kernel |= item->one_kernel;
    }
    return all;
}

/* ---- rows that are about none ---- */

struct matching {
    const struct mt_plan *plan;
    const struct mt_program *program;
    struct mt_arena arena;
    struct mt_overlapped_gemms found, together; /* with all rows; without those by which GEMMs stay apart */
    struct mt_err *err;
};

/* What there would be without some rows, those of `except` and, with `apart`, those by which GEMMs stay apart. */
enum { NO_ROW = -1, ALL_ROWS = -2 };
static struct mt_overlapped_gemms find_without(struct matching *m, int except, bool apart) {
    struct mt_program other = *m->program;
    struct mt_overlapped_gemms found;
    struct mt_overlap_choice *rows = mt_new(&m->arena, struct mt_overlap_choice, other.noverlaps);
    int n = 0;
    for (int i = 0; i < other.noverlaps && except != ALL_ROWS; i++)
        if (i != except && !(apart && other.overlaps[i].how == MT_OVERLAP_APART)) rows[n++] = other.overlaps[i];
    other.overlaps = rows, other.noverlaps = n;
    mt_overlapped_find(m->plan, &other, &m->arena, &found);
    return found;
}

static enum mt_status refuse_form(struct matching *m, int i) {
    const struct mt_decisions *d = &m->plan->decisions;
    const char *form = mt_overlap_form_names[d->overlaps[i].form];
    mt_fail(m->err, MT_EINPUT, "overlapped[%d].form: \"%s\" has no effect: gradients.overlapped is \"%s\"", i, form,
            mt_overlapped_names[d->overlapped]);
    return mt_err_hint(m->err, "remove the row, or let \"overlapped\" in \"gradients\" have %s too", form);
}

static enum mt_status refuse_by(struct matching *m, int i, const char *why, const char *instead) {
    mt_fail(m->err, MT_EINPUT, "overlapped[%d].by: \"%s\" has no effect: %s", i,
            mt_overlap_how_names[m->plan->decisions.overlaps[i].how], why);
    return mt_err_hint(m->err, "say %s, or remove the row", instead);
}

/* The hint lists what the row may have meant. */
static enum mt_status refuse_shape(struct matching *m, int i) {
    const struct mt_overlap_choice *row = &m->plan->decisions.overlaps[i];
    struct mt_overlapped_gemms all = find_without(m, ALL_ROWS, false);
    const char *name = mt_overlap_name(row->form), *list = "";
    int listed = 0;
    mt_fail(m->err, MT_EINPUT, "overlapped[%d]: has no effect: no %s of this plan is of m %lld, columns %lld, k %lld%s",
            i, name, (long long)row->m, (long long)row->cols, (long long)row->k,
            mt_overlapped_of_shape(&all, row).count ? ", and runs so" : "");
    for (int g = 0; g < all.count; g++) {
        const struct mt_overlap_choice *is = &all.items[g].row;
        if (is->form != row->form || listed == MOST_LISTED) continue;
        list = mt_arena_printf(&m->arena, "%s%s%lld by %lld by %lld", list, listed++ ? ", " : "", (long long)is->m,
                               (long long)is->cols, (long long)is->k);
    }
    if (!listed) return mt_err_hint(m->err, "it has none; remove the row");
    return mt_err_hint(m->err, "there are, m by columns by k: %s%s", list, listed == MOST_LISTED ? ", ..." : "");
}

/* Among CPUs each rank multiplies its tiles and puts them; what GPUs have several implementations for is `by`. */
static enum mt_status match_row(struct matching *m, int i) {
    const struct mt_overlap_choice *row = &m->plan->decisions.overlaps[i];
    bool chunks = row->how == MT_OVERLAP_CHUNKS, fused = row->how == MT_OVERLAP_FUSED;
    if (!((unsigned)m->plan->decisions.overlapped >> row->form & 1)) return refuse_form(m, i);
    if ((chunks || fused || row->how == MT_OVERLAP_NCCL) && strcmp(m->plan->device, "cuda"))
        return refuse_by(m, i, "only GPUs have it, and the plan is for CPUs", "\"any\" or \"apart\"");
    if (row->how == MT_OVERLAP_APART) {
        if (!m->together.items) m->together = find_without(m, NO_ROW, true);
        if (mt_overlapped_of_shape(&m->together, row).count) return MT_OK;
        struct mt_overlapped_gemms alone = find_without(m, i, false); /* as where a GEMM gathers and is scattered */
        return mt_overlapped_of_shape(&alone, row).count ? MT_OK : refuse_shape(m, i);
    }
    struct mt_overlapped_gemm is = mt_overlapped_of_shape(&m->found, row);
    if (!is.count) return refuse_shape(m, i);
    if ((chunks || fused) && !is.one_host)
        return refuse_by(m, i, "the GEMM is among several hosts, where GPUs do not reach each other's memory",
                         "\"nccl\", \"any\" or \"apart\"");
    if (fused && !is.one_kernel)
        return refuse_by(m, i, "one kernel has no such tiles, or serves no such types, extents or transposes",
                         "\"chunks\", \"nccl\", \"any\" or \"apart\"");
    return MT_OK;
}

enum mt_status mt_overlapped_match(struct mt_plan *plan, struct mt_program *program, bool another, struct mt_err *err) {
    struct mt_decisions *d = &plan->decisions;
    struct mt_err ignored = MT_ERR_INIT;
    struct matching m = {.plan = plan, .program = program, .err = another ? &ignored : err};
    struct mt_overlap_choice *rows = mt_new(&plan->arena, struct mt_overlap_choice, d->noverlaps);
    int n = 0;
    enum mt_status st = MT_OK;
    if (d->noverlaps) mt_overlapped_find(plan, program, &m.arena, &m.found);
    for (int i = 0; i < d->noverlaps && !st; i++) {
        st = match_row(&m, i);
        if (!st) rows[n++] = d->overlaps[i];
        if (another) st = MT_OK;
    }
    if (!st && n < d->noverlaps) {
        program->overlaps = d->overlaps = rows;
        d->noverlaps = program->noverlaps = n;
    }
    mt_arena_release(&m.arena);
    return st;
}

/* ---- forms that there are none of ---- */

const char *mt_overlapped_in_vain(const struct mt_plan *plan, const struct mt_program *program) {
    const struct mt_decisions *d = &plan->decisions;
    struct mt_program bare = *program;
    unsigned vain = 0, wanted = d->overlapped > 0 ? (unsigned)d->overlapped : 0;
    bare.noverlaps = 0; /* rows keep GEMMs apart that could run so */
    for (unsigned form = 0; form < MT_OVERLAP_NFORMS; form++)
        if (wanted >> form & 1 && !mt_pairs_any(&bare, (enum mt_overlap_form)form)) vain |= 1u << form;
    if (!vain || (d->overlapped == MT_OVERLAPPED_ALL && vain != wanted)) return NULL;
    return mt_overlapped_names[vain];
}

enum mt_status mt_overlapped_remark(const struct mt_plan *plan, struct mt_tables *remarks, struct mt_err *err) {
    struct mt_planned planned;
    if (plan->decisions.overlapped <= MT_OVERLAPPED_NONE) return MT_OK;
    enum mt_status st = mt_planned_open(plan, &planned, err);
    if (st) return st;
    const char *vain = mt_overlapped_in_vain(plan, &planned.program);
    if (vain)
        mt_tables_say(
            remarks, "overlap    %s has no effect: no GEMM of this plan can run together with such a collective", vain);
    mt_planned_release(&planned);
    return MT_OK;
}
