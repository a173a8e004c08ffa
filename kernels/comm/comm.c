/* What all communicators share. */
#include "kernels/comm/comm.h"

void mt_comm_free(struct mt_comm *comm) {
    if (comm) comm->class->release(comm);
}
