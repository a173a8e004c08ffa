/* Four accounts, read before and after: /proc/self/task/TID/schedstat (how long each thread ran, and waited for a
 * core), /proc/PID/stat of every process (CPU time, and the core on which it ran last), /proc/stat (steal time), and
 * cpu.stat of the cgroups (throttled time). */
#include "profiler/measure/load.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/arena.h"
#include "kernels/base/wait.h"
#include "kernels/cpu/cgroup.h"

struct process {
    int pid, core;
    double used_s;
    char name[32];
};
struct books {
    double now_s, ran_s, waited_s, steal_s, throttled_s;
    struct process *processes; /* in order of pid */
    int nprocesses, capacity;
};
struct mt_load {
    cpu_set_t cores;
    int npids, *pids;
    struct books before;
};

static bool read_line(const char *path, char *line, size_t size) {
    FILE *file = fopen(path, "re");
    if (!file) return false;
    bool got = fgets(line, (int)size, file) != NULL;
    fclose(file);
    return got;
}

/* The next name in a folder that is a number; -1 at the end. */
static int next_number(DIR *folder) {
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        if (isdigit((unsigned char)entry->d_name[0])) return atoi(entry->d_name);
    return -1;
}

static void read_threads(struct books *books) {
    DIR *folder = opendir("/proc/self/task");
    for (int id; (id = next_number(folder)) >= 0;) {
        char path[64], line[128];
        long long ran, waited;
        if (id == getpid()) continue; /* it queues work, and waits for the threads that do it */
        snprintf(path, sizeof path, "/proc/self/task/%d/schedstat", id);
        if (!read_line(path, line, sizeof line) || sscanf(line, "%lld %lld", &ran, &waited) != 2) continue;
        books->ran_s += 1e-9 * (double)ran;
        books->waited_s += 1e-9 * (double)waited;
    }
    if (folder) closedir(folder);
}

/* "641 (cat) R ...": the name may contain any character, so fields are counted from the last parenthesis. */
static bool read_process(int pid, struct process *process) {
    enum { USER = 11, SYSTEM = 12, CORE = 36 };
    char path[64], line[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    if (!read_line(path, line, sizeof line)) return false;
    char *open = strchr(line, '('), *close = strrchr(line, ')');
    if (!open || !close) return false;
    *process = (struct process){.pid = pid};
    *close = 0;
    snprintf(process->name, sizeof process->name, "%s", open + 1);
    char *rest = close + 1;
    double ticks = 0;
    strsep(&rest, " ");
    for (int field = 0; rest; field++) {
        char *text = strsep(&rest, " ");
        if (field == USER || field == SYSTEM) ticks += atof(text);
        if (field == CORE) process->core = atoi(text);
    }
    process->used_s = ticks / (double)sysconf(_SC_CLK_TCK);
    return true;
}

static int by_pid(const void *left, const void *right) {
    const struct process *a = left, *b = right;
    return (a->pid > b->pid) - (a->pid < b->pid);
}

static void read_processes(struct books *books) {
    DIR *folder = opendir("/proc");
    for (int id; (id = next_number(folder)) >= 0;) {
        if (books->nprocesses == books->capacity) {
            books->capacity = books->capacity ? 2 * books->capacity : 256;
            books->processes = mt_realloc(books->processes, (size_t)books->capacity * sizeof *books->processes);
        }
        books->nprocesses += read_process(id, &books->processes[books->nprocesses]);
    }
    if (folder) closedir(folder);
    if (books->nprocesses) qsort(books->processes, (size_t)books->nprocesses, sizeof *books->processes, by_pid);
}

/* "cpu3 user nice system idle iowait irq softirq steal ..." */
static double stolen_by_hypervisor_s(const cpu_set_t *cores) {
    FILE *file = fopen("/proc/stat", "re");
    char line[512];
    double ticks = 0;
    while (file && fgets(line, sizeof line, file)) {
        int core;
        long long steal;
        if (sscanf(line, "cpu%d %*d %*d %*d %*d %*d %*d %*d %lld", &core, &steal) == 2 && core >= 0 &&
            core < CPU_SETSIZE && CPU_ISSET((size_t)core, cores))
            ticks += (double)steal;
    }
    if (file) fclose(file);
    return ticks / (double)sysconf(_SC_CLK_TCK);
}

static void add_throttled(void *context, const char *folder, bool unified) {
    int64_t time = mt_cgroup_number(folder, "cpu.stat", unified ? "throttled_usec" : "throttled_time");
    if (time != INT64_MAX) *(double *)context += (unified ? 1e-6 : 1e-9) * (double)time;
}

static struct books read_books(const cpu_set_t *cores) {
    struct books books = {.steal_s = stolen_by_hypervisor_s(cores)};
    read_threads(&books);
    mt_cgroup_each("", "cpu", add_throttled, &books.throttled_s);
    read_processes(&books);
    books.now_s = mt_now_s();
    return books;
}

struct mt_load *mt_load_start(const cpu_set_t *cores, const int *pids, int npids) {
    struct mt_load *load = mt_calloc(1, sizeof *load);
    load->cores = *cores;
    load->npids = npids;
    load->pids = mt_malloc((size_t)(npids + 1) * sizeof *load->pids);
    memcpy(load->pids, pids, (size_t)npids * sizeof *pids);
    load->before = read_books(cores);
    return load;
}

static bool ours(const struct mt_load *load, int pid) {
    for (int i = 0; i < load->npids; i++)
        if (load->pids[i] == pid) return true;
    return false;
}

/* Other processes that ran last on our cores: the sum of their CPU time, and the one with most. */
static double others_s(const struct mt_load *load, const struct books *after, struct process *most) {
    double sum_s = 0;
    *most = (struct process){0};
    for (int i = 0; i < after->nprocesses; i++) {
        const struct process *p = &after->processes[i], *old = NULL;
        if (ours(load, p->pid) || p->core < 0 || p->core >= CPU_SETSIZE || !CPU_ISSET((size_t)p->core, &load->cores))
            continue;
        if (load->before.nprocesses)
            old = bsearch(p, load->before.processes, (size_t)load->before.nprocesses, sizeof *p, by_pid);
        double used_s = p->used_s - (old ? old->used_s : 0);
        sum_s += used_s;
        if (used_s <= most->used_s) continue;
        *most = *p;
        most->used_s = used_s;
    }
    return sum_s;
}

static double limited(double part) {
    return part > 1 ? 1 : part > 0 ? part : 0;
}

void mt_load_end(struct mt_load *load, int threads, struct mt_load_report *report) {
    struct books after = read_books(&load->cores);
    double wall_s = after.now_s - load->before.now_s, cores_s = wall_s * CPU_COUNT(&load->cores);
    struct process most;
    double seen = others_s(load, &after, &most) / cores_s;
    double waited_s = after.waited_s - load->before.waited_s, wanted_s = waited_s + after.ran_s - load->before.ran_s;
    double waited = wanted_s > 0 ? waited_s / wanted_s : 0;
    *report = (struct mt_load_report){.throttled = limited((after.throttled_s - load->before.throttled_s) / wall_s)};
    /* More threads than cores also wait for each other: then at most the CPU time that others are seen to have used. */
    report->stolen = threads > CPU_COUNT(&load->cores) && waited > seen ? seen : waited;
    report->stolen = limited(report->stolen + (after.steal_s - load->before.steal_s) / cores_s);
    if (most.pid && most.used_s > 0) {
        report->pid = most.pid;
        report->pid_part = limited(most.used_s / cores_s);
        memcpy(report->name, most.name, sizeof report->name);
    }
    free(after.processes);
    free(load->before.processes);
    free(load->pids);
    free(load);
}
