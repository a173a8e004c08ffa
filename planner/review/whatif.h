/* What-if: alternatives to a cluster, each with a plan of its own for the job, compared.
 *
 *     struct mt_whatif whatif = {.cluster = cluster, .limit_s = 5};
 *     if ((st = mt_whatif_change(&whatif, "add", "2xv100", err))) goto out;
 *     struct mt_whatif_answer answer;
 *     if ((st = mt_whatif_ask(&whatif, "gpt2:124m", &job, NULL, &answer, err))) goto out;
 *     ... answer.rows[1].step_s, answer.rows[1].refused ...
 *     mt_whatif_answer_release(&answer);
 * out:
 *     mt_whatif_release(&whatif); */
#ifndef MT_PLANNER_REVIEW_WHATIF_H
#define MT_PLANNER_REVIEW_WHATIF_H

#include "planner/review/prices.h"
#include "planner/plan/plan.h"

/* A cluster that is considered. */
struct mt_whatif_alternative {
    const char *what; /* "add 2xv100, set link.net=400G" */
    struct mt_cluster *cluster;
    double per_hour; /* with prices */
};

struct mt_whatif {
    const struct mt_cluster *cluster;    /* as it is; must outlive this */
    const char *name;                    /* of its row; null: "as it is" */
    const struct mt_prices *prices;      /* or null */
    double tokens;                       /* 0: not asked for */
    double limit_s;                      /* of each search */
    const struct mt_search_watch *watch; /* of the searches; or null */
    enum mt_use use;                     /* who takes part: not MT_USE_SOME */
    struct mt_arena arena;
    int count, capacity; /* the first is the cluster as it is, once there is one */
    struct mt_whatif_alternative *alternatives;
};

/* One more alternative: the cluster with one change ("add", "remove" or "set", and what; profiler/describe/edit.h), or
 * with several, "add 2xv100, set link.net=400G". */
enum mt_status mt_whatif_change(struct mt_whatif *whatif, const char *verb, const char *what, struct mt_err *err);
enum mt_status mt_whatif_changes(struct mt_whatif *whatif, const char *text, struct mt_err *err);
/* One more: another cluster, side by side. */
enum mt_status mt_whatif_beside(struct mt_whatif *whatif, const char *name, const struct mt_cluster *cluster,
                                struct mt_err *err);
void mt_whatif_release(struct mt_whatif *whatif);

struct mt_whatif_row {
    const char *refused;    /* why there is no plan; null: the figures below are there */
    const char *cannot_run; /* why this program could not run it on such devices; null: it could */
    double step_s, error, error_below, tokens_per_s;
    /* The first earlier row whose step may as well be the shorter one (planner/review/tie.h), or -1. */
    int tie;
    bool nominal, edited;   /* rests on public figures; or on measured ones, of hardware that is not there */
    int64_t headroom_bytes; /* the least of all ranks, and whose; rank -1: no rank has a limit */
    int headroom_rank;
    int nidle;         /* ranks that the plan leaves out */
    const char *binds; /* what the step waits for most, or "" */
};
struct mt_whatif_answer {
    struct mt_arena arena;
    const char *model; /* canonical */
    struct mt_job job; /* with seq filled in */
    int count;         /* as many as alternatives */
    struct mt_whatif_row *rows;
};

/* Plan the job on each. What does not fit, or cannot be divided so, is a row that says so; when nothing can be planned,
 * that is an error. `last` (may be null): a plan of that model and job for the cluster as it is, to start from. */
enum mt_status mt_whatif_ask(struct mt_whatif *whatif, const char *model, const struct mt_job *job,
                             const struct mt_plan *last, struct mt_whatif_answer *answer, struct mt_err *err);
void mt_whatif_answer_release(struct mt_whatif_answer *answer);

#endif
