/* The checker: proves that a program computes the training graph.
 *
 * It re-derives from the rules alone, without the builder or the search, what every program value holds on every rank,
 * and demands: operators get the layouts they can take; every partial is reduced exactly once, by the right group;
 * collectives do what their layouts say; every sample is counted once; every parameter is used and updated, its
 * replicas by bit-equal values; results reach the outputs. */
#ifndef MT_SYNTH_CHECK_CHECK_H
#define MT_SYNTH_CHECK_CHECK_H

#include <stdio.h>

#include "synth/lower/lower.h"
#include "synth/program/program.h"

/* MT_EPROOF with the block, instruction and reason. `proof`, if not null, gets one line per instruction with what was
 * derived. */
enum mt_status mt_check_program(const struct mt_program *program, FILE *proof, struct mt_err *err);

/* Of the lowered programs of all ranks (lowered[rank]): every instruction stands for instructions of `program`, in an
 * order that respects its data; no two live values share memory under the order of streams and events; in-place
 * operators get the last use; every communicator sees its collectives in the same order on all ranks. */
enum mt_status mt_check_lowered(const struct mt_program *program, const struct mt_lowered *const *lowered, FILE *proof,
                                struct mt_err *err);

#endif
