/* Mutants by what is wrong with them, of programs over all ranks, over even meshes, and over ragged ones:
 *
 *   a part counted twice      two groups' replicas are added up together; a sum is reduced or accumulated once more; a
 *                             whole value is taken for a part
 *   another cut on one side   one rank leaves out an end of its range of a sum, or begins its samples elsewhere
 *   a subgroup dropped        some ranks leave a collective
 *   stale weights             a weight, or what replaces it after the step, is another value of that shape: of before
 *                             the update, of another layer, its momentum
 *   a buffer released early   in a lowered program, memory is given away before its last use; or a wait is removed
 *
 * A family of graphs may have further classes of its own (struct family; llama_mutants.h).
 *
 * Which mutants are wrong is decided by their numbers: of the first four by the interpreter against one rank, from
 * several initial states; of the last by running the lowered programs with the streams as far apart as they may be. The
 * checkers must refuse every wrong one, and every one that cannot be run.
 *
 * Longer than other files: a few lines for each mutant, of one setting, that test and benchmark run. */
#ifndef MT_TESTS_SYNTH_CHECK_MUTANTS_H
#define MT_TESTS_SYNTH_CHECK_MUTANTS_H

#include "synth/check/check.h"
#include "tests/synth/check/changes.h"
#include "tests/synth/copy_program.h"
#include "tests/synth/programs.h"
#include "tests/synth/random_graph.h"
#include "tests/synth/replay.h"

enum mutant_class { PART_TWICE, OTHER_CUT, NO_SUBGROUP, STALE_WEIGHTS, EARLY_RELEASE, NCLASSES };
enum { MOST_CLASSES = NCLASSES + 3 };
static const char *class_names[MOST_CLASSES] = {"a part counted twice", "another cut on one side", "a subgroup dropped",
                                                "stale weights", "a buffer released early"};

/* Graphs, and what is wrong with mutants of theirs alone: nmore names, and for i below nmore the damage, which is false
 * where there is nothing to damage. */
struct family {
    struct mt_graph *(*graph)(int64_t batch, char *text, size_t size);
    int nmore;
    const char *const *names;
    bool (*damage)(struct mt_program *p, int i);
    void (*prefer)(const struct mt_graph *graph, struct mt_choice *choice); /* rules among the drawn ones; or null */
};

enum shape { FLAT, REGULAR, RAGGED, NSHAPES };
static const char *const shape_names[NSHAPES] = {"all ranks", "even meshes", "ragged meshes"};

enum { NSEEDS = 2 };

struct mutants {
    const struct family *family;
    /* broken: cannot be run; right: their numbers are */
    int made[MOST_CLASSES], broken[MOST_CLASSES], right[MOST_CLASSES];
    int wrong[MOST_CLASSES][NSHAPES];
    /* the program */
    enum shape shape;
    const struct mt_graph *graph;
    struct mt_program program, alone;
    struct mt_interp *want[NSEEDS];
    double loss[NSEEDS];
    double **begin; /* [graph values]: states before the first step, for replays */
    struct mt_lowered *lowered[8];
    struct mt_lower_options options;
};

/* ---- programs ---- */

static inline struct mt_interp *run_from(const struct mt_program *p, int seed, double *loss) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_interp *interp = mt_interp_new(p);
    mt_interp_init_states(interp, (uint64_t)(SEED + seed));
    set_inputs(interp, p->graph);
    for (int step = 1; step <= STEPS; step++) {
        struct mt_clock clock = {.step = step, .seed = SEED, .lr = 0.01};
        if (mt_interp_step(interp, &clock, &err)) {
            mt_interp_free(interp);
            return NULL;
        }
    }
    if (!mt_interp_result(interp, p->graph->loss_sum, loss)) *loss = NAN;
    return interp;
}

static inline void even_sizes(struct mt_split *s, int64_t extent, int count) {
    for (int i = 0; i < count; i++) {
        s->sizes[i] = extent / count + (i < extent % count);
        if (s->axis == MT_AXIS_HOST) s->starts[i + 1] = s->starts[i] + s->sizes[i];
    }
}

static inline struct mt_split *even_split(struct mt_arena *arena, const struct mt_mesh *mesh, enum mt_axis axis,
                                          int label, int64_t extent) {
    struct mt_split *s = mt_new(arena, struct mt_split, 1);
    *s = (struct mt_split){.name = "even", .label = label, .axis = axis};
    s->sizes = mt_new(arena, int64_t, mesh->nranks + 1);
    s->starts = mt_new(arena, int64_t, mesh->nranks + 1);
    if (axis == MT_AXIS_HOST) {
        even_sizes(s, extent, mesh->nnodes);
        return s;
    }
    int each = mesh->nranks / mesh->nnodes;
    for (int r = 0; r < mesh->nranks; r++) { /* nodes are blocks of ranks */
        int i = r % each;
        s->sizes[r] = extent / each + (i < extent % each);
        s->starts[r] = i ? s->starts[r - 1] + s->sizes[r - 1] : 0;
    }
    return s;
}

static inline int divisible_index(const struct mt_graph *g, const struct mt_op *op, int other) {
    for (int tries = 0; tries < 8 && op->nindices; tries++) {
        int i = (int)below(op->nindices);
        if (i != other && op->index_label[i] != g->batch && mt_op_index_role(op, i) != MT_INDEX_WHOLE) return i;
    }
    return -1;
}

/* Two nodes of two ranks: samples over the nodes, any other index evenly over the devices of each. */
static inline void even_choice(struct mt_arena *arena, const struct mt_graph *g, int64_t count,
                               struct mt_choice *choice) {
    static const int node[4] = {0, 0, 1, 1};
    random_choice(arena, g, 4, true, choice);
    choice->mesh = (struct mt_mesh){.nranks = 4, .nnodes = 2, .node = node};
    struct mt_split *batch =
        even_split(arena, &choice->mesh, MT_AXIS_HOST, g->batch, g->labels[g->batch].extent / count);
    for (int r = 0; r < 4; r++) choice->micro[r] = batch->sizes[node[r]];
    for (int k = 0; k < 2; k++) batch->sizes[k] *= count, batch->starts[k + 1] *= count;
    choice->batch = batch;
    for (int o = 0; o < g->nops; o++) {
        const struct mt_op *op = &g->ops[o];
        struct mt_rule *inner = mt_new(arena, struct mt_rule, 2), rule = {.kind = MT_RULE_REPLICATE};
        int64_t extent[MT_MAX_INDICES];
        int samples = -1, over_nodes = -1, over_devices;
        mt_op_extents(g, op, extent);
        for (int i = 0; i < op->nindices; i++)
            if (op->index_label[i] == g->batch && mt_op_index_role(op, i) != MT_INDEX_WHOLE) samples = i;
        if (samples >= 0)
            rule = (struct mt_rule){.kind = MT_RULE_SPLIT, .index = samples, .split = batch};
        else if (below(2) && (over_nodes = divisible_index(g, op, -1)) >= 0)
            rule = (struct mt_rule){.kind = MT_RULE_SPLIT, .index = over_nodes};
        if (over_nodes >= 0)
            rule.split =
                even_split(arena, &choice->mesh, MT_AXIS_HOST, op->index_label[over_nodes], extent[over_nodes]);
        over_devices = below(4) ? divisible_index(g, op, over_nodes) : -1;
        for (int k = 0; k < 2 && over_devices >= 0; k++) {
            inner[k] = (struct mt_rule){.kind = MT_RULE_SPLIT, .index = over_devices};
            inner[k].split = k ? inner[0].split
                               : even_split(arena, &choice->mesh, MT_AXIS_DEVICE, op->index_label[over_devices],
                                            extent[over_devices]);
        }
        rule.inner = inner;
        choice->rules[o] = rule;
    }
}

static inline void note_begin(struct mutants *m) {
    const struct mt_graph *g = m->graph;
    struct mt_interp *interp = mt_interp_new(&m->alone);
    double spread;
    mt_interp_init_states(interp, SEED);
    m->begin = calloc((size_t)g->nvalues, sizeof *m->begin);
    for (int v = 0; v < g->nvalues; v++) {
        if (g->values[v].kind != MT_VALUE_STATE) continue;
        m->begin[v] = malloc((size_t)mt_value_count(g, v) * sizeof(double));
        mt_interp_get(interp, v, m->begin[v], &spread);
    }
    mt_interp_free(interp);
}

static inline int64_t c_scratch_bytes(void *context, const struct mt_call *call) {
    (void)context;
    return mt_backend_c.scratch_bytes(call);
}

/* False if the builder refuses the choice. */
static inline bool begin_program(struct mutants *m, struct mt_arena *arena, struct mt_graph *g, int64_t count) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_choice choice, one = {.nranks = 1, .decisions.gradient_wire = MT_F64};
    m->graph = g;
    switch (m->shape) {
    case FLAT: choice_in_step(arena, g, 2 + (int)below(4), count, (int)below(3), &choice); break;
    case REGULAR: even_choice(arena, g, count, &choice); break;
    default: tree_choice(arena, g, 2 + (int)below(5), count, &choice);
    }
    if (m->family->prefer) m->family->prefer(g, &choice);
    if (mt_build(g, &choice, &m->program, &err)) return false;
    CHECK_OK(mt_check_program(&m->program, NULL, &err), err);
    one.rules = mt_new(arena, struct mt_rule, g->nops);
    CHECK_OK(mt_build(g, &one, &m->alone, &err), err);
    for (int s = 0; s < NSEEDS; s++) CHECK((m->want[s] = run_from(&m->alone, s, &m->loss[s])), "one rank runs");
    note_begin(m);
    m->options = (struct mt_lower_options){
        .fuse = below(2), .latency_s = 1e-5, .bandwidth_Bps = 1e9, .scratch_bytes = c_scratch_bytes};
    for (int r = 0; r < m->program.nranks; r++)
        CHECK_OK(mt_lower(&m->program, r, &m->options, &m->lowered[r], &err), err);
    CHECK_OK(mt_check_lowered(&m->program, (const struct mt_lowered *const *)m->lowered, &m->options, NULL, &err), err);
    return true;
}

static inline void end_program(struct mutants *m) {
    for (int r = 0; r < m->program.nranks; r++) mt_lowered_free(m->lowered[r]);
    for (int s = 0; s < NSEEDS; s++) mt_interp_free(m->want[s]);
    for (int v = 0; v < m->graph->nvalues; v++) free(m->begin[v]);
    free(m->begin);
    mt_program_release(&m->alone);
    mt_program_release(&m->program);
}

/* ---- damage to programs: false where there is nothing to damage ---- */

static inline struct mt_instr *draw_instr(struct mt_program *p, int kind, int *block, int *instr) {
    for (int tries = 0; tries < 60; tries++) {
        *block = (int)below(MT_NBLOCKS);
        if (!p->blocks[*block].ninstrs) continue;
        *instr = (int)below(p->blocks[*block].ninstrs);
        if ((int)at(p, *block, *instr)->kind == kind) return at(p, *block, *instr);
    }
    return NULL;
}

/* Number the groups from 0 by first rank. */
static inline void renumber(int *group, int nranks) {
    int number[64], next = 0;
    for (int i = 0; i < 64; i++) number[i] = -1;
    for (int r = 0; r < nranks; r++) {
        if (number[group[r]] < 0) number[group[r]] = next++;
        group[r] = number[group[r]];
    }
}

static inline bool reduces(const struct mt_instr *i) {
    return i->coll == MT_ALL_REDUCE || i->coll == MT_REDUCE_SCATTER;
}

/* Two groups of a reduction become one. */
static inline bool merge_groups(struct mt_program *p) {
    int block, instr, a, b;
    struct mt_instr *i = draw_instr(p, MT_INSTR_COLLECTIVE, &block, &instr);
    if (!i || !reduces(i)) return false;
    a = i->group[below(p->nranks)], b = i->group[below(p->nranks)];
    if (a == b) return false;
    for (int r = 0; r < p->nranks; r++)
        if (i->group[r] == b) i->group[r] = a;
    renumber(i->group, p->nranks);
    return true;
}

/* A collective or an addition to an accumulator once more, on what it has made. */
static inline bool once_more(struct mt_program *p) {
    int block, instr, in[64], out[64];
    struct mt_instr *found = draw_instr(p, below(2) ? MT_INSTR_COLLECTIVE : MT_INSTR_ACCUMULATE, &block, &instr);
    if (!found || found->nin > 64) return false;
    struct mt_instr i = *found;
    for (int k = 0; k < i.nin; k++) in[k] = i.in[k];
    for (int k = 0; k < i.nout; k++) {
        const struct mt_pvalue v = p->values[i.out[k]];
        in[k] = i.out[k];
        out[k] = mt_program_value(p, v.gvalue, v.layout, v.type, v.block);
        p->values[out[k]].covers = v.covers;
        redirect(p, in[k], out[k], block, instr + 1);
    }
    i.in = in, i.out = out;
    insert_instr(p, block, instr + 1, i);
    return true;
}

static inline bool same_boxes(const struct mt_program *p, int a, int b) {
    const struct mt_layout *x = mt_pvalue_layout(p, a), *y = mt_pvalue_layout(p, b);
    bool same = x->naxes == y->naxes;
    for (int r = 0; r < p->nranks && same; r++) same = mt_box_equal(&x->box[r], &y->box[r], x->naxes);
    return same;
}

/* Whether a value exists when an instruction runs. */
static inline bool made_before(const struct mt_program *p, int value, int block, int instr) {
    if (p->values[value].input) return (int)p->values[value].block <= block;
    for (int b = 0; b <= block; b++)
        for (int i = 0; i < (b < block ? p->blocks[b].ninstrs : instr); i++)
            for (int k = 0; k < p->blocks[b].instrs[i].nout; k++)
                if (p->blocks[b].instrs[i].out[k] == value) return true;
    return false;
}

/* An operator takes the whole value where it took a part of it, or the other way round. */
static inline bool whole_for_part(struct mt_program *p) {
    int block, instr;
    struct mt_instr *i = draw_instr(p, below(3) ? MT_INSTR_OP : MT_INSTR_ACCUMULATE, &block, &instr);
    if (!i || !i->nin) return false;
    int *in = &i->in[below(i->nin)], first = (int)below(p->nvalues);
    for (int n = 0; n < p->nvalues; n++) {
        int v = (first + n) % p->nvalues;
        if (v == *in || p->values[v].gvalue != p->values[*in].gvalue || p->values[v].layout == p->values[*in].layout)
            continue;
        if (!same_boxes(p, v, *in) || !made_before(p, v, block, instr)) continue;
        *in = v;
        return true;
    }
    return false;
}

/* A value with rank r's box shorter at one end of an axis: a new value, made by a slice before (block, instr). */
static inline int shortened(struct mt_program *p, int value, int axis, int rank, bool low, int block, int instr) {
    const struct mt_pvalue v = p->values[value];
    struct mt_layout l = p->layouts.items[v.layout];
    l.box = mt_arena_memdup(&p->arena, l.box, (size_t)p->nranks * sizeof *l.box);
    if (low)
        l.box[rank].lo[axis]++;
    else
        l.box[rank].hi[axis]--;
    int fresh = mt_program_value(p, v.gvalue, mt_layout_intern(&p->layouts, &l), v.type, (enum mt_block_kind)block);
    p->values[fresh].covers = v.covers;
    insert_instr(
        p, block, instr,
        (struct mt_instr){.kind = MT_INSTR_SLICE, .gop = -1, .nin = 1, .nout = 1, .in = &value, .out = &fresh});
    return fresh;
}

/* One rank leaves out an end of its range of an index that an operator sums over. */
static inline bool shorter_range(struct mt_program *p) {
    int block, instr;
    struct mt_instr *i = draw_instr(p, MT_INSTR_OP, &block, &instr);
    if (!i) return false;
    const struct mt_op *op = &p->graph->ops[i->gop];
    int index = op->nindices ? (int)below(op->nindices) : -1, rank = (int)below(p->nranks);
    bool low = below(2), some = false;
    enum mt_index_role role = index < 0 ? MT_INDEX_WHOLE : mt_op_index_role(op, index);
    if (role != MT_INDEX_SUM && role != MT_INDEX_MAX) return false;
    for (int pass = 0; pass < 2; pass++)
        for (int k = 0; k < op->nin + op->nout; k++) {
            bool input = k < op->nin;
            int value = input ? at(p, block, instr)->in[k] : i->out[k - op->nin];
            const int *axes = input ? op->in_index[k] : op->out_index[k - op->nin];
            for (int a = 0; a < mt_pvalue_layout(p, value)->naxes; a++) {
                const struct mt_box *box = mt_pvalue_box(p, value, rank);
                if (axes[a] != index) continue;
                if (!input || box->hi[a] - box->lo[a] < 2) return false;
                some = true;
                if (pass == 0) continue;
                int fresh = shortened(p, value, a, rank, low, block, instr++);
                at(p, block, instr)->in[k] = fresh;
                i = at(p, block, instr);
            }
        }
    return some;
}

/* One rank begins its samples elsewhere. */
static inline bool other_samples(struct mt_program *p) {
    int rank = (int)below(p->nranks);
    int64_t extent = p->graph->labels[p->graph->batch].extent, start = p->batch_start[rank] + (below(2) ? 1 : -1);
    if (start < 0 || start + p->batch_size[rank] > extent || !p->batch_size[rank]) return false;
    p->batch_start[rank] = start;
    return true;
}

/* Some ranks of a group leave it, for a group of their own. */
static inline bool drop_subgroup(struct mt_program *p) {
    int block, instr, members = 0, left = 0;
    struct mt_instr *i = draw_instr(p, MT_INSTR_COLLECTIVE, &block, &instr);
    if (!i || (!reduces(i) && below(4))) return false;
    int group = i->group[below(p->nranks)];
    for (int r = 0; r < p->nranks; r++) members += i->group[r] == group;
    if (members < 2) return false;
    for (int r = 0; r < p->nranks; r++)
        if (i->group[r] == group && left < members - 1 && below(2)) i->group[r] = p->nranks + 1, left++;
    renumber(i->group, p->nranks);
    return left > 0;
}

static inline bool is_weight(const struct mt_program *p, int value) {
    const struct mt_value *v = &p->graph->values[p->values[value].gvalue];
    for (int a = 0; a < v->naxes; a++)
        if (v->label[a] == p->graph->batch) return false;
    return v->naxes > 0 && (v->kind == MT_VALUE_STATE || mt_graph_param_of(p->graph, p->values[value].gvalue) >= 0);
}

/* A weight that an instruction reads is another value of its shape and layout, of which there is one at that time. */
static inline bool stale_operand(struct mt_program *p) {
    int block, instr;
    struct mt_instr *i = draw_instr(p, below(2) ? MT_INSTR_COLLECTIVE : MT_INSTR_OP, &block, &instr);
    if (!i || !i->nin) return false;
    int *in = &i->in[below(i->nin)], first = (int)below(p->nvalues);
    if (!is_weight(p, *in)) return false;
    for (int n = 0; n < p->nvalues; n++) {
        int v = (first + n) % p->nvalues;
        if (v == *in || p->values[v].layout != p->values[*in].layout || p->values[v].type != p->values[*in].type)
            continue;
        if (!made_before(p, v, block, instr)) continue;
        *in = v;
        return true;
    }
    return false;
}

/* What replaces a state after the step is what it was before, or another value of its layout. */
static inline bool stale_state(struct mt_program *p) {
    int v = (int)below(p->nvalues), first = (int)below(p->nvalues);
    if (p->values[v].next < 0) return false;
    for (int n = 0; n < p->nvalues; n++) {
        int other = below(3) ? (first + n) % p->nvalues : v;
        if (other == p->values[v].next || p->values[other].layout != p->values[v].layout ||
            p->values[other].type != p->values[v].type || p->values[other].block == MT_BODY)
            continue;
        p->values[v].next = other;
        return true;
    }
    return false;
}

static inline bool damage_program(const struct family *family, struct mt_program *p, int class) {
    if (class >= NCLASSES) return family->damage(p, class - NCLASSES);
    switch ((enum mutant_class) class) {
    case PART_TWICE: return below(2) ? merge_groups(p) : below(2) ? once_more(p) : whole_for_part(p);
    case OTHER_CUT: return below(5) ? shorter_range(p) : other_samples(p);
    case NO_SUBGROUP: return drop_subgroup(p);
    default: return below(3) ? stale_operand(p) : stale_state(p);
    }
}

/* ---- damage to lowered programs ---- */

static inline bool remove_wait(struct mt_lowered *low) {
    for (int tries = 0; tries < 40; tries++) {
        struct mt_linstr *l = &low->instrs[below(low->ninstrs)];
        if (!l->nwaits) continue;
        SET(l->nwaits, l->nwaits - 1);
        return true;
    }
    return false;
}

/* The last instruction that reads a value, or -1. */
static inline int last_reader(const struct mt_lowered *low, int value) {
    for (int i = low->ninstrs - 1; i >= 0; i--)
        for (int k = 0; k < low->instrs[i].nin; k++)
            if (low->instrs[i].in[k] == value) return i;
    return -1;
}

/* What an instruction makes gets the memory of a value that a later one reads. */
static inline bool release_early(struct mt_lowered *low) {
    for (int tries = 0; tries < 60; tries++) {
        int at_instr = (int)below(low->ninstrs), value = (int)below(low->nvalues);
        const struct mt_linstr *l = &low->instrs[at_instr];
        if (!l->nout || l->what == MT_LOWERED_ALIAS || !has_memory(low, value) || !has_memory(low, l->out[0])) continue;
        const struct mt_lvalue *made = &low->values[l->out[0]], *kept = &low->values[value];
        int64_t by = kept->offset_bytes - made->offset_bytes;
        if (!by || made->offset_bytes < low->state_bytes || last_reader(low, value) <= at_instr) continue;
        if (kept->offset_bytes + made->size_bytes > low->arena_bytes || overlap(low, value, l->out[0])) continue;
        int *first = storages(low);
        bool same = first[value] == first[l->out[0]];
        free(first);
        if (same) continue;
        move_value(low, l->out[0], kept->offset_bytes);
        return true;
    }
    return false;
}

/* ---- verdicts ---- */

static inline void count_mutant(struct mutants *m, int class, bool runs, double worst, bool accepted, const char *why) {
    m->made[class]++;
    bool wrong = runs && !(worst <= 1e-9);
    if (accepted && (wrong || !runs)) {
        fprintf(stderr, "%s, %s: accepted, though %s (%g)\n", class_names[class], shape_names[m->shape],
                runs ? "its numbers are wrong" : "it cannot be run", worst);
        mt_program_print(&m->program, -1, stderr);
        abort();
    }
    CHECK(accepted || why[0], "a refusal says why");
    m->wrong[class][m->shape] += wrong;
    m->broken[class] += !runs;
    m->right[class] += runs && !wrong;
}

static inline void try_program(struct mutants *m, int class) {
    struct mt_program mutant;
    struct mt_err err = MT_ERR_INIT;
    copy_program(&m->program, &mutant);
    if (damage_program(m->family, &mutant, class)) {
        bool runs = true;
        double worst = 0;
        for (int s = 0; s < NSEEDS && runs && worst <= 1e-9; s++) {
            double loss;
            struct mt_interp *got = run_from(&mutant, s, &loss);
            runs = got != NULL;
            if (!runs) break;
            worst = state_difference(m->graph, got, m->want[s]);
            if (!(fabs(loss - m->loss[s]) <= 1e-9 * fabs(m->loss[s]))) worst = INFINITY;
            mt_interp_free(got);
        }
        enum mt_status st = mt_check_program(&mutant, NULL, &err);
        if (st) CHECK_EQ(st, MT_EPROOF);
        count_mutant(m, class, runs, worst, !st, err.text);
    }
    mt_program_release(&mutant);
}

static inline void try_lowered(struct mutants *m) {
    struct mt_lowered *low = m->lowered[below(m->program.nranks)];
    struct mt_err err = MT_ERR_INIT;
    if (below(2) ? remove_wait(low) : release_early(low)) {
        double worst = 0;
        for (int timing = 0; timing < NTIMINGS && worst <= 1e-9; timing++)
            worst = replay_difference(&m->program, m->lowered, (enum timing)timing, m->want[0], m->loss[0], m->begin);
        enum mt_status st =
            mt_check_lowered(&m->program, (const struct mt_lowered *const *)m->lowered, &m->options, NULL, &err);
        if (st) CHECK_EQ(st, MT_EPROOF);
        count_mutant(m, EARLY_RELEASE, true, worst, !st, err.text);
    }
    take_back();
}

static inline int wrong_mutants(const struct mutants *m, int class) {
    int sum = 0;
    for (int s = 0; s < NSHAPES; s++) sum += m->wrong[class][s];
    return sum;
}

/* Until each class has `each` wrong mutants, of programs of all shapes in turn. */
static inline void make_mutants_of(const struct family *family, int each) {
    struct mutants *m = calloc(1, sizeof *m);
    int programs = 0, refused = 0, least = 0, nclasses = NCLASSES + family->nmore;
    m->family = family;
    for (int i = 0; i < family->nmore; i++) class_names[NCLASSES + i] = family->names[i];
    for (; least < each; programs++) {
        struct mt_arena arena = MT_ARENA_INIT;
        char text[128];
        int64_t count = 1 + below(2);
        m->shape = (enum shape)(programs % NSHAPES);
        struct mt_graph *g = family->graph(count * (2 + 2 * below(2)), text, sizeof text);
        if (begin_program(m, &arena, g, count)) {
            for (int class = 0; class < nclasses; class ++)
                for (int k = 0; k < 6 && wrong_mutants(m, class) < each; k++)
                    if (class == EARLY_RELEASE)
                        try_lowered(m);
                    else
                        try_program(m, class);
            end_program(m);
        } else {
            refused++;
        }
        least = each;
        for (int class = 0; class < nclasses; class ++)
            if (wrong_mutants(m, class) < least) least = wrong_mutants(m, class);
        mt_arena_release(&arena);
        mt_graph_free(g);
    }
    int made = 0, wrong = 0;
    printf("%-26s %6s %6s", "", "made", "wrong");
    for (int s = 0; s < NSHAPES; s++) printf(" %14s", shape_names[s]);
    printf(" %10s %6s\n", "cannot run", "right");
    for (int class = 0; class < nclasses; class ++) {
        printf("%-26s %6d %6d", class_names[class], m->made[class], wrong_mutants(m, class));
        for (int s = 0; s < NSHAPES; s++) printf(" %14d", m->wrong[class][s]);
        printf(" %10d %6d\n", m->broken[class], m->right[class]);
        made += m->made[class], wrong += wrong_mutants(m, class);
        for (int s = 0; s < NSHAPES && each >= 50; s++)
            CHECK(m->wrong[class][s] > 0, "%s: %s", class_names[class], shape_names[s]);
    }
    printf("%d mutants of %d programs (%d more were refused); all %d wrong ones, and those that cannot be run, are "
           "refused\n",
           made, programs - refused, refused, wrong);
    free(m);
}

static inline void make_mutants(int each) {
    make_mutants_of(&(struct family){.graph = random_graph}, each);
}

#endif
