/* Strategies: named parts of the space of programs, as constraints on the rules of operators. The search is the same in
 * all of them; without one it looks at each, and at what none of them allows. */
#ifndef MT_PLANNER_DIVIDE_STRATEGY_H
#define MT_PLANNER_DIVIDE_STRATEGY_H

#include "synth/job/decisions.h"
#include "synth/layout/rule.h"

enum mt_strategy_among { MT_AMONG_ALL, MT_AMONG_NODES };
enum mt_strategy_state { MT_STORE_REPLICATED, MT_STORE_ALL, MT_STORE_NODE, MT_STORE_COMPUTE, MT_STORE_ANY };

enum mt_strategy_factors { MT_FACTORS_NEVER, MT_FACTORS_MAY, MT_FACTORS_ALWAYS };

struct mt_strategy { /* strategies.def */
    const char *name, *help;
    enum mt_strategy_among among;
    bool samples, widths, positions;
    enum mt_strategy_factors factors;
    enum mt_strategy_state state;
    enum mt_gather gather;
    enum mt_reduced reduced;
};

#define STRATEGY(NAME, ...) MT_STRATEGY_##NAME,
enum mt_strategy_id {
#include "planner/divide/strategies.def"
    MT_NSTRATEGIES
};
#undef STRATEGY
extern const struct mt_strategy mt_strategies[MT_NSTRATEGIES];

/* Whether programs that divide samples alone, among all ranks, with the state wherever it is best, belong to it: what
 * the search by samples (planner/search) finds is then one of its programs. */
bool mt_strategy_has_samples_alone(const struct mt_strategy *strategy);

/* What a label of the graph is. */
enum mt_label_kind {
    MT_LABEL_SAMPLES,
    MT_LABEL_POSITIONS, /* of inputs, beside samples */
    MT_LABEL_WIDTH,     /* all others */
};
/* kind[graph->nlabels] */
void mt_label_kinds(const struct mt_graph *graph, enum mt_label_kind *kind);

/* A strategy for a job. */
struct mt_strategy_limits {
    const struct mt_strategy *strategy;
    const struct mt_graph *graph;
    const enum mt_label_kind *kind; /* [labels] */
    bool nodes;                     /* there are several nodes, one of them with several ranks */
    const struct mt_split *compute; /* [ncompute]: splits by which operators may be divided */
    int ncompute;
};
/* Whether it allows a rule: of an operator with samples, or of an update for the state that it stores. */
bool mt_strategy_allows(const struct mt_strategy_limits *limits, const struct mt_op *op, const struct mt_rule *rule);

#endif
