/* Solving with each class faster, each link faster, each limit larger. */
#include "planner/review/explain.h"

#include <stdlib.h>
#include <string.h>

#include "planner/make/planning.h"

const char *mt_rank_list(const bool *chosen, int n, struct mt_arena *arena) {
    const char *text = "";
    int count = 0;
    for (int r = 0, last; r < n; r = last + 1) {
        last = r;
        if (!chosen[r]) continue;
        while (last + 1 < n && chosen[last + 1]) last++;
        text = last > r ? mt_arena_printf(arena, "%s %d-%d", text, r, last) : mt_arena_printf(arena, "%s %d", text, r);
        count += last - r + 1;
    }
    return mt_arena_printf(arena, "rank%s%s", count == 1 ? "" : "s", text);
}

static void faster_class(struct mt_cluster *cluster, int class) {
    for (int d = 0; d < cluster->ndevices; d++)
        if (cluster->devices[d].class == class) cluster->devices[d].speed *= MT_RELAX_SPEED;
}

static void faster_link(struct mt_cluster *cluster, int link) {
    cluster->links[link].bandwidth_Bps *= MT_RELAX_BANDWIDTH;
    cluster->links[link].shared_Bps *= MT_RELAX_BANDWIDTH;
    for (int p = 0; p < cluster->npairs; p++)
        if (cluster->pairs[p].link == link) cluster->pairs[p].bandwidth_Bps *= MT_RELAX_BANDWIDTH;
    for (int g = 0; g < cluster->ngroups; g++)
        for (int f = 0; f < cluster->groups[g].nfits && cluster->groups[g].link == link; f++)
            cluster->groups[g].fits[f].bandwidth_Bps *= MT_RELAX_BANDWIDTH;
}

static void larger_memory(struct mt_plan *plan, const struct mt_cluster *cluster, int class) {
    for (int r = 0; r < plan->nranks; r++)
        if (cluster->devices[r].class == class)
            plan->ranks[r].memory_bytes = (int64_t)((double)plan->ranks[r].memory_bytes * MT_RELAX_LIMIT);
}

/* The step with shares solved again for a cluster and limits; or with those that were best without the change (`base`),
 * where the others are no faster. The caller frees *solved. */
static enum mt_status solve(struct mt_planning *planning, const struct mt_plan *plan, const struct mt_plan *base,
                            struct mt_plan **solved, struct mt_err *err) {
    struct mt_plan *same = NULL;
    enum mt_status st = mt_plan_copy(plan, solved, err);
    if (st) return st;
    st = mt_search_rebalance(&planning->search, *solved, NULL, err);
    if (!st && (*solved)->prediction->step_s > base->prediction->step_s && !(st = mt_plan_copy(base, &same, err)) &&
        !(st = mt_search_price(&planning->search, same, NULL, err)) &&
        same->prediction->step_s < (*solved)->prediction->step_s) {
        mt_plan_free(*solved);
        *solved = same;
        return MT_OK;
    }
    mt_plan_free(same);
    if (st) mt_plan_free(*solved);
    return st;
}

static enum mt_status solve_row(const struct mt_explained *e, struct mt_planning *planning, const struct mt_plan *base,
                                struct mt_explained_row *row, struct mt_err *err) {
    struct mt_cluster *cluster = mt_cluster_copy(e->cluster);
    struct mt_plan *plan, *solved;
    enum mt_status st = mt_plan_copy(e->plan, &plan, err);
    if (!st) {
        if (row->relaxed == MT_RELAX_CLASS) faster_class(cluster, row->which);
        if (row->relaxed == MT_RELAX_LINK) faster_link(cluster, row->which);
        if (row->relaxed == MT_RELAX_MEMORY) larger_memory(plan, cluster, row->which);
        mt_planning_move(planning, cluster);
        if (!(st = solve(planning, plan, base, &solved, err))) {
            row->step_s = solved->prediction->step_s;
            mt_plan_free(solved);
        }
        mt_planning_move(planning, e->cluster);
        mt_plan_free(plan);
    }
    mt_cluster_free(cluster);
    return st;
}

/* Whether some two devices talk over it. */
static bool link_is_used(const struct mt_cluster *cluster, int link) {
    for (int a = 0; a < cluster->ndevices; a++) {
        int node = cluster->devices[a].node, inside = 0;
        for (int b = a + 1; b < cluster->ndevices && cluster->nodes[node].inside == link; b++)
            inside += cluster->devices[b].node == node;
        if (inside || (link == cluster->network && node != cluster->devices[0].node)) return true;
    }
    for (int p = 0; p < cluster->npairs; p++)
        if (cluster->pairs[p].link == link) return true;
    return false;
}

static void add_row(struct mt_explained *e, enum mt_relaxed relaxed, int which, const char *what) {
    e->rows[e->nrows++] = (struct mt_explained_row){.relaxed = relaxed, .which = which, .what = what};
}

static void list_rows(struct mt_explained *e) {
    const struct mt_cluster *c = e->cluster;
    e->rows = mt_new(&e->arena, struct mt_explained_row, 2 * c->nclasses + c->nlinks);
    for (int k = 0; k < c->nclasses; k++) {
        bool *mine = mt_new(&e->arena, bool, c->ndevices), any = false, limited = false;
        for (int d = 0; d < c->ndevices; d++) {
            mine[d] = c->devices[d].class == k;
            any |= mine[d];
            limited |= mine[d] && e->plan->ranks[d].memory_bytes > 0;
        }
        const char *ranks = mt_rank_list(mine, c->ndevices, &e->arena), *name = c->classes[k].name;
        if (any)
            add_row(e, MT_RELAX_CLASS, k,
                    mt_arena_printf(&e->arena, "%s %.0f%% faster (%s)", name, 100 * (MT_RELAX_SPEED - 1), ranks));
        if (limited)
            add_row(
                e, MT_RELAX_MEMORY, k,
                mt_arena_printf(&e->arena, "%.0f%% more memory for %s (%s)", 100 * (MT_RELAX_LIMIT - 1), name, ranks));
    }
    for (int l = 0; l < c->nlinks && c->ndevices > 1; l++)
        if (link_is_used(c, l))
            add_row(e, MT_RELAX_LINK, l,
                    mt_arena_printf(&e->arena, "link %s %g times as fast", c->links[l].name, MT_RELAX_BANDWIDTH));
}

static int by_step(const void *a, const void *b) {
    const struct mt_explained_row *x = a, *y = b;
    if (x->step_s != y->step_s) return x->step_s < y->step_s ? -1 : 1;
    return strcmp(x->what, y->what);
}

static enum mt_status relax_all(struct mt_explained *e, struct mt_planning *planning, struct mt_err *err) {
    struct mt_plan *base;
    enum mt_status st = solve(planning, e->plan, e->plan, &base, err);
    if (st) return st;
    e->base_s = base->prediction->step_s;
    list_rows(e);
    for (int i = 0; i < e->nrows && !st; i++) st = solve_row(e, planning, base, &e->rows[i], err);
    if (!st) qsort(e->rows, (size_t)e->nrows, sizeof *e->rows, by_step);
    mt_plan_free(base);
    return st;
}

static int longest_rank(const struct mt_plan *plan) {
    const struct mt_plan_time *t = plan->prediction->times;
    int longest = plan->order[0];
    for (int i = 1; i < plan->nplaces; i++) {
        int r = plan->order[i];
        if (t[r].idle_s < t[longest].idle_s ||
            (t[r].idle_s == t[longest].idle_s && t[r].compute_s > t[longest].compute_s))
            longest = r;
    }
    return longest;
}

enum mt_status mt_explain(const struct mt_plan *plan, const struct mt_cluster *cluster, struct mt_explained *explained,
                          struct mt_err *err) {
    struct mt_explained *e = explained;
    struct mt_planning planning;
    *e = (struct mt_explained){.cluster = cluster};
    enum mt_status st = mt_plan_copy(plan, &e->plan, err);
    if (st || (st = mt_planning_open(cluster, plan->model, &plan->job, &planning, err))) goto out;
    planning.search.limit_s = 10;
    if (!(st = mt_search_price(&planning.search, e->plan, &e->report, err))) {
        e->longest = longest_rank(e->plan);
        st = relax_all(e, &planning, err);
    }
    mt_planning_close(&planning);
out:
    if (st) mt_explained_release(e);
    return st;
}

void mt_explained_release(struct mt_explained *explained) {
    mt_plan_free(explained->plan);
    mt_search_report_release(&explained->report);
    mt_arena_release(&explained->arena);
    *explained = (struct mt_explained){0};
}
