/* The reference interpreter: all ranks of a program in one process, instruction by instruction in lock-step, with the
 * plain C operators. Collectives are done straight from boxes and parts, with none of the code of kernels/coll. Slow
 * and plain: it is what `motley verify` and the tests compare with.
 *
 *     struct mt_interp *interp = mt_interp_new(&program);
 *     mt_interp_init_states(interp, seed);
 *     mt_interp_set(interp, tokens, data);
 *     if ((st = mt_interp_step(interp, &clock, err))) goto out;
 *     mt_interp_result(interp, graph->loss_sum, &loss);
 *     mt_interp_get(interp, weight, values, &spread);
 *  out:
 *     mt_interp_free(interp);
 *
 * A wrong program is run as it stands and gives wrong numbers; MT_EBUG, with the block and the instruction, where it
 * reads what is not there, meets operands that do not fit, or is malformed. It never crashes on one. Activations are
 * freed after their last use. */
#ifndef MT_SYNTH_INTERP_INTERP_H
#define MT_SYNTH_INTERP_INTERP_H

#include "synth/program/program.h"

struct mt_interp;

/* Allocates states only. Programs of any nranks; the graph's type decides the arithmetic. */
struct mt_interp *mt_interp_new(const struct mt_program *program);
void mt_interp_free(struct mt_interp *interp);

/* Set or get a state's or an input's whole value: `data` is dense, of the value's type. Setting a batch-labelled input
 * takes the whole batch. Getting a state assembles it from the ranks and reports the largest difference between
 * replicas in *spread. */
void mt_interp_set(struct mt_interp *interp, int gvalue, const void *data);
void mt_interp_get(const struct mt_interp *interp, int gvalue, void *data, double *spread);

/* Fill every state from its `init` by global element index (the same numbers as training uses). */
void mt_interp_init_states(struct mt_interp *interp, uint64_t seed);

/* Run one step. Afterwards states have their new values and every program value that lived at the end can be read as a
 * whole with mt_interp_result (loss_sum, token_count, sq_norm, gradients: by graph value; false if the program never
 * had it whole). */
enum mt_status mt_interp_step(struct mt_interp *interp, const struct mt_clock *clock, struct mt_err *err);
bool mt_interp_result(const struct mt_interp *interp, int gvalue, double *data);

#endif
