/* The cores of a host, divided among the ranks that it runs. */
#ifndef MT_LAUNCHER_SESSION_CORES_H
#define MT_LAUNCHER_SESSION_CORES_H

#include <mpi.h>

/* Collective, before a device is opened. Processes of one host that mpirun has not bound share all cores; each takes
 * its part of them, so that their threads do not compete: it sets its affinity mask and, unless OMP_NUM_THREADS is set,
 * its number of OpenMP threads. Processes that mpirun has bound to different cores are left as they are. */
void mt_cores_divide(MPI_Comm comm);

#endif
