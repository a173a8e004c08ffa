/* Waves: each put's number follows from what its rank awaits before it, which are other ranks' puts: the numbers are
 * raised until none changes. Sums await GEMMs, and copies sums, so three passes do. */
#include "kernels/overlap/wave.h"

#include <assert.h>
#include <stdlib.h>

#include "kernels/overlap/internal.h"

enum { WORKERS = 132, MOST = 32 /* waves of a rank's puts of the start, and of those of its chunks */ };

struct rank {
    struct mt_overlap_schedule schedule;
    struct mt_overlap_chunks chunks;
    int *wave;    /* [nputs]; -1: nothing is sent */
    int *needs;   /* [nchunks] */
    int *arrives; /* [flags]: the wave that raises it; -1: none */
};

struct work {
    const struct mt_overlap *problem;
    struct rank *ranks;
};

static int largest(int a, int b) {
    return a > b ? a : b;
}

static bool sends(const struct mt_overlap_move *move) {
    return move->box.rows && move->box.cols;
}

/* Give a put its wave; whether that is another than before. */
static bool give(struct work *w, int r, int put, int wave) {
    struct rank *rank = &w->ranks[r];
    const struct mt_overlap_move *move = &rank->chunks.puts[put];
    bool changed = rank->wave[put] != wave;
    rank->wave[put] = wave;
    for (int f = move->first_flag; f < move->first_flag + move->nflags; f++)
        w->ranks[move->box.peer].arrives[rank->chunks.flags[f]] = wave;
    return changed;
}

static bool give_start(struct work *w, int r) {
    const struct mt_overlap_chunks *chunks = &w->ranks[r].chunks;
    int count = 0, number = 0;
    bool changed = false;
    for (int j = 0; j < chunks->nstart; j++) count += sends(&chunks->puts[j]);
    int each = (int)mt_overlap_pieces(largest(count, 1), MOST);
    for (int j = 0; j < chunks->nstart; j++)
        if (sends(&chunks->puts[j])) changed |= give(w, r, j, number++ / each);
    return changed;
}

/* How many waves come before a chunk. */
static int need(const struct rank *rank, const struct mt_overlap_chunk *chunk) {
    int most = 0;
    for (int i = chunk->box.first_wait; i < chunk->box.first_wait + chunk->box.nwaits; i++) {
        const struct mt_overlap_wait *wait = &rank->chunks.waits[i];
        if (!wait->lag) most = largest(most, rank->arrives[wait->flag] + 1);
    }
    return most;
}

static bool has_puts(const struct rank *rank, const struct mt_overlap_chunk *chunk) {
    bool any = false;
    for (int j = chunk->first_put; j < chunk->first_put + chunk->nputs; j++) any |= sends(&rank->chunks.puts[j]);
    return any;
}

static bool give_rank(struct work *w, int r) {
    struct rank *rank = &w->ranks[r];
    int count = 0, needs = 0, wave = 0, filled = 0;
    bool changed = give_start(w, r);
    for (int c = 0; c < rank->chunks.nchunks; c++) count += has_puts(rank, &rank->chunks.chunks[c]);
    int each = (int)mt_overlap_pieces(largest(count, 1), MOST); /* chunks */
    for (int c = 0; c < rank->chunks.nchunks; c++) {
        const struct mt_overlap_chunk *chunk = &rank->chunks.chunks[c];
        needs = largest(needs, need(rank, chunk));
        changed |= rank->needs[c] != needs;
        rank->needs[c] = needs;
        if (!has_puts(rank, chunk)) continue;
        if (needs > wave)
            wave = needs, filled = 0;
        else if (filled == each)
            wave++, filled = 0;
        filled++;
        for (int j = chunk->first_put; j < chunk->first_put + chunk->nputs; j++)
            if (sends(&rank->chunks.puts[j])) changed |= give(w, r, j, wave);
    }
    return changed;
}

static void make_rank(const struct mt_overlap *p, int r, int64_t most_rows, struct rank *rank) {
    int nflags = mt_overlap_nflags(p);
    mt_overlap_schedule(p, r, &rank->schedule);
    mt_overlap_chunks_make(&rank->schedule, most_rows, &rank->chunks);
    rank->wave = mt_calloc((size_t)rank->chunks.nputs + 1, sizeof *rank->wave);
    rank->needs = mt_calloc((size_t)rank->chunks.nchunks + 1, sizeof *rank->needs);
    rank->arrives = mt_calloc((size_t)nflags + 1, sizeof *rank->arrives);
    for (int j = 0; j < rank->chunks.nputs; j++) rank->wave[j] = -1;
    for (int f = 0; f < nflags; f++) rank->arrives[f] = -1;
}

static void release_rank(struct rank *rank) {
    mt_overlap_schedule_release(&rank->schedule);
    mt_overlap_chunks_release(&rank->chunks);
    free(rank->wave);
    free(rank->needs);
    free(rank->arrives);
}

/* ---- one rank's part ---- */

static void add(struct mt_overlap_waves *out, int peer, bool is_sent, const struct mt_overlap_put *box) {
    mt_arena_grow(&out->arena, &out->transfers, out->ntransfers, &out->transfers_capacity, sizeof *out->transfers);
    out->transfers[out->ntransfers++] = (struct mt_overlap_transfer){peer, is_sent, *box};
}

/* What rank `me` has to do with rank r's puts of a wave. */
static void add_of(const struct rank *rank, int r, int me, int wave, struct mt_overlap_waves *out) {
    for (int j = 0; j < rank->chunks.nputs; j++) {
        const struct mt_overlap_put *box = &rank->chunks.puts[j].box;
        if (rank->wave[j] != wave) continue;
        if (r == me) add(out, box->peer, true, box);
        if (box->peer == me) add(out, r, false, box);
    }
}

/* After how many chunks of `me` all its puts of a wave are computed. */
static int chunks_of(const struct rank *rank, int wave) {
    int count = 0;
    for (int c = 0; c < rank->chunks.nchunks; c++) {
        const struct mt_overlap_chunk *chunk = &rank->chunks.chunks[c];
        for (int j = chunk->first_put; j < chunk->first_put + chunk->nputs; j++)
            if (rank->wave[j] == wave) count = c + 1;
    }
    return count;
}

static void collect(const struct work *w, int me, struct mt_overlap_waves *out) {
    const struct rank *mine = &w->ranks[me];
    int n = w->problem->n;
    for (int r = 0; r < n; r++)
        for (int j = 0; j < w->ranks[r].chunks.nputs; j++) out->nwaves = largest(out->nwaves, w->ranks[r].wave[j] + 1);
    out->end = mt_new(&out->arena, int, out->nwaves + 1);
    out->after = mt_new(&out->arena, int, out->nwaves + 1);
    out->needs = mt_arena_memdup(&out->arena, mine->needs, (size_t)(mine->chunks.nchunks + 1) * sizeof *out->needs);
    for (int wave = 0; wave < out->nwaves; wave++) {
        for (int r = 0; r < n; r++) add_of(&w->ranks[r], r, me, wave, out);
        out->end[wave] = out->ntransfers;
        out->after[wave] = largest(chunks_of(mine, wave), wave ? out->after[wave - 1] : 0);
    }
}

void mt_overlap_waves_make(const struct mt_overlap *p, int me, int64_t most_rows, struct mt_overlap_waves *out) {
    struct work w = {.problem = p, .ranks = mt_calloc((size_t)p->n, sizeof *w.ranks)};
    *out = (struct mt_overlap_waves){.nwaves = 0};
    for (int r = 0; r < p->n; r++) make_rank(p, r, most_rows, &w.ranks[r]);
    for (bool changed = true; changed;) {
        changed = false;
        for (int r = 0; r < p->n; r++) changed |= give_rank(&w, r);
    }
    collect(&w, me, out);
    out->chunks = w.ranks[me].chunks;
    w.ranks[me].chunks = (struct mt_overlap_chunks){.nchunks = 0};
    for (int r = 0; r < p->n; r++) release_rank(&w.ranks[r]);
    free(w.ranks);
}

void mt_overlap_waves_release(struct mt_overlap_waves *waves) {
    mt_overlap_chunks_release(&waves->chunks);
    mt_arena_release(&waves->arena);
    *waves = (struct mt_overlap_waves){.nwaves = 0};
}

int64_t mt_overlap_common_rows(const struct mt_overlap *p) {
    int busiest = 0;
    for (int r = 0; r < p->n; r++)
        if (p->shares[r] > p->shares[busiest]) busiest = r;
    return p->ngroups ? 1 : mt_overlap_chunk_rows(p, busiest, WORKERS);
}
