/* Replicas that are equal to the last bit.
 *
 * What updates replicated state must be, or its replicas drift apart: a collective's result is, as its members end with
 * the same bits; so is what an exact operator makes of such values on any device. Ranks whose devices are alike also
 * compute the same bits with the operators of mt_op_repeats, if they have the same boxes of the same bits. Everything
 * else is broadcast from the first rank; but factors that were gathered so that a gradient need not be reduced are no
 * gain then, and with devices that are known to differ that is refused. */
#include <stdlib.h>

#include "synth/builder/internal.h"
#include "synth/layout/number.h"
#include "synth/ops/ops.h"

/* Whether boxes of one part are equal (one group) or disjoint. So are complete boxes that together are as large as the
 * value, and boxes of a part each. */
static bool nothing_shared(const struct mt_layout *l, int nranks, const int *group, int ngroups) {
    int *first = mt_malloc((size_t)ngroups * sizeof *first), n = 0;
    int64_t sum = 0, whole = 1;
    struct mt_box both;
    bool nothing = true;
    for (int a = 0; a < l->naxes; a++) whole *= l->extent[a];
    for (int r = 0; r < nranks; r++)
        if (group[r] == n) first[n++] = r, sum += mt_box_count(&l->box[r], l->naxes);
    if (l->nparts > 1 ? n > l->nparts : sum != whole) /* in each part at least one */
        for (int g = 0; g < n; g++)
            for (int h = 0; h < g && nothing; h++)
                nothing = l->part[first[g]] != l->part[first[h]] ||
                          !mt_box_intersect(&l->box[first[g]], &l->box[first[h]], l->naxes, &both);
    free(first);
    return nothing;
}

/* The sets of replicas of a layout. */
static const struct replicas *replicas_of(struct mt_builder *b, int layout) {
    int n = b->program->nranks;
    const struct mt_layout *l = &b->program->layouts.items[layout];
    for (int i = 0; i < b->nreplicas; i++)
        if (b->replicas[i].layout == layout) return &b->replicas[i];
    mt_arena_grow(&b->scratch, &b->replicas, b->nreplicas, &b->replicas_capacity, sizeof *b->replicas);
    struct replicas *made = &b->replicas[b->nreplicas++];
    *made = (struct replicas){.layout = layout, .group = mt_new(&b->scratch, int, n), .alike = true};
    int *id = mt_new(&b->scratch, int, n), *group_of = mt_new(&b->scratch, int, n + 1), ngroups = 0;
    mt_number_boxes(l, n, l->part, id);
    for (int r = 0; r < n; r++) {
        if (id[r] < 0 || !group_of[id[r]]) {
            made->group[r] = ngroups++;
            if (id[r] >= 0) group_of[id[r]] = ngroups;
        } else {
            made->group[r] = group_of[id[r]] - 1;
            made->any = true;
        }
    }
    made->alike = nothing_shared(l, n, made->group, ngroups);
    return made;
}

/* Whether ranks that hold an element of the new layout in one part are in one group. */
static bool replicas_together(struct mt_builder *b, struct conversion *c) {
    const struct mt_layout *l = &b->program->layouts.items[c->to];
    int n = b->program->nranks, ngroups = 1;
    struct mt_box both;
    if (c->replicas != NOT_ASKED) return c->replicas == TOGETHER;
    c->replicas = TOGETHER;
    for (int r = 0; r < n; r++)
        if (c->group[r] >= ngroups) ngroups = c->group[r] + 1;
    for (int r = 0; r < n && ngroups > 1 && c->replicas == TOGETHER; r++)
        for (int s = 0; s < r && c->replicas == TOGETHER; s++)
            if (c->group[r] != c->group[s] && l->part[r] == l->part[s] &&
                mt_box_intersect(&l->box[r], &l->box[s], l->naxes, &both))
                c->replicas = APART;
    return c->replicas == TOGETHER;
}

/* Replicas are bit-equal if they were, and no reduction or AllToAll of several covers adds up different terms; or if
 * all of them are results of one collective that gives its members the same bits. */
enum mt_uniform mt_builder_uniform_after(struct mt_builder *b, int from, int layout) {
    struct conversion *c = mt_builder_known_conversion(b, b->program->values[from].layout, layout);
    bool covers = b->program->layouts.items[b->program->values[from].layout].ncovers > 1;
    bool reduces = c->kind == MT_CONVERT_ALL_REDUCE || c->kind == MT_CONVERT_REDUCE_SCATTER ||
                   (c->kind == MT_CONVERT_ALL_TO_ALL && covers);
    const struct replicas *was = replicas_of(b, b->program->values[from].layout);
    if (!reduces && (b->uniform[from] == MT_UNIFORM || (was->alike && !was->any))) return MT_UNIFORM;
    bool ends_alike = c->kind == MT_CONVERT_ALL_REDUCE || c->kind == MT_CONVERT_ALL_GATHER;
    if (ends_alike && replicas_together(b, c)) return MT_UNIFORM;
    return reduces ? MT_NOT_UNIFORM : b->uniform[from];
}

/* Whether all replicas of a layout are on ranks that are alike and have the same boxes and parts of an operator's
 * inputs. */
static bool have_same_work(struct mt_builder *b, const int *in, int nin, int layout) {
    const struct replicas *replicas = replicas_of(b, layout);
    const int *alike = b->choice->alike;
    int n = b->program->nranks;
    bool same = alike && replicas->alike;
    int *first = mt_malloc((size_t)n * sizeof *first);
    for (int r = 0; r < n; r++) first[r] = -1;
    for (int r = 0; r < n && same; r++) {
        int *f = &first[replicas->group[r]];
        if (*f < 0) *f = r;
        same = alike[r] == alike[*f];
        for (int i = 0; i < nin && same; i++) {
            const struct mt_layout *l = mt_pvalue_layout(b->program, in[i]);
            same = l->part[r] == l->part[*f] && mt_box_equal(&l->box[r], &l->box[*f], l->naxes);
        }
    }
    free(first);
    return same;
}

enum mt_uniform mt_builder_uniform_of_op(struct mt_builder *b, int op, const int *in, int layout) {
    const struct mt_op *o = &b->graph->ops[op];
    bool exact = mt_op_info[o->kind].exact;
    enum mt_uniform uniform = exact ? MT_UNIFORM : mt_op_repeats(o->kind) ? MT_UNIFORM_IF_ALIKE : MT_NOT_UNIFORM;
    for (int i = 0; i < o->nin; i++)
        if (b->uniform[in[i]] < uniform) uniform = b->uniform[in[i]];
    if (uniform && !exact && !have_same_work(b, in, o->nin, layout)) return MT_NOT_UNIFORM;
    return uniform;
}

/* The first rank's of each set of replicas. */
static int broadcast(struct mt_builder *b, int from, int *group, enum mt_block_kind block) {
    enum mt_type type = b->program->values[from].type;
    struct mt_bucket_key key = {MT_BROADCAST, MT_REDUCE_NONE, type, type, block, group};
    int to = mt_builder_converted(b, from, b->program->values[from].layout, block, MT_UNIFORM);
    mt_builder_message(b, &key, &from, &to, 1);
    return to;
}

/* Whether an operator on samples is a weight's gradient with gathered factors, while samples divide its layer. */
static bool gathers_instead(struct mt_builder *b, int op) {
    const struct mt_op *o = &b->graph->ops[op];
    if ((o->kind != MT_OP_matmul && o->kind != MT_OP_embedding_grad) || o->forward < 0) return false;
    struct mt_rule rule = mt_builder_rule(b, op, MT_LAST), layer = mt_builder_rule(b, o->forward, MT_LAST);
    return mt_builder_divides_samples(b, &layer) && mt_builder_gathers_factors(b, op, &rule, MT_LAST);
}

/* Whether a gradient, or a gradient that it is a sum of, was computed from gathered factors: the operator, or -1. */
static int gathering_op(struct mt_builder *b, int gvalue) {
    int op = b->graph->values[gvalue].producer;
    if (op < 0) return -1;
    const struct mt_op *o = &b->graph->ops[op];
    if (b->classes[op] == MT_SAMPLE) return gathers_instead(b, op) ? op : -1;
    for (int i = 0; i < o->nin && o->kind == MT_OP_add; i++) {
        int found = gathering_op(b, o->in[i]);
        if (found >= 0) return found;
    }
    return -1;
}

/* Of ranks with replicas: whether their devices are known to differ, and two that do. */
static bool devices_differ(const struct mt_builder *b, const struct replicas *replicas, int *one, int *other) {
    const int *alike = b->choice->alike;
    for (*other = 1; *other < b->program->nranks && alike; ++*other)
        for (*one = 0; *one < *other; ++*one)
            if (alike[*one] != alike[*other] && (!replicas->alike || replicas->group[*one] == replicas->group[*other]))
                return true;
    return false;
}

static enum mt_status refuse_factors(struct mt_builder *b, int op, int update, int one, int other) {
    const char *name = b->graph->ops[op].name, *state = b->graph->values[b->graph->ops[update].in[0]].name;
    mt_fail(b->err, MT_EINPUT,
            "operator %s: ranks gather its factors and each computes the gradient of %s itself, of which each stores a "
            "replica; but the devices of ranks %d and %d are of different classes and may round differently, so that "
            "replicas would drift apart",
            name, state, one, other);
    return mt_err_hint(
        b->err,
        "store %s in shares and split %s by the same split, so that no two ranks compute the same "
        "element; or split %s by \"batch\", so that the gradient is reduced; or use devices of one class",
        state, name, name);
}

enum mt_status mt_builder_make_uniform(struct mt_builder *b, int *value, int update, enum mt_block_kind block) {
    int from = *value, layout = b->program->values[from].layout, gvalue = b->program->values[from].gvalue, all;
    if (b->uniform[from] == MT_UNIFORM || b->program->nranks == 1 || mt_builder_is_partial(b, layout)) return MT_OK;
    const struct replicas *replicas = replicas_of(b, layout);
    if (!replicas->any && replicas->alike) return MT_OK;
    if (b->uniform[from] == MT_UNIFORM_IF_ALIKE) {
        b->program->needs_alike = true;
        return MT_OK;
    }
    int one, other, product = devices_differ(b, replicas, &one, &other) ? gathering_op(b, gvalue) : -1;
    if (product >= 0) return refuse_factors(b, product, update, one, other);
    if (replicas->alike) return *value = broadcast(b, from, replicas->group, block), MT_OK;
    int whole = mt_builder_whole(b, gvalue, block); /* parts of the first rank's whole value */
    enum mt_status st = mt_builder_convert(b, gvalue, whole, block, &all);
    if (st) return st;
    if (b->uniform[all] != MT_UNIFORM) all = broadcast(b, all, replicas_of(b, whole)->group, block);
    *value = mt_builder_converted(b, all, layout, block, MT_UNIFORM);
    mt_builder_slice(b, all, *value, block);
    return MT_OK;
}
