/* Inside the builder: build.c (blocks) calls gather.c (weights of a layer), sums.c (gradients over micro-batches),
 * factors.c (gradients from gathered factors) and op.c (operators); they call convert.c (values, conversions, messages)
 * and uniform.c (bit-equal replicas). */
#ifndef MT_SYNTH_BUILDER_INTERNAL_H
#define MT_SYNTH_BUILDER_INTERNAL_H

#include "synth/builder/bucket.h"
#include "synth/builder/build.h"

enum mt_op_class { MT_INVARIANT, MT_SAMPLE, MT_SUMMED };

/* Whether replicas are equal to the last bit: perhaps not; yes, because their ranks' devices are alike; yes. */
enum mt_uniform { MT_NOT_UNIFORM, MT_UNIFORM_IF_ALIKE, MT_UNIFORM };

struct pending { /* a conversion in the bucket */
    int value, layout;
    enum mt_block_kind block;
    enum mt_covers sums; /* as in the builder when it was asked for */
    int aim;             /* what `layout` is on the way to, or equal */
};

struct replicas { /* of a layout: kept as well */
    int layout;
    int *group;          /* [nranks]: ranks with one box in one part */
    bool any, alike;     /* some group has several; ranks of different groups have nothing in common */
    bool covers_overlap; /* some element is in several */
};

struct layer { /* consecutive operators whose weights are one bucket (gather.c) */
    int first; /* the first operator that uses its weights */
    struct pending *weights;
    int nweights, capacity, nkept; /* the first nkept were gathered for the layer before */
};

struct unfinished { /* a sum of one micro-batch that is still to be added to its accumulator (sums.c) */
    int value, layout;
    int sent; /* b->nsent when it had been sent; 0: not yet */
};

struct product { /* an operator that waits for factors, which are gathered (factors.c) */
    int op;
    int sent; /* b->nsent when they had been sent; 0: not yet */
};

struct conversion { /* from one layout to another; kept, because it is computed from all pairs of ranks */
    int from, to;
    enum mt_conversion kind;
    int *group;                                   /* [nranks] */
    enum { NOT_ASKED, TOGETHER, APART } replicas; /* whether those of the new layout are in one group */
    int route;                                    /* + 1; 0: not asked */
    int within;                                   /* nodes: + 2; 0: not asked */
};

struct mt_builder {
    const struct mt_graph *graph;
    const struct mt_choice *choice;
    struct mt_program *program;
    struct mt_err *err;
    struct mt_mesh mesh;
    struct mt_split block_split[MT_NBLOCKS]; /* the batch as BODY and LAST see it */
    int64_t block_batch[MT_NBLOCKS];
    const struct mt_rule **inner[MT_NBLOCKS]; /* [nops]: of rules; those that divide samples, as the block has them */
    enum mt_op_class *classes;
    bool *summed;  /* [nvalues]: a sum over samples, or computed from one */
    bool *emitted; /* [nops]: invariant operators that are in the prologue */
    int **held;    /* [nvalues]: program values of it in several layouts, newest last */
    int *nheld, *held_capacity;
    bool *joins;              /* [nops]: adds up gradients of one micro-batch, before they are accumulated */
    int *accumulator;         /* [nvalues]: the body's running sum, or -1 */
    enum mt_covers sums;      /* the samples that sums over samples must cover, where they are asked for now */
    enum mt_uniform *uniform; /* [program values] */
    int uniform_capacity;
    struct conversion *conversions;
    int nconversions, conversions_capacity;
    struct replicas *replicas; /* in `scratch` */
    int nreplicas, replicas_capacity;
    struct pending *bucket;
    int nbucket, bucket_capacity;
    struct mt_bucketing bucketing;
    int nsent;            /* buckets */
    struct layer *layers; /* of the current block; in `scratch` */
    int nlayers, layers_capacity, layer /* the current one, or -1 */;
    int *gathered; /* graph values that are held for the current layers */
    int ngathered, gathered_capacity;
    struct unfinished *unfinished;
    int nunfinished, unfinished_capacity;
    struct product *products;
    int nproducts, products_capacity;
    struct pending *factors; /* to be gathered for them; in `scratch` */
    int nfactors, factors_capacity;
    int64_t factor_bytes, coming_bytes; /* of those that wait, and of those that are still to come in the block */
    struct mt_arena scratch;
    int *consumers,
        *first_consumer; /* operators that take value v: consumers[first_consumer[v] .. first_consumer[v + 1]) */
    bool forward_only, has_body;
};

bool mt_builder_has_batch(const struct mt_graph *graph, int value);

/* A value's extents, an operator's rule and the layout it wants of an input, as `block` sees the batch. */
void mt_builder_extents(const struct mt_builder *b, int gvalue, enum mt_block_kind block, int64_t *extent);
struct mt_rule mt_builder_rule(const struct mt_builder *b, int op, enum mt_block_kind block);
int mt_builder_wanted(struct mt_builder *b, int op, const struct mt_rule *rule, int input, enum mt_block_kind block);
int mt_builder_given(struct mt_builder *b, int op, const struct mt_rule *rule, int output, enum mt_block_kind block);
int mt_builder_whole(struct mt_builder *b, int gvalue, enum mt_block_kind block); /* replicated */
static inline bool mt_builder_is_partial(const struct mt_builder *b, int layout) {
    return mt_layout_is_partial(&b->program->layouts.items[layout]);
}

/* A new program value; and hold one, for later wants of `gvalue`. */
int mt_builder_add(struct mt_builder *b, int gvalue, int layout, enum mt_block_kind block, enum mt_uniform uniform);
void mt_builder_hold(struct mt_builder *b, int gvalue, int value);
/* Whether a held value can be used in `block`: of the block's own samples, or made before and summed over those that
 * b->sums says. */
bool mt_builder_usable(const struct mt_builder *b, int value, enum mt_block_kind block);

/* A program value of `gvalue`, of which one is held, with `layout` in `block`; converts if needed. */
enum mt_status mt_builder_convert(struct mt_builder *b, int gvalue, int layout, enum mt_block_kind block, int *value);
/* Ask for it early: it is put into the bucket if it takes a collective. */
void mt_builder_convert_soon(struct mt_builder *b, int gvalue, int layout, enum mt_block_kind block);
/* Whether it takes no message. */
bool mt_builder_is_near(struct mt_builder *b, int gvalue, int layout, enum mt_block_kind block);
/* Emit what waits in the bucket as messages. */
void mt_builder_flush(struct mt_builder *b);
/* Emit these conversions as messages: those that follow each other and can are one. */
void mt_builder_send(struct mt_builder *b, const struct pending *wanted, int count);
/* How one layout becomes another, and in which groups (null: not asked). The known one is valid until the next. */
struct conversion *mt_builder_known_conversion(struct mt_builder *b, int from, int to);
enum mt_conversion mt_builder_conversion(struct mt_builder *b, int from, int to, const int **group);

/* Forget what is held of a weight in `block`. */
void mt_builder_drop(struct mt_builder *b, int gvalue, enum mt_block_kind block);
/* A held value in another layout, and a message that says how; instructions that make it are the caller's to emit. */
int mt_builder_converted(struct mt_builder *b, int from, int layout, enum mt_block_kind block, enum mt_uniform uniform);
void mt_builder_message(struct mt_builder *b, const struct mt_bucket_key *key, int *from, int *to, int count);
void mt_builder_slice(struct mt_builder *b, int from, int to, enum mt_block_kind block);

/* uniform.c. Replicas of `from` after its conversion to `layout`; those that an operator makes of its inputs, which are
 * uniform; and make replicas that an update wants bit-equal: those of the first rank of each set. */
enum mt_uniform mt_builder_uniform_after(struct mt_builder *b, int from, int layout);
enum mt_uniform mt_builder_uniform_of_op(struct mt_builder *b, int op, const int *in, int layout);
enum mt_status mt_builder_make_uniform(struct mt_builder *b, int *value, int update, enum mt_block_kind block);

/* gather.c. A weight: it depends on no sample, and is computed from states. */
bool mt_builder_is_weight(const struct mt_builder *b, int gvalue);
bool mt_builder_gathers_layers(const struct mt_builder *b, enum mt_block_kind block);
/* Before the first, and before each operator of a block: gather the weights of the next layer. At the end: forget. */
enum mt_status mt_builder_plan_layers(struct mt_builder *b, enum mt_block_kind block);
void mt_builder_enter_layer(struct mt_builder *b, int op, enum mt_block_kind block);
void mt_builder_leave_layers(struct mt_builder *b, enum mt_block_kind block);

/* sums.c. Which operators join sums of a micro-batch; call it after operators have classes. */
void mt_builder_find_joins(struct mt_builder *b);
static inline enum mt_covers mt_builder_covers(enum mt_block_kind block) {
    return block == MT_BODY ? MT_COVERS_BODY : MT_COVERS_LAST;
}
/* Add an operator's sums over the block's samples to their accumulators: now, or when they have been reduced. */
enum mt_status mt_builder_accumulate(struct mt_builder *b, int op, enum mt_block_kind block);
/* Add those that were reduced by a bucket before the last; `all`: send what waits, and add all. */
enum mt_status mt_builder_finish_sums(struct mt_builder *b, enum mt_block_kind block, bool all);

/* factors.c. Whether an operator is a product that sums over samples that other ranks send. */
bool mt_builder_gathers_factors(struct mt_builder *b, int op, const struct mt_rule *rule, enum mt_block_kind block);
/* Whether some level of a rule splits samples. */
bool mt_builder_divides_samples(const struct mt_builder *b, const struct mt_rule *rule);
/* At the start of a block: count what its products gather. */
void mt_builder_count_factors(struct mt_builder *b, enum mt_block_kind block);
/* Put off an operator that gathers factors and whose outputs only updates take: *off, and its factors are asked for. */
enum mt_status mt_builder_put_off(struct mt_builder *b, int op, enum mt_block_kind block, bool *off);
/* Emit the operators whose factors were sent before the last message; `all`: send what waits, and emit all. */
enum mt_status mt_builder_finish_products(struct mt_builder *b, enum mt_block_kind block, bool all);

/* op.c: the same of values that need not be held yet. */
enum mt_status mt_builder_want(struct mt_builder *b, int gvalue, int layout, enum mt_block_kind block, int *value);
enum mt_status mt_builder_want_soon(struct mt_builder *b, int gvalue, int layout, enum mt_block_kind block);
/* Make sure that `gvalue` is held in some layout; an input, in `layout`. */
enum mt_status mt_builder_ensure(struct mt_builder *b, int gvalue, int layout, enum mt_block_kind block);
/* The operator's rule; MT_RULE_REPLICATE instead of LINEAR where an input of its set is not partial. */
struct mt_rule mt_builder_effective_rule(const struct mt_builder *b, int op, enum mt_block_kind block);
/* build.c: ask for a gradient in the layouts that updates want. */
enum mt_status mt_builder_send_gradient(struct mt_builder *b, int gvalue);
/* build.c: whether the program has the operator. */
bool mt_builder_includes(const struct mt_builder *b, int op);
/* Emit an operator into `block`, with the conversions that it needs. */
enum mt_status mt_builder_op(struct mt_builder *b, int op, enum mt_block_kind block);
/* build.c: the same of one on samples, or their sums, with what follows it: its sums are accumulated, gradients sent.
 */
enum mt_status mt_builder_sample_op(struct mt_builder *b, int op, enum mt_block_kind block);

#endif
