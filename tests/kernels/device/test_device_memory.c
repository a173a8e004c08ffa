/* What can still be had, from synthetic /proc and /sys trees. */
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/cpu/internal.h"
#include "tests/check.h"

static char root[] = "/tmp/motley-memory-XXXXXX";

/* Write a file below the root, with its folders. */
static void put(const char *path, const char *text) {
    char full[512];
    snprintf(full, sizeof full, "%s%s", root, path);
    for (char *slash = strchr(full + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(full, 0700);
        *slash = '/';
    }
    FILE *file = fopen(full, "w");
    CHECK(file && fputs(text, file) >= 0 && !fclose(file), "%s", full);
}

int main(void) {
    CHECK(mkdtemp(root));
    put("/proc/meminfo", "MemTotal:  8000 kB\nMemFree: 100 kB\nMemAvailable:   4000 kB\n");
    CHECK_EQ(mt_cpu_memory_bytes(root), 4000 * 1024);

    /* Version 2: the parent binds, though the group itself has no limit; dropped caches count as free. */
    put("/proc/self/cgroup", "0::/user/job\n");
    put("/sys/fs/cgroup/user/job/memory.max", "max\n");
    put("/sys/fs/cgroup/user/job/memory.current", "1000000\n");
    CHECK_EQ(mt_cpu_memory_bytes(root), 4000 * 1024);
    put("/sys/fs/cgroup/user/memory.max", "3000000\n");
    put("/sys/fs/cgroup/user/memory.current", "1500000\n");
    CHECK_EQ(mt_cpu_memory_bytes(root), 1500000);
    put("/sys/fs/cgroup/user/memory.stat", "anon 1\nfile 2\ninactive_file 400000\n");
    CHECK_EQ(mt_cpu_memory_bytes(root), 1900000);
    put("/sys/fs/cgroup/user/job/memory.max", "1000000\n");
    CHECK_EQ(mt_cpu_memory_bytes(root), 0);

    /* Version 1, seen from inside a container: the path does not exist, the root of the mount has the limit. */
    put("/proc/self/cgroup", "5:cpuset:/docker/abc\n4:memory:/docker/abc\n1:name=systemd:/docker/abc\n");
    CHECK_EQ(mt_cpu_memory_bytes(root), 4000 * 1024);
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "2000000\n");
    put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1200000\n");
    put("/sys/fs/cgroup/memory/memory.stat", "inactive_file 5\ntotal_inactive_file 100000\n");
    CHECK_EQ(mt_cpu_memory_bytes(root), 900000);

    char command[64];
    snprintf(command, sizeof command, "rm -r %s", root);
    CHECK_EQ(system(command), 0);
    return 0;
}
