/* The checker: proves that a program computes the training graph, and that lowered programs compute the program.
 *
 *   proof    what every value holds on every rank, derived from the meaning of instructions alone, without code of
 *            the builder, the search or the lowering
 *   uniform  replicas are equal to the last bit: one collective made all of them, or equal operations on equal inputs,
 *            by devices that are alike where the operation is not exact
 *   refusal  MT_EPROOF, with the block, the instruction and the reason
 *   mutant   a program that a test has damaged in one place; the checker must refuse it
 *
 * Of a program it demands: operators get layouts that they can take; every partial is reduced exactly once, by the
 * right group; collectives do what their layouts say; every sample is counted once; every parameter is used and
 * updated, its replicas by bit-equal values; reported values are whole.
 *
 *     if ((st = mt_check_program(&program, NULL, err))) return st;
 *     if ((st = mt_check_lowered(&program, lowered, &options, stdout, err))) return st; */
#ifndef MT_SYNTH_CHECK_CHECK_H
#define MT_SYNTH_CHECK_CHECK_H

#include <stdio.h>

#include "synth/lower/lower.h"
#include "synth/program/program.h"

/* `proof`, if not null, gets one line per instruction with what was derived. */
enum mt_status mt_check_program(const struct mt_program *program, FILE *proof, struct mt_err *err);

/* The lowered programs of all ranks, lowered[rank]: every instruction implements instructions of `program`, in an order
 * that respects data dependencies; no two live values share memory, whatever the timing of the streams; an operator
 * works in place only at an input's last use; all ranks run their collectives in the same order, and their messages
 * match; every operator has the scratch that its backend needs. How much that is `options` says (scratch_bytes, context
 * and chunks; nothing else is read): those of the lowering, or of the device that will run the programs. */
enum mt_status mt_check_lowered(const struct mt_program *program, const struct mt_lowered *const *lowered,
                                const struct mt_lower_options *options, FILE *proof, struct mt_err *err);

/* The same of lowered programs that come one after another: next() gives that of a rank, from rank 0 on, and may free
 * the one before. In memory are one of them and what is kept of all ranks' collectives. */
typedef enum mt_status mt_next_lowered(void *context, int rank, const struct mt_lowered **lowered, struct mt_err *err);
enum mt_status mt_check_each_lowered(const struct mt_program *program, mt_next_lowered *next, void *context,
                                     const struct mt_lower_options *options, FILE *proof, struct mt_err *err);

#endif
