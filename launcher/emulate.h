/* --emulate: devices that compute as slower ones do, for trying uneven plans on even hardware.
 *
 *     "speed=1,0.5"    one for each rank, or one for all; above 0.01, at most 1
 *     "sm=132,64"      multiprocessors of a GPU, likewise: rounded up to what the GPU can be divided by
 *
 *     mt_emulation_parse(text, &arena, &emulation, err);
 *     mt_emulation_check(&emulation, nranks, "cuda", err);        // when their number and kind are known
 *     mt_emulation_apply(&emulation, rank, device, &speed, err);  // before the device has streams
 *
 * On a GPU only computation is slowed: kernels of communication may use all of its multiprocessors. */
#ifndef MT_LAUNCHER_EMULATE_H
#define MT_LAUNCHER_EMULATE_H

#include <mpi.h>
#include <stdbool.h>

#include "kernels/base/arena.h"
#include "kernels/device.h"

struct mt_emulation {
    int nspeeds, nmultiprocessors; /* of one kind at most; 0 and 0: nothing is emulated */
    double *speeds;
    int64_t *multiprocessors;
};

enum mt_status mt_emulation_parse(const char *text, struct mt_arena *arena, struct mt_emulation *emulation,
                                  struct mt_err *err);
/* Whether there is a value for each of so many ranks, on devices of this kind. */
enum mt_status mt_emulation_check(const struct mt_emulation *emulation, int nranks, const char *kind,
                                  struct mt_err *err);

/* Make a rank's device slower. *speed: the part of its own that it has now; on a GPU that of its multiprocessors. */
enum mt_status mt_emulation_apply(const struct mt_emulation *emulation, int rank, struct mt_device *device,
                                  double *speed, struct mt_err *err);

double mt_emulation_speed(const struct mt_emulation *emulation, int rank); /* as given; 1: its own, or not by speed */
bool mt_emulation_any(const struct mt_emulation *emulation); /* some speed is not 1, or multiprocessors are said */

/* "emulated speed 0.5", "emulated speeds 1, 0.5, ...", "emulated multiprocessors 132, 64" in the arena; "" where
 * nothing is emulated. */
const char *mt_emulation_text(const struct mt_emulation *emulation, struct mt_arena *arena);

/* Say (by rank 0) how long an operator must be for times to be exact, where some rank's device is less exact than
 * MT_EMULATED_EXACT_S. Collective. */
void mt_emulation_tell_error(MPI_Comm comm, const struct mt_device *device);

#endif
