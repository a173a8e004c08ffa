/* The current instruction: its block, sources and operands by name, and refusals that name it. */
#include <stdarg.h>

#include "synth/check/lowered/internal.h"

enum mt_block_kind mt_lchecker_block(const struct mt_lchecker *c) {
    int b = 0;
    if (!c->low) return c->collective->block;
    while (b < MT_NBLOCKS - 1 && c->instr >= c->low->block_begin[b + 1]) b++;
    return (enum mt_block_kind)b;
}

enum mt_status mt_lchecker_refuse(const struct mt_lchecker *c, const char *format, ...) {
    char text[600];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (c->instr < 0)
        return mt_fail(c->err, MT_EPROOF, "the lowered program of rank %d is not proven: %s", c->rank, text);
    const char *name = c->low ? mt_lchecker_instr(c)->name : c->collective->members[c->rank].name;
    return mt_fail(c->err, MT_EPROOF, "the lowered program of rank %d is not proven: %s, instruction %d (%.200s): %s",
                   c->rank, mt_block_name(mt_lchecker_block(c)), c->instr, name ? name : "?", text);
}

const struct mt_instr *mt_lchecker_source(const struct mt_lchecker *c, int s) {
    return &c->program->blocks[mt_lchecker_block(c)].instrs[mt_lchecker_instr(c)->sources[s]];
}

const char *mt_lchecker_name(const struct mt_lchecker *c, int lvalue) {
    if (lvalue < 0 || lvalue >= c->program->nvalues) return "a buffer";
    return c->program->graph->values[c->program->values[lvalue].gvalue].name;
}
