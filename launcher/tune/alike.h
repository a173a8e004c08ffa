/* Whether ranks that a program takes for alike are: some programs let each rank compute the gradient of a replicated
 * parameter itself, which keeps replicas equal to the last bit only where all do it with the same kernels.
 *
 *     st = mt_alike_check(comm, device, &program, err);      // collective; agrees
 *
 * Ranks compare what their devices are: of a CPU the model, the caches, by which libraries divide sums into blocks, the
 * threads and the library that computes (not an emulated speed, which only stretches time); of a GPU the model, the
 * multiprocessors that compute (also emulated ones) and the versions of driver and libraries. GPUs whose descriptions
 * are equal have one tuning file (tuning.h), and so the same kernels. */
#ifndef MT_LAUNCHER_TUNE_ALIKE_H
#define MT_LAUNCHER_TUNE_ALIKE_H

#include <mpi.h>

#include "kernels/device/device.h"
#include "synth/program/program.h"

enum { MT_ALIKE_TEXT = 384 };

/* MT_EINPUT where ranks of one class in the plan (program->alike) have devices that differ, and the program needs that
 * they do not (program->needs_alike). Nothing is exchanged where it does not. */
enum mt_status mt_alike_check(MPI_Comm comm, struct mt_device *device, const struct mt_program *program,
                              struct mt_err *err);

/* Its parts, for those who judge elsewhere. What a device is, as a text of at most MT_ALIKE_TEXT bytes. */
enum mt_status mt_alike_describe(struct mt_device *device, char *text, struct mt_err *err);
/* The first two ranks of a program that needs alike ones, and whose texts[nranks] differ. False: there are none. */
bool mt_alike_differ(const struct mt_program *program, const char *const *texts, int *one, int *other);
/* MT_EINPUT for two such ranks, named as given. */
enum mt_status mt_alike_refuse(const char *const *texts, int one, int other, int one_name, int other_name,
                               struct mt_err *err);

#endif
