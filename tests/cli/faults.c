/* Preloaded into ranks by the tests of faults: in a chosen phase, a chosen rank gets a signal. MOTLEY_FAULT is
 * "RANK:PHASE:SIGNAL", with signals KILL, STOP, INT (twice), HANG (the thread stands still, the process lives), and
 * NONE, which leaves a file "reached" and a second for what the test then does. In the phase "left", without a signal,
 * nothing is heard of the rank for long, then it takes its leave and exits while rank 0 looks whether it is there.
 * Ranks leave their process numbers in "pid.RANK". MOTLEY_FAULT_STEPS: the checkpoints that the phases "checkpoint" and
 * "renamed" are about [40]; of several, each is struck at by the process that writes it. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static int target = -1, number, here = -1;
static char phase[32];
static atomic_int calls;
static atomic_bool ended; /* MPI is; no message since */

/* "FOLDER/NAME": in MOTLEY_FAULT_FOLDER, or here. */
static const char *at(const char *name) {
    static char path[4200];
    const char *folder = getenv("MOTLEY_FAULT_FOLDER");
    snprintf(path, sizeof path, "%s/%s", folder ? folder : ".", name);
    return path;
}

static void strike(void) {
    char name[64] = "";
    int pid = 0;
    phase[0] = 0; /* once */
    if (number < 0)
        for (;;) pause();
    if (!number) {
        close(open(at("reached"), O_CREAT | O_WRONLY, 0666));
        usleep(1500000);
        return;
    }
    snprintf(name, sizeof name, "pid.%d", target);
    FILE *f = fopen(at(name), "r");
    if (!f || fscanf(f, "%d", &pid) != 1 || pid <= 1) abort();
    fclose(f);
    kill(pid, number);
    if (number != SIGINT) return;
    usleep(300000);
    kill(pid, number); /* the first one asks, the second one ends it */
    usleep(300000);
}

/* Whether this is the phase, and `rank` the one to notice it. */
static bool is(const char *name, int rank) {
    return rank == here && !strcmp(phase, name);
}

/* The same for a phase of checkpoints, which the rank that writes them notices. */
static bool is_in(const char *name) {
    return here >= 0 && !strcmp(phase, name);
}

__attribute__((constructor)) static void begin(void) {
    const char *fault = getenv("MOTLEY_FAULT"), *rank = getenv("OMPI_COMM_WORLD_RANK");
    char name[64], signal_name[16];
    /* Only motley is a rank, not what starts it. */
    if (strcmp(program_invocation_short_name, "motley")) return;
    if (!fault || !rank || sscanf(fault, "%d:%31[^:]:%15s", &target, phase, signal_name) != 3) return;
    number = !strcmp(signal_name, "KILL") ? SIGKILL : !strcmp(signal_name, "STOP") ? SIGSTOP : 0;
    if (!strcmp(signal_name, "INT")) number = SIGINT;
    if (!strcmp(signal_name, "HANG")) number = -1;
    here = atoi(rank);
    snprintf(name, sizeof name, "pid.%d", here);
    FILE *f = fopen(at(name), "w");
    if (!f) abort();
    fprintf(f, "%d\n", (int)getpid());
    fclose(f);
    if (is("start", target)) strike();
}

int MPI_Init_thread(int *argc, char ***argv, int want, int *got) {
    if (is("init", target)) strike();
    return PMPI_Init_thread(argc, argv, want, got);
}

int MPI_Finalize(void) {
    if (is("end", target)) strike();
    int code = PMPI_Finalize();
    if (is("exit", target)) strike();
    ended = true;
    return code;
}

/* The watch's messages, each by one send: after the last step none comes for longer than the test's heartbeat. */
ssize_t send(int fd, const void *data, size_t size, int flags) {
    static ssize_t (*next)(int, const void *, size_t, int);
    if (!next) *(void **)&next = dlsym(RTLD_NEXT, "send");
    if (is("left", target) && atomic_exchange(&ended, false)) usleep(3000000);
    return next(fd, data, size, flags);
}

/* Rank 0 looks for longer than what is left of that. */
FILE *fopen(const char *path, const char *mode) {
    static FILE *(*next)(const char *, const char *);
    char name[64], of_target[64] = "";
    int pid = 0;
    if (!next) *(void **)&next = dlsym(RTLD_NEXT, "fopen");
    if (!is("left", 0) || strncmp(path, "/proc/", 6)) return next(path, mode);
    snprintf(name, sizeof name, "pid.%d", target);
    FILE *f = next(at(name), "r");
    if (f && fscanf(f, "%d", &pid) == 1) snprintf(of_target, sizeof of_target, "/proc/%d/stat", pid);
    if (f) fclose(f);
    if (!strcmp(path, of_target)) {
        phase[0] = 0; /* once */
        close(open(at("reached"), O_CREAT | O_WRONLY, 0666));
        usleep(2500000);
    }
    return next(path, mode);
}

/* Collectives of a step, after some. */
int MPI_Testsome(int count, MPI_Request requests[], int *ndone, int indices[], MPI_Status statuses[]) {
    if (is("collective", target) && ++calls > 200) strike();
    return PMPI_Testsome(count, requests, ndone, indices, statuses);
}

/* What ranks have seen of their times, between steps. */
int MPI_Igather(const void *out, int nout, MPI_Datatype out_type, void *in, int nin, MPI_Datatype in_type, int root,
                MPI_Comm comm, MPI_Request *request) {
    if (is("between", target)) strike();
    return PMPI_Igather(out, nout, out_type, in, nin, in_type, root, comm, request);
}

/* Streams look at the clock before and after each operator. */
int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*next)(clockid_t, struct timespec *);
    char name[16] = "";
    if (!next) *(void **)&next = dlsym(RTLD_NEXT, "clock_gettime");
    if (is("forward", target) && !pthread_getname_np(pthread_self(), name, sizeof name) && !strcmp(name, "compute") &&
        ++calls > 1000)
        strike();
    return next(clock, now);
}

/* Whether a checkpoint of such a step is called so: step-00000040.safetensors, or that of a file without a name yet. */
static bool is_of_step(const char *path) {
    const char *steps = getenv("MOTLEY_FAULT_STEPS"), *number_at = strstr(path, "step-");
    if (!number_at) return false;
    long step = strtol(number_at + 5, NULL, 10);
    long of;
    if (!steps) steps = "40";
    for (char *end; (of = strtol(steps, &end, 10)) > 0; steps = end)
        if (of == step) return true;
    return false;
}

/* A checkpoint is whole, and nothing follows. */
int rename(const char *from, const char *to) {
    static int (*next)(const char *, const char *);
    if (!next) *(void **)&next = dlsym(RTLD_NEXT, "rename");
    int code = next(from, to);
    if (!code && is_in("renamed") && is_of_step(to)) strike();
    return code;
}

/* The same of a file that had no name until now; before the second one has its name, any rank may be struck. */
int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags) {
    static int (*next)(int, const char *, int, const char *, int);
    if (!next) *(void **)&next = dlsym(RTLD_NEXT, "linkat");
    if (is_in("checkpoint") && is_of_step(to)) strike();
    int code = next(from_folder, from, to_folder, to, flags);
    if (!code && is_in("renamed") && is_of_step(to)) strike();
    return code;
}

/* So it is where files have names from the start. */
int fsync(int fd) {
    static int (*next)(int);
    char link[64], path[512] = "";
    if (!next) *(void **)&next = dlsym(RTLD_NEXT, "fsync");
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (is_in("checkpoint") && readlink(link, path, sizeof path - 1) > 0 && is_of_step(path)) strike();
    return next(fd);
}
