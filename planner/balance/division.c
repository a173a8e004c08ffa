/* Balance: divisions of the extents, as groups of ranks of equal class and shares. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/balance/internal.h"

void mt_balance_state_release(struct balance_state *state) {
    free(state->groups);
    *state = (struct balance_state){0};
}

void mt_balance_state_copy(const struct balance_state *from, struct balance_state *to) {
    if (to->capacity < from->ngroups) {
        to->capacity = from->ngroups + 8;
        to->groups = mt_realloc(to->groups, (size_t)to->capacity * sizeof *to->groups);
    }
    memcpy(to->groups, from->groups, (size_t)from->ngroups * sizeof *to->groups);
    to->ngroups = from->ngroups;
    to->over = from->over, to->step_s = from->step_s;
}

void mt_balance_state_add(struct balance_state *state, const struct balance_group *like, int64_t count) {
    struct balance_group wanted = *like; /* `like` may be in the vector, which is moved */
    for (int g = 0; g < state->ngroups; g++) {
        struct balance_group *group = &state->groups[g];
        if (group->class != wanted.class || memcmp(group->x, wanted.x, sizeof wanted.x)) continue;
        group->count += count;
        assert(group->count >= 0);
        if (!group->count) state->groups[g] = state->groups[--state->ngroups];
        return;
    }
    assert(count > 0);
    if (state->ngroups == state->capacity) {
        state->capacity = state->capacity ? 2 * state->capacity : 16;
        state->groups = mt_realloc(state->groups, (size_t)state->capacity * sizeof *state->groups);
    }
    wanted.count = count;
    state->groups[state->ngroups++] = wanted;
}

void mt_balance_state_measure(const struct balance *b, struct balance_state *state) {
    state->over = state->step_s = 0;
    for (int g = 0; g < state->ngroups; g++) state->over += (double)state->groups[g].count * state->groups[g].over;
    for (int k = 0; k < b->nstages; k++) {
        double most = 0;
        for (int g = 0; g < state->ngroups; g++) most = fmax(most, state->groups[g].t[k]);
        state->step_s += most;
    }
}

bool mt_balance_better(const struct balance_state *a, const struct balance_state *b) {
    if (a->over != b->over) return a->over < b->over;
    return a->step_s < b->step_s;
}

static int by_shares(const void *a, const void *b) {
    const struct balance_group *x = a, *y = b;
    if (x->class != y->class) return x->class - y->class;
    for (int s = 0; s < MT_BALANCE_MOST_SPLITS; s++)
        if (x->x[s] != y->x[s]) return x->x[s] > y->x[s] ? -1 : 1;
    return 0;
}

void mt_balance_state_from(struct balance *b, const int64_t *sizes, struct balance_state *state) {
    const struct mt_balance *p = b->problem;
    struct balance_group *all = mt_calloc((size_t)p->nranks, sizeof *all);
    for (int r = 0; r < p->nranks; r++) {
        all[r].class = p->class[r];
        for (int s = 0; s < b->nsplits; s++) all[r].x[s] = sizes[(int64_t)s * p->nranks + r];
    }
    qsort(all, (size_t)p->nranks, sizeof *all, by_shares);
    state->ngroups = 0;
    for (int r = 0, next; r < p->nranks; r = next) {
        for (next = r + 1; next < p->nranks && by_shares(&all[r], &all[next]) == 0;) next++;
        mt_balance_rank(b, &all[r]);
        mt_balance_state_add(state, &all[r], next - r);
    }
    free(all);
    mt_balance_state_measure(b, state);
}

void mt_balance_state_sizes(const struct balance *b, const struct balance_state *state, int64_t *sizes) {
    const struct mt_balance *p = b->problem;
    int n = state->ngroups;
    struct balance_group *sorted = mt_malloc((size_t)n * sizeof *sorted);
    memcpy(sorted, state->groups, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, by_shares);
    for (int c = 0, g = 0; c < b->nclasses; c++)
        for (int r = 0; r < p->nranks; r++) {
            if (p->class[r] != c) continue;
            while (!sorted[g].count) g++;
            sorted[g].count--;
            for (int s = 0; s < b->nsplits; s++) sizes[(int64_t)s * p->nranks + r] = sorted[g].x[s];
        }
    free(sorted);
}

/* One split's shares of one class. */
struct deal {
    int64_t units, more,
        ragged; /* each rank has `units`, the first `more` ranks one more; the last has `ragged` more */
};

void mt_balance_state_of_totals(struct balance *b, const int64_t *total, struct balance_state *state) {
    state->ngroups = 0;
    for (int c = 0; c < b->nclasses; c++) {
        struct deal deal[MT_BALANCE_MOST_SPLITS];
        int64_t n = b->nranks[c];
        if (!n) continue;
        for (int s = 0; s < b->nsplits; s++) {
            int64_t units = total[s * b->nclasses + c] / b->align[s];
            deal[s] = (struct deal){units / n, units % n, total[s * b->nclasses + c] % b->align[s]};
        }
        for (int64_t r = 0, next; r < n; r = next) { /* ranks [r, next) have equal shares */
            struct balance_group group = {.class = c};
            next = n;
            for (int s = 0; s < b->nsplits; s++) {
                bool last = deal[s].ragged && r == n - 1;
                group.x[s] = (deal[s].units + (r < deal[s].more)) * b->align[s] + (last ? deal[s].ragged : 0);
                if (r < deal[s].more && deal[s].more < next) next = deal[s].more;
                if (deal[s].ragged && r < n - 1 && n - 1 < next) next = n - 1;
            }
            mt_balance_rank(b, &group);
            mt_balance_state_add(state, &group, next - r);
        }
    }
    mt_balance_state_measure(b, state);
}
