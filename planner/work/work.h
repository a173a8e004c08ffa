/* The work of a job on one rank as a function of its shares, without building the program of all ranks: the input of
 * balance and search.
 *
 *     struct mt_work work;
 *     if ((st = mt_work_open(graph, plan, false, &options, &work, err))) return st;
 *     mt_work_shape(&work, &work.ops[o], &(struct mt_work_share){.samples = 12, .storage = shares}, &shape);
 *     mt_work_release(&work);
 *
 * It is read off a lowered program of two ranks, of which the second stands for all others. Operators, copies, messages
 * and their order are the same in every rank's program; extents differ, and are functions of the rank's samples and of
 * its shares of parameters and optimizer state (`storage`). Equal operators are listed once, with a count. */
#ifndef MT_PLANNER_WORK_WORK_H
#define MT_PLANNER_WORK_WORK_H

#include "planner/plan/plan.h"
#include "profiler/cluster/shape.h"
#include "synth/builder/bucket.h"
#include "synth/graph/graph.h"
#include "synth/lower/lower.h"

/* What divides an axis of an operand. */
enum { MT_WORK_WHOLE = -1, MT_WORK_SAMPLES = 0, MT_WORK_STORAGE = 1 /* + the place in work->labels */ };

struct mt_work_op { /* equal operators of a block */
    bool copy;      /* not an operator, but a copy of the whole tensor[0] in `npieces` pieces */
    enum mt_op_kind kind;
    struct mt_attr attr;
    int nin, nout;
    struct mt_tensor *tensor;    /* [nin + nout] */
    int (*divided)[MT_MAX_AXES]; /* [nin + nout] */
    enum mt_block_kind block;
    enum mt_op_role role;
    int npieces;
    int64_t count;
};

/* A collective of one value; mt_work_buckets joins them. */
struct mt_work_message {
    struct mt_bucket_key key;
    enum mt_bucket_phase phase;
    int label;     /* of AllGather, ReduceScatter: in shares of work->labels[label]; -1: elements are shared out */
    int64_t count; /* elements, of all ranks together */
    int64_t bytes; /* of the value, as buckets count it */
    int param;     /* the parameter that it gathers, or whose gradient it sums; -1: of none */
};

struct mt_work_label { /* of an axis by which parameters and optimizer state are sharded */
    int label;         /* of the graph */
    int64_t extent, align;
    int64_t state_bytes; /* of states sharded by it, all ranks together */
};

struct mt_work_step { /* in the order of the program */
    int op, message;  /* one of them, the other -1 */
    int wait;         /* a step of the other kind (operator or message) that must have ended, or -1 */
    int from; /* of a message: the last step that writes what it sends, or -1. `wait` is -1 if others imply it */
};

struct mt_work {
    struct mt_arena arena;
    int nlabels, nops, nmessages, nsteps;
    struct mt_work_label *labels;
    struct mt_work_op *ops;
    struct mt_work_message *messages;
    struct mt_work_step *steps;
    int block_begin[MT_NBLOCKS + 1]; /* steps */
    int64_t state_bytes;             /* of replicated states */
};

/* Of the plan, rules, storage, sync, start, wire and the number of ranks are read; splits are not. `body`: with
 * micro-batches, one or more in BODY and one in LAST. Release with mt_work_release. */
enum mt_status mt_work_open(const struct mt_graph *graph, const struct mt_plan *plan, bool body,
                            const struct mt_lower_options *options, struct mt_work *work, struct mt_err *err);
void mt_work_release(struct mt_work *work);

struct mt_work_share {
    int64_t samples;        /* of one run of the operator's block */
    const int64_t *storage; /* [nlabels] */
};
/* Of an operator, not a copy. */
void mt_work_shape(const struct mt_work_op *op, const struct mt_work_share *share, struct mt_op_shape *shape);
int64_t mt_work_copy_bytes(const struct mt_work_op *op, const struct mt_work_share *share);

/* Which of the work's messages the builder joins (synth/builder/bucket.h), with start "attention" or "full".
 * bucket[message]: out, numbered in order; a bucket is sent where its last message is. Returns the number of buckets.
 */
int mt_work_buckets(const struct mt_work *work, int64_t bucket_bytes, bool attention, int *bucket);

/* Memory of a rank with `samples` samples in micro-batches of `micro` (0: one of all samples) and an even share of the
 * state, in the lowered program of this rank and one that stands for all others. The bucket size is the plan's. */
enum mt_status mt_work_memory(const struct mt_graph *graph, const struct mt_plan *plan, int64_t samples, int64_t micro,
                              const struct mt_lower_options *options, struct mt_plan_memory *memory,
                              struct mt_err *err);

#endif
