/* Values in their layouts, and how one becomes another.
 *
 * A wanted value is looked up among those held; if none has the layout, it is converted from the one from which that is
 * cheapest, and kept. Conversions that can be foreseen (gradients, weights) wait in a bucket until it is full or
 * somebody needs them, so that they travel together and beside the computation. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "synth/build/internal.h"
#include "synth/program/message.h"

bool mt_builder_has_batch(const struct mt_graph *g, int value) {
    for (int a = 0; a < g->values[value].naxes; a++)
        if (g->values[value].label[a] == g->batch) return true;
    return false;
}

void mt_builder_extents(const struct mt_builder *b, int gvalue, enum mt_block_kind block, int64_t *extent) {
    const struct mt_value *v = &b->graph->values[gvalue];
    for (int a = 0; a < v->naxes; a++)
        extent[a] = v->label[a] == b->graph->batch ? b->block_batch[block] : mt_value_extent(b->graph, gvalue, a);
}

struct mt_rule mt_builder_rule(const struct mt_builder *b, int op, enum mt_block_kind block) {
    struct mt_rule rule = b->choice->rules[op];
    if (rule.kind == MT_RULE_SPLIT && rule.split->label == b->graph->batch) rule.split = &b->block_split[block];
    return rule;
}

int mt_builder_wanted(struct mt_builder *b, int op, const struct mt_rule *rule, int input, enum mt_block_kind block) {
    int64_t extent[MT_MAX_AXES];
    mt_builder_extents(b, b->graph->ops[op].in[input], block, extent);
    return mt_rule_input(&b->program->layouts, b->graph, &b->graph->ops[op], rule, input, extent);
}

int mt_builder_add(struct mt_builder *b, int gvalue, int layout, enum mt_block_kind block, bool uniform) {
    struct mt_program *p = b->program;
    int v = mt_program_value(p, gvalue, layout, b->graph->values[gvalue].type, block);
    if (v >= b->uniform_capacity) {
        int grown = b->uniform_capacity ? 2 * b->uniform_capacity : 256;
        b->uniform = mt_realloc(b->uniform, (size_t)grown * sizeof *b->uniform);
        b->uniform_capacity = grown;
    }
    b->uniform[v] = uniform;
    return v;
}

void mt_builder_hold(struct mt_builder *b, int gvalue, int value) {
    if (b->nheld[gvalue] == b->held_capacity[gvalue]) {
        b->held_capacity[gvalue] = b->held_capacity[gvalue] ? 2 * b->held_capacity[gvalue] : 4;
        b->held[gvalue] = mt_realloc(b->held[gvalue], (size_t)b->held_capacity[gvalue] * sizeof(int));
    }
    b->held[gvalue][b->nheld[gvalue]++] = value;
}

bool mt_builder_usable(const struct mt_builder *b, int value, enum mt_block_kind block) {
    const struct mt_pvalue *v = &b->program->values[value];
    if (mt_builder_has_batch(b->graph, v->gvalue)) return v->block == block;
    return v->covers == MT_COVERS_ALL && v->block <= block;
}

static void emit_slice(struct mt_builder *b, int from, int to, enum mt_block_kind block) {
    struct mt_instr instr = {.kind = MT_INSTR_SLICE, .gop = -1, .nin = 1, .nout = 1, .in = &from, .out = &to};
    mt_program_add(b->program, block, &instr);
}

static enum mt_type wire_type(const struct mt_builder *b, int gvalue, enum mt_coll_kind kind) {
    bool sums = kind == MT_ALL_REDUCE || kind == MT_REDUCE_SCATTER;
    const struct mt_value *v = &b->graph->values[gvalue];
    bool gradient = sums && v->naxes > 0 && b->summed[gvalue] && v->type == b->graph->acc;
    return gradient ? b->choice->decisions.gradient_wire : v->type;
}

static const enum mt_coll_kind coll_of[MT_NCONVERSIONS] = {[MT_CONVERT_ALL_REDUCE] = MT_ALL_REDUCE,
                                                           [MT_CONVERT_REDUCE_SCATTER] = MT_REDUCE_SCATTER,
                                                           [MT_CONVERT_ALL_GATHER] = MT_ALL_GATHER,
                                                           [MT_CONVERT_ALL_TO_ALL] = MT_ALL_TO_ALL};

static const struct conversion *conversion(struct mt_builder *b, int from, int to) {
    for (int c = 0; c < b->nconversions; c++)
        if (b->conversions[c].from == from && b->conversions[c].to == to) return &b->conversions[c];
    if (b->nconversions == b->conversions_capacity) {
        b->conversions_capacity = b->conversions_capacity ? 2 * b->conversions_capacity : 64;
        b->conversions = mt_realloc(b->conversions, (size_t)b->conversions_capacity * sizeof *b->conversions);
    }
    struct conversion *made = &b->conversions[b->nconversions++];
    *made = (struct conversion){.from = from, .to = to, .group = mt_calloc((size_t)b->program->nranks, sizeof(int))};
    made->kind = mt_layout_groups(&b->program->layouts, from, to, made->group);
    return made;
}

/* The held program value of `gvalue` from which `layout` is reached most cheaply (conversions are numbered by cost). */
static int best_source(struct mt_builder *b, int gvalue, int layout, enum mt_block_kind block,
                       enum mt_conversion *least) {
    int best = -1;
    for (int h = b->nheld[gvalue] - 1; h >= 0; h--) {
        int v = b->held[gvalue][h];
        if (!mt_builder_usable(b, v, block)) continue;
        enum mt_conversion kind = conversion(b, b->program->values[v].layout, layout)->kind;
        if (best < 0 || kind < *least) best = v, *least = kind;
    }
    return best;
}

/* Where a conversion of `value`, wanted in `block`, stands: what depends on no sample is converted in the prologue. */
static enum mt_block_kind conversion_block(const struct mt_builder *b, int value, enum mt_block_kind block) {
    return b->program->values[value].block == MT_PROLOGUE ? MT_PROLOGUE : block;
}

int mt_builder_whole(struct mt_builder *b, int gvalue, enum mt_block_kind block) {
    int64_t extent[MT_MAX_AXES];
    mt_builder_extents(b, gvalue, block, extent);
    return mt_layout_replicated(&b->program->layouts, b->graph->values[gvalue].naxes, extent);
}

static int converted(struct mt_builder *b, int from, int layout, enum mt_block_kind block, bool collective) {
    const struct mt_pvalue *v = &b->program->values[from];
    int gvalue = v->gvalue;
    enum mt_covers covers = v->covers;
    int to = mt_builder_add(b, gvalue, layout, block, collective || b->uniform[from]);
    b->program->values[to].covers = covers;
    mt_builder_hold(b, gvalue, to);
    return to;
}

/* One message: conversions of one kind between the same ranks. */
struct message {
    enum mt_coll_kind kind;
    enum mt_type wire, acc;
    enum mt_reduce reduce;
    enum mt_block_kind block;
};

static void emit_message(struct mt_builder *b, const struct message *m, int *group, int *from, int *to, int count) {
    struct mt_instr instr = {.kind = MT_INSTR_COLLECTIVE,
                             .gop = -1,
                             .nin = count,
                             .nout = count,
                             .in = from,
                             .out = to,
                             .coll = m->kind,
                             .reduce = m->reduce,
                             .wire = m->wire,
                             .acc = m->acc,
                             .group = group};
    instr.algorithm = mt_decisions_algorithm(&b->choice->decisions, m->kind, mt_message_bytes(b->program, &instr));
    mt_program_add(b->program, m->block, &instr);
}

int mt_builder_broadcast(struct mt_builder *b, int value, enum mt_block_kind block) {
    enum mt_type type = b->program->values[value].type;
    int to = converted(b, value, b->program->values[value].layout, block, true);
    int *group = mt_calloc((size_t)b->program->nranks, sizeof *group);
    emit_message(b, &(struct message){MT_BROADCAST, type, type, MT_REDUCE_NONE, block}, group, &value, &to, 1);
    free(group);
    return to;
}

/* What would bring one pending value to its layout now; false if no message is needed. */
static bool message_of(struct mt_builder *b, const struct pending *wanted, struct message *message, int **group,
                       int *source) {
    enum mt_conversion c = MT_CONVERT_NOTHING;
    *source = best_source(b, wanted->value, wanted->layout, wanted->block, &c);
    assert(*source >= 0);
    if (c <= MT_CONVERT_SLICE) return false;
    struct mt_program *p = b->program;
    int layout = p->values[*source].layout;
    *group = conversion(b, layout, wanted->layout)->group;
    enum mt_type wire = wire_type(b, wanted->value, coll_of[c]);
    enum mt_reduce reduce = p->layouts.items[layout].reduce;
    *message = (struct message){.kind = coll_of[c],
                                .wire = wire,
                                .acc = reduce ? mt_type_acc(b->graph->values[wanted->value].type) : wire,
                                .reduce = reduce,
                                .block = conversion_block(b, *source, wanted->block)};
    return true;
}

static bool same_message(const struct message *a, const int *group_a, const struct message *b, const int *group_b,
                         int nranks) {
    return a->kind == b->kind && a->wire == b->wire && a->acc == b->acc && a->reduce == b->reduce &&
           a->block == b->block && !memcmp(group_a, group_b, (size_t)nranks * sizeof *group_a);
}

static bool among(const int *values, int count, int value) {
    for (int i = 0; i < count; i++)
        if (values[i] == value) return true;
    return false;
}

void mt_builder_flush(struct mt_builder *b) {
    int n = b->nbucket, nranks = b->program->nranks;
    if (!n) return;
    int *from = mt_calloc((size_t)n, sizeof *from), *to = mt_calloc((size_t)n, sizeof *to);
    int *group = NULL, *one_group = NULL;
    b->nbucket = 0;
    b->bucket_bytes = 0;
    for (int first = 0, i; first < n; first = i) {
        struct message whole = {0}, one;
        int count = 0, source;
        for (i = first; i < n; i++) {
            if (!message_of(b, &b->bucket[i], &one, &one_group, &source)) continue;
            if (count && !same_message(&one, one_group, &whole, group, nranks)) break;
            if (among(to, count, source)) break; /* a message cannot be made of what it brings itself */
            whole = one;
            group = one_group;
            from[count] = source;
            to[count++] = converted(b, source, b->bucket[i].layout, one.block, true);
        }
        if (count) emit_message(b, &whole, group, from, to, count);
    }
    free(from);
    free(to);
}

bool mt_builder_full(const struct mt_builder *b, enum mt_block_kind block) {
    int64_t full_bytes = b->choice->decisions.bucket_bytes;
    if (block == MT_PROLOGUE)
        full_bytes = mt_bucket_first_bytes(full_bytes, b->gradient_bytes, b->nfull);
    else if (b->coming_bytes >= 0)
        full_bytes = mt_bucket_full_bytes(full_bytes, b->gradient_bytes, b->bucket_bytes + b->coming_bytes);
    return b->bucket_bytes >= full_bytes;
}

static void put_in_bucket(struct mt_builder *b, int gvalue, int layout, enum mt_block_kind block) {
    if (b->nbucket == b->bucket_capacity) {
        b->bucket_capacity = b->bucket_capacity ? 2 * b->bucket_capacity : 16;
        b->bucket = mt_realloc(b->bucket, (size_t)b->bucket_capacity * sizeof *b->bucket);
    }
    b->bucket[b->nbucket++] = (struct pending){gvalue, layout, block};
    int64_t bytes = mt_value_count(b->graph, gvalue) * mt_type_size(b->graph->values[gvalue].type);
    b->bucket_bytes += bytes;
    if (b->coming_bytes >= 0 && b->summed[gvalue])
        b->coming_bytes = b->coming_bytes > bytes ? b->coming_bytes - bytes : 0;
    if (!mt_builder_full(b, block) || b->ngiving) return;
    b->nfull += block == MT_PROLOGUE;
    mt_builder_flush(b);
}

enum mt_status mt_builder_ensure(struct mt_builder *b, int gvalue, int layout, enum mt_block_kind block) {
    const struct mt_value *v = &b->graph->values[gvalue];
    if (v->kind == MT_VALUE_INPUT) {
        for (int h = 0; h < b->nheld[gvalue]; h++)
            if (mt_builder_usable(b, b->held[gvalue][h], block) &&
                b->program->values[b->held[gvalue][h]].layout == layout)
                return MT_OK;
        enum mt_block_kind at = mt_builder_has_batch(b->graph, gvalue) ? block : MT_PROLOGUE;
        int p = mt_builder_add(b, gvalue, layout, at, true);
        b->program->values[p].input = true;
        mt_builder_hold(b, gvalue, p);
        return MT_OK;
    }
    if (v->producer >= 0 && b->classes[v->producer] == MT_INVARIANT && !b->emitted[v->producer]) {
        b->emitted[v->producer] = true;
        return mt_builder_op(b, v->producer, MT_PROLOGUE);
    }
    return MT_OK;
}

/* The layout that a partial value passes through on its way to shares, if the choice says so; else `layout` itself. */
static int waypoint(struct mt_builder *b, int gvalue, int layout, enum mt_conversion conversion,
                    enum mt_block_kind block) {
    bool detour = conversion == MT_CONVERT_REDUCE_SCATTER && b->choice->decisions.sync == MT_SYNC_ALL_REDUCE;
    return detour ? mt_builder_whole(b, gvalue, block) : layout;
}

enum mt_status mt_builder_want(struct mt_builder *b, int gvalue, int layout, enum mt_block_kind block, int *value) {
    enum mt_status st = mt_builder_ensure(b, gvalue, layout, block);
    if (st) return st;
    for (;;) {
        enum mt_conversion c = MT_CONVERT_NOTHING;
        int source = best_source(b, gvalue, layout, block, &c);
        if (source < 0)
            return mt_fail(b->err, MT_EBUG, "the builder wants %s in the %s block before it exists",
                           b->graph->values[gvalue].name, mt_block_name(block));
        if (c == MT_CONVERT_NOTHING) return *value = source, MT_OK;
        enum mt_block_kind at = conversion_block(b, source, block);
        if (c == MT_CONVERT_SLICE) {
            *value = converted(b, source, layout, at, false);
            emit_slice(b, source, *value, at);
            return MT_OK;
        }
        put_in_bucket(b, gvalue, waypoint(b, gvalue, layout, c, block), block);
        mt_builder_flush(b);
    }
}

enum mt_status mt_builder_want_soon(struct mt_builder *b, int gvalue, int layout, enum mt_block_kind block) {
    enum mt_status st = mt_builder_ensure(b, gvalue, layout, block);
    if (st) return st;
    enum mt_conversion c = MT_CONVERT_NOTHING;
    int source = best_source(b, gvalue, layout, block, &c);
    if (source < 0 || c <= MT_CONVERT_SLICE) return MT_OK;
    int aim = waypoint(b, gvalue, layout, c, block), whole = mt_builder_whole(b, gvalue, block);
    for (int i = 0; i < b->nbucket; i++) { /* shares are cut from the whole */
        const struct pending *p = &b->bucket[i];
        if (p->value == gvalue && (p->layout == aim || p->layout == whole)) return MT_OK;
    }
    put_in_bucket(b, gvalue, aim, block);
    return MT_OK;
}
