/* Rectangles: writes of an epoch do not overlap, results are covered, and so is everything that is read, by writes that
 * are known to be done.
 *
 * Since writes do not overlap, a box is covered where the parts of it that known writes cover have its area; each write
 * counts once. A GEMM's tile reads column after column of A, from its position in K on and then from 0 to there: those
 * up to the position of a wait must be covered by what the waits before it, in that order, stand for. */
#include <stdlib.h>

#include "synth/check/overlap/internal.h"

static int64_t most(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t common_area(const struct mt_overlap_box *a, const struct mt_overlap_box *b) {
    if (a->buffer != b->buffer) return 0;
    int64_t rows = least(a->row + a->rows, b->row + b->rows) - most(a->row, b->row);
    int64_t cols = least(a->col + a->cols, b->col + b->cols) - most(a->col, b->col);
    return rows > 0 && cols > 0 ? rows * cols : 0;
}

static int by_row(const void *left, const void *right) {
    const struct mt_overlap_write *a = *(struct mt_overlap_write *const *)left,
                                  *b = *(struct mt_overlap_write *const *)right;
    if (a->box.buffer != b->box.buffer) return a->box.buffer < b->box.buffer ? -1 : 1;
    if (a->box.row != b->box.row) return a->box.row < b->box.row ? -1 : 1;
    if (a->box.col != b->box.col) return a->box.col < b->box.col ? -1 : 1;
    return (a > b) - (a < b);
}

static enum mt_status check_disjoint(struct mt_overlap_checker *c, int r) {
    struct mt_overlap_rank *rank = &c->ranks[r];
    struct mt_overlap_write **sorted = mt_new(&c->arena, struct mt_overlap_write *, rank->nwrites + 1);
    int64_t out[MT_OVERLAP_NBUFFERS] = {0}, extent[2];
    for (int i = 0; i < rank->nwrites; i++) {
        sorted[i] = &rank->writes[i];
        out[sorted[i]->box.buffer] += sorted[i]->box.rows * sorted[i]->box.cols;
    }
    qsort(sorted, (size_t)rank->nwrites, sizeof *sorted, by_row);
    for (int i = 0; i < rank->nwrites; i++)
        for (int j = i + 1; j < rank->nwrites && sorted[j]->box.buffer == sorted[i]->box.buffer &&
                            sorted[j]->box.row < sorted[i]->box.row + sorted[i]->box.rows;
             j++)
            if (common_area(&sorted[i]->box, &sorted[j]->box))
                return mt_overlap_refuse(c, sorted[j]->by, sorted[j]->tile, sorted[j]->put,
                                         "writes into rank %d what %s %d of rank %d writes as well", r,
                                         sorted[i]->tile >= 0 ? "tile" : "put",
                                         sorted[i]->tile >= 0 ? sorted[i]->tile : sorted[i]->put, sorted[i]->by);
    for (enum mt_overlap_buffer b = MT_OVERLAP_OUT; b <= MT_OVERLAP_WHOLE; b++) {
        mt_overlap_extent(c->problem, r, b, extent);
        if (out[b] != extent[0] * extent[1])
            return mt_overlap_refuse(c, r, -1, -1, "tiles cover %lld of the %lld elements of its result",
                                     (long long)out[b], (long long)(extent[0] * extent[1]));
    }
    return MT_OK;
}

/* A read by a tile or a put of `rank`. */
struct read {
    struct mt_overlap_checker *c;
    int rank, tile, put;
    struct mt_overlap_box box;
    int64_t left; /* elements that nothing known covers */
    /* Of a GEMM's tile: how many columns of A it reads in all, from which on; only the waits that it comes to before it
     * has read more than `upto` count. */
    int64_t depth, begin, upto;
};

/* How many columns a tile has read when it comes to column k. */
static int64_t read_before(const struct read *read, int64_t k) {
    return k < read->begin ? k - read->begin + read->depth : k - read->begin;
}

static void take(struct read *read, int write) {
    struct mt_overlap_write *w = &read->c->ranks[read->rank].writes[write];
    if (w->seen == read->c->nreads) return;
    w->seen = read->c->nreads;
    read->left -= common_area(&w->box, &read->box);
}

/* The writes that awaited flags stand for: those of the puts that raise them, and, of this rank's own puts, those of
 * their tiles. */
static void take_awaited(struct read *read, int first, int count) {
    const struct mt_overlap_rank *rank = &read->c->ranks[read->rank];
    for (int w = first; w < first + count; w++) {
        const struct mt_overlap_wait *wait = &rank->schedule->waits[w];
        const struct mt_overlap_raised *flag = &rank->flags[wait->flag];
        if (wait->lag || read_before(read, wait->k) > read->upto) continue;
        const struct mt_overlap_rank *by = &read->c->ranks[flag->by];
        for (int i = 0; i < flag->count; i++) {
            int put = read->c->raisers[flag->first + i], tile = by->schedule->puts[put].tile;
            if (by->put_write[put] >= 0) take(read, by->put_write[put]);
            if (flag->by == read->rank && tile >= 0) take(read, rank->tile_write[tile]);
        }
    }
}

static enum mt_status check_read(struct read *read) {
    const struct mt_overlap_schedule *s = read->c->ranks[read->rank].schedule;
    if (read->box.buffer == MT_OVERLAP_A) return MT_OK;
    read->left = read->box.rows * read->box.cols;
    read->c->nreads++;
    int tile = read->tile;
    if (read->put >= 0) {
        const struct mt_overlap_put *put = &s->puts[read->put];
        take_awaited(read, put->first_wait, put->nwaits);
        tile = put->tile;
        read->upto = INT64_MAX; /* it follows the whole tile */
        if (tile >= 0) take(read, read->c->ranks[read->rank].tile_write[tile]);
    }
    if (tile >= 0) take_awaited(read, s->tiles[tile].first_wait, s->tiles[tile].nwaits);
    if (read->left)
        return mt_overlap_refuse(read->c, read->rank, read->tile, read->put,
                                 "reads %lld elements that no flag it awaits says are there", (long long)read->left);
    return MT_OK;
}

/* The columns between two positions of its waits, or of the end of K, after those up to the first. */
static enum mt_status check_columns(struct read *read) {
    const struct mt_overlap_schedule *s = read->c->ranks[read->rank].schedule;
    const struct mt_overlap_tile *tile = &s->tiles[read->tile];
    enum mt_status st = MT_OK;
    for (int64_t from = 0, to, end = read->depth - read->begin; from < read->depth && !st; from = to) {
        to = from < end ? end : read->depth;
        for (int w = tile->first_wait; w < tile->first_wait + tile->nwaits; w++) {
            int64_t at = read_before(read, s->waits[w].k);
            if (at > from) to = least(to, at);
        }
        read->box.col = from < end ? read->begin + from : from - end;
        read->box.cols = to - from, read->upto = from;
        st = check_read(read);
    }
    return st;
}

static enum mt_status check_tile_reads(struct mt_overlap_checker *c, int r, int t) {
    const struct mt_overlap *p = c->problem;
    const struct mt_overlap_tile *tile = &c->ranks[r].schedule->tiles[t];
    struct read read = {.c = c, .rank = r, .tile = t, .put = -1};
    int64_t first, owned = mt_overlap_owned(p, r, &first);
    enum mt_status st = MT_OK;
    read.box = (struct mt_overlap_box){tile->from, tile->from_row, tile->rows, tile->col, tile->cols};
    if (tile->kind == MT_TILE_MATMUL) {
        if (tile->from == MT_OVERLAP_A) return MT_OK;
        read.depth = p->k, read.begin = tile->k; /* STAGED */
        return check_columns(&read);
    }
    if (tile->kind != MT_TILE_ADD) return check_read(&read);
    for (int s = 0; s < p->n && !st; s++) {
        if (!mt_overlap_contributes(p, s)) continue;
        read.box.row = s * owned + tile->from_row;
        st = check_read(&read);
    }
    return st;
}

enum mt_status mt_overlap_check_cover(struct mt_overlap_checker *c) {
    enum mt_status st = MT_OK;
    for (int r = 0; r < c->problem->n && !st; r++) st = check_disjoint(c, r);
    for (int r = 0; r < c->problem->n && !st; r++) {
        const struct mt_overlap_schedule *s = c->ranks[r].schedule;
        for (int t = 0; t < s->ntiles && !st; t++) st = check_tile_reads(c, r, t);
        for (int j = 0; j < s->nputs && !st; j++) {
            const struct mt_overlap_put *put = &s->puts[j];
            struct read read = {.c = c, .rank = r, .tile = -1, .put = j};
            read.box = (struct mt_overlap_box){put->from, put->from_row, put->rows, put->col, put->cols};
            if (put->rows) st = check_read(&read);
        }
    }
    return st;
}
