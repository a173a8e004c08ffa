/* Per kind of collective: messages by size, their costs by each algorithm, packing included, and a dynamic programme
 * over sizes in which each change of algorithm costs row_gain. */
#include "planner/cost/algorithms.h"

#include <math.h>
#include <stdlib.h>

#include "synth/program/message.h"

static const double row_gain = 0.005; /* what a further row must save, of the kind's time */

struct priced { /* one for all collectives with the same messages */
    const struct mt_instr *instr;
    int64_t bytes;
    double *slowest_s; /* [mt_coll_nalgorithms], of its slowest group; infinite: does not apply */
};

struct sized { /* messages of one size */
    int64_t bytes;
    double *cost_s; /* [mt_coll_nalgorithms], all of a step */
};

struct chooser {
    const struct mt_program *program;
    const struct mt_costs *costs;
    struct mt_arena scratch;
    struct sized *sizes;
    int nsizes, capacity;
    struct priced *priced;
    int npriced, priced_capacity;
};

static struct sized *size_of(struct chooser *c, int64_t bytes) {
    for (int i = 0; i < c->nsizes; i++)
        if (c->sizes[i].bytes == bytes) return &c->sizes[i];
    mt_arena_grow(&c->scratch, &c->sizes, c->nsizes, &c->capacity, sizeof *c->sizes);
    struct sized *made = &c->sizes[c->nsizes++];
    *made = (struct sized){.bytes = bytes, .cost_s = mt_new(&c->scratch, double, mt_coll_nalgorithms)};
    return made;
}

/* A hierarchical collective runs on one message (synth/lower): seconds of packing and unpacking, on the slowest rank of
 * the group, that other algorithms do without, as they take the tensors themselves. Bytes are those of the group's
 * first rank. */
static double more_copies_s(const struct chooser *c, const struct mt_message *m,
                            const struct mt_coll_algorithm *algorithm) {
    const struct mt_message_side *sides[] = {&m->pack, &m->unpack};
    double slowest_s = 0;
    if (!algorithm->by_node || !mt_cost_takes_arrays(c->costs, m->group[0], &m->problem)) return 0;
    for (int i = 0; i < m->problem.n; i++) {
        int rank = m->group[i];
        double s = 0;
        for (int k = 0; k < 2; k++)
            if (!sides[k]->is_tensor) /* which serves as the message */
                s += mt_cost_copy_s(c->costs, rank, sides[k]->bytes, sides[k]->count) -
                     mt_cost_copy_s(c->costs, rank, sides[k]->rest_bytes, sides[k]->nrest);
        slowest_s = fmax(slowest_s, s);
    }
    return slowest_s;
}

static enum mt_status price(struct chooser *c, struct priced *priced, struct mt_err *err) {
    const struct mt_program *p = c->program;
    const struct mt_instr *instr = priced->instr;
    struct mt_arena arena = MT_ARENA_INIT;
    bool *seen = mt_new(&arena, bool, p->nranks);
    int *concurrent = mt_new(&arena, int, p->nranks);
    struct mt_costs costs = *c->costs;
    enum mt_status st = MT_OK;
    mt_cost_concurrent(c->costs, instr->group, p->nranks, concurrent);
    priced->bytes = mt_message_bytes(p, instr);
    priced->slowest_s = mt_new(&c->scratch, double, mt_coll_nalgorithms);
    for (int r = 0; r < p->nranks && !st; r++) {
        struct mt_message message;
        const struct mt_message_form sketch = {.sketch = true, .wire_sums = mt_cost_wire_sums(&costs, r)};
        if (seen[instr->group[r]]) continue;
        seen[instr->group[r]] = true;
        if ((st = mt_message_make(p, instr, r, &sketch, &arena, &message, err))) break;
        costs.concurrent = concurrent[r];
        for (int a = 0; a < mt_coll_nalgorithms; a++) {
            const struct mt_coll_algorithm *algorithm = mt_coll_algorithms[a];
            if (algorithm->kind != instr->coll) continue;
            bool serves = algorithm->applies(&message.problem) &&
                          mt_cost_offers(&costs, message.group, message.problem.n, algorithm);
            double s = serves ? mt_cost_coll(&costs, &message.problem, message.group, algorithm).s +
                                    more_copies_s(c, &message, algorithm)
                              : INFINITY;
            priced->slowest_s[a] = fmax(priced->slowest_s[a], s);
        }
    }
    mt_arena_release(&arena);
    return st;
}

static enum mt_status add_message(struct chooser *c, const struct mt_instr *instr, int64_t times, struct mt_err *err) {
    int i = 0;
    while (i < c->npriced && !mt_message_same(c->program, c->priced[i].instr, instr)) i++;
    if (i == c->npriced) {
        mt_arena_grow(&c->scratch, &c->priced, c->npriced, &c->priced_capacity, sizeof *c->priced);
        c->priced[i] = (struct priced){.instr = instr};
        enum mt_status st = price(c, &c->priced[i], err);
        if (st) return st;
        c->npriced++;
    }
    struct sized *size = size_of(c, c->priced[i].bytes);
    for (int a = 0; a < mt_coll_nalgorithms; a++) size->cost_s[a] += (double)times * c->priced[i].slowest_s[a];
    return MT_OK;
}

static int by_bytes(const void *a, const void *b) {
    int64_t x = ((const struct sized *)a)->bytes, y = ((const struct sized *)b)->bytes;
    return (x > y) - (x < y);
}

static enum mt_status list_messages(struct chooser *c, enum mt_coll_kind kind, struct mt_err *err) {
    const struct mt_program *p = c->program;
    int64_t iterations = 0;
    for (int r = 0; r < p->nranks; r++)
        if (p->body_count[r] > iterations) iterations = p->body_count[r];
    c->nsizes = 0;
    for (int b = 0; b < MT_NBLOCKS; b++)
        for (int i = 0; i < p->blocks[b].ninstrs; i++) {
            const struct mt_instr *instr = &p->blocks[b].instrs[i];
            if (instr->kind != MT_INSTR_COLLECTIVE || instr->coll != kind) continue;
            enum mt_status st = add_message(c, instr, b == MT_BODY ? iterations : 1, err);
            if (st) return st;
        }
    if (c->nsizes) qsort(c->sizes, (size_t)c->nsizes, sizeof *c->sizes, by_bytes);
    return MT_OK;
}

/* The cheapest sequence of algorithms over the sizes. best[nsizes]: out. */
static void choose(struct chooser *c, enum mt_coll_kind kind, int *best) {
    int n = c->nsizes, na = mt_coll_nalgorithms;
    double *total_s = mt_new(&c->scratch, double, n *na), free_s = 0;
    int *from = mt_new(&c->scratch, int, n *na);
    for (int i = 0; i < n; i++) {
        double least_s = INFINITY;
        for (int a = 0; a < na; a++)
            if (mt_coll_algorithms[a]->kind == kind) least_s = fmin(least_s, c->sizes[i].cost_s[a]);
        free_s += least_s;
    }
    for (int i = 0; i < n; i++)
        for (int a = 0; a < na; a++) {
            double least_s = i ? INFINITY : 0;
            for (int before = 0; i && before < na; before++) {
                double s = total_s[(i - 1) * na + before] + (before == a ? 0 : row_gain * free_s);
                if (s < least_s || (s == least_s && before == a)) least_s = s, from[i * na + a] = before;
            }
            bool own = mt_coll_algorithms[a]->kind == kind;
            total_s[i * na + a] = own ? least_s + c->sizes[i].cost_s[a] : INFINITY;
        }
    int at = -1;
    for (int a = 0; a < na; a++)
        if (mt_coll_algorithms[a]->kind == kind && (at < 0 || total_s[(n - 1) * na + a] < total_s[(n - 1) * na + at]))
            at = a;
    for (int i = n - 1; i >= 0; at = from[i * na + at], i--) best[i] = at;
}

/* Between two sizes: the power of two nearest to their geometric mean, or, if none is between, the smaller size. */
static int64_t threshold(int64_t below, int64_t above) {
    double middle = sqrt((double)below) * sqrt((double)above);
    int64_t power = 1;
    while ((double)power * M_SQRT2 < middle) power *= 2;
    if (power < below) power *= 2;
    return power >= below && power < above ? power : below;
}

enum mt_status mt_algorithm_rows(const struct mt_program *program, const struct mt_costs *costs, struct mt_arena *arena,
                                 struct mt_algorithm_row **rows, int *nrows, struct mt_err *err) {
    struct mt_costs own = *costs;
    if (!own.memo) own.memo = mt_cost_memo_new();
    struct chooser c = {.program = program, .costs = &own};
    enum mt_status st = MT_OK;
    int capacity = 0;
    *rows = NULL;
    *nrows = 0;
    for (int k = 0; k < MT_NCOLLS; k++) {
        enum mt_coll_kind kind = (enum mt_coll_kind)k;
        if ((st = list_messages(&c, kind, err))) break;
        if (!c.nsizes) continue;
        int *best = mt_new(&c.scratch, int, c.nsizes);
        choose(&c, kind, best);
        for (int i = 0; i < c.nsizes; i++) {
            bool last = i == c.nsizes - 1;
            if (!last && best[i + 1] == best[i]) continue;
            mt_arena_grow(arena, rows, *nrows, &capacity, sizeof **rows);
            int64_t up_to = last ? 0 : threshold(c.sizes[i].bytes, c.sizes[i + 1].bytes);
            (*rows)[(*nrows)++] = (struct mt_algorithm_row){kind, mt_coll_algorithms[best[i]]->name, up_to};
        }
    }
    mt_arena_release(&c.scratch);
    if (!costs->memo) mt_cost_memo_free(own.memo);
    return st;
}
