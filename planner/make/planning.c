/* Model, graph, costs and options of a search. */
#include "planner/make/planning.h"

#include <stdlib.h>
#include <string.h>

enum mt_status mt_planning_open(const struct mt_cluster *cluster, const char *model, const struct mt_job *job,
                                struct mt_planning *p, struct mt_err *err) {
    *p = (struct mt_planning){.device = NULL};
    enum mt_status st = mt_model_parse(model, &p->planned.model, err);
    if (!st) st = mt_training_graph(&p->planned.model, job, &p->planned.graph, err);
    if (!st) st = mt_planned_options_for(mt_cluster_kind(cluster), &p->device, &p->options, err);
    if (st) {
        mt_planning_close(p);
        return st;
    }
    p->job = *job;
    if (!p->job.seq) p->job.seq = mt_model_get(&p->planned.model, "context");
    p->devices = mt_calloc((size_t)cluster->ndevices, sizeof *p->devices);
    for (int d = 0; d < cluster->ndevices; d++) p->devices[d] = d;
    p->costs = (struct mt_costs){.nranks = cluster->ndevices, .device = p->devices};
    p->search = (struct mt_search){.model = &p->planned.model,
                                   .graph = p->planned.graph,
                                   .job = &p->job,
                                   .costs = &p->costs,
                                   .options = &p->options,
                                   .fixed = {.decisions = mt_decisions_unset}};
    mt_planning_move(p, cluster);
    return MT_OK;
}

static void set_memo(struct mt_planning *p, struct mt_cost_memo *memo, bool shared) {
    if (!p->shares_memo) mt_cost_memo_free(p->costs.memo);
    p->costs.memo = memo;
    p->shares_memo = shared;
}

void mt_planning_close(struct mt_planning *p) {
    set_memo(p, NULL, false);
    mt_planned_release(&p->planned);
    mt_device_close(p->device);
    free(p->devices);
    *p = (struct mt_planning){0};
}

void mt_planning_move(struct mt_planning *p, const struct mt_cluster *cluster) {
    p->cluster = p->costs.cluster = cluster;
    set_memo(p, mt_cost_memo_new(), false);
}

void mt_planning_share(struct mt_planning *p, struct mt_cost_memo *memo) {
    set_memo(p, memo, true);
}

struct mt_plan *mt_planning_plan(const struct mt_planning *p) {
    const struct mt_cluster *c = p->cluster;
    struct mt_plan *plan = mt_plan_new(c->ndevices);
    plan->made_by = "motley " MOTLEY_VERSION;
    plan->model = mt_model_text(&p->planned.model, &plan->arena);
    plan->job = p->job;
    strcpy(plan->cluster_hash, c->hash);
    plan->device = mt_arena_strdup(&plan->arena, mt_cluster_kind(c));
    for (int d = 0; d < c->ndevices; d++) {
        const struct mt_cluster_device *device = &c->devices[d];
        plan->ranks[d] = (struct mt_plan_rank){.host = mt_arena_strdup(&plan->arena, c->nodes[device->node].name),
                                               .class = mt_arena_strdup(&plan->arena, c->classes[device->class].name),
                                               .speed = device->speed,
                                               .memory_bytes = device->memory_bytes};
        if (device->gpu) plan->ranks[d].reserved_bytes = device->gpu->reserved_bytes;
    }
    return plan;
}

enum mt_status mt_planning_same(const struct mt_plan *plan, const char *path, const struct mt_cluster *cluster,
                                const char *text, struct mt_err *err) {
    if (!plan->cluster_hash[0]) {
        mt_fail(err, MT_EINPUT, "%s: was made for no cluster, but by speeds", path);
        return mt_err_hint(err, "make one for it: motley plan --cluster %.200s --model ... -o FILE", text);
    }
    if (!strcmp(plan->cluster_hash, cluster->hash)) {
        if (plan->nranks == cluster->ndevices) return MT_OK;
        mt_fail(err, MT_EINPUT, "%s: ranks: has %d, but its cluster has %d devices: it was written without idle ranks",
                path, plan->nranks, cluster->ndevices);
        return mt_err_hint(err, "take the plan with all ranks, as `motley plan` writes it without --without-idle");
    }
    mt_fail(err, MT_EINPUT, "%s: cluster_hash: the plan was made for another cluster (%s) than %.200s (%s)", path,
            plan->cluster_hash, text, cluster->hash);
    return mt_err_hint(err, "give the cluster that it was made for, or plan again for this one");
}
