/* Flags, and the order that they make: three epochs of all ranks as a graph.
 *
 * A flag that one rank raises, c times an epoch, has reached (e - lag) c exactly when that rank's puts of epochs up to
 * e - lag are done: a rank's epochs follow each other.
 *
 * Edges that must never close a circle: a rank's puts and tiles in the order in which one worker takes them, and from
 * puts to those that await their flags. If one worker ends, several do.
 *
 * Several workers guarantee less order: from the beginning of a run to its tiles and puts, from tiles to their puts,
 * from all to the end, and flags. Along those, each node gets the latest epoch that it knows each rank to have begun. A
 * put of epoch e into one of c copies of a peer's staging must know that the peer has begun epoch e - c + 1, so ended e
 * - c. Edges span at most one epoch, so that what holds in the third epoch holds in all later ones. */
#include "synth/check/overlap/internal.h"

enum { EPOCHS = 3 };

/* Nodes of a rank in an epoch: begin, tiles, puts, end. */
struct graph {
    struct mt_overlap_checker *c;
    int *first;     /* [n + 1]: where a rank's nodes begin in an epoch */
    int64_t nnodes; /* of an epoch */
    uint8_t *known; /* [EPOCHS * nnodes][n]: the latest epoch that has begun, from 1; 0: none */
    int *left;      /* [EPOCHS * nnodes]: predecessors that have not been visited */
    int64_t *order, norder;
    int *waiters, *waiters_first; /* [n * nflags + 1]: nodes (within an epoch) that await a flag; and their lags */
    int *lags;
};

enum mt_status mt_overlap_check_flags(struct mt_overlap_checker *c) {
    int n = c->problem->n, total = 0;
    for (int r = 0; r < n; r++) {
        c->ranks[r].flags = mt_new(&c->arena, struct mt_overlap_raised, c->nflags + 1);
        for (int f = 0; f < c->nflags; f++) c->ranks[r].flags[f].by = -1;
    }
    for (int r = 0; r < n; r++)
        for (int j = 0; j < c->ranks[r].schedule->nputs; j++) {
            const struct mt_overlap_put *put = &c->ranks[r].schedule->puts[j];
            struct mt_overlap_raised *flag = &c->ranks[put->peer].flags[put->flag];
            if (flag->by >= 0 && flag->by != r)
                return mt_overlap_refuse(c, r, -1, j, "raises flag %d of rank %d, which rank %d raises too", put->flag,
                                         put->peer, flag->by);
            flag->by = r;
            flag->count++;
            total++;
        }
    c->raisers = mt_new(&c->arena, int, total + 1);
    int next = 0;
    for (int r = 0; r < n; r++)
        for (int f = 0; f < c->nflags; f++) {
            struct mt_overlap_raised *flag = &c->ranks[r].flags[f];
            flag->first = next;
            next += flag->count;
            flag->count = 0;
        }
    for (int r = 0; r < n; r++)
        for (int j = 0; j < c->ranks[r].schedule->nputs; j++) {
            const struct mt_overlap_put *put = &c->ranks[r].schedule->puts[j];
            struct mt_overlap_raised *flag = &c->ranks[put->peer].flags[put->flag];
            c->raisers[flag->first + flag->count++] = j;
        }
    for (int r = 0; r < n; r++) {
        const struct mt_overlap_schedule *s = c->ranks[r].schedule;
        for (int w = 0; w < s->nwaits; w++) {
            const struct mt_overlap_raised *flag = &c->ranks[r].flags[s->waits[w].flag];
            if (flag->by != s->waits[w].from)
                return mt_overlap_refuse(c, r, -1, -1, "awaits flag %d of rank %d, which rank %d raises",
                                         s->waits[w].flag, s->waits[w].from, flag->by);
            if (flag->count != s->waits[w].count)
                return mt_overlap_refuse(c, r, -1, -1, "awaits flag %d %d times an epoch, which is raised %d times",
                                         s->waits[w].flag, s->waits[w].count, flag->count);
        }
    }
    return MT_OK;
}

static int begin_of(const struct graph *g, int rank) {
    return g->first[rank];
}
static int tile_node(const struct graph *g, int rank, int tile) {
    return g->first[rank] + 1 + tile;
}
static int put_node(const struct graph *g, int rank, int put) {
    return g->first[rank] + 1 + g->c->ranks[rank].schedule->ntiles + put;
}
static int end_of(const struct graph *g, int rank) {
    return g->first[rank + 1] - 1;
}

/* Waits of a node: count them at the flags, or, with `at`, enter them. */
static void enter_waits(struct graph *g, int rank, int node, int first, int count, int *at) {
    const struct mt_overlap_schedule *s = g->c->ranks[rank].schedule;
    for (int w = first; w < first + count; w++) {
        int64_t flag = (int64_t)rank * g->c->nflags + s->waits[w].flag;
        if (at) {
            g->waiters[at[flag]] = node;
            g->lags[at[flag]++] = s->waits[w].lag;
        } else {
            g->waiters_first[flag + 1]++;
        }
    }
}

static void enter_all(struct graph *g, int *at) {
    for (int r = 0; r < g->c->problem->n; r++) {
        const struct mt_overlap_schedule *s = g->c->ranks[r].schedule;
        for (int t = 0; t < s->ntiles; t++)
            enter_waits(g, r, tile_node(g, r, t), s->tiles[t].first_wait, s->tiles[t].nwaits, at);
        for (int j = 0; j < s->nputs; j++)
            enter_waits(g, r, put_node(g, r, j), s->puts[j].first_wait, s->puts[j].nwaits, at);
    }
}

static void make(struct graph *g) {
    struct mt_arena *arena = &g->c->arena;
    int n = g->c->problem->n;
    int64_t nflags = (int64_t)n * g->c->nflags;
    g->first = mt_new(arena, int, n + 1);
    for (int r = 0; r < n; r++)
        g->first[r + 1] = g->first[r] + 2 + g->c->ranks[r].schedule->ntiles + g->c->ranks[r].schedule->nputs;
    g->nnodes = g->first[n];
    g->known = mt_new(arena, uint8_t, EPOCHS * g->nnodes * n);
    g->left = mt_new(arena, int, EPOCHS * g->nnodes);
    g->order = mt_new(arena, int64_t, EPOCHS * g->nnodes);
    g->waiters_first = mt_new(arena, int, nflags + 1);
    enter_all(g, NULL);
    for (int64_t f = 0; f < nflags; f++) g->waiters_first[f + 1] += g->waiters_first[f];
    g->waiters = mt_new(arena, int, g->waiters_first[nflags] + 1);
    g->lags = mt_new(arena, int, g->waiters_first[nflags] + 1);
    int *at = mt_new(arena, int, nflags + 1);
    for (int64_t f = 0; f < nflags; f++) at[f] = g->waiters_first[f];
    enter_all(g, at);
}

/* Of an edge: count it, or, on the second pass, tell what `from` knows, and visit `to` if it was the last. Edges of the
 * worker's order alone tell nothing. */
struct pass {
    bool count;
    bool tells;
};
static void edge(struct graph *g, struct pass pass, int from, int from_epoch, int to, int to_epoch) {
    int n = g->c->problem->n;
    int64_t a = from_epoch * g->nnodes + from, b = to_epoch * g->nnodes + to;
    if (to_epoch >= EPOCHS) return;
    if (pass.count) {
        g->left[b]++;
        return;
    }
    for (int r = 0; r < n && pass.tells; r++)
        if (g->known[a * n + r] > g->known[b * n + r]) g->known[b * n + r] = g->known[a * n + r];
    if (!--g->left[b]) g->order[g->norder++] = b;
}

/* The node that one worker takes after `node` of `rank`: puts without a tile, then tiles, each before its puts. */
static int next_of(const struct graph *g, int rank, int node) {
    const struct mt_overlap_schedule *s = g->c->ranks[rank].schedule;
    int i = node - g->first[rank] - 1, after, put;
    if (i < 0) {
        after = -1, put = 0;
    } else if (i < s->ntiles) {
        int low = 0, high = s->nputs; /* the first put of this tile or a later one */
        while (low < high) {
            int middle = (low + high) / 2;
            if (s->puts[middle].tile < i)
                low = middle + 1;
            else
                high = middle;
        }
        after = i, put = low;
    } else {
        put = i - s->ntiles + 1, after = s->puts[put - 1].tile;
    }
    if (put < s->nputs && s->puts[put].tile == after) return put_node(g, rank, put);
    return after + 1 < s->ntiles ? tile_node(g, rank, after + 1) : end_of(g, rank);
}

static void edges_of(struct graph *g, struct pass pass, int rank, int node, int epoch) {
    const struct mt_overlap_schedule *s = g->c->ranks[rank].schedule;
    int i = node - g->first[rank] - 1, begin = begin_of(g, rank), end = end_of(g, rank);
    pass.tells = true;
    if (node == end) {
        edge(g, pass, node, epoch, begin, epoch + 1);
        return;
    }
    if (node == begin) {
        for (int t = 0; t < s->ntiles; t++) edge(g, pass, node, epoch, tile_node(g, rank, t), epoch);
        for (int j = 0; j < s->nputs && s->puts[j].tile < 0; j++)
            edge(g, pass, node, epoch, put_node(g, rank, j), epoch);
    } else {
        edge(g, pass, node, epoch, end, epoch);
    }
    if (i >= s->ntiles) {
        const struct mt_overlap_put *put = &s->puts[i - s->ntiles];
        int64_t flag = (int64_t)put->peer * g->c->nflags + put->flag;
        for (int w = g->waiters_first[flag]; w < g->waiters_first[flag + 1]; w++)
            edge(g, pass, node, epoch, g->waiters[w], epoch + g->lags[w]);
    }
    int next = next_of(g, rank, node);
    /* A tile's own puts know what it knows; else the worker's order tells nothing. */
    for (int put = next; i >= 0 && i < s->ntiles && put < end; put++) {
        int j = put - g->first[rank] - 1 - s->ntiles;
        if (j < 0 || s->puts[j].tile != i) break;
        edge(g, pass, node, epoch, put, epoch);
    }
    pass.tells = false;
    edge(g, pass, node, epoch, next, epoch);
}

static enum mt_status circle(struct graph *g) {
    const struct mt_overlap_checker *c = g->c;
    for (int r = 0; r < c->problem->n; r++) /* the first that never runs, and waits for more than the one before */
        for (int node = begin_of(g, r), before = 0; node != end_of(g, r); node = next_of(g, r, node)) {
            int i = node - g->first[r] - 1, ntiles = c->ranks[r].schedule->ntiles;
            if (g->left[node] && !before)
                return mt_overlap_refuse(c, r, i < ntiles ? i : -1, i < ntiles ? -1 : i - ntiles,
                                         "never runs: what it waits for waits for it");
            before = g->left[node];
        }
    return mt_overlap_refuse(c, 0, -1, -1, "ranks wait for each other from one epoch to the next");
}

enum mt_status mt_overlap_check_order(struct mt_overlap_checker *c) {
    struct graph g = {.c = c};
    int n = c->problem->n, copies = c->ranks[0].schedule->copies;
    make(&g);
    for (int e = 0; e < EPOCHS; e++)
        for (int r = 0; r < n; r++)
            for (int node = g.first[r]; node < g.first[r + 1]; node++)
                edges_of(&g, (struct pass){.count = true}, r, node, e);
    for (int64_t node = 0; node < g.nnodes; node++)
        if (!g.left[node]) g.order[g.norder++] = node;
    for (int64_t i = 0; i < g.norder; i++) {
        int epoch = (int)(g.order[i] / g.nnodes), node = (int)(g.order[i] % g.nnodes), rank = 0;
        while (node >= g.first[rank + 1]) rank++;
        if (node == begin_of(&g, rank)) g.known[g.order[i] * n + rank] = (uint8_t)(epoch + 1);
        edges_of(&g, (struct pass){.count = false}, rank, node, epoch);
    }
    if (g.norder < EPOCHS * g.nnodes) return circle(&g);
    for (int r = 0; r < n; r++)
        for (int j = 0; j < c->ranks[r].schedule->nputs; j++) {
            const struct mt_overlap_put *put = &c->ranks[r].schedule->puts[j];
            int known = g.known[((EPOCHS - 1) * g.nnodes + put_node(&g, r, j)) * n + put->peer];
            if (put->rows && known < EPOCHS - copies + 1)
                return mt_overlap_refuse(c, r, -1, j,
                                         "overwrites what rank %d may still read: nothing tells that it has ended the "
                                         "epoch %d before",
                                         put->peer, copies);
        }
    return MT_OK;
}
