/* The reference interpreter: all ranks of a program in one process, instruction by instruction in lock-step, with the
 * plain C operators. Collectives are computed from boxes and parts, without the code of kernels/coll. It is slow and
 * simple, and what `motley verify` and the tests compare with.
 *
 *   reference  the result that another implementation is compared with
 *   replica    a copy of an element on another rank, in the same part; replicas should be equal to the last bit
 *   spread     the largest difference between replicas
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
 * A wrong program is run as it stands and gives wrong numbers. MT_EBUG, with the block and the instruction, where it
 * reads what is not there, where operands do not fit, or where it is malformed; it never crashes. Activations are freed
 * after their last use. */
#ifndef MT_SYNTH_INTERP_INTERP_H
#define MT_SYNTH_INTERP_INTERP_H

#include "synth/program/program.h"

struct mt_interp;

/* Never fails: mt_interp_step refuses a malformed program. The program must outlive the interpreter. */
struct mt_interp *mt_interp_new(const struct mt_program *program);
void mt_interp_free(struct mt_interp *interp);

/* Set a state's or an input's whole value, or get a state's: `data` is dense, of the value's type; an input with the
 * batch label has the whole batch. Getting a state assembles it from the ranks; *spread gets the largest difference
 * between replicas, infinite if the program has no such state. */
void mt_interp_set(struct mt_interp *interp, int gvalue, const void *data);
void mt_interp_get(const struct mt_interp *interp, int gvalue, void *data, double *spread);

/* Fill every state with its initial value by global element index (init.h), as training does. */
void mt_interp_init_states(struct mt_interp *interp, uint64_t seed);

/* Run one step. Afterwards states have their new values, and mt_interp_result reads a whole graph value (loss_sum,
 * token_count, sq_norm, a gradient) from a program value that was live at the end; false if the program has none. */
enum mt_status mt_interp_step(struct mt_interp *interp, const struct mt_clock *clock, struct mt_err *err);
bool mt_interp_result(const struct mt_interp *interp, int gvalue, double *data);

#endif
