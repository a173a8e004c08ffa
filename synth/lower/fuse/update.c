/* The cast of a state by which a step begins is made by the update that ends the step before.
 *
 * Operators read f32 masters cast to half precision. AdamW has the new weights at hand, so it writes their cast too, to
 * where the next step finds it. The cast itself is then `kept` (lower.h): it runs only when states have come from
 * elsewhere. The bits are the same, and of the bytes that a cast moves only those that it writes are left. The price is
 * that its memory cannot be reused in the step. O(instructions). */
#include <string.h>

#include "synth/lower/internal.h"

/* of[pvalues]: the instruction of PROLOGUE that casts the state to half precision, if there is one; -1: none, or two.
 */
static void find_casts(struct mt_lowering *l, int *of) {
    const struct mt_lowered *low = l->low;
    bool *two = mt_new(&l->scratch, bool, l->program->nvalues + 1);
    memset(of, -1, (size_t)l->program->nvalues * sizeof *of);
    for (int i = low->block_begin[MT_PROLOGUE]; i < low->block_begin[MT_PROLOGUE + 1]; i++) {
        const struct mt_linstr *c = &low->instrs[i];
        if (c->what != MT_LOWERED_OP || c->kind != MT_OP_cast || !mt_type_is_half(c->attr.to)) continue;
        two[c->in[0]] |= of[c->in[0]] >= 0;
        of[c->in[0]] = two[c->in[0]] ? -1 : i;
    }
}

/* Let the update write the cast, unless that is read afterwards. */
static void merge(struct mt_lowering *l, int at, struct mt_linstr *cast) {
    struct mt_linstr *update = &l->low->instrs[at];
    struct mt_arena *arena = &l->low->arena;
    int to = cast->out[0], nin = update->nin, nout = update->nout;
    if (l->last_use[to] >= at) return;
    struct mt_linstr fused = *update;
    fused.attr.epilogue = MT_OP_cast, fused.attr.to = cast->attr.to;
    fused.nout = nout + 1;
    fused.out = mt_new(arena, int, fused.nout);
    fused.tensor = mt_new(arena, struct mt_tensor, nin + fused.nout);
    memcpy(fused.out, update->out, (size_t)nout * sizeof *fused.out);
    memcpy(fused.tensor, update->tensor, (size_t)(nin + nout) * sizeof *fused.tensor);
    fused.out[nout] = to;
    fused.tensor[nin + nout] = cast->tensor[1];
    const struct mt_call whole = mt_linstr_call(&fused, fused.tensor), alone = mt_linstr_call(update, update->tensor);
    const struct mt_lower_options *o = l->options;
    if (o->worth_fusing && !o->worth_fusing(o->context, &whole, &alone)) return;
    *update = fused;
    cast->kept = true;
}

void mt_fuse_updates(struct mt_lowering *l) {
    struct mt_lowered *low = l->low;
    int *cast_of = mt_new(&l->scratch, int, l->program->nvalues + 1);
    find_casts(l, cast_of);
    for (int i = low->block_begin[MT_EPILOGUE]; i < low->block_begin[MT_EPILOGUE + 1]; i++) {
        const struct mt_linstr *c = &low->instrs[i];
        if (c->what != MT_LOWERED_OP || c->kind != MT_OP_adamw || l->state_of[c->out[0]] != c->in[0]) continue;
        if (cast_of[c->in[0]] >= 0) merge(l, i, &low->instrs[cast_of[c->in[0]]]);
    }
}
