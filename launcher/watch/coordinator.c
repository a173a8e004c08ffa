/* Rank 0's thread: it hears all others, judges them, and tells them when to end. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "kernels/base/arena.h"
#include "launcher/watch/internal.h"

/* After the end has been told, so long do we wait for others to end too; closing at once might take it back. */
static const double farewell_s = 0.5;
/* Ranks that are lost together are told together: those with less of their deadline left than this. */
static const double together_s = 1.5;
enum { MOST_TOLD = 6 };

struct peer {
    struct watch_link link;
    bool present, leaving, ended;
    struct watch_note last;
    double heard_s, moved_s; /* of the thread's awake time: the last note, and the last with progress */
    bool seen;
};

/* A connection that is not a peer's yet: a rank tries several addresses and chooses one by its second note. */
struct guest {
    struct watch_link link;
    int place; /* -1: has not said */
    double since_s;
};

struct hub {
    struct watch *w;
    int npeers;
    struct peer *peers; /* [npeers]; peers[0] is this process */
    struct guest *guests;
    int nguests, guests_capacity;
    struct pollfd *fds;
    double now_s, sent_s, late_s;
    bool looks_for_late; /* this time: that takes a walk through /proc */
};

/* ---- the end of all ---- */

_Noreturn static void end_all(struct hub *h, int code, const char *text) {
    struct watch_note note;
    watch_describe(h->w, &note);
    note.kind = WATCH_END;
    note.code = code;
    for (int p = 1; p < h->npeers; p++) {
        if (!h->peers[p].present || h->peers[p].ended) continue;
        watch_send(&h->peers[p].link, &note, text);
        shutdown(h->peers[p].link.fd, SHUT_WR);
    }
    char whole[WATCH_TEXT], heard[WATCH_TEXT];
    snprintf(whole, sizeof whole, "%s", text);
    watch_print(h->w, whole);
    bool any = true;
    for (double until_s = mt_now_s() + farewell_s; any && mt_now_s() < until_s; mt_sleep_s(0.01)) {
        any = false;
        for (int p = 1; p < h->npeers; p++) {
            struct peer *peer = &h->peers[p];
            if (!peer->present || peer->ended) continue;
            for (int got = 1; got > 0;)
                if ((got = watch_receive(&peer->link, &note, heard)) < 0) peer->ended = true;
            any = any || !peer->ended;
        }
    }
    watch_die(h->w, code, NULL);
}

/* ---- judgement ---- */

static enum watch_fate fate_of(struct hub *h, int p, double early_s) {
    struct peer *peer = &h->peers[p];
    if (!p) return WATCH_FINE;
    if (!peer->present) {
        if (!h->looks_for_late) return WATCH_FINE;
        peer->last.place = p;
        return watch_fate_unborn(h->w, p, h->now_s + early_s, &peer->seen);
    }
    if (peer->ended) return peer->leaving ? WATCH_FINE : WATCH_ENDED;
    return watch_fate_of(h->w, &peer->last, h->now_s - peer->heard_s + early_s);
}

static void judge_lost(struct hub *h) {
    int told = 0, left_out = 0;
    char text[WATCH_TEXT] = "";
    bool any = false;
    for (int p = 1; p < h->npeers && !any; p++) any = fate_of(h, p, 0) != WATCH_FINE;
    if (!any) return;
    for (int p = 1; p < h->npeers; p++) {
        enum watch_fate fate = fate_of(h, p, together_s);
        if (fate == WATCH_FINE) continue;
        if (told == MOST_TOLD) {
            left_out++;
            continue;
        }
        double silent_s = h->peers[p].present ? h->now_s - h->peers[p].heard_s : h->now_s;
        if (told++) watch_add(text, sizeof text, "\nmotley: ");
        watch_tell_fate(h->w, fate, &h->peers[p].last, silent_s, text, sizeof text);
    }
    watch_add(text, sizeof text, "; meanwhile rank %d was in %s", h->peers[0].last.rank, h->peers[0].last.at);
    if (left_out) watch_add(text, sizeof text, "\nmotley: and so with %d more ranks", left_out);
    end_all(h, mt_exit_code(MT_EPEER), text);
}

/* Who stands still for longer than it may, although it is alive. */
static void judge_stuck(struct hub *h) {
    bool any = false, all_wait = true;
    char text[WATCH_TEXT] = "";
    int told = 0;
    for (int p = 0; p < h->npeers; p++) {
        const struct peer *peer = &h->peers[p];
        if (!peer->present || peer->ended) continue;
        double still_s = h->now_s - peer->moved_s;
        any = any || still_s > peer->last.patience_s;
        all_wait = all_wait && (peer->last.waits || still_s <= peer->last.patience_s / 2);
    }
    if (!any) return;
    for (int p = 0; p < h->npeers && told < MOST_TOLD; p++) {
        const struct peer *peer = &h->peers[p];
        double still_s = h->now_s - peer->moved_s;
        if (!peer->present || peer->ended || still_s <= peer->last.patience_s / 2) continue;
        if (peer->last.waits && !all_wait) continue;
        watch_add(text, sizeof text, "%srank %d on %s has made no progress for %.0f s, in %s",
                  told++ ? "\nmotley: " : "", peer->last.rank, peer->last.host, still_s, peer->last.at);
    }
    end_all(h, mt_exit_code(MT_ESTALL), text);
}

/* A rank has failed; if it was a stall, others may be why. */
static void end_by_failure(struct hub *h, int from, int code, char *text, size_t size) {
    int told = 0;
    for (int p = 0; p < h->npeers && code == mt_exit_code(MT_ESTALL) && told < MOST_TOLD; p++) {
        const struct peer *peer = &h->peers[p];
        double silent_s = h->now_s - peer->heard_s, still_s = h->now_s - peer->moved_s;
        if (p == from || !peer->present || peer->ended) continue;
        if (p && silent_s > together_s)
            watch_add(text, size, "\nmotley: rank %d on %s has not been heard of for %.1f s; it was last in %s",
                      peer->last.rank, peer->last.host, silent_s, peer->last.at);
        else if (still_s > together_s)
            watch_add(text, size, "\nmotley: rank %d on %s has made no progress for %.1f s, in %s", peer->last.rank,
                      peer->last.host, still_s, peer->last.at);
        else
            continue;
        told++;
    }
    end_all(h, code, text);
}

/* ---- hearing ---- */

static void take_note(struct hub *h, struct peer *peer, const struct watch_note *note) {
    if (!peer->present || note->progress != peer->last.progress || strcmp(note->at, peer->last.at))
        peer->moved_s = h->now_s;
    peer->present = true;
    peer->last = *note;
    peer->heard_s = h->now_s;
}

static void obey(struct hub *h, int p, const struct watch_note *note, char text[WATCH_TEXT]) {
    if (note->kind == WATCH_LEAVE) h->peers[p].leaving = true;
    if (note->kind == WATCH_FAIL) end_by_failure(h, p, note->code, text, WATCH_TEXT);
    if (note->kind == WATCH_END) watch_die(h->w, note->code, NULL); /* it has named this rank, which stood still */
}

static void hear_peer(struct hub *h, int p) {
    struct peer *peer = &h->peers[p];
    struct watch_note note;
    char text[WATCH_TEXT];
    for (int got; !peer->ended && (got = watch_receive(&peer->link, &note, text));) {
        if (got < 0) {
            peer->ended = true;
            watch_close(&peer->link);
            break;
        }
        take_note(h, peer, &note);
        obey(h, p, &note, text);
    }
}

static void answer(struct hub *h, struct watch_link *link) {
    struct watch_note note;
    watch_describe(h->w, &note);
    note.kind = WATCH_BEAT;
    watch_send(link, &note, NULL);
}

/* Returns whether the guest stays a guest. */
static bool hear_guest(struct hub *h, struct guest *guest) {
    struct watch_note note;
    char text[WATCH_TEXT];
    int got = watch_receive(&guest->link, &note, text);
    bool known = got > 0 && note.token == h->w->token && note.place > 0 && note.place < h->npeers;
    if (!got && h->now_s - guest->since_s < 10) return true;
    if (known && guest->place < 0) {
        guest->place = note.place;
        answer(h, &guest->link);
        return true;
    }
    if (!known || h->peers[note.place].present) {
        watch_close(&guest->link);
        return false;
    }
    struct peer *peer = &h->peers[note.place];
    peer->link = guest->link;
    take_note(h, peer, &note);
    obey(h, note.place, &note, text);
    return false;
}

static void hear_guests(struct hub *h) {
    int most = 4 * h->npeers + 64; /* strangers must not take all our files */
    for (struct watch_link link; h->w->listening >= 0 && (link = watch_accept(h->w->listening)).fd >= 0;) {
        if (h->nguests == most) {
            watch_close(&link); /* a rank tries again */
            continue;
        }
        if (h->nguests == h->guests_capacity) {
            h->guests_capacity = 2 * h->guests_capacity + 16;
            h->guests = mt_realloc(h->guests, (size_t)h->guests_capacity * sizeof *h->guests);
        }
        h->guests[h->nguests++] = (struct guest){link, -1, h->now_s};
    }
    int stay = 0;
    for (int g = 0; g < h->nguests; g++)
        if (hear_guest(h, &h->guests[g])) h->guests[stay++] = h->guests[g];
    h->nguests = stay;
}

static void look(struct hub *h) {
    int count = 1;
    h->fds = mt_realloc(h->fds, (size_t)(2 + h->npeers + h->nguests) * sizeof *h->fds);
    h->fds[count++] = (struct pollfd){.fd = h->w->listening, .events = POLLIN};
    for (int p = 1; p < h->npeers; p++)
        if (h->peers[p].present && !h->peers[p].ended)
            h->fds[count++] = (struct pollfd){.fd = h->peers[p].link.fd, .events = POLLIN};
    for (int g = 0; g < h->nguests; g++)
        h->fds[count++] = (struct pollfd){.fd = h->guests[g].link.fd, .events = POLLIN};
    h->now_s = watch_look(h->w, h->fds, count, WATCH_LOOK_S);
    h->looks_for_late = h->now_s - h->late_s > WATCH_LOOK_S;
    if (h->looks_for_late) h->late_s = h->now_s;
}

static void beat(struct hub *h) {
    struct watch_note note;
    if (h->now_s - h->sent_s < watch_beat_s(h->w) && !watch_has_news(h->w)) return;
    h->sent_s = h->now_s;
    watch_describe(h->w, &note);
    note.kind = watch_is_leaving(h->w) ? WATCH_LEAVE : WATCH_BEAT;
    for (int p = 1; p < h->npeers; p++)
        if (h->peers[p].present && !h->peers[p].ended) watch_send(&h->peers[p].link, &note, NULL);
    take_note(h, &h->peers[0], &note);
}

static bool all_have_ended(const struct hub *h) {
    bool ended = true;
    for (int p = 1; p < h->npeers; p++) ended = ended && h->peers[p].ended;
    return ended;
}

void watch_run_hub(struct watch *w) {
    struct hub h = {.w = w, .npeers = w->launch.nranks};
    char text[WATCH_TEXT];
    h.peers = mt_calloc((size_t)h.npeers, sizeof *h.peers);
    for (;;) {
        look(&h);
        hear_guests(&h);
        for (int p = 1; p < h.npeers; p++)
            if (h.peers[p].present) hear_peer(&h, p);
        beat(&h);
        judge_lost(&h);
        int code = watch_failure(w, text, sizeof text);
        if (code) end_by_failure(&h, 0, code, text, sizeof text);
        judge_stuck(&h);
        if (watch_is_leaving(w) && all_have_ended(&h)) break;
    }
    free(h.peers);
    free(h.guests);
    free(h.fds);
    watch_has_left(w);
}
