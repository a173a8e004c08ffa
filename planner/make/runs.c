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

const char *mt_job_cannot_run(const struct mt_cluster *cluster, const struct mt_job *job, const bool *takes_part,
                              struct mt_arena *arena) {
    bool *used = mt_calloc((size_t)cluster->nclasses, sizeof *used);
    int first = -1, other = -1;
    for (int d = 0; d < cluster->ndevices; d++) {
        int class = cluster->devices[d].class;
        if (takes_part && !takes_part[d]) continue;
        used[class] = true;
        if (first < 0) first = class;
        if (strcmp(cluster->classes[class].kind, cluster->classes[first].kind)) other = class;
    }
    const char *text = refused_classes(cluster, job, used, arena);
    if (!*text && other >= 0)
        text = mt_arena_printf(arena, "%s is of kind %s, but %s of kind %s: CPUs and GPUs do not train together",
                               cluster->classes[other].name, cluster->classes[other].kind, cluster->classes[first].name,
                               cluster->classes[first].kind);
    free(used);
    return text;
}

enum mt_status mt_job_refuse(const char *why, struct mt_err *err) {
    mt_fail(err, MT_EINPUT, "cannot run here: %s", why);
    return mt_err_hint(err, "leave such devices out (--use names the ranks that take part), or choose another "
                            "--precision; --hypothetical predicts the plan for devices that would run it");
}

void mt_plan_mark_hypothetical(const struct mt_cluster *cluster, struct mt_plan *plan) {
    bool *takes_part = mt_calloc((size_t)cluster->ndevices, sizeof *takes_part);
    for (int i = 0; i < plan->nplaces; i++) takes_part[plan->order[i]] = true;
    plan->hypothetical = mt_job_cannot_run(cluster, &plan->job, takes_part, &plan->arena);
    free(takes_part);
}
