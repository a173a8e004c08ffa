/* Who else uses this process's cores while it measures.
 *
 *     struct mt_load *load = mt_load_start(&cores, pids, npids);    // processes of the same measurement
 *     ... measure ...
 *     struct mt_load_report report;
 *     mt_load_end(load, threads, &report);
 *
 * From the kernel's own books: how long threads of this process (all but the first, which only gives
 * them work) were ready and not run, which other processes ran on
 * its cores, what a hypervisor took, and how long a cgroup's quota held it. What the kernel does not tell is zero. */
#ifndef MT_PROFILER_MEASURE_LOAD_H
#define MT_PROFILER_MEASURE_LOAD_H

#include <sched.h>

struct mt_load_report {
    double stolen;    /* part of its cores' time that others had, 0 to 1 */
    double throttled; /* part of the time in which the quota stopped it */
    int pid;          /* the process that had most of it, 0: none is seen */
    double pid_part;  /* of the cores' time */
    char name[32];    /* as it calls itself */
};

struct mt_load;
struct mt_load *mt_load_start(const cpu_set_t *cores, const int *pids, int npids);
/* threads: how many this process computes with. Frees it. */
void mt_load_end(struct mt_load *load, int threads, struct mt_load_report *report);

#endif
