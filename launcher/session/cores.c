/* Ranks of a host compare their affinity masks. */
#include "launcher/session/cores.h"

#include <omp.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>

#include "kernels/base/arena.h"

void mt_cores_divide(MPI_Comm comm) {
    MPI_Comm local;
    int rank, n;
    MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &local);
    MPI_Comm_rank(local, &rank);
    MPI_Comm_size(local, &n);
    cpu_set_t mine, *all = mt_calloc((size_t)n, sizeof *all);
    CPU_ZERO(&mine);
    bool known = !sched_getaffinity(0, sizeof mine, &mine), same = known;
    MPI_Allgather(&mine, (int)sizeof mine, MPI_BYTE, all, (int)sizeof mine, MPI_BYTE, local);
    for (int r = 1; r < n; r++) same = same && CPU_EQUAL(&all[0], &all[r]);
    MPI_Comm_free(&local);
    free(all);
    int cores = CPU_COUNT(&mine);
    if (!same || n == 1 || !cores) return;
    int from = rank * cores / n, to = (rank + 1) * cores / n, seen = 0;
    if (to == from) to = from + 1; /* more ranks than cores */
    for (size_t c = 0; c < CPU_SETSIZE; c++) {
        if (!CPU_ISSET(c, &mine)) continue;
        if (seen < from || seen >= to) CPU_CLR(c, &mine);
        seen++;
    }
    if (!sched_setaffinity(0, sizeof mine, &mine) && !getenv("OMP_NUM_THREADS")) omp_set_num_threads(to - from);
}
