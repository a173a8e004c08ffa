/* The builder: from choices to a program, the interface of the search.
 *
 * The search chooses a rule for each operator of the graph, how gradients are synchronized, and buckets. The builder
 * does what follows: layouts, conversions where a consumer wants a layout that is not held yet (converted once, used
 * again), micro-batch blocks, accumulators, messages. A choice gives a correct program or is refused; it only decides
 * how fast the program is.
 *
 * Words:
 * - micro-batch: the samples that a rank computes at once; its share of the batch is one or more of them. BODY runs all
 *   but the last, LAST the last one.
 * - conversion: a value from one layout to another; by a collective (AllReduce, ReduceScatter, AllGather, AllToAll) or
 * a slice.
 * - message: one collective instruction, of one or several values.
 * - bucket: values that wait to be sent together; it becomes one or several messages (bucket.h).
 * - synchronization of gradients: reducing their partial sums of all ranks, before the update. */
#ifndef MT_SYNTH_BUILDER_BUILD_H
#define MT_SYNTH_BUILDER_BUILD_H

#include "synth/job/decisions.h"
#include "synth/program/program.h"
#include "synth/layout/rule.h"

struct mt_choice {
    int nranks;
    const struct mt_split *splits; /* named; rules point into it */
    int nsplits;
    /* Shares of the batch, over all ranks or over nodes, whose ranks then all see the node's samples; null: not split
     * (every rank sees every sample). */
    const struct mt_split *batch;
    int64_t *micro; /* [nranks]: samples of a rank's micro-batch; 0 with a share of 0; the same in a sample group */
    struct mt_mesh mesh;   /* that rules and splits divide; nnodes 0: all ranks are on one node */
    const int *node;       /* [nranks]: the node of each rank (program.h), for algorithms; or null */
    const int *alike;      /* [nranks]: whose devices are alike (program.h); or null: nobody knows */
    struct mt_rule *rules; /* [graph->nops] */
    /* Of these the builder reads
     *   sync           how a partial value that is wanted in shares gets there: P->S by ReduceScatter, or P->R by
     *                  AllReduce and a local slice
     *   bucket_bytes   of gradients and gathered weights: see bucket.h
     *   staging_bytes  of messages (mt_program.staging_bytes)
     *   start          MT_START_ATTENTION: full buckets of gradients wait for operators that yield
     *   gradient_wire  must be set; sums accumulate in the graph's `acc`
     *   overlaps       how overlapped GEMMs run, by their shapes
     *   algorithms     of messages by size; "auto" for a kind without rows */
    struct mt_decisions decisions;
};

/* The whole training step. MT_EINPUT if a rule gives an operand no layout (rule.h). With several micro-batches,
 * operators that depend on samples are in BODY and in LAST. A rule that would need a collective in BODY when the ranks'
 * numbers of micro-batches differ is refused (MT_EINPUT, naming the operator). Replicated decisions (clip factor) are
 * computed from a collective's result. Release `program`.
 *
 * Replicas of a gradient that updates replicated state are bit-equal where a collective made them, or where ranks that
 * are alike have computed them from bit-equal operands (mt_op_repeats). Others are broadcast from the first rank; but
 * where factors of the gradient have been gathered so that it need not be reduced, and devices are known to differ,
 * the choice is refused (MT_EINPUT), since it can only cost time. */
enum mt_status mt_build(const struct mt_graph *graph, const struct mt_choice *choice, struct mt_program *program,
                        struct mt_err *err);

/* Forward only, for evaluation and sampling: losses and logits, with shares `batch` of a batch of its own. */
enum mt_status mt_build_forward(const struct mt_graph *graph, const struct mt_choice *choice,
                                struct mt_program *program, struct mt_err *err);

#endif
