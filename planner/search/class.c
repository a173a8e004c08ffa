/* Equivalence classes of ranks: one device class, memory limit and speed; where there would be too many, speeds that
 * differ by no more than their errors count as one. And the structures that are searched. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/text/ranks.h"
#include "planner/balance/split.h"
#include "planner/search/internal.h"

enum { MANY_CLASSES = 16 };
static const double memory_apart = 0.02; /* equal hosts differ by what their systems hold */

static const struct mt_cluster_device *device_of(const struct mt_searching *s, int rank) {
    return &s->costs.cluster->devices[s->costs.device[rank]];
}

static bool same_class(const struct mt_searching *s, int a, int b, bool within_errors) {
    const struct mt_cluster_device *x = device_of(s, a), *y = device_of(s, b);
    const struct mt_plan_fixed *fixed = &s->search->fixed;
    int64_t mine = s->plan->ranks[a].memory_bytes, other = s->plan->ranks[b].memory_bytes;
    if (x->class != y->class || !mine != !other) return false;
    if (fabs((double)(mine - other)) > (within_errors ? memory_apart * (double)mine : 0)) return false;
    if (x->emulated != y->emulated) return false;
    if (fixed->shares && fixed->shares[a] != fixed->shares[b]) return false;
    if (fixed->micro && fixed->micro[a] != fixed->micro[b]) return false;
    for (int l = 0; l < s->nlabels; l++)
        if (s->given_storage[l] && s->given_storage[l][a] != s->given_storage[l][b]) return false;
    double apart = within_errors ? fmin(hypot(x->speed_error, y->speed_error), 0.02) : 0;
    return fabs(x->speed - y->speed) <= apart * x->speed;
}

static void count_classes(struct mt_searching *s, bool within_errors) {
    s->nclasses = 0;
    for (int r = 0; r < s->nranks; r++) {
        int c = 0;
        while (c < s->nclasses && !same_class(s, s->classes[c].rank, r, within_errors)) c++;
        const struct mt_cluster_device *device = device_of(s, r);
        if (c == s->nclasses)
            s->classes[s->nclasses++] = (struct search_class){.rank = r,
                                                              .memory_limit = s->plan->ranks[r].memory_bytes,
                                                              .fastest = 1,
                                                              .device_class = device->class,
                                                              .speed = device->speed};
        s->classes[c].nranks++;
        if (s->plan->ranks[r].memory_bytes < s->classes[c].memory_limit)
            s->classes[c].memory_limit = s->plan->ranks[r].memory_bytes;
        s->classes[c].fastest = fmax(s->classes[c].fastest, device->speed / s->classes[c].speed);
        s->class[r] = c;
    }
}

/* "xeon-1t (ranks 0 2-5)", the first few. */
static const char *name_of(struct mt_searching *s, int class) {
    struct mt_arena *arena = &s->arena;
    const struct search_class *c = &s->classes[class];
    int *ranks = mt_new(arena, int, s->nranks), n = 0;
    for (int r = 0; r < s->nranks; r++)
        if (s->class[r] == class) ranks[n++] = mt_search_rank(s, r);
    mt_ranks_sort(ranks, n);
    return mt_arena_printf(arena, "%s (rank%s %s)", s->costs.cluster->classes[c->device_class].name, n > 1 ? "s" : "",
                           mt_ranks_text(ranks, n, MT_RANKS_NAME, arena));
}

/* Shares of a label that a person gives. */
static enum mt_status check_shares(struct mt_searching *s, const struct mt_label *label, const int64_t *sizes) {
    int64_t sum = 0;
    for (int r = 0; r < s->nranks; r++) {
        if (sizes[r] < 0 || sizes[r] > label->extent)
            return mt_fail(s->err, MT_EINPUT, "rank %d's share of \"%s\" is %lld, but it is %lld in all",
                           mt_search_rank(s, r), label->name, (long long)sizes[r], (long long)label->extent);
        sum += sizes[r];
    }
    if (sum != label->extent)
        return mt_fail(s->err, MT_EINPUT, "shares of \"%s\" sum to %lld, but it is %lld", label->name, (long long)sum,
                       (long long)label->extent);
    if (mt_search_aligned(sizes, s->nranks, label->align)) return MT_OK;
    return mt_fail(s->err, MT_EINPUT, "shares of \"%s\": all but one must be multiples of %lld", label->name,
                   (long long)label->align);
}

static enum mt_status find_labels(struct mt_searching *s) {
    const struct mt_graph *g = s->search->graph;
    const struct mt_plan_fixed *fixed = &s->search->fixed;
    s->labels = mt_new(&s->arena, int, g->nlabels);
    s->nlabels = mt_sharding_labels(g, s->labels);
    s->given_storage = mt_new(&s->arena, const int64_t *, s->nlabels + 1);
    s->unit = s->unit_align = 1;
    for (int i = 0; i < fixed->nstorage_shares; i++) {
        int l = 0;
        while (l < s->nlabels && strcmp(g->labels[s->labels[l]].name, fixed->storage_shares[i].label)) l++;
        if (l == s->nlabels)
            return mt_fail(s->err, MT_EINPUT, "no parameter is stored by shares of \"%.60s\"",
                           fixed->storage_shares[i].label);
        if (check_shares(s, &g->labels[s->labels[l]], fixed->storage_shares[i].sizes)) return s->err->status;
        s->given_storage[l] = fixed->storage_shares[i].sizes;
    }
    for (int l = 0; l < s->nlabels; l++) {
        const struct mt_label *label = &g->labels[s->labels[l]];
        if (!s->given_storage[l] && label->extent > s->unit) s->unit = label->extent, s->unit_align = label->align;
    }
    return MT_OK;
}

enum mt_status mt_search_classes(struct mt_searching *s) {
    const struct mt_plan_fixed *fixed = &s->search->fixed;
    s->class = mt_new(&s->arena, int, s->nranks);
    s->everybody = mt_new(&s->arena, int, s->nranks);
    s->classes = mt_new(&s->arena, struct search_class, s->nranks);
    for (int r = 0; r < s->nranks; r++) s->everybody[r] = r;
    s->node = mt_plan_nodes(s->plan, &s->arena);
    if (find_labels(s)) return s->err->status;
    int64_t sum = 0;
    for (int r = 0; fixed->shares && r < s->nranks; r++) sum += fixed->shares[r];
    if (fixed->shares && sum != s->search->job->batch)
        return mt_fail(s->err, MT_EINPUT, "the shares sum to %lld, but the batch is %lld", (long long)sum,
                       (long long)s->search->job->batch);
    count_classes(s, false);
    if (s->nclasses > MANY_CLASSES) {
        memset(s->classes, 0, (size_t)s->nranks * sizeof *s->classes);
        count_classes(s, true);
    }
    for (int c = 0; c < s->nclasses; c++) s->classes[c].name = name_of(s, c);
    return MT_OK;
}

/* ---- structures ---- */

/* Every operator with samples splits the batch: then no message depends on the micro-batches of others. */
static bool all_by_batch(const struct mt_decisions *d) {
    bool all = false;
    for (int i = 0; i < d->nrules; i++) {
        if (d->rules[i].operators != MT_OPERATORS_SPLIT || strcmp(d->rules[i].split, "batch")) return false;
        all |= !strcmp(d->rules[i].pattern, "*");
    }
    return all;
}

bool mt_search_rows_of(const struct mt_plan *plan, struct mt_decisions *rows) {
    static struct mt_rule_row none = {.pattern = "*", .operators = MT_OPERATORS_REPLICATE, .split = ""};
    *rows = plan->decisions;
    rows->nalgorithms = 0;
    if (!rows->nrules) rows->rules = &none, rows->nrules = 1;
    for (int i = 0; i < rows->nrules; i++)
        if (rows->rules[i].operators == MT_OPERATORS_SPLIT && strcmp(rows->rules[i].split, "batch")) return false;
    for (int i = 0; i < rows->nstorage; i++)
        if (mt_storage_row_names_split(&rows->storage[i])) return false;
    return mt_plan_is_flat(plan) && !mt_decisions_in_step(&plan->decisions);
}

static void add_structure(struct mt_searching *s, const struct mt_decisions *rows, enum mt_sync sync,
                          const char *where) {
    struct search_structure *one = &s->structures[s->nstructures++];
    struct mt_decisions *d = &one->decisions;
    const struct mt_decisions *fixed = &s->search->fixed.decisions;
    *d = *fixed;
    d->rules = rows->rules, d->nrules = rows->nrules;
    d->storage = rows->storage, d->nstorage = rows->nstorage;
    d->nalgorithms = 0;
    d->sync = sync;
    if (d->start < 0) d->start = mt_plan_default_start(s->plan->device);
    mt_decisions_complete(d, &s->arena);
    one->by_batch = s->nranks == 1 || all_by_batch(d);
    one->what = mt_arena_printf(&s->arena, "state %s, %s", where, mt_sync_names[sync]);
}

/* The last plan's, if it is none of those that are searched anyway. */
static void add_last(struct mt_searching *s) {
    const struct mt_plan *last = s->search->last;
    struct mt_decisions rows;
    if (!last || last->nranks != s->nranks || s->nranks == 1 || !mt_search_rows_of(last, &rows)) return;
    for (int i = 0; i < s->nstructures; i++)
        if (mt_decisions_same_rows(&s->structures[i].decisions, &rows)) return;
    if (mt_decisions_shard_state(&rows) || !all_by_batch(&rows)) add_structure(s, &rows, rows.sync, "as it was");
}

/* Replicated parameters have AllReduce with either sync. */
enum mt_status mt_search_structures(struct mt_searching *s) {
    static const enum mt_sync syncs[] = {MT_SYNC_ALL_REDUCE, MT_SYNC_REDUCE_SCATTER};
    const struct mt_decisions *fixed = &s->search->fixed.decisions;
    s->structures = mt_new(&s->arena, struct search_structure, SEARCH_MOST_STRUCTURES);
    for (int state = 0; state < MT_NSTATE; state++) {
        struct mt_decisions rows = *fixed;
        const struct mt_storage_row everything = {.pattern = "*", .state = (enum mt_state)state};
        if (state == MT_STATE_SPLIT && (fixed->nstorage || s->nranks == 1)) break;
        if (!fixed->nstorage)
            rows.storage = mt_arena_memdup(&s->arena, &everything, sizeof everything), rows.nstorage = 1;
        for (int how = 0; how < 2; how++) {
            bool wanted = fixed->sync < 0 ? how == 0 || mt_decisions_shard_state(&rows) : fixed->sync == syncs[how];
            if (wanted) add_structure(s, &rows, syncs[how], fixed->nstorage ? "as given" : mt_state_names[state]);
        }
    }
    if (!fixed->nrules && !fixed->nstorage && fixed->sync < 0) add_last(s);
    s->works = mt_new(&s->arena, struct search_work *, 2 * s->nstructures);
    return MT_OK;
}
