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
 * checkers must refuse every wrong one, and every one that cannot be run. The damage itself is in damage.h. */
#ifndef MT_TESTS_SYNTH_CHECK_MUTANTS_H
#define MT_TESTS_SYNTH_CHECK_MUTANTS_H

#include "synth/check/check.h"
#include "tests/synth/check/damage.h"
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
        .fuse = below(2), .latency_s = 1e-5, .bandwidth_Bps = 1e9, .scratch_bytes = replay_scratch_bytes};
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

/* ---- verdicts ---- */

static inline bool damage_program(const struct family *family, struct mt_program *p, int class) {
    if (class >= NCLASSES) return family->damage(p, class - NCLASSES);
    switch ((enum mutant_class) class) {
    case PART_TWICE: return below(2) ? merge_groups(p) : below(2) ? once_more(p) : whole_for_part(p);
    case OTHER_CUT: return below(5) ? shorter_range(p) : other_samples(p);
    case NO_SUBGROUP: return drop_subgroup(p);
    default: return below(3) ? stale_operand(p) : stale_state(p);
    }
}

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
