/* Free memory for this process. */
#include <limits.h>
#include <stdio.h>

#include "kernels/cpu/cgroup.h"
#include "kernels/cpu/internal.h"

struct cgroup_files {
    const char *limit, *usage, *inactive;
};
static const struct cgroup_files version_1 = {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};
static const struct cgroup_files version_2 = {"memory.max", "memory.current", "inactive_file"};

/* Lower *available to what one cgroup leaves. */
static void take_room(void *context, const char *folder, bool unified) {
    const struct cgroup_files *files = unified ? &version_2 : &version_1;
    int64_t *available = context, limit = mt_cgroup_number(folder, files->limit, "");
    int64_t usage = mt_cgroup_number(folder, files->usage, "");
    if (limit == INT64_MAX || usage == INT64_MAX) return;
    int64_t inactive = mt_cgroup_number(folder, "memory.stat", files->inactive);
    if (inactive != INT64_MAX) usage -= inactive < usage ? inactive : usage;
    int64_t room = limit > usage ? limit - usage : 0;
    if (room < *available) *available = room;
}

int64_t mt_cpu_memory_bytes(const char *root) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/proc", root);
    int64_t available = mt_cgroup_number(path, "meminfo", "MemAvailable:");
    if (available != INT64_MAX) available *= 1024;
    mt_cgroup_each(root, "memory", take_room, &available);
    return available;
}
