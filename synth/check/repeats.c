/* Results that ranks whose devices are alike compute to the same bits. What that rests on:
 *   - the program's `alike`, which the plan's device classes say, and which ranks compare before they run a program
 * that needs it (launcher/session/alike.h);
 *   - an operator's kernels give the same bits every time, from operands of the same extents (mt_op_repeats);
 *   - the operands are bit-equal, which the checker has derived. */
#include "synth/check/internal.h"

/* Whether two ranks compute the same bits: on devices that are alike, from the same boxes and parts of the inputs. */
static bool computes_as(const struct mt_checker *c, int rank, int other) {
    const struct mt_program *p = c->program;
    bool same = p->alike[rank] == p->alike[other];
    for (int i = 0; i < c->instr->nin && same; i++) {
        const struct mt_layout *l = mt_pvalue_layout(p, c->instr->in[i]);
        same = l->part[rank] == l->part[other] && mt_box_equal(&l->box[rank], &l->box[other], l->naxes);
    }
    return same;
}

/* Whether each two ranks that hold an element of the output in one part compute as each other. */
static bool find_repeats(const struct mt_checker *c, int output) {
    const struct mt_layout *l = mt_pvalue_layout(c->program, c->instr->out[output]);
    struct mt_box both;
    int first = 0, n = c->program->nranks;
    while (first + 1 < n && computes_as(c, 0, first + 1)) first++;
    for (int r = first + 1; r < n; r++) /* ranks up to `first` compute as rank 0 */
        for (int s = 0; s < r; s++)
            if (l->part[r] == l->part[s] && mt_box_intersect(&l->box[r], &l->box[s], l->naxes, &both) &&
                !computes_as(c, r, s))
                return false;
    return true;
}

bool mt_checker_repeats(struct mt_checker *c, int output) {
    int key[2 + MT_MAX_IN], n = 0;
    if (!c->program->alike) return false;
    key[n++] = MT_ASK_REPEATS;
    key[n++] = c->program->values[c->instr->out[output]].layout;
    for (int i = 0; i < c->instr->nin; i++) key[n++] = c->program->values[c->instr->in[i]].layout;
    int *answer = mt_checker_answer(c, key, n);
    if (!*answer) *answer = 1 + find_repeats(c, output);
    return *answer == 2;
}
