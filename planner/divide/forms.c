/* Forms of overlapped instructions: each is tried with a row for every shape, then without rows that do not help. */
#include "planner/divide/forms.h"

#include <math.h>
#include <string.h>

#include "planner/plan/choice.h"
#include "planner/predict/overlapped.h"
#include "synth/program/pair.h"

/* What a shape that stays apart must make of the step at most; other rows likewise. */
static const double worth_parting = 0.999;
enum { MOST_PARTED = 16 }; /* at most so many shapes are tried apart */

/* ---- who may ---- */

static bool all_cpus(const struct mt_costs *costs) {
    const struct mt_cluster *cluster = costs->cluster;
    bool all = true;
    for (int r = 0; r < costs->nranks; r++)
        all &= !strcmp(cluster->classes[cluster->devices[costs->device[r]].class].kind, "cpu");
    return all;
}

bool mt_forms_are_known(const struct mt_costs *costs) {
    const struct mt_cluster *cluster = costs->cluster;
    bool measured = false;
    for (int l = 0; l < cluster->nlinks; l++)
        measured |= mt_cluster_has_puts(&cluster->links[l]) && !cluster->links[l].nominal;
    return measured || all_cpus(costs);
}

double mt_forms_least_s(const struct mt_costs *costs, double compute_s) {
    const struct mt_cluster *cluster = costs->cluster;
    double slowdown = 0;
    for (int l = 0; l < cluster->nlinks; l++) slowdown = fmax(slowdown, cluster->links[l].compute_slowdown);
    return compute_s / (1 + slowdown);
}

static bool fits(const struct mt_prediction *prediction, const struct mt_plan *plan) {
    for (int i = 0; i < plan->nplaces; i++) {
        int64_t limit = plan->ranks[plan->order[i]].memory_bytes;
        if (limit && mt_rank_needs_bytes(&prediction->ranks[i]) > limit) return false;
    }
    return true;
}

/* ---- rows ---- */

struct rows {
    struct mt_arena arena;
    struct mt_overlap_choice *items;
    int count, capacity;
    int given;  /* the first ones are of the plan's other forms, and stay as they are */
    bool asked; /* a person wants the forms, all that the plan has; else `form` is tried */
    enum mt_overlap_form form;
};

/* Begin with the plan's rows of other forms. */
static void keep_rows(struct rows *rows, const struct mt_decisions *d) {
    for (int i = 0; i < d->noverlaps; i++) {
        if (d->overlaps[i].form == rows->form) continue;
        mt_arena_grow(&rows->arena, &rows->items, rows->count, &rows->capacity, sizeof *rows->items);
        rows->items[rows->count++] = d->overlaps[i];
    }
    rows->given = rows->count;
}

static struct mt_overlap_choice *row_for(struct rows *rows, const struct mt_overlap *problem) {
    for (int i = 0; i < rows->count; i++)
        if (mt_overlap_choice_is_for(&rows->items[i], problem)) return &rows->items[i];
    return NULL;
}

/* The row of the pair's shape, for the group that begins with this rank. Unless a person asks for overlap, a shape
 * stays apart if any of its groups spans several hosts, or has no measured puts. */
static enum mt_status add_row(struct rows *rows, const struct mt_program *program, const struct mt_costs *costs,
                              const struct mt_pair *pair, int rank, struct mt_err *err) {
    struct mt_overlap problem, best;
    bool transposed[3];
    double best_s;
    int *group;
    mt_pair_problem(program, pair, rank, &rows->arena, &problem, &group);
    if (group[0] != rank || problem.n < 2) return MT_OK;
    struct mt_overlap_choice *row = row_for(rows, &problem);
    if (!rows->asked && !mt_predict_puts_measured(costs, group, problem.n)) {
        problem.how = MT_OVERLAP_APART;
        if (row) return *row = mt_overlap_choice_of(&problem), MT_OK;
    }
    if (row) return MT_OK;
    best = problem;
    mt_pair_transposes(program, pair, transposed);
    enum mt_status st = MT_OK;
    if (problem.how != MT_OVERLAP_APART)
        st = mt_predict_overlap_choice(costs, &problem, group, transposed, &rows->arena, &best, &best_s, err);
    if (st) return st;
    mt_arena_grow(&rows->arena, &rows->items, rows->count, &rows->capacity, sizeof *rows->items);
    rows->items[rows->count++] = mt_overlap_choice_of(&best);
    return MT_OK;
}

/* A row for each shape of the plan's overlapped GEMMs. Where groups of ranks have one shape with different shares, the
 * row is made for the first group. */
static enum mt_status choose_rows(const struct mt_costs *costs, const struct mt_program *program, struct rows *rows,
                                  struct mt_err *err) {
    struct mt_pairs pairs;
    enum mt_status st = MT_OK;
    mt_pairs_find(program, &rows->arena, &pairs);
    for (int i = 0; i < pairs.count && !st; i++)
        for (int r = 0; r < program->nranks && !st; r++) st = add_row(rows, program, costs, &pairs.items[i], r, err);
    return st;
}

/* ---- the plan with rows ---- */

struct trial { /* a plan with other decisions than it has */
    const struct mt_forms *forms;
    struct mt_plan *plan;
    struct mt_program program;
    struct mt_prediction prediction;
    bool built, priced;
};

static void release_trial(struct trial *t) {
    if (t->built) mt_program_release(&t->program);
    mt_arena_release(&t->prediction.arena);
    t->built = t->priced = false;
}

static enum mt_status build(struct trial *t, struct mt_err *err) {
    release_trial(t);
    t->prediction = (struct mt_prediction){.step_s = 0};
    enum mt_status st = mt_program_from_plan(t->forms->graph, t->plan, false, &t->program, err);
    t->built = !st;
    return st;
}

static enum mt_status predict(struct trial *t, struct mt_err *err) {
    enum mt_status st = mt_predict(&t->program, t->forms->costs, t->forms->options, &t->prediction, err);
    t->priced = !st;
    return st;
}

/* MT_EINPUT if the program has a message that the plan's algorithms cannot run: one within a host, where they go by
 * hosts. */
static enum mt_status price(struct trial *t, struct mt_err *err) {
    enum mt_status st = build(t, err);
    return st ? st : predict(t, err);
}

/* Price the plan with rows; a shape that runs as devices do by themselves needs none. */
static enum mt_status price_rows(struct trial *t, struct rows *rows, struct mt_err *err) {
    struct mt_decisions *d = &t->plan->decisions;
    d->overlaps = mt_new(&rows->arena, struct mt_overlap_choice, rows->count);
    d->noverlaps = 0;
    for (int i = 0; i < rows->count; i++)
        if (rows->items[i].how != MT_OVERLAP_ANY) d->overlaps[d->noverlaps++] = rows->items[i];
    return price(t, err);
}

/* Keep one shape after the other apart, where that makes the step faster. `t` is priced before, with all rows, and
 * again at the end. */
static enum mt_status part(struct trial *t, struct rows *rows, struct mt_err *err) {
    enum mt_status st = MT_OK;
    double best_s = t->prediction.step_s;
    bool changed = false;
    for (int i = rows->given, n = 0; i < rows->count && n < MOST_PARTED && !st; i++) {
        struct mt_overlap_choice was = rows->items[i];
        if (was.how == MT_OVERLAP_APART) continue;
        n++;
        rows->items[i] = (struct mt_overlap_choice){was.form, was.m, was.cols, was.k, MT_OVERLAP_APART, .tile = {0, 0}};
        st = price_rows(t, rows, err);
        changed = st || t->prediction.step_s >= worth_parting * best_s;
        if (changed)
            rows->items[i] = was;
        else
            best_s = t->prediction.step_s;
    }
    return st || !changed ? st : price_rows(t, rows, err);
}

/* Whether the plan would have an overlapped instruction that it does not have yet. */
static bool adds_any(const struct rows *rows) {
    bool any = false;
    for (int i = rows->given; i < rows->count; i++) any |= rows->items[i].how != MT_OVERLAP_APART;
    return any;
}

/* Try the plan with `overlapped` and its rows: *t has them, and is priced if there is anything to gain. */
static enum mt_status try_rows(struct trial *t, enum mt_overlapped overlapped, struct rows *rows, struct mt_err *err) {
    struct mt_plan *plan = t->plan;
    plan->decisions.overlapped = overlapped;
    plan->decisions.overlaps = rows->items, plan->decisions.noverlaps = rows->count;
    enum mt_status st = build(t, err);
    if (st || (!rows->asked && !mt_pairs_any(&t->program, rows->form))) return st;
    if (all_cpus(t->forms->costs)) return predict(t, err);
    st = choose_rows(t->forms->costs, &t->program, rows, err);
    if (st || !adds_any(rows) || (st = price_rows(t, rows, err))) return st;
    return rows->asked ? MT_OK : part(t, rows, err);
}

/* The plan keeps the trial's decisions, with rows of its own; *found becomes the trial's prediction. */
static void take(struct trial *t, struct mt_prediction *found) {
    struct mt_decisions *d = &t->plan->decisions;
    d->overlaps = mt_overlap_choices_copy(d->overlaps, d->noverlaps, &t->plan->arena);
    mt_program_hash(&t->program, t->plan->program_hash);
    mt_arena_release(&found->arena);
    *found = t->prediction;
    t->prediction = (struct mt_prediction){.step_s = 0};
}

/* Take the form as well, if the step, *step_s so far, is shorter with it; of a form that the plan has other rows. */
static enum mt_status try_form(const struct mt_forms *forms, struct mt_plan *plan, enum mt_overlap_form form,
                               double *step_s, struct mt_prediction *found, struct mt_err *err) {
    struct trial t = {.forms = forms, .plan = plan};
    struct rows rows = {.form = form};
    struct mt_err refusal = MT_ERR_INIT;
    const struct mt_decisions before = plan->decisions;
    keep_rows(&rows, &before);
    unsigned had = before.overlapped > 0 ? (unsigned)before.overlapped : 0;
    double worth = had & 1u << form ? worth_parting : forms->worth;
    enum mt_status st = try_rows(&t, (enum mt_overlapped)(had | 1u << form), &rows, &refusal);
    if (!st && t.priced && mt_pairs_any(&t.program, form) && fits(&t.prediction, plan) &&
        t.prediction.step_s < worth * *step_s) {
        *step_s = t.prediction.step_s;
        take(&t, found);
    } else {
        plan->decisions = before;
    }
    release_trial(&t);
    mt_arena_release(&rows.arena);
    if (st == MT_EINPUT) return MT_OK;
    if (st) *err = refusal;
    return st;
}

enum mt_status mt_forms_choose_given(const struct mt_forms *forms, struct mt_plan *plan, double step_s,
                                     struct mt_prediction *found, struct mt_err *err) {
    struct trial t = {.forms = forms, .plan = plan};
    struct rows rows = {.asked = true};
    const struct mt_decisions before = plan->decisions;
    *found = (struct mt_prediction){.step_s = 0};
    if (all_cpus(forms->costs)) return MT_OK;
    enum mt_status st = try_rows(&t, before.overlapped, &rows, err);
    if (!st && t.priced && plan->decisions.noverlaps && fits(&t.prediction, plan) && t.prediction.step_s <= step_s)
        take(&t, found);
    else
        plan->decisions = before;
    release_trial(&t);
    mt_arena_release(&rows.arena);
    return st;
}

enum mt_status mt_forms_choose(const struct mt_forms *forms, struct mt_plan *plan, double step_s,
                               struct mt_prediction *found, struct mt_err *err) {
    enum mt_status st = MT_OK;
    *found = (struct mt_prediction){.step_s = 0};
    for (int form = 0; form < MT_OVERLAP_NFORMS && !st; form++)
        if (!(forms->settled & 1u << form)) st = try_form(forms, plan, (enum mt_overlap_form)form, &step_s, found, err);
    return st;
}
