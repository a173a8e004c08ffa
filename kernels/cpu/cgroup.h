/* The cgroups of this process.
 *
 *     mt_cgroup_each("", "cpu", add_quota, &sum);    // add_quota reads files of each folder by mt_cgroup_number */
#ifndef MT_KERNELS_CPU_CGROUP_H
#define MT_KERNELS_CPU_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

/* Call `each` with the folder of every cgroup that limits this process by `controller` ("memory", "cpu"): of version 1
 * and of version 2 (unified), from its own group up to the root. `root` is put before /proc and /sys: "" except in
 * tests. */
void mt_cgroup_each(const char *root, const char *controller,
                    void (*each)(void *context, const char *folder, bool unified), void *context);

/* The number after `key` in a file of lines "key number" (key "": the first number); INT64_MAX if there is none. */
int64_t mt_cgroup_number(const char *folder, const char *file, const char *key);

#endif
