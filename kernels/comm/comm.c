/* What all communicators share. */
#include "kernels/comm/comm.h"

#include <stdatomic.h>

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

/* Threads of this process that compute. While there are any, a thread that waits for another rank soon leaves them the
 * core. While there are none, to sleep delays all that comes after: ranks that sleep in turn wait for each other. */
static atomic_int computing;
static const double computing_spin_s = 200e-6, spin_s = 5e-3;

void mt_comm_computing(bool begins) {
    atomic_fetch_add_explicit(&computing, begins ? 1 : -1, memory_order_relaxed);
}

static const double first_sleep_s = 30e-6, last_sleep_s = 400e-6, longest_sleep_s = 2e-3;

bool mt_comm_computes(void) {
    return atomic_load_explicit(&computing, memory_order_relaxed);
}

/* A rank that waits for long waits for one that still computes: it leaves that rank the core. */
double mt_comm_backoff_s(double idle_s, bool computes) {
    double polled_s = computes ? computing_spin_s : spin_s;
    if (idle_s < polled_s) return 0;
    double sleep_s = first_sleep_s + 0.5 * (idle_s - polled_s), long_s = 0.05 * idle_s;
    if (sleep_s > last_sleep_s) sleep_s = last_sleep_s;
    if (long_s > longest_sleep_s) long_s = longest_sleep_s;
    return sleep_s > long_s ? sleep_s : long_s;
}
