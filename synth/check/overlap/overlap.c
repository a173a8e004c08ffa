/* The proof's steps in turn; the tables' form, on which they rely; refusals. */
#include "synth/check/overlap/overlap.h"

#include <stdio.h>

#include "synth/check/overlap/internal.h"

enum mt_status mt_overlap_refuse(const struct mt_overlap_checker *c, int rank, int tile, int put, const char *format,
                                 ...) {
    char text[400], place[48] = "";
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (tile >= 0) snprintf(place, sizeof place, ", tile %d", tile);
    if (put >= 0) snprintf(place, sizeof place, ", put %d", put);
    return mt_fail(c->err, MT_EPROOF, "%s: rank %d%s: %s", c->what, rank, place, text);
}

static bool inside(const struct mt_overlap *p, int rank, struct mt_overlap_box box) {
    int64_t extent[2];
    if (box.buffer < 0 || box.buffer >= MT_OVERLAP_NBUFFERS) return false;
    mt_overlap_extent(p, rank, box.buffer, extent);
    return box.row >= 0 && box.rows >= 0 && box.row <= extent[0] - box.rows && box.col >= 0 && box.cols >= 0 &&
           box.col <= extent[1] - box.cols;
}

/* All waits of the table, those of no tile and no put too: later steps go through the whole table. */
static enum mt_status check_table(struct mt_overlap_checker *c, int rank) {
    const struct mt_overlap_schedule *s = c->ranks[rank].schedule;
    for (int w = 0; w < s->nwaits; w++) {
        const struct mt_overlap_wait *wait = &s->waits[w];
        if (wait->flag < 0 || wait->flag >= c->nflags || wait->count < 1 || wait->lag < 0 || wait->lag > 1)
            return mt_overlap_refuse(c, rank, -1, -1, "wait %d is for flag %d of %d, %d times, of %d epochs before", w,
                                     wait->flag, c->nflags, wait->count, wait->lag);
    }
    return MT_OK;
}

/* `depth`: columns of A before which they may stand. */
static enum mt_status check_waits(struct mt_overlap_checker *c, int rank, int tile, int put, int64_t depth, int first,
                                  int count) {
    const struct mt_overlap_schedule *s = c->ranks[rank].schedule;
    if (first < 0 || count < 0 || first > s->nwaits - count)
        return mt_overlap_refuse(c, rank, tile, put, "its waits are not in the table");
    for (int w = first; w < first + count; w++)
        if (s->waits[w].k < 0 || (s->waits[w].k && s->waits[w].k >= depth))
            return mt_overlap_refuse(c, rank, tile, put, "awaits flag %d at column %lld of the %lld of A that it reads",
                                     s->waits[w].flag, (long long)s->waits[w].k, (long long)depth);
    return MT_OK;
}

/* Columns of A that a tile reads one after the other. */
static int64_t depth_of(const struct mt_overlap *p, int rank, const struct mt_overlap_tile *tile) {
    if (tile->kind != MT_TILE_MATMUL) return 0;
    return p->form == MT_OVERLAP_GATHER ? p->k : p->shares[rank];
}

/* Devices multiply whole slabs, and some have steps of 64 columns. */
static bool begins_well(const struct mt_overlap *p, const struct mt_overlap_tile *tile) {
    int64_t cols;
    if (!tile->k) return true;
    mt_overlap_slab(p, 0, &cols);
    return tile->kind == MT_TILE_MATMUL && mt_overlap_rotates(p) && tile->k > 0 && tile->k < p->k &&
           tile->k % cols == 0;
}

static void add_write(struct mt_overlap_checker *c, int of, struct mt_overlap_write write) {
    struct mt_overlap_rank *rank = &c->ranks[of];
    mt_arena_grow(&c->arena, &rank->writes, rank->nwrites, &rank->capacity, sizeof *rank->writes);
    rank->writes[rank->nwrites++] = write;
}

/* A rank's table is well formed; list what it writes, its own and others' memory. */
static enum mt_status check_form(struct mt_overlap_checker *c, int rank) {
    const struct mt_overlap *p = c->problem;
    struct mt_overlap_rank *own = &c->ranks[rank];
    const struct mt_overlap_schedule *s = own->schedule;
    int64_t extent[2];
    enum mt_status st = check_table(c, rank);
    if (st) return st;
    if (s->copies != c->ranks[0].schedule->copies || s->copies < 1 || s->copies > MT_OVERLAP_COPIES)
        return mt_overlap_refuse(c, rank, -1, -1, "has %d copies of staging, rank 0 has %d", s->copies,
                                 c->ranks[0].schedule->copies);
    own->tile_write = mt_new(&c->arena, int, s->ntiles + 1);
    own->put_write = mt_new(&c->arena, int, s->nputs + 1);
    for (int t = 0; t < s->ntiles && !st; t++) {
        const struct mt_overlap_tile *tile = &s->tiles[t];
        struct mt_overlap_box box = mt_overlap_tile_box(tile);
        if (!inside(p, rank, box) || tile->rows < 1 || tile->cols < 1)
            return mt_overlap_refuse(c, rank, t, -1, "its rectangle is not in its buffer");
        if (tile->rows > p->tile[0] || tile->cols > p->tile[1])
            return mt_overlap_refuse(c, rank, t, -1, "is %lld by %lld, tiles are at most %lld by %lld",
                                     (long long)tile->rows, (long long)tile->cols, (long long)p->tile[0],
                                     (long long)p->tile[1]);
        mt_overlap_extent(p, rank, tile->to, extent);
        if (tile->kind == MT_TILE_MATMUL &&
            (tile->col % p->tile[1] || (tile->cols < p->tile[1] && tile->col + tile->cols < extent[1])))
            return mt_overlap_refuse(c, rank, t, -1, "multiplies columns %lld to %lld of B, which has blocks of %lld",
                                     (long long)tile->col, (long long)(tile->col + tile->cols), (long long)p->tile[1]);
        if (!begins_well(p, tile))
            return mt_overlap_refuse(c, rank, t, -1, "begins at column %lld of A, which begins no rotated slab",
                                     (long long)tile->k);
        own->tile_write[t] = own->nwrites;
        add_write(c, rank, (struct mt_overlap_write){box, rank, t, -1, -1});
        st = check_waits(c, rank, t, -1, depth_of(p, rank, tile), tile->first_wait, tile->nwaits);
    }
    for (int j = 0; j < s->nputs && !st; j++) {
        const struct mt_overlap_put *put = &s->puts[j];
        struct mt_overlap_box from = {put->from, put->from_row, put->rows, put->col, put->cols},
                              to = {put->to, put->to_row, put->rows, put->col, put->cols};
        if (put->tile < -1 || put->tile >= s->ntiles || (j && put->tile < s->puts[j - 1].tile))
            return mt_overlap_refuse(c, rank, -1, j, "is out of order: after tile %d", put->tile);
        if (put->peer < 0 || put->peer >= p->n || put->flag < 0 || put->flag >= c->nflags)
            return mt_overlap_refuse(c, rank, -1, j, "raises flag %d of rank %d", put->flag, put->peer);
        own->put_write[j] = -1;
        if (put->rows) {
            if (!inside(p, rank, from) || !inside(p, put->peer, to) || !mt_overlap_in_window(put->to))
                return mt_overlap_refuse(c, rank, -1, j, "its boxes are not in their buffers");
            own->put_write[j] = c->ranks[put->peer].nwrites;
            add_write(c, put->peer, (struct mt_overlap_write){to, rank, -1, j, -1});
        }
        st = check_waits(c, rank, -1, j, 0, put->first_wait, put->nwaits);
    }
    return st;
}

enum mt_status mt_check_overlap(const struct mt_overlap *problem, const struct mt_overlap_schedule *schedules,
                                const char *what, struct mt_err *err) {
    struct mt_overlap_checker c = {.problem = problem, .what = what, .err = err, .arena = MT_ARENA_INIT};
    enum mt_status st = mt_overlap_check(problem, err);
    if (st) return st;
    c.ranks = mt_new(&c.arena, struct mt_overlap_rank, problem->n);
    c.nflags = mt_overlap_nflags(problem);
    for (int r = 0; r < problem->n; r++) c.ranks[r].schedule = &schedules[r];
    for (int r = 0; r < problem->n && !st; r++) st = check_form(&c, r);
    if (!st) st = mt_overlap_check_meaning(&c);
    if (!st) st = mt_overlap_check_flags(&c);
    if (!st) st = mt_overlap_check_cover(&c);
    if (!st) st = mt_overlap_check_order(&c);
    mt_arena_release(&c.arena);
    return st;
}
