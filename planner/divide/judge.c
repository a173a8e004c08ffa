/* Candidates as programs, and their predictions. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/text/units.h"
#include "kernels/base/wait.h"
#include "planner/cost/algorithms.h"
#include "planner/divide/forms.h"
#include "planner/divide/internal.h"
#include "planner/divide/rows.h"
#include "planner/plan/choice.h"
#include "synth/program/message.h"

struct mt_divided *mt_divide_copy(struct mt_dividing *d, const struct mt_divided *c) {
    const struct mt_graph *g = d->divide->graph;
    struct mt_divided *copy = mt_arena_memdup(d->arena, c, sizeof *c);
    struct mt_choice *to = &copy->choice;
    struct mt_split *splits = mt_arena_memdup(d->arena, c->choice.splits, (size_t)to->nsplits * sizeof *splits);
    for (int s = 0; s < to->nsplits; s++) {
        size_t n = (size_t)(splits[s].axis == MT_AXIS_HOST ? d->nnodes : d->nranks);
        splits[s].sizes = mt_arena_memdup(d->arena, splits[s].sizes, n * sizeof(int64_t));
        splits[s].starts = mt_arena_memdup(d->arena, splits[s].starts, (n + 1) * sizeof(int64_t));
    }
    to->splits = copy->splits = splits;
    to->micro = mt_arena_memdup(d->arena, to->micro, (size_t)d->nranks * sizeof *to->micro);
    to->rules = mt_arena_memdup(d->arena, to->rules, (size_t)g->nops * sizeof *to->rules);
    if (to->batch) to->batch = splits + (to->batch - c->choice.splits);
    for (int o = 0; o < g->nops; o++) {
        struct mt_rule *rule = &to->rules[o];
        if (rule->split) rule->split = splits + (rule->split - c->choice.splits);
        if (!rule->inner) continue;
        struct mt_rule *inner = mt_arena_memdup(d->arena, rule->inner, (size_t)d->nnodes * sizeof *inner);
        for (int i = 0; i < d->nnodes; i++)
            if (inner[i].split) inner[i].split = splits + (inner[i].split - c->choice.splits);
        rule->inner = inner;
    }
    copy->judged = copy->fits = copy->too_large = false;
    copy->why = NULL;
    copy->plan = NULL;
    copy->count = 0;
    copy->few_layers = copy->settled = false;
    return copy;
}

/* ---- micro-batches ---- */

int64_t mt_divide_samples(const struct mt_dividing *d, const struct mt_choice *choice, int rank) {
    const struct mt_split *batch = choice->batch;
    if (!batch) return d->divide->graph->labels[d->divide->graph->batch].extent;
    return batch->sizes[batch->axis == MT_AXIS_HOST ? d->mesh.node[rank] : rank];
}

static int64_t most_samples(const struct mt_dividing *d, const struct mt_choice *choice) {
    int64_t most = 0;
    for (int r = 0; r < d->nranks; r++)
        most = mt_divide_samples(d, choice, r) > most ? mt_divide_samples(d, choice, r) : most;
    return most;
}

/* Samples of micro-batches such that every rank has `count` of them, as far as its share allows. */
static void set_micro(const struct mt_dividing *d, struct mt_choice *choice, int64_t count) {
    for (int r = 0; r < d->nranks; r++) choice->micro[r] = (mt_divide_samples(d, choice, r) + count - 1) / count;
}

/* Shares of which each is a multiple of `count`, so that all ranks have as many micro-batches; false if the batch does
 * not allow it. */
static bool align_samples(const struct mt_dividing *d, const struct mt_divided *c, int64_t count) {
    const struct mt_choice *choice = &c->choice;
    if (!choice->batch) return true;
    const struct mt_label *label = &d->divide->graph->labels[d->divide->graph->batch];
    struct mt_split *batch = c->splits + (choice->batch - choice->splits);
    int n = batch->axis == MT_AXIS_HOST ? d->nnodes : d->nranks;
    double *weight = mt_new(d->arena, double, n);
    if (label->extent % count || count % label->align) return false;
    for (int i = 0; i < n; i++) weight[i] = (double)batch->sizes[i];
    if (mt_divide_label(d, batch, count, weight, NULL)) return false;
    for (int s = 0; s < choice->nsplits; s++) { /* samples within nodes */
        struct mt_split *within = &c->splits[s];
        if (within->label == batch->label && within->axis == MT_AXIS_DEVICE &&
            mt_divide_label(d, within, label->align, d->speed, batch))
            return false;
    }
    return true;
}

/* ---- one prediction ---- */

enum { MOST_WORK = 100000 }; /* of a prediction: some seconds where layouts are ragged */

static const char *who_lacks(struct mt_dividing *d, const struct mt_prediction *p) {
    const int64_t *limit = d->divide->memory_bytes;
    int64_t worst = 0;
    int who = -1;
    for (int r = 0; r < d->nranks && limit; r++)
        if (limit[r] && mt_rank_needs_bytes(&p->ranks[r]) - limit[r] > worst)
            worst = mt_rank_needs_bytes(&p->ranks[r]) - limit[r], who = r;
    if (who < 0) return NULL;
    char text[MT_UNITS_TEXT];
    return mt_arena_printf(d->arena, "does not fit: rank %d lacks %s", who, mt_units_bytes((double)worst, text));
}

/* A plan like the one at hand, with the candidate's choice. */
enum mt_status mt_divide_write_plan(struct mt_dividing *d, struct mt_divided *c, struct mt_err *err) {
    const struct mt_plan *like = d->divide->plan;
    struct mt_plan *p = mt_plan_new(like->nranks);
    p->job = like->job;
    p->device = like->device;
    memcpy(p->ranks, like->ranks, (size_t)p->nranks * sizeof *p->ranks);
    p->nplaces = like->nplaces;
    memcpy(p->order, like->order, (size_t)p->nplaces * sizeof *p->order);
    p->decisions = c->choice.decisions;
    p->decisions.nalgorithms = 0;
    p->decisions.gradient_wire = mt_plan_wire(p);
    mt_plan_free(c->plan);
    c->plan = p;
    return mt_choice_rows(d->divide->graph, &c->choice, &d->mesh, p, err);
}

static void set_algorithms(const struct mt_plan *p, struct mt_program *program) {
    for (int b = 0; b < MT_NBLOCKS; b++)
        for (int i = 0; i < program->blocks[b].ninstrs; i++) {
            struct mt_instr *instr = &program->blocks[b].instrs[i];
            if (instr->kind == MT_INSTR_COLLECTIVE)
                instr->algorithm = mt_decisions_algorithm(&p->decisions, instr->coll, mt_message_bytes(program, instr));
        }
}

/* Operators to be lowered, for each class of ranks, in the end with all layers. */
static int64_t work_of(const struct mt_dividing *d, const struct mt_program *program) {
    int *first = mt_calloc((size_t)d->nranks, sizeof *first);
    int64_t nclasses = 0;
    mt_lower_fold(program, NULL, first);
    for (int r = 0; r < d->nranks; r++) nclasses += first[r] == r;
    free(first);
    int64_t nops = program->graph->nops;
    if (d->layers) nops = (int64_t)mt_divide_of_all(d->layers, d->layers->few_graph->nops, d->layers->some_graph->nops);
    return nclasses * nops;
}

/* The program of the candidate's plan with a graph, and its prediction; without one c->why says why. */
static enum mt_status predict_with(struct mt_dividing *d, struct mt_divided *c, const struct mt_graph *graph,
                                   struct mt_prediction *prediction, bool *done) {
    struct mt_program program;
    struct mt_err why = MT_ERR_INIT;
    *done = false;
    if (mt_program_from_plan(graph, c->plan, false, &program, &why)) {
        c->why = mt_arena_strdup(d->arena, why.text);
        return MT_OK;
    }
    if (work_of(d, &program) > MOST_WORK) {
        c->why = "not judged: too many of its ranks run programs of their own";
        mt_program_release(&program);
        return MT_OK;
    }
    struct mt_decisions *rows = &c->plan->decisions;
    enum mt_status st =
        mt_algorithm_rows(&program, d->divide->costs, &c->plan->arena, &rows->algorithms, &rows->nalgorithms, d->err);
    if (!st) set_algorithms(c->plan, &program);
    if (!st) st = mt_predict(&program, d->divide->costs, d->divide->options, prediction, d->err);
    *done = !st;
    mt_program_release(&program);
    return st;
}

static enum mt_status predict(struct mt_dividing *d, struct mt_divided *c) {
    struct mt_err why = MT_ERR_INIT;
    bool done;
    enum mt_status st = mt_divide_write_plan(d, c, &why);
    if (st) {
        c->why = mt_arena_strdup(d->arena, why.text);
        return MT_OK;
    }
    if ((st = predict_with(d, c, d->divide->graph, &c->prediction, &c->judged)) || !c->judged) return st;
    if (d->layers) {
        struct mt_prediction few;
        c->judged = false;
        if (!(st = predict_with(d, c, d->layers->few_graph, &few, &done)) && done) {
            st = mt_divide_extrapolate(d, c, &few, d->err);
            mt_arena_release(&few.arena);
            c->judged = c->few_layers = !st;
        }
        if (!c->judged) mt_arena_release(&c->prediction.arena);
    }
    if (c->judged) {
        c->why = who_lacks(d, &c->prediction);
        c->fits = !c->why;
    }
    return st;
}

/* How many micro-batches to try next, from what a rank lacks with `count`: activations fall with their number, the
 * state does not. 0: none will do. */
static int64_t next_count(const struct mt_dividing *d, const struct mt_divided *c, int64_t count) {
    int64_t next = 2 * count;
    for (int r = 0; r < d->nranks && d->divide->memory_bytes; r++) {
        const struct mt_rank_prediction *p = &c->prediction.ranks[r];
        int64_t limit = d->divide->memory_bytes[r];
        if (!limit || mt_rank_needs_bytes(p) <= limit) continue;
        double others = (double)(p->arena_bytes - p->state_bytes);
        double room = (double)(limit - p->state_bytes - p->communicator_bytes);
        if (room <= 0) return 0;
        while ((double)next < 0.7 * (double)count * others / room) next *= 2;
    }
    return next;
}

bool mt_divide_is_hopeless(const struct mt_dividing *d, double step_s) {
    double hopeless = d->divide->overlap ? MT_FORMS_MOST : 1.5; /* times the best step */
    double known = d->divide->known_s > 0 ? d->divide->known_s : INFINITY;
    if (d->found->best) known = fmin(known, d->found->best->prediction.step_s);
    return step_s > hopeless * known;
}

enum { MOST_TRIES = 4 };

enum mt_status mt_divide_judge(struct mt_dividing *d, struct mt_divided *c) {
    const struct mt_strategy *s = c->strategy;
    bool exchanges = s->widths || s->positions || s->factors != MT_FACTORS_NEVER;
    bool in_step = exchanges || mt_decisions_in_step(&c->choice.decisions);
    int64_t most = most_samples(d, &c->choice), count = 1;
    if (c->count) count = c->count < most ? c->count : most;
    if (!c->judged && !c->count) {
        struct mt_err why = MT_ERR_INIT;
        set_micro(d, &c->choice, 1);
        enum mt_status st = mt_divide_write_plan(d, c, &why);
        if (st) return c->why = mt_arena_strdup(d->arena, why.text), MT_OK;
        count = mt_divide_least_micro(d, c, most);
    }
    c->too_large = count > most;
    if (c->too_large) c->why = "does not fit: state, weights and activations alone are more than the memory";
    for (int i = 0; i < MOST_TRIES && count && count <= most; i++) {
        if (count > 1 && in_step && !align_samples(d, c, count)) break;
        if (i && mt_now_s() > d->divide->end_s) break;
        set_micro(d, &c->choice, count);
        c->count = count;
        if (c->judged) mt_arena_release(&c->prediction.arena);
        c->judged = false;
        enum mt_status st = predict(d, c);
        if (st || !c->judged || c->fits) return st;
        if (!d->divide->compare && mt_divide_is_hopeless(d, c->prediction.step_s)) break; /* more take longer */
        count = next_count(d, c, count);
    }
    return MT_OK;
}
