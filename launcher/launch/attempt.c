/* Watching mpirun. Its standard error passes through here, so that the rank that is named as lost is known, and so that
 * its end, which it may not find by itself, has a deadline. Signals and its end arrive as file descriptors. */
#include "launcher/launch/attempt.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/base/log.h"
#include "kernels/base/wait.h"
#include "launcher/run/run.h"

/* After SIGTERM, mpirun gets so long before SIGKILL; and what is left of a pipe when it has ended. */
static const double kill_s = 10, drain_s = 1;

/* mpirun forgets a signal that comes before it has started its ranks, so a request to stop is repeated: first after so
 * long, then after twice as long each time. */
static const double repeat_s = 2;

static const char started[] = "motley: launch: rank 0 has started on ";

static int signals = -1;
static bool asked_to_stop, asked_to_end; /* at all; not by SIGUSR2 */

enum mt_status mt_attempt_prepare(struct mt_err *err) {
    sigset_t set;
    struct sigaction hangup;
    sigemptyset(&set);
    sigaddset(&set, SIGINT), sigaddset(&set, SIGTERM), sigaddset(&set, SIGUSR1), sigaddset(&set, SIGUSR2);
    if (!sigaction(SIGHUP, NULL, &hangup) && hangup.sa_handler != SIG_IGN) sigaddset(&set, SIGHUP);
    if (sigprocmask(SIG_BLOCK, &set, NULL)) return mt_fail_errno(err, "signals cannot be blocked");
    signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return signals >= 0 ? MT_OK : mt_fail_errno(err, "signals cannot be awaited");
}

struct watching {
    struct mt_attempt *a;
    pid_t pid;
    int errors, pidfd; /* mpirun's standard error, -1: closed; and it */
    double start_s;    /* the deadline of its start; 0: a rank has started */
    double deadline_s; /* of its end; 0: none yet */
    bool terminated;   /* SIGTERM was sent */
    bool lost_host;    /* mpirun says so */
    bool unborn;       /* a rank was asked to stop before it could answer: it had not begun */
    int exit_code;     /* of the first rank that failed, as mpirun says; -1: it has not */
    double pause_s;    /* until the request to stop is repeated, at again_s */
    double again_s;    /* 0: none was made */
    struct stat run;   /* the run's document before the attempt; st_ino 0: there was none */
    char ended[128];   /* what the run's document says since */
    double looked_s;
    char line[2048];
    size_t length;
};

/* ---- what it says ---- */

/* What mpirun says when the job is about to end; and whether it is a host that it has lost. */
static bool tells_of_an_end(const char *line, bool *lost_host) {
    static const struct {
        const char *text;
        bool lost_host;
    } ends[] = {{"mpirun noticed that process rank", false},
                {"mpirun detected that one or more", false},
                {"MPI_ABORT was invoked", false},
                {"ORTE has lost communication", true},
                {"ORTE was unable to reliably start", true},
                {"A process or daemon was unable to complete", true}};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        if (!strstr(line, ends[i].text)) continue;
        *lost_host |= ends[i].lost_host;
        return true;
    }
    return false;
}

static void note_start(struct watching *w) {
    w->a->started = true;
    w->start_s = 0;
}

static void begin_end(struct watching *w) {
    if (!w->deadline_s) w->deadline_s = mt_now_s() + w->a->end_s;
}

static void take_line(struct watching *w) {
    static const char named[] = "motley: rank ";
    int rank;
    w->line[w->length] = 0;
    w->length = 0;
    const char *line = w->line[0] == '\r' ? w->line + 1 : w->line;
    bool names = !strncmp(line, named, sizeof named - 1) && sscanf(line + sizeof named - 1, "%d on ", &rank) == 1;
    if (names && w->a->lost_rank < 0) {
        w->a->lost_rank = rank;
        snprintf(w->a->lost, sizeof w->a->lost, "%.*s", (int)strcspn(line + 8, ";"), line + 8);
    }
    const char *signal = strstr(line, "exited on signal ");
    if (signal && w->a->asked && atoi(signal + strlen("exited on signal ")) == SIGUSR2) w->unborn = true;
    if (w->exit_code < 0 && w->deadline_s) sscanf(line, " Exit code: %d", &w->exit_code);
    if (tells_of_an_end(line, &w->lost_host) || names) begin_end(w), note_start(w);
    if (!strncmp(line, started, sizeof started - 1)) note_start(w);
}

static void pass_on(const char *bytes, size_t n) {
    while (n) {
        ssize_t done = write(STDERR_FILENO, bytes, n);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return; /* nobody reads */
        bytes += done, n -= (size_t)done;
    }
}

static void hear(struct watching *w) {
    char bytes[4096];
    ssize_t n = read(w->errors, bytes, sizeof bytes);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (n <= 0) {
        close(w->errors);
        w->errors = -1;
        return;
    }
    pass_on(bytes, (size_t)n);
    for (ssize_t i = 0; i < n; i++) {
        if (bytes[i] == '\n')
            take_line(w);
        else if (w->length < sizeof w->line - 1)
            w->line[w->length++] = bytes[i];
    }
}

/* ---- what the run's document says ---- */

static void look_at_run(struct watching *w) {
    static const double pause_s = 2;
    struct stat now;
    struct mt_run_doc run;
    struct mt_err ignored = MT_ERR_INIT;
    if (!w->a->run || mt_now_s() - w->looked_s < pause_s) return;
    w->looked_s = mt_now_s();
    if (stat(w->a->run, &now) || (now.st_ino == w->run.st_ino && now.st_mtim.tv_sec == w->run.st_mtim.tv_sec &&
                                  now.st_mtim.tv_nsec == w->run.st_mtim.tv_nsec))
        return;
    w->run = now;
    if (mt_run_read(w->a->run, &run, &ignored)) return;
    note_start(w);
    snprintf(w->ended, sizeof w->ended, "%s", strcmp(run.ended, "running") ? run.ended : "");
    mt_run_release(&run);
    if (w->ended[0]) begin_end(w);
}

/* ---- signals ---- */

static void ask_to_stop(struct watching *w, double pause_s) {
    w->pause_s = pause_s;
    w->again_s = mt_now_s() + pause_s;
    kill(w->pid, SIGUSR2); /* mpirun passes it on to all ranks */
}

static void ask_again(struct watching *w) {
    if (w->again_s && !w->deadline_s && mt_now_s() >= w->again_s) ask_to_stop(w, 2 * w->pause_s);
}

static void take_signals(struct watching *w) {
    struct signalfd_siginfo info;
    while (read(signals, &info, sizeof info) == (ssize_t)sizeof info) {
        int number = (int)info.ssi_signo;
        if (number == SIGUSR1) {
            kill(w->pid, SIGUSR1);
        } else if (number == SIGINT && w->a->asked) {
            mt_log(MT_LOG_WARN, "launch: asked twice: the job is ended at once");
            w->a->hurried = true;
            w->deadline_s = mt_now_s();
        } else {
            if (!w->a->asked) mt_log(MT_LOG_INFO, "launch: asked to stop: the job writes a checkpoint and ends");
            w->a->asked = asked_to_stop = true;
            asked_to_end |= number != SIGUSR2;
            ask_to_stop(w, repeat_s);
        }
    }
}

bool mt_attempt_asked(void) {
    struct signalfd_siginfo info;
    while (read(signals, &info, sizeof info) == (ssize_t)sizeof info)
        if (info.ssi_signo != SIGUSR1) asked_to_stop = true, asked_to_end |= info.ssi_signo != SIGUSR2;
    return asked_to_stop;
}

bool mt_attempt_out_of_time(void) {
    return mt_attempt_asked() && !asked_to_end;
}

void mt_attempt_idle(bool idle) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigprocmask(idle ? SIG_UNBLOCK : SIG_BLOCK, &set, NULL);
}

/* ---- begin and end ---- */

static enum mt_status begin(struct watching *w, struct mt_err *err) {
    int ends[2];
    sigset_t none;
    sigemptyset(&none);
    if (pipe2(ends, O_CLOEXEC)) return mt_fail_errno(err, "a pipe for mpirun's errors");
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    fflush(stdout);
    pid_t parent = getpid();
    w->pid = fork();
    if (!w->pid) {
        int nothing = open("/dev/null", O_RDONLY);
        setpgid(0, 0); /* Ctrl-C is for us alone: mpirun kills its ranks on it */
        dup2(nothing, STDIN_FILENO), dup2(ends[1], STDERR_FILENO);
        prctl(PR_SET_PDEATHSIG, SIGTERM); /* mpirun, which ends its ranks, shall not outlive us */
        if (getppid() != parent) _exit(127);
        signal(SIGUSR1, SIG_IGN), signal(SIGUSR2, SIG_IGN); /* until mpirun handles them */
        sigprocmask(SIG_SETMASK, &none, NULL);
        execlp("sh", "sh", w->a->script, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    w->errors = ends[0];
    if (w->pid > 0) setpgid(w->pid, w->pid);
    w->pidfd = w->pid > 0 ? pidfd_open(w->pid, 0) : -1;
    if (w->pidfd >= 0) return MT_OK;
    mt_fail_errno(err, "mpirun cannot be started");
    if (w->pid > 0) kill(-w->pid, SIGKILL), waitpid(w->pid, NULL, 0);
    close(w->errors);
    return err->status;
}

static void end_overdue(struct watching *w) {
    if (!w->deadline_s || mt_now_s() < w->deadline_s) return;
    w->a->overdue = true;
    kill(-w->pid, w->terminated ? SIGKILL : SIGTERM);
    w->terminated = true;
    w->deadline_s = mt_now_s() + kill_s;
}

/* Agents have process groups of their own, and mpirun does not end them. */
static void end_children(pid_t pid) {
    char path[64];
    int child;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    FILE *children = fopen(path, "r");
    while (children && fscanf(children, "%d", &child) == 1) kill(child, SIGTERM);
    if (children) fclose(children);
}

static void end_unstarted(struct watching *w) {
    if (!w->start_s || w->deadline_s || mt_now_s() < w->start_s) return;
    const char *who = w->a->unstarted ? w->a->unstarted(w->a->context, w->pid) : "";
    mt_log(MT_LOG_WARN, "launch: mpirun has started no rank within %.0f s, and is ended%s%s", w->a->start_s,
           *who ? ": " : "", who);
    w->a->overdue = true;
    end_children(w->pid);
    w->deadline_s = mt_now_s();
}

/* Until mpirun has ended. */
static void watch(struct watching *w) {
    for (;;) {
        struct pollfd fds[3] = {
            {.fd = w->pidfd, .events = POLLIN}, {.fd = signals, .events = POLLIN}, {.fd = w->errors, .events = POLLIN}};
        poll(fds, 3, 500);
        if (fds[2].revents) hear(w);
        if (fds[1].revents) take_signals(w);
        if (fds[0].revents) return;
        look_at_run(w);
        ask_again(w);
        end_unstarted(w);
        end_overdue(w);
    }
}

/* What is still in the pipe; processes that mpirun has left may hold it open. */
static void drain(struct watching *w) {
    for (double end_s = mt_now_s() + drain_s; w->errors >= 0 && mt_now_s() < end_s;) {
        struct pollfd fd = {.fd = w->errors, .events = POLLIN};
        if (poll(&fd, 1, 100) > 0) hear(w);
    }
    if (w->errors >= 0) close(w->errors);
}

static void judge(struct watching *w, int status) {
    struct mt_attempt *a = w->a;
    int lost = mt_exit_code(MT_EPEER), code = WIFEXITED(status) ? WEXITSTATUS(status) : lost;
    w->looked_s = -1e9;
    look_at_run(w);
    bool finished = !strcmp(w->ended, "finished") || !strcmp(w->ended, "stopped by a signal");
    if (a->overdue && w->exit_code > 0) code = w->exit_code; /* why the job ended, before mpirun was killed */
    if (a->overdue && !a->started && !a->hurried) code = lost;
    if (code > 128 || (code && w->lost_host)) code = lost;
    a->died = code == lost || (a->overdue && w->exit_code <= 0);
    a->code = a->overdue && !code ? lost : code;
    if (a->died && finished) a->died = false, a->code = 0; /* mpirun alone went wrong, after the run */
    if (w->unborn) {
        a->died = false, a->code = 0;
        mt_log(MT_LOG_INFO, "launch: the job was stopped before it had begun: there is nothing to save");
    }
}

void mt_attempt_say_started(void) {
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    char host[256] = "an unknown host";
    if (!getenv(MT_ATTEMPT_VARIABLE) || !rank || strcmp(rank, "0") != 0) return;
    gethostname(host, sizeof host - 1);
    dprintf(STDERR_FILENO, "%s%s\n", started, host);
}

enum mt_status mt_attempt_run(struct mt_attempt *a, struct mt_err *err) {
    struct watching w = {.a = a, .exit_code = -1, .start_s = mt_now_s() + a->start_s};
    int status = 0;
    a->lost_rank = -1, a->lost[0] = 0, a->died = a->overdue = a->hurried = a->started = false;
    a->asked = asked_to_stop;
    if (!a->run || stat(a->run, &w.run)) w.run.st_ino = 0;
    enum mt_status st = begin(&w, err);
    if (st) return st;
    watch(&w);
    while (waitpid(w.pid, &status, 0) < 0 && errno == EINTR) continue;
    kill(-w.pid, SIGKILL); /* agents that it has left */
    drain(&w);
    close(w.pidfd);
    judge(&w, status);
    return MT_OK;
}
