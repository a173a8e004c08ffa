/* The work of a job on one rank as a function of its shares, without building the program of all ranks: what balance
 * and search are fed with.
 *
 *     struct mt_work work;
 *     if ((st = mt_work_open(graph, plan, false, &options, &work, err))) return st;
 *     mt_work_shape(&work, &work.ops[o], &(struct mt_work_share){.samples = 12, .storage = shares}, &shape);
 *     mt_work_release(&work);
 *
 * It is taken from the lowered program of one rank against the rest: two ranks, of which the second stands for all
 * others. Operators, copies, messages and their order are the same in every rank's program; extents differ, and are
 * functions of the rank's samples and of its shares of storage. Identical operators are counted, not listed. */
#ifndef MT_PLANNER_SEARCH_WORK_H
#define MT_PLANNER_SEARCH_WORK_H

#include "planner/plan/plan.h"
#include "profiler/cluster/shape.h"
#include "synth/build/bucket.h"
#include "synth/graph/graph.h"
#include "synth/lower/lower.h"
#include "synth/models/model.h"

/* What divides an axis of an operand. */
enum { MT_WORK_WHOLE = -1, MT_WORK_SAMPLES = 0, MT_WORK_STORAGE = 1 /* + the place in work->labels */ };

struct mt_work_op { /* of a block: identical ones in the same block */
    bool copy;      /* no operator: a copy of tensor[0], which is all of it, in `npieces` pieces */
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

/* A collective of one value: buckets are put together by mt_work_buckets. */
struct mt_work_message {
    struct mt_bucket_key key;
    enum mt_bucket_phase phase;
    int label;     /* of AllGather, ReduceScatter: in shares of work->labels[label]; -1: elements are shared out */
    int64_t count; /* elements, of all ranks together */
    int64_t bytes; /* of the value: what fills buckets */
};

struct mt_work_label { /* by which storage is divided */
    int label;         /* of the graph */
    int64_t extent, align;
    int64_t state_bytes; /* of states that are stored in its shares, whole */
};

struct mt_work_step { /* in the order of the program */
    int op, message;  /* one of them, the other -1 */
    int wait;         /* a step of the other kind (operator or message) that must have ended, or -1 */
};

struct mt_work {
    struct mt_arena arena;
    int nlabels, nops, nmessages, nsteps;
    struct mt_work_label *labels;
    struct mt_work_op *ops;
    struct mt_work_message *messages;
    struct mt_work_step *steps;
    int block_begin[MT_NBLOCKS + 1];  /* steps */
    int64_t state_bytes;              /* of replicated states */
    struct mt_plan_memory one_sample; /* mt_work_memory of micro-batches of one, without buckets; of one rank without
                                         `body`, of the whole batch */
};

/* The plan gives rules, storage rows, sync and wire; its splits and ranks but for their number are not read. `body`:
 * with micro-batches, of which the rank has one or more in BODY and one in LAST. */
enum mt_status mt_work_open(const struct mt_graph *graph, const struct mt_plan *plan, bool body,
                            const struct mt_lower_options *options, struct mt_work *work, struct mt_err *err);
void mt_work_release(struct mt_work *work);

struct mt_work_share {
    int64_t samples;        /* of one run of the operator's block */
    const int64_t *storage; /* [nlabels] */
};
/* Not of copies. */
void mt_work_shape(const struct mt_work_op *op, const struct mt_work_share *share, struct mt_op_shape *shape);
int64_t mt_work_copy_bytes(const struct mt_work_op *op, const struct mt_work_share *share);

/* Which of the work's messages the builder puts into one, with buckets of bucket_bytes (synth/build/bucket.h; `beside`
 * as in mt_choice). bucket[message]: out, numbered in order; a bucket is sent where its last message is. Returns how
 * many there are. */
int mt_work_buckets(const struct mt_work *work, int64_t bucket_bytes, bool beside, int *bucket);

/* The memory of a rank with so many samples in micro-batches of `micro` (0: of them all) and `storage` of each label of
 * mt_work_open's, as the lowered program of it against the rest has it. `bucket_bytes` is the plan's. */
enum mt_status mt_work_memory(const struct mt_graph *graph, const struct mt_plan *plan, int64_t samples, int64_t micro,
                              const struct mt_lower_options *options, struct mt_plan_memory *memory,
                              struct mt_err *err);

/* All operators of a step of `batch` samples on a single rank, in micro-batches of `micro`, as shapes with counts. */
struct mt_work_item {
    struct mt_op_shape shape;
    enum mt_op_role role;
    int64_t count;
};
struct mt_work_list {
    int nitems;
    struct mt_work_item *items; /* in the arena that was given */
    int64_t arena_bytes, state_bytes;
};
enum mt_status mt_work_of(const struct mt_model *model, const struct mt_job *job, int64_t batch, int64_t micro,
                          const struct mt_lower_options *options, struct mt_arena *arena, struct mt_work_list *list,
                          struct mt_err *err);

#endif
