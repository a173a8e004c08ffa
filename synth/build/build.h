/* From choices to a program: the interface of the search.
 *
 * The search decides, for every operator of the graph, a rule; how gradients are brought to their updates; and buckets.
 * The builder does what follows: layouts at the edges, conversions where a consumer wants a layout that nobody has made
 * yet (made once, reused after), micro-batch blocks, accumulators, messages. A choice gives a correct program or is
 * refused; it only decides how fast the program is. */
#ifndef MT_SYNTH_BUILD_BUILD_H
#define MT_SYNTH_BUILD_BUILD_H

#include "synth/job/decisions.h"
#include "synth/program/program.h"
#include "synth/layout/rule.h"

struct mt_choice {
    int nranks;
    const struct mt_split *splits; /* named; rules point into it */
    int nsplits;
    const struct mt_split *batch; /* shares of the batch; null: not split (every rank sees every sample) */
    int64_t *micro;               /* [nranks]: samples of a rank's micro-batch; 0 with a share of 0 */
    struct mt_rule *rules;        /* [graph->nops] */
    /* Of these the builder reads
     *   sync           how a partial value that is wanted in shares gets there: P->S by ReduceScatter, or P->R by
     *                  AllReduce and a local slice
     *   bucket_bytes   gradients, and gathered weights, share messages up to this size, the first of weights and the
     *                  last of gradients up to less (mt_bucket_first_bytes, mt_bucket_full_bytes)
     *   start          MT_START_ATTENTION: a full bucket's collective starts with the next operator that yields to it
     *                  (mt_op_yields), with all gradients that are complete by then
     *   gradient_wire  must be set; sums accumulate in the graph's `acc`
     *   algorithms */
    struct mt_decisions decisions;
};

/* The whole training step. When micro-batches make a body, operators that depend on samples stand in BODY and in LAST.
 * A rule that would need a collective in the body when the ranks' counts differ is refused (MT_EINPUT, naming
 * the operator). Every value that decides something replicated (clip factor) comes from a collective's result. */
enum mt_status mt_build(const struct mt_graph *graph, const struct mt_choice *choice, struct mt_program *program,
                        struct mt_err *err);

/* When a bucket is full, in a program whose gradients have `all_bytes`. Where they fill several, nothing runs beside
 * the last message of gradients, nor beside the first of gathered weights, and the fewer bytes these have the better:
 * full is half of the gradients that are in the bucket or still to come (`left_bytes`), or, if `nfull` buckets of
 * weights have been full, twice as much each time; but no less than an eighth of bucket_bytes. */
static inline bool mt_bucket_is_one_of_few(int64_t bucket_bytes, int64_t all_bytes) {
    enum { SEVERAL = 4 };
    return all_bytes / SEVERAL < bucket_bytes;
}
static inline int64_t mt_bucket_full_bytes(int64_t bucket_bytes, int64_t all_bytes, int64_t left_bytes) {
    int64_t least = bucket_bytes / 8, half = left_bytes / 2;
    if (mt_bucket_is_one_of_few(bucket_bytes, all_bytes) || half > bucket_bytes) return bucket_bytes;
    return half < least ? least : half;
}
static inline int64_t mt_bucket_first_bytes(int64_t bucket_bytes, int64_t all_bytes, int nfull) {
    return mt_bucket_is_one_of_few(bucket_bytes, all_bytes) || nfull > 2 ? bucket_bytes : bucket_bytes >> (3 - nfull);
}

/* Forward only, for evaluation and sampling: losses and logits, with shares `batch` of a batch of its own. */
enum mt_status mt_build_forward(const struct mt_graph *graph, const struct mt_choice *choice,
                                struct mt_program *program, struct mt_err *err);

#endif
