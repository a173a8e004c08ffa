/* The space of programs as a frontier programme: from a training graph and ways to divide its labels to groups of
 * operators, their rules, and the prices of operators and conversions; and from a choice back to rules.
 *
 *   bundle   a forward operator with the backward operators that its differentiation added. They are divided by the
 *            same index; where a backward operator lacks it, or the forward operator is not divided, each of its rules
 *            is an alternative.
 *   product    a backward operator that sums over samples (mt_op_repeats). Where the forward operator is divided by
 *            samples among all ranks, it may gather its factors instead: each rank computes all of it, if all devices
 *            are alike, or a part by an index of the output.
 *   storage  how a parameter, its optimizer state and its update are divided; a group of its own, which makes the
 *            weight and wants its gradient
 *
 *     struct mt_space space;
 *     if ((st = mt_space_open(&options, &space, err))) return st;
 *     if (mt_frontier_solve(&space.problem, &arena, &solution)) mt_space_rules(&space, solution.choice, rules);
 *     mt_space_release(&space);
 *
 * Rules. An operator with samples is replicated, split by an index of a label that has a split, or linear in a set of
 * its inputs; with `hosts` its samples are divided among the nodes first, and this is done within each node, alike. One
 * without samples works on sums: it is replicated or linear, with `hosts` also linear over nodes and replicated within
 * them. A parameter's storage is whole, or divided by one split of one axis, which its cast, norm and update share; by
 * a HOST split also with a DEVICE split for computing of another axis. The norm of what is stored whole is computed
 * from shares of the sharding axis (graph.h) where that has a split: the first of `storage`, else of `splits`.
 *
 * The sum. Of values with axes that a group makes and another (or the same) reads, each layout that is wanted is
 * converted once, in the best order, from one that is made or wanted too (frontier.h). Inputs are fed in every layout,
 * and optimizer state never leaves its storage: neither costs anything; nor do scalars, or operators on scalars alone.
 *
 * Prices are seconds. An operator takes as long as on its slowest rank; a conversion as long as the cheapest algorithm,
 * while nothing else runs. Where each rank computes a whole gradient that replicas are updated with, but for products
 * of devices that are alike, it is broadcast, so that they stay equal to the last bit (build.h); nothing overlaps that.
 * Factors on their way to a product count whole, although they share messages. Gradients on their way to an update, and
 * weights on their way from storage, share messages and overlap computing: of them only the part `exposed` counts, at
 * the rate of large messages. */
#ifndef MT_PLANNER_FRONTIER_SPACE_H
#define MT_PLANNER_FRONTIER_SPACE_H

#include "planner/cost/cost.h"
#include "planner/frontier/frontier.h"
#include "planner/frontier/price.h"
#include "synth/layout/rule.h"

struct mt_space_options {
    const struct mt_graph *graph; /* of the whole batch, differentiated, with updates */
    const struct mt_costs *costs;
    const struct mt_mesh *mesh; /* null: nodes do not matter */
    /* Samples among nodes, as every operator that can be is divided first; null: work is divided among all ranks. */
    const struct mt_split *hosts;
    /* Ways to divide labels among all ranks, or within nodes (DEVICE) if `hosts` is there: for computing (and storage).
     * For storage alone: among all ranks, within nodes (replicated across them), or across nodes. */
    const struct mt_split *splits, *storage;
    int nsplits, nstorage;
    bool unbundled; /* every operator is a group */
    /* Seconds that each further way of an operator costs, in the order of `splits`: of equal programs the one that
     * divides alike throughout is found. 0: none. */
    double order_s;
    double exposed; /* of messages that computing may overlap, 0..1 */
    /* Whether an operator may have a rule; null: any that is correct. For parameters it is asked of their update. */
    bool (*allows)(const void *context, const struct mt_op *op, const struct mt_rule *rule);
    const void *context;
    int most_states; /* of a frontier (frontier.h) */
    double far_s;    /* frontier.h */
};

struct mt_space_group {
    int nops, *ops;
    int param; /* of storage: the parameter; else -1 */
    int nalternatives;
    struct mt_rule *rules; /* [alternative nops + i]: of ops[i]; equal groups share them */
};

struct mt_space {
    struct mt_arena arena;
    struct mt_space_options options;
    struct mt_layouts layouts;
    bool alike; /* all ranks' devices are of one class */
    struct mt_pricing pricing;
    struct mt_frontier problem;
    struct mt_space_group *groups; /* [problem.ngroups] */
    int *value_of;                 /* [problem.nvalues]: of the graph */
};

/* MT_EINPUT where some operator has no rule that is allowed, by name. Release with mt_space_release, also after a
 * failure; graph, costs and splits must outlive it. */
enum mt_status mt_space_open(const struct mt_space_options *options, struct mt_space *space, struct mt_err *err);
void mt_space_release(struct mt_space *space);

/* rules[graph->nops]: those of a choice; of operators outside of all groups (on scalars) the replicated one. Their
 * `inner` belongs to the space. */
void mt_space_rules(const struct mt_space *space, const int *choice, struct mt_rule *rules);

#endif
