/* The thread of all ranks but 0: it finds rank 0, tells it where this rank is, and ends this process when it is told
 * to, or when rank 0 is not heard of. */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "launcher/watch/internal.h"

/* Rank 0 judges a late start first; so long do we wait beyond it. */
static const double later_s = 1;
/* Another address is tried after so long, all of them again after that. */
static const double next_s = 0.3, again_s = 3;
/* When rank 0 is lost, the first of the others names it; the rest give mpirun time to end them. */
static const double silence_s = 2;

struct ours {
    struct watch *w;
    int nplaces; /* 0: not known where rank 0 listens */
    struct sockaddr_storage places[WATCH_PLACES];
    struct attempt {
        struct watch_link link;
        bool greeted;
    } attempts[WATCH_PLACES];
    int tried;
    double tried_s;
    struct watch_link link;      /* to rank 0 */
    bool bound, leaving, failed; /* leaving: has been said */
    struct watch_note hub;       /* its last */
    double heard_s, sent_s, failed_s;
    bool seen;
    double now_s, late_s;
};

static bool say(struct ours *o, struct watch_link *link, enum watch_kind kind, int code, const char *text) {
    struct watch_note note;
    watch_describe(o->w, &note);
    note.kind = (int32_t)kind;
    note.code = code;
    return watch_send(link, &note, text);
}

/* ---- finding rank 0 ---- */

static void find(struct ours *o) {
    char line[MT_LAUNCH_LINE];
    if (!mt_launch_lookup(&o->w->launch, line, sizeof line)) return;
    o->nplaces = watch_read_line(line, &o->w->token, o->places, WATCH_PLACES);
    for (int a = 0; a < WATCH_PLACES; a++) o->attempts[a].link.fd = -1;
    o->tried_s = -again_s;
}

static void bind_to(struct ours *o, int a, const struct watch_note *note) {
    o->link = o->attempts[a].link;
    o->attempts[a].link.fd = -1;
    o->bound = true;
    o->hub = *note;
    o->heard_s = o->now_s;
    say(o, &o->link, WATCH_BEAT, 0, NULL);
    o->sent_s = o->now_s;
    for (int b = 0; b < o->nplaces; b++) watch_close(&o->attempts[b].link);
}

/* Addresses are tried one after another, the earlier attempts going on. */
static void try_places(struct ours *o, const struct pollfd *fds) {
    struct watch_note note;
    char text[WATCH_TEXT];
    for (int a = 0; a < o->tried && !o->bound; a++) {
        struct attempt *attempt = &o->attempts[a];
        if (attempt->link.fd < 0 || !fds[1 + a].revents) continue;
        int got = 0;
        if (!attempt->greeted) {
            attempt->greeted = true;
            if (!say(o, &attempt->link, WATCH_HELLO, 0, NULL)) got = -1;
        } else if ((got = watch_receive(&attempt->link, &note, text)) > 0 && note.token == o->w->token) {
            bind_to(o, a, &note);
        }
        if (got < 0) watch_close(&attempt->link);
    }
    if (o->bound) return;
    if (o->tried == o->nplaces && o->now_s - o->tried_s > again_s) {
        for (int a = 0; a < o->nplaces; a++) watch_close(&o->attempts[a].link);
        o->tried = 0;
        o->tried_s = o->now_s - next_s;
    }
    bool waiting = o->tried && o->attempts[o->tried - 1].link.fd >= 0;
    if (o->tried < o->nplaces && (!waiting || o->now_s - o->tried_s >= next_s)) {
        o->attempts[o->tried] = (struct attempt){.link = watch_connect(&o->places[o->tried])};
        o->tried++;
        o->tried_s = o->now_s;
    }
}

/* ---- rank 0 is lost ---- */

/* Rank 1 names it at once. The others wait: when rank 1 ends, the launcher ends them. */
_Noreturn static void lose_hub(struct ours *o, enum watch_fate fate, double silent_s) {
    char text[WATCH_TEXT] = "";
    watch_tell_fate(o->w, fate, &o->hub, silent_s, text, sizeof text);
    if (o->bound) say(o, &o->link, WATCH_END, mt_exit_code(MT_EPEER), NULL); /* should it wake up */
    if (!o->bound && o->nplaces && fate == WATCH_UNBORN) {
        char place[128];
        watch_add(text, sizeof text, "; rank %d on %s finds it at none of", o->w->launch.rank, o->w->host);
        for (int p = 0; p < o->nplaces && p < 4; p++) {
            watch_print_place(&o->places[p], place, sizeof place);
            watch_add(text, sizeof text, "%s %s", p ? "," : "", place);
        }
    }
    struct watch_note ours;
    watch_describe(o->w, &ours);
    watch_add(text, sizeof text, "; meanwhile rank %d was in %s", ours.rank, ours.at);
    int later = o->w->launch.rank - 1;
    if (later > 0) mt_sleep_s(silence_s + 0.05 * (later < 20 ? later : 20));
    watch_die(o->w, mt_exit_code(MT_EPEER), text);
}

static void judge(struct ours *o) {
    enum watch_fate fate;
    double silent_s = o->bound ? o->now_s - o->heard_s : o->now_s - later_s;
    if (o->bound)
        fate = watch_fate_of(o->w, &o->hub, silent_s);
    else if (o->now_s - o->late_s < WATCH_LOOK_S)
        return;
    else
        o->late_s = o->now_s, fate = watch_fate_unborn(o->w, 0, silent_s, &o->seen);
    if (fate != WATCH_FINE) lose_hub(o, fate, silent_s);
}

/* ---- notes ---- */

static void hear(struct ours *o) {
    struct watch_note note;
    char text[WATCH_TEXT];
    for (int got; (got = watch_receive(&o->link, &note, text));) {
        if (got < 0 && watch_leaves_badly(o->w)) { /* rank 0 has told why, and has ended or been ended */
            watch_close(&o->link);
            watch_has_left(o->w);
            return;
        }
        if (got < 0) lose_hub(o, WATCH_ENDED, 0);
        if (note.kind == WATCH_END) watch_die(o->w, note.code, NULL);
        o->hub = note;
        o->heard_s = o->now_s;
    }
}

/* Rank 0 prints our failure and ends us; if it does not answer, we print it. */
static void tell_failure(struct ours *o) {
    char text[WATCH_TEXT];
    int code = watch_failure(o->w, text, sizeof text);
    if (!code) return;
    if (!o->failed) {
        o->failed = true;
        o->failed_s = o->now_s;
        if (o->bound) say(o, &o->link, WATCH_FAIL, code, text);
    }
    if (!o->bound || o->now_s - o->failed_s > silence_s) watch_die(o->w, code, text);
}

static void talk(struct ours *o) {
    hear(o);
    if (o->link.fd < 0) return;
    if (o->now_s - o->sent_s >= watch_beat_s(o->w) || watch_has_news(o->w)) {
        o->sent_s = o->now_s;
        say(o, &o->link, WATCH_BEAT, 0, NULL);
    }
    if (!o->leaving && watch_is_leaving(o->w)) {
        o->leaving = true;
        say(o, &o->link, WATCH_LEAVE, 0, NULL);
    }
    if (o->leaving && o->hub.kind == WATCH_LEAVE) watch_has_left(o->w);
}

void watch_run_peer(struct watch *w) {
    static struct ours o; /* the process ends while this thread runs */
    struct pollfd fds[1 + WATCH_PLACES];
    o.w = w;
    o.link.fd = -1;
    for (;;) {
        int count = 1;
        if (o.bound)
            fds[count++] = (struct pollfd){.fd = o.link.fd, .events = POLLIN};
        else
            for (int a = 0; a < o.tried; a++)
                fds[count++] =
                    (struct pollfd){.fd = o.attempts[a].link.fd, .events = o.attempts[a].greeted ? POLLIN : POLLOUT};
        /* At first rank 0 is a moment away. */
        double nap_s = o.bound ? WATCH_LOOK_S : 0.02 + 0.1 * o.now_s;
        o.now_s = watch_look(w, fds, count, nap_s < WATCH_LOOK_S ? nap_s : WATCH_LOOK_S);
        if (o.bound)
            talk(&o);
        else if (o.nplaces)
            try_places(&o, fds);
        else
            find(&o);
        tell_failure(&o);
        if (!o.bound || o.link.fd >= 0) judge(&o);
    }
}
