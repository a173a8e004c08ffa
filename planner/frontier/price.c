/* Prices. Ranks with equal devices and boxes of equal extents take equally long, as do groups of such ranks; each kind
 * is priced once. The memo of the costs keeps prices by what the layouts are, so that spaces of one job share them. */
#include "planner/frontier/price.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/number/hash.h"
#include "planner/frontier/exchange.h"
#include "synth/layout/convert/route.h"
#include "synth/program/message.h"

static const int64_t bulk_bytes = 32 << 20; /* of a large message */

/* All that prices depend on beside the operator or value: which devices the ranks are, and their nodes. */
static uint64_t ranks_hash(const struct mt_pricing *pricing, uint64_t seed) {
    size_t bytes = (size_t)pricing->costs->nranks * sizeof(int);
    uint64_t hash = mt_hash64(pricing->costs->device, bytes, seed);
    return pricing->mesh ? mt_hash64(pricing->mesh->node, bytes, hash) : hash;
}

/* ---- operators ---- */

static bool tensor_of(const struct mt_layouts *layouts, const struct mt_graph *g, int value, int layout, int rank,
                      struct mt_tensor *t) {
    const struct mt_box *box = &layouts->items[layout].box[rank];
    *t = (struct mt_tensor){.type = g->values[value].type, .naxes = g->values[value].naxes};
    for (int a = 0; a < t->naxes; a++) {
        t->extent[a] = box->hi[a] - box->lo[a];
        t->offset[a] = box->lo[a];
        t->global[a] = layouts->items[layout].extent[a];
    }
    return mt_tensor_count(t) > 0;
}

static double price_op(const struct mt_pricing *pricing, int op, const int *in, const int *out, double *rank_s) {
    const struct mt_costs *costs = pricing->costs;
    const struct mt_layouts *layouts = pricing->layouts;
    const struct mt_graph *g = pricing->graph;
    const struct mt_op *o = &g->ops[op];
    struct mt_tensor tensors[MT_MAX_IN + MT_MAX_OUT];
    uint64_t last = 0;
    double slowest_s = 0, last_s = 0;
    for (int r = 0; r < costs->nranks; r++) {
        bool some = true;
        memset(tensors, 0, sizeof tensors);
        for (int k = 0; k < o->nin + o->nout; k++) {
            int value = k < o->nin ? o->in[k] : o->out[k - o->nin];
            some &= tensor_of(layouts, g, value, k < o->nin ? in[k] : out[k - o->nin], r, &tensors[k]);
        }
        if (rank_s) rank_s[r] = 0;
        if (!some) continue;
        const struct mt_cluster_device *device = &costs->cluster->devices[costs->device[r]];
        uint64_t seen = mt_hash64(&device->speed, sizeof device->speed, (uint64_t)device->class);
        for (int k = 0; k < o->nin + o->nout; k++) seen = mt_hash64(tensors[k].extent, sizeof tensors[k].extent, seen);
        if (o->attr.causal) /* later queries see more keys */
            for (int k = 0; k < o->nin; k++) seen = mt_hash64(tensors[k].offset, sizeof tensors[k].offset, seen);
        if (seen != last) { /* not as the rank before */
            struct mt_call call = {.kind = o->kind,
                                   .attr = &o->attr,
                                   .nin = o->nin,
                                   .nout = o->nout,
                                   .in = tensors,
                                   .out = tensors + o->nin};
            struct mt_op_shape shape;
            mt_op_shape(&call, &shape);
            last_s = mt_cost_op(costs, r, &shape).s;
            last = seen;
        }
        if (rank_s) rank_s[r] = last_s;
        slowest_s = fmax(slowest_s, last_s);
    }
    return slowest_s;
}

static uint64_t op_key(const struct mt_pricing *pricing, int op, const int *in, const int *out) {
    const struct mt_graph *g = pricing->graph;
    const struct mt_op *o = &g->ops[op];
    struct mt_attr attr = o->attr;
    attr.tag = 0;
    uint64_t hash = ranks_hash(pricing, mt_hash64(&attr, sizeof attr, 1 + (uint64_t)o->kind));
    for (int k = 0; k < o->nin + o->nout; k++) {
        const struct mt_layout *l = &pricing->layouts->items[k < o->nin ? in[k] : out[k - o->nin]];
        uint64_t what[] = {l->hash, (uint64_t)g->values[k < o->nin ? o->in[k] : o->out[k - o->nin]].type};
        hash = mt_hash64(what, sizeof what, hash);
    }
    return hash;
}

double mt_price_op(const struct mt_pricing *pricing, int op, const int *in, const int *out, double *rank_s) {
    double s;
    if (rank_s) return price_op(pricing, op, in, out, rank_s);
    uint64_t key = op_key(pricing, op, in, out);
    if (mt_cost_recall(pricing->costs, key, &s)) return s;
    s = price_op(pricing, op, in, out, NULL);
    mt_cost_note(pricing->costs, key, s);
    return s;
}

/* ---- conversions ---- */

static double copies_s(const struct mt_costs *costs, int rank, const struct mt_message *m) {
    const struct mt_message_side *sides[] = {&m->pack, &m->unpack};
    bool arrays = mt_cost_takes_arrays(costs, rank, &m->problem);
    double s = 0;
    for (int i = 0; i < 2; i++) {
        if (sides[i]->is_tensor) continue;
        s += mt_cost_copy_s(costs, rank, arrays ? sides[i]->rest_bytes : sides[i]->bytes,
                            arrays ? sides[i]->nrest : sides[i]->count);
    }
    return s;
}

/* The problem with `times` the elements. */
static struct mt_coll scaled(const struct mt_coll *problem, int64_t times, struct mt_arena *arena) {
    struct mt_coll more = *problem;
    int n = problem->kind == MT_ALL_TO_ALL ? problem->n * problem->n : problem->n;
    int64_t *counts = mt_new(arena, int64_t, n);
    for (int i = 0; i < n; i++) counts[i] = times * problem->counts[i];
    more.counts = counts;
    return more;
}

static int64_t bytes_of(const struct mt_coll *problem) {
    int n = problem->kind == MT_ALL_TO_ALL ? problem->n * problem->n : problem->n;
    int64_t count = 0;
    for (int i = 0; i < n; i++) count += problem->counts[i];
    return count * mt_type_size(problem->wire);
}

/* Classes of the group's devices, and which are on one host. */
static uint64_t group_hash(const struct mt_costs *costs, const struct mt_coll *problem, const int *group) {
    int n = problem->kind == MT_ALL_TO_ALL ? problem->n * problem->n : problem->n;
    uint64_t hash = mt_hash64(problem->counts, (size_t)n * sizeof *problem->counts, (uint64_t)problem->n);
    const struct mt_cluster_device *devices = costs->cluster->devices;
    int first_host = devices[costs->device[group[0]]].node;
    for (int i = 0; i < problem->n; i++) {
        const struct mt_cluster_device *d = &devices[costs->device[group[i]]];
        int what[] = {d->class, d->node - first_host};
        hash = mt_hash64(what, sizeof what, hash);
    }
    return hash;
}

static enum mt_status price_groups(const struct mt_costs *costs, const struct mt_program *program,
                                   const struct mt_instr *instr, bool bulk, double *slowest_s) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_err ignored = MT_ERR_INIT;
    bool *seen = mt_new(&arena, bool, program->nranks);
    uint64_t *hashes = mt_new(&arena, uint64_t, program->nranks);
    int nhashes = 0, *concurrent = mt_new(&arena, int, program->nranks);
    struct mt_costs sharing = *costs;
    enum mt_status st = MT_OK;
    mt_cost_concurrent(costs, instr->group, program->nranks, concurrent);
    for (int r = 0; r < program->nranks && !st; r++) {
        struct mt_message m;
        const struct mt_message_form sketch = {.sketch = true, .wire_sums = mt_cost_wire_sums(costs, r)};
        if (seen[instr->group[r]]) continue;
        seen[instr->group[r]] = true;
        if ((st = mt_message_make(program, instr, r, &sketch, &arena, &m, &ignored)) || m.problem.n < 2) continue;
        uint64_t hash = group_hash(costs, &m.problem, m.group) + (uint64_t)concurrent[r];
        sharing.concurrent = concurrent[r];
        int known = 0;
        while (known < nhashes && hashes[known] != hash) known++;
        if (known < nhashes) continue;
        hashes[nhashes++] = hash;
        int64_t bytes = bytes_of(&m.problem), times = bulk && bytes > 0 ? (bulk_bytes + bytes - 1) / bytes : 1;
        struct mt_coll problem = scaled(&m.problem, times, &arena);
        struct mt_cost cost;
        if (!bytes || !mt_cost_choose(&sharing, &problem, m.group, &cost)) continue;
        *slowest_s = fmax(*slowest_s, cost.s / (double)times + copies_s(costs, r, &m));
    }
    mt_arena_release(&arena);
    return st;
}

/* One message of a value, with the copies that it needs. */
static double price_message(const struct mt_pricing *pricing, int gvalue, int from, int to, enum mt_coll_kind coll,
                            int *group, bool bulk) {
    const struct mt_costs *costs = pricing->costs;
    const struct mt_graph *g = pricing->graph;
    int *node = pricing->mesh ? (int *)(uintptr_t)pricing->mesh->node : NULL; /* which is only read */
    struct mt_program program = {.graph = g, .nranks = costs->nranks, .node = node, .layouts = *pricing->layouts};
    enum mt_type type = g->values[gvalue].type;
    struct mt_pvalue values[] = {{.gvalue = gvalue, .layout = from, .type = type, .block = MT_LAST, .next = -1},
                                 {.gvalue = gvalue, .layout = to, .type = type, .block = MT_LAST, .next = -1}};
    enum mt_reduce reduce = pricing->layouts->items[from].reduce;
    int in = 0, out = 1;
    double seconds = 0;
    struct mt_instr instr = {.kind = MT_INSTR_COLLECTIVE,
                             .gop = -1,
                             .nin = 1,
                             .nout = 1,
                             .in = &in,
                             .out = &out,
                             .coll = coll,
                             .reduce = reduce,
                             .wire = type,
                             .acc = reduce ? mt_type_acc(type) : type,
                             .group = group,
                             .algorithm = "auto"};
    program.values = values;
    program.nvalues = 2;
    return price_groups(costs, &program, &instr, bulk, &seconds) ? INFINITY : seconds;
}

/* An AllToAll among many: how many of them are a large message, by what the new boxes have. */
static double price_exchange(const struct mt_pricing *pricing, int gvalue, int from, int to, bool bulk) {
    const struct mt_layout *l = &pricing->layouts->items[to];
    int64_t bytes = 0;
    for (int r = 0; r < pricing->costs->nranks && bulk; r++) bytes += mt_box_count(&l->box[r], l->naxes);
    bytes *= mt_type_size(pricing->graph->values[gvalue].type);
    return mt_price_exchange(pricing, gvalue, from, to, bytes ? (bulk_bytes + bytes - 1) / bytes : 1);
}

static double price_hop(const struct mt_pricing *pricing, int gvalue, int from, int to, bool bulk) {
    bool many = pricing->costs->nranks > MT_COST_SIMULATED;
    int *group = mt_calloc((size_t)pricing->costs->nranks, sizeof *group);
    enum mt_conversion kind = mt_layout_groups(pricing->layouts, from, to, many ? NULL : group);
    double seconds = 0;
    if (many && kind == MT_CONVERT_ALL_TO_ALL) {
        seconds = price_exchange(pricing, gvalue, from, to, bulk);
    } else if (kind > MT_CONVERT_SLICE) {
        if (many) mt_layout_groups(pricing->layouts, from, to, group);
        seconds = price_message(pricing, gvalue, from, to, mt_conversion_coll[kind], group, bulk);
    }
    free(group);
    return seconds;
}

double mt_price_convert(const struct mt_pricing *pricing, int gvalue, int from, int to, bool bulk) {
    const struct mt_layout *items = pricing->layouts->items;
    uint64_t what[] = {items[from].hash, items[to].hash, (uint64_t)pricing->graph->values[gvalue].type, bulk};
    uint64_t key = ranks_hash(pricing, mt_hash64(what, sizeof what, 0));
    double s = 0;
    if (mt_cost_recall(pricing->costs, key, &s)) return s;
    s = 0;
    for (int next; from != to; from = next) {
        next = pricing->mesh ? mt_layout_route(pricing->layouts, pricing->mesh, from, to) : to;
        s += price_hop(pricing, gvalue, from, next, bulk);
    }
    mt_cost_note(pricing->costs, key, s);
    return s;
}

double mt_price_broadcast(const struct mt_pricing *pricing, int gvalue, int layout, bool bulk) {
    int *group = mt_calloc((size_t)pricing->costs->nranks, sizeof *group);
    double seconds =
        pricing->costs->nranks > 1 ? price_message(pricing, gvalue, layout, layout, MT_BROADCAST, group, bulk) : 0;
    free(group);
    return seconds;
}
