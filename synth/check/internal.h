/* Inside the checker of programs: what is known of each program value, and the parts of the proof.
 *
 * The idea of all of it: a rank's box of a value holds the sum of a *set of parts*. Every instruction determines which
 * parts each rank's new box holds. mt_checker_parts then demands that the declared layout says the same: ranks of one
 * declared part hold the same set, other ranks hold disjoint sets, and every element has every part once.
 *
 *   facts.c  facts about values, refusals, mt_checker_parts
 *   op.c     operators
 *   move.c   collectives and slices
 *   check.c  the walk over the program */
#ifndef MT_SYNTH_CHECK_INTERNAL_H
#define MT_SYNTH_CHECK_INTERNAL_H

#include <stdio.h>

#include "synth/program/program.h"

struct mt_fact {
    bool known;
    enum mt_block_kind block; /* where it was made */
    enum mt_covers covers;    /* the samples that a sum over samples covers */
    bool uniform;             /* replicas are equal to the last bit */
    enum { MT_NOT_ACCUMULATOR, MT_ACCUMULATOR_ZERO, MT_ACCUMULATOR_TAKEN, MT_ACCUMULATOR_FULL } accumulator;
};

struct mt_checker {
    const struct mt_program *program;
    const struct mt_graph *graph;
    struct mt_fact *facts; /* [program->nvalues] */
    bool has_body;
    enum mt_block_kind block; /* of the current instruction */
    const struct mt_instr *instr;
    FILE *proof;
    struct mt_err *err;
};

/* Refuse the current instruction; MT_EPROOF. */
enum mt_status mt_checker_refuse(struct mt_checker *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

const char *mt_checker_instr_name(const struct mt_checker *c);

/* Whether a graph value, or an operator, has the batch label. */
bool mt_checker_samples(const struct mt_checker *c, int gvalue);
bool mt_checker_sample_op(const struct mt_checker *c, const struct mt_op *op);

/* Prove that `layout` declares what the ranks' boxes hold: has[rank * nparts + part] of `nparts` parts. */
enum mt_status mt_checker_parts(struct mt_checker *c, int layout, int nparts, const bool *has);

/* Whether two ranks of one part hold the same element. */
bool mt_checker_replicated(const struct mt_program *program, int layout);

/* Record a value that the current instruction makes. A value without replicas is uniform in any case. */
void mt_checker_learn(struct mt_checker *c, int value, enum mt_covers covers, bool uniform);

/* op.c, move.c: check the current instruction, whose operands are known. */
enum mt_status mt_checker_op(struct mt_checker *c);
enum mt_status mt_checker_move(struct mt_checker *c);

#endif
