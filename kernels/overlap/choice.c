/* Rows of decisions about overlapped GEMMs. */
#include "kernels/overlap/choice.h"

#include <string.h>

#include "kernels/overlap/internal.h"

enum { MOST_TILES = 1 << 18, MOST_GROUPS = 4096, MOST_MIX = 1 << 20 };

const char *const mt_overlap_form_names[MT_OVERLAP_NFORMS] = {"gather", "scatter", "reduce"};
const char *const mt_overlap_how_names[MT_OVERLAP_NHOWS] = {"any", "chunks", "fused", "nccl", "apart"};

struct mt_overlap_choice mt_overlap_choice_of(const struct mt_overlap *p) {
    struct mt_overlap_choice row = {.form = p->form, .m = p->m, .cols = p->cols, .k = p->k, .how = p->how};
    if (p->how == MT_OVERLAP_APART) return row;
    memcpy(row.tile, p->tile, sizeof row.tile);
    row.chunk = p->form == MT_OVERLAP_GATHER ? p->chunk : 0;
    row.groups = p->groups, row.ngroups = p->ngroups;
    row.mix = p->mix, row.direct = p->direct;
    row.slabs = p->slabs > 1 ? p->slabs : 0;
    row.engines = p->engines, row.joint = p->joint;
    return row;
}

bool mt_overlap_choice_is_for(const struct mt_overlap_choice *row, const struct mt_overlap *p) {
    return row->form == p->form && row->m == p->m && row->cols == p->cols && row->k == p->k;
}

bool mt_overlap_choose(struct mt_overlap *p, const struct mt_overlap_choice *rows, int count) {
    int i = 0;
    while (i < count && !mt_overlap_choice_is_for(&rows[i], p)) i++;
    if (i == count) return false;
    const struct mt_overlap_choice *row = &rows[i];
    p->how = row->how;
    if (row->how == MT_OVERLAP_APART) return true;
    memcpy(p->tile, row->tile, sizeof p->tile);
    if (row->chunk) p->chunk = row->chunk;
    p->groups = row->groups, p->ngroups = row->ngroups;
    p->mix = row->mix, p->direct = row->direct, p->slabs = row->slabs;
    p->engines = row->engines, p->joint = row->joint;
    return true;
}

static enum mt_status check_groups(const struct mt_overlap_choice *row, struct mt_err *err) {
    if (row->ngroups < 0 || row->ngroups > MOST_GROUPS)
        return mt_fail(err, MT_EINPUT, "groups: has %d members, but must have at most %d", row->ngroups, MOST_GROUPS);
    for (int g = 0; g < row->ngroups; g++)
        if (row->groups[g] < 1 || row->groups[g] > row->tile[0])
            return mt_fail(err, MT_EINPUT, "groups[%d]: is %lld, but must be from 1 to the tile's %lld rows", g,
                           (long long)row->groups[g], (long long)row->tile[0]);
    return MT_OK;
}

static enum mt_status check_slabs(const struct mt_overlap_choice *row, struct mt_err *err) {
    if (!row->slabs) return MT_OK;
    if (row->form != MT_OVERLAP_GATHER)
        return mt_fail(err, MT_EINPUT, "slabs: is %d, but must be absent but in a gather", row->slabs);
    if (row->slabs < 2 || row->slabs > MT_OVERLAP_MOST_SLABS)
        return mt_fail(err, MT_EINPUT, "slabs: is %d, but must be from 2 to %d, or absent", row->slabs,
                       MT_OVERLAP_MOST_SLABS);
    if (row->how != MT_OVERLAP_ANY && row->how != MT_OVERLAP_FUSED)
        return mt_fail(err, MT_EINPUT, "slabs: is %d, but only one kernel waits within tiles, not \"%s\"", row->slabs,
                       mt_overlap_how_names[row->how]);
    return MT_OK;
}

static enum mt_status check_engines(const struct mt_overlap_choice *row, struct mt_err *err) {
    if (!row->engines || (row->form == MT_OVERLAP_GATHER && row->how == MT_OVERLAP_FUSED)) return MT_OK;
    return mt_fail(err, MT_EINPUT, "engines: must be absent but in a gather by one kernel (\"fused\")");
}

static enum mt_status check_joint(const struct mt_overlap_choice *row, struct mt_err *err) {
    bool by = row->how == MT_OVERLAP_ANY || row->how == MT_OVERLAP_FUSED;
    bool alone = !row->slabs && !row->ngroups && !row->engines;
    if (!row->joint || (row->form == MT_OVERLAP_GATHER && by && alone)) return MT_OK;
    return mt_fail(err, MT_EINPUT,
                   "joint: must be absent but in a gather by one kernel (\"fused\"), or by what the device has "
                   "(\"any\"), without slabs, groups and engines");
}

/* How many tiles the whole GEMM has, if each share were cut as if it were alone; or puts to a peer. */
static bool too_many(const struct mt_overlap_choice *row) {
    int64_t least = row->ngroups ? row->groups[row->ngroups - 1] : row->tile[0];
    if (row->chunk && row->chunk < least) least = row->chunk;
    int64_t down = row->ngroups + mt_overlap_pieces(row->m, least), across = mt_overlap_pieces(row->cols, row->tile[1]);
    int64_t most = row->tile[0] > row->chunk ? row->tile[0] : row->chunk;
    if (row->slabs) down += mt_overlap_pieces(row->m, most); /* strips end where tiles and where chunks do */
    if (across < row->slabs) across = row->slabs;
    return down > MOST_TILES / across;
}

enum mt_status mt_overlap_choice_check(const struct mt_overlap_choice *row, struct mt_err *err) {
    const int64_t most = INT64_C(1) << 40;
    bool gather = row->form == MT_OVERLAP_GATHER;
    if (row->m < 1 || row->cols < 1 || row->k < 1 || row->m > most || row->cols > most || row->k > most)
        return mt_fail(err, MT_EINPUT, "m: a GEMM of %lld by %lld by %lld, but each must be from 1 to %lld",
                       (long long)row->m, (long long)row->cols, (long long)row->k, (long long)most);
    if (row->how == MT_OVERLAP_APART) return MT_OK;
    for (int i = 0; i < 2; i++)
        if (row->tile[i] < 1 || row->tile[i] > most)
            return mt_fail(err, MT_EINPUT, "tile[%d]: is %lld, but must be from 1 to %lld", i, (long long)row->tile[i],
                           (long long)most);
    if (gather && (row->chunk < 1 || row->chunk > most))
        return mt_fail(err, MT_EINPUT, "put_rows: is %lld, but must be from 1 to %lld", (long long)row->chunk,
                       (long long)most);
    if (!gather && row->chunk)
        return mt_fail(err, MT_EINPUT, "put_rows: is %lld, but must be absent but in a gather", (long long)row->chunk);
    if (gather && row->mix) return mt_fail(err, MT_EINPUT, "mix: is %d, but must be 0 in a gather", row->mix);
    if (row->mix < 0 || row->mix > MOST_MIX)
        return mt_fail(err, MT_EINPUT, "mix: is %d, but must be from 0 to %d", row->mix, MOST_MIX);
    if (row->direct && row->form != MT_OVERLAP_REDUCE) return mt_fail(err, MT_EINPUT, "direct: only a reduce can be");
    enum mt_status st = check_groups(row, err);
    if (!st) st = check_slabs(row, err);
    if (!st) st = check_engines(row, err);
    if (!st) st = check_joint(row, err);
    if (st || !too_many(row)) return st;
    return mt_fail(err, MT_EINPUT, "tile: more than %d tiles of %lld by %lld", MOST_TILES, (long long)row->tile[0],
                   (long long)row->tile[1]);
}

struct mt_overlap_choice *mt_overlap_choices_copy(const struct mt_overlap_choice *rows, int count,
                                                  struct mt_arena *arena) {
    struct mt_overlap_choice *copies = mt_arena_memdup(arena, rows, (size_t)count * sizeof *rows);
    for (int i = 0; i < count; i++)
        if (rows[i].ngroups)
            copies[i].groups = mt_arena_memdup(arena, rows[i].groups, (size_t)rows[i].ngroups * sizeof *rows[i].groups);
    return copies;
}

const char *mt_overlap_choice_text(const struct mt_overlap_choice *row, struct mt_arena *arena) {
    static const char *const by[MT_OVERLAP_NHOWS] = {"as the device does", "copy engines and GEMMs", "one kernel",
                                                     "NCCL and GEMMs", "apart"};
    const char *text = by[row->how];
    if (row->how == MT_OVERLAP_APART) return text;
    if (!row->ngroups)
        text =
            mt_arena_printf(arena, "%s, tiles of %lld by %lld", text, (long long)row->tile[0], (long long)row->tile[1]);
    for (int g = 0; g < row->ngroups; g++)
        text = mt_arena_printf(arena, g ? "%s %lld" : "%s, groups of %lld", text, (long long)row->groups[g]);
    if (row->ngroups)
        text = mt_arena_printf(arena, "%s rows", text);
    else if (row->chunk)
        text = mt_arena_printf(arena, "%s, puts of %lld rows", text, (long long)row->chunk);
    if (row->slabs) text = mt_arena_printf(arena, "%s, K in %d slabs", text, row->slabs);
    if (row->joint) text = mt_arena_printf(arena, "%s, rows of all ranks in each tile", text);
    if (row->engines) text = mt_arena_printf(arena, "%s, puts by copy engines", text);
    if (row->mix) text = mt_arena_printf(arena, "%s, one of its own after %d", text, row->mix);
    return row->direct ? mt_arena_printf(arena, "%s, direct", text) : text;
}

bool mt_overlap_choice_equal(const struct mt_overlap_choice *a, const struct mt_overlap_choice *b) {
    return a->form == b->form && a->m == b->m && a->cols == b->cols && a->k == b->k && a->how == b->how &&
           a->tile[0] == b->tile[0] && a->tile[1] == b->tile[1] && a->chunk == b->chunk && a->mix == b->mix &&
           a->slabs == b->slabs && a->direct == b->direct && a->engines == b->engines && a->joint == b->joint &&
           a->ngroups == b->ngroups &&
           (!a->ngroups || !memcmp(a->groups, b->groups, (size_t)a->ngroups * sizeof *a->groups));
}
