/* The predicted step of a trace, at rank 0: simulated before the run, so that a wrong cluster is refused then. */
#include "launcher/train/internal.h"
#include "planner/make/planning.h"
#include "profiler/describe/describe.h"

enum mt_status mt_trainer_predict(struct trainer *t, struct mt_err *err) {
    struct mt_cluster *cluster;
    const struct mt_train_options *o = t->options;
    enum mt_status st = mt_cluster_open(o->cluster, &cluster, err);
    if (st) return st;
    st = mt_planning_same(t->plan, o->plan, cluster, o->cluster, err);
    if (!st) st = mt_planning_timeline(t->plan, &t->planned.program, cluster, &t->predicted, err);
    mt_cluster_free(cluster);
    return st;
}
