/* The search over the whole space: programs by strategy from the frontier programme, their shares balanced, judged by
 * building and simulating them.
 *
 *     struct mt_divide divide = {.graph = graph, .job = job, .costs = costs, .options = options, ...};
 *     if ((st = mt_divide_search(&divide, &found, err))) return st;
 *     ... found.best->choice, found.best->prediction.step_s ...
 *     mt_divide_release(&found);
 *
 * For each strategy the frontier programme is solved for some prices: with all communication counted, and with little
 * of what computing may overlap. Each solution is a candidate. The cheapest are judged; where they do not fit, their
 * samples are divided into more micro-batches; shares of all labels are balanced by the times of their operators on
 * each rank (shares.c), and judged again. The best of each strategy that may win by overlapped instructions is judged
 * with them, too (overlapped.c). Where a model has many layers, this is done with a few of them (layers.c), and the
 * best judged again with all. */
#ifndef MT_PLANNER_DIVIDE_DIVIDE_H
#define MT_PLANNER_DIVIDE_DIVIDE_H

#include "planner/divide/strategy.h"
#include "planner/plan/plan.h"
#include "planner/predict/predict.h"
#include "synth/builder/build.h"

/* The job with fewer layers. Steps and memory grow with each layer alike, but for the segments of recomputation: from
 * those of programs with `few` and `some` layers follow those with all. */
struct mt_divide_layers {
    int64_t all, few, some;
    const struct mt_graph *few_graph, *some_graph;
};

struct mt_divide {
    const struct mt_graph *graph; /* of the whole batch, differentiated, with updates */
    /* Or null. Programs are looked for and judged with some layers, and the best judged again with all. */
    const struct mt_divide_layers *layers;
    const struct mt_costs *costs; /* of the ranks that take part */
    const struct mt_lower_options *options;
    const int *node;                /* [nranks]: the node of each rank; null: nodes do not matter (mt_plan_nodes) */
    const int64_t *memory_bytes;    /* [nranks]: what each may use, 0: any; or null */
    struct mt_decisions decisions;  /* those that are set are kept */
    const struct mt_plan *plan;     /* job, ranks and who takes part: candidates are plans like it */
    const struct mt_strategy *only; /* or null: any */
    bool compare;                   /* judge every strategy, also those that cannot win */
    bool overlap;                   /* the best of each strategy may take overlapped instructions (forms.h) */
    double known_s;                 /* a step that is known; candidates that are priced far above it are not judged */
    double end_s;                   /* of mt_now_s: when to stop */
};

struct mt_divided { /* a candidate */
    const struct mt_strategy *strategy;
    struct mt_choice choice; /* its splits: [nsplits], those of samples first */
    struct mt_split *splits; /* the same, which are its own: they may be changed */
    double priced_s;         /* by the frontier programme */
    struct mt_plan *plan;    /* when judged: the choice as a plan */
    bool judged, fits;
    bool too_large;                  /* not judged: a count says that it does not fit */
    bool few_layers;                 /* judged by programs with fewer layers */
    bool settled;                    /* its forms of overlapped instructions are chosen for its shares */
    int64_t count;                   /* of micro-batches, when judged */
    const char *why;                 /* where it does not fit, or was not built */
    struct mt_prediction prediction; /* when judged */
};

struct mt_divide_found {
    struct mt_arena arena;
    double *speed; /* [nranks]: relative, of the whole step */
    int ncandidates;
    struct mt_divided **candidates; /* in the order in which they were found */
    struct mt_divided *best;        /* judged with all layers, and fits; null: none */
    struct mt_divide_found *few;    /* those judged with few layers; or null */
};

/* MT_EINPUT where the strategy divides nothing of this model. Release with mt_divide_release, also after a failure;
 * graph, costs and options must outlive it. */
enum mt_status mt_divide_search(const struct mt_divide *divide, struct mt_divide_found *found, struct mt_err *err);
void mt_divide_release(struct mt_divide_found *found);

#endif
