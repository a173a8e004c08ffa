/* Asking hosts, by a command on each, all at once: which of them answer, and which have mpirun's daemon connected. */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/base/wait.h"
#include "launcher/launch/hosts.h"
#include "launcher/launch/question.h"

/* "AGENT [FLAG...] HOST COMMAND": words of the agent are separated by blanks. */
static char **command_of(const char *agent, const char *host, const char *command, struct mt_arena *arena) {
    char *text = mt_arena_strdup(arena, agent), *rest = NULL;
    char **words = mt_new(arena, char *, strlen(agent) + strlen(command) + 8);
    int n = 0;
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) words[n++] = word;
    if (!strcmp(agent, "ssh")) words[n++] = "-oBatchMode=yes"; /* nobody is there to type a password */
    words[n++] = mt_arena_strdup(arena, host);
    text = mt_arena_strdup(arena, command);
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) words[n++] = word;
    return words;
}

/* The last line is the name; what came before it is what shells say. */
static const char *last_line(char *text, struct mt_arena *arena) {
    size_t end = strlen(text);
    while (end && strchr("\r\n", text[end - 1])) text[--end] = 0;
    char *line = strrchr(text, '\n');
    return mt_arena_strdup(arena, line ? line + 1 : text);
}

/* What a host is asked, and what is made of what it says. */
struct asking {
    const char *command;
    double deadline_s;
    bool (*stop)(void);
    void (*judge)(struct mt_host *host, struct mt_question *q, const struct asking *a, struct mt_arena *arena);
    const int *ports; /* ended by 0 */
};

static void judge_name(struct mt_host *host, struct mt_question *q, const struct asking *a, struct mt_arena *arena) {
    const char *said = last_line(q->text, arena);
    host->answers = mt_question_answered(q) && *said && !strchr(said, ' ');
    if (host->answers)
        host->says = said;
    else if (!q->pid)
        host->why = "no process could be started to ask it";
    else if (!q->in_time)
        host->why = a->stop && a->stop() ? "it had not answered yet"
                                         : mt_arena_printf(arena, "no answer for %.0f s", a->deadline_s);
    else
        host->why = *said ? said : mt_arena_printf(arena, "exit code %d", WEXITSTATUS(q->status));
}

/* Lines of /proc/net/tcp: "N: ADDRESS:PORT ADDRESS:PORT STATE ...", in hexadecimal digits; state 1 is a connection. */
static void judge_connection(struct mt_host *host, struct mt_question *q, const struct asking *a,
                             struct mt_arena *arena) {
    char *rest = NULL;
    (void)arena;
    host->connected = MT_HOST_SILENT;
    if (!q->in_time) return; /* `cat` fails where there is no IPv6 */
    host->connected = MT_HOST_UNCONNECTED;
    for (char *line = strtok_r(q->text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        unsigned port, state;
        if (sscanf(line, " %*u: %*[0-9A-Fa-f]:%*x %*[0-9A-Fa-f]:%x %x", &port, &state) != 2 || state != 1) continue;
        for (int i = 0; a->ports[i]; i++)
            if (port == (unsigned)a->ports[i]) host->connected = MT_HOST_CONNECTED;
    }
}

static void ask(struct mt_hosts *hosts, const char *agent, const struct asking *a) {
    enum { AT_ONCE = 256 }; /* each is a process and a file */
    struct mt_question questions[AT_ONCE];
    struct mt_host *asked[AT_ONCE];
    for (int from = 0; from < hosts->n;) {
        int n = 0;
        for (; from < hosts->n && n < AT_ONCE; from++) {
            if (mt_hosts_is_here(hosts->hosts[from].name)) continue;
            asked[n] = &hosts->hosts[from];
            mt_question_begin(&questions[n], command_of(agent, asked[n]->name, a->command, hosts->arena));
            n++;
        }
        mt_questions_end(questions, n, a->deadline_s, a->stop);
        for (int i = 0; i < n; i++) {
            a->judge(asked[i], &questions[i], a, hosts->arena);
            mt_question_release(&questions[i]);
        }
    }
}

void mt_hosts_ask(struct mt_hosts *hosts, const char *agent, double deadline_s, bool (*stop)(void)) {
    const struct asking asking = {"uname -n", deadline_s, stop, judge_name, NULL};
    for (int h = 0; h < hosts->n; h++) {
        char here[256] = "";
        struct mt_host *host = &hosts->hosts[h];
        host->answers = mt_hosts_is_here(host->name) && !gethostname(here, sizeof here - 1);
        if (host->answers) host->says = mt_arena_strdup(hosts->arena, here);
    }
    ask(hosts, agent, &asking);
}

void mt_hosts_ask_connections(struct mt_hosts *hosts, const char *agent, double deadline_s, const int *ports) {
    const struct asking asking = {"cat /proc/net/tcp /proc/net/tcp6", deadline_s, NULL, judge_connection, ports};
    for (int h = 0; h < hosts->n; h++) hosts->hosts[h].connected = MT_HOST_CONNECTED;
    ask(hosts, agent, &asking);
}
