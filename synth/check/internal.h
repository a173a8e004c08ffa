/* Inside the checker: what is known of each program value, and the parts of the proof.
 *
 * The one idea of all of it: a rank's copy of a value is worth a *set of parts*. Every way of making a value
 * (an operator, a collective, a slice) says which parts of what each rank's new box is worth; `mt_checker_parts` then
 * demands that the declared layout tells the truth: ranks that share a part hold the same, others hold disjoint parts,
 * and everywhere the parts add up to the whole. */
#ifndef MT_SYNTH_CHECK_INTERNAL_H
#define MT_SYNTH_CHECK_INTERNAL_H

#include <stdio.h>

#include "synth/program/program.h"

struct mt_fact {
    bool known;
    enum mt_block_kind block; /* where it was made */
    enum mt_covers covers;    /* whose samples a sum over samples counts */
    bool uniform;             /* replicas are equal to the last bit */
    enum { MT_NOT_ACCUMULATOR, MT_ACCUMULATOR_ZERO, MT_ACCUMULATOR_TAKEN, MT_ACCUMULATOR_FULL } accumulator;
};

struct mt_checker {
    const struct mt_program *program;
    const struct mt_graph *graph;
    struct mt_fact *facts; /* [program->nvalues] */
    bool has_body;
    enum mt_block_kind block; /* of the instruction at hand */
    const struct mt_instr *instr;
    FILE *proof;
    struct mt_err *err;
};

/* Refuse the instruction at hand; MT_EPROOF. */
enum mt_status mt_checker_refuse(struct mt_checker *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

const char *mt_checker_instr_name(const struct mt_checker *c);

/* Whether a value of this kind has the batch label, and whether an operator has an operand that has it. */
bool mt_checker_samples(const struct mt_checker *c, int gvalue);
bool mt_checker_sample_op(const struct mt_checker *c, const struct mt_op *op);

/* What a rank's new box is worth: for `nparts` parts, worth[rank * nparts + part]; `layout` must tell the same. */
enum mt_status mt_checker_parts(struct mt_checker *c, int layout, int nparts, const bool *worth);

/* Whether any two ranks of one part hold the same element. */
bool mt_checker_replicated(const struct mt_program *program, int layout);

/* Note what the instruction at hand has made. A value that no two ranks have is uniform in any case. */
void mt_checker_learn(struct mt_checker *c, int value, enum mt_covers covers, bool uniform);

/* op.c, move.c: the instruction at hand; operands are known and of the right graph values. */
enum mt_status mt_checker_op(struct mt_checker *c);
enum mt_status mt_checker_move(struct mt_checker *c);

#endif
