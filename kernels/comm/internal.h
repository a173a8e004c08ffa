/* Inside the MPI communicator: mpi.c, and its one-sided access in mpi_rma.c. */
#ifndef MT_KERNELS_COMM_INTERNAL_H
#define MT_KERNELS_COMM_INTERNAL_H

#include <mpi.h>

#include "kernels/comm/rma.h"

/* mt_comm_expose of the ranks of `of`. */
enum mt_status mt_mpi_expose(MPI_Comm of, void *memory, int64_t size_bytes, struct mt_rma **rma, struct mt_err *err);

#endif
