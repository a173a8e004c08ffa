/* Inside the builder: build.c (blocks) calls op.c (operators), and that convert.c (values, conversions, messages). */
#ifndef MT_SYNTH_BUILDER_INTERNAL_H
#define MT_SYNTH_BUILDER_INTERNAL_H

#include "synth/builder/bucket.h"
#include "synth/builder/build.h"

enum mt_op_class { MT_INVARIANT, MT_SAMPLE, MT_SUMMED };

struct pending { /* a conversion in the bucket */
    int value, layout;
    enum mt_block_kind block;
};

struct conversion { /* from one layout to another; kept, because it is computed from all pairs of ranks */
    int from, to;
    enum mt_conversion kind;
    int *group; /* [nranks] */
};

struct mt_builder {
    const struct mt_graph *graph;
    const struct mt_choice *choice;
    struct mt_program *program;
    struct mt_err *err;
    struct mt_split block_split[MT_NBLOCKS]; /* the batch as BODY and LAST see it */
    int64_t block_batch[MT_NBLOCKS];
    enum mt_op_class *classes;
    bool *summed;  /* [nvalues]: a sum over samples, or computed from one */
    bool *emitted; /* [nops]: invariant operators that are in the prologue */
    int **held;    /* [nvalues]: program values of it in several layouts, newest last */
    int *nheld, *held_capacity;
    int *accumulator; /* [nvalues]: the body's running sum, or -1 */
    bool *uniform;    /* [program values]: replicas are bit-equal */
    int uniform_capacity;
    struct conversion *conversions;
    int nconversions, conversions_capacity;
    struct pending *bucket;
    int nbucket, bucket_capacity;
    struct mt_bucketing bucketing;
    int *consumers,
        *first_consumer; /* operators that take value v: consumers[first_consumer[v] .. first_consumer[v + 1]) */
    bool forward_only, has_body;
};

bool mt_builder_has_batch(const struct mt_graph *graph, int value);

/* A value's extents, an operator's rule and the layout it wants of an input, as `block` sees the batch. */
void mt_builder_extents(const struct mt_builder *b, int gvalue, enum mt_block_kind block, int64_t *extent);
struct mt_rule mt_builder_rule(const struct mt_builder *b, int op, enum mt_block_kind block);
int mt_builder_wanted(struct mt_builder *b, int op, const struct mt_rule *rule, int input, enum mt_block_kind block);
int mt_builder_whole(struct mt_builder *b, int gvalue, enum mt_block_kind block); /* replicated */
static inline bool mt_builder_is_partial(const struct mt_builder *b, int layout) {
    return mt_layout_is_partial(&b->program->layouts.items[layout]);
}

/* A new program value; and hold one, for later wants of `gvalue`. */
int mt_builder_add(struct mt_builder *b, int gvalue, int layout, enum mt_block_kind block, bool uniform);
void mt_builder_hold(struct mt_builder *b, int gvalue, int value);
/* Whether a held value can be used in `block`: of the block's own samples, or made before and summed over all. */
bool mt_builder_usable(const struct mt_builder *b, int value, enum mt_block_kind block);

/* A program value of `gvalue`, of which one is held, with `layout` in `block`; converts if needed. */
enum mt_status mt_builder_convert(struct mt_builder *b, int gvalue, int layout, enum mt_block_kind block, int *value);
/* Ask for it early: it is put into the bucket if it takes a collective. */
void mt_builder_convert_soon(struct mt_builder *b, int gvalue, int layout, enum mt_block_kind block);
/* Emit what waits in the bucket as messages. */
void mt_builder_flush(struct mt_builder *b);
/* The first rank's value, on all ranks. */
int mt_builder_broadcast(struct mt_builder *b, int value, enum mt_block_kind block);

/* op.c: the same of values that need not be held yet. */
enum mt_status mt_builder_want(struct mt_builder *b, int gvalue, int layout, enum mt_block_kind block, int *value);
enum mt_status mt_builder_want_soon(struct mt_builder *b, int gvalue, int layout, enum mt_block_kind block);
/* The operator's rule; MT_RULE_REPLICATE instead of LINEAR where an input of its set is not partial. */
struct mt_rule mt_builder_effective_rule(const struct mt_builder *b, int op, enum mt_block_kind block);
/* Emit an operator into `block`, with the conversions that it needs. */
enum mt_status mt_builder_op(struct mt_builder *b, int op, enum mt_block_kind block);

#endif
