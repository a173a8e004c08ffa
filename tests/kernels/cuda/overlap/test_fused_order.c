/* The tables of one kernel (kernels/cuda/overlap/fused/tables.c), without a GPU: the kernels of all ranks are simulated
 * in random order, with any number of blocks and movers, and must end, whatever comes when; so waits have no circle,
 * those of tiles that add what a peer sends in the same epoch among them. What ranks add covers their rows of the sum
 * once. Some ranks have tiles in pairs, of which a cluster takes one at a time: they agree, and have each tile once. */
#include <stdbool.h>
#include <stdlib.h>

#include "kernels/base/number/rng.h"
#include "kernels/cuda/overlap/fused/tables.h"
#include "tests/check.h"

enum { RANKS = 4, AGENTS = 136, PROBLEMS = 400 };
static const uint64_t seed = 20261127;

static uint64_t stream, drawn;
static int draw(int bound) {
    return (int)(mt_random_u32(seed, stream, drawn++) % (uint32_t)bound);
}

/* ---- kernels ---- */

enum doing { TAKES, LOADS, STORES, MOVES, ENDED };
struct agent { /* a block that multiplies, or a cluster of two, and then moves; one that puts; or a mover */
    enum doing doing;
    bool puts;
    int row;    /* of a tile, the first of a pair, or piece */
    int unsaid; /* the tile before, whose flags are raised while this one is multiplied; -1: none */
    int next;   /* few.cu: the tile that comes next */
};
struct rank {
    struct mt_overlap_schedule schedule;
    struct cuda_fused_tables tables;
    struct agent agents[AGENTS];
    int nagents, tiles, puts, pieces; /* taken */
    int nblocks;                      /* that multiply */
    int each;                         /* tiles at a time: 2 in pairs */
    bool few;                         /* few.cu: a tile's flags are raised before it is added to */
    int *flags, *moved;               /* moved: pieces of a box */
};

/* Of epoch 1: what is for the epoch before is there. */
static bool there(const struct rank *r, int first, int count) {
    for (int w = first; w < first + count; w++) {
        const struct wait_row *wait = &r->tables.waits[w];
        if (r->flags[wait->place / 8] < (1 - wait->lag) * wait->count) return false;
    }
    return true;
}

static void raise_all(struct rank *ranks, const struct rank *r, int first, int count) {
    for (int i = first; i < first + count; i++)
        ranks[r->tables.signals[i].peer].flags[r->tables.signals[i].place / 8]++;
}

static void take_piece(struct rank *r, struct agent *a) {
    int *taken = a->puts ? &r->puts : &r->pieces;
    a->row = *taken;
    a->doing = *taken < (a->puts ? r->tables.nputs : r->tables.npieces) ? MOVES : ENDED;
    *taken += a->doing == MOVES;
}

static void say(struct rank *ranks, const struct rank *r, struct agent *a) {
    for (int i = 0; i < r->each && a->unsaid >= 0; i++) {
        const struct tile_row *t = &r->tables.tiles[a->unsaid + i];
        raise_all(ranks, r, t->first_signal, t->nsignals);
    }
    a->unsaid = -1;
}

/* Tiles are given out by a counter; but in few.cu each cluster has its own, the same number apart. */
static void take_tile(struct rank *ranks, struct rank *r, struct agent *a) {
    int *next = r->few ? &a->next : &r->tiles;
    if (*next >= r->tables.ntiles) {
        say(ranks, r, a);
        take_piece(r, a);
        return;
    }
    a->row = *next, a->doing = LOADS;
    *next += r->few ? r->nblocks : r->each;
}

/* What all tiles await that the agent has. */
static bool all_there(const struct rank *r, const struct agent *a) {
    bool all = true;
    for (int i = 0; i < r->each; i++) {
        const struct tile_row *t = &r->tables.tiles[a->row + i];
        all &= a->doing == LOADS ? there(r, t->first_wait, t->nwaits) : there(r, t->first_ready, t->nready);
    }
    return all;
}

/* One step; false: it waits, or has ended. */
static bool step(struct rank *ranks, struct rank *r, struct agent *a) {
    const struct tile_row *t = &r->tables.tiles[a->row];
    switch (a->doing) {
    case TAKES: take_tile(ranks, r, a); return true;
    case LOADS:
        if (!all_there(r, a)) return false;
        say(ranks, r, a);
        if (r->few) raise_all(ranks, r, t->first_signal, t->nsignals);
        a->doing = STORES;
        return true;
    case STORES:
        if (!all_there(r, a)) return false;
        a->unsaid = r->few ? -1 : a->row;
        take_tile(ranks, r, a);
        return true;
    case MOVES: {
        int b = r->tables.pieces[a->row].box;
        const struct box_row *box = &r->tables.boxes[b];
        if (!there(r, box->first_wait, box->nwaits)) return false;
        if (++r->moved[b] == box->pieces) raise_all(ranks, r, box->first_signal, box->nsignals);
        take_piece(r, a);
        return true;
    }
    case ENDED: break;
    }
    return false;
}

/* After an epoch all flags are there that anything of it or of the next awaits; but none of a rank's own where tiles
 * add, or rows are few: those await only peers. */
static void check_flags(const struct rank *r, const struct mt_overlap *p, int me) {
    for (int w = 0; w < r->tables.nwaits; w++) {
        const struct wait_row *wait = &r->tables.waits[w];
        if (wait->from == me && (r->few || mt_overlap_fused_adds(p))) continue;
        CHECK(r->flags[wait->place / 8] == wait->count, "%s of %lld by %lld by %lld: rank %d has %d of %d from %d",
              mt_overlap_name(p->form), (long long)p->m, (long long)p->cols, (long long)p->k, me,
              r->flags[wait->place / 8], wait->count, wait->from);
    }
}

static void simulate(struct rank *ranks, int n, const struct mt_overlap *p) {
    for (int r = 0; r < n; r++) {
        struct rank *rank = &ranks[r];
        int blocks = 1 + draw(draw(2) ? 3 : AGENTS - 4);
        int putters = cuda_fused_has_putter(p);
        rank->nagents = blocks + putters + 1 + draw(3), rank->tiles = rank->puts = 0;
        rank->nblocks = blocks;
        rank->pieces = rank->tables.nputs;
        rank->few = mt_overlap_fused_few(p);
        memset(rank->flags, 0, (size_t)mt_overlap_nflags(p) * sizeof *rank->flags);
        memset(rank->moved, 0, (size_t)rank->tables.nboxes * sizeof *rank->moved);
        for (int i = 0; i < rank->nagents; i++) {
            rank->agents[i] = (struct agent){TAKES, i >= blocks && i < blocks + putters, 0, -1, i};
            if (i >= blocks) take_piece(rank, &rank->agents[i]);
        }
    }
    for (int r = 0; r < n; r++) { /* what few.cu puts of A is in no table, and awaits nothing */
        const struct mt_overlap_schedule *s = &ranks[r].schedule;
        for (int j = 0; j < s->nputs && ranks[r].few && s->puts[j].tile < 0; j++)
            ranks[s->puts[j].peer].flags[mt_overlap_flag_place(p, s->puts[j].flag) / 8]++;
    }
    for (bool any = true; any;) {
        any = false;
        for (int tries = 0; tries < 64 * n; tries++) {
            struct rank *r = &ranks[draw(n)];
            any |= step(ranks, r, &r->agents[draw(r->nagents)]);
        }
        for (int r = 0; r < n && !any; r++)
            for (int i = 0; i < ranks[r].nagents && !any; i++) any = step(ranks, &ranks[r], &ranks[r].agents[i]);
    }
    for (int r = 0; r < n; r++)
        for (int i = 0; i < ranks[r].nagents; i++)
            CHECK(ranks[r].agents[i].doing == ENDED,
                  "rank %d of %d: agent %d waits in vain, %s of %lld by %lld by %lld", r, n, i,
                  mt_overlap_name(p->form), (long long)p->m, (long long)p->cols, (long long)p->k);
    for (int r = 0; r < n; r++) check_flags(&ranks[r], p, r);
}

/* ---- what is added ---- */

static void count_sums(const struct mt_overlap *p, const struct rank *r, int me) {
    int64_t first, owned = mt_overlap_owned(p, me, &first), base = p->form == MT_OVERLAP_REDUCE ? first : 0;
    char *seen = mt_calloc((size_t)(owned * p->cols) + 1, 1);
    for (int i = 0; i < r->tables.ntiles + r->tables.nboxes; i++) {
        struct box_row box = {.kind = -1};
        if (i >= r->tables.ntiles) {
            box = r->tables.boxes[i - r->tables.ntiles];
        } else if (r->tables.tiles[i].adds) {
            const struct tile_row *t = &r->tables.tiles[i];
            box = (struct box_row){.kind = SUM, .row = (int)base + t->row, .column = t->column};
            box.columns = (int)(p->cols - t->column < p->tile[1] ? p->cols - t->column : p->tile[1]);
            CHECK_EQ(t->from_row, first + t->row);
        }
        if (box.kind != SUM) continue;
        int rows = (int)(owned + base - box.row < p->tile[0] ? owned + base - box.row : p->tile[0]);
        for (int row = 0; row < rows; row++)
            for (int col = 0; col < box.columns; col++) seen[(box.row - base + row) * p->cols + box.column + col]++;
    }
    for (int64_t i = 0; i < owned * p->cols; i++) CHECK_EQ(seen[i], 1);
    free(seen);
}

/* ---- tiles ---- */

/* Tiles 2 i and 2 i + 1 agree. Returns how many are empty. */
static int check_pairs(const struct cuda_fused_tables *tables) {
    int empty = 0;
    CHECK_EQ(tables->ntiles % 2, 0);
    for (int i = 0; i < tables->ntiles; i += 2) {
        const struct tile_row *a = &tables->tiles[i], *b = a + 1;
        CHECK(a->more == 1 && a->column == b->column && a->first == b->first, "pair %d", i / 2);
        if (b->more != EMPTY) {
            CHECK(b->more == 1 && a->to == b->to && a->adds == b->adds && a->staged == b->staged, "pair %d", i / 2);
            CHECK(a->from_row < b->from_row && a->row < b->row, "pair %d", i / 2);
            continue;
        }
        CHECK(!b->nwaits && !b->nready && !b->nsignals && !b->adds, "pair %d", i / 2);
        empty++;
    }
    return empty;
}

/* Each tile of the GEMM is there once, by what it reads; and with pairs, at most one of a column and of rows that some
 * rank has is alone. */
static void check_tiles(const struct mt_overlap *p, const struct rank *r) {
    const struct mt_overlap_schedule *s = &r->schedule;
    int tiles = 0, columns = 0, empty = r->each > 1 ? check_pairs(&r->tables) : 0;
    for (int t = 0; t < s->ntiles; t++) {
        const struct mt_overlap_tile *tile = &s->tiles[t];
        int found = 0;
        if (tile->kind != MT_TILE_MATMUL) continue;
        for (int i = 0; i < r->tables.ntiles; i++) {
            const struct tile_row *row = &r->tables.tiles[i];
            found += row->more == 1 && row->staged == (tile->from == MT_OVERLAP_STAGED) &&
                     row->from_row == tile->from_row && row->column == tile->col;
        }
        CHECK(found == 1, "tile %d is there %d times", t, found);
        tiles++, columns += tile->row == s->tiles[0].row;
    }
    CHECK_EQ(r->tables.ntiles, tiles + empty);
    CHECK(empty <= p->n * columns, "%d of %d columns are empty, of %d ranks", empty, columns, p->n);
}

/* ---- problems ---- */

static struct mt_overlap random_problem(int n, int64_t *rows, int64_t *shares) {
    static const int64_t tiles[][2] = {{128, 256}, {128, 192}, {256, 128}, {128, 128}, {64, 256}, {64, 128}, {64, 64}};
    const int64_t *tile = tiles[draw(7)];
    struct mt_overlap p = {.form = (enum mt_overlap_form)draw(MT_OVERLAP_NFORMS),
                           .n = n,
                           .rows = rows,
                           .shares = shares,
                           .type = MT_BF16,
                           .out = draw(4) ? MT_BF16 : MT_F32,
                           .wire = MT_BF16,
                           .tile = {tile[0], tile[1]},
                           .mix = draw(4),
                           .how = MT_OVERLAP_FUSED};
    int64_t sum = 0;
    for (int r = 0; r < n; r++) {
        rows[r] = draw(6) ? 8 * draw(200) : 0;
        shares[r] = draw(6) ? 64 * (1 + draw(8)) : 0;
        p.m += rows[r], sum += shares[r];
    }
    bool gather = p.form == MT_OVERLAP_GATHER;
    p.cols = gather ? sum : 8 * (1 + draw(160));
    p.k = gather ? 64 * (1 + draw(16)) : sum;
    p.chunk = 1 + draw(600), p.slabs = gather && draw(2) ? 1 + draw(6) : 0;
    p.direct = p.form == MT_OVERLAP_REDUCE && draw(2), p.keep = gather && draw(4) == 0;
    return p;
}

/* Of few rows, where the form has such tiles. */
static void take_few(struct mt_overlap *p, int64_t *rows) {
    bool gather = p->form == MT_OVERLAP_GATHER;
    p->m = 0;
    for (int r = 0; r < p->n; r++) p->m += rows[r] = rows[r] % (256 / p->n);
    if (!mt_overlap_few_tile(p, draw(2), p->tile)) return;
    p->joint = gather, p->direct = !gather, p->keep = false, p->slabs = 0, p->out = p->type;
}

int main(void) {
    int simulated = 0, adds = 0, few = 0, pairs = 0, empty = 0;
    printf("seed %llu\n", (unsigned long long)seed);
    for (int trial = 0; trial < PROBLEMS; trial++) {
        stream = (uint64_t)trial, drawn = 0;
        int64_t rows[RANKS], shares[RANKS];
        int n = draw(2) ? 2 : 1 + draw(RANKS);
        struct rank ranks[RANKS] = {0};
        struct mt_overlap p = random_problem(n, rows, shares);
        struct mt_err err = MT_ERR_INIT;
        if (!draw(4)) take_few(&p, rows);
        if (mt_overlap_check(&p, &err)) continue;
        few += mt_overlap_fused_few(&p);
        for (int r = 0; r < n; r++) {
            mt_overlap_schedule(&p, r, &ranks[r].schedule);
            ranks[r].each = mt_overlap_fused_few(&p) ? 1 : 1 + draw(2);
            int blocks = draw(3) ? 1 + draw(8) : 100 + draw(33);
            cuda_fused_tables_make(&p, r, &ranks[r].schedule, blocks, ranks[r].each > 1, &ranks[r].tables);
            if (!mt_overlap_fused_few(&p)) check_tiles(&p, &ranks[r]);
            ranks[r].flags = mt_calloc((size_t)mt_overlap_nflags(&p), sizeof(int));
            ranks[r].moved = mt_calloc((size_t)ranks[r].tables.nboxes + 1, sizeof(int));
            if (p.form != MT_OVERLAP_GATHER) count_sums(&p, &ranks[r], r);
            for (int t = 0; t < ranks[r].tables.ntiles; t++) {
                adds += ranks[r].tables.tiles[t].adds;
                empty += ranks[r].tables.tiles[t].more == EMPTY;
            }
            pairs += ranks[r].each > 1 ? ranks[r].tables.ntiles / 2 : 0;
        }
        for (int turn = 0; turn < 4; turn++) simulate(ranks, n, &p);
        simulated++;
        for (int r = 0; r < n; r++) {
            mt_arena_release(&ranks[r].tables.arena);
            mt_overlap_schedule_release(&ranks[r].schedule);
            free(ranks[r].flags), free(ranks[r].moved);
        }
    }
    printf("%d problems, %d of few rows, %d tiles that add, %d pairs, %d of one tile\n", simulated, few, adds, pairs,
           empty);
    CHECK(simulated > PROBLEMS / 2 && adds > 100 && few > 20, "too few of %d", PROBLEMS);
    CHECK(pairs > 1000 && empty > 100 && empty < pairs / 2, "%d of %d pairs have one tile", empty, pairs);
    return 0;
}
