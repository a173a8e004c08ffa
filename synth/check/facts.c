/* Facts about program values, and the ranks of a layout's covers. */
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

static bool is_shared(const struct mt_program *program, int layout) {
    const struct mt_layout *l = &program->layouts.items[layout];
    struct mt_box both;
    for (int r = 0; r < program->nranks && l->ncovers > 1; r++)
        for (int s = 0; s < r; s++)
            if (l->cover[l->part[r]] != l->cover[l->part[s]] &&
                mt_box_intersect(&l->box[r], &l->box[s], l->naxes, &both))
                return true;
    return false;
}

bool mt_checker_shared(struct mt_checker *c, int layout) {
    int *answer = mt_checker_answer(c, (int[]){MT_ASK_SHARED, layout}, 2);
    if (!*answer) *answer = 1 + is_shared(c->program, layout);
    return *answer == 2;
}

struct mt_cover_ranks mt_checker_covers(const struct mt_program *program, const struct mt_layout *layout,
                                        struct mt_arena *arena) {
    int n = program->nranks;
    struct mt_cover_ranks by = {mt_new(arena, int, n), mt_new(arena, int, layout->ncovers + 1)};
    int *next = mt_new(arena, int, layout->ncovers);
    for (int pass = 0; pass < 2; pass++) {
        for (int r = 0; r < n; r++) {
            int cover = layout->cover[layout->part[r]];
            if (!mt_box_count(&layout->box[r], layout->naxes)) continue;
            if (pass)
                by.ranks[next[cover]++] = r;
            else
                by.begin[cover + 1]++;
        }
        for (int k = 0; k < layout->ncovers && !pass; k++) by.begin[k + 1] += by.begin[k], next[k] = by.begin[k];
    }
    return by;
}

void mt_checker_learn(struct mt_checker *c, int value, enum mt_covers covers, bool uniform) {
    struct mt_fact *f = &c->facts[value];
    *f = (struct mt_fact){.known = true, .block = c->block, .covers = covers};
    f->uniform = uniform || !mt_checker_replicated(c, c->program->values[value].layout);
}
