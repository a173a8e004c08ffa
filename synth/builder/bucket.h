/* Bucketing: which gradients and gathered weights form one message, and when it is sent. The builder follows this
 * policy, and the search (planner/work/work.h) counts messages by it.
 *
 *     mt_bucketing_init(&b, bucket_bytes, gradient_bytes, nyielding);
 *     if (mt_bucketing_enter(&b, phase)) send();                  // what waits; send() calls mt_bucketing_sent(&b)
 *     if (mt_bucketing_add(&b, bytes, true)) send();              // with the value that was added
 *     if (yields && mt_bucketing_yield(&b)) send();               // before the operator
 *     if (needs_a_waiting_value) send();                          // before the operator
 *
 * Values that other ranks will need wait in the bucket, in the order in which they are asked for. The bucket is sent
 *   - when a phase ends: values of two phases never share a bucket;
 *   - before an operator that needs a waiting value;
 *   - when it is full, that is when it holds at least
 *
 *         phase      values                                          full at
 *         WEIGHTS    weights to gather, by their first use           bucket_bytes >> (3 - n) after n < 3 full buckets,
 *                                                                    then bucket_bytes
 *         SAMPLES    none asked for early: forward pass, and all     bucket_bytes
 *                    micro-batches but the last
 *         REPORTS    loss and token count                            bucket_bytes
 *         GRADIENTS  gradients, as the backward pass of the last     half of the gradients that wait or are to come,
 *                    micro-batch completes them                      from bucket_bytes / 8 to bucket_bytes
 *         UPDATE     what else updates need                          each value at once
 *
 *     Computation overlaps neither the first message of weights nor the last message of gradients, so these are small;
 *     but where all gradients together are less than four times bucket_bytes, full is always bucket_bytes: messages
 *     would be many and small. bucket_bytes 0: each value at once.
 * With start "attention" (`nyielding` > 0) a full bucket of gradients waits for the next operator that yields
 * multiprocessors to NCCL, and is sent before it, with all that has been completed by then; when no such operator is to
 * come, it is sent when full.
 *
 * A bucket that is sent becomes messages: values that follow each other and have equal keys are one message. */
#ifndef MT_SYNTH_BUILDER_BUCKET_H
#define MT_SYNTH_BUILDER_BUCKET_H

#include "synth/program/program.h"

enum mt_bucket_phase { MT_BUCKET_WEIGHTS, MT_BUCKET_SAMPLES, MT_BUCKET_REPORTS, MT_BUCKET_GRADIENTS, MT_BUCKET_UPDATE };

struct mt_bucketing {
    enum mt_bucket_phase phase;
    int64_t bucket_bytes;
    int64_t gradient_bytes; /* of all gradients */
    int64_t coming_bytes;   /* of those that have not been added yet */
    int64_t waiting_bytes;
    int nyielding; /* operators to come that full buckets of gradients wait for */
    int nfull;     /* buckets of weights that were full */
};

/* The state before the first phase, WEIGHTS. `nyielding`: the operators for which mt_bucket_waits_for holds; 0 with
 * start "full". */
void mt_bucketing_init(struct mt_bucketing *b, int64_t bucket_bytes, int64_t gradient_bytes, int nyielding);

/* These return whether the bucket is to be sent now. `gradient`: the value is one of those of gradient_bytes, if the
 * phase is GRADIENTS. */
bool mt_bucketing_enter(struct mt_bucketing *b, enum mt_bucket_phase phase);
bool mt_bucketing_add(struct mt_bucketing *b, int64_t bytes, bool gradient);
bool mt_bucketing_yield(struct mt_bucketing *b);
/* A value that waits for its next step over nodes: it is sent with those that are added. */
void mt_bucketing_wait(struct mt_bucketing *b, int64_t bytes);
void mt_bucketing_sent(struct mt_bucketing *b);

/* Whether full buckets wait for an operator: those of the last micro-batch's backward pass that yield. */
bool mt_bucket_waits_for(enum mt_block_kind block, enum mt_op_role role, enum mt_op_kind kind);

/* What the values of one message have in common. */
struct mt_bucket_key {
    enum mt_coll_kind kind;
    enum mt_reduce reduce;
    enum mt_type wire, acc;
    enum mt_block_kind block;
    int *group; /* [nranks], ranks of equal numbers exchange; null (of both keys): all ranks; not owned */
};
bool mt_bucket_same_message(const struct mt_bucket_key *a, const struct mt_bucket_key *b, int nranks);

#endif
