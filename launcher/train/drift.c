/* Reporting, while training, that other shares would be faster: every few steps rank 0 gathers the ranks' times. */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/text/units.h"
#include "launcher/session/agree.h"
#include "launcher/train/internal.h"

enum { WINDOW_STEPS = 8 };

static void say_shares(struct trainer *t) {
    const struct mt_drift *d = &t->drift;
    struct mt_arena arena = MT_ARENA_INIT;
    char from[MT_UNITS_TEXT], to[MT_UNITS_TEXT];
    const char *better = "", *now = "";
    for (int r = 0; r < t->plan->nranks; r++) {
        int i = t->place[r];
        better = mt_arena_printf(&arena, "%s%s%lld", better, r ? "," : "", i < 0 ? 0 : (long long)d->better[i]);
        now = mt_arena_printf(&arena, "%s%s%lld", now, r ? "," : "", i < 0 ? 0 : (long long)d->shares[i]);
    }
    const char *hint =
        t->folder ? mt_arena_printf(&arena, ": motley plan --from %s/run.json -o plan.json", t->folder) : "";
    mt_progress_say(&t->progress, "shares %s instead of %s would shorten a step from about %s to %s (%.0f%% faster)%s",
                    better, now, mt_units_seconds(d->from_s, from), mt_units_seconds(d->to_s, to), 100 * d->gain, hint);
    mt_arena_release(&arena);
}

enum mt_status mt_trainer_drift(struct trainer *t, double patience_s, struct mt_err *err) {
    if (t->nranks < 2 || t->window.step.seen < WINDOW_STEPS) return MT_OK;
    if (mt_plan_split_named(t->plan, "batch")->over != MT_OVER_ALL) return MT_OK; /* shares of hosts, not of ranks */
    MPI_Request request;
    double mine = mt_series_median(&t->window.compute), *all = NULL;
    if (!t->rank) all = mt_malloc((size_t)t->nranks * sizeof *all);
    MPI_Igather(&mine, 1, MPI_DOUBLE, all, 1, MPI_DOUBLE, 0, t->comm, &request);
    enum mt_status st = mt_agree_wait(&request, patience_s, err);
    if (st) return st; /* the gather is still in flight, so its buffer stays */
    if (!t->rank && mt_drift_window(&t->drift, mt_now_s(), all, mt_series_median(&t->window.step))) say_shares(t);
    free(all);
    memset(&t->window, 0, sizeof t->window);
    return MT_OK;
}
