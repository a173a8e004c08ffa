/* Mutants of overlapped schedules: one thing changed, of one rank. Which are wrong is decided by the interpreter of
 * orders (orders.h); the checker must refuse each of these. */
#ifndef MT_TESTS_SYNTH_CHECK_OVERLAP_MUTANTS_H
#define MT_TESTS_SYNTH_CHECK_OVERLAP_MUTANTS_H

#include "synth/check/overlap/overlap.h"
#include "tests/synth/check/orders.h"

enum mutation {
    PUT_DROPPED,
    PUT_DOUBLED,
    PUTS_SWAPPED,
    PUT_REPEATED,
    PUT_EARLY,
    FLAG,
    FLAGS_MERGED,
    COUNT,
    PARITY,
    WAIT_DROPPED,
    WAIT_REPEATED,
    ORDER,
    BOX,
    TILE_TWICE,
    SUM_UNROUNDED,
    PRODUCT_TWICE,
    SLAB_WAIT_DROPPED,
    SLAB_WAIT_LATER,
    SLAB_WAITS_SWAPPED,
    SLAB_PUT,
    TILE_BEGIN,
    NMUTATIONS
};
static const char *const mutation_names[NMUTATIONS] = {"a put dropped",         "a put doubled",
                                                       "puts swapped",          "a box put twice",
                                                       "a put before its tile", "another flag",
                                                       "one flag of two ranks", "another count",
                                                       "another parity",        "a wait dropped",
                                                       "a wait repeated",       "tiles reordered",
                                                       "another box",           "a tile doubled or dropped",
                                                       "a sum unrounded",       "a product made twice",
                                                       "a slab's wait dropped", "a slab's wait later",
                                                       "slabs' waits swapped",  "a put of other columns",
                                                       "a tile's begin in K"};

/* ---- problems ---- */

struct overlap_case {
    struct mt_overlap problem;
    int64_t rows[MOST_RANKS], shares[MOST_RANKS];
    struct mt_overlap_schedule schedules[MOST_RANKS];
};

static const uint64_t overlap_seed = 20261123;

/* The case that a kind of mutants takes for a number: some need a form. */
static inline int overlap_case_of(int how, int number) {
    return how == SUM_UNROUNDED       ? 2 * MT_OVERLAP_NFORMS * number + MT_OVERLAP_REDUCE
           : how == PRODUCT_TWICE     ? 2 * MT_OVERLAP_NFORMS * number + MT_OVERLAP_NFORMS + MT_OVERLAP_REDUCE
           : how >= SLAB_WAIT_DROPPED ? 4 * MT_OVERLAP_NFORMS * number + MT_OVERLAP_NFORMS * (number % 2)
                                      : number;
}

/* A ragged problem of n ranks: case number `number`, some ranks with nothing. */
static inline void overlap_case_init(struct overlap_case *c, int n, int number) {
    uint64_t draw = 0, stream = (uint64_t)(n * 1000 + number);
#define DRAW(below) ((int64_t)mt_random_below(overlap_seed, stream, draw++, (uint64_t)(below)))
    *c = (struct overlap_case){0};
    struct mt_overlap *p = &c->problem;
    *p = (struct mt_overlap){.form = (enum mt_overlap_form)(number % MT_OVERLAP_NFORMS),
                             .n = n,
                             .type = MT_F32,
                             .out = MT_F32,
                             .wire = MT_F32};
    p->direct = p->form == MT_OVERLAP_REDUCE && number / MT_OVERLAP_NFORMS % 2;
    p->keep = p->form == MT_OVERLAP_GATHER && number / MT_OVERLAP_NFORMS % 2;
    int64_t shares = 0;
    for (int r = 0; r < n; r++) {
        p->m += c->rows[r] = DRAW(n < 5 ? 5 : 4);
        shares += c->shares[r] = DRAW(4);
    }
    int lucky = (int)DRAW(n); /* someone has something */
    if (!p->m) p->m = c->rows[lucky] = 2;
    if (!shares) shares = c->shares[lucky] = 2;
    p->rows = c->rows, p->shares = c->shares;
    p->cols = p->form == MT_OVERLAP_GATHER ? shares : 1 + DRAW(4);
    p->k = p->form == MT_OVERLAP_GATHER ? 1 + DRAW(2) : shares;
    p->tile[0] = 1 + DRAW(3), p->tile[1] = 2 + DRAW(2);
    p->chunk = 1 + DRAW(3);
    p->mix = (int)DRAW(3);
    if (p->form != MT_OVERLAP_GATHER && DRAW(2)) p->wire = MT_BF16;
    if (p->form == MT_OVERLAP_GATHER && number / (2 * MT_OVERLAP_NFORMS) % 2 == 0) {
        p->slabs = 2 + (int)DRAW(n < 5 ? 3 : 2);
        p->k = 2 + DRAW(4);
        if (!DRAW(4)) p->k += MT_OVERLAP_SLAB_UNIT * p->slabs; /* rotated */
        if (!DRAW(3)) p->engines = true, p->how = MT_OVERLAP_FUSED;
    } else if (p->form == MT_OVERLAP_GATHER) {
        p->joint = DRAW(2);
    }
    for (int r = 0; r < n; r++) mt_overlap_schedule(p, r, &c->schedules[r]);
#undef DRAW
}

static inline void overlap_case_release(struct overlap_case *c) {
    for (int r = 0; r < c->problem.n; r++) mt_overlap_schedule_release(&c->schedules[r]);
}

static inline struct mt_overlap_schedule overlap_copy(const struct mt_overlap_schedule *s, int more) {
    struct mt_overlap_schedule copy = {
        .ntiles = s->ntiles, .nputs = s->nputs, .nwaits = s->nwaits, .copies = s->copies};
    copy.tiles = mt_new(&copy.arena, struct mt_overlap_tile, s->ntiles + more);
    copy.puts = mt_new(&copy.arena, struct mt_overlap_put, s->nputs + more);
    copy.waits = mt_new(&copy.arena, struct mt_overlap_wait, s->nwaits + more);
    if (s->ntiles) memcpy(copy.tiles, s->tiles, (size_t)s->ntiles * sizeof *s->tiles);
    if (s->nputs) memcpy(copy.puts, s->puts, (size_t)s->nputs * sizeof *s->puts);
    if (s->nwaits) memcpy(copy.waits, s->waits, (size_t)s->nwaits * sizeof *s->waits);
    return copy;
}

/* ---- mutations: each returns whether it changed something ---- */

static inline bool mutate_put(struct mt_overlap_schedule *s, enum mutation how, const uint64_t random[4]) {
    if (!s->nputs) return false;
    int i = (int)(random[0] % (uint64_t)s->nputs), j = (int)(random[1] % (uint64_t)s->nputs);
    struct mt_overlap_put *puts = s->puts, old = puts[i];
    switch (how) {
    case PUT_DROPPED:
        memmove(puts + i, puts + i + 1, (size_t)(s->nputs - 1 - i) * sizeof *puts);
        s->nputs--;
        return true;
    case PUT_DOUBLED:
        memmove(puts + i + 1, puts + i, (size_t)(s->nputs - i) * sizeof *puts);
        s->nputs++;
        return true;
    case PUTS_SWAPPED:
        if (random[2] % 3 == 0) { /* what they raise */
            puts[i].flag = puts[j].flag, puts[j].flag = old.flag;
            return puts[i].flag != old.flag;
        }
        if (random[2] % 3 == 1) { /* whom they go to */
            puts[i].peer = puts[j].peer, puts[j].peer = old.peer;
            return puts[i].peer != old.peer;
        }
        puts[i].to_row = puts[j].to_row, puts[j].to_row = old.to_row;
        return puts[i].to_row != old.to_row && old.rows && puts[j].rows;
    case PUT_REPEATED: /* to the same peer, instead of another */
        for (int k = 0; k < s->nputs; k++, j = (j + 1) % s->nputs) {
            if (i == j || puts[j].peer != old.peer || puts[j].to != old.to || !puts[j].rows || !old.rows) continue;
            puts[i].from = puts[j].from, puts[i].from_row = puts[j].from_row, puts[i].to_row = puts[j].to_row;
            puts[i].rows = puts[j].rows, puts[i].col = puts[j].col, puts[i].cols = puts[j].cols;
            return true;
        }
        return false;
    default: /* PUT_EARLY: to the end of an earlier tile's */
        if (old.tile < 0) return false;
        old.tile = (int)(random[1] % (uint64_t)(old.tile + 1)) - 1;
        for (j = i; j > 0 && puts[j - 1].tile > old.tile; j--) puts[j] = puts[j - 1];
        puts[j] = old;
        return true;
    }
}

static inline bool mutate_wait(struct mt_overlap_schedule *s, enum mutation how, const uint64_t random[4]) {
    if (!s->nwaits) return false;
    struct mt_overlap_wait *wait = &s->waits[random[0] % (uint64_t)s->nwaits];
    if (how == COUNT) {
        wait->count += random[1] % 2 || wait->count == 1 ? 1 : -1;
    } else if (how == PARITY) {
        wait->lag = !wait->lag;
    } else { /* WAIT_DROPPED: from the tile or put that has it, at either end of its list */
        for (int k = 0; k < s->ntiles + s->nputs; k++) {
            int at = (int)((random[1] + (uint64_t)k) % (uint64_t)(s->ntiles + s->nputs));
            int *first = at < s->ntiles ? &s->tiles[at].first_wait : &s->puts[at - s->ntiles].first_wait;
            int *count = at < s->ntiles ? &s->tiles[at].nwaits : &s->puts[at - s->ntiles].nwaits;
            if (!*count) continue;
            --*count;
            *first += (int)(random[2] % 2);
            return true;
        }
        return false;
    }
    return true;
}

/* The waits of a tile with several: the first twice; or the flags of two ranks are one, which is raised twice. */
static inline bool mutate_waits(struct mt_overlap_schedule *schedules, int n, int rank, enum mutation how,
                                const uint64_t random[4]) {
    struct mt_overlap_schedule *s = &schedules[rank];
    for (int k = 0; k < s->ntiles; k++) {
        struct mt_overlap_tile *tile = &s->tiles[(random[0] + (uint64_t)k) % (uint64_t)s->ntiles];
        if (tile->nwaits < 2) continue;
        struct mt_overlap_wait *wait = &s->waits[tile->first_wait];
        if (how == WAIT_REPEATED) {
            wait[1] = wait[0];
            return true;
        }
        for (int r = 0; r < n; r++)
            for (int j = 0; j < schedules[r].nputs; j++) {
                struct mt_overlap_put *put = &schedules[r].puts[j];
                if (put->peer == rank && put->flag == wait[1].flag) put->flag = wait[0].flag;
            }
        for (int w = s->nwaits - 1, from = wait[0].flag, to = wait[1].flag; w >= 0; w--) {
            if (s->waits[w].flag != from && s->waits[w].flag != to) continue;
            s->waits[w].flag = from;
            s->waits[w].count = 2;
        }
        return true;
    }
    return false;
}

static inline bool mutate_box(struct mt_overlap_schedule *s, const uint64_t random[4]) {
    int at = (int)(random[0] % (uint64_t)(s->ntiles + s->nputs + 1)), by = random[2] % 2 ? 1 : -1;
    if (at == s->ntiles + s->nputs) return false;
    if (at < s->ntiles) {
        struct mt_overlap_tile *t = &s->tiles[at];
        int64_t *const fields[] = {&t->from_row, &t->row, &t->rows, &t->col, &t->cols};
        *fields[random[1] % 5] += by;
        return true;
    }
    struct mt_overlap_put *put = &s->puts[at - s->ntiles];
    int64_t *const fields[] = {&put->from_row, &put->to_row, &put->rows, &put->col, &put->cols};
    *fields[random[1] % 5] += by;
    return put->rows >= 0 && put->cols >= 0 && put->rows + put->cols > 0;
}

/* Move tile i to place j, or repeat it there, or take it away with its puts. */
static inline bool mutate_tiles(struct mt_overlap_schedule *s, enum mutation how, const uint64_t random[4]) {
    int n = s->ntiles, i = n ? (int)(random[0] % (uint64_t)n) : 0, j = n ? (int)(random[1] % (uint64_t)n) : 0;
    if (!n) return false;
    struct mt_overlap_tile tile = s->tiles[i];
    if (how == TILE_TWICE && random[2] % 2) {
        s->tiles[s->ntiles++] = tile;
        return true;
    }
    if (how == ORDER && i == j) return false;
    struct mt_overlap_put *puts = mt_new(&s->arena, struct mt_overlap_put, s->nputs + 1);
    int *place = mt_new(&s->arena, int, n), nputs = 0;
    for (int t = 0; t < n; t++) place[t] = t > i ? t - 1 : t;
    place[i] = how == ORDER ? j : -2;
    for (int t = 0; t < n && how == ORDER; t++)
        if (t != i && place[t] >= j) place[t]++;
    struct mt_overlap_tile *tiles = mt_new(&s->arena, struct mt_overlap_tile, n);
    for (int t = 0; t < n; t++)
        if (place[t] >= 0) tiles[place[t]] = s->tiles[t];
    for (int p = 0; p < s->nputs && s->puts[p].tile < 0; p++) puts[nputs++] = s->puts[p];
    for (int to = 0; to < n; to++)
        for (int p = 0; p < s->nputs; p++) {
            if (s->puts[p].tile < 0 || place[s->puts[p].tile] != to) continue;
            puts[nputs] = s->puts[p];
            puts[nputs++].tile = to;
        }
    s->tiles = tiles, s->puts = puts, s->nputs = nputs;
    s->ntiles = how == ORDER ? n : n - 1;
    return true;
}

/* An owner adds a tile into its result once more, instead of copying what its peers get. */
static inline bool mutate_sum(struct mt_overlap_schedule *s, const uint64_t random[4]) {
    for (int k = 0; k < s->ntiles; k++) {
        struct mt_overlap_tile *copy = &s->tiles[(random[0] + (uint64_t)k) % (uint64_t)s->ntiles];
        if (copy->kind != MT_TILE_COPY || copy->from != MT_OVERLAP_RESULT) continue;
        for (int t = 0; t < s->ntiles; t++) {
            struct mt_overlap_tile add = s->tiles[t];
            if (add.kind != MT_TILE_ADD || add.row != copy->row || add.col != copy->col) continue;
            add.to = MT_OVERLAP_OUT;
            *copy = add;
            return true;
        }
    }
    return false;
}

/* A put of a product that a tile of its own has computed, not the tile of which others get it. */
static inline bool mutate_product(struct mt_overlap_schedule *s, const uint64_t random[4]) {
    for (int k = 0; k < s->nputs; k++) {
        int j = (int)((random[0] + (uint64_t)k) % (uint64_t)s->nputs);
        struct mt_overlap_put put = s->puts[j];
        if (!put.rows || put.from != MT_OVERLAP_SLOTS) continue;
        struct mt_overlap_tile tile = s->tiles[put.tile];
        tile.to = MT_OVERLAP_PARTIAL;
        tile.row = put.from_row = tile.from_row;
        put.from = MT_OVERLAP_PARTIAL;
        put.tile = s->ntiles;
        s->tiles[s->ntiles++] = tile;
        memmove(s->puts + j, s->puts + j + 1, (size_t)(s->nputs - 1 - j) * sizeof put);
        s->puts[s->nputs - 1] = put;
        return true;
    }
    return false;
}

/* What puts send in all, of which no position is the end. */
static inline int64_t depth_of_puts(const struct mt_overlap_schedule *s) {
    int64_t depth = 0;
    for (int j = 0; j < s->nputs; j++)
        if (s->puts[j].rows && s->puts[j].col + s->puts[j].cols > depth) depth = s->puts[j].col + s->puts[j].cols;
    return depth;
}

/* The position in K of a tile's wait: the wait dropped, or the position later or that of another wait. */
static inline bool mutate_slab_wait(struct mt_overlap_schedule *s, enum mutation how, const uint64_t random[4]) {
    int64_t depth = depth_of_puts(s);
    for (int k = 0; k < s->ntiles; k++) {
        struct mt_overlap_tile *tile = &s->tiles[(random[0] + (uint64_t)k) % (uint64_t)s->ntiles];
        if (tile->kind != MT_TILE_MATMUL || tile->nwaits < 2) continue;
        struct mt_overlap_wait *wait = &s->waits[tile->first_wait + (int)(random[1] % (uint64_t)tile->nwaits)];
        struct mt_overlap_wait *last = &s->waits[tile->first_wait + tile->nwaits - 1], old = *wait;
        if (how == SLAB_WAIT_DROPPED) {
            *wait = *last, *last = old;
            tile->nwaits--;
            return true;
        }
        if (how == SLAB_WAIT_LATER && old.k + 1 < depth) {
            wait->k += 1 + (int64_t)(random[2] % (uint64_t)(depth - 1 - old.k));
            return true;
        }
        for (int w = tile->first_wait; w < tile->first_wait + tile->nwaits && how == SLAB_WAITS_SWAPPED; w++) {
            if (s->waits[w].k == old.k) continue;
            wait->k = s->waits[w].k, s->waits[w].k = old.k;
            return true;
        }
    }
    return false;
}

/* A put's range of K: shorter, at either end, or shifted. */
static inline bool mutate_slab_put(struct mt_overlap_schedule *s, const uint64_t random[4]) {
    for (int k = 0; k < s->nputs; k++) {
        struct mt_overlap_put *put = &s->puts[(random[0] + (uint64_t)k) % (uint64_t)s->nputs];
        if (!put->rows) continue;
        int64_t by = random[1] % 2 ? 1 : -1;
        switch (random[2] % 3) {
        case 0: put->cols--; break;
        case 1: put->col++, put->cols--; break;
        case 2: put->col += by; break;
        }
        return true;
    }
    return false;
}

/* Where a tile begins: at any column, or where a put does; and perhaps one of its waits comes before another slab. */
static inline bool mutate_begin(struct mt_overlap_schedule *s, int64_t depth, const uint64_t random[4]) {
    for (int k = 0; k < s->ntiles; k++) {
        struct mt_overlap_tile *tile = &s->tiles[(random[0] + (uint64_t)k) % (uint64_t)s->ntiles];
        if (tile->kind != MT_TILE_MATMUL || !tile->nwaits) continue;
        struct mt_overlap_wait *a = &s->waits[tile->first_wait + (int)(random[1] % (uint64_t)tile->nwaits)];
        const struct mt_overlap_wait *b = &s->waits[tile->first_wait + (int)(random[2] % (uint64_t)tile->nwaits)];
        int64_t old[2] = {tile->k, a->k};
        tile->k = random[3] / 16 % 3 ? b->k : (int64_t)(random[2] % (uint64_t)(depth + 2)) - 1;
        if (random[3] / 64 % 2) a->k = s->waits[tile->first_wait + (int)(random[0] % (uint64_t)tile->nwaits)].k;
        return tile->k != old[0] || a->k != old[1];
    }
    return false;
}

static inline bool overlap_mutate(struct mt_overlap_schedule *schedules, int n, int nflags, enum mutation how,
                                  const uint64_t random[4]) {
    struct mt_overlap_schedule *s = &schedules[random[3] % (uint64_t)n];
    switch (how) {
    case FLAG:
        if (random[0] % 2 && s->nputs) {
            int *flag = &s->puts[random[1] % (uint64_t)s->nputs].flag, old = *flag;
            *flag = (int)(random[2] % (uint64_t)nflags);
            return *flag != old;
        }
        if (!s->nwaits) return false;
        s->waits[random[1] % (uint64_t)s->nwaits].flag = (int)(random[2] % (uint64_t)nflags);
        return true;
    case PARITY:
        if (random[1] % 8 == 0) {
            for (int r = 0; r < n; r++) schedules[r].copies = 1;
            return true;
        }
        return mutate_wait(s, how, random);
    case COUNT:
    case WAIT_DROPPED: return mutate_wait(s, how, random);
    case BOX: return mutate_box(s, random);
    case FLAGS_MERGED:
    case WAIT_REPEATED: return mutate_waits(schedules, n, (int)(random[3] % (uint64_t)n), how, random);
    case ORDER:
    case TILE_TWICE: return mutate_tiles(s, how, random);
    case SUM_UNROUNDED: return mutate_sum(s, random);
    case PRODUCT_TWICE: return mutate_product(s, random);
    case SLAB_WAIT_DROPPED:
    case SLAB_WAIT_LATER:
    case SLAB_WAITS_SWAPPED: return mutate_slab_wait(s, how, random);
    case SLAB_PUT: return mutate_slab_put(s, random);
    case TILE_BEGIN: return mutate_begin(s, depth_of_puts(s), random);
    default: return mutate_put(s, how, random);
    }
}

/* Let waits name who raises their flags, as they do in schedules: no mutant is to be refused for that alone. */
static inline void overlap_name_peers(struct mt_overlap_schedule *schedules, int n, int nflags) {
    for (int rank = 0; rank < n; rank++) {
        int *by = calloc((size_t)nflags, sizeof *by);
        for (int r = 0; r < n; r++)
            for (int j = 0; j < schedules[r].nputs; j++)
                if (schedules[r].puts[j].peer == rank) by[schedules[r].puts[j].flag] = r;
        for (int w = 0; w < schedules[rank].nwaits; w++)
            schedules[rank].waits[w].from = by[schedules[rank].waits[w].flag];
        free(by);
    }
}

/* ---- counting ---- */

struct overlap_tally {
    int made[NMUTATIONS], wrong[NMUTATIONS], right[NMUTATIONS], refused_right[NMUTATIONS], undecided[NMUTATIONS];
    int accepted_undecided;
    int wrong_of[MOST_RANKS + 1];
};

/* Whether the interpreter can run it: it reads and writes within buffers (or the checker's refusal is all there is). */
static inline enum verdict overlap_judge(const struct mt_overlap *p, const struct mt_overlap_schedule *schedules) {
    struct orders o;
    orders_init(&o, p, schedules);
    enum verdict verdict = orders_judge(&o);
    orders_release(&o);
    return verdict;
}

/* One mutant of a case: judged, and given to the checker. */
static inline void overlap_mutant(const struct overlap_case *c, enum mutation how, int number,
                                  struct overlap_tally *tally) {
    struct mt_overlap_schedule mutant[MOST_RANKS];
    struct mt_err err = MT_ERR_INIT;
    int n = c->problem.n, nflags = mt_overlap_nflags(&c->problem);
    uint64_t random[4];
    for (int i = 0; i < 4; i++)
        random[i] = mt_random_below(overlap_seed, (uint64_t)((int)how * 100 + n), (uint64_t)(number * 4 + i), 1u << 30);
    for (int r = 0; r < n; r++) mutant[r] = overlap_copy(&c->schedules[r], 1);
    if (overlap_mutate(mutant, n, nflags, how, random)) {
        overlap_name_peers(mutant, n, nflags);
        enum verdict verdict = overlap_judge(&c->problem, mutant);
        enum mt_status st = mt_check_overlap(&c->problem, mutant, "mutant", &err);
        CHECK(!st || st == MT_EPROOF, "%s", err.text);
        CHECK(verdict != WRONG || st, "%s on %d ranks, rank %d, number %d: wrong, and accepted", mutation_names[how], n,
              (int)(random[3] % (uint64_t)n), number);
        tally->made[how]++;
        tally->wrong[how] += verdict == WRONG;
        tally->right[how] += verdict == RIGHT;
        tally->undecided[how] += verdict == UNDECIDED;
        tally->refused_right[how] += verdict == RIGHT && st;
        tally->accepted_undecided += verdict == UNDECIDED && !st;
        tally->wrong_of[n] += verdict == WRONG;
    }
    for (int r = 0; r < n; r++) mt_overlap_schedule_release(&mutant[r]);
}

#endif
