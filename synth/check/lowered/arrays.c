/* Where a collective may run on the tensors instead of a message (coll.h), ranks match their pieces as
 * kernels/cuda/nccl/arrays.c reads them: the pieces of all blocks must be equal on all ranks, and a rank's own pieces
 * must be those of its block. */
#include <string.h>

#include "kernels/device/piece.h"
#include "synth/check/lowered/internal.h"

static struct mt_lrange *list(const struct mt_piece *pieces, int count, struct mt_arena *arena, struct mt_lranges *r,
                              int *n) {
    struct mt_lrange *ranges = mt_new(arena, struct mt_lrange, count + 1);
    for (int i = 0; i < count; i++) {
        int64_t elements = mt_piece_elements(&pieces[i]);
        r->hollow |= elements == 0;
        ranges[(*n)++] = (struct mt_lrange){pieces[i].at, pieces[i].at + elements};
    }
    return ranges;
}

/* The blocks of a tensor that serves as a ReduceScatter's message: each is one array. */
static struct mt_lrange *list_blocks(const struct mt_coll *problem, struct mt_arena *arena, int *n) {
    struct mt_lrange *ranges = mt_new(arena, struct mt_lrange, problem->n + 1);
    int64_t at = 0;
    for (int r = 0; r < problem->n; at += problem->counts[r++])
        if (problem->counts[r]) ranges[(*n)++] = (struct mt_lrange){at, at + problem->counts[r]};
    return ranges;
}

struct mt_lranges mt_lranges_of(const struct mt_linstr *l, struct mt_arena *arena) {
    struct mt_lranges r = {.nall = 0};
    const struct mt_coll *problem = &l->problem;
    if (problem->kind == MT_ALL_REDUCE && (!l->npack || !l->nunpack)) { /* the message is one array */
        r.all = r.own = mt_new(arena, struct mt_lrange, 1);
        r.all[0] = (struct mt_lrange){0, l->message_count[0]};
        r.nall = r.nown = l->message_count[0] > 0;
        return r;
    }
    bool gathers = problem->kind == MT_ALL_GATHER;
    r.all = list(gathers ? l->unpack : l->pack, gathers ? l->nunpack : l->npack, arena, &r, &r.nall);
    r.own = list(gathers ? l->pack : l->unpack, gathers ? l->npack : l->nunpack, arena, &r, &r.nown);
    if (problem->kind == MT_REDUCE_SCATTER && !l->npack) r.all = list_blocks(problem, arena, &r.nall);
    return r;
}

static bool same(const struct mt_lrange *a, int na, const struct mt_lrange *b, int nb) {
    return na == nb && !memcmp(a, b, (size_t)na * sizeof *a);
}

/* Whether the ranges are in order and none crosses the end of its block. */
static bool within_blocks(const struct mt_coll *problem, const struct mt_lranges *r) {
    int64_t end = 0;
    for (int i = 0, block = -1; i < r->nall; i++) {
        if (i && r->all[i].lo < r->all[i - 1].hi) return false;
        while (block + 1 < problem->n && r->all[i].lo >= end) end += problem->counts[++block];
        if (r->all[i].hi > end) return false;
    }
    return true;
}

/* The ranges of `all` in this rank's block. */
static int in_block(const struct mt_coll *problem, const struct mt_lranges *r, const struct mt_lrange **mine) {
    int64_t begin = 0;
    int first = 0, count = 0;
    for (int p = 0; p < problem->me; p++) begin += problem->counts[p];
    while (first < r->nall && r->all[first].lo < begin) first++;
    while (first + count < r->nall && r->all[first + count].lo < begin + problem->counts[problem->me]) count++;
    *mine = r->all + first;
    return count;
}

static enum mt_status check_ranges(struct mt_lchecker *c, const struct mt_lmember *of_first, struct mt_arena *arena) {
    const struct mt_linstr *l = mt_lchecker_instr(c);
    const struct mt_coll *problem = &l->problem;
    const struct mt_lranges r = mt_lranges_of(l, arena), *first = of_first->ranges;
    bool whole = problem->kind == MT_ALL_REDUCE;
    if (r.hollow) return mt_lchecker_refuse(c, "has pieces without elements");
    if (l->zero) return mt_lchecker_refuse(c, "fills zeros into elements that others send as an array");
    if (!same(r.all, r.nall, first->all, first->nall))
        return mt_lchecker_refuse(c, "has other pieces than the group's first");
    if (!whole && !within_blocks(problem, &r))
        return mt_lchecker_refuse(c, "has pieces that are out of order or cross blocks");
    if (problem->kind == MT_ALL_GATHER && !r.nall) return MT_OK; /* on all ranks a tensor serves as the message */
    const struct mt_lrange *mine = r.all;
    int nmine = whole ? r.nall : in_block(problem, &r, &mine);
    if (!same(r.own, r.nown, mine, nmine))
        return mt_lchecker_refuse(c, "has other pieces of its own block than the others have of it");
    return MT_OK;
}

enum mt_status mt_lchecker_arrays(struct mt_lchecker *c, const struct mt_lmember *first, struct mt_arena *arena) {
    const struct mt_coll *problem = &mt_lchecker_instr(c)->problem;
    if (problem->same_pieces != first->problem.same_pieces)
        return mt_lchecker_refuse(c, "runs on arrays where the group's first rank does not, or the reverse");
    if (!mt_coll_takes_arrays(problem)) return MT_OK;
    if (problem->kind == MT_ALL_TO_ALL || problem->kind == MT_BROADCAST)
        return mt_lchecker_refuse(c, "cannot run on arrays");
    return check_ranges(c, first, arena);
}
