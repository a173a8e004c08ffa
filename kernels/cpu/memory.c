/* How much memory this process can still have. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/cpu.h"

/* The number after `key` in a file of "key number" lines (key "": the file's first); INT64_MAX if there is none. */
static int64_t file_number(const char *path, const char *key) {
    FILE *file = fopen(path, "re");
    if (!file) return INT64_MAX;
    char line[256];
    int64_t number = INT64_MAX;
    size_t length = strlen(key);
    while (fgets(line, sizeof line, file)) {
        if (strncmp(line, key, length)) continue;
        if (sscanf(line + length, " %" SCNd64, &number) != 1) number = INT64_MAX; /* "max" */
        break;
    }
    fclose(file);
    return number;
}

struct cgroup_files {
    const char *mount, *limit, *usage, *inactive;
};
static const struct cgroup_files version_1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                                              "total_inactive_file"};
static const struct cgroup_files version_2 = {"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"};

/* What one cgroup leaves. */
static int64_t cgroup_room(const char *root, const struct cgroup_files *files, const char *group) {
    char folder[PATH_MAX], path[PATH_MAX + 64];
    if (snprintf(folder, sizeof folder, "%s%s%s", root, files->mount, group) >= (int)sizeof folder) return INT64_MAX;
    snprintf(path, sizeof path, "%s/%s", folder, files->limit);
    int64_t limit = file_number(path, "");
    snprintf(path, sizeof path, "%s/%s", folder, files->usage);
    int64_t usage = file_number(path, "");
    if (limit == INT64_MAX || usage == INT64_MAX) return INT64_MAX;
    snprintf(path, sizeof path, "%s/memory.stat", folder);
    int64_t inactive = file_number(path, files->inactive);
    if (inactive != INT64_MAX) usage -= inactive < usage ? inactive : usage;
    return limit > usage ? limit - usage : 0;
}

int64_t mt_cpu_memory_bytes(const char *root) {
    char path[PATH_MAX], line[PATH_MAX];
    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    int64_t available = file_number(path, "MemAvailable:");
    if (available != INT64_MAX) available *= 1024;

    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file)) { /* "4:memory,cpu:/user/session" or "0::/user/session" */
        line[strcspn(line, "\n")] = 0;
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group) continue;
        *group++ = 0;
        bool second = !controllers[1];
        if (!second && !strstr(controllers, "memory")) continue;
        for (;;) { /* this group and its parents */
            if (!strcmp(group, "/")) *group = 0;
            int64_t room = cgroup_room(root, second ? &version_2 : &version_1, group);
            if (room < available) available = room;
            char *slash = strrchr(group, '/');
            if (!slash) break;
            *slash = 0;
        }
    }
    if (file) fclose(file);
    return available;
}
