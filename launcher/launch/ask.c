/* Which hosts answer: a command each, all at once, under one deadline. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/base/wait.h"
#include "launcher/launch/hosts.h"

enum { MOST_TEXT = 512 };

struct question {
    pid_t pid; /* 0: none runs */
    int fd;    /* of what it prints; -1: closed */
    size_t length;
    char text[MOST_TEXT];
};

/* "AGENT [FLAG...] HOST uname -n": words of the agent are separated by blanks. */
static char **command_of(const char *agent, const char *host, struct mt_arena *arena) {
    char *text = mt_arena_strdup(arena, agent), *rest = NULL;
    char **words = mt_new(arena, char *, strlen(agent) + 8);
    int n = 0;
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) words[n++] = word;
    if (!strcmp(agent, "ssh")) words[n++] = "-oBatchMode=yes"; /* nobody is there to type a password */
    words[n++] = mt_arena_strdup(arena, host), words[n++] = "uname", words[n++] = "-n";
    return words;
}

static void begin(struct question *q, const char *agent, const char *host, struct mt_arena *arena) {
    int ends[2];
    *q = (struct question){.fd = -1};
    if (pipe2(ends, O_CLOEXEC)) return;
    char **words = command_of(agent, host, arena);
    q->pid = fork();
    if (!q->pid) {
        int nothing = open("/dev/null", O_RDONLY);
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL); /* those that the attempts await are blocked here */
        setpgid(0, 0);                         /* so that what the agent starts can be ended with it */
        dup2(nothing, STDIN_FILENO), dup2(ends[1], STDOUT_FILENO), dup2(ends[1], STDERR_FILENO);
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
static void hear(struct question *q) {
    char more[MOST_TEXT];
    ssize_t got = read(q->fd, more, sizeof more);
    if (got > 0) {
        size_t room = sizeof q->text - 1 - q->length, taken = (size_t)got < room ? (size_t)got : room;
        memcpy(q->text + q->length, more, taken);
        q->length += taken;
    } else if (!got || errno != EINTR) {
        close(q->fd);
        q->fd = -1;
    }
}

static void listen_until(struct question *questions, int n, double end_s) {
    struct pollfd *fds = mt_calloc((size_t)n, sizeof *fds);
    for (int open = 1; open && mt_now_s() < end_s;) {
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
}

/* The last line is the name; what came before it is what shells say. */
static const char *last_line(char *text, struct mt_arena *arena) {
    size_t end = strlen(text);
    while (end && strchr("\r\n", text[end - 1])) text[--end] = 0;
    char *line = strrchr(text, '\n');
    return mt_arena_strdup(arena, line ? line + 1 : text);
}

/* Whether it has ended by then; else it is killed, with what it has started. */
static bool ended_by(const struct question *q, double end_s, int *status) {
    pid_t got = 0;
    while (q->fd < 0 && !(got = waitpid(q->pid, status, WNOHANG)) && mt_now_s() < end_s) mt_sleep_s(0.01);
    if (got == q->pid) return true;
    kill(-q->pid, SIGKILL);
    while (waitpid(q->pid, status, 0) < 0 && errno == EINTR) continue;
    return false;
}

static void judge(struct mt_host *host, struct question *q, double deadline_s, double end_s, struct mt_arena *arena) {
    int status = 0;
    bool in_time = ended_by(q, end_s, &status);
    if (q->fd >= 0) close(q->fd);
    const char *said = last_line(q->text, arena);
    host->answers = in_time && WIFEXITED(status) && !WEXITSTATUS(status) && *said && !strchr(said, ' ');
    if (host->answers)
        host->says = said;
    else if (!in_time)
        host->why = mt_arena_printf(arena, "no answer for %.0f s", deadline_s);
    else
        host->why = *said ? said : mt_arena_printf(arena, "exit code %d", WEXITSTATUS(status));
}

void mt_hosts_ask(struct mt_hosts *hosts, const char *agent, double deadline_s) {
    enum { AT_ONCE = 256 }; /* each is a process and a file */
    struct question *questions = mt_calloc(AT_ONCE, sizeof *questions);
    for (int from = 0; from < hosts->n; from += AT_ONCE) {
        int n = hosts->n - from < AT_ONCE ? hosts->n - from : AT_ONCE;
        double end_s = mt_now_s() + deadline_s;
        for (int i = 0; i < n; i++) {
            struct mt_host *host = &hosts->hosts[from + i];
            char here[256] = "";
            questions[i] = (struct question){.fd = -1};
            host->answers = mt_hosts_is_here(host->name) && !gethostname(here, sizeof here - 1);
            if (host->answers)
                host->says = mt_arena_strdup(hosts->arena, here);
            else
                begin(&questions[i], agent, host->name, hosts->arena);
        }
        listen_until(questions, n, end_s);
        for (int i = 0; i < n; i++) {
            struct mt_host *host = &hosts->hosts[from + i];
            if (questions[i].pid)
                judge(host, &questions[i], deadline_s, end_s, hosts->arena);
            else if (!host->answers)
                host->why = "no process could be started to ask it";
        }
    }
    free(questions);
}
