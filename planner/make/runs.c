/* Whether this program can run a job on a cluster's devices. */
#include <stdlib.h>
#include <string.h>

#include "planner/make/make.h"
#include "profiler/describe/runs.h"

/* Append the reason of each class that cannot run the job, in order of classes; at most a few, so that a message stays
 * readable. */
static const char *refused_classes(const struct mt_cluster *cluster, const struct mt_job *job, const bool *used,
                                   struct mt_arena *arena) {
    enum { MOST_SHOWN = 4 };
    const char *text = "";
    int refused = 0;
    for (int c = 0; c < cluster->nclasses; c++) {
        char why[MT_RUNS_TEXT];
        if (!used[c] || mt_cluster_class_runs(&cluster->classes[c], job->precision, job->tf32, why)) continue;
        if (refused++ < MOST_SHOWN) text = mt_arena_printf(arena, "%s%s%s", text, *text ? "; " : "", why);
    }
    return refused > MOST_SHOWN ? mt_arena_printf(arena, "%s; and %d more classes", text, refused - MOST_SHOWN) : text;
}

const char *mt_plan_cannot_run(const struct mt_cluster *cluster, const struct mt_job *job, const struct mt_plan *plan,
                               struct mt_arena *arena) {
    bool *used = mt_calloc((size_t)cluster->nclasses, sizeof *used);
    int first = cluster->devices[plan ? plan->order[0] : 0].class, other = first;
    for (int i = 0; i < (plan ? plan->nplaces : cluster->ndevices); i++) {
        int class = cluster->devices[plan ? plan->order[i] : i].class;
        used[class] = true;
        if (strcmp(cluster->classes[class].kind, cluster->classes[first].kind)) other = class;
    }
    const char *text = refused_classes(cluster, job, used, arena);
    if (!*text && other != first)
        text = mt_arena_printf(arena, "%s is of kind %s, but %s of kind %s: CPUs and GPUs do not train together",
                               cluster->classes[other].name, cluster->classes[other].kind, cluster->classes[first].name,
                               cluster->classes[first].kind);
    free(used);
    return text;
}

enum mt_status mt_plan_require_runs(const struct mt_cluster *cluster, const struct mt_job *job,
                                    const struct mt_plan *plan, struct mt_err *err) {
    struct mt_arena arena = MT_ARENA_INIT;
    const char *why = mt_plan_cannot_run(cluster, job, plan, &arena);
    enum mt_status st = MT_OK;
    if (*why) {
        st = mt_fail(err, MT_EINPUT, "cannot run here: %s", why);
        mt_err_hint(err, "leave such devices out, or choose another --precision; --hypothetical predicts the plan for "
                         "devices that would run it");
    }
    mt_arena_release(&arena);
    return st;
}
