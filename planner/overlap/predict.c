/* A simulation by events: the end of a tile, or of what it can multiply before its next wait, the end of a put's bytes,
 * the arrival of its flag.
 *
 * A rank has a clock of what its workers do, and one of what its movers do, which run at rate 1, or slower: the former
 * while the rank communicates, the latter while workers multiply. Tiles end at times of these clocks, so that a change
 * of rate moves no entry of a heap. The rate of a put is the least of even parts of the
 * link's, of what the sender sends and of what the receiver receives. O(log workers + log flags + n streams) an event.
 */
#include "planner/overlap/predict.h"

#include <math.h>
#include <stdlib.h>

#include "kernels/overlap/chunk.h"

#define END INT64_MAX

struct working { /* a tile that a worker computes, up to its next position */
    double ends; /* of their clock */
    int tile;
};
enum who { WORKERS, MOVERS, NWHO };
struct busy {
    struct working *heap;
    int nheap;
    double clock, rate;
};

struct sending {
    int put;                             /* -1: none */
    double left_s, left_bytes, rate_Bps; /* left_s: before its bytes */
};

struct flag { /* on its way; a heap of them */
    double arrives_s;
    int from, put;
};

struct rank {
    const struct mt_overlap_schedule *schedule;
    double busy_s, ended_s, compute_s; /* busy_s: of all workers */
    struct busy busy[NWHO];
    int free[NWHO], next[NWHO], done; /* the next tile of each; tiles and puts that are done */
    /* Claimed tiles that await flags: how many waits are left of each; by flag, a list of waits, and their tiles. */
    int *missing, *waits_of, *next_wait, *tile_of;
    int64_t *at;        /* [ntiles]: after how many columns of K a tile goes on; END: it is multiplied */
    int *stuck, nstuck; /* puts whose tile is done, and that await flags */
    int *first_put;     /* [ntiles + 2]: the first put after tile -1, 0, ..., or a later one */
    int *puts_left;     /* [ntiles]: that hold the tile's worker */
    uint64_t *flags;
    int *queue, queue_first, queue_end; /* puts that wait for a stream */
    struct sending *streams;
    int start_left;                 /* puts of tile -1 that hold the worker */
    int unsent, waiting;            /* puts of tiles; workers that wait for these */
    int *sends_to, sends, receives; /* puts with bytes left */
};

struct simulation {
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

static int64_t depth_of(const struct mt_overlap *p, int r) {
    return p->form == MT_OVERLAP_GATHER ? p->k : p->shares[r];
}

/* Whether the GPU's GEMMs of a rank's own rows add what the peer sent: they await it, in place of the sums. (Not where
 * the result is stored transposed, which a problem does not say.) What they add is read when a tile has been
 * multiplied, and nothing hides that: it takes `read_late` times as long as its bytes (two H200, 24 shapes). */
static const double read_late = 1.7;
static bool gemms_add(const struct simulation *sim, int r) {
    return sim->rates[r].units && sim->problem->how != MT_OVERLAP_NCCL && mt_overlap_gemms_add(sim->problem);
}

/* A tile of one kernel that adds, where all of these come one after the other. */
static bool adds_in_a_row(const struct mt_overlap *p, const struct mt_overlap_tile *tile) {
    return p->how == MT_OVERLAP_FUSED && !p->mix && tile->to == MT_OVERLAP_SLOTS && mt_overlap_fused_adds(p);
}

static double tile_time(const struct simulation *sim, int r, const struct mt_overlap_tile *tile) {
    const struct mt_overlap *p = sim->problem;
    const struct mt_overlap_rates *rates = &sim->rates[r];
    double rows = (double)tile->rows, cols = (double)tile->cols, elements = rows * cols;
    bool adds = gemms_add(sim, r);
    if (adds && tile->kind == MT_TILE_MATMUL && tile->to == MT_OVERLAP_SLOTS) return 0;
    if (tile->kind == MT_TILE_MATMUL || (adds && tile->kind == MT_TILE_ADD)) {
        double k = (double)depth_of(p, r), acc = (double)mt_type_size(mt_type_acc(p->type));
        double added = rates->adds_slabs ? 3 * acc * elements * (mt_overlap_nslabs(p) - 1) : 0;
        double read = tile->kind == MT_TILE_ADD ? read_late * elements * (double)mt_type_size(p->wire) : 0;
        if (rates->units) {
            double parts = ceil(rows / (double)rates->unit[0]) * ceil(cols / (double)rates->unit[1]);
            double wave = 2.0 * (double)(rates->unit[0] * rates->unit[1]) * k * rates->units / rates->flops;
            return rates->tile_s + ceil(parts / rates->units) * wave + read / rates->memory_Bps;
        }
        if (rates->whole_tiles) rows = (double)p->tile[0], cols = (double)p->tile[1];
        double adds_s = adds_in_a_row(p, tile) ? rates->adds_s : 0;
        return rates->tile_s + adds_s + 2 * rows * cols * k / rates->flops + added / rates->memory_Bps;
    }
    if (p->how == MT_OVERLAP_FUSED && mt_overlap_fused_adds(p)) {
        int64_t first, owned = mt_overlap_owned(p, r, &first);
        if (tile->kind == MT_TILE_ADD || (tile->row >= first && tile->row < first + owned)) return 0;
    }
    double wire = (double)mt_type_size(p->wire), out = (double)mt_type_size(p->out);
    int sources = tile->kind == MT_TILE_COPY;
    for (int s = 0; s < p->n && tile->kind == MT_TILE_ADD; s++) sources += mt_overlap_contributes(p, s);
    return rates->sum_s + elements * (sources * wire + out) / rates->memory_Bps;
}

/* How many of a rank's workers multiply, in quarters: puts are slower by so much. */
enum { QUARTERS = 4 };
static int busy_quarters(const struct simulation *sim, int r) {
    int workers = sim->rates[r].workers;
    return (QUARTERS * sim->ranks[r].busy[WORKERS].nheap + workers - 1) / workers;
}
static double busy_part(const struct simulation *sim, int r) {
    return (double)busy_quarters(sim, r) / QUARTERS;
}

/* Rates after something began or ended. */
static void set_rates(struct simulation *sim) {
    sim->changed = false;
    for (int r = 0; r < sim->n; r++) {
        sim->ranks[r].sends = sim->ranks[r].receives = 0;
        for (int peer = 0; peer < sim->n; peer++) sim->ranks[r].sends_to[peer] = 0;
    }
    for (int r = 0; r < sim->n; r++)
        for (int i = 0; i < sim->rates[r].streams; i++) {
            const struct sending *s = &sim->ranks[r].streams[i];
            if (s->put < 0 || s->left_bytes <= 0) continue;
            int peer = sim->ranks[r].schedule->puts[s->put].peer;
            sim->ranks[r].sends_to[peer]++;
            if (peer == r) continue;
            sim->ranks[r].sends++;
            sim->ranks[peer].receives++;
        }
    for (int r = 0; r < sim->n; r++) {
        struct rank *rank = &sim->ranks[r];
        rank->busy[WORKERS].rate = rank->sends + rank->receives ? 1 / sim->rates[r].compute_slowdown : 1;
        rank->busy[MOVERS].rate = rank->busy[WORKERS].nheap ? 1 / fmax(1, sim->rates[r].moves_slowdown) : 1;
        double part = busy_part(sim, r);
        for (int i = 0; i < sim->rates[r].streams; i++) {
            struct sending *s = &rank->streams[i];
            if (s->put < 0 || s->left_bytes <= 0) continue;
            int peer = rank->schedule->puts[s->put].peer;
            s->rate_Bps = sim->rates[r].memory_Bps * sim->rates[r].workers / rank->sends_to[peer];
            if (peer == r) continue;
            s->rate_Bps = fmin(
                sim->links->bandwidth_Bps[r * sim->n + peer] / rank->sends_to[peer],
                fmin(sim->rates[r].egress_Bps / rank->sends, sim->rates[peer].ingress_Bps / sim->ranks[peer].receives));
            s->rate_Bps /= 1 + (sim->rates[r].put_slowdown - 1) * part;
        }
    }
}

/* ---- workers ---- */

static void push(struct busy *b, struct working w) {
    int i = b->nheap++;
    for (; i && b->heap[(i - 1) / 2].ends > w.ends; i = (i - 1) / 2) b->heap[i] = b->heap[(i - 1) / 2];
    b->heap[i] = w;
}

static struct working pop(struct busy *b) {
    struct working top = b->heap[0], last = b->heap[--b->nheap];
    int i = 0;
    for (int child; (child = 2 * i + 1) < b->nheap; i = child) {
        if (child + 1 < b->nheap && b->heap[child + 1].ends < b->heap[child].ends) child++;
        if (b->heap[child].ends >= last.ends) break;
        b->heap[i] = b->heap[child];
    }
    b->heap[i] = last;
    return top;
}

static double left_s(const struct busy *b) {
    return b->nheap ? fmax(0, (b->heap[0].ends - b->clock) / b->rate) : INFINITY;
}

/* All epochs before are done, so that only waits for this one count. */
static bool ready(const struct rank *rank, int first, int count) {
    for (int w = first; w < first + count; w++) {
        const struct mt_overlap_wait *wait = &rank->schedule->waits[w];
        if (!wait->lag && rank->flags[wait->flag] < (uint64_t)wait->count) return false;
    }
    return true;
}

/* Whether a mover has the tile. */
static bool moves(const struct simulation *sim, int r, int t) {
    return sim->rates[r].movers && sim->ranks[r].schedule->tiles[t].kind != MT_TILE_MATMUL;
}

/* After how many columns of K a tile comes to a wait. */
static int64_t comes_to(const struct simulation *sim, int r, const struct mt_overlap_tile *tile, int wait) {
    int64_t k = sim->ranks[r].schedule->waits[wait].k - tile->k;
    return k < 0 ? k + depth_of(sim->problem, r) : k;
}

/* A tile up to the next position at which it has to wait: as much of its time as of K. */
static void begin_part(struct simulation *sim, int r, int t) {
    struct rank *rank = &sim->ranks[r];
    const struct mt_overlap_tile *tile = &rank->schedule->tiles[t];
    double s = tile_time(sim, r, tile), depth = (double)depth_of(sim->problem, r);
    int64_t from = rank->at[t], to = END;
    for (int w = tile->first_wait; w < tile->first_wait + tile->nwaits && sim->rates[r].within; w++) {
        int64_t k = comes_to(sim, r, tile, w);
        if (k > from && k < to && !ready(rank, w, 1)) to = k;
    }
    if (from > 0 || to < END) {
        double first_s = sim->rates[r].tile_s, end = to < END ? (double)to : depth;
        s = (s - first_s) * (end - (double)from) / depth + (from > 0 ? 0 : first_s);
    }
    rank->at[t] = to;
    struct busy *busy = &rank->busy[moves(sim, r, t) ? MOVERS : WORKERS];
    int before = busy_quarters(sim, r);
    push(busy, (struct working){busy->clock + s, t});
    sim->changed |= busy_quarters(sim, r) != before;
}

/* Enter the waits of a claimed tile that are not over where it goes on; how many. */
static int hold(struct simulation *sim, int r, int t) {
    struct rank *rank = &sim->ranks[r];
    const struct mt_overlap_tile *tile = &rank->schedule->tiles[t];
    for (int w = tile->first_wait; w < tile->first_wait + tile->nwaits; w++) {
        if ((sim->rates[r].within && comes_to(sim, r, tile, w) != rank->at[t]) || ready(rank, w, 1)) continue;
        int *list = &rank->waits_of[rank->schedule->waits[w].flag];
        rank->next_wait[w] = *list;
        rank->tile_of[w] = t;
        *list = w;
        rank->missing[t]++;
    }
    return rank->missing[t];
}

static void take_tiles(struct simulation *sim, int r) {
    struct rank *rank = &sim->ranks[r];
    for (enum who who = WORKERS; who < NWHO; who++)
        for (int *next = &rank->next[who]; !rank->start_left && rank->free[who] && *next < rank->schedule->ntiles;
             ++*next) {
            if (moves(sim, r, *next) != (who == MOVERS)) continue;
            rank->free[who]--;
            if (!hold(sim, r, *next)) begin_part(sim, r, *next);
        }
}

/* A flag of the rank was raised. */
static void raised(struct simulation *sim, int r, int flag) {
    struct rank *rank = &sim->ranks[r];
    int *at = &rank->waits_of[flag];
    rank->flags[flag]++;
    while (*at >= 0) {
        int w = *at;
        if (!ready(rank, w, 1)) {
            at = &rank->next_wait[w];
            continue;
        }
        *at = rank->next_wait[w];
        if (!--rank->missing[rank->tile_of[w]]) begin_part(sim, r, rank->tile_of[w]);
    }
}

/* ---- puts ---- */

static void start_sends(struct simulation *sim, int r) {
    struct rank *rank = &sim->ranks[r];
    for (int i = 0; i < sim->rates[r].streams && rank->queue_first < rank->queue_end; i++) {
        struct sending *s = &rank->streams[i];
        if (s->put >= 0) continue;
        sim->changed = true;
        s->put = rank->queue[rank->queue_first++];
        const struct mt_overlap_put *put = &rank->schedule->puts[s->put];
        s->left_s = sim->rates[r].put_s;
        s->left_bytes = (double)(put->rows * put->cols * mt_type_size(mt_overlap_type(sim->problem, put->to)));
    }
}

static void send_flag(struct simulation *sim, int r, int j) {
    int peer = sim->ranks[r].schedule->puts[j].peer;
    double latency_s = peer == r ? 0 : sim->links->latency_s[r * sim->n + peer];
    struct flag flag = {sim->now_s + latency_s, r, j};
    mt_arena_grow(&sim->arena, &sim->flags, sim->nflags, &sim->flags_capacity, sizeof *sim->flags);
    int i = sim->nflags++;
    for (; i && sim->flags[(i - 1) / 2].arrives_s > flag.arrives_s; i = (i - 1) / 2)
        sim->flags[i] = sim->flags[(i - 1) / 2];
    sim->flags[i] = flag;
}

static struct flag pop_flag(struct simulation *sim) {
    struct flag top = sim->flags[0], last = sim->flags[--sim->nflags];
    int i = 0;
    for (int child; (child = 2 * i + 1) < sim->nflags; i = child) {
        if (child + 1 < sim->nflags && sim->flags[child + 1].arrives_s < sim->flags[child].arrives_s) child++;
        if (sim->flags[child].arrives_s >= last.arrives_s) break;
        sim->flags[i] = sim->flags[child];
    }
    sim->flags[i] = last;
    return top;
}

/* A flag alone needs no stream, and holds no worker. */
static void queue_put(struct simulation *sim, int r, int j) {
    struct rank *rank = &sim->ranks[r];
    const struct mt_overlap_put *put = &rank->schedule->puts[j];
    if (!ready(rank, put->first_wait, put->nwaits))
        rank->stuck[rank->nstuck++] = j;
    else if (put->rows)
        rank->queue[rank->queue_end++] = j;
    else
        send_flag(sim, r, j);
    start_sends(sim, r);
}

static void free_worker(struct simulation *sim, int r, int tile) {
    sim->ranks[r].free[moves(sim, r, tile) ? MOVERS : WORKERS]++;
    take_tiles(sim, r);
}

static void finish(struct simulation *sim, int r) {
    struct rank *rank = &sim->ranks[r];
    if (++rank->done == rank->schedule->ntiles + rank->schedule->nputs) rank->ended_s = sim->now_s;
}

static void end_tile(struct simulation *sim, int r, enum who who) {
    struct rank *rank = &sim->ranks[r];
    struct busy *busy = &rank->busy[who];
    busy->clock = fmax(busy->clock, busy->heap[0].ends);
    int before = busy_quarters(sim, r), t = pop(busy).tile;
    sim->changed |= busy_quarters(sim, r) != before;
    if (rank->at[t] < END) {
        if (!hold(sim, r, t)) begin_part(sim, r, t);
        return;
    }
    for (int j = rank->first_put[t + 1]; j < rank->first_put[t + 2]; j++) {
        rank->puts_left[t] += sim->rates[r].holds && rank->schedule->puts[j].rows;
        rank->unsent += !moves(sim, r, t) && rank->schedule->puts[j].rows > 0;
        queue_put(sim, r, j);
    }
    finish(sim, r);
    if (sim->rates[r].unsent && rank->unsent > sim->rates[r].unsent && !moves(sim, r, t))
        rank->waiting++;
    else if (!rank->puts_left[t])
        free_worker(sim, r, t);
}

/* A put's bytes are there; its flag follows. */
static void end_send(struct simulation *sim, int r, int stream) {
    struct rank *rank = &sim->ranks[r];
    int j = rank->streams[stream].put, tile = rank->schedule->puts[j].tile;
    send_flag(sim, r, j);
    rank->streams[stream].put = -1;
    sim->changed = true;
    start_sends(sim, r);
    rank->unsent -= tile >= 0 && !moves(sim, r, tile);
    if (rank->waiting && rank->unsent <= sim->rates[r].unsent) {
        rank->free[WORKERS] += rank->waiting, rank->waiting = 0;
        take_tiles(sim, r);
    }
    if (!sim->rates[r].holds) return;
    if (tile >= 0 && !--rank->puts_left[tile]) free_worker(sim, r, tile);
    if (tile < 0 && !--rank->start_left) take_tiles(sim, r);
}

static void end_put(struct simulation *sim) {
    struct flag flag = pop_flag(sim);
    int from = flag.from, j = flag.put;
    const struct mt_overlap_put *put = &sim->ranks[from].schedule->puts[j];
    struct rank *peer = &sim->ranks[put->peer];
    raised(sim, put->peer, put->flag);
    int nstuck = peer->nstuck; /* those that are still stuck come back, in order */
    peer->nstuck = 0;
    for (int i = 0; i < nstuck; i++) queue_put(sim, put->peer, peer->stuck[i]);
    finish(sim, from);
}

/* ---- the simulation ---- */

static void set_up(struct simulation *sim, const struct mt_overlap_schedule *schedules) {
    int n = sim->n, nflags = mt_overlap_nflags(sim->problem);
    sim->ranks = mt_new(&sim->arena, struct rank, n);
    for (int r = 0; r < n; r++) {
        struct rank *rank = &sim->ranks[r];
        const struct mt_overlap_schedule *s = rank->schedule = &schedules[r];
        rank->free[WORKERS] = sim->rates[r].workers, rank->free[MOVERS] = sim->rates[r].movers;
        for (enum who w = WORKERS; w < NWHO; w++)
            rank->busy[w] = (struct busy){.heap = mt_new(&sim->arena, struct working, rank->free[w] + 1), .rate = 1};
        rank->missing = mt_new(&sim->arena, int, s->ntiles + 1);
        rank->at = mt_new(&sim->arena, int64_t, s->ntiles + 1);
        rank->next_wait = mt_new(&sim->arena, int, s->nwaits + 1);
        rank->tile_of = mt_new(&sim->arena, int, s->nwaits + 1);
        rank->waits_of = mt_new(&sim->arena, int, nflags + 1);
        for (int f = 0; f < nflags; f++) rank->waits_of[f] = -1;
        rank->stuck = mt_new(&sim->arena, int, s->nputs + 1);
        rank->first_put = mt_new(&sim->arena, int, s->ntiles + 2);
        rank->puts_left = mt_new(&sim->arena, int, s->ntiles + 1);
        rank->flags = mt_new(&sim->arena, uint64_t, nflags + 1);
        rank->queue = mt_new(&sim->arena, int, s->nputs + 1);
        rank->streams = mt_new(&sim->arena, struct sending, sim->rates[r].streams);
        for (int i = 0; i < sim->rates[r].streams; i++) rank->streams[i].put = -1;
        rank->sends_to = mt_new(&sim->arena, int, n);
        for (int t = -1, j = 0; t <= s->ntiles; t++) {
            while (j < s->nputs && s->puts[j].tile < t) j++;
            rank->first_put[t + 1] = j;
        }
        for (int j = 0; j < rank->first_put[1]; j++) rank->start_left += sim->rates[r].holds && s->puts[j].rows;
        for (int t = 0; t < s->ntiles; t++) rank->compute_s += moves(sim, r, t) ? 0 : tile_time(sim, r, &s->tiles[t]);
        rank->compute_s /= sim->rates[r].workers;
    }
    for (int r = 0; r < n; r++)
        for (int j = 0; j < schedules[r].nputs && schedules[r].puts[j].tile < 0; j++) queue_put(sim, r, j);
    for (int r = 0; r < n; r++) take_tiles(sim, r);
}

static double time_left(const struct sending *s) {
    return s->left_s + (s->left_bytes > 0 ? s->left_bytes / s->rate_Bps : 0);
}

static void send_for(struct sending *s, double step_s) {
    double before_s = fmin(s->left_s, step_s);
    s->left_s -= before_s;
    s->left_bytes = fmax(0, s->left_bytes - (step_s - before_s) * s->rate_Bps);
}

/* Go to the next event; false: there is none. */
static bool advance(struct simulation *sim) {
    double step_s = INFINITY;
    int tile_of = -1, send_of = -1, stream = 0;
    enum who who = WORKERS;
    bool flag = false;
    if (sim->changed) set_rates(sim);
    for (int r = 0; r < sim->n; r++) {
        const struct rank *rank = &sim->ranks[r];
        for (enum who w = WORKERS; w < NWHO; w++) {
            double s = left_s(&rank->busy[w]);
            if (s < step_s) step_s = s, tile_of = r, who = w;
        }
        for (int i = 0; i < sim->rates[r].streams; i++) {
            if (rank->streams[i].put < 0) continue;
            double s = time_left(&rank->streams[i]);
            if (s < step_s) step_s = s, send_of = r, stream = i, tile_of = -1;
        }
    }
    if (sim->nflags) {
        double s = fmax(0, sim->flags[0].arrives_s - sim->now_s);
        flag = s <= step_s;
        if (flag) step_s = s;
    }
    if (!flag && tile_of < 0 && send_of < 0) return false;
    sim->now_s += step_s;
    for (int r = 0; r < sim->n; r++) {
        for (enum who w = WORKERS; w < NWHO; w++) sim->ranks[r].busy[w].clock += step_s * sim->ranks[r].busy[w].rate;
        sim->ranks[r].busy_s += step_s * sim->ranks[r].busy[WORKERS].nheap;
        for (int i = 0; i < sim->rates[r].streams; i++) {
            struct sending *s = &sim->ranks[r].streams[i];
            if (s->put >= 0) send_for(s, step_s);
        }
    }
    if (flag) {
        end_put(sim);
    } else if (tile_of >= 0) {
        end_tile(sim, tile_of, who);
    } else {
        sim->ranks[send_of].streams[stream].left_s = sim->ranks[send_of].streams[stream].left_bytes = 0;
        end_send(sim, send_of, stream);
    }
    return true;
}

enum mt_status mt_overlap_predict(const struct mt_overlap *problem, const struct mt_overlap_schedule *schedules,
                                  const struct mt_overlap_rates *rates, const struct mt_overlap_links *links,
                                  struct mt_overlap_prediction *prediction, struct mt_err *err) {
    struct simulation sim = {.problem = problem, .rates = rates, .links = links, .n = problem->n, .changed = true};
    enum mt_status st = MT_OK;
    set_up(&sim, schedules);
    while (advance(&sim)) {
    }
    double begin_s = 0;
    for (int r = 0; r < sim.n; r++) begin_s = fmax(begin_s, rates[r].begin_s);
    *prediction = (struct mt_overlap_prediction){.s = begin_s + sim.now_s};
    for (int r = 0; r < sim.n && !st; r++) {
        const struct rank *rank = &sim.ranks[r];
        if (rank->done < rank->schedule->ntiles + rank->schedule->nputs)
            st = mt_fail(err, MT_EBUG, "%s: rank %d would never end", mt_overlap_name(problem->form), r);
        prediction->compute_s = fmax(prediction->compute_s, rank->compute_s);
        prediction->waited_s = fmax(prediction->waited_s, sim.now_s - rank->busy_s / rates[r].workers);
    }
    mt_arena_release(&sim.arena);
    return st;
}
