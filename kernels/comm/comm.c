/* What all communicators share. */
#include "kernels/comm/comm.h"

void mt_comm_free(struct mt_comm *comm) {
    if (!comm) return;
    mt_comm_free(comm->host);
    comm->class->release(comm);
}

enum mt_status mt_comm_expose(struct mt_comm *comm, void *memory, int64_t size_bytes, struct mt_rma **rma,
                              struct mt_err *err) {
    if (!comm->class->expose)
        return mt_fail(err, MT_EMISSING, "a communicator of kind \"%s\" has no one-sided access", comm->class->name);
    return comm->class->expose(comm, memory, size_bytes, rma, err);
}

static const double spin_s = 200e-6, first_sleep_s = 30e-6, last_sleep_s = 400e-6, longest_sleep_s = 2e-3;

/* A rank that waits for long waits for one that still computes: it leaves that rank the core. */
double mt_comm_backoff_s(double idle_s) {
    if (idle_s < spin_s) return 0;
    double sleep_s = first_sleep_s + 0.5 * (idle_s - spin_s), long_s = 0.05 * idle_s;
    if (sleep_s > last_sleep_s) sleep_s = last_sleep_s;
    if (long_s > longest_sleep_s) long_s = longest_sleep_s;
    return sleep_s > long_s ? sleep_s : long_s;
}
