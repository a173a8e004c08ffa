/* Planning again for what is left. */
#include "launcher/launch/again.h"

#include <string.h>

#include "planner/make/make.h"
#include "planner/review/bottleneck.h"
#include "profiler/describe/edit.h"

/* Of the search: a cluster that has just lost a host should not wait long. */
static const double limit_s = 60;

static bool host_answers(const struct mt_hosts *hosts, const char *name) {
    int host = mt_hosts_find(hosts, name);
    return host >= 0 && hosts->hosts[host].answers;
}

/* The cluster without devices that cannot be used; from the last on, since later ones are renumbered. */
static enum mt_status take_out(const struct mt_plan *plan, const struct mt_hosts *hosts, const struct mt_places *places,
                               const bool *lost, struct mt_cluster *left, struct mt_err *err) {
    char what[32];
    bool *gone = mt_new(&left->arena, bool, left->ndevices);
    int there = 0;
    for (int d = 0; d < left->ndevices; d++) gone[d] = !host_answers(hosts, left->nodes[left->devices[d].node].name);
    for (int r = 0; r < plan->nranks; r++)
        if (lost[r] && places->device[r] >= 0) gone[places->device[r]] = true;
    for (int d = 0; d < left->ndevices; d++) there += !gone[d];
    if (!there) return mt_fail(err, MT_EPEER, "no device of the profile is left");
    for (int d = left->ndevices - 1; d >= 0; d--) {
        if (!gone[d]) continue;
        snprintf(what, sizeof what, "rank:%d", d);
        enum mt_status st = mt_cluster_remove(left, what, err);
        if (st) return st;
    }
    return MT_OK;
}

static enum mt_status search(const struct mt_plan *plan, const struct mt_cluster *left, struct mt_plan **again,
                             struct mt_err *err) {
    struct mt_plan_found found;
    struct mt_plan_request request = {.model = plan->model, .job = plan->job, .limit_s = limit_s, .last = plan};
    request.fixed.decisions = mt_decisions_unset;
    enum mt_status st = mt_plan_fastest(left, &request, &found, err);
    if (st) return st;
    *again = found.plan;
    mt_search_report_release(&found.report);
    return MT_OK;
}

/* The ranks that are left, as the plan has them. */
static enum mt_status shrink(const struct mt_plan *plan, const struct mt_hosts *hosts, const struct mt_places *places,
                             const bool *lost, struct mt_plan **again, struct mt_err *err) {
    struct mt_plan *ranks = mt_plan_new(plan->nranks);
    enum mt_status st;
    ranks->nranks = ranks->nplaces = 0;
    ranks->device = plan->device;
    *again = NULL;
    for (int r = 0; r < plan->nranks; r++)
        if (!lost[r] && hosts->hosts[places->host[r]].answers) ranks->ranks[ranks->nranks++] = plan->ranks[r];
    ranks->nplaces = ranks->nranks;
    if (!ranks->nranks)
        st = mt_fail(err, MT_EPEER, "no rank of the plan is left");
    else
        st = mt_plan_carry(plan, ranks, again, err);
    if (!st && !*again) {
        st = mt_fail(err, MT_EPEER, "the plan divides work between hosts, and cannot be shrunk to %d of %d ranks",
                     ranks->nranks, plan->nranks);
        mt_err_hint(err, "with --cluster PROFILE launch plans anew");
    }
    if (!st) {
        struct mt_plan *p = *again;
        for (int r = 0; r < p->nranks; r++) {
            const struct mt_plan_rank *from = &ranks->ranks[r];
            p->ranks[r] = *from;
            p->ranks[r].host = mt_arena_strdup(&p->arena, from->host);
            p->ranks[r].class = mt_arena_strdup(&p->arena, from->class);
        }
        p->made_by = "motley " MOTLEY_VERSION;
        p->decisions.nalgorithms = 0; /* they were chosen for other groups */
        if ((st = mt_plan_derive_another(p, err))) {
            mt_plan_free(p);
            *again = NULL;
        }
    }
    mt_plan_free(ranks);
    return st;
}

enum mt_status mt_again(const struct mt_plan *plan, const struct mt_hosts *hosts, const struct mt_places *places,
                        const bool *lost, const struct mt_cluster *cluster, struct mt_plan **again,
                        struct mt_cluster **left, struct mt_err *err) {
    enum mt_status st = MT_EMISSING;
    *again = NULL;
    *left = NULL;
    if (cluster) {
        *left = mt_cluster_copy(cluster);
        if (!(st = take_out(plan, hosts, places, lost, *left, err))) st = search(plan, *left, again, err);
        if (!st) return MT_OK;
        mt_cluster_free(*left);
        *left = NULL;
        if (st != MT_EMISSING) return st; /* only a solver may be missing */
    }
    return shrink(plan, hosts, places, lost, again, err);
}
