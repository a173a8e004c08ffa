/* The control groups that this process is in. */
#ifndef MT_KERNELS_CPU_CGROUP_H
#define MT_KERNELS_CPU_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

/* Call `each` with the folder of every cgroup that limits this process by `controller` ("memory", "cpu"): of version 1
 * and 2 (unified), from its own group up to the root. `root` goes before /proc and /sys: "" but in tests. */
void mt_cgroup_each(const char *root, const char *controller,
                    void (*each)(void *context, const char *folder, bool unified), void *context);

/* The number after `key` in a file of "key number" lines (key "": the file's first); INT64_MAX if there is none. */
int64_t mt_cgroup_number(const char *folder, const char *file, const char *key);

#endif
