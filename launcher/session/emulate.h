/* --emulate: make devices compute more slowly, to try uneven plans on even hardware.
 *
 *     "speed=1,0.5"    fraction of the device's own speed, one for each rank, or one for all; from 0.01 to 1
 *     "sm=132,64"      multiprocessors of a GPU, likewise; rounded up to a multiple that the GPU can be divided into
 *
 *     mt_emulation_parse(text, &arena, &emulation, err);
 *     mt_emulation_check(&emulation, nranks, "cuda", err);        // when their number and kind are known
 *     mt_emulation_apply(&emulation, rank, device, &speed, err);  // before the device has streams
 *
 * On a GPU only computation is slowed: communication kernels may use all multiprocessors. */
#ifndef MT_LAUNCHER_SESSION_EMULATE_H
#define MT_LAUNCHER_SESSION_EMULATE_H

#include <mpi.h>

#include "kernels/base/arena.h"
#include "kernels/device/device.h"

struct mt_emulation {
    int nspeeds, nmultiprocessors; /* at most one of them is above 0; both 0: no emulation */
    double *speeds;
    int64_t *multiprocessors;
};

enum mt_status mt_emulation_parse(const char *text, struct mt_arena *arena, struct mt_emulation *emulation,
                                  struct mt_err *err);
/* Check that there is one value, or one for each of nranks, and that devices of this kind can be emulated so. */
enum mt_status mt_emulation_check(const struct mt_emulation *emulation, int nranks, const char *kind,
                                  struct mt_err *err);

/* Make a rank's device slower. *speed: the fraction of its own speed that is left; on a GPU, of its multiprocessors. */
enum mt_status mt_emulation_apply(const struct mt_emulation *emulation, int rank, struct mt_device *device,
                                  double *speed, struct mt_err *err);

/* "emulated speed 0.5", "emulated speeds 1, 0.5, ...", "emulated multiprocessors 132, 64", in the arena; "" without
 * emulation. */
const char *mt_emulation_text(const struct mt_emulation *emulation, struct mt_arena *arena);

/* Collective: rank 0 warns how long operators must be for exact times, if that is more than MT_EMULATED_EXACT_S on some
 * rank. */
void mt_emulation_warn(MPI_Comm comm, const struct mt_device *device);

#endif
