/* The interpreter's values: buffers, and states and inputs set and read whole. */
#include "synth/interp/interp.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "synth/interp/init.h"
#include "synth/interp/internal.h"

void *mt_interp_alloc(const struct mt_program *program, int value, int rank) {
    const struct mt_pvalue *v = &program->values[value];
    int64_t count = mt_box_count(mt_pvalue_box(program, value, rank), mt_pvalue_layout(program, value)->naxes);
    size_t size = (size_t)(count * mt_type_size(v->type));
    void *buffer = mt_malloc(size);
    memset(buffer, 0xff, size);
    return buffer;
}

void mt_interp_install(struct mt_interp *interp, int value, int rank, void *buffer) {
    void **slot = mt_interp_buffer(interp, value, rank);
    free(*slot);
    *slot = buffer;
}

enum mt_status mt_interp_made(const struct mt_interp *interp, int value, int rank, struct mt_err *err) {
    if (*mt_interp_buffer(interp, value, rank)) return MT_OK;
    const struct mt_program *p = interp->program;
    return mt_fail(err, MT_EBUG, "%%%d (%s) is used on rank %d, but is not there", value,
                   p->graph->values[p->values[value].gvalue].name, rank);
}

void mt_boxed_copy(void *data, const struct mt_boxed *to, const struct mt_boxed *from, int naxes) {
    struct mt_box common;
    struct rows w;
    if (!mt_box_intersect(to->box, from->box, naxes, &common)) return;
    for (rows_begin(&w, &common, naxes); w.more; rows_next(&w)) {
        int64_t target = mt_place_in(to->box, naxes, w.at), source = mt_place_in(from->box, naxes, w.at);
        mt_type_convert(to->type, (char *)data + target * mt_type_size(to->type), from->type,
                        (const char *)from->data + source * mt_type_size(from->type), w.length);
    }
}

static bool has_batch(const struct mt_graph *g, int gvalue) {
    for (int a = 0; a < g->values[gvalue].naxes; a++)
        if (g->values[gvalue].label[a] == g->batch) return true;
    return false;
}

/* Activations are freed after their last use; the logits and values without samples stay for reports. */
static void find_last_uses(struct mt_interp *interp) {
    const struct mt_program *p = interp->program;
    int number = 0;
    for (int b = 0; b < MT_NBLOCKS; b++)
        for (int i = 0; i < p->blocks[b].ninstrs; i++, number++)
            for (int k = 0; k < p->blocks[b].instrs[i].nin; k++) {
                int value = p->blocks[b].instrs[i].in[k], gvalue = p->values[value].gvalue;
                if (has_batch(p->graph, gvalue) && gvalue != p->graph->logits) interp->last_use[value] = number;
            }
}

static void find_homes(struct mt_interp *interp) {
    const struct mt_block *body = &interp->program->blocks[MT_BODY];
    for (int i = 0; i < body->ninstrs; i++)
        if (body->instrs[i].kind == MT_INSTR_ACCUMULATE)
            interp->home[body->instrs[i].out[0]] = interp->home[body->instrs[i].in[0]];
}

struct mt_interp *mt_interp_new(const struct mt_program *program) {
    struct mt_interp *interp = mt_calloc(1, sizeof *interp);
    size_t nvalues = (size_t)program->nvalues;
    interp->program = program;
    interp->buffers = mt_calloc(nvalues * (size_t)program->nranks, sizeof *interp->buffers);
    interp->inputs = mt_calloc((size_t)program->graph->nvalues, sizeof *interp->inputs);
    interp->home = mt_calloc(nvalues, sizeof *interp->home);
    interp->last_use = mt_calloc(nvalues, sizeof *interp->last_use);
    for (int v = 0; v < program->nvalues; v++) interp->home[v] = v, interp->last_use[v] = -1;
    if (mt_interp_sound(program, &interp->broken)) return interp;
    find_homes(interp);
    find_last_uses(interp);
    return interp;
}

void mt_interp_free(struct mt_interp *interp) {
    if (!interp) return;
    for (int64_t i = 0; i < (int64_t)interp->program->nvalues * interp->program->nranks; i++) free(interp->buffers[i]);
    for (int v = 0; v < interp->program->graph->nvalues; v++) free(interp->inputs[v]);
    free(interp->buffers);
    free(interp->inputs);
    free(interp->home);
    free(interp->last_use);
    free(interp);
}

static struct mt_box whole_box(const struct mt_graph *g, int gvalue) {
    struct mt_box box = {{0}, {0}};
    for (int a = 0; a < g->values[gvalue].naxes; a++) box.hi[a] = mt_value_extent(g, gvalue, a);
    return box;
}

/* Whether a part is the first of its cover. */
static bool is_first_part(const struct mt_layout *l, int part) {
    int first = 0;
    while (l->cover[first] != l->cover[part]) first++;
    return first == part;
}

/* Distribute a whole value; the first part of each cover has it and the other parts are neutral. */
static void scatter(struct mt_interp *interp, int value, const void *data) {
    const struct mt_program *p = interp->program;
    const struct mt_graph *g = p->graph;
    int gvalue = p->values[value].gvalue;
    const struct mt_layout *l = mt_pvalue_layout(p, value);
    struct mt_box whole = whole_box(g, gvalue);
    struct mt_boxed from = {data, &whole, g->values[gvalue].type};
    for (int r = 0; r < p->nranks; r++) {
        struct mt_boxed to = {.box = &l->box[r], .type = p->values[value].type};
        void *buffer = mt_interp_alloc(p, value, r);
        int64_t count = mt_box_count(to.box, l->naxes);
        bool first = is_first_part(l, l->part[r]);
        if (first) mt_boxed_copy(buffer, &to, &from, l->naxes);
        for (int64_t i = 0; i < count && !first; i++)
            mt_type_store(to.type, buffer, i, l->reduce == MT_MAX ? -INFINITY : 0);
        mt_interp_install(interp, value, r, buffer);
    }
}

void mt_interp_set(struct mt_interp *interp, int gvalue, const void *data) {
    const struct mt_program *p = interp->program;
    const struct mt_value *gv = &p->graph->values[gvalue];
    if (interp->broken.status) return;
    if (gv->kind == MT_VALUE_INPUT) {
        size_t size = (size_t)(mt_value_count(p->graph, gvalue) * mt_type_size(gv->type));
        free(interp->inputs[gvalue]);
        interp->inputs[gvalue] = memcpy(mt_malloc(size), data, size);
        return;
    }
    for (int v = 0; v < p->nvalues; v++)
        if (p->values[v].input && p->values[v].gvalue == gvalue) scatter(interp, v, data);
}

void mt_interp_init_states(struct mt_interp *interp, uint64_t seed) {
    const struct mt_graph *g = interp->program->graph;
    for (int v = 0; v < g->nvalues; v++) {
        if (g->values[v].kind != MT_VALUE_STATE) continue;
        struct mt_box whole = whole_box(g, v);
        void *data = mt_malloc((size_t)(mt_value_count(g, v) * mt_type_size(g->values[v].type)));
        mt_init_fill(g, v, &whole, seed, data);
        mt_interp_set(interp, v, data);
        free(data);
    }
}

/* One part of a value: each element from the first rank that holds it. *spread is raised to the largest difference of
 * the others. */
static void gather_part(const struct mt_interp *interp, int value, int part, const struct mt_box *whole, double *data,
                        double *spread) {
    const struct mt_program *p = interp->program;
    const struct mt_layout *l = mt_pvalue_layout(p, value);
    bool *got = mt_calloc((size_t)mt_box_count(whole, l->naxes), sizeof *got);
    for (int r = 0; r < p->nranks; r++) {
        struct rows w;
        const void *buffer = *mt_interp_buffer(interp, value, r);
        if (l->part[r] != part || !buffer) continue;
        for (rows_begin(&w, &l->box[r], l->naxes); w.more; rows_next(&w)) {
            int64_t target = mt_place_in(whole, l->naxes, w.at), source = mt_place_in(&l->box[r], l->naxes, w.at);
            for (int64_t i = 0; i < w.length; i++) {
                double x = mt_type_load(p->values[value].type, buffer, source + i);
                double difference = got[target + i] ? fabs(x - data[target + i]) : isnan(x) ? INFINITY : 0;
                if (!(difference <= *spread)) *spread = isnan(difference) ? INFINITY : difference;
                if (!got[target + i]) data[target + i] = x;
                got[target + i] = true;
            }
        }
    }
    free(got);
}

/* One cover of a value: its parts reduced. Elements that it does not hold are NaN. */
static void assemble_cover(const struct mt_interp *interp, int value, int cover, double *data, double *spread) {
    const struct mt_layout *l = mt_pvalue_layout(interp->program, value);
    struct mt_box whole = {{0}, {0}};
    for (int a = 0; a < l->naxes; a++) whole.hi[a] = l->extent[a];
    int64_t count = mt_box_count(&whole, l->naxes);
    double *one = mt_malloc((size_t)count * sizeof *one);
    bool first = true;
    for (int part = 0; part < l->nparts; part++) {
        if (l->cover[part] != cover) continue;
        for (int64_t i = 0; i < count; i++) one[i] = NAN;
        gather_part(interp, value, part, &whole, one, spread);
        for (int64_t i = 0; i < count; i++)
            data[i] = first ? one[i] : l->reduce == MT_MAX ? fmax(data[i], one[i]) : data[i] + one[i];
        first = false;
    }
    free(one);
}

/* The whole value: each element from the first cover that holds it. Elements that none holds are NaN. */
static void assemble(const struct mt_interp *interp, int value, double *data, double *spread) {
    const struct mt_layout *l = mt_pvalue_layout(interp->program, value);
    int64_t count = 1;
    for (int a = 0; a < l->naxes; a++) count *= l->extent[a];
    assemble_cover(interp, value, 0, data, spread);
    double *other = l->ncovers > 1 ? mt_malloc((size_t)count * sizeof *other) : NULL;
    for (int cover = 1; cover < l->ncovers; cover++) {
        assemble_cover(interp, value, cover, other, spread);
        for (int64_t i = 0; i < count; i++)
            if (isnan(data[i])) data[i] = other[i];
    }
    free(other);
}

void mt_interp_get(const struct mt_interp *interp, int gvalue, void *data, double *spread) {
    const struct mt_program *p = interp->program;
    int64_t count = mt_value_count(p->graph, gvalue);
    double *whole = mt_malloc((size_t)count * sizeof *whole);
    int value = -1;
    for (int v = p->nvalues - 1; v >= 0 && !interp->broken.status; v--)
        if (p->values[v].input && p->values[v].gvalue == gvalue) value = v;
    *spread = value < 0 ? INFINITY : 0;
    for (int64_t i = 0; i < count; i++) whole[i] = NAN;
    if (value >= 0) assemble(interp, value, whole, spread);
    enum mt_type type = p->graph->values[gvalue].type;
    for (int64_t i = 0; i < count; i++) mt_type_store(type, data, i, type == MT_I32 && isnan(whole[i]) ? -1 : whole[i]);
    free(whole);
}

static bool made_everywhere(const struct mt_interp *interp, int value) {
    for (int r = 0; r < interp->program->nranks; r++)
        if (!*mt_interp_buffer(interp, value, r)) return false;
    return true;
}

/* Whether the value is made on all ranks, is not partial, and covers the whole batch. */
static bool is_whole(const struct mt_interp *interp, int value) {
    const struct mt_program *p = interp->program;
    const struct mt_pvalue *v = &p->values[value];
    if (v->covers != MT_COVERS_ALL || mt_layout_is_partial(mt_pvalue_layout(p, value)) ||
        !made_everywhere(interp, value))
        return false;
    return !has_batch(p->graph, v->gvalue) || !p->blocks[MT_BODY].ninstrs;
}

bool mt_interp_result(const struct mt_interp *interp, int gvalue, double *data) {
    const struct mt_program *p = interp->program;
    for (int v = p->nvalues - 1; v >= 0 && !interp->broken.status; v--)
        if (p->values[v].gvalue == gvalue && is_whole(interp, v)) {
            double spread = 0;
            assemble(interp, v, data, &spread);
            return true;
        }
    return false;
}
