/* What all communicators have in common. */
#include "kernels/comm/comm.h"

void mt_comm_free(struct mt_comm *comm) {
    if (comm) comm->class->release(comm);
}
