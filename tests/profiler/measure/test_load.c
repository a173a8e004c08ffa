/* A neighbour on this process's core is found; while there is none but the rest of the machine, nothing is claimed of
 * the processes that are said to be ours. */
#include "profiler/measure/load.h"

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/base/wait.h"
#include "tests/check.h"

static volatile double sink;

static void work(double seconds) {
    for (double end_s = mt_now_s() + seconds; mt_now_s() < end_s;)
        for (int i = 0; i < 1000; i++) sink = sink * 0.5 + 1;
}

/* By another thread than the first, which is left out. */
static void *worker(void *seconds) {
    work(1.2 * *(double *)seconds);
    return NULL;
}

static void measure(const cpu_set_t *cores, const int *pids, int npids, double seconds, struct mt_load_report *report) {
    pthread_t thread;
    struct mt_load *load = mt_load_start(cores, pids, npids);
    CHECK(!pthread_create(&thread, NULL, worker, &seconds), "thread");
    mt_sleep_s(seconds); /* a thread's books go with it */
    mt_load_end(load, 1, report);
    pthread_join(thread, NULL);
}

static pid_t start_neighbour(void) {
    pid_t pid = fork();
    CHECK(pid >= 0, "fork");
    if (pid) return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* whatever becomes of the test */
    for (;;) work(1);
}

int main(void) {
    cpu_set_t mine, one;
    CHECK(!sched_getaffinity(0, sizeof mine, &mine), "mask");
    size_t core = 0;
    while (!CPU_ISSET(core, &mine)) core++;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    CHECK(!sched_setaffinity(0, sizeof one, &one), "bind");
    pid_t neighbour = start_neighbour();
    int ours[2] = {getpid(), neighbour};

    struct mt_load_report report;
    measure(&one, ours, 1, 1, &report);
    printf("stolen %.2f, most by %s (%d) %.2f\n", report.stolen, report.name, report.pid, report.pid_part);
    /* Half, if there are but the two; more if others run here too. */
    CHECK(report.stolen > 0.25 && report.stolen <= 1, "%g", report.stolen);
    CHECK(report.pid > 0 && report.pid != ours[0] && report.pid_part > 0.05, "%d %g", report.pid, report.pid_part);
    CHECK(report.throttled >= 0 && report.throttled <= 1, "%g", report.throttled);

    measure(&one, ours, 2, 0.3, &report);
    CHECK(report.pid != neighbour, "one of ours is named");

    kill(neighbour, SIGKILL);
    CHECK_EQ(waitpid(neighbour, NULL, 0), neighbour);
    return 0;
}
