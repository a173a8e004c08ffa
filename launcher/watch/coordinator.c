/* Rank 0's thread: it receives every rank's heartbeats, finds ranks that are lost or stuck, and ends all processes. */
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "kernels/base/arena.h"
#include "launcher/watch/internal.h"

/* How long rank 0 outlives its END message: a connection closed at once may lose it. */
static const double farewell_s = 0.5;
/* When one rank is past its deadline, those within this of theirs are named too: they were lost together. */
static const double together_s = 1.5;
enum { MOST_NAMED = 6 };

struct agent {
    struct watch_link link;
    bool connected, leaving, closed;
    struct watch_message last;
    double heard_s, progress_s; /* awake time of the last message, and of the last that showed progress */
    bool seen;                  /* see mt_watch_liveness_at_start */
};

/* A connection whose rank is not known: a rank tries several addresses, and chooses one by sending a second message. */
struct connection {
    struct watch_link link;
    int world_rank; /* -1: not known */
    double since_s;
};

struct coordinator {
    struct watch *w;
    int nagents;
    struct agent *agents; /* [nagents]; agents[0] is this process */
    struct connection *unknown;
    int nunknown, unknown_capacity;
    struct pollfd *fds;
    double now_s, sent_s, late_s;
    bool checks_late; /* whether to check ranks that have not started, which walks through /proc */
};

/* ---- ending all processes ---- */

_Noreturn static void end_all(struct coordinator *c, int code, const char *text) {
    struct watch_message message;
    mt_watch_describe(c->w, &message);
    message.kind = WATCH_END;
    message.code = code;
    for (int p = 1; p < c->nagents; p++) {
        if (!c->agents[p].connected || c->agents[p].closed) continue;
        mt_watch_send(&c->agents[p].link, &message, text);
        shutdown(c->agents[p].link.fd, SHUT_WR);
    }
    char whole[WATCH_TEXT], received[WATCH_TEXT];
    snprintf(whole, sizeof whole, "%s", text);
    mt_watch_print(c->w, whole);
    bool any = true;
    for (double until_s = mt_now_s() + farewell_s; any && mt_now_s() < until_s; mt_sleep_s(0.01)) {
        any = false;
        for (int p = 1; p < c->nagents; p++) {
            struct agent *agent = &c->agents[p];
            if (!agent->connected || agent->closed) continue;
            for (int got = 1; got > 0;)
                if ((got = mt_watch_receive(&agent->link, &message, received)) < 0) agent->closed = true;
            any = any || !agent->closed;
        }
    }
    mt_watch_die(c->w, code, NULL);
}

/* ---- stuck ranks, and those that have failed ---- */

/* Ranks that are alive but make no progress. Ranks that wait for others are named only if all do. */
static void end_if_stuck(struct coordinator *c) {
    bool any = false, all_wait = true;
    char text[WATCH_TEXT] = "";
    int named = 0;
    for (int p = 0; p < c->nagents; p++) {
        const struct agent *agent = &c->agents[p];
        if (!agent->connected || agent->closed) continue;
        double stalled_s = c->now_s - agent->progress_s;
        any = any || stalled_s > agent->last.patience_s;
        all_wait = all_wait && (agent->last.waits || stalled_s <= agent->last.patience_s / 2);
    }
    if (!any) return;
    for (int p = 0; p < c->nagents && named < MOST_NAMED; p++) {
        const struct agent *agent = &c->agents[p];
        double stalled_s = c->now_s - agent->progress_s;
        if (!agent->connected || agent->closed || stalled_s <= agent->last.patience_s / 2) continue;
        if (agent->last.waits && !all_wait) continue;
        mt_watch_append(text, sizeof text, "%srank %d on %s has made no progress for %.0f s, in %s",
                        named++ ? "\nmotley: " : "", agent->last.rank, agent->last.host, stalled_s, agent->last.at);
    }
    end_all(c, mt_exit_code(MT_ESTALL), text);
}

/* A rank has failed. After a stall, also name the ranks that may have caused it. */
static void end_by_failure(struct coordinator *c, int from, int code, char *text, size_t size) {
    int named = 0;
    for (int p = 0; p < c->nagents && code == mt_exit_code(MT_ESTALL) && named < MOST_NAMED; p++) {
        const struct agent *agent = &c->agents[p];
        double silent_s = c->now_s - agent->heard_s, stalled_s = c->now_s - agent->progress_s;
        if (p == from || !agent->connected || agent->closed) continue;
        if (p && silent_s > together_s)
            mt_watch_append(text, size, "\nmotley: rank %d on %s has not been heard of for %.1f s; it was last in %s",
                            agent->last.rank, agent->last.host, silent_s, agent->last.at);
        else if (stalled_s > together_s && !isinf(agent->last.patience_s))
            mt_watch_append(text, size, "\nmotley: rank %d on %s has made no progress for %.1f s, in %s",
                            agent->last.rank, agent->last.host, stalled_s, agent->last.at);
        else
            continue;
        named++;
    }
    end_all(c, code, text);
}

/* ---- messages ---- */

static void record(struct coordinator *c, struct agent *agent, const struct watch_message *message) {
    if (!agent->connected || message->progress != agent->last.progress || strcmp(message->at, agent->last.at))
        agent->progress_s = c->now_s;
    agent->connected = true;
    agent->last = *message;
    agent->heard_s = c->now_s;
}

static void act_on(struct coordinator *c, int p, const struct watch_message *message, char text[WATCH_TEXT]) {
    if (message->kind == WATCH_LEAVE) c->agents[p].leaving = true;
    if (message->kind == WATCH_FAIL) end_by_failure(c, p, message->code, text, WATCH_TEXT);
    if (message->kind == WATCH_END)
        mt_watch_die(c->w, message->code, NULL); /* that rank lost us: this process was suspended */
}

static void receive_from(struct coordinator *c, int p) {
    struct agent *agent = &c->agents[p];
    struct watch_message message;
    char text[WATCH_TEXT];
    for (int got; !agent->closed && (got = mt_watch_receive(&agent->link, &message, text));) {
        if (got < 0) {
            agent->closed = true;
            mt_watch_close(&agent->link);
            break;
        }
        record(c, agent, &message);
        act_on(c, p, &message, text);
    }
}

/* ---- lost ranks ---- */

static enum watch_liveness liveness_of(struct coordinator *c, int p, double early_s) {
    struct agent *agent = &c->agents[p];
    if (!p) return WATCH_ALIVE;
    if (!agent->connected) {
        if (!c->checks_late) return WATCH_ALIVE;
        agent->last.world_rank = p;
        return mt_watch_liveness_at_start(c->w, p, c->now_s + early_s, &agent->seen);
    }
    if (agent->closed) return agent->leaving ? WATCH_ALIVE : WATCH_EXITED;
    return mt_watch_liveness_of(c->w, &agent->last, c->now_s - agent->heard_s + early_s);
}

/* Once a process is gone, all that it has sent has come: perhaps it has taken its leave. */
static enum watch_liveness heard_liveness_of(struct coordinator *c, int p, double early_s) {
    enum watch_liveness liveness = liveness_of(c, p, early_s);
    if (liveness == WATCH_ALIVE || !c->agents[p].connected) return liveness;
    receive_from(c, p);
    return liveness_of(c, p, early_s);
}

static void end_if_lost(struct coordinator *c) {
    int named = 0, left_out = 0;
    char text[WATCH_TEXT] = "";
    bool any = false;
    for (int p = 1; p < c->nagents && !any; p++) any = heard_liveness_of(c, p, 0) != WATCH_ALIVE;
    if (!any) return;
    for (int p = 1; p < c->nagents; p++) {
        enum watch_liveness liveness = heard_liveness_of(c, p, together_s);
        if (liveness == WATCH_ALIVE) continue;
        if (named == MOST_NAMED) {
            left_out++;
            continue;
        }
        double silent_s = c->agents[p].connected ? c->now_s - c->agents[p].heard_s : c->now_s;
        if (named++) mt_watch_append(text, sizeof text, "\nmotley: ");
        mt_watch_print_liveness(c->w, liveness, &c->agents[p].last, silent_s, text, sizeof text);
    }
    mt_watch_append(text, sizeof text, "; at that time rank %d was in %s", c->agents[0].last.rank,
                    c->agents[0].last.at);
    if (left_out) mt_watch_append(text, sizeof text, "\nmotley: and %d more ranks likewise", left_out);
    end_all(c, mt_exit_code(MT_EPEER), text);
}

/* ---- connections, and messages to all ---- */

static void answer(struct coordinator *c, struct watch_link *link) {
    struct watch_message message;
    mt_watch_describe(c->w, &message);
    message.kind = WATCH_BEAT;
    mt_watch_send(link, &message, NULL);
}

/* Returns whether the connection is still unknown. */
static bool identify(struct coordinator *c, struct connection *connection) {
    struct watch_message message;
    char text[WATCH_TEXT];
    int got = mt_watch_receive(&connection->link, &message, text);
    bool known = got > 0 && message.token == c->w->token && message.world_rank > 0 && message.world_rank < c->nagents;
    if (!got && c->now_s - connection->since_s < 10) return true;
    if (known && connection->world_rank < 0) {
        connection->world_rank = message.world_rank;
        answer(c, &connection->link);
        return true;
    }
    if (!known || c->agents[message.world_rank].connected) {
        mt_watch_close(&connection->link);
        return false;
    }
    struct agent *agent = &c->agents[message.world_rank];
    agent->link = connection->link;
    record(c, agent, &message);
    act_on(c, message.world_rank, &message, text);
    return false;
}

static void accept_pending(struct coordinator *c) {
    int most = 4 * c->nagents + 64; /* strangers must not take all file descriptors */
    for (struct watch_link link; c->w->listening >= 0 && (link = mt_watch_accept(c->w->listening)).fd >= 0;) {
        if (c->nunknown == most) {
            mt_watch_close(&link); /* a rank tries again */
            continue;
        }
        if (c->nunknown == c->unknown_capacity) {
            c->unknown_capacity = 2 * c->unknown_capacity + 16;
            c->unknown = mt_realloc(c->unknown, (size_t)c->unknown_capacity * sizeof *c->unknown);
        }
        c->unknown[c->nunknown++] = (struct connection){link, -1, c->now_s};
    }
    int stay = 0;
    for (int u = 0; u < c->nunknown; u++)
        if (identify(c, &c->unknown[u])) c->unknown[stay++] = c->unknown[u];
    c->nunknown = stay;
}

static void wait_for_messages(struct coordinator *c) {
    int count = 1;
    c->fds = mt_realloc(c->fds, (size_t)(2 + c->nagents + c->nunknown) * sizeof *c->fds);
    c->fds[count++] = (struct pollfd){.fd = c->w->listening, .events = POLLIN};
    for (int p = 1; p < c->nagents; p++)
        if (c->agents[p].connected && !c->agents[p].closed)
            c->fds[count++] = (struct pollfd){.fd = c->agents[p].link.fd, .events = POLLIN};
    for (int u = 0; u < c->nunknown; u++)
        c->fds[count++] = (struct pollfd){.fd = c->unknown[u].link.fd, .events = POLLIN};
    c->now_s = mt_watch_poll(c->w, c->fds, count, WATCH_POLL_S);
    c->checks_late = c->now_s - c->late_s > WATCH_POLL_S;
    if (c->checks_late) c->late_s = c->now_s;
}

static void beat(struct coordinator *c) {
    struct watch_message message;
    if (c->now_s - c->sent_s < mt_watch_beat_s(c->w) && !mt_watch_has_news(c->w)) return;
    c->sent_s = c->now_s;
    mt_watch_describe(c->w, &message);
    message.kind = mt_watch_is_leaving(c->w) ? WATCH_LEAVE : WATCH_BEAT;
    for (int p = 1; p < c->nagents; p++)
        if (c->agents[p].connected && !c->agents[p].closed) mt_watch_send(&c->agents[p].link, &message, NULL);
    record(c, &c->agents[0], &message);
}

static bool all_have_closed(const struct coordinator *c) {
    bool closed = true;
    for (int p = 1; p < c->nagents; p++) closed = closed && c->agents[p].closed;
    return closed;
}

void mt_watch_run_coordinator(struct watch *w) {
    struct coordinator c = {.w = w, .nagents = w->launch.nranks};
    char text[WATCH_TEXT];
    c.agents = mt_calloc((size_t)c.nagents, sizeof *c.agents);
    for (;;) {
        wait_for_messages(&c);
        accept_pending(&c);
        for (int p = 1; p < c.nagents; p++)
            if (c.agents[p].connected) receive_from(&c, p);
        beat(&c);
        end_if_lost(&c);
        int code = mt_watch_failure(w, text, sizeof text);
        if (code) end_by_failure(&c, 0, code, text, sizeof text);
        end_if_stuck(&c);
        if (mt_watch_is_leaving(w) && all_have_closed(&c)) break;
    }
    free(c.agents);
    free(c.unknown);
    free(c.fds);
    mt_watch_set_left(w);
}
