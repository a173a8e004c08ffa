/* Inside fusion: what patterns are made with.
 *
 *   fuse.c      the blocks; who makes and reads a value; merging
 *   norm.c, gemm.c, loss.c, sums.c   the patterns, by what they fuse; a row each in patterns.def
 *   tensors.c   the tensors of a fused operator
 *   packed.c    attention of the parts of one value becomes packed; before the patterns
 *   update.c    updates write the casts that the next step begins with; after the patterns */
#ifndef MT_SYNTH_LOWER_FUSE_INTERNAL_H
#define MT_SYNTH_LOWER_FUSE_INTERNAL_H

#include "synth/lower/internal.h"

struct mt_fusing {
    struct mt_lowering *l;
    struct mt_linstr *instrs;
    int begin, end;        /* the block */
    int *into;             /* [ninstrs]: the instruction that it was merged into, or itself */
    unsigned char *anchor; /* [ninstrs]: the kind of an operator that is not merged, + 1; else 0 */
    int *producer;         /* [pvalues]: the instruction of this block that makes it, or -1 */
    int *first_use, *uses; /* readers of value v in this block: uses[first_use[v] .. first_use[v + 1]) */
    bool *kept;            /* [pvalues]: read outside of the block, or after the step */
};

/* The instruction that this one was merged into, or itself. */
int mt_fusing_resolve(const struct mt_fusing *f, int instr);
/* The instruction of this block that makes `value`, or null. */
struct mt_linstr *mt_fusing_maker(const struct mt_fusing *f, int value);
/* The operator that makes `value`, if it is of this block and makes it as output `out` of kind `kind`; else null. */
struct mt_linstr *mt_fusing_made_by(const struct mt_fusing *f, int value, enum mt_op_kind kind, int out);
/* The only instruction of kind `kind` that reads `value` as input `in`; null if there is none or there are two. */
struct mt_linstr *mt_fusing_used_by(const struct mt_fusing *f, int value, enum mt_op_kind kind, int in);
/* Replace the members by `fused` (kind, attributes, in and out are set) at the place of the last member that comes
 * after all inputs and before every reader of an output. False if there is none. An overlapped instruction is the first
 * member, and stays where it is: in the order of collectives that all ranks have. */
bool mt_fusing_merge(struct mt_fusing *f, struct mt_linstr *const *members, int count, struct mt_linstr fused);

/* Whether an addition is of two equal shapes. */
static inline bool mt_adds_whole(const struct mt_linstr *add) {
    return add->attr.axes == (1u << add->tensor[0].naxes) - 1;
}

/* A pattern takes one instruction (its anchor), and merges it with others; false: they are not there. */
typedef bool mt_pattern(struct mt_fusing *f, struct mt_linstr *anchor);
#define MT_PATTERN(anchor, name) mt_pattern mt_fuse_##name;
#include "synth/lower/fuse/patterns.def"
#undef MT_PATTERN

#endif
