/* Alternatives to a cluster, and what a job would do on them. */
#include "planner/review/whatif.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/working.h"
#include "planner/cost/cost.h"
#include "planner/make/make.h"
#include "planner/review/bottleneck.h"
#include "planner/review/tie.h"
#include "profiler/describe/edit.h"

typedef enum mt_status edit(struct mt_cluster *cluster, const char *what, struct mt_err *err);

/* Measured collectives change as their schedules do. */
static enum mt_status set_figure(struct mt_cluster *cluster, const char *what, struct mt_err *err) {
    struct mt_cluster *before = mt_cluster_copy(cluster);
    enum mt_status st = mt_cluster_set(cluster, what, err);
    if (!st) mt_cost_carry_fits(before, cluster);
    mt_cluster_free(before);
    return st;
}

static const struct {
    const char *verb;
    edit *edit;
} verbs[] = {{"add", mt_cluster_add}, {"remove", mt_cluster_remove}, {"set", set_figure}};
enum { NVERBS = sizeof verbs / sizeof verbs[0] };

static enum mt_status apply(struct mt_cluster *cluster, const char *verb, const char *what, struct mt_err *err) {
    for (int v = 0; v < NVERBS; v++)
        if (!strcmp(verbs[v].verb, verb)) return verbs[v].edit(cluster, what, err);
    mt_fail(err, MT_EINPUT, "\"%.30s %.60s\" is not understood", verb, what);
    return mt_err_hint(err,
                       "a change is \"add WHAT\", \"remove WHAT\" or \"set WHAT\"; several have commas between them");
}

/* Takes the cluster, also when it refuses. */
static enum mt_status add_alternative(struct mt_whatif *w, const char *what, struct mt_cluster *cluster,
                                      struct mt_err *err) {
    double per_hour = 0;
    enum mt_status st = w->prices ? mt_prices_of(w->prices, cluster, &per_hour, err) : MT_OK;
    if (st) {
        mt_cluster_free(cluster);
        return st;
    }
    mt_arena_grow(&w->arena, &w->alternatives, w->count, &w->capacity, sizeof *w->alternatives);
    w->alternatives[w->count++] = (struct mt_whatif_alternative){mt_arena_strdup(&w->arena, what), cluster, per_hour};
    return MT_OK;
}

static enum mt_status begin(struct mt_whatif *w, struct mt_err *err) {
    return w->count ? MT_OK : add_alternative(w, w->name ? w->name : "as it is", mt_cluster_copy(w->cluster), err);
}

enum mt_status mt_whatif_beside(struct mt_whatif *w, const char *name, const struct mt_cluster *cluster,
                                struct mt_err *err) {
    enum mt_status st = begin(w, err);
    return st ? st : add_alternative(w, name, mt_cluster_copy(cluster), err);
}

enum mt_status mt_whatif_changes(struct mt_whatif *w, const char *text, struct mt_err *err) {
    enum mt_status st = begin(w, err);
    if (st) return st;
    struct mt_cluster *cluster = mt_cluster_copy(w->cluster);
    char *copy = mt_arena_strdup(&w->arena, text), *next;
    for (char *at = copy; at && !st; at = next) {
        if ((next = strchr(at, ','))) *next++ = 0;
        at += strspn(at, " ");
        char *what = strchr(at, ' ');
        if (what) *what++ = 0, what += strspn(what, " ");
        for (char *end = what ? what + strlen(what) : NULL; what && end > what && end[-1] == ' ';) *--end = 0;
        st = apply(cluster, at, what ? what : "", err);
    }
    if (!st) return add_alternative(w, text, cluster, err);
    mt_cluster_free(cluster);
    return st;
}

enum mt_status mt_whatif_change(struct mt_whatif *w, const char *verb, const char *what, struct mt_err *err) {
    enum mt_status st = begin(w, err);
    if (st) return st;
    struct mt_cluster *cluster = mt_cluster_copy(w->cluster);
    if (!(st = apply(cluster, verb, what, err)))
        return add_alternative(w, mt_arena_printf(&w->arena, "%s %s", verb, what), cluster, err);
    mt_cluster_free(cluster);
    return st;
}

void mt_whatif_release(struct mt_whatif *w) {
    for (int i = 0; i < w->count; i++) mt_cluster_free(w->alternatives[i].cluster);
    mt_arena_release(&w->arena);
    w->count = 0;
}

static void find_headroom(const struct mt_plan *plan, struct mt_whatif_row *row) {
    row->headroom_rank = -1;
    for (int i = 0; i < plan->nplaces; i++) {
        int r = plan->order[i];
        if (!plan->ranks[r].memory_bytes) continue;
        int64_t left = plan->ranks[r].memory_bytes - mt_plan_needs_bytes(plan, r);
        if (row->headroom_rank >= 0 && left >= row->headroom_bytes) continue;
        row->headroom_bytes = left;
        row->headroom_rank = r;
    }
}

/* *plan is what was found, if anything was; the caller frees it. */
static enum mt_status ask_one(const struct mt_cluster *cluster, const struct mt_plan_request *request,
                              struct mt_whatif_row *row, struct mt_arena *arena, struct mt_plan **plan,
                              struct mt_err *err) {
    struct mt_plan_found found;
    *plan = NULL;
    enum mt_status st = mt_plan_fastest(cluster, request, &found, err);
    if (st == MT_EINPUT) { /* this hardware cannot do this job: an answer too */
        row->refused = mt_arena_strdup(arena, err->text);
        return MT_OK;
    }
    if (st) return st;
    const struct mt_plan *made = *plan = found.plan;
    row->step_s = made->prediction->step_s;
    row->error = made->prediction->error;
    row->error_below = made->prediction->error_below;
    row->nominal = made->prediction->nominal;
    if (made->hypothetical[0]) row->cannot_run = mt_arena_strdup(arena, made->hypothetical);
    row->edited = !strcmp(cluster->source, "edited");
    row->tokens_per_s = (double)(made->job.batch * made->job.seq) / row->step_s;
    row->nidle = made->nranks - made->nplaces;
    find_headroom(made, row);
    found.plan = NULL; /* the caller's */
    mt_plan_found_release(&found);
    struct mt_bottlenecks binds;
    if ((st = mt_bottlenecks_of(cluster, made, NULL, MT_BOTTLENECKS_GLANCE, &binds, err))) return st;
    row->binds = mt_arena_strdup(arena, binds.ntried && binds.items[0].saves_s > 0 ? binds.items[0].what : "");
    mt_bottlenecks_release(&binds);
    return MT_OK;
}

/* ---- ties ---- */

static void find_ties(struct mt_whatif_answer *answer, struct mt_plan *const *plans) {
    struct mt_errors *errors = mt_new(&answer->arena, struct mt_errors, answer->count);
    for (int i = 0; i < answer->count; i++) {
        struct mt_whatif_row *row = &answer->rows[i];
        if (plans[i]) mt_errors_add(&errors[i], plans[i]->prediction, 1, &answer->arena);
        row->tie = -1;
        for (int k = 0; k < i && row->tie < 0 && plans[i]; k++)
            if (plans[k] && mt_errors_tie(&errors[k], &errors[i], answer->rows[k].step_s / row->step_s)) row->tie = k;
    }
}

enum mt_status mt_whatif_ask(struct mt_whatif *w, const char *model, const struct mt_job *job,
                             const struct mt_plan *last, struct mt_whatif_answer *answer, struct mt_err *err) {
    *answer = (struct mt_whatif_answer){.job = *job};
    answer->model = mt_arena_strdup(&answer->arena, model);
    enum mt_status st = begin(w, err);
    if (st) return st;
    answer->count = w->count;
    answer->rows = mt_new(&answer->arena, struct mt_whatif_row, w->count);
    struct mt_plan_request request = {.model = model,
                                      .job = *job,
                                      .fixed = {.decisions = mt_decisions_unset, .use = w->use},
                                      .limit_s = w->limit_s,
                                      .watch = w->watch,
                                      .last = last,
                                      .hypothetical = true};
    request.job.recompute = MT_RECOMPUTE_UNSET;
    struct mt_plan **plans = mt_new(&answer->arena, struct mt_plan *, w->count);
    bool planned = false;
    mt_working_begin("what if");
    for (int i = 0; i < w->count && !st; i++) {
        const char *kind = mt_cluster_kind(w->alternatives[i].cluster);
        const struct mt_plan *from = request.last;
        if (strcmp(kind, mt_cluster_kind(w->cluster))) request.last = NULL; /* programs of other devices */
        mt_working(i, w->count, "%s", w->alternatives[i].what);
        mt_working_begin("planning");
        st = ask_one(w->alternatives[i].cluster, &request, &answer->rows[i], &answer->arena, &plans[i], err);
        mt_working_end();
        request.last = from;
        if (!plans[i]) continue;
        planned = true;
        answer->job.seq = plans[i]->job.seq;
        answer->model = mt_arena_strdup(&answer->arena, plans[i]->model);
        if (i == 0) request.last = plans[0]; /* where others start from too: better hardware is not to look worse */
    }
    mt_working_end();
    if (!st) find_ties(answer, plans);
    for (int i = 0; i < w->count; i++) mt_plan_free(plans[i]);
    if (!st && !planned) st = mt_fail(err, MT_EINPUT, "%.900s", answer->rows[0].refused);
    return st;
}

void mt_whatif_answer_release(struct mt_whatif_answer *answer) {
    mt_arena_release(&answer->arena);
    answer->count = 0;
}
