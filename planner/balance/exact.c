/* Balance: an exact dynamic programme over ranks, for small problems.
 *
 * Ranks take their shares one after the other. A label is a partial division; of the labels that leave equal
 * remainders, those are kept that no other dominates, that is, beats in every stage's time so far. A label is dropped
 * when it cannot end below the best known step: sum over stages of max(time so far, the stage's lower bound); or when
 * the ranks that follow cannot take what is left. */
#include <stdlib.h>
#include <string.h>

#include "planner/balance/internal.h"

#define MOST_OPTIONS 20000
#define MOST_STAGES 6
#define CLOSER (1 - 1e-10) /* an improvement below this is rounding */

struct option {
    int64_t x[MT_BALANCE_MOST_SPLITS];
    double t[MOST_STAGES];
};
struct options {
    int n;
    struct option *all;
    int *at; /* [combinations of shares]: its option, or -1: too slow or too large for memory */
    int64_t least[MT_BALANCE_MOST_SPLITS], most[MT_BALANCE_MOST_SPLITS];
};
struct label {   /* a partial division */
    int64_t key; /* of what is left */
    double step_s;
    double t[MOST_STAGES];
    int parent, option;
};
struct level { /* after a number of ranks */
    int class;
    int n, capacity;
    struct label *labels;
    int64_t least[MT_BALANCE_MOST_SPLITS], most[MT_BALANCE_MOST_SPLITS]; /* what the ranks that follow can take */
};
struct exact {
    struct balance *b;
    int64_t left;            /* options that may still be tried */
    double below_s;          /* what to beat */
    struct options *options; /* [nclasses] */
    struct level *levels;    /* [nranks + 1] */
    int parent, option[2];   /* of the best division; option: of the last two ranks */
    bool found;
};

/* The shares that one rank can have of a split: multiples of align, and those plus the ragged remainder. */
static int64_t nshares(const struct balance *b, int split) {
    int64_t units = b->extent[split] / b->align[split];
    return b->extent[split] % b->align[split] ? 2 * (units + 1) : units + 1;
}

static int64_t share(const struct balance *b, int split, int64_t i) {
    int64_t units = b->extent[split] / b->align[split] + 1;
    return (i % units) * b->align[split] + (i >= units ? b->extent[split] % b->align[split] : 0);
}

static double step_of(const struct exact *w, const double *t) {
    double step_s = 0;
    for (int k = 0; k < w->b->nstages; k++) step_s += balance_larger(t[k], w->b->least_t[k]);
    return step_s;
}

static void list_options(struct exact *w, int class, int64_t combinations) {
    struct balance *b = w->b;
    struct options *o = &w->options[class];
    o->all = mt_malloc((size_t)combinations * sizeof *o->all);
    o->at = mt_malloc((size_t)combinations * sizeof *o->at);
    for (int64_t i = 0; i < combinations; i++) {
        struct balance_group group = {.class = class};
        o->at[i] = -1;
        int64_t rest = i;
        for (int s = 0; s < b->nsplits; s++) {
            group.x[s] = share(b, s, rest % nshares(b, s));
            rest /= nshares(b, s);
        }
        mt_balance_rank(b, &group);
        if (group.over > 0 || step_of(w, group.t) >= w->below_s) continue;
        struct option *option = &o->all[o->at[i] = o->n++];
        memcpy(option->x, group.x, sizeof option->x);
        memcpy(option->t, group.t, sizeof option->t);
        for (int s = 0; s < b->nsplits; s++) {
            if (o->n == 1 || group.x[s] < o->least[s]) o->least[s] = group.x[s];
            if (o->n == 1 || group.x[s] > o->most[s]) o->most[s] = group.x[s];
        }
    }
}

static int by_key(const void *a, const void *b) {
    const struct label *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    if (x->step_s != y->step_s) return x->step_s < y->step_s ? -1 : 1;
    return 0;
}

/* Keep the labels that no other with an equal remainder dominates. */
static void prune(const struct exact *w, struct level *level) {
    if (!level->n) return;
    qsort(level->labels, (size_t)level->n, sizeof *level->labels, by_key);
    int n = 0, first = 0; /* of the same key among those kept */
    for (int i = 0; i < level->n; i++) {
        struct label *label = &level->labels[i];
        if (n && label->key != level->labels[first].key) first = n;
        bool dominated = false;
        for (int j = first; j < n && !dominated; j++) {
            dominated = true;
            for (int k = 0; k < w->b->nstages && dominated; k++)
                dominated = balance_larger(level->labels[j].t[k], w->b->least_t[k]) <=
                            balance_larger(label->t[k], w->b->least_t[k]);
        }
        if (!dominated) level->labels[n++] = *label;
    }
    level->n = n;
}

static void left_of(const struct balance *b, int64_t key, int64_t *left) {
    for (int s = 0; s < b->nsplits; s++) left[s] = key % (b->extent[s] + 1), key /= b->extent[s] + 1;
}

/* The remainder of `left` after an option, and its key; false when the ranks that follow cannot take it. */
static bool leaves(const struct exact *w, const struct level *to, const struct option *option, const int64_t *left,
                   int64_t *rest, int64_t *key) {
    const struct balance *b = w->b;
    *key = 0;
    for (int s = b->nsplits - 1; s >= 0; s--) {
        rest[s] = left[s] - option->x[s];
        if (rest[s] < to->least[s] || rest[s] > to->most[s]) return false;
        if (b->align[s] > 1 && option->x[s] % b->align[s] && option->x[s] % b->align[s] != left[s] % b->align[s])
            return false;
        *key = *key * (b->extent[s] + 1) + rest[s];
    }
    return true;
}

static void extend(struct exact *w, int at, int parent) {
    struct level *from = &w->levels[at], *to = &w->levels[at + 1];
    const struct options *o = &w->options[from->class];
    int64_t left[MT_BALANCE_MOST_SPLITS], rest[MT_BALANCE_MOST_SPLITS];
    left_of(w->b, from->labels[parent].key, left);
    w->left -= o->n;
    for (int i = 0; i < o->n && w->left > 0; i++) {
        const struct option *option = &o->all[i];
        struct label label = {.parent = parent, .option = i};
        if (!leaves(w, to, option, left, rest, &label.key)) continue;
        for (int k = 0; k < w->b->nstages; k++) label.t[k] = balance_larger(from->labels[parent].t[k], option->t[k]);
        label.step_s = step_of(w, label.t);
        if (label.step_s >= w->below_s) continue;
        if (to->n == to->capacity) {
            to->capacity = to->capacity ? 2 * to->capacity : 64;
            to->labels = mt_realloc(to->labels, (size_t)to->capacity * sizeof *to->labels);
        }
        w->left -= 8; /* sorting it */
        to->labels[to->n++] = label;
    }
}

/* Complete one label with its last two ranks: the last takes what is left. */
static void complete_label(struct exact *w, int at, int parent) {
    struct balance *b = w->b;
    const struct level *from = &w->levels[at], *to = &w->levels[at + 1];
    const struct options *o = &w->options[from->class], *last = &w->options[to->class];
    int64_t left[MT_BALANCE_MOST_SPLITS], rest[MT_BALANCE_MOST_SPLITS], key;
    left_of(b, from->labels[parent].key, left);
    w->left -= o->n;
    for (int i = 0; i < o->n && w->left > 0; i++) {
        if (!leaves(w, to, &o->all[i], left, rest, &key)) continue;
        int64_t combination = 0;
        for (int s = b->nsplits - 1; s >= 0; s--) {
            int64_t units = rest[s] / b->align[s];
            if (rest[s] % b->align[s]) units += b->extent[s] / b->align[s] + 1;
            combination = combination * nshares(b, s) + units;
        }
        int j = last->at[combination];
        if (j < 0) continue;
        double t[MOST_STAGES];
        for (int k = 0; k < b->nstages; k++) {
            double most = balance_larger(from->labels[parent].t[k], o->all[i].t[k]);
            t[k] = balance_larger(most, last->all[j].t[k]);
        }
        double step_s = step_of(w, t);
        if (step_s >= w->below_s) continue;
        w->below_s = step_s * CLOSER;
        w->parent = parent, w->option[0] = i, w->option[1] = j, w->found = true;
    }
}

static void take(struct exact *w, int level, int option, struct balance_state *state) {
    struct balance_group group = {.class = w->levels[level].class};
    memcpy(group.x, w->options[group.class].all[option].x, sizeof group.x);
    mt_balance_rank(w->b, &group);
    mt_balance_state_add(state, &group, 1);
}

/* The best division, from its last label back. */
static void trace(struct exact *w, struct balance_state *best) {
    int n = w->b->problem->nranks;
    best->ngroups = 0;
    take(w, n - 1, w->option[1], best);
    take(w, n - 2, w->option[0], best);
    for (int i = n - 2, at = w->parent; i > 0; i--) {
        take(w, i - 1, w->levels[i].labels[at].option, best);
        at = w->levels[i].labels[at].parent;
    }
    mt_balance_state_measure(w->b, best);
}

/* For each level, the least and most that its rank and those after it can take; false if there are too many options. */
static bool make_levels(struct exact *w) {
    struct balance *b = w->b;
    int n = b->problem->nranks, rank = 0;
    double keys = 1, combinations = 1;
    for (int s = 0; s < b->nsplits; s++) keys *= (double)b->extent[s] + 1, combinations *= (double)nshares(b, s);
    if (combinations > MOST_OPTIONS) return false;
    w->left -= b->nclasses * (int64_t)combinations;
    if (keys > 1e18 || w->left < 0) return false;
    for (int c = 0; c < b->nclasses; c++) {
        if (!b->nranks[c]) continue;
        list_options(w, c, (int64_t)combinations);
        for (int64_t i = 0; i < b->nranks[c]; i++) w->levels[rank++].class = c;
    }
    for (int i = n - 1; i >= 0; i--)
        for (int s = 0; s < b->nsplits; s++) {
            w->levels[i].least[s] = w->levels[i + 1].least[s] + w->options[w->levels[i].class].least[s];
            w->levels[i].most[s] = w->levels[i + 1].most[s] + w->options[w->levels[i].class].most[s];
        }
    return true;
}

bool mt_balance_exact(struct balance *b, struct balance_state *best, int64_t most_tries) {
    int n = b->problem->nranks;
    if (n == 1) return best->over <= 0;
    if (best->over > 0 || b->nstages > MOST_STAGES) return false;
    struct exact w = {.b = b, .left = most_tries, .below_s = best->step_s * CLOSER};
    w.options = mt_calloc((size_t)b->nclasses, sizeof *w.options);
    w.levels = mt_calloc((size_t)n + 1, sizeof *w.levels);
    bool complete = make_levels(&w);
    if (complete) {
        struct level *first = &w.levels[0];
        first->labels = mt_calloc(1, sizeof *first->labels);
        first->n = first->capacity = 1;
        for (int s = b->nsplits - 1; s >= 0; s--)
            first->labels[0].key = first->labels[0].key * (b->extent[s] + 1) + b->extent[s];
    }
    for (int i = 0; complete && i < n - 2; i++) {
        for (int j = 0; w.left > 0 && j < w.levels[i].n; j++) extend(&w, i, j);
        complete = w.left > 0;
        if (complete) prune(&w, &w.levels[i + 1]);
    }
    for (int j = 0; complete && w.left > 0 && j < w.levels[n - 2].n; j++) complete_label(&w, n - 2, j);
    complete = complete && w.left > 0;
    if (w.found) trace(&w, best);
    for (int c = 0; c < b->nclasses; c++) free(w.options[c].all), free(w.options[c].at);
    for (int i = 0; i <= n; i++) free(w.levels[i].labels);
    free(w.options), free(w.levels);
    return complete;
}
