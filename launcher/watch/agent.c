/* The thread of every rank but 0: it connects to rank 0, sends it heartbeats, and ends this process when rank 0 says so
 * or is lost. */
#include <poll.h>

#include "launcher/watch/internal.h"

/* Beyond the start deadline: rank 0 reports ranks that start late, and should do so first. */
static const double later_s = 1;
/* Until the next address is tried; until all are tried again. */
static const double next_s = 0.3, again_s = 3;
/* When rank 0 is lost, rank 1 names it; the others give mpirun this long to end them. */
static const double silence_s = 2;

struct agent {
    struct watch *w;
    int naddresses; /* of rank 0; 0: not known yet */
    struct sockaddr_storage addresses[WATCH_ADDRESSES];
    struct attempt {
        struct watch_link link;
        bool greeted;
    } attempts[WATCH_ADDRESSES];
    int tried;
    double tried_s;
    struct watch_link link;           /* to rank 0 */
    bool connected, leaving, failed;  /* leaving, failed: the message has been sent */
    struct watch_message coordinator; /* its last message */
    double heard_s, sent_s, failed_s;
    bool seen;
    double now_s, late_s;
};

static bool send_message(struct agent *me, struct watch_link *link, enum watch_kind kind, int code, const char *text) {
    struct watch_message message;
    mt_watch_describe(me->w, &message);
    message.kind = (int32_t)kind;
    message.code = code;
    return mt_watch_send(link, &message, text);
}

/* ---- connecting to rank 0 ---- */

static void look_up_coordinator(struct agent *me) {
    char line[MT_LAUNCH_LINE];
    if (!mt_launch_lookup(&me->w->launch, line, sizeof line)) return;
    me->naddresses = mt_watch_read_line(line, &me->w->token, me->addresses, WATCH_ADDRESSES);
    for (int a = 0; a < WATCH_ADDRESSES; a++) me->attempts[a].link.fd = -1;
    me->tried_s = -again_s;
}

static void choose(struct agent *me, int a, const struct watch_message *message) {
    me->link = me->attempts[a].link;
    me->attempts[a].link.fd = -1;
    me->connected = true;
    me->coordinator = *message;
    me->heard_s = me->now_s;
    send_message(me, &me->link, WATCH_BEAT, 0, NULL);
    me->sent_s = me->now_s;
    for (int b = 0; b < me->naddresses; b++) mt_watch_close(&me->attempts[b].link);
}

/* Start attempts one after another; earlier ones stay open. The first address that answers with the token is chosen. */
static void try_addresses(struct agent *me, const struct pollfd *fds) {
    struct watch_message message;
    char text[WATCH_TEXT];
    for (int a = 0; a < me->tried && !me->connected; a++) {
        struct attempt *attempt = &me->attempts[a];
        if (attempt->link.fd < 0 || !fds[1 + a].revents) continue;
        int got = 0;
        if (!attempt->greeted) {
            attempt->greeted = true;
            if (!send_message(me, &attempt->link, WATCH_HELLO, 0, NULL)) got = -1;
        } else if ((got = mt_watch_receive(&attempt->link, &message, text)) > 0 && message.token == me->w->token) {
            choose(me, a, &message);
        }
        if (got < 0) mt_watch_close(&attempt->link);
    }
    if (me->connected) return;
    if (me->tried == me->naddresses && me->now_s - me->tried_s > again_s) {
        for (int a = 0; a < me->naddresses; a++) mt_watch_close(&me->attempts[a].link);
        me->tried = 0;
        me->tried_s = me->now_s - next_s;
    }
    bool in_progress = me->tried && me->attempts[me->tried - 1].link.fd >= 0;
    if (me->tried < me->naddresses && (!in_progress || me->now_s - me->tried_s >= next_s)) {
        me->attempts[me->tried] = (struct attempt){.link = mt_watch_connect(&me->addresses[me->tried])};
        me->tried++;
        me->tried_s = me->now_s;
    }
}

/* ---- rank 0 is lost ---- */

/* Rank 1 names rank 0 and ends; the launcher then ends the others, which name it only if they live on. */
_Noreturn static void end_without_coordinator(struct agent *me, enum watch_liveness liveness, double silent_s) {
    char text[WATCH_TEXT] = "";
    mt_watch_print_liveness(me->w, liveness, &me->coordinator, silent_s, text, sizeof text);
    if (me->connected)
        send_message(me, &me->link, WATCH_END, mt_exit_code(MT_EPEER), NULL); /* in case it was only suspended */
    if (!me->connected && me->naddresses && liveness == WATCH_NOT_STARTED) {
        char address[128];
        mt_watch_append(text, sizeof text, "; rank %d on %s reaches it at none of", me->w->launch.rank, me->w->host);
        for (int p = 0; p < me->naddresses && p < 4; p++) {
            mt_watch_print_address(&me->addresses[p], address, sizeof address);
            mt_watch_append(text, sizeof text, "%s %s", p ? "," : "", address);
        }
    }
    struct watch_message mine;
    mt_watch_describe(me->w, &mine);
    mt_watch_append(text, sizeof text, "; at that time rank %d was in %s", mine.rank, mine.at);
    int later = me->w->launch.rank - 1;
    if (later > 0) mt_sleep_s(silence_s + 0.05 * (later < 20 ? later : 20));
    mt_watch_die(me->w, mt_exit_code(MT_EPEER), text);
}

static void check_coordinator(struct agent *me) {
    enum watch_liveness liveness;
    double silent_s = me->connected ? me->now_s - me->heard_s : me->now_s - later_s;
    if (me->connected)
        liveness = mt_watch_liveness_of(me->w, &me->coordinator, silent_s);
    else if (me->now_s - me->late_s < WATCH_POLL_S)
        return;
    else
        me->late_s = me->now_s, liveness = mt_watch_liveness_at_start(me->w, 0, silent_s, &me->seen);
    if (liveness != WATCH_ALIVE) end_without_coordinator(me, liveness, silent_s);
}

/* ---- messages ---- */

static void receive(struct agent *me) {
    struct watch_message message;
    char text[WATCH_TEXT];
    for (int got; (got = mt_watch_receive(&me->link, &message, text));) {
        if (got < 0 && mt_watch_leaves_with_error(me->w)) { /* rank 0 has printed why, and has exited or was killed */
            mt_watch_close(&me->link);
            mt_watch_set_left(me->w);
            return;
        }
        if (got < 0) end_without_coordinator(me, WATCH_EXITED, 0);
        if (message.kind == WATCH_END) mt_watch_die(me->w, message.code, NULL);
        me->coordinator = message;
        me->heard_s = me->now_s;
    }
}

/* Rank 0 prints this rank's failure and ends all processes. If it does not answer, print it here. */
static void send_failure(struct agent *me) {
    char text[WATCH_TEXT];
    int code = mt_watch_failure(me->w, text, sizeof text);
    if (!code) return;
    if (!me->failed) {
        me->failed = true;
        me->failed_s = me->now_s;
        if (me->connected) send_message(me, &me->link, WATCH_FAIL, code, text);
    }
    if (!me->connected || me->now_s - me->failed_s > silence_s) mt_watch_die(me->w, code, text);
}

static void exchange(struct agent *me) {
    receive(me);
    if (me->link.fd < 0) return;
    if (me->now_s - me->sent_s >= mt_watch_beat_s(me->w) || mt_watch_has_news(me->w)) {
        me->sent_s = me->now_s;
        send_message(me, &me->link, WATCH_BEAT, 0, NULL);
    }
    if (!me->leaving && mt_watch_is_leaving(me->w)) {
        me->leaving = true;
        send_message(me, &me->link, WATCH_LEAVE, 0, NULL);
    }
    if (me->leaving && me->coordinator.kind == WATCH_LEAVE) mt_watch_set_left(me->w);
}

void mt_watch_run_agent(struct watch *w) {
    static struct agent me; /* the process ends while this thread runs */
    struct pollfd fds[1 + WATCH_ADDRESSES];
    me.w = w;
    me.link.fd = -1;
    for (;;) {
        int count = 1;
        if (me.connected)
            fds[count++] = (struct pollfd){.fd = me.link.fd, .events = POLLIN};
        else
            for (int a = 0; a < me.tried; a++)
                fds[count++] =
                    (struct pollfd){.fd = me.attempts[a].link.fd, .events = me.attempts[a].greeted ? POLLIN : POLLOUT};
        /* Poll often at first: rank 0 publishes its addresses soon. */
        double timeout_s = me.connected ? WATCH_POLL_S : 0.02 + 0.1 * me.now_s;
        me.now_s = mt_watch_poll(w, fds, count, timeout_s < WATCH_POLL_S ? timeout_s : WATCH_POLL_S);
        if (me.connected)
            exchange(&me);
        else if (me.naddresses)
            try_addresses(&me, fds);
        else
            look_up_coordinator(&me);
        send_failure(&me);
        if (!me.connected || me.link.fd >= 0) check_coordinator(&me);
    }
}
