/* Parses /proc/self/cgroup: lines "4:memory,cpu:/user/session" (version 1) or "0::/user/session" (version 2). */
#include "kernels/cpu/cgroup.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

int64_t mt_cgroup_number(const char *folder, const char *name, const char *key) {
    char path[PATH_MAX + 64], line[256];
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path) return INT64_MAX;
    FILE *file = fopen(path, "re");
    if (!file) return INT64_MAX;
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

/* Whether `name` is in a comma-separated list. Overwrites the list. */
static bool listed(char *list, const char *name) {
    char *rest = list;
    for (char *word; (word = strsep(&rest, ","));)
        if (!strcmp(word, name)) return true;
    return false;
}

void mt_cgroup_each(const char *root, const char *controller,
                    void (*each)(void *context, const char *folder, bool unified), void *context) {
    char path[PATH_MAX], line[PATH_MAX];
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group) continue;
        *group++ = 0;
        bool unified = !controllers[1];
        if (!unified && !listed(controllers + 1, controller)) continue;
        for (;;) { /* this group and its parents */
            if (!strcmp(group, "/")) *group = 0;
            int length = snprintf(path, sizeof path, "%s/sys/fs/cgroup%s%s%s", root, unified ? "" : "/",
                                  unified ? "" : controller, group);
            if (length < (int)sizeof path) each(context, path, unified);
            char *slash = strrchr(group, '/');
            if (!slash) break;
            *slash = 0;
        }
    }
    if (file) fclose(file);
}
