/* A rank's device, and what its data travels by: for training and profiling alike. */
#ifndef MT_LAUNCHER_RANK_DEVICE_H
#define MT_LAUNCHER_RANK_DEVICE_H

#include <mpi.h>

#include "kernels/device.h"

extern const char *const mt_device_kinds[]; /* "cpu", "cuda"; null at the end */

/* One of mt_device_kinds, as `flag` gave it. */
enum mt_status mt_device_kind_parse(const char *flag, const char *text, const char **kind, struct mt_err *err);

/* Of a host's GPUs each rank of `comm` takes the one of its number among the host's ranks. Collective; the status is
 * this rank's own. */
enum mt_status mt_rank_device_open(MPI_Comm comm, const char *kind, struct mt_device **device, struct mt_err *err);

/* GPUs talk through NCCL, everything else through MPI; a single rank needs no NCCL. Collective; the status is this
 * rank's own, but where no id could be made, all fail. */
enum mt_status mt_rank_wire_open(MPI_Comm comm, const char *kind, struct mt_comm **wire, struct mt_err *err);

#endif
