/* A simulation by events: the end of a tile, the end of a put's bytes, the arrival of its flag.
 *
 * A rank has a clock of work, which runs at rate 1, or slower while it communicates; tiles end at times of that clock,
 * so that a change of rate moves no entry of the rank's heap. At most one put of each pair of ranks is sent at a time;
 * its rate is the least of the link's and of even parts of what the sender sends and the receiver receives. O(log
 * workers + n^2) an event. */
#include "planner/overlap/predict.h"

#include <math.h>
#include <stdlib.h>

struct working { /* a tile that a worker computes */
    double ends; /* of the rank's clock */
    int tile;
};

struct sending {
    int put; /* -1: none */
    double left_bytes, rate_Bps;
};

struct flag { /* on its way; a heap of them */
    double arrives_s;
    int from, put;
};

struct rank {
    const struct mt_overlap_schedule *schedule;
    double clock, rate, busy_clock, ended_s, compute_s;
    int free, next, done; /* workers; the next tile; tiles and puts that are done */
    struct working *heap;
    int nheap;
    /* Claimed tiles that await flags: how many waits are left of each; by flag, a list of waits, and their tiles. */
    int *missing, *waits_of, *next_wait, *tile_of;
    int *stuck, nstuck; /* puts whose tile is done, and that await flags */
    int *first_put;     /* [ntiles + 2]: the first put after tile -1, 0, ..., or a later one */
    int *puts_left;     /* [ntiles]: that hold the tile's worker */
    uint64_t *flags;
    int *queue, queue_first, queue_end; /* puts that wait for a stream */
    struct sending *streams;
    int start_left;                 /* puts of tile -1 that hold the worker */
    int *sends_to, sends, receives; /* puts with bytes left */
};

struct play {
    const struct mt_overlap *problem;
    const struct mt_overlap_rates *rates;
    const struct mt_overlap_links *links;
    struct mt_arena arena;
    struct rank *ranks;
    struct flag *flags;
    int nflags, flags_capacity;
    int n;
    double now_s;
    bool changed; /* what rates depend on, since they were set */
};

/* ---- times ---- */

static double tile_time(const struct play *play, int r, const struct mt_overlap_tile *tile) {
    const struct mt_overlap *p = play->problem;
    const struct mt_overlap_rates *rates = &play->rates[r];
    double rows = (double)tile->rows, cols = (double)tile->cols, elements = rows * cols;
    if (tile->kind == MT_TILE_MATMUL) {
        double k = (double)(p->form == MT_OVERLAP_GATHER ? p->k : p->shares[r]);
        if (rates->whole_tiles) rows = (double)p->tile[0], cols = (double)p->tile[1];
        return rates->tile_s + 2 * rows * cols * k / rates->flops;
    }
    double wire = (double)mt_type_size(p->wire), out = (double)mt_type_size(p->type);
    int sources = tile->kind == MT_TILE_COPY;
    for (int s = 0; s < p->n && tile->kind == MT_TILE_ADD; s++) sources += mt_overlap_contributes(p, s);
    return rates->tile_s + elements * (sources * wire + out) / rates->memory_Bps;
}

/* Rates after something began or ended. */
static void set_rates(struct play *play) {
    play->changed = false;
    for (int r = 0; r < play->n; r++) {
        play->ranks[r].sends = play->ranks[r].receives = 0;
        for (int peer = 0; peer < play->n; peer++) play->ranks[r].sends_to[peer] = 0;
    }
    for (int r = 0; r < play->n; r++)
        for (int i = 0; i < play->rates[r].streams; i++) {
            const struct sending *s = &play->ranks[r].streams[i];
            int peer = s->put < 0 ? r : play->ranks[r].schedule->puts[s->put].peer;
            if (peer == r || s->left_bytes <= 0) continue;
            play->ranks[r].sends++;
            play->ranks[r].sends_to[peer]++;
            play->ranks[peer].receives++;
        }
    for (int r = 0; r < play->n; r++) {
        struct rank *rank = &play->ranks[r];
        rank->rate = rank->sends + rank->receives ? 1 / play->rates[r].compute_slowdown : 1;
        for (int i = 0; i < play->rates[r].streams; i++) {
            struct sending *s = &rank->streams[i];
            if (s->put < 0 || s->left_bytes <= 0) continue;
            int peer = rank->schedule->puts[s->put].peer;
            s->rate_Bps = play->rates[r].memory_Bps;
            if (peer == r) continue;
            s->rate_Bps = fmin(play->links->bandwidth_Bps[r * play->n + peer] / rank->sends_to[peer],
                               fmin(play->rates[r].egress_Bps / rank->sends,
                                    play->rates[peer].ingress_Bps / play->ranks[peer].receives));
            if (rank->nheap) s->rate_Bps /= play->rates[r].put_slowdown;
        }
    }
}

/* ---- workers ---- */

static void push(struct rank *rank, struct working w) {
    int i = rank->nheap++;
    for (; i && rank->heap[(i - 1) / 2].ends > w.ends; i = (i - 1) / 2) rank->heap[i] = rank->heap[(i - 1) / 2];
    rank->heap[i] = w;
}

static struct working pop(struct rank *rank) {
    struct working top = rank->heap[0], last = rank->heap[--rank->nheap];
    int i = 0;
    for (int child; (child = 2 * i + 1) < rank->nheap; i = child) {
        if (child + 1 < rank->nheap && rank->heap[child + 1].ends < rank->heap[child].ends) child++;
        if (rank->heap[child].ends >= last.ends) break;
        rank->heap[i] = rank->heap[child];
    }
    rank->heap[i] = last;
    return top;
}

/* All epochs before are done, so that only waits for this one count. */
static bool ready(const struct rank *rank, int first, int count) {
    for (int w = first; w < first + count; w++) {
        const struct mt_overlap_wait *wait = &rank->schedule->waits[w];
        if (!wait->lag && rank->flags[wait->flag] < (uint64_t)wait->count) return false;
    }
    return true;
}

static void begin_tile(struct play *play, int r, int t) {
    struct rank *rank = &play->ranks[r];
    double s = tile_time(play, r, &rank->schedule->tiles[t]);
    rank->busy_clock += s;
    play->changed |= !rank->nheap;
    push(rank, (struct working){rank->clock + s, t});
}

/* Enter the waits of a claimed tile that are not over; how many. */
static int hold(struct rank *rank, int t) {
    const struct mt_overlap_tile *tile = &rank->schedule->tiles[t];
    for (int w = tile->first_wait; w < tile->first_wait + tile->nwaits; w++) {
        if (ready(rank, w, 1)) continue;
        int *list = &rank->waits_of[rank->schedule->waits[w].flag];
        rank->next_wait[w] = *list;
        rank->tile_of[w] = t;
        *list = w;
        rank->missing[t]++;
    }
    return rank->missing[t];
}

static void take_tiles(struct play *play, int r) {
    struct rank *rank = &play->ranks[r];
    for (; !rank->start_left && rank->free && rank->next < rank->schedule->ntiles; rank->next++, rank->free--)
        if (!hold(rank, rank->next)) begin_tile(play, r, rank->next);
}

/* A flag of the rank was raised. */
static void raised(struct play *play, int r, int flag) {
    struct rank *rank = &play->ranks[r];
    int *at = &rank->waits_of[flag];
    rank->flags[flag]++;
    while (*at >= 0) {
        int w = *at;
        if (!ready(rank, w, 1)) {
            at = &rank->next_wait[w];
            continue;
        }
        *at = rank->next_wait[w];
        if (!--rank->missing[rank->tile_of[w]]) begin_tile(play, r, rank->tile_of[w]);
    }
}

/* ---- puts ---- */

static void start_sends(struct play *play, int r) {
    struct rank *rank = &play->ranks[r];
    for (int i = 0; i < play->rates[r].streams && rank->queue_first < rank->queue_end; i++) {
        struct sending *s = &rank->streams[i];
        if (s->put >= 0) continue;
        play->changed = true;
        s->put = rank->queue[rank->queue_first++];
        const struct mt_overlap_put *put = &rank->schedule->puts[s->put];
        s->left_bytes = (double)(put->rows * put->cols * mt_type_size(mt_overlap_type(play->problem, put->to)));
    }
}

static void send_flag(struct play *play, int r, int j) {
    int peer = play->ranks[r].schedule->puts[j].peer;
    double latency_s = peer == r ? 0 : play->links->latency_s[r * play->n + peer];
    struct flag flag = {play->now_s + latency_s, r, j};
    mt_arena_grow(&play->arena, &play->flags, play->nflags, &play->flags_capacity, sizeof *play->flags);
    int i = play->nflags++;
    for (; i && play->flags[(i - 1) / 2].arrives_s > flag.arrives_s; i = (i - 1) / 2)
        play->flags[i] = play->flags[(i - 1) / 2];
    play->flags[i] = flag;
}

static struct flag pop_flag(struct play *play) {
    struct flag top = play->flags[0], last = play->flags[--play->nflags];
    int i = 0;
    for (int child; (child = 2 * i + 1) < play->nflags; i = child) {
        if (child + 1 < play->nflags && play->flags[child + 1].arrives_s < play->flags[child].arrives_s) child++;
        if (play->flags[child].arrives_s >= last.arrives_s) break;
        play->flags[i] = play->flags[child];
    }
    play->flags[i] = last;
    return top;
}

/* A flag alone needs no stream, and holds no worker. */
static void queue_put(struct play *play, int r, int j) {
    struct rank *rank = &play->ranks[r];
    const struct mt_overlap_put *put = &rank->schedule->puts[j];
    if (!ready(rank, put->first_wait, put->nwaits))
        rank->stuck[rank->nstuck++] = j;
    else if (put->rows)
        rank->queue[rank->queue_end++] = j;
    else
        send_flag(play, r, j);
    start_sends(play, r);
}

static void free_worker(struct play *play, int r) {
    play->ranks[r].free++;
    take_tiles(play, r);
}

static void finish(struct play *play, int r) {
    struct rank *rank = &play->ranks[r];
    if (++rank->done == rank->schedule->ntiles + rank->schedule->nputs) rank->ended_s = play->now_s;
}

static void end_tile(struct play *play, int r) {
    struct rank *rank = &play->ranks[r];
    int t = pop(rank).tile;
    play->changed |= !rank->nheap;
    for (int j = rank->first_put[t + 1]; j < rank->first_put[t + 2]; j++) {
        rank->puts_left[t] += play->rates[r].holds && rank->schedule->puts[j].rows;
        queue_put(play, r, j);
    }
    finish(play, r);
    if (!rank->puts_left[t]) free_worker(play, r);
}

/* A put's bytes are there; its flag follows. */
static void end_send(struct play *play, int r, int stream) {
    struct rank *rank = &play->ranks[r];
    int j = rank->streams[stream].put, tile = rank->schedule->puts[j].tile;
    send_flag(play, r, j);
    rank->streams[stream].put = -1;
    play->changed = true;
    start_sends(play, r);
    if (!play->rates[r].holds) return;
    if (tile >= 0 && !--rank->puts_left[tile]) free_worker(play, r);
    if (tile < 0 && !--rank->start_left) take_tiles(play, r);
}

static void end_put(struct play *play) {
    struct flag flag = pop_flag(play);
    int from = flag.from, j = flag.put;
    const struct mt_overlap_put *put = &play->ranks[from].schedule->puts[j];
    struct rank *peer = &play->ranks[put->peer];
    raised(play, put->peer, put->flag);
    int nstuck = peer->nstuck; /* those that are still stuck come back, in order */
    peer->nstuck = 0;
    for (int i = 0; i < nstuck; i++) queue_put(play, put->peer, peer->stuck[i]);
    finish(play, from);
}

/* ---- the simulation ---- */

static void set_up(struct play *play, const struct mt_overlap_schedule *schedules) {
    int n = play->n, nflags = mt_overlap_nflags(play->problem);
    play->ranks = mt_new(&play->arena, struct rank, n);
    for (int r = 0; r < n; r++) {
        struct rank *rank = &play->ranks[r];
        const struct mt_overlap_schedule *s = rank->schedule = &schedules[r];
        rank->free = play->rates[r].workers;
        rank->rate = 1;
        rank->heap = mt_new(&play->arena, struct working, rank->free + 1);
        rank->missing = mt_new(&play->arena, int, s->ntiles + 1);
        rank->next_wait = mt_new(&play->arena, int, s->nwaits + 1);
        rank->tile_of = mt_new(&play->arena, int, s->nwaits + 1);
        rank->waits_of = mt_new(&play->arena, int, nflags + 1);
        for (int f = 0; f < nflags; f++) rank->waits_of[f] = -1;
        rank->stuck = mt_new(&play->arena, int, s->nputs + 1);
        rank->first_put = mt_new(&play->arena, int, s->ntiles + 2);
        rank->puts_left = mt_new(&play->arena, int, s->ntiles + 1);
        rank->flags = mt_new(&play->arena, uint64_t, nflags + 1);
        rank->queue = mt_new(&play->arena, int, s->nputs + 1);
        rank->streams = mt_new(&play->arena, struct sending, play->rates[r].streams);
        for (int i = 0; i < play->rates[r].streams; i++) rank->streams[i].put = -1;
        rank->sends_to = mt_new(&play->arena, int, n);
        for (int t = -1, j = 0; t <= s->ntiles; t++) {
            while (j < s->nputs && s->puts[j].tile < t) j++;
            rank->first_put[t + 1] = j;
        }
        for (int j = 0; j < rank->first_put[1]; j++) rank->start_left += play->rates[r].holds && s->puts[j].rows;
        for (int t = 0; t < s->ntiles; t++) rank->compute_s += tile_time(play, r, &s->tiles[t]);
        rank->compute_s /= play->rates[r].workers;
    }
    for (int r = 0; r < n; r++)
        for (int j = 0; j < schedules[r].nputs && schedules[r].puts[j].tile < 0; j++) queue_put(play, r, j);
    for (int r = 0; r < n; r++) take_tiles(play, r);
}

/* Go to the next event; false: there is none. */
static bool advance(struct play *play) {
    double step_s = INFINITY;
    int tile_of = -1, send_of = -1, stream = 0;
    bool flag = false;
    if (play->changed) set_rates(play);
    for (int r = 0; r < play->n; r++) {
        const struct rank *rank = &play->ranks[r];
        double s = rank->nheap ? fmax(0, (rank->heap[0].ends - rank->clock) / rank->rate) : INFINITY;
        if (s < step_s) step_s = s, tile_of = r;
        for (int i = 0; i < play->rates[r].streams; i++) {
            if (rank->streams[i].put < 0) continue;
            s = rank->streams[i].left_bytes > 0 ? rank->streams[i].left_bytes / rank->streams[i].rate_Bps : 0;
            if (s < step_s) step_s = s, send_of = r, stream = i, tile_of = -1;
        }
    }
    if (play->nflags) {
        double s = fmax(0, play->flags[0].arrives_s - play->now_s);
        flag = s <= step_s;
        if (flag) step_s = s;
    }
    if (!flag && tile_of < 0 && send_of < 0) return false;
    play->now_s += step_s;
    for (int r = 0; r < play->n; r++) {
        play->ranks[r].clock += step_s * play->ranks[r].rate;
        for (int i = 0; i < play->rates[r].streams; i++) {
            struct sending *s = &play->ranks[r].streams[i];
            if (s->put >= 0) s->left_bytes = fmax(0, s->left_bytes - step_s * s->rate_Bps);
        }
    }
    if (flag) {
        end_put(play);
    } else if (tile_of >= 0) {
        play->ranks[tile_of].clock = fmax(play->ranks[tile_of].clock, play->ranks[tile_of].heap[0].ends);
        end_tile(play, tile_of);
    } else {
        play->ranks[send_of].streams[stream].left_bytes = 0;
        end_send(play, send_of, stream);
    }
    return true;
}

enum mt_status mt_overlap_predict(const struct mt_overlap *problem, const struct mt_overlap_schedule *schedules,
                                  const struct mt_overlap_rates *rates, const struct mt_overlap_links *links,
                                  struct mt_overlap_prediction *prediction, struct mt_err *err) {
    struct play play = {.problem = problem, .rates = rates, .links = links, .n = problem->n, .changed = true};
    enum mt_status st = MT_OK;
    set_up(&play, schedules);
    while (advance(&play)) {
    }
    *prediction = (struct mt_overlap_prediction){.s = play.now_s};
    for (int r = 0; r < play.n && !st; r++) {
        const struct rank *rank = &play.ranks[r];
        if (rank->done < rank->schedule->ntiles + rank->schedule->nputs)
            st = mt_fail(err, MT_EBUG, "%s: rank %d would never end", mt_overlap_name(problem->form), r);
        prediction->compute_s = fmax(prediction->compute_s, rank->compute_s);
        prediction->waited_s = fmax(prediction->waited_s, play.now_s - rank->busy_clock / rates[r].workers);
    }
    mt_arena_release(&play.arena);
    return st;
}
