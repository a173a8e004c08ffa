/* Facts about program values, and the proof that a declared layout is what the ranks hold. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "synth/check/internal.h"

const char *mt_checker_instr_name(const struct mt_checker *c) {
    const struct mt_instr *i = c->instr;
    if (!i) return "program";
    switch (i->kind) {
    case MT_INSTR_OP: return i->gop >= 0 && i->gop < c->graph->nops ? c->graph->ops[i->gop].name : "operator";
    case MT_INSTR_COLLECTIVE: return (unsigned)i->coll < MT_NCOLLS ? mt_coll_name(i->coll) : "collective";
    case MT_INSTR_SLICE: return "slice";
    case MT_INSTR_ZERO: return "zero";
    case MT_INSTR_ACCUMULATE: return "accumulate";
    }
    return "instruction";
}

enum mt_status mt_checker_refuse(struct mt_checker *c, const char *format, ...) {
    char text[700];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (!c->instr) return mt_fail(c->err, MT_EPROOF, "the program is not proven: %s", text);
    int at = (int)(c->instr - c->program->blocks[c->block].instrs);
    return mt_fail(c->err, MT_EPROOF, "the program is not proven: %s, instruction %d (%s): %s", mt_block_name(c->block),
                   at, mt_checker_instr_name(c), text);
}

bool mt_checker_samples(const struct mt_checker *c, int gvalue) {
    const struct mt_value *v = &c->graph->values[gvalue];
    for (int a = 0; a < v->naxes; a++)
        if (v->label[a] == c->graph->batch) return true;
    return false;
}

bool mt_checker_sample_op(const struct mt_checker *c, const struct mt_op *op) {
    for (int i = 0; i < op->nindices; i++)
        if (op->index_label[i] == c->graph->batch) return true;
    return false;
}

static bool is_replicated(const struct mt_program *program, int layout) {
    const struct mt_layout *l = &program->layouts.items[layout];
    struct mt_box both;
    for (int r = 0; r < program->nranks; r++)
        for (int s = 0; s < r; s++)
            if (l->part[r] == l->part[s] && mt_box_intersect(&l->box[r], &l->box[s], l->naxes, &both)) return true;
    return false;
}

bool mt_checker_replicated(struct mt_checker *c, int layout) {
    int *answer = mt_checker_answer(c, (int[]){MT_ASK_REPLICATED, layout}, 2);
    if (!*answer) *answer = 1 + is_replicated(c->program, layout);
    return *answer == 2;
}

static int compare_cuts(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The coordinates at which a rank's box begins or ends on an axis, sorted. */
static int cuts_of(const struct mt_layout *l, int nranks, int axis, int64_t *cuts) {
    int n = 0;
    cuts[n++] = 0;
    cuts[n++] = l->extent[axis];
    for (int r = 0; r < nranks; r++)
        if (mt_box_count(&l->box[r], l->naxes)) {
            cuts[n++] = l->box[r].lo[axis];
            cuts[n++] = l->box[r].hi[axis];
        }
    qsort(cuts, (size_t)n, sizeof *cuts, compare_cuts);
    int unique = 0;
    for (int i = 0; i < n; i++)
        if (!unique || cuts[unique - 1] != cuts[i]) cuts[unique++] = cuts[i];
    return unique;
}

/* One cell of the grid of cuts, with its first element `at`: replicas (ranks of one declared part) have the same parts,
 * and the declared parts together have every part once. */
static enum mt_status check_cell(struct mt_checker *c, const struct mt_layout *l, const int64_t *at, int nparts,
                                 const bool *has, int *seen) {
    int n = c->program->nranks;
    memset(seen, 0, (size_t)nparts * sizeof *seen);
    for (int r = 0; r < n; r++) {
        bool holds = true, first = true;
        for (int a = 0; a < l->naxes; a++) holds &= l->box[r].lo[a] <= at[a] && at[a] < l->box[r].hi[a];
        if (!holds) continue;
        for (int s = 0; s < r && first; s++) {
            bool same = l->part[s] == l->part[r];
            for (int a = 0; a < l->naxes && same; a++) same = l->box[s].lo[a] <= at[a] && at[a] < l->box[s].hi[a];
            if (!same) continue;
            first = false;
            if (memcmp(has + s * nparts, has + r * nparts, (size_t)nparts * sizeof *has))
                return mt_checker_refuse(c, "ranks %d and %d are declared replicas, but have different parts", s, r);
        }
        for (int p = 0; p < nparts && first; p++) seen[p] += has[r * nparts + p];
    }
    for (int p = 0; p < nparts; p++)
        if (seen[p] != 1) return mt_checker_refuse(c, "part %d of the result is counted %d times", p, seen[p]);
    return MT_OK;
}

enum mt_status mt_checker_parts(struct mt_checker *c, int layout, int nparts, const bool *has) {
    const struct mt_layout *l = &c->program->layouts.items[layout];
    int n = c->program->nranks, count[MT_MAX_AXES] = {0}, place[MT_MAX_AXES] = {0};
    int64_t *cuts = mt_calloc((size_t)(MT_MAX_AXES * (2 * n + 2)), sizeof *cuts), at[MT_MAX_AXES];
    int *seen = mt_calloc((size_t)nparts, sizeof *seen);
    enum mt_status st = MT_OK;
    bool empty = false;
    for (int a = 0; a < l->naxes; a++) {
        count[a] = cuts_of(l, n, a, cuts + a * (2 * n + 2)) - 1;
        empty |= l->extent[a] == 0;
    }
    while (!st && !empty) {
        for (int a = 0; a < l->naxes; a++) at[a] = cuts[a * (2 * n + 2) + place[a]];
        st = check_cell(c, l, at, nparts, has, seen);
        int a = 0;
        while (a < l->naxes && ++place[a] == count[a]) place[a++] = 0;
        if (a == l->naxes) break;
    }
    free(seen);
    free(cuts);
    return st;
}

void mt_checker_learn(struct mt_checker *c, int value, enum mt_covers covers, bool uniform) {
    struct mt_fact *f = &c->facts[value];
    *f = (struct mt_fact){.known = true, .block = c->block, .covers = covers};
    f->uniform = uniform || !mt_checker_replicated(c, c->program->values[value].layout);
}
