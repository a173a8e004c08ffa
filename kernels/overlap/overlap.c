/* Problems: their buffers, places and flags; schedules as vectors. */
#include "kernels/overlap/overlap.h"

#include <limits.h>
#include <string.h>

#include "kernels/overlap/internal.h"

/* Rows of a tile: so many tiles of an owner, within these bounds; a small message goes to all at once. */
enum { TILES_OF_OWNER = 4, LEAST_ROWS = 32, MOST_ROWS = 512, MOST_COLS = 1024, SMALL_BYTES = 64 << 10 };

const char *mt_overlap_name(enum mt_overlap_form form) {
    static const char *const names[MT_OVERLAP_NFORMS] = {"AllGather+GEMM", "GEMM+ReduceScatter", "GEMM+AllReduce"};
    return names[form];
}

int64_t mt_overlap_start(const int64_t *shares, int rank) {
    int64_t start = 0;
    for (int r = 0; r < rank; r++) start += shares[r];
    return start;
}

int64_t mt_overlap_row_pieces(const struct mt_overlap *p, int64_t rows, int64_t most) {
    int64_t left = rows, count = 0;
    if (!p->ngroups) return mt_overlap_pieces(rows, most);
    for (; count < p->ngroups - 1 && left > 0; count++) left -= p->groups[count];
    return left > 0 ? count + mt_overlap_pieces(left, p->groups[p->ngroups - 1]) : count;
}

int64_t mt_overlap_row_piece(const struct mt_overlap *p, int64_t rows, int64_t most, int64_t i, int64_t *size) {
    int64_t at = 0, last = p->ngroups ? p->groups[p->ngroups - 1] : most, g = 0;
    for (; g < i && g < p->ngroups - 1; g++) at += p->groups[g];
    at += (i - g) * last;
    int64_t whole = g < p->ngroups - 1 ? p->groups[g] : last;
    *size = rows - at < whole ? rows - at : whole;
    return at;
}

static int64_t slab_columns(const struct mt_overlap *p) {
    int64_t slabs = p->form == MT_OVERLAP_GATHER && p->slabs > 1 ? p->slabs : 1, even = mt_overlap_pieces(p->k, slabs);
    if (slabs == 1) return p->k;
    return p->k < MT_OVERLAP_SLAB_UNIT * slabs ? even
                                               : mt_overlap_pieces(even, MT_OVERLAP_SLAB_UNIT) * MT_OVERLAP_SLAB_UNIT;
}

/* Slab i of those by copy engines; i = -1: the last. Returns its number. */
static int halved_slab(const struct mt_overlap *p, int i, int64_t *begin, int64_t *cols) {
    int64_t unit = p->k < MT_OVERLAP_SLAB_UNIT * p->slabs ? 1 : MT_OVERLAP_SLAB_UNIT;
    *begin = 0;
    for (int s = 0;; *begin += *cols, s++) {
        int64_t left = p->k - *begin;
        *cols = s == p->slabs - 1 ? left : mt_overlap_pieces(left, 2 * unit) * unit;
        if (*cols > left) *cols = left;
        if (s == i || *cols == left) return s;
    }
}

int mt_overlap_nslabs(const struct mt_overlap *p) {
    int64_t begin, cols;
    if (!p->k) return 1;
    return mt_overlap_halves(p) ? halved_slab(p, -1, &begin, &cols) + 1 : (int)mt_overlap_pieces(p->k, slab_columns(p));
}

int64_t mt_overlap_slab(const struct mt_overlap *p, int i, int64_t *cols) {
    int64_t begin;
    if (!mt_overlap_halves(p)) return mt_overlap_piece(p->k, slab_columns(p), i, cols);
    halved_slab(p, i, &begin, cols);
    return begin;
}

bool mt_overlap_rotates(const struct mt_overlap *p) {
    return mt_overlap_nslabs(p) > 1 && !mt_overlap_halves(p) && slab_columns(p) % MT_OVERLAP_SLAB_UNIT == 0;
}

int64_t mt_overlap_owned(const struct mt_overlap *p, int rank, int64_t *first) {
    *first = p->direct ? 0 : mt_overlap_start(p->rows, rank);
    return p->direct ? p->m : p->rows[rank];
}

void mt_overlap_extent(const struct mt_overlap *p, int rank, enum mt_overlap_buffer buffer, int64_t extent[2]) {
    bool gather = p->form == MT_OVERLAP_GATHER, reduce = p->form == MT_OVERLAP_REDUCE;
    int64_t share = p->shares[rank], rows = 0, cols = 0, first;
    switch (buffer) {
    case MT_OVERLAP_A: rows = gather ? p->rows[rank] : p->m, cols = gather ? p->k : share; break;
    case MT_OVERLAP_PARTIAL: rows = !gather && share ? p->m : 0, cols = p->cols; break;
    case MT_OVERLAP_OUT: rows = gather || reduce ? p->m : p->rows[rank], cols = gather ? share : p->cols; break;
    case MT_OVERLAP_WHOLE: rows = gather && p->keep ? p->m : 0, cols = p->k; break;
    case MT_OVERLAP_STAGED: rows = gather && (share || p->keep) ? p->m : 0, cols = p->k; break;
    case MT_OVERLAP_SLOTS: rows = gather ? 0 : p->n * mt_overlap_owned(p, rank, &first), cols = p->cols; break;
    case MT_OVERLAP_RESULT: rows = reduce && !p->direct ? p->m : 0, cols = p->cols; break;
    case MT_OVERLAP_NBUFFERS: break;
    }
    extent[0] = cols ? rows : 0;
    extent[1] = rows ? cols : 0;
}

/* One kernel's form for few rows has no epilogue. Of a sum that is sent on, peers get what the epilogue makes, but not
 * what is before an activation. */
bool mt_overlap_takes_epilogue(const struct mt_overlap *p, bool trans_out, enum mt_op_kind epilogue) {
    const struct mt_op_epilogue *info = mt_op_epilogue(epilogue);
    return info && !info->sums && (p->form == MT_OVERLAP_GATHER || epilogue == MT_OP_add) && !trans_out &&
           p->out == p->type && !mt_overlap_fused_few(p);
}

enum mt_type mt_overlap_type(const struct mt_overlap *p, enum mt_overlap_buffer buffer) {
    return buffer == MT_OVERLAP_A || buffer == MT_OVERLAP_WHOLE ? p->type : buffer == MT_OVERLAP_OUT ? p->out : p->wire;
}

/* ---- places ---- */

static int64_t round_up(int64_t bytes) {
    return (bytes + 127) / 128 * 128;
}

/* Of one parity, the largest of any rank. */
static int64_t buffer_bytes(const struct mt_overlap *p, enum mt_overlap_buffer buffer) {
    int64_t most = 0;
    for (int r = 0; r < p->n; r++) {
        int64_t extent[2];
        mt_overlap_extent(p, r, buffer, extent);
        if (extent[0] * extent[1] > most) most = extent[0] * extent[1];
    }
    return round_up(most * mt_type_size(mt_overlap_type(p, buffer)));
}

/* Flags come first. */
int64_t mt_overlap_place(const struct mt_overlap *p, enum mt_overlap_buffer buffer, int copy) {
    int64_t before = 0, all = 0;
    for (enum mt_overlap_buffer b = MT_OVERLAP_STAGED; b < MT_OVERLAP_NBUFFERS; b++) {
        int64_t bytes = buffer_bytes(p, b);
        if (b < buffer) before += bytes;
        all += bytes;
    }
    return round_up(mt_overlap_epoch_place(p) + 8) + copy * all + before;
}

int64_t mt_overlap_flag_place(const struct mt_overlap *p, int flag) {
    (void)p;
    return 8 * (int64_t)flag;
}

int64_t mt_overlap_epoch_place(const struct mt_overlap *p) {
    return mt_overlap_flag_place(p, mt_overlap_nflags(p));
}

int64_t mt_overlap_window_bytes(const struct mt_overlap *p) {
    int64_t begin = mt_overlap_place(p, MT_OVERLAP_STAGED, 0);
    return begin + MT_OVERLAP_COPIES * (mt_overlap_place(p, MT_OVERLAP_STAGED, 1) - begin);
}

/* ---- schedules ---- */

void mt_overlap_await(struct mt_overlap_schedule *s, struct mt_overlap_wait wait) {
    mt_arena_grow(&s->arena, &s->waits, s->nwaits, &s->waits_capacity, sizeof *s->waits);
    s->waits[s->nwaits++] = wait;
}

/* The first wait that nothing has taken yet: entries take theirs in order. */
static int first_free(const struct mt_overlap_schedule *s) {
    int last = 0;
    if (s->ntiles) last = s->tiles[s->ntiles - 1].first_wait + s->tiles[s->ntiles - 1].nwaits;
    if (s->nputs) {
        int end = s->puts[s->nputs - 1].first_wait + s->puts[s->nputs - 1].nwaits;
        if (end > last) last = end;
    }
    return last;
}

int mt_overlap_add_tile(struct mt_overlap_schedule *s, struct mt_overlap_tile tile) {
    tile.first_wait = first_free(s);
    tile.nwaits = s->nwaits - tile.first_wait;
    mt_arena_grow(&s->arena, &s->tiles, s->ntiles, &s->tiles_capacity, sizeof *s->tiles);
    s->tiles[s->ntiles] = tile;
    return s->ntiles++;
}

void mt_overlap_add_put(struct mt_overlap_schedule *s, struct mt_overlap_put put) {
    put.first_wait = first_free(s);
    put.nwaits = s->nwaits - put.first_wait;
    mt_arena_grow(&s->arena, &s->puts, s->nputs, &s->puts_capacity, sizeof *s->puts);
    s->puts[s->nputs++] = put;
}

/* ---- ready flags ---- */

bool mt_overlap_sends(const struct mt_overlap *p, int s, int r) {
    bool some = p->shares[s] > 0;
    switch (p->form) {
    case MT_OVERLAP_GATHER: return p->rows[s] > 0 && (p->shares[r] > 0 || p->keep);
    case MT_OVERLAP_SCATTER: return some && p->rows[r] > 0;
    case MT_OVERLAP_REDUCE: return p->direct ? some : p->rows[s] > 0 || (some && p->rows[r] > 0);
    case MT_OVERLAP_NFORMS: break;
    }
    return false;
}

static bool needs_ready(const struct mt_overlap *p, int s, int r) {
    return s != r && mt_overlap_sends(p, s, r) && !mt_overlap_sends(p, r, s);
}

static int64_t data_flags(const struct mt_overlap *p) {
    return p->form == MT_OVERLAP_GATHER ? mt_overlap_gather_flags(p) : mt_overlap_sum_flags(p);
}

int mt_overlap_nflags(const struct mt_overlap *p) {
    return (int)data_flags(p) + p->n;
}

void mt_overlap_add_ready(const struct mt_overlap *p, int me, struct mt_overlap_schedule *schedule) {
    for (int k = 1; k < p->n; k++) {
        int peer = (me + k) % p->n;
        if (needs_ready(p, peer, me))
            mt_overlap_add_put(schedule,
                               (struct mt_overlap_put){.tile = -1, .peer = peer, .flag = (int)data_flags(p) + me});
    }
}

void mt_overlap_await_ready(const struct mt_overlap *p, int me, int peer, struct mt_overlap_schedule *schedule) {
    if (!needs_ready(p, me, peer)) return;
    mt_overlap_await(schedule,
                     (struct mt_overlap_wait){.flag = (int)data_flags(p) + peer, .from = peer, .count = 1, .lag = 1});
}

enum mt_status mt_overlap_check(const struct mt_overlap *p, struct mt_err *err) {
    if ((unsigned)p->form >= MT_OVERLAP_NFORMS) return mt_fail(err, MT_EINPUT, "an overlapped GEMM of no form");
    const char *name = mt_overlap_name(p->form);
    int64_t rows = 0, shares = 0, whole = p->form == MT_OVERLAP_GATHER ? p->cols : p->k;
    if (p->n < 1 || p->m < 0 || p->cols < 0 || p->k < 0)
        return mt_fail(err, MT_EINPUT, "%s: %d ranks, %lld by %lld by %lld", name, p->n, (long long)p->m,
                       (long long)p->cols, (long long)p->k);
    if (p->tile[0] < 1 || p->tile[1] < 1 || p->mix < 0 || (p->form == MT_OVERLAP_GATHER && p->chunk < 1))
        return mt_fail(err, MT_EINPUT, "%s: tiles of %lld by %lld, puts of %lld rows", name, (long long)p->tile[0],
                       (long long)p->tile[1], (long long)p->chunk);
    if (p->ngroups < 0) return mt_fail(err, MT_EINPUT, "%s: %d groups", name, p->ngroups);
    for (int i = 0; i < p->ngroups; i++)
        if (p->groups[i] < 1 || p->groups[i] > p->tile[0])
            return mt_fail(err, MT_EINPUT, "%s: a group of %lld rows, and tiles of %lld", name, (long long)p->groups[i],
                           (long long)p->tile[0]);
    if (p->type >= MT_I32 || p->out >= MT_I32 || p->wire >= MT_I32 ||
        (p->form == MT_OVERLAP_GATHER && p->type != p->wire))
        return mt_fail(err, MT_EINPUT, "%s: type %s, sent as %s", name, mt_type_name(p->type), mt_type_name(p->wire));
    if (p->direct && p->form != MT_OVERLAP_REDUCE)
        return mt_fail(err, MT_EINPUT, "%s: only GEMM+AllReduce can be direct", name);
    if (p->keep && p->form != MT_OVERLAP_GATHER)
        return mt_fail(err, MT_EINPUT, "%s: only AllGather+GEMM keeps its operand", name);
    if (p->slabs < 0 || p->slabs > MT_OVERLAP_MOST_SLABS || (p->slabs > 1 && p->form != MT_OVERLAP_GATHER))
        return mt_fail(err, MT_EINPUT, "%s: K in %d slabs; only AllGather+GEMM has any, and at most %d", name, p->slabs,
                       MT_OVERLAP_MOST_SLABS);
    if (p->engines && (p->form != MT_OVERLAP_GATHER || p->how != MT_OVERLAP_FUSED))
        return mt_fail(err, MT_EINPUT, "%s: puts by copy engines; only AllGather+GEMM in one kernel has any", name);
    if (p->joint && p->form != MT_OVERLAP_GATHER)
        return mt_fail(err, MT_EINPUT, "%s: only AllGather+GEMM has joint tiles", name);
    if (p->joint && (p->slabs > 1 || p->ngroups || p->engines))
        return mt_fail(err, MT_EINPUT, "%s: joint tiles, and %s", name,
                       p->slabs > 1 ? "K in slabs"
                       : p->ngroups ? "groups of rows"
                                    : "puts by copy engines");
    if (p->tf32 && p->type != MT_F32)
        return mt_fail(err, MT_EINPUT, "%s: operands of type %s as tf32", name, mt_type_name(p->type));
    for (int r = 0; r < p->n; r++) {
        if (p->rows[r] < 0 || p->shares[r] < 0) return mt_fail(err, MT_EINPUT, "%s: a negative share", name);
        rows += p->rows[r], shares += p->shares[r];
    }
    if (rows != p->m || shares != whole)
        return mt_fail(err, MT_EINPUT, "%s: shares sum to %lld and %lld, not %lld and %lld", name, (long long)rows,
                       (long long)shares, (long long)p->m, (long long)whole);
    if (p->form == MT_OVERLAP_GATHER && !p->k)
        return mt_fail(err, MT_EINPUT, "%s: k is 0: there is nothing to gather, and the GEMM's result is zero", name);
    if (data_flags(p) > INT_MAX - p->n)
        return mt_fail(err, MT_EINPUT, "%s: %lld flags, for tiles of %lld by %lld: at most %d; make tiles larger", name,
                       (long long)data_flags(p), (long long)p->tile[0], (long long)p->tile[1], INT_MAX - p->n);
    return MT_OK;
}

void mt_overlap_choose_tiles(struct mt_overlap *p) {
    int64_t most = 1, rows;
    for (int r = 0; r < p->n; r++) most = p->rows[r] > most ? p->rows[r] : most;
    rows = (most + TILES_OF_OWNER - 1) / TILES_OF_OWNER;
    rows = rows < LEAST_ROWS ? LEAST_ROWS : rows > MOST_ROWS ? MOST_ROWS : (rows + 15) / 16 * 16;
    p->tile[0] = rows, p->tile[1] = p->cols < MOST_COLS ? (p->cols ? p->cols : 1) : MOST_COLS;
    p->chunk = rows;
    p->direct = p->form == MT_OVERLAP_REDUCE && p->m * p->cols * mt_type_size(p->wire) <= SMALL_BYTES;
}

bool mt_overlap_equal(const struct mt_overlap *a, const struct mt_overlap *b) {
    return a->form == b->form && a->n == b->n && a->m == b->m && a->cols == b->cols && a->k == b->k &&
           a->type == b->type && a->out == b->out && a->wire == b->wire && a->tile[0] == b->tile[0] &&
           a->tile[1] == b->tile[1] && a->chunk == b->chunk && a->slabs == b->slabs && a->mix == b->mix &&
           a->direct == b->direct && a->keep == b->keep && a->engines == b->engines && a->joint == b->joint &&
           a->tf32 == b->tf32 && a->how == b->how && a->ngroups == b->ngroups &&
           (!a->ngroups || !memcmp(a->groups, b->groups, (size_t)a->ngroups * sizeof *a->groups)) &&
           (!a->n || (!memcmp(a->rows, b->rows, (size_t)a->n * sizeof *a->rows) &&
                      !memcmp(a->shares, b->shares, (size_t)a->n * sizeof *a->shares)));
}

void mt_overlap_schedule(const struct mt_overlap *p, int me, struct mt_overlap_schedule *schedule) {
    *schedule = (struct mt_overlap_schedule){.copies = MT_OVERLAP_COPIES};
    mt_overlap_add_ready(p, me, schedule);
    if (p->form == MT_OVERLAP_GATHER)
        mt_overlap_gather(p, me, schedule);
    else
        mt_overlap_sum(p, me, schedule);
}

void mt_overlap_schedule_release(struct mt_overlap_schedule *schedule) {
    mt_arena_release(&schedule->arena);
    *schedule = (struct mt_overlap_schedule)MT_OVERLAP_SCHEDULE_INIT;
}
