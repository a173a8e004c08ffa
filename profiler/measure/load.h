/* The load of other processes on this process's cores while it measures.
 *
 *     struct mt_load *load = mt_load_start(&cores, pids, npids);    // processes of the same measurement
 *     ... measure ...
 *     struct mt_load_report report;
 *     mt_load_end(load, threads, &report);
 *
 * From the kernel's accounts: how long this process's threads were runnable but not running (the main thread, which
 * only queues work, excepted), which other processes ran on its cores, the hypervisor's steal time, and how long a
 * cgroup's quota throttled it. Figures that the kernel does not provide are zero. */
#ifndef MT_PROFILER_MEASURE_LOAD_H
#define MT_PROFILER_MEASURE_LOAD_H

#include <sched.h>

struct mt_load_report {
    double stolen;    /* fraction of its cores' time that others used, 0 to 1 */
    double throttled; /* fraction of the time for which the quota stopped it */
    int pid;          /* the process that used most of it; 0: none is visible */
    double pid_part;  /* its fraction of the cores' time */
    char name[32];    /* its command name */
};

struct mt_load;
struct mt_load *mt_load_start(const cpu_set_t *cores, const int *pids, int npids);
/* threads: the number with which this process computes. Frees `load`. */
void mt_load_end(struct mt_load *load, int threads, struct mt_load_report *report);

#endif
