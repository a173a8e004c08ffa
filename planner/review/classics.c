/* The classics: each strategy that divides by samples alone, or by widths alone, is searched among the plan's ranks.
 * The difference to the plan is that of the rank that idles least, by what it does: computing, and messages by what
 * they move over which link, each as long as it takes alone. */
#include "planner/review/classics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/text/units.h"
#include "kernels/base/wait.h"
#include "planner/divide/divide.h"
#include "planner/plan/choice.h"
#include "planner/review/moved.h"
#include "synth/program/message.h"

struct usage {
    double compute_s;
    double *moved_s; /* [MT_NMOVED links] */
};

struct comparing {
    struct mt_arena arena; /* of the call */
    struct mt_classics *to;
    const struct mt_plan *whole;
    struct mt_plan *places; /* job and ranks: those that take part, in the order of places */
    double own_s;
    const struct mt_graph *graph;
    struct mt_costs costs; /* of the ranks that take part */
    char hash[33];
    struct mt_err *err;
};

/* ---- what a program uses ---- */

static int busiest(const struct mt_prediction *p) {
    int busiest = 0;
    for (int r = 1; r < p->nranks; r++)
        if (p->ranks[r].idle_s < p->ranks[busiest].idle_s) busiest = r;
    return busiest;
}

/* Seconds of a rank's part of a collective alone; *link: the slowest of its group, or -1. */
static enum mt_status message_s(const struct comparing *c, const struct mt_program *program,
                                const struct mt_instr *instr, int rank, double *seconds, int *link) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_message m;
    struct mt_costs sharing = c->costs;
    int *concurrent = mt_new(&arena, int, program->nranks);
    const struct mt_message_form sketch = {.sketch = true, .wire_sums = mt_cost_wire_sums(&c->costs, rank)};
    enum mt_status st = mt_message_make(program, instr, rank, &sketch, &arena, &m, c->err);
    *seconds = 0, *link = -1;
    if (!st && m.problem.n > 1) {
        const struct mt_coll_algorithm *algorithm =
            mt_algorithm_is_auto(instr->algorithm) ? NULL : mt_coll_find(instr->coll, instr->algorithm);
        struct mt_cost cost;
        mt_cost_concurrent(&c->costs, instr->group, program->nranks, concurrent);
        sharing.concurrent = concurrent[rank];
        if (algorithm)
            cost = mt_cost_coll(&sharing, &m.problem, m.group, algorithm);
        else
            mt_cost_choose(&sharing, &m.problem, m.group, &cost);
        *seconds = cost.s;
        *link = mt_cost_link(&c->costs, m.group, m.problem.n);
    }
    mt_arena_release(&arena);
    return st;
}

static enum mt_status usage_of(struct comparing *c, const struct mt_program *program, const struct mt_prediction *found,
                               struct usage *u) {
    int rank = busiest(found), nlinks = c->costs.cluster->nlinks;
    *u = (struct usage){found->ranks[rank].compute_s, mt_new(&c->arena, double, MT_NMOVED *nlinks + 1)};
    for (int b = 0; b < MT_NBLOCKS; b++)
        for (int i = 0; i < program->blocks[b].ninstrs; i++) {
            const struct mt_instr *instr = &program->blocks[b].instrs[i];
            double seconds;
            int link;
            if (instr->kind != MT_INSTR_COLLECTIVE) continue;
            enum mt_status st = message_s(c, program, instr, rank, &seconds, &link);
            if (st) return st;
            enum mt_moved moved = mt_moved_of(program->graph, program->values[instr->in[0]].gvalue);
            int64_t times = b == MT_BODY ? program->body_count[rank] : 1;
            if (link >= 0) u->moved_s[(int)moved * nlinks + link] += (double)times * seconds;
        }
    return MT_OK;
}

/* ---- in words ---- */

static const char *const moving[MT_NMOVED] = {"exchanges of activations", "exchanges of activations' gradients",
                                              "gathers of weights", "sums of gradients", "sums of norms and losses"};

static const double little = 0.05; /* of the difference: a part of it that explains nothing */

/* The largest difference in the direction of the whole, which is more_s. */
static const char *difference(struct comparing *c, const struct usage *plan, const struct usage *classic,
                              double more_s) {
    bool slower = more_s >= 0;
    int nlinks = c->costs.cluster->nlinks, most = -1;
    double sign = slower ? 1 : -1, largest = sign * (classic->compute_s - plan->compute_s);
    char text[MT_UNITS_TEXT];
    for (int i = 0; i < MT_NMOVED * nlinks; i++) {
        double more = sign * (classic->moved_s[i] - plan->moved_s[i]);
        if (more > largest) largest = more, most = i;
    }
    const char *than = slower ? "more" : "less";
    if (!(largest > little * fabs(more_s))) return slower ? "less of it overlaps" : "more of it overlaps";
    mt_units_seconds(largest, text);
    if (most < 0) return mt_arena_printf(&c->to->arena, "computing takes %s %s", text, than);
    return mt_arena_printf(&c->to->arena, "%s over %s take %s %s", moving[most / nlinks],
                           c->costs.cluster->links[most % nlinks].name, text, than);
}

static const char *lack(struct comparing *c, const struct mt_divided *found) {
    int64_t worst = 0;
    int who = -1;
    for (int r = 0; found->judged && r < c->places->nranks; r++) {
        int64_t limit = c->places->ranks[r].memory_bytes,
                over = mt_rank_needs_bytes(&found->prediction.ranks[r]) - limit;
        if (limit && over > worst) worst = over, who = r;
    }
    if (who < 0) return found->why ? mt_arena_strdup(&c->to->arena, found->why) : "";
    char needs[MT_UNITS_TEXT], has[MT_UNITS_TEXT];
    return mt_arena_printf(&c->to->arena, "rank %d needs %s of %s", c->whole->order[who],
                           mt_units_bytes((double)mt_rank_needs_bytes(&found->prediction.ranks[who]), needs),
                           mt_units_bytes((double)c->places->ranks[who].memory_bytes, has));
}

/* ---- the classics ---- */

static bool is_classic(const struct mt_strategy *s) {
    return !(s->samples && s->widths);
}

/* The best candidate that keeps to its strategy's own times of gathers and sums. */
static const struct mt_divided *best_of(const struct mt_divide_found *found, const struct mt_strategy *s) {
    const struct mt_divided *best = NULL;
    for (int i = 0; i < found->ncandidates; i++) {
        const struct mt_divided *x = found->candidates[i];
        if (x->strategy != s || x->choice.decisions.gather != s->gather || x->choice.decisions.reduced != s->reduced ||
            !(x->judged || x->why))
            continue;
        if (!best || x->fits > best->fits || (x->fits == best->fits && x->judged > best->judged) ||
            (x->fits && best->fits && x->prediction.step_s < best->prediction.step_s))
            best = x;
    }
    return best;
}

static enum mt_status add_classic(struct comparing *c, const struct mt_divided *found, const struct usage *own) {
    struct mt_classic *to = &c->to->items[c->to->count++];
    struct mt_program program;
    struct usage used;
    char hash[33];
    *to = (struct mt_classic){.name = found->strategy->name, .fits = found->fits};
    if (!found->fits) {
        to->why = lack(c, found);
        return MT_OK;
    }
    to->step_s = found->prediction.step_s;
    enum mt_status st = mt_program_from_plan(c->graph, found->plan, false, &program, c->err);
    if (st) return st;
    mt_program_hash(&program, hash);
    to->same = !strcmp(hash, c->hash);
    to->why = "";
    if (!to->same && !(st = usage_of(c, &program, &found->prediction, &used)))
        to->why = difference(c, own, &used, to->step_s - c->own_s);
    mt_program_release(&program);
    return st;
}

static int by_step(const void *a, const void *b) {
    const struct mt_classic *x = a, *y = b;
    if (x->fits != y->fits) return x->fits ? -1 : 1;
    if (x->step_s != y->step_s) return x->step_s < y->step_s ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* The plan's own program and what it uses. */
static enum mt_status measure_own(struct comparing *c, const struct mt_lower_options *options, struct usage *own) {
    struct mt_program program;
    struct mt_prediction found;
    enum mt_status st = mt_program_from_plan(c->graph, c->whole, false, &program, c->err);
    if (st) return st;
    mt_program_hash(&program, c->hash);
    if (!(st = mt_predict(&program, &c->costs, options, &found, c->err))) {
        c->own_s = found.step_s;
        st = usage_of(c, &program, &found, own);
    }
    mt_arena_release(&found.arena);
    mt_program_release(&program);
    return st;
}

static enum mt_status compare(struct comparing *c, const struct mt_planning *planning, double limit_s) {
    int64_t *memory = mt_new(&c->arena, int64_t, c->places->nranks);
    struct usage own;
    for (int r = 0; r < c->places->nranks; r++) memory[r] = c->places->ranks[r].memory_bytes;
    struct mt_divide divide = {.graph = c->graph,
                               .costs = &c->costs,
                               .options = &planning->options,
                               .node = mt_plan_nodes(c->places, &c->arena),
                               .memory_bytes = memory,
                               .decisions = mt_decisions_unset,
                               .plan = c->places};
    divide.decisions.bucket_bytes = c->whole->decisions.bucket_bytes;
    divide.decisions.start = c->whole->decisions.start;
    divide.end_s = mt_now_s() + limit_s;
    enum mt_status st = measure_own(c, &planning->options, &own);
    for (int i = 0; i < MT_NSTRATEGIES && !st; i++) {
        const struct mt_strategy *s = &mt_strategies[i];
        struct mt_divide_found found;
        if (!is_classic(s) || (s->state == MT_STORE_NODE && !divide.node) || mt_now_s() > divide.end_s) continue;
        divide.only = s;
        st = mt_divide_search(&divide, &found, c->err);
        const struct mt_divided *best = st ? NULL : best_of(&found, s);
        if (best) st = add_classic(c, best, &own);
        if (st == MT_EINPUT) st = MT_OK; /* the strategy divides nothing of this model */
        mt_divide_release(&found);
    }
    return st;
}

enum mt_status mt_classics_of(const struct mt_plan *plan, const struct mt_planning *planning, double limit_s,
                              struct mt_classics *classics, struct mt_err *err) {
    struct comparing c = {.to = classics, .whole = plan, .graph = planning->planned.graph, .err = err};
    int n = plan->nplaces, *device = mt_new(&c.arena, int, n + 1);
    *classics = (struct mt_classics){.count = 0};
    classics->items = mt_new(&classics->arena, struct mt_classic, MT_NSTRATEGIES);
    c.places = mt_plan_new(n);
    c.places->job = plan->job;
    c.places->device = plan->device;
    for (int i = 0; i < n; i++) {
        device[i] = planning->costs.device[plan->order[i]];
        c.places->ranks[i] = plan->ranks[plan->order[i]];
    }
    c.costs = (struct mt_costs){
        .cluster = planning->costs.cluster, .nranks = n, .device = device, .memo = mt_cost_memo_new()};
    enum mt_status st = n > 1 ? compare(&c, planning, limit_s) : MT_OK;
    if (!st) qsort(classics->items, (size_t)classics->count, sizeof *classics->items, by_step);
    mt_cost_memo_free(c.costs.memo);
    mt_plan_free(c.places);
    mt_arena_release(&c.arena);
    if (st) mt_classics_release(classics);
    return st;
}

void mt_classics_release(struct mt_classics *classics) {
    mt_arena_release(&classics->arena);
    *classics = (struct mt_classics){.count = 0};
}
