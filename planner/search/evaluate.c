/* Evaluation of candidates: shares become a program, and the program a prediction. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/text/units.h"
#include "planner/cost/algorithms.h"
#include "synth/ops/ops.h"
#include "synth/program/message.h"
#include "planner/search/internal.h"
#include "planner/plan/choice.h"

/* needs_margin: of the best's time, what such a candidate may take at most. */
static const double margin = 0.99;

/* ---- the plan ---- */

static struct mt_plan_split split_of(struct mt_plan *p, const char *prefix, const struct mt_label *label,
                                     const int64_t *sizes) {
    return (struct mt_plan_split){mt_arena_printf(&p->arena, "%s%s", prefix, label->name),
                                  mt_arena_strdup(&p->arena, label->name), label->align,
                                  mt_arena_memdup(&p->arena, sizes, (size_t)p->nranks * sizeof *sizes), MT_OVER_ALL};
}

static void write_splits(const struct mt_searching *s, const struct search_candidate *c, struct mt_plan *p) {
    const struct mt_graph *g = s->search->graph;
    p->splits = mt_new(&p->arena, struct mt_plan_split, s->nlabels + 1);
    p->nsplits = 0;
    p->splits[p->nsplits++] = split_of(p, "", &g->labels[g->batch], c->batch);
    for (int l = 0; l < s->nlabels; l++)
        p->splits[p->nsplits++] =
            split_of(p, "storage:", &g->labels[s->labels[l]], c->storage + (int64_t)l * s->nranks);
    memcpy(p->micro, c->micro, (size_t)p->nranks * sizeof *p->micro);
}

/* Algorithms stay "auto" until the program's messages are known. */
void mt_search_write_plan(const struct mt_searching *s, const struct search_candidate *c, struct mt_plan *p) {
    p->job = *s->search->job;
    if (p != s->plan) memcpy(p->ranks, s->plan->ranks, (size_t)p->nranks * sizeof *p->ranks); /* hosts are nodes */
    write_splits(s, c, p);
    p->decisions = mt_decisions_copy(&c->decisions, &p->arena);
    p->decisions.gradient_wire = mt_plan_wire(p);
    p->decisions.staging_bytes = s->search->fixed.decisions.staging_bytes;
}

/* A row for every kind that the program has: given algorithms as they are, the others by size. */
static enum mt_status choose_algorithms(struct mt_searching *s, struct mt_plan *p, struct mt_program *program) {
    struct mt_decisions *d = &p->decisions;
    enum mt_status st = mt_algorithm_rows(program, &s->costs, &p->arena, &d->algorithms, &d->nalgorithms, s->err);
    int kept = 0;
    for (int i = 0; i < d->nalgorithms && !st; i++) {
        struct mt_algorithm_row row = d->algorithms[i];
        const char *given = mt_decisions_algorithm(&s->search->fixed.decisions, row.kind, 0);
        if (!mt_algorithm_is_auto(given)) {
            if (row.up_to_bytes) continue;
            row.algorithm = mt_arena_strdup(&p->arena, given);
        }
        d->algorithms[kept++] = row;
    }
    d->nalgorithms = kept;
    return st;
}

/* Of the best alone: other structures may lack a kind of collective. */
enum mt_status mt_search_check_algorithms(const struct mt_searching *s) {
    const struct mt_decisions *fixed = &s->search->fixed.decisions, *d = &s->best_plan->decisions;
    for (int k = 0; k < fixed->nalgorithms; k++) {
        const struct mt_algorithm_row *given = &fixed->algorithms[k];
        int i = 0;
        while (i < d->nalgorithms && d->algorithms[i].kind != given->kind) i++;
        if (mt_algorithm_is_auto(given->algorithm) || i < d->nalgorithms) continue;
        mt_fail(s->err, MT_EINPUT, "the fastest plan has no %s, so the algorithm \"%.60s\" has no use",
                mt_coll_name(given->kind), given->algorithm);
        return mt_err_hint(s->err, "leave it out, or fix --storage and --sync such that there are such messages");
    }
    return MT_OK;
}

static void set_algorithms(const struct mt_plan *p, struct mt_program *program) {
    for (int b = 0; b < MT_NBLOCKS; b++)
        for (int i = 0; i < program->blocks[b].ninstrs; i++) {
            struct mt_instr *c = &program->blocks[b].instrs[i];
            if (c->kind == MT_INSTR_COLLECTIVE)
                c->algorithm = mt_decisions_algorithm(&p->decisions, c->coll, mt_message_bytes(program, c));
        }
}

/* ---- evaluation ---- */

static bool equal_shares(const struct mt_searching *s, const struct search_candidate *a,
                         const struct search_candidate *b) {
    size_t n = (size_t)s->nranks;
    return a->work == b->work && a->decisions.bucket_bytes == b->decisions.bucket_bytes &&
           mt_decisions_same_values(&a->decisions, &b->decisions) && !memcmp(a->batch, b->batch, n * sizeof(int64_t)) &&
           !memcmp(a->micro, b->micro, n * sizeof(int64_t)) &&
           !memcmp(a->storage, b->storage, n * (size_t)s->nlabels * sizeof(int64_t));
}

static const char *who_lacks(struct mt_searching *s, const struct mt_prediction *prediction) {
    int64_t worst = 0;
    int who = -1;
    for (int r = 0; r < s->nranks; r++) {
        int64_t limit = s->plan->ranks[r].memory_bytes;
        int64_t needs = mt_rank_needs_bytes(&prediction->ranks[r]);
        if (limit && needs - limit > worst) worst = needs - limit, who = r;
    }
    if (who < 0) return NULL;
    char text[MT_UNITS_TEXT];
    mt_units_bytes((double)worst, text);
    return mt_arena_printf(&s->arena, "does not fit: rank %d lacks %s", mt_search_rank(s, who), text);
}

void mt_search_learn(struct mt_searching *s, struct search_candidate *c) {
    const struct search_work *w = c->work;
    for (int k = 0; k < s->nclasses; k++) {
        double found = 0, said = 0;
        int64_t heavier = INT64_MIN;
        for (int r = 0; r < s->nranks; r++) {
            if (s->class[r] != k) continue;
            const struct search_curves *curves = &w->curves[k];
            double passes_s;
            int64_t units = mt_search_units(s, c, r), most = c->micro[r] ? c->micro[r] : 1;
            mt_search_micro(s, w, k, c->batch[r], most, &passes_s);
            found += c->prediction.ranks[r].compute_s;
            said += curves->before_s + passes_s + mt_share_curve_at(&curves->update, units);
            int64_t held = curves->state_fixed + (int64_t)mt_share_curve_at(&curves->state, units) +
                           (int64_t)mt_share_curve_at(&w->arena, c->micro[r]);
            int64_t needs = mt_rank_needs_bytes(&c->prediction.ranks[r]);
            if (needs - held > heavier) heavier = needs - held;
        }
        if (said > 0 && found > 0) c->slower[k] = fmin(fmax(found / said, 0.5), 2);
        if (w->arena.npoints) c->heavier[k] = heavier;
    }
}

static enum mt_status build(struct mt_searching *s, const struct search_candidate *c, struct mt_plan *p,
                            struct mt_program *program) {
    mt_search_write_plan(s, c, p);
    enum mt_status st = mt_program_from_plan(s->search->graph, p, false, program, s->err);
    if (st) return st;
    if ((st = choose_algorithms(s, p, program))) {
        mt_program_release(program);
        return st;
    }
    set_algorithms(p, program);
    return MT_OK;
}

enum mt_status mt_search_evaluate(struct mt_searching *s, struct search_candidate *c) {
    for (int i = 0; i < s->ncandidates; i++) {
        struct search_candidate *other = s->candidates[i];
        if (other == c || !other->evaluated || !equal_shares(s, other, c)) continue;
        c->evaluated = true, c->fits = other->fits, c->step_s = other->step_s, c->same = other;
        c->why = other->why;
        return MT_OK;
    }
    struct mt_plan *p = mt_plan_new(s->nranks);
    struct mt_program program;
    enum mt_status st = build(s, c, p, &program);
    if (st) goto out;
    if ((st = mt_predict(&program, &s->costs, s->search->options, &c->prediction, s->err))) {
        mt_program_release(&program);
        goto out;
    }
    c->evaluated = true;
    c->step_s = c->prediction.step_s;
    s->nevaluated++;
    const char *lacks = who_lacks(s, &c->prediction);
    c->fits = !lacks;
    c->why = lacks ? lacks : "slower";
    const struct mt_search_watch *watch = s->search->watch;
    if (watch) watch->predicted(watch->context, c->fits ? c->step_s : 0);
    mt_search_learn(s, c);
    if (c->fits && (!s->best || c->step_s < (c->needs_margin ? margin : 1) * s->best->step_s)) {
        if (s->best) mt_program_release(&s->program), mt_plan_free(s->best_plan);
        s->best = c;
        s->program = program;
        s->best_plan = p;
        p = NULL;
    } else {
        mt_program_release(&program);
    }
out:
    mt_plan_free(p);
    return st;
}

/* ---- the result ---- */

struct mt_costs mt_search_costs_of(const struct mt_costs *costs, const struct mt_plan *plan, struct mt_arena *arena) {
    struct mt_costs at_places = *costs;
    int *device = mt_new(arena, int, plan->nplaces);
    for (int i = 0; i < plan->nplaces; i++) device[i] = costs->device[plan->order[i]];
    at_places.nranks = plan->nplaces;
    at_places.device = device;
    return at_places;
}

void mt_search_fill_prediction(const struct mt_prediction *found, double bound_s, struct mt_plan *p) {
    struct mt_plan_prediction *to = mt_new(&p->arena, struct mt_plan_prediction, 1);
    *to = (struct mt_plan_prediction){.step_s = found->step_s,
                                      .error = found->error,
                                      .error_below = found->error_below,
                                      .bound_s = fmin(bound_s, found->step_s),
                                      .nominal = found->nominal,
                                      .times = mt_new(&p->arena, struct mt_plan_time, p->nranks)};
    to->nparts = found->nparts;
    to->parts = mt_new(&p->arena, struct mt_plan_error, found->nparts);
    for (int i = 0; i < found->nparts; i++)
        to->parts[i] =
            (struct mt_plan_error){mt_arena_strdup(&p->arena, found->parts[i].source), found->parts[i].time_s};
    memset(p->memory, 0, (size_t)p->nranks * sizeof *p->memory);
    for (int i = 0; i < p->nplaces; i++) {
        const struct mt_rank_prediction *rank = &found->ranks[i];
        to->times[p->order[i]] = (struct mt_plan_time){rank->compute_s, rank->exposed_s, rank->idle_s};
        p->memory[p->order[i]] =
            (struct mt_plan_memory){rank->state_bytes, rank->arena_bytes, rank->communicator_bytes, rank->window_bytes};
    }
    p->prediction = to;
}

void mt_search_fill_plan(struct mt_searching *s, double bound_s) {
    struct mt_plan *p = s->plan;
    mt_search_write_plan(s, s->best, p);
    p->decisions = mt_decisions_copy(&s->best_plan->decisions, &p->arena);
    mt_search_fill_prediction(&s->best->prediction, bound_s, p);
    mt_search_speeds(s, s->best->work, p);
    mt_graph_hash(s->search->graph, p->model_hash);
    mt_program_hash(&s->program, p->program_hash);
    p->parameters = mt_graph_parameters(s->search->graph);
    p->flops_per_step = mt_graph_flops(s->search->graph);
}
