/* From groups and their rules to the frontier programme. Layers repeat: groups that are alike in all that decides their
 * alternatives share them, and values with the same layouts share one table of conversions. */
#include "planner/frontier/space.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/number/hash.h"
#include "planner/frontier/group.h"

/* Vectors of integers as keys, with a pointer each; open addressing. */
struct entry {
    const int *key;
    int n;
    void *item;
};
struct index {
    struct entry *slots;
    int nslots, count;
};

/* Alternatives by layouts of the space's own numbering, before values have theirs. */
struct draft {
    struct mt_space_group group; /* nalternatives and rules */
    int nvalues;
    double *cost_s; /* [alternatives] */
    int *made;      /* [alternatives nvalues]: layout, or -1 */
    int *nwanted;   /* [alternatives nvalues] */
    int *wanted;    /* [alternatives nvalues MOST_WANTED] */
};
enum { MOST_WANTED = 8, MOST_GROUP_VALUES = 48, MOST_KEY = 8192 };

/* In the place of a layout: replicated, and equal to the last bit, as updates of replicas want gradients. What a
 * collective made is so, and what ranks that are alike compute from gathered factors; what else each rank has computed
 * is broadcast from the first. */
enum { UNIFORM = -2 };

/* A table's owner, for prices that are asked for late. */
struct conversions {
    const struct mt_space *space;
    int gvalue; /* one of those with this table */
    bool bulk;
    int *layout; /* [nlayouts] */
    int whole;   /* the replicated one */
};

struct opening {
    struct mt_space *s;
    const struct mt_graph *g;
    struct mt_arena scratch;
    struct index drafts, kinds, tables;
    struct draft **draft; /* [groups] */
    int **values;         /* [groups]: the graph's values that it makes or reads, and others do too */
    int *used;            /* [graph values]: groups that make or read it: 1 make, 2 read */
    int *id;              /* [graph values]: of the problem, or -1 */
    int **layouts, *nlayouts, *layouts_capacity; /* [problem values] */
    bool *bulk;                                  /* [graph values] */
    int *local;                                  /* [layout - UNIFORM]: number in the value at hand */
    struct mt_err *err;
};

/* ---- keys ---- */

static void **find(struct index *index, struct mt_arena *arena, const int *key, int n) {
    if (2 * (index->count + 1) > index->nslots) {
        struct entry *old = index->slots;
        int was = index->nslots;
        index->nslots = was ? 2 * was : 256;
        index->slots = mt_new(arena, struct entry, index->nslots);
        index->count = 0;
        for (int i = 0; i < was; i++)
            if (old[i].key) *find(index, arena, old[i].key, old[i].n) = old[i].item;
    }
    uint64_t mask = (uint64_t)index->nslots - 1, at = mt_hash64(key, (size_t)n * sizeof *key, 0) & mask;
    struct entry *e;
    while ((e = &index->slots[at])->key && (e->n != n || memcmp(e->key, key, (size_t)n * sizeof *key)))
        at = (at + 1) & mask;
    if (!e->key) {
        *e = (struct entry){mt_arena_memdup(arena, key, (size_t)n * sizeof *key), n, NULL};
        index->count++;
    }
    return &e->item;
}

/* ---- values ---- */

static void mark_used(struct opening *o) {
    const struct mt_graph *g = o->g;
    for (int i = 0; i < o->s->problem.ngroups; i++) {
        const struct mt_space_group *group = &o->s->groups[i];
        for (int k = 0; k < group->nops; k++) {
            const struct mt_op *op = &g->ops[group->ops[k]];
            for (int j = 0; j < op->nin; j++) o->used[op->in[j]] |= 2;
            for (int j = 0; j < op->nout; j++) o->used[op->out[j]] |= 1;
        }
        if (group->param >= 0) o->used[group->param] |= 1; /* a weight that is not cast is made by its storage */
    }
    for (int v = 0; v < g->nvalues; v++) {
        const struct mt_value *value = &g->values[v];
        int param = mt_graph_param_of(g, v);
        o->bulk[v] |= param >= 0;
        if (value->param && value->gradient >= 0) o->bulk[value->gradient] = true;
    }
}

/* Optimizer state never leaves its group, and scalars cost nothing. */
static bool is_value(const struct opening *o, int v) {
    const struct mt_value *value = &o->g->values[v];
    return value->naxes > 0 && o->used[v] == 3 && (value->kind == MT_VALUE_TEMP || value->param);
}

static int list_values(struct opening *o, int group) {
    const struct mt_space_group *gr = &o->s->groups[group];
    int seen[MOST_GROUP_VALUES] = {0}, n = 0;
    for (int k = 0; k < gr->nops; k++) {
        const struct mt_op *op = &o->g->ops[gr->ops[k]];
        for (int j = 0; j < op->nin + op->nout; j++) {
            int v = j < op->nin ? op->in[j] : op->out[j - op->nin], i = 0;
            while (i < n && seen[i] != v) i++;
            if (i == n && is_value(o, v) && n < MOST_GROUP_VALUES) seen[n++] = v;
        }
    }
    o->values[group] = mt_arena_memdup(&o->s->arena, seen, (size_t)n * sizeof *seen);
    for (int i = 0; i < n; i++) {
        int v = seen[i];
        if (o->id[v] >= 0) continue;
        o->id[v] = o->s->problem.nvalues;
        o->s->value_of[o->s->problem.nvalues++] = v;
    }
    return n;
}

/* ---- alternatives ---- */

static int place_of(const int *values, int n, int v) {
    for (int i = 0; i < n; i++)
        if (values[i] == v) return i;
    return -1;
}

/* Whether ranks that compute the same value may differ in the last bit. */
static bool is_rounded(const struct mt_graph *g, int v) {
    int producer = g->values[v].producer;
    return producer >= 0 && !mt_op_info[g->ops[producer].kind].exact;
}

/* All that a group's alternatives depend on but for layouts, which follow from it. */
static int signature(const struct opening *o, int group, int nvalues, int *key) {
    const struct mt_graph *g = o->g;
    const struct mt_space_group *gr = &o->s->groups[group];
    int n = 0;
    key[n++] = gr->nops;
    key[n++] = gr->param >= 0;
    for (int k = 0; k < gr->nops; k++) {
        const struct mt_op *op = &g->ops[gr->ops[k]];
        struct mt_attr attr = op->attr;
        attr.tag = 0;
        uint64_t hash = mt_hash64(&attr, sizeof attr, 0);
        key[n++] = (int)op->kind, key[n++] = (int)op->role, key[n++] = op->nin, key[n++] = op->nout;
        key[n++] = (int)(hash & 0x7fffffff), key[n++] = (int)(hash >> 33);
        for (int i = 0; i < op->nindices; i++) key[n++] = op->index_label[i];
        for (int j = 0; j < op->nin + op->nout; j++) {
            int v = j < op->nin ? op->in[j] : op->out[j - op->nin];
            const int *index = j < op->nin ? op->in_index[j] : op->out_index[j - op->nin];
            key[n++] = place_of(o->values[group], nvalues, v);
            key[n++] = (int)g->values[v].type, key[n++] = g->values[v].naxes, key[n++] = o->bulk[v];
            key[n++] = g->values[v].kind, key[n++] = is_rounded(g, v);
            for (int a = 0; a < g->values[v].naxes; a++) key[n++] = index[a];
            assert(n + 2 * MT_MAX_INDICES < MOST_KEY);
        }
    }
    return n;
}

static void extents_of(const struct mt_graph *g, int v, int64_t *extent) {
    for (int a = 0; a < g->values[v].naxes; a++) extent[a] = mt_value_extent(g, v, a);
}

static void want(struct draft *d, int alternative, int value, int layout) {
    int at = alternative * d->nvalues + value, *list = d->wanted + at * MOST_WANTED;
    for (int i = 0; i < d->nwanted[at]; i++)
        if (list[i] == layout) return;
    assert(d->nwanted[at] < MOST_WANTED);
    list[d->nwanted[at]++] = layout;
}

/* A layout that an operator wants, or UNIFORM (as the builder does: op.c). */
static int wanted_by(struct opening *o, const struct mt_op *op, int value, int layout, const int64_t *extent) {
    bool uniform = op->role == MT_ROLE_UPDATE && mt_op_info[op->kind].exact && is_rounded(o->g, value) &&
                   layout == mt_layout_replicated(&o->s->layouts, o->g->values[value].naxes, extent);
    return uniform ? UNIFORM : layout;
}

/* The place of a rule's split among those that may be used; of what is not divided, after all. */
static int way_of(const struct mt_space *s, const struct mt_rule *rule) {
    const struct mt_rule *within = rule->inner ? &rule->inner[0] : rule;
    for (int k = 0; k < s->options.nsplits; k++)
        if (within->kind == MT_RULE_SPLIT && within->split == &s->options.splits[k]) return k;
    return s->options.nsplits;
}

/* The layout of an output, or UNIFORM (as the builder does: uniform.c). */
static int given_by(struct opening *o, const struct mt_space_group *gr, int k, const struct mt_rule *rules,
                    int layout) {
    const struct mt_op *op = &o->g->ops[gr->ops[k]];
    bool whole = rules[k].kind == MT_RULE_REPLICATE && !rules[k].inner;
    return whole && mt_space_gathers(o->s, &rules[0], op) && o->s->alike ? UNIFORM : layout;
}

/* What an alternative makes, wants and costs; infinitely much where its rules give some operand no layout. */
static void lay_out(struct opening *o, int group, struct draft *d, int alternative) {
    const struct mt_graph *g = o->g;
    const struct mt_space_group *gr = &o->s->groups[group];
    const int *values = o->values[group];
    bool valid = true;
    for (int i = 0; i < d->nvalues; i++) d->made[alternative * d->nvalues + i] = -1;
    for (int k = 0; k < gr->nops; k++) {
        const struct mt_op *op = &g->ops[gr->ops[k]];
        const struct mt_rule *rule = &d->group.rules[alternative * gr->nops + k];
        int in[MT_MAX_IN], out[MT_MAX_OUT];
        int64_t extent[MT_MAX_AXES];
        for (int i = 0; i < op->nin; i++) {
            extents_of(g, op->in[i], extent);
            in[i] = mt_rule_input(&o->s->layouts, g, op, rule, o->s->options.mesh, i, extent);
            valid &= in[i] >= 0;
            int at = place_of(values, d->nvalues, op->in[i]);
            if (at < 0 || !valid) continue;
            if (op->in[i] == gr->param)
                d->made[alternative * d->nvalues + at] = in[i];
            else
                want(d, alternative, at, wanted_by(o, op, op->in[i], in[i], extent));
        }
        for (int i = 0; i < op->nout; i++) {
            extents_of(g, op->out[i], extent);
            out[i] = mt_rule_output(&o->s->layouts, g, op, rule, o->s->options.mesh, i, extent);
            valid &= out[i] >= 0;
            int at = place_of(values, d->nvalues, op->out[i]);
            if (at >= 0) d->made[alternative * d->nvalues + at] = given_by(o, gr, k, rule - k, out[i]);
        }
        if (!valid) {
            d->cost_s[alternative] = INFINITY;
            return;
        }
        d->cost_s[alternative] += mt_price_op(&o->s->pricing, gr->ops[k], in, out, NULL);
        d->cost_s[alternative] += o->s->options.order_s * (double)way_of(o->s, rule);
    }
}

/* Whether alternative b makes and wants the same as a for no more. (Wanting less is not always better: others may be
 * converted from what is wanted besides.) Of equals the first is kept. */
static bool dominates(const struct draft *d, int b, int a) {
    if (d->cost_s[b] > d->cost_s[a] || (d->cost_s[b] == d->cost_s[a] && b > a)) return false;
    for (int i = 0; i < d->nvalues; i++) {
        int x = a * d->nvalues + i, y = b * d->nvalues + i;
        if (d->made[x] != d->made[y] || d->nwanted[x] != d->nwanted[y]) return false;
        for (int w = 0; w < d->nwanted[y]; w++) {
            bool both = false;
            for (int k = 0; k < d->nwanted[x]; k++)
                both |= d->wanted[x * MOST_WANTED + k] == d->wanted[y * MOST_WANTED + w];
            if (!both) return false;
        }
    }
    return true;
}

/* And those without layouts. */
static void drop_dominated(struct draft *d) {
    int kept = 0, n = d->group.nalternatives, nops = d->group.nops, cells = d->nvalues;
    bool *out = mt_calloc((size_t)n + 1, sizeof *out);
    for (int a = 0; a < n; a++) out[a] = isinf(d->cost_s[a]);
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n && !out[a]; b++) out[a] = b != a && !out[b] && dominates(d, b, a);
    for (int a = 0; a < n; a++) {
        if (out[a]) continue;
        memmove(d->group.rules + kept * nops, d->group.rules + a * nops, (size_t)nops * sizeof *d->group.rules);
        memmove(d->made + kept * cells, d->made + a * cells, (size_t)cells * sizeof(int));
        memmove(d->nwanted + kept * cells, d->nwanted + a * cells, (size_t)cells * sizeof(int));
        memmove(d->wanted + kept * cells * MOST_WANTED, d->wanted + a * cells * MOST_WANTED,
                (size_t)(cells * MOST_WANTED) * sizeof(int));
        d->cost_s[kept++] = d->cost_s[a];
    }
    d->group.nalternatives = kept;
    free(out);
}

static enum mt_status draft_group(struct opening *o, int group) {
    struct mt_space *s = o->s;
    int key[MOST_KEY];
    int nvalues = list_values(o, group), n = signature(o, group, nvalues, key);
    void **known = find(&o->drafts, &o->scratch, key, n);
    if (!*known) {
        struct draft *d = mt_new(&s->arena, struct draft, 1);
        struct mt_space_group rules = s->groups[group];
        mt_space_list_rules(s, &rules);
        if (!rules.nalternatives) {
            mt_fail(o->err, MT_EINPUT, "no rule of %s is allowed", o->g->ops[rules.ops[0]].name);
            return mt_err_hint(o->err, "choose another --strategy for this model");
        }
        *d = (struct draft){.group = rules, .nvalues = nvalues};
        int cells = rules.nalternatives * (nvalues + 1);
        d->cost_s = mt_new(&s->arena, double, rules.nalternatives);
        d->made = mt_new(&s->arena, int, cells);
        d->nwanted = mt_new(&s->arena, int, cells);
        d->wanted = mt_new(&s->arena, int, cells *MOST_WANTED);
        for (int a = 0; a < rules.nalternatives; a++) lay_out(o, group, d, a);
        drop_dominated(d);
        if (!d->group.nalternatives)
            return mt_fail(o->err, MT_EINPUT, "no rule of %s gives all its operands layouts",
                           o->g->ops[rules.ops[0]].name);
        *known = d;
    }
    o->draft[group] = *known;
    s->groups[group].nalternatives = o->draft[group]->group.nalternatives;
    s->groups[group].rules = o->draft[group]->group.rules;
    return MT_OK;
}

/* ---- tables ---- */

static void add_layout(struct opening *o, int value, int layout) {
    for (int i = 0; i < o->nlayouts[value]; i++)
        if (o->layouts[value][i] == layout) return;
    mt_arena_grow(&o->scratch, &o->layouts[value], o->nlayouts[value], &o->layouts_capacity[value], sizeof(int));
    o->layouts[value][o->nlayouts[value]++] = layout;
}

static void collect_layouts(struct opening *o, int group) {
    const struct draft *d = o->draft[group];
    for (int a = 0; a < d->group.nalternatives; a++)
        for (int i = 0; i < d->nvalues; i++) {
            int at = a * d->nvalues + i, value = o->id[o->values[group][i]];
            if (d->made[at] != -1) add_layout(o, value, d->made[at]);
            for (int w = 0; w < d->nwanted[at]; w++) add_layout(o, value, d->wanted[at * MOST_WANTED + w]);
        }
}

static double price_late(const struct mt_frontier_table *table, int from, int to) {
    const struct conversions *c = table->context;
    const struct mt_pricing *pricing = &c->space->pricing;
    int before = c->layout[from], after = c->layout[to];
    if (before == c->whole && after == UNIFORM) return mt_price_broadcast(pricing, c->gvalue, before, false);
    double s = mt_price_convert(pricing, c->gvalue, before == UNIFORM ? c->whole : before,
                                after == UNIFORM ? c->whole : after, c->bulk);
    return c->bulk ? s * c->space->options.exposed : s;
}

static enum mt_status make_table(struct opening *o, int value, const struct mt_frontier_table **table) {
    struct mt_space *s = o->s;
    int gvalue = s->value_of[value], n = o->nlayouts[value], key[MT_FRONTIER_LAYOUTS + 3] = {0}, nkey = 0;
    if (n > MT_FRONTIER_LAYOUTS)
        return mt_fail(o->err, MT_EINPUT, "%s has %d layouts; the search compares at most %d of one value",
                       o->g->values[gvalue].name, n, MT_FRONTIER_LAYOUTS);
    key[nkey++] = (int)o->g->values[gvalue].type;
    key[nkey++] = o->bulk[gvalue];
    for (int i = 0; i < n; i++) key[nkey++] = o->layouts[value][i];
    void **known = find(&o->tables, &o->scratch, key, nkey);
    if (!*known) {
        struct mt_frontier_table *t = mt_new(&s->arena, struct mt_frontier_table, 1);
        struct conversions *c = mt_new(&s->arena, struct conversions, 1);
        int64_t extent[MT_MAX_AXES];
        extents_of(o->g, gvalue, extent);
        *c = (struct conversions){s, gvalue, o->bulk[gvalue],
                                  mt_arena_memdup(&s->arena, o->layouts[value], (size_t)n * sizeof(int)),
                                  mt_layout_replicated(&s->layouts, o->g->values[gvalue].naxes, extent)};
        *t = (struct mt_frontier_table){
            .nlayouts = n, .convert_s = mt_new(&s->arena, double, n *n), .price = price_late, .context = c};
        for (int i = 0; i < n * n; i++) t->convert_s[i] = i % (n + 1) ? NAN : 0;
        *known = t;
    }
    *table = *known;
    return MT_OK;
}

/* ---- kinds ---- */

/* Layout -1 is none, and UNIFORM comes before it. */
static int *local_of(struct opening *o, int layout) {
    return &o->local[layout - UNIFORM];
}

static const struct mt_frontier_kind *make_kind(struct opening *o, int group) {
    struct mt_space *s = o->s;
    const struct draft *d = o->draft[group];
    uintptr_t what[MOST_GROUP_VALUES + 1] = {(uintptr_t)d};
    for (int i = 0; i < d->nvalues; i++) what[1 + i] = (uintptr_t)s->problem.tables[o->id[o->values[group][i]]];
    void **known =
        find(&o->kinds, &o->scratch, (const int *)what, (int)((size_t)(d->nvalues + 1) * sizeof *what / sizeof(int)));
    if (*known) return *known;
    struct mt_frontier_kind *kind = mt_new(&s->arena, struct mt_frontier_kind, 1);
    int n = d->group.nalternatives;
    struct mt_frontier_alternative *alternatives = mt_new(&s->arena, struct mt_frontier_alternative, n);
    int *made = mt_new(&s->arena, int, n * d->nvalues + 1);
    uint64_t *wanted = mt_new(&s->arena, uint64_t, n * d->nvalues + 1);
    for (int i = 0; i < d->nvalues; i++) {
        const struct conversions *c = s->problem.tables[o->id[o->values[group][i]]]->context;
        for (int l = 0; l < s->problem.tables[o->id[o->values[group][i]]]->nlayouts; l++)
            *local_of(o, c->layout[l]) = l;
        for (int a = 0; a < n; a++) {
            int at = a * d->nvalues + i;
            made[at] = d->made[at] == -1 ? -1 : *local_of(o, d->made[at]);
            for (int w = 0; w < d->nwanted[at]; w++)
                wanted[at] |= (uint64_t)1 << *local_of(o, d->wanted[at * MOST_WANTED + w]);
        }
    }
    for (int a = 0; a < n; a++)
        alternatives[a] =
            (struct mt_frontier_alternative){d->cost_s[a], made + a * d->nvalues, wanted + a * d->nvalues};
    *kind = (struct mt_frontier_kind){d->nvalues, n, alternatives};
    *known = kind;
    return kind;
}

/* The run of equal layers that takes most groups: for each length the longest run in which every group is of the kind
 * of the one a layer before. */
static void find_layers(struct mt_frontier *p) {
    enum { MOST_LAYER = 400 };
    int best = 0;
    for (int layer = 1; layer <= MOST_LAYER && 2 * layer <= p->ngroups; layer++) {
        for (int g = layer, run = 0; g < p->ngroups; g++) {
            run = p->groups[g].kind == p->groups[g - layer].kind ? run + 1 : 0;
            int layers = run / layer + 1;
            if (run < layer || layers * layer <= best) continue;
            best = layers * layer;
            p->layer = layer, p->nlayers = layers, p->first = g + 1 - layer - run;
        }
    }
}

static enum mt_status assemble(struct opening *o) {
    struct mt_space *s = o->s;
    struct mt_frontier *p = &s->problem;
    o->layouts = mt_new(&o->scratch, int *, p->nvalues + 1);
    o->nlayouts = mt_new(&o->scratch, int, p->nvalues + 1);
    o->layouts_capacity = mt_new(&o->scratch, int, p->nvalues + 1);
    for (int g = 0; g < p->ngroups; g++) collect_layouts(o, g);
    const struct mt_frontier_table **tables = mt_new(&s->arena, const struct mt_frontier_table *, p->nvalues + 1);
    p->tables = tables;
    for (int v = 0; v < p->nvalues; v++) {
        enum mt_status st = make_table(o, v, &tables[v]);
        if (st) return st;
    }
    o->local = mt_new(&o->scratch, int, s->layouts.count - UNIFORM);
    struct mt_frontier_group *groups = mt_new(&s->arena, struct mt_frontier_group, p->ngroups);
    for (int g = 0; g < p->ngroups; g++) {
        int n = o->draft[g]->nvalues, *values = mt_new(&s->arena, int, n + 1);
        for (int i = 0; i < n; i++) values[i] = o->id[o->values[g][i]];
        groups[g] = (struct mt_frontier_group){make_kind(o, g), values};
    }
    p->groups = groups;
    p->most_states = s->options.most_states;
    p->far_s = s->options.far_s;
    find_layers(p);
    return MT_OK;
}

static bool are_alike(const struct mt_costs *costs) {
    const struct mt_cluster_device *devices = costs->cluster->devices;
    for (int r = 1; r < costs->nranks; r++)
        if (devices[costs->device[r]].class != devices[costs->device[0]].class) return false;
    return true;
}

enum mt_status mt_space_open(const struct mt_space_options *options, struct mt_space *s, struct mt_err *err) {
    const struct mt_graph *g = options->graph;
    *s = (struct mt_space){.options = *options};
    struct opening o = {.s = s, .g = g, .err = err};
    mt_layouts_init(&s->layouts, options->costs->nranks);
    s->pricing = (struct mt_pricing){options->costs, g, &s->layouts, options->mesh};
    s->alike = are_alike(options->costs);
    mt_space_list_groups(s);
    s->value_of = mt_new(&s->arena, int, g->nvalues);
    o.draft = mt_new(&o.scratch, struct draft *, s->problem.ngroups);
    o.values = mt_new(&o.scratch, int *, s->problem.ngroups);
    o.used = mt_new(&o.scratch, int, g->nvalues);
    o.bulk = mt_new(&o.scratch, bool, g->nvalues);
    o.id = mt_new(&o.scratch, int, g->nvalues);
    for (int v = 0; v < g->nvalues; v++) o.id[v] = -1;
    mark_used(&o);
    enum mt_status st = MT_OK;
    for (int i = 0; i < s->problem.ngroups && !st; i++) st = draft_group(&o, i);
    if (!st) st = assemble(&o);
    mt_arena_release(&o.scratch);
    return st;
}

void mt_space_release(struct mt_space *s) {
    mt_layouts_release(&s->layouts);
    mt_arena_release(&s->arena);
    *s = (struct mt_space){.groups = NULL};
}

void mt_space_rules(const struct mt_space *s, const int *choice, struct mt_rule *rules) {
    for (int o = 0; o < s->options.graph->nops; o++) rules[o] = (struct mt_rule){.kind = MT_RULE_REPLICATE};
    for (int g = 0; g < s->problem.ngroups; g++) {
        const struct mt_space_group *group = &s->groups[g];
        for (int i = 0; i < group->nops; i++) rules[group->ops[i]] = group->rules[choice[g] * group->nops + i];
    }
}
