/* Chunks, in two passes: tiles of the same rows that follow each other in columns make a strip; strips that follow each
 * other in rows make a chunk. */
#include "kernels/overlap/chunk.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/overlap/internal.h"

enum { TILE_ROWS = 128, TILE_COLS = 256, CHUNKS = 8 };

int64_t mt_overlap_chunk_rows(const struct mt_overlap *p, int me, int workers) {
    int64_t cols = p->form == MT_OVERLAP_GATHER ? p->shares[me] : p->cols;
    int64_t across = mt_overlap_pieces(cols > 0 ? cols : 1, TILE_COLS), wave = TILE_ROWS * (workers / across);
    if (wave < TILE_ROWS) wave = TILE_ROWS;
    return wave * mt_overlap_pieces(p->m > 0 ? p->m : 1, CHUNKS * wave);
}

/* A growing rectangle of tiles. */
struct part {
    struct mt_overlap_tile box;
    int chunk; /* of a strip: which it joined; of a chunk: itself */
};

struct work {
    const struct mt_overlap_schedule *schedule;
    struct part *strips, *chunks;
    int *strip_of; /* [ntiles] */
    int nstrips, nchunks;
};

static bool same_source(const struct mt_overlap_tile *a, const struct mt_overlap_tile *b) {
    return a->kind == b->kind && a->from == b->from && a->to == b->to && a->from_row - a->row == b->from_row - b->row;
}

/* The last strip that the tile continues, or -1. A tile that awaits something may only continue the last of all. */
static int strip_for(const struct work *w, const struct mt_overlap_tile *tile) {
    for (int s = w->nstrips - 1; s >= 0 && tile->col; s--) {
        const struct mt_overlap_tile *box = &w->strips[s].box;
        if (same_source(box, tile) && box->row == tile->row && box->rows == tile->rows &&
            box->col + box->cols == tile->col)
            return s;
        if (tile->nwaits) break;
    }
    return -1;
}

static void make_strips(struct work *w) {
    for (int t = 0; t < w->schedule->ntiles; t++) {
        const struct mt_overlap_tile *tile = &w->schedule->tiles[t];
        int s = strip_for(w, tile);
        if (s < 0)
            w->strips[s = w->nstrips++].box = *tile, w->strips[s].box.k = 0;
        else
            w->strips[s].box.cols += tile->cols, w->strips[s].box.nwaits += tile->nwaits;
        w->strip_of[t] = s;
    }
}

static void make_chunks(struct work *w, int64_t most_rows) {
    for (int s = 0; s < w->nstrips; s++) {
        struct part *strip = &w->strips[s];
        int found = -1;
        for (int c = w->nchunks - 1; c >= 0 && found < 0; c--) {
            const struct mt_overlap_tile *box = &w->chunks[c].box;
            if (same_source(box, &strip->box) && box->col == strip->box.col && box->cols == strip->box.cols &&
                box->row + box->rows == strip->box.row && box->rows + strip->box.rows <= most_rows)
                found = c;
            if (strip->box.nwaits) break;
        }
        if (found < 0)
            w->chunks[found = w->nchunks++].box = strip->box;
        else
            w->chunks[found].box.rows += strip->box.rows;
        strip->chunk = found;
    }
}

/* ---- what a chunk awaits, and puts ---- */

/* Add waits [first, + count) of the schedule to those of the entry that began at `begin`, each flag once: a chunk's
 * GEMM begins after all of them. */
static void add_waits(const struct mt_overlap_schedule *s, int first, int count, int begin,
                      struct mt_overlap_chunks *out) {
    for (int w = first; w < first + count; w++) {
        struct mt_overlap_wait wait = s->waits[w];
        int known = begin;
        wait.k = 0;
        while (known < out->nwaits && memcmp(&out->waits[known], &wait, sizeof wait)) known++;
        if (known < out->nwaits) continue;
        mt_arena_grow(&out->arena, &out->waits, out->nwaits, &out->waits_capacity, sizeof *out->waits);
        out->waits[out->nwaits++] = wait;
    }
}

static bool same_move(const struct mt_overlap_put *a, const struct mt_overlap_put *b) {
    if (a->peer != b->peer || !a->rows != !b->rows) return false;
    return !a->rows || (a->from == b->from && a->to == b->to && a->to_row - a->from_row == b->to_row - b->from_row);
}

static void widen(struct mt_overlap_put *box, const struct mt_overlap_put *by) {
    int64_t row = box->from_row < by->from_row ? box->from_row : by->from_row;
    int64_t col = box->col < by->col ? box->col : by->col;
    int64_t row_end = box->from_row + box->rows, col_end = box->col + box->cols;
    if (by->from_row + by->rows > row_end) row_end = by->from_row + by->rows;
    if (by->col + by->cols > col_end) col_end = by->col + by->cols;
    box->to_row += row - box->from_row, box->from_row = row, box->rows = row_end - row;
    box->col = col, box->cols = col_end - col;
}

/* One put for all of `puts` that are like the first of them that is not taken yet; -1: all are. They are merged if they
 * fill a rectangle, else the first goes alone. */
static int add_move(const struct mt_overlap_schedule *s, const int *puts, int count, bool *taken,
                    struct mt_overlap_chunks *out) {
    int first = 0;
    while (first < count && taken[first]) first++;
    if (first == count) return -1;
    struct mt_overlap_move move = {.box = s->puts[puts[first]], .first_flag = out->nflags};
    int64_t area = 0;
    for (int i = first; i < count; i++) {
        const struct mt_overlap_put *put = &s->puts[puts[i]];
        if (taken[i] || !same_move(&s->puts[puts[first]], put)) continue;
        widen(&move.box, put);
        area += put->rows * put->cols;
    }
    bool whole = !move.box.rows || area == move.box.rows * move.box.cols;
    if (!whole) move.box = s->puts[puts[first]];
    move.box.first_wait = out->nwaits;
    for (int i = first; i < (whole ? count : first + 1); i++) {
        const struct mt_overlap_put *put = &s->puts[puts[i]];
        if (taken[i] || !same_move(&s->puts[puts[first]], put)) continue;
        taken[i] = true;
        add_waits(s, put->first_wait, put->nwaits, move.box.first_wait, out);
        mt_arena_grow(&out->arena, &out->flags, out->nflags, &out->flags_capacity, sizeof *out->flags);
        out->flags[out->nflags++] = put->flag;
        move.nflags++;
    }
    move.box.nwaits = out->nwaits - move.box.first_wait;
    if (move.nflags > out->most_flags) out->most_flags = move.nflags;
    mt_arena_grow(&out->arena, &out->puts, out->nputs, &out->puts_capacity, sizeof *out->puts);
    out->puts[out->nputs] = move;
    return out->nputs++;
}

/* Puts of the start stay as they are: their sizes are the sender's choice. */
static void add_start(const struct mt_overlap_schedule *s, struct mt_overlap_chunks *out) {
    for (int j = 0; j < s->nputs && s->puts[j].tile < 0; j++) {
        bool taken = false;
        add_move(s, &j, 1, &taken, out);
    }
    out->nstart = out->nputs;
}

static void add_chunk(const struct work *w, int c, int *puts, bool *taken, struct mt_overlap_chunks *out) {
    const struct mt_overlap_schedule *s = w->schedule;
    struct mt_overlap_chunk chunk = {.box = w->chunks[c].box, .first_put = out->nputs};
    int count = 0, j = 0;
    chunk.box.first_wait = out->nwaits;
    for (int t = 0; t < s->ntiles; t++) {
        bool mine = w->strips[w->strip_of[t]].chunk == c;
        if (mine) add_waits(s, s->tiles[t].first_wait, s->tiles[t].nwaits, chunk.box.first_wait, out);
        for (; j < s->nputs && s->puts[j].tile <= t; j++)
            if (mine && s->puts[j].tile == t) taken[count] = false, puts[count++] = j;
    }
    chunk.box.nwaits = out->nwaits - chunk.box.first_wait;
    while (add_move(s, puts, count, taken, out) >= 0) chunk.nputs++;
    mt_arena_grow(&out->arena, &out->chunks, out->nchunks, &out->chunks_capacity, sizeof *out->chunks);
    out->chunks[out->nchunks++] = chunk;
}

void mt_overlap_chunks_make(const struct mt_overlap_schedule *schedule, int64_t most_rows,
                            struct mt_overlap_chunks *out) {
    size_t n = (size_t)schedule->ntiles + 1;
    struct work w = {.schedule = schedule,
                     .strips = mt_calloc(n, sizeof *w.strips),
                     .chunks = mt_calloc(n, sizeof *w.chunks),
                     .strip_of = mt_calloc(n, sizeof *w.strip_of)};
    int *puts = mt_calloc((size_t)schedule->nputs + 1, sizeof *puts);
    bool *taken = mt_calloc((size_t)schedule->nputs + 1, sizeof *taken);
    *out = (struct mt_overlap_chunks){.most_flags = 0};
    make_strips(&w);
    make_chunks(&w, most_rows);
    add_start(schedule, out);
    for (int c = 0; c < w.nchunks; c++) add_chunk(&w, c, puts, taken, out);
    free(w.strips);
    free(w.chunks);
    free(w.strip_of);
    free(puts);
    free(taken);
}

void mt_overlap_chunks_release(struct mt_overlap_chunks *chunks) {
    mt_arena_release(&chunks->arena);
    *chunks = (struct mt_overlap_chunks){.most_flags = 0};
}
