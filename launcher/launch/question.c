/* Commands that are asked something, each in a process group of its own. */
#include "launcher/launch/question.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/base/arena.h"
#include "kernels/base/wait.h"

void mt_question_begin(struct mt_question *q, char *const *words) {
    int ends[2];
    *q = (struct mt_question){.fd = -1};
    if (pipe2(ends, O_CLOEXEC)) return;
    pid_t parent = getpid();
    q->pid = fork();
    if (!q->pid) {
        int nothing = open("/dev/null", O_RDONLY);
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL); /* those that the attempts await are blocked here */
        setpgid(0, 0);                         /* so that what it starts can be ended with it */
        dup2(nothing, STDIN_FILENO), dup2(ends[1], STDOUT_FILENO), dup2(ends[1], STDERR_FILENO);
        prctl(PR_SET_PDEATHSIG, SIGTERM); /* Ctrl-C is for us alone */
        if (getppid() != parent) _exit(127);
        execvp(words[0], words);
        dprintf(STDERR_FILENO, "%s: %s\n", words[0], strerror(errno));
        _exit(127);
    }
    if (q->pid > 0) setpgid(q->pid, q->pid);
    close(ends[1]);
    q->fd = ends[0];
    if (q->pid < 0) q->pid = 0, close(q->fd), q->fd = -1;
}

/* What is there to read; the end closes it. */
static void hear(struct mt_question *q) {
    char more[4096];
    ssize_t got = read(q->fd, more, sizeof more);
    if (got > 0) {
        size_t room = MT_QUESTION_MOST_BYTES - q->length, taken = (size_t)got < room ? (size_t)got : room;
        while (q->length + taken + 1 > q->capacity) {
            q->capacity = q->capacity ? 2 * q->capacity : sizeof more;
            q->text = mt_realloc(q->text, q->capacity);
        }
        memcpy(q->text + q->length, more, taken);
        q->length += taken;
    } else if (!got || errno != EINTR) {
        close(q->fd);
        q->fd = -1;
    }
}

/* False: stopped. */
static bool listen_until(struct mt_question *questions, int n, double end_s, bool (*stop)(void)) {
    struct pollfd *fds = mt_calloc((size_t)n, sizeof *fds);
    bool stopped = false;
    for (int open = 1; open && !stopped && mt_now_s() < end_s; stopped = stop && stop()) {
        open = 0;
        for (int i = 0; i < n; i++) {
            fds[i] = (struct pollfd){.fd = questions[i].fd, .events = POLLIN};
            open += questions[i].fd >= 0;
        }
        if (!open || poll(fds, (nfds_t)n, 100) <= 0) continue;
        for (int i = 0; i < n; i++)
            if (questions[i].fd >= 0 && fds[i].revents) hear(&questions[i]);
    }
    free(fds);
    return !stopped;
}

static void end(struct mt_question *q, double end_s) {
    pid_t got = 0;
    if (q->pid) {
        while (q->fd < 0 && !(got = waitpid(q->pid, &q->status, WNOHANG)) && mt_now_s() < end_s) mt_sleep_s(0.01);
        q->in_time = got == q->pid;
        if (!q->in_time) {
            kill(-q->pid, SIGKILL);
            while (waitpid(q->pid, &q->status, 0) < 0 && errno == EINTR) continue;
        }
    }
    if (q->fd >= 0) close(q->fd);
    q->fd = -1;
    if (!q->text) q->text = mt_calloc(1, 1);
    q->text[q->length] = 0;
}

void mt_questions_end(struct mt_question *questions, int n, double deadline_s, bool (*stop)(void)) {
    double end_s = mt_now_s() + deadline_s;
    if (!listen_until(questions, n, end_s, stop)) end_s = 0;
    for (int i = 0; i < n; i++) end(&questions[i], end_s);
}

bool mt_question_answered(const struct mt_question *q) {
    return q->in_time && WIFEXITED(q->status) && !WEXITSTATUS(q->status);
}

void mt_question_release(struct mt_question *q) {
    free(q->text);
    q->text = NULL;
}
