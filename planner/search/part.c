/* A search on some of the ranks, in some order: all that it reads is copied to places, as if there were no other ranks,
 * and its plan is written back with the others idle. */
#include <string.h>

#include "planner/search/internal.h"

static const int64_t *at_places(const struct search_part *part, const int64_t *of_rank, struct mt_arena *arena) {
    if (!of_rank) return NULL;
    int64_t *of_place = mt_new(arena, int64_t, part->n);
    for (int i = 0; i < part->n; i++) of_place[i] = of_rank[part->rank[i]];
    return of_place;
}

static void fix(struct search_part *part, const struct mt_plan_fixed *whole) {
    struct mt_plan_fixed *fixed = &part->search.fixed;
    struct mt_storage_shares *rows = mt_new(&part->arena, struct mt_storage_shares, whole->nstorage_shares + 1);
    fixed->shares = at_places(part, whole->shares, &part->arena);
    fixed->micro = at_places(part, whole->micro, &part->arena);
    fixed->storage_shares = rows;
    for (int i = 0; i < whole->nstorage_shares; i++)
        rows[i] = (struct mt_storage_shares){whole->storage_shares[i].label,
                                             (int64_t *)at_places(part, whole->storage_shares[i].sizes, &part->arena)};
}

void mt_search_part_open(const struct mt_search *whole, const struct mt_plan *plan, int n, const int *rank,
                         struct search_part *part) {
    *part = (struct search_part){.search = *whole, .costs = *whole->costs, .n = n, .plan = mt_plan_new(n)};
    struct mt_arena *arena = &part->arena;
    int *device = mt_new(arena, int, n);
    part->rank = mt_arena_memdup(arena, rank, (size_t)n * sizeof *rank);
    for (int i = 0; i < n; i++) {
        device[i] = whole->costs->device[rank[i]];
        part->plan->ranks[i] = plan->ranks[rank[i]];
    }
    part->costs.nranks = n;
    part->costs.device = device;
    part->search.costs = &part->costs;
    part->search.last = NULL;
    fix(part, &whole->fixed);
    struct mt_plan *p = part->plan;
    p->made_by = plan->made_by;
    p->device = plan->device;
    p->model = plan->model;
    memcpy(p->cluster_hash, plan->cluster_hash, sizeof p->cluster_hash);
    p->job = *whole->job;
}

void mt_search_part_close(struct search_part *part) {
    mt_plan_free(part->plan);
    mt_plan_free(part->last);
    mt_arena_release(&part->arena);
}

void mt_search_part_take(struct search_part *part, const struct mt_plan *whole, struct mt_plan *to) {
    to->job = whole->job;
    to->nsplits = whole->nsplits;
    to->splits = mt_new(&to->arena, struct mt_plan_split, whole->nsplits);
    for (int s = 0; s < to->nsplits; s++)
        to->splits[s] = (struct mt_plan_split){
            mt_arena_strdup(&to->arena, whole->splits[s].name), mt_arena_strdup(&to->arena, whole->splits[s].label),
            whole->splits[s].align, (int64_t *)at_places(part, whole->splits[s].sizes, &to->arena),
            whole->splits[s].over};
    memcpy(to->micro, at_places(part, whole->micro, &to->arena), (size_t)part->n * sizeof *to->micro);
    to->decisions = mt_decisions_copy(&whole->decisions, &to->arena);
}

void mt_search_part_begin_at(struct search_part *part, const struct mt_plan *whole) {
    part->last = mt_plan_new(part->n);
    part->last->device = part->plan->device;
    mt_search_part_take(part, whole, part->last);
    part->search.last = part->last;
}

/* ---- back ---- */

static int64_t *at_ranks(const struct search_part *part, const int64_t *of_place, struct mt_plan *to) {
    int64_t *of_rank = mt_new(&to->arena, int64_t, to->nranks);
    for (int i = 0; i < part->n; i++) of_rank[part->rank[i]] = of_place[i];
    return of_rank;
}

static void copy_prediction(const struct search_part *part, struct mt_plan *to) {
    const struct mt_plan_prediction *from = part->plan->prediction;
    struct mt_plan_prediction *p = to->prediction = mt_arena_memdup(&to->arena, from, sizeof *part->plan->prediction);
    p->times = mt_new(&to->arena, struct mt_plan_time, to->nranks);
    memset(to->memory, 0, (size_t)to->nranks * sizeof *to->memory);
    for (int i = 0; i < part->n; i++) {
        p->times[part->rank[i]] = from->times[i];
        to->memory[part->rank[i]] = part->plan->memory[i];
    }
    p->parts = mt_arena_memdup(&to->arena, from->parts, (size_t)from->nparts * sizeof *from->parts);
    for (int i = 0; i < from->nparts; i++) p->parts[i].source = mt_arena_strdup(&to->arena, from->parts[i].source);
    p->rejected = mt_new(&to->arena, struct mt_plan_rejected, from->nrejected);
    for (int i = 0; i < from->nrejected; i++)
        p->rejected[i] =
            (struct mt_plan_rejected){mt_arena_strdup(&to->arena, from->rejected[i].what),
                                      mt_arena_strdup(&to->arena, from->rejected[i].why), from->rejected[i].step_s};
}

void mt_search_part_write(const struct search_part *part, struct mt_plan *to) {
    const struct mt_plan *from = part->plan;
    to->nplaces = part->n;
    memcpy(to->order, part->rank, (size_t)part->n * sizeof *to->order);
    to->job = from->job;
    to->nsplits = from->nsplits;
    to->splits = mt_new(&to->arena, struct mt_plan_split, from->nsplits);
    for (int s = 0; s < from->nsplits; s++)
        to->splits[s] = (struct mt_plan_split){
            mt_arena_strdup(&to->arena, from->splits[s].name), mt_arena_strdup(&to->arena, from->splits[s].label),
            from->splits[s].align, at_ranks(part, from->splits[s].sizes, to), from->splits[s].over};
    memcpy(to->micro, at_ranks(part, from->micro, to), (size_t)to->nranks * sizeof *to->micro);
    to->decisions = mt_decisions_copy(&from->decisions, &to->arena);
    for (int i = 0; i < part->n; i++) to->ranks[part->rank[i]].speed = from->ranks[i].speed;
    memcpy(to->model_hash, from->model_hash, sizeof to->model_hash);
    memcpy(to->program_hash, from->program_hash, sizeof to->program_hash);
    to->parameters = from->parameters;
    to->flops_per_step = from->flops_per_step;
    if (from->prediction) copy_prediction(part, to);
}
