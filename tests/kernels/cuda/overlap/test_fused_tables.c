/* The tables of one kernel, which need no GPU: what a tile awaits, by the schedule; and tiles that add: each has one of
 * the peer's, at the same place. That no order makes a circle is test_fused_order's. */
#include <stdlib.h>

#include "kernels/base/number/rng.h"
#include "kernels/cuda/overlap/fused/tables.h"
#include "tests/check.h"

enum { RANKS = 2, SLAB = 64, TILE_ROWS = 128, TILE_COLUMNS = 256 };
static const uint64_t seed = 20261127;

struct job {
    struct mt_overlap problem;
    int64_t rows[RANKS], shares[RANKS];
    struct mt_overlap_schedule schedules[RANKS];
    struct cuda_fused_tables tables[RANKS];
};

#define DRAW(i, below) ((int64_t)mt_random_below(seed, (uint64_t)number, (uint64_t)(i), (uint64_t)(below)))
static void pose(struct job *job, enum mt_overlap_form form, int number) {
    bool gather = form == MT_OVERLAP_GATHER;
    *job = (struct job){.problem = {.form = form,
                                    .n = RANKS,
                                    .type = MT_BF16,
                                    .out = MT_BF16,
                                    .wire = MT_BF16,
                                    .tile = {TILE_ROWS, TILE_COLUMNS},
                                    .how = MT_OVERLAP_FUSED}};
    struct mt_overlap *p = &job->problem;
    int64_t sum = 0;
    for (int r = 0; r < RANKS; r++) {
        p->m += job->rows[r] = DRAW(2 * r, 4) ? 1 + DRAW(10 + r, 4000) : 0;
        sum += job->shares[r] = 8 * (1 + DRAW(20 + r, 100));
    }
    p->rows = job->rows, p->shares = job->shares;
    p->k = gather ? 8 * (1 + DRAW(1, 300)) : sum;
    p->cols = gather ? sum : 8 * (1 + DRAW(3, 300));
    p->chunk = DRAW(8, 4) ? 1 + DRAW(4, 1000) : 4000; /* or all rows */
    p->slabs = gather ? (int)DRAW(5, 20) : 0, p->engines = gather && DRAW(7, 3) == 0;
    p->mix = gather ? 0 : (int)DRAW(6, 5);
    struct mt_err err = MT_ERR_INIT;
    CHECK_OK(mt_overlap_check(p, &err), err);
    for (int r = 0; r < RANKS; r++) {
        mt_overlap_schedule(p, r, &job->schedules[r]);
        cuda_fused_tables_make(p, r, &job->schedules[r], 4, number % 2, &job->tables[r]);
    }
}

static void release(struct job *job) {
    for (int r = 0; r < RANKS; r++) {
        mt_overlap_schedule_release(&job->schedules[r]);
        mt_arena_release(&job->tables[r].arena);
    }
}

/* ---- waits in the order of a tile's slabs ---- */

/* The tile of a gather's schedule at a place of the result. */
static const struct mt_overlap_tile *tile_at(const struct mt_overlap_schedule *s, int64_t row, int64_t column) {
    for (int t = 0; t < s->ntiles; t++)
        if (s->tiles[t].kind == MT_TILE_MATMUL && s->tiles[t].row == row && s->tiles[t].col == column)
            return &s->tiles[t];
    return NULL;
}

/* Each wait comes before the tile's first slab, in its order, that has the wait's column. A pair begins with the slab
 * that its second tile begins with. Returns how many pairs begin with a slab after the first one that is that of both
 * tiles. */
static int check_waits(const struct job *job, int me, bool pairs) {
    const struct mt_overlap *p = &job->problem;
    const struct mt_overlap_schedule *s = &job->schedules[me];
    const struct cuda_fused_tables *tables = &job->tables[me];
    int64_t slabs = (p->k + SLAB - 1) / SLAB;
    int together = 0;
    for (int i = 0; i < tables->ntiles; i++) {
        const struct tile_row *row = &tables->tiles[i];
        const struct wait_row *waits = tables->waits + row->first_wait;
        const struct mt_overlap_tile *tile = tile_at(s, row->row + (row->to ? p->rows[0] : 0), row->column);
        if (row->more == EMPTY) continue;
        bool is_first = pairs && i % 2 == 0 && row[1].more != EMPTY;
        CHECK(tile && row->nwaits == tile->nwaits, "tile %d", i);
        CHECK_EQ(row->first, is_first ? row[1].first : tile->k / SLAB);
        together += is_first && tile->k && row->first == tile->k / SLAB;
        for (int w = 0; w < row->nwaits; w++) {
            const struct mt_overlap_wait *wait = NULL;
            for (int v = tile->first_wait; v < tile->first_wait + tile->nwaits; v++)
                if (mt_overlap_flag_place(p, s->waits[v].flag) == waits[w].place) wait = &s->waits[v];
            CHECK(wait && wait->from == waits[w].from && wait->count == waits[w].count, "tile %d, wait %d", i, w);
            CHECK_EQ((row->first + waits[w].slab) % slabs, wait->k / SLAB);
            CHECK(waits[w].slab < slabs && (!w || waits[w].slab >= waits[w - 1].slab), "tile %d, wait %d", i, w);
            for (int v = 0; v < w; v++) CHECK(waits[v].place != waits[w].place, "tile %d, waits %d, %d", i, v, w);
        }
    }
    return together;
}

/* ---- tiles that add ---- */

/* Which tile of a rank's raises a flag of the other's. */
static const struct tile_row *raiser_of(const struct cuda_fused_tables *tables, int peer, int place) {
    const struct tile_row *found = NULL;
    for (int i = 0; i < tables->ntiles; i++)
        for (int s = tables->tiles[i].first_signal; s < tables->tiles[i].first_signal + tables->tiles[i].nsignals;
             s++) {
            if (tables->signals[s].peer != peer || tables->signals[s].place != place) continue;
            CHECK(!found, "two tiles raise a flag");
            found = &tables->tiles[i];
        }
    return found;
}

/* What a tile that adds raises: of an AllReduce the flag of its sum at the peer, which awaits it for its copy. Beside
 * the peer's tile it may await that the peer is ready. */
static void check_sent(const struct job *job, int me, const struct tile_row *own) {
    const struct cuda_fused_tables *mine = &job->tables[me], *theirs = &job->tables[1 - me];
    const struct wait_row *waits = &mine->waits[own->first_ready];
    int copies = 0;
    if (job->problem.form == MT_OVERLAP_SCATTER) {
        CHECK(own->nready == 1 && !own->nsignals);
        return;
    }
    CHECK_EQ(own->nsignals, 1);
    for (int w = 1; w < own->nready; w++) CHECK(waits[w].from == 1 - me && waits[w].lag > 0);
    const struct signal_row *signal = &mine->signals[own->first_signal];
    CHECK_EQ(signal->peer, 1 - me);
    for (int i = 0; i < theirs->nboxes; i++) {
        const struct box_row *box = &theirs->boxes[i];
        if (box->kind != COPY_SUM || theirs->waits[box->first_wait].place != signal->place) continue;
        CHECK_EQ(box->row - (me ? job->problem.rows[0] : 0), own->row);
        CHECK_EQ(box->column, own->column);
        copies++;
    }
    CHECK_EQ(copies, 1);
}

/* All of a rank's own tiles add, each what the peer puts there; nothing else adds. Returns how many. */
static int check_pairs(const struct job *job, int me) {
    const struct mt_overlap *p = &job->problem;
    const struct cuda_fused_tables *mine = &job->tables[me], *theirs = &job->tables[1 - me];
    int64_t across = (p->cols + TILE_COLUMNS - 1) / TILE_COLUMNS, adding = 0, copies = 0;
    for (int i = 0; i < mine->ntiles; i++) {
        const struct tile_row *own = &mine->tiles[i];
        if (!own->adds) continue;
        adding++;
        CHECK(own->nready > 0 && !own->nwaits, "tile %d", i);
        const struct wait_row *wait = &mine->waits[own->first_ready];
        const struct tile_row *other = raiser_of(theirs, me, wait->place);
        CHECK(other && wait->from == 1 - me && wait->count == 1 && !wait->lag, "tile %d", i);
        CHECK(!other->adds && other->to == me && other->row == own->row && other->column == own->column, "tile %d", i);
        for (int j = 0; j < i; j++)
            CHECK(!mine->tiles[j].adds || mine->tiles[j].row != own->row || mine->tiles[j].column != own->column);
        check_sent(job, me, own);
    }
    CHECK_EQ(adding, (p->rows[me] + TILE_ROWS - 1) / TILE_ROWS * across);
    for (int i = 0; i < mine->nboxes; i++) {
        CHECK(mine->boxes[i].kind == PUT || mine->boxes[i].kind == COPY_SUM, "box %d", i);
        copies += mine->boxes[i].kind == COPY_SUM;
    }
    int64_t peers = p->form == MT_OVERLAP_REDUCE ? (p->rows[1 - me] + TILE_ROWS - 1) / TILE_ROWS * across : 0;
    CHECK_EQ(copies, peers);
    return (int)adding;
}

/* Of a part of a schedule without products all sums and copies are movers'. */
static void check_part(const struct job *job, int me, bool pairs) {
    const struct mt_overlap_schedule *s = &job->schedules[me];
    struct mt_overlap_schedule part = *s;
    struct cuda_fused_tables tables = {0};
    int kept = 0;
    part.tiles = mt_calloc((size_t)s->ntiles + 1, sizeof *part.tiles);
    for (int t = 0; t < s->ntiles; t++) {
        struct mt_overlap_tile tile = s->tiles[t];
        if (tile.kind == MT_TILE_MATMUL) continue;
        if (tile.kind == MT_TILE_ADD) tile.to = MT_OVERLAP_OUT;
        tile.nwaits = 0;
        part.tiles[kept++] = tile;
    }
    part.ntiles = kept, part.nputs = 0;
    cuda_fused_tables_make(&job->problem, me, &part, 4, pairs, &tables);
    CHECK_EQ(tables.ntiles, 0);
    CHECK_EQ(tables.nboxes, kept);
    for (int i = 0; i < tables.nboxes; i++) CHECK(tables.boxes[i].kind == SUM || tables.boxes[i].kind == COPY_SUM);
    free(part.tiles);
    mt_arena_release(&tables.arena);
}

int main(void) {
    int adding = 0, without = 0, waiting = 0, together = 0;
    for (int number = 0; number < 300; number++) {
        struct job job;
        pose(&job, MT_OVERLAP_GATHER, number);
        for (int r = 0; r < RANKS; r++) together += check_waits(&job, r, number % 2);
        for (int i = 0; i < job.tables[0].ntiles; i++) waiting += job.tables[0].tiles[i].first > 0;
        release(&job);
        pose(&job, number % 2 ? MT_OVERLAP_SCATTER : MT_OVERLAP_REDUCE, number);
        CHECK(mt_overlap_fused_adds(&job.problem), "job %d", number);
        for (int r = 0; r < RANKS; r++) {
            check_part(&job, r, number % 2);
            int count = check_pairs(&job, r);
            adding += count, without += !count;
        }
        release(&job);
    }
    CHECK(adding > 1000 && without > 20 && waiting > 1000 && together > 50,
          "%d tiles add, %d ranks have none, %d tiles begin late, %d pairs both of them", adding, without, waiting,
          together);
    return 0;
}
