/* The CPU device's own parts. */
#ifndef MT_KERNELS_CPU_CPU_H
#define MT_KERNELS_CPU_CPU_H

#include <pthread.h>

#include "kernels/device.h"

struct mt_cpu_allocation {
    struct mt_cpu_allocation *next;
    void *memory;
    size_t size_bytes;
};

struct mt_device {
    int threads;                     /* of each stream's OpenMP team */
    const struct mt_backend *onednn; /* or null */
    char description[1200];
    pthread_mutex_t lock; /* of allocations */
    struct mt_cpu_allocation *allocations;
};

/* Bytes that can still be had under the kernel's MemAvailable and the limits of this process's cgroups (v1 and v2, with
 * all parents; file caches that can be dropped count as free). `root` goes before /proc and /sys: "" but in tests. */
int64_t mt_cpu_memory_bytes(const char *root);

/* The work of one collective call, by the calling thread. */
enum mt_status mt_cpu_coll(const struct mt_coll_call *call, struct mt_err *err);

#endif
