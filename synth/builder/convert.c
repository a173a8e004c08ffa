/* Values in their layouts, and conversions between layouts.
 *
 * If no held value has the wanted layout, it is converted from the one from which that is cheapest, and held.
 * Conversions of gradients and weights are asked for early and wait in the bucket (bucket.h), so that they share
 * messages, which overlap computation. */
#include <assert.h>
#include <stdlib.h>

#include "kernels/overlap/overlap.h"
#include "synth/builder/internal.h"
#include "synth/layout/convert/route.h"
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
    rule.inner = b->inner[block][op];
    return rule;
}

int mt_builder_wanted(struct mt_builder *b, int op, const struct mt_rule *rule, int input, enum mt_block_kind block) {
    int64_t extent[MT_MAX_AXES];
    mt_builder_extents(b, b->graph->ops[op].in[input], block, extent);
    return mt_rule_input(&b->program->layouts, b->graph, &b->graph->ops[op], rule, &b->mesh, input, extent);
}

int mt_builder_given(struct mt_builder *b, int op, const struct mt_rule *rule, int output, enum mt_block_kind block) {
    int64_t extent[MT_MAX_AXES];
    mt_builder_extents(b, b->graph->ops[op].out[output], block, extent);
    return mt_rule_output(&b->program->layouts, b->graph, &b->graph->ops[op], rule, &b->mesh, output, extent);
}

int mt_builder_add(struct mt_builder *b, int gvalue, int layout, enum mt_block_kind block, enum mt_uniform uniform) {
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
    enum mt_covers covers = b->summed[v->gvalue] ? b->sums : MT_COVERS_ALL;
    return v->covers == covers && (covers == MT_COVERS_ALL ? v->block <= block : v->block == block);
}

void mt_builder_drop(struct mt_builder *b, int gvalue, enum mt_block_kind block) {
    int *held = b->held[gvalue], n = 0;
    for (int h = 0; h < b->nheld[gvalue]; h++)
        if (b->program->values[held[h]].block != block) held[n++] = held[h];
    b->nheld[gvalue] = n;
}

void mt_builder_slice(struct mt_builder *b, int from, int to, enum mt_block_kind block) {
    struct mt_instr instr = {.kind = MT_INSTR_SLICE, .gop = -1, .nin = 1, .nout = 1, .in = &from, .out = &to};
    mt_program_add(b->program, block, &instr);
}

static enum mt_type wire_type(const struct mt_builder *b, int gvalue, enum mt_coll_kind kind) {
    const struct mt_value *v = &b->graph->values[gvalue];
    bool gradient = mt_coll_reduces(kind) && v->naxes > 0 && b->summed[gvalue] && v->type == b->graph->acc;
    return gradient ? b->choice->decisions.gradient_wire : v->type;
}

struct conversion *mt_builder_known_conversion(struct mt_builder *b, int from, int to) {
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

enum mt_conversion mt_builder_conversion(struct mt_builder *b, int from, int to, const int **group) {
    const struct conversion *c = mt_builder_known_conversion(b, from, to);
    if (group) *group = c->group;
    return c->kind;
}

/* The held program value of `gvalue` from which `layout` is reached most cheaply (conversions are numbered by cost). */
static int best_source(struct mt_builder *b, int gvalue, int layout, enum mt_block_kind block,
                       enum mt_conversion *least) {
    int best = -1;
    for (int h = b->nheld[gvalue] - 1; h >= 0; h--) {
        int v = b->held[gvalue][h];
        if (!mt_builder_usable(b, v, block)) continue;
        enum mt_conversion kind = mt_builder_known_conversion(b, b->program->values[v].layout, layout)->kind;
        if (best < 0 || kind < *least) best = v, *least = kind;
    }
    return best;
}

/* The block into which a conversion of `value`, wanted in `block`, is emitted: values of the prologue stay in it, but
 * for weights that are gathered for a layer. */
static enum mt_block_kind conversion_block(const struct mt_builder *b, int value, enum mt_conversion conversion,
                                           enum mt_block_kind block) {
    const struct mt_pvalue *v = &b->program->values[value];
    bool gathers =
        conversion > MT_CONVERT_SLICE && mt_builder_gathers_layers(b, block) && mt_builder_is_weight(b, v->gvalue);
    return v->block == MT_PROLOGUE && !gathers ? MT_PROLOGUE : block;
}

int mt_builder_whole(struct mt_builder *b, int gvalue, enum mt_block_kind block) {
    int64_t extent[MT_MAX_AXES];
    mt_builder_extents(b, gvalue, block, extent);
    return mt_layout_replicated(&b->program->layouts, b->graph->values[gvalue].naxes, extent);
}

int mt_builder_converted(struct mt_builder *b, int from, int layout, enum mt_block_kind block,
                         enum mt_uniform uniform) {
    const struct mt_pvalue *v = &b->program->values[from];
    int gvalue = v->gvalue;
    enum mt_covers covers = v->covers;
    int to = mt_builder_add(b, gvalue, layout, block, uniform);
    b->program->values[to].covers = covers;
    mt_builder_hold(b, gvalue, to);
    if (mt_builder_gathers_layers(b, block) && mt_builder_is_weight(b, gvalue)) {
        mt_arena_grow(&b->scratch, &b->gathered, b->ngathered, &b->gathered_capacity, sizeof *b->gathered);
        b->gathered[b->ngathered++] = gvalue;
    }
    return to;
}

void mt_builder_message(struct mt_builder *b, const struct mt_bucket_key *m, int *from, int *to, int count) {
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
                             .group = m->group};
    instr.algorithm = mt_decisions_algorithm(&b->choice->decisions, m->kind, mt_message_bytes(b->program, &instr));
    mt_program_add(b->program, m->block, &instr);
}

/* The source and the message of one pending conversion as of now; false if no message is needed. */
static bool message_of(struct mt_builder *b, const struct pending *wanted, struct mt_bucket_key *key, int *source) {
    enum mt_conversion c = MT_CONVERT_NOTHING;
    enum mt_covers sums = b->sums;
    b->sums = wanted->sums;
    *source = best_source(b, wanted->value, wanted->layout, wanted->block, &c);
    b->sums = sums;
    assert(*source >= 0);
    if (c <= MT_CONVERT_SLICE) return false;
    struct mt_program *p = b->program;
    int layout = p->values[*source].layout;
    enum mt_type wire = wire_type(b, wanted->value, mt_conversion_coll[c]);
    enum mt_reduce reduce = p->layouts.items[layout].reduce;
    *key = (struct mt_bucket_key){.kind = mt_conversion_coll[c],
                                  .wire = wire,
                                  .acc = reduce ? mt_type_acc(b->graph->values[wanted->value].type) : wire,
                                  .reduce = reduce,
                                  .block = conversion_block(b, *source, c, wanted->block),
                                  .group = mt_builder_known_conversion(b, layout, wanted->layout)->group};
    return true;
}

static bool among(const int *values, int count, int value) {
    for (int i = 0; i < count; i++)
        if (values[i] == value) return true;
    return false;
}

void mt_builder_send(struct mt_builder *b, const struct pending *wanted, int n) {
    int *from = mt_calloc((size_t)n, sizeof *from), *to = mt_calloc((size_t)n, sizeof *to);
    for (int first = 0, i; first < n; first = i) {
        struct mt_bucket_key key = {0}, one;
        int count = 0, source;
        for (i = first; i < n; i++) {
            if (!message_of(b, &wanted[i], &one, &source)) continue;
            if (count && !mt_bucket_same_message(&one, &key, b->program->nranks)) break;
            if (among(to, count, source)) break; /* its input is an output of this message */
            key = one;
            from[count] = source;
            to[count++] = mt_builder_converted(b, source, wanted[i].layout, one.block,
                                               mt_builder_uniform_after(b, source, wanted[i].layout));
        }
        if (count) mt_builder_message(b, &key, from, to, count);
    }
    free(from);
    free(to);
}

static void add_pending(struct mt_builder *b, struct pending wanted) {
    if (b->nbucket == b->bucket_capacity) {
        b->bucket_capacity = b->bucket_capacity ? 2 * b->bucket_capacity : 16;
        b->bucket = mt_realloc(b->bucket, (size_t)b->bucket_capacity * sizeof *b->bucket);
    }
    b->bucket[b->nbucket++] = wanted;
}

/* Whether a reduction overlaps the GEMM that makes its value, so that it must be a message of its own (pair.h). */
static bool overlaps(struct mt_builder *b, const struct pending *wanted) {
    int producer = b->graph->values[wanted->value].producer, source;
    struct mt_bucket_key key;
    if (!b->program->overlap || wanted->layout != wanted->aim || producer < 0 ||
        b->graph->ops[producer].kind != MT_OP_matmul || !message_of(b, wanted, &key, &source))
        return false;
    if (b->program->values[source].block != wanted->block || key.reduce != MT_SUM) return false;
    return (key.kind == MT_REDUCE_SCATTER && b->program->overlap >> MT_OVERLAP_SCATTER & 1) ||
           (key.kind == MT_ALL_REDUCE && b->program->overlap >> MT_OVERLAP_REDUCE & 1);
}

static void put_in_bucket(struct mt_builder *b, int gvalue, int layout, int aim, enum mt_block_kind block) {
    struct pending alone = {gvalue, layout, block, b->sums, aim};
    if (overlaps(b, &alone)) {
        b->nsent++;
        mt_builder_send(b, &alone, 1);
        return;
    }
    add_pending(b, (struct pending){gvalue, layout, block, b->sums, aim});
    int64_t bytes = mt_value_count(b->graph, gvalue) * mt_type_size(b->graph->values[gvalue].type);
    if (mt_bucketing_add(&b->bucketing, bytes, b->summed[gvalue])) mt_builder_flush(b);
}

/* The layout that a value takes next on its way to `layout`: replicated, with MT_SYNC_ALL_REDUCE, if a partial sum is
 * wanted in shares; or that of a route over nodes. */
static int waypoint(struct mt_builder *b, int source, int layout, enum mt_block_kind block) {
    struct conversion *c = mt_builder_known_conversion(b, b->program->values[source].layout, layout);
    bool detour = c->kind == MT_CONVERT_REDUCE_SCATTER && b->choice->decisions.sync == MT_SYNC_ALL_REDUCE &&
                  !mt_builder_is_partial(b, layout);
    if (detour) return mt_builder_whole(b, b->program->values[source].gvalue, block);
    if (c->kind != MT_CONVERT_ALL_TO_ALL) return layout;
    if (!c->route) {
        int route = mt_layout_route(&b->program->layouts, &b->mesh, c->from, c->to) + 1;
        mt_builder_known_conversion(b, b->program->values[source].layout, layout)->route =
            route; /* the vector may have moved */
        return route - 1;
    }
    return c->route - 1;
}

/* The next layout on the way from what is held; of steps that take no message, the values are made. */
static int next_step(struct mt_builder *b, int gvalue, int layout, enum mt_block_kind block) {
    for (;;) {
        enum mt_conversion c = MT_CONVERT_NOTHING;
        int source = best_source(b, gvalue, layout, block, &c), next = waypoint(b, source, layout, block), value;
        if (next == layout || !mt_builder_is_near(b, gvalue, next, block)) return next;
        if (mt_builder_convert(b, gvalue, next, block, &value)) return layout;
    }
}

/* What is sent may be on its way to another layout: the next step is in the next bucket. */
void mt_builder_flush(struct mt_builder *b) {
    int n = b->nbucket;
    if (!n) return;
    struct pending *sent = mt_malloc((size_t)n * sizeof *sent);
    memcpy(sent, b->bucket, (size_t)n * sizeof *sent);
    b->nbucket = 0;
    b->nsent++;
    mt_bucketing_sent(&b->bucketing);
    mt_builder_send(b, sent, n);
    enum mt_covers sums = b->sums;
    for (int i = 0; i < n; i++) {
        struct pending *p = &sent[i];
        b->sums = p->sums;
        if (p->layout == p->aim || mt_builder_is_near(b, p->value, p->aim, p->block)) continue;
        p->layout = next_step(b, p->value, p->aim, p->block);
        add_pending(b, *p);
        int64_t bytes = mt_value_count(b->graph, p->value) * mt_type_size(b->graph->values[p->value].type);
        mt_bucketing_wait(&b->bucketing, bytes);
    }
    b->sums = sums;
    free(sent);
}

enum mt_status mt_builder_convert(struct mt_builder *b, int gvalue, int layout, enum mt_block_kind block, int *value) {
    for (;;) {
        enum mt_conversion c = MT_CONVERT_NOTHING;
        int source = best_source(b, gvalue, layout, block, &c);
        if (source < 0)
            return mt_fail(b->err, MT_EBUG, "the builder wants %s in the %s block before it exists",
                           b->graph->values[gvalue].name, mt_block_name(block));
        if (c == MT_CONVERT_NOTHING) return *value = source, MT_OK;
        enum mt_block_kind at = conversion_block(b, source, c, block);
        if (c == MT_CONVERT_SLICE) {
            *value = mt_builder_converted(b, source, layout, at, b->uniform[source]);
            mt_builder_slice(b, source, *value, at);
            return MT_OK;
        }
        put_in_bucket(b, gvalue, next_step(b, gvalue, layout, block), layout, block);
        mt_builder_flush(b);
    }
}

bool mt_builder_is_near(struct mt_builder *b, int gvalue, int layout, enum mt_block_kind block) {
    enum mt_conversion c = MT_CONVERT_NOTHING;
    return best_source(b, gvalue, layout, block, &c) >= 0 && c <= MT_CONVERT_SLICE;
}

void mt_builder_convert_soon(struct mt_builder *b, int gvalue, int layout, enum mt_block_kind block) {
    enum mt_conversion c = MT_CONVERT_NOTHING;
    int source = best_source(b, gvalue, layout, block, &c);
    if (source < 0 || c <= MT_CONVERT_SLICE) return;
    int next = next_step(b, gvalue, layout, block), whole = mt_builder_whole(b, gvalue, block);
    for (int i = 0; i < b->nbucket; i++) { /* shares are sliced from the replicated value */
        const struct pending *p = &b->bucket[i];
        if (p->value == gvalue && p->sums == b->sums && (p->layout == next || p->aim == layout || p->layout == whole))
            return;
    }
    put_in_bucket(b, gvalue, next, next == whole ? next : layout, block);
}
