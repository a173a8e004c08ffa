/* Collectives on all ranks, group by group: the members' schedules are run on what their messages hold, then message.c
 * proves what arrives.
 *
 * Layers repeat. So the last runs are kept, for groups that begin alike and have the same schedules; and so are the
 * last groups that are proven, for those that differ in their values alone. */
#include <stdlib.h>
#include <string.h>

#include "synth/check/lowered/internal.h"

/* ---- the contents of messages ---- */

static void begin_member(const struct mt_lgroup *g, int place, struct mt_lrun *run) {
    const struct mt_lmember *m = g->members[place];
    bool neutral = m->zero && m->problem.reduce != MT_REDUCE_NONE;
    for (int b = 0; b < 2; b++)
        mt_lrun_buffer(run, place, b, m->message_count[b], neutral && b == 0 ? MT_EXPR_NEUTRAL : MT_EXPR_GARBAGE);
    for (int i = 0; i < m->pack->count; i++) {
        const struct mt_lpiece *piece = &m->pack->pieces[i];
        mt_lrun_set(run, place, 0, piece->at, piece->at + piece->count, MT_EXPR_FIRST + place);
    }
}

/* Run the members' schedules; where only the algorithm is kept, its schedule is made again. */
static enum mt_status run_schedules(const struct mt_lgroup *g, struct mt_lrun *run) {
    struct mt_schedule *made = mt_calloc((size_t)g->n, sizeof *made);
    for (int p = 0; p < g->n; p++) {
        const struct mt_lmember *m = g->members[p];
        if (m->algorithm) m->algorithm->schedule(&m->problem, &made[p]);
        run->schedule[p] = !m->sends ? NULL : m->algorithm ? &made[p] : m->schedule;
    }
    enum mt_status st = mt_lrun_schedules(run, g->c);
    for (int p = 0; p < g->n; p++) mt_schedule_release(&made[p]);
    free(made);
    return st;
}

/* ---- runs that are known ---- */

/* Whether two sides are at the same places of the message. */
static bool same_places(const struct mt_lside *a, const struct mt_lside *b) {
    if (a == b) return true;
    for (int i = 0; i < a->count && a->count == b->count; i++)
        if (a->pieces[i].at != b->pieces[i].at || a->pieces[i].count != b->pieces[i].count) return false;
    return a->count == b->count;
}

/* Whether a run begins as this group and has the same schedules: those of the same algorithms for the same problem. */
static bool runs_alike(const struct mt_lgroup *g, const struct mt_lrun *run) {
    const struct mt_program *program = g->c->program;
    const int *groups = program->blocks[run->of->block].instrs[run->of->source].group;
    if (run->first_rank != g->ranks[0] || run->n != g->n) return false;
    if (memcmp(groups, g->source->group, (size_t)program->nranks * sizeof *groups)) return false;
    if (!mt_lmember_same_problem(&run->of->members[g->ranks[0]], g->members[0])) return false;
    for (int p = 0; p < g->n; p++) {
        const struct mt_lmember *a = &run->of->members[g->ranks[p]], *b = g->members[p];
        if (a->schedule || b->schedule || a->sends != b->sends || a->algorithm != b->algorithm || a->zero != b->zero ||
            a->message_count[0] != b->message_count[0] || a->message_count[1] != b->message_count[1] ||
            a->problem.me != b->problem.me || !same_places(a->pack, b->pack))
            return false;
    }
    return true;
}

enum { MOST_RUNS = 8, MOST_PROVEN = 64 }; /* that are kept, because layers repeat */

static enum mt_status find_run(struct mt_lgroup *g) {
    struct mt_lchecker *c = g->c;
    if (!c->runs) c->runs = mt_calloc(MOST_RUNS, sizeof *c->runs);
    for (int i = 0; i < MOST_RUNS && i < c->nruns; i++)
        if (runs_alike(g, &c->runs[i])) return g->run = &c->runs[i], MT_OK;
    struct mt_lrun *run = &c->runs[c->nruns % MOST_RUNS];
    if (c->nruns++ >= MOST_RUNS) mt_lrun_release(run);
    mt_lrun_init(run, g->n, &g->members[0]->problem);
    run->of = g->of;
    run->first_rank = g->ranks[0];
    g->run = run;
    for (int p = 0; p < g->n; p++) begin_member(g, p, run);
    return run_schedules(g, run);
}

void mt_lchecker_forget_runs(struct mt_lchecker *c) {
    for (int i = 0; i < MOST_RUNS && i < c->nruns; i++) mt_lrun_release(&c->runs[i]);
    free(c->runs);
}

/* ---- groups that are proven ---- */

struct mt_lproven {
    const struct mt_lcollective *of;
    int first_rank;
};

/* Whether two members' sides, problems and schedules are the very same. */
static bool members_alike(const struct mt_lmember *a, const struct mt_lmember *b) {
    const struct mt_coll *x = &a->problem, *y = &b->problem;
    return x->kind == y->kind && x->reduce == y->reduce && x->wire == y->wire && x->acc == y->acc && x->n == y->n &&
           x->me == y->me && x->root == y->root && x->counts == y->counts && x->node == y->node && a->pack == b->pack &&
           a->unpack == b->unpack && a->message_count[0] == b->message_count[0] &&
           a->message_count[1] == b->message_count[1] && a->zero == b->zero && a->sends == b->sends &&
           a->algorithm == b->algorithm && a->schedule == b->schedule;
}

/* Whether the group's part of a collective is that of another collective, with other values of the same layouts. */
static bool parts_alike(const struct mt_lgroup *g, const struct mt_lcollective *a, const struct mt_lcollective *b) {
    const struct mt_program *p = g->c->program;
    const struct mt_instr *x = &p->blocks[a->block].instrs[a->source], *y = &p->blocks[b->block].instrs[b->source];
    if (x->coll != y->coll || x->reduce != y->reduce || x->wire != y->wire || x->acc != y->acc ||
        a->chunk.count != b->chunk.count || a->chunk.part != b->chunk.part || a->chunk.parts != b->chunk.parts)
        return false;
    for (int k = 0; k < a->chunk.count; k++) {
        int i = a->chunk.first + k, j = b->chunk.first + k;
        if (p->values[x->in[i]].layout != p->values[y->in[j]].layout ||
            p->values[x->out[i]].layout != p->values[y->out[j]].layout)
            return false;
    }
    if (memcmp(x->group, y->group, (size_t)p->nranks * sizeof *x->group)) return false;
    for (int m = 0; m < g->n; m++)
        if (!members_alike(&a->members[g->ranks[m]], &b->members[g->ranks[m]])) return false;
    return true;
}

/* Whether a proven group differs from this one in its values alone, on which the proof does not depend. The last part
 * of a collective is proven together with the parts before it. Parts of an AllToAll note what arrives, so that each is
 * proven. */
static bool is_proven(const struct mt_lgroup *g) {
    const struct mt_lchecker *c = g->c;
    int part = g->of->chunk.part, parts = g->of->chunk.parts;
    if (parts > 1 && mt_lgroup_exchanges(g)) return false;
    for (int i = 0; i < MOST_PROVEN && i < c->nproven; i++) {
        const struct mt_lproven *p = &c->proven[i];
        bool alike = p->first_rank == g->ranks[0] && parts_alike(g, p->of, g->of);
        for (int q = 1; q <= part && part + 1 == parts && alike; q++) alike = parts_alike(g, p->of - q, g->of - q);
        if (alike) return true;
    }
    return false;
}

static void keep_proven(const struct mt_lgroup *g) {
    struct mt_lchecker *c = g->c;
    if (!c->proven) c->proven = mt_new(&c->arena, struct mt_lproven, MOST_PROVEN);
    c->proven[c->nproven++ % MOST_PROVEN] = (struct mt_lproven){g->of, g->ranks[0]};
}

/* ---- the proof ---- */

static void compare_members(struct mt_lgroup *g) {
    g->same_from = mt_new(&g->arena, bool, g->source->nin);
    g->same_pack = true;
    for (int p = 1; p < g->n; p++) g->same_pack &= g->members[p]->pack == g->members[0]->pack;
    for (int k = g->first; k < g->end; k++) {
        const struct mt_layout *from = mt_lchecker_layout(g->c, g->source->in[k]);
        g->same_from[k] = true;
        for (int p = 1; p < g->n && g->same_from[k]; p++)
            g->same_from[k] = mt_box_equal(&from->box[g->ranks[p]], &from->box[g->ranks[0]], from->naxes);
    }
}

static enum mt_status check_group(struct mt_lgroup *g) {
    if (is_proven(g)) return MT_OK;
    compare_members(g);
    mt_lgroup_select(g, 0);
    enum mt_status st = find_run(g);
    if (!st) st = mt_lgroup_results(g);
    bool last = g->of->chunk.part + 1 == g->of->chunk.parts;
    if (!st && last) st = mt_lgroup_values(g);
    if (!st) keep_proven(g);
    return st;
}

enum mt_status mt_lchecker_message(struct mt_lchecker *c, int k) {
    const struct mt_lcollective *of = &c->collectives[k];
    struct mt_lgroup g = {.c = c, .of = of, .source = &c->program->blocks[of->block].instrs[of->source]};
    g.first = of->chunk.first, g.end = g.first + of->chunk.count;
    enum mt_status st = MT_OK;
    int nranks = c->program->nranks;
    bool *seen = mt_new(&g.arena, bool, nranks);
    g.ranks = mt_new(&g.arena, int, nranks);
    g.members = mt_new(&g.arena, const struct mt_lmember *, nranks);
    c->low = NULL;
    c->collective = of;
    for (int first = 0; first < nranks && !st; first++) {
        if (seen[first]) continue;
        g.n = 0;
        for (int r = first; r < nranks; r++) {
            if (g.source->group[r] != g.source->group[first]) continue;
            seen[r] = true;
            g.ranks[g.n] = r;
            g.members[g.n++] = &of->members[r];
        }
        st = check_group(&g);
    }
    mt_arena_release(&g.arena);
    return st;
}
