/* Programs of one matrix product, made by hand, whose ranks divide its sum in ways that no one division is: proven,
 * run, and compared with one rank. And what must be refused: the same numbers under a layout that says something else.
 *
 *   ragged nodes   node A has rows 0..m1 and sums k in 3 parts, node B the other rows in 2
 *   other cuts     every node has all rows (or its own), A sums k as 5 + 3, B as 4 + 4
 *   own samples    two ranks sum k in parts, a third has rows of its own and all of k
 *   two by two     rows over nodes, k over the devices of each: all alike */
#include "kernels/base/number/rng.h"
#include "synth/check/check.h"
#include "synth/interp/interp.h"
#include "synth/layout/rule.h"
#include "synth/ops/ops.h"
#include "tests/check.h"

enum { M = 6, K = 8, N = 3, MOST = 5 };

struct rank {
    int node;
    int64_t m[2], k[2]; /* its rows, its terms */
    int cover;          /* of y */
};

struct product {
    const char *name;
    int nranks, nnodes;
    struct rank rank[MOST];
    enum mt_conversion first; /* from y's partial sums to y's boxes */
};

static const struct product products[] = {
    {"ragged nodes",
     5,
     2,
     {{0, {0, 4}, {0, 3}, 0},
      {0, {0, 4}, {3, 4}, 0},
      {0, {0, 4}, {4, 8}, 0},
      {1, {4, 6}, {0, 6}, 1},
      {1, {4, 6}, {6, 8}, 1}},
     MT_CONVERT_ALL_REDUCE},
    {"other cuts, all rows",
     4,
     2,
     {{0, {0, 6}, {0, 5}, 0}, {0, {0, 6}, {5, 8}, 0}, {1, {0, 6}, {0, 4}, 1}, {1, {0, 6}, {4, 8}, 1}},
     MT_CONVERT_ALL_REDUCE},
    {"other cuts, own rows",
     4,
     2,
     {{0, {0, 2}, {0, 5}, 0}, {0, {0, 2}, {5, 8}, 0}, {1, {2, 6}, {0, 4}, 1}, {1, {2, 6}, {4, 8}, 1}},
     MT_CONVERT_ALL_REDUCE},
    {"own samples",
     3,
     2,
     {{0, {0, 4}, {0, 5}, 0}, {0, {0, 4}, {5, 8}, 0}, {1, {4, 6}, {0, 8}, 1}},
     MT_CONVERT_ALL_REDUCE},
    {"two by two",
     4,
     2,
     {{0, {0, 3}, {0, 4}, 0}, {0, {0, 3}, {4, 8}, 0}, {1, {3, 6}, {0, 4}, 1}, {1, {3, 6}, {4, 8}, 1}},
     MT_CONVERT_ALL_REDUCE},
};

static struct mt_graph *product_graph(int value[3]) {
    struct mt_graph *g = mt_graph_new(MT_F64);
    struct mt_err err = MT_ERR_INIT;
    const struct mt_label labels[] = {{"m", M, 1}, {"k", K, 1}, {"n", N, 1}};
    CHECK_OK(mt_graph_labels(g, labels, 3, &err), err);
    value[0] = mt_graph_param(g, "x", "m,k", MT_INIT_NORMAL, 1);
    value[1] = mt_graph_param(g, "w", "k,n", MT_INIT_NORMAL, 1);
    value[2] = mt_op_matmul(g, "y", value[0], value[1], 1, 0);
    return g;
}

enum { X, W, Y, BOXES, WHOLE, NLAYOUTS };

/* The layouts of the operands, and of y when each rank has its box, and all of it. */
static void make_layouts(struct mt_layouts *t, const struct product *p, int layout[NLAYOUTS]) {
    struct mt_box box[3][MOST] = {{{{0}, {0}}}};
    int zeros[MOST] = {0}, part[MOST], cover[MOST];
    for (int r = 0; r < p->nranks; r++) {
        const struct rank *rank = &p->rank[r];
        box[X][r] = (struct mt_box){{rank->m[0], rank->k[0]}, {rank->m[1], rank->k[1]}};
        box[W][r] = (struct mt_box){{rank->k[0], 0}, {rank->k[1], N}};
        box[Y][r] = (struct mt_box){{rank->m[0], 0}, {rank->m[1], N}};
        part[r] = r, cover[r] = rank->cover;
    }
    struct mt_layout x = {.naxes = 2, .extent = {M, K}, .nparts = 1, .box = box[X], .part = zeros};
    struct mt_layout w = {.naxes = 2, .extent = {K, N}, .nparts = 1, .box = box[W], .part = zeros};
    struct mt_layout y = {.naxes = 2, .extent = {M, N}, .nparts = p->nranks, .reduce = MT_SUM, .box = box[Y]};
    y.part = part, y.cover = cover;
    layout[X] = mt_layout_intern(t, &x);
    layout[W] = mt_layout_intern(t, &w);
    layout[Y] = mt_layout_intern(t, &y);
    y.nparts = 1, y.part = zeros, y.reduce = MT_REDUCE_NONE;
    layout[BOXES] = mt_layout_intern(t, &y);
    layout[WHOLE] = mt_layout_replicated(t, 2, y.extent);
}

/* Append the conversion of `value` to a layout; returns the new value and its kind. */
static int convert(struct mt_program *p, int value, int layout, enum mt_conversion *kind) {
    int group[MOST], from = p->values[value].layout;
    *kind = mt_layout_groups(&p->layouts, from, layout, group);
    if (*kind == MT_CONVERT_NOTHING) return value;
    int out = mt_program_value(p, p->values[value].gvalue, layout, MT_F64, MT_PROLOGUE);
    struct mt_instr instr = {.kind = *kind == MT_CONVERT_SLICE ? MT_INSTR_SLICE : MT_INSTR_COLLECTIVE,
                             .gop = -1,
                             .nin = 1,
                             .nout = 1,
                             .in = &value,
                             .out = &out,
                             .coll = mt_conversion_coll[*kind],
                             .reduce = p->layouts.items[from].reduce,
                             .wire = MT_F64,
                             .acc = MT_F64,
                             .group = group,
                             .algorithm = "auto"};
    mt_program_add(p, MT_PROLOGUE, &instr);
    return out;
}

/* x and w are fed as they are needed, and y is computed. Returns y. */
static int begin_program(struct mt_program *p, const struct mt_graph *g, const int value[3], int nranks,
                         const int layout[NLAYOUTS]) {
    int in[2], out;
    for (int i = 0; i < 2; i++) {
        in[i] = mt_program_value(p, value[i], layout[i], MT_F64, MT_PROLOGUE);
        p->values[in[i]].input = true;
    }
    out = mt_program_value(p, value[2], layout[Y], MT_F64, MT_PROLOGUE);
    struct mt_instr product = {.kind = MT_INSTR_OP, .gop = 0, .nin = 2, .nout = 1, .in = in, .out = &out};
    mt_program_add(p, MT_PROLOGUE, &product);
    CHECK_EQ(p->nranks, nranks);
    CHECK_EQ(g->nops, 1);
    return out;
}

static void run(const struct mt_program *p, const int value[3]) {
    double y[M * N];
    struct mt_interp *interp = mt_interp_new(p);
    struct mt_clock clock = {.step = 1};
    struct mt_err err = MT_ERR_INIT;
    double x[M * K], w[K * N];
    for (int i = 0; i < M * K; i++) x[i] = mt_random_normal(7, 1, (uint64_t)i);
    for (int i = 0; i < K * N; i++) w[i] = mt_random_normal(7, 2, (uint64_t)i);
    mt_interp_set(interp, value[0], x);
    mt_interp_set(interp, value[1], w);
    CHECK_OK(mt_interp_step(interp, &clock, &err), err);
    CHECK(mt_interp_result(interp, value[2], y), "y is whole somewhere");
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            double sum = 0;
            for (int k = 0; k < K; k++) sum += x[i * K + k] * w[k * N + j];
            CHECK_NEAR(y[i * N + j], sum, 1e-12);
        }
    mt_interp_free(interp);
}

/* Proven and right, by one conversion (to all of y) or two (to each rank's box first). */
static void check_product(const struct product *product, int steps) {
    int value[3], layout[NLAYOUTS];
    struct mt_graph *g = product_graph(value);
    struct mt_program p;
    struct mt_err err = MT_ERR_INIT;
    enum mt_conversion kind;
    mt_program_init(&p, g, product->nranks);
    make_layouts(&p.layouts, product, layout);
    CHECK(mt_layout_is_partial(&p.layouts.items[layout[Y]]), "%s: y is partial", product->name);
    CHECK_EQ(p.layouts.items[layout[Y]].ncovers, product->nnodes);
    int out = begin_program(&p, g, value, product->nranks, layout);
    if (steps == 2) {
        out = convert(&p, out, layout[BOXES], &kind);
        CHECK_EQ(kind, product->first);
    }
    out = convert(&p, out, layout[WHOLE], &kind);
    if (mt_check_program(&p, NULL, &err)) CHECK(false, "%s: %s", product->name, err.text);
    run(&p, value);
    mt_program_release(&p);
    mt_graph_free(g);
}

/* The layouts of the trees of rules that say the same. */
static void check_tree(const struct product *product) {
    int value[3], layout[NLAYOUTS], node[MOST];
    struct mt_graph *g = product_graph(value);
    struct mt_layouts t;
    int64_t m_sizes[2] = {0}, m_starts[3] = {0}, k_sizes[MOST], k_starts[MOST];
    const int64_t extent[3][2] = {{M, K}, {K, N}, {M, N}};
    mt_layouts_init(&t, product->nranks);
    make_layouts(&t, product, layout);
    for (int r = 0; r < product->nranks; r++) {
        const struct rank *rank = &product->rank[r];
        node[r] = rank->node;
        m_sizes[node[r]] = rank->m[1] - rank->m[0];
        m_starts[node[r] + 1] = rank->m[1];
        k_starts[r] = rank->k[0];
        k_sizes[r] = rank->k[1] - rank->k[0];
    }
    struct mt_mesh mesh = {.nranks = product->nranks, .nnodes = product->nnodes, .node = node};
    struct mt_split rows = {.axis = MT_AXIS_HOST, .sizes = m_sizes, .starts = m_starts};
    struct mt_split terms = {.axis = MT_AXIS_DEVICE, .label = 1, .sizes = k_sizes, .starts = k_starts};
    struct mt_rule inner[2] = {{.kind = MT_RULE_SPLIT, .index = 1, .split = &terms},
                               {.kind = MT_RULE_SPLIT, .index = 1, .split = &terms}};
    bool own_rows = m_starts[1] != m_starts[2];
    struct mt_rule rule = {
        .kind = own_rows ? MT_RULE_SPLIT : MT_RULE_REPLICATE, .index = 0, .split = &rows, .inner = inner};
    const struct mt_op *op = &g->ops[0];
    CHECK_EQ(op->in_index[0][0], 0);
    CHECK_EQ(op->in_index[0][1], op->in_index[1][0]);
    for (int k = 0; k < 2; k++) inner[k].index = op->in_index[0][1];
    for (int i = 0; i < 2; i++) CHECK_EQ(mt_rule_input(&t, g, op, &rule, &mesh, i, extent[i]), layout[i]);
    CHECK_EQ(mt_rule_output(&t, g, op, &rule, &mesh, 0, extent[2]), layout[Y]);
    for (int r = 0; r < product->nranks; r++) {
        struct mt_range range[MT_MAX_INDICES];
        int64_t whole[MT_MAX_INDICES];
        mt_op_extents(g, op, whole);
        mt_rule_ranges(op, &rule, &mesh, r, whole, range);
        CHECK_EQ(range[0].lo, product->rank[r].m[0]);
        CHECK_EQ(range[0].hi, product->rank[r].m[1]);
        CHECK_EQ(range[inner[0].index].lo, product->rank[r].k[0]);
        CHECK_EQ(range[inner[0].index].hi, product->rank[r].k[1]);
    }
    mt_layouts_release(&t);
    mt_graph_free(g);
}

/* The product under another layout of y. */
static void expect_refused(const struct product *product, const int *part, int nparts, const int *cover,
                           const char *why) {
    int value[3], layout[NLAYOUTS], zeros[MOST] = {0};
    struct mt_graph *g = product_graph(value);
    struct mt_program p;
    struct mt_err err = MT_ERR_INIT;
    mt_program_init(&p, g, product->nranks);
    make_layouts(&p.layouts, product, layout);
    struct mt_layout y = p.layouts.items[layout[Y]];
    y.nparts = nparts;
    y.part = mt_arena_memdup(&p.arena, part ? part : zeros, (size_t)product->nranks * sizeof *part);
    y.cover = cover ? mt_arena_memdup(&p.arena, cover, (size_t)nparts * sizeof *cover) : NULL;
    layout[Y] = mt_layout_intern(&p.layouts, &y);
    begin_program(&p, g, value, product->nranks, layout);
    CHECK_EQ(mt_check_program(&p, NULL, &err), MT_EPROOF);
    CHECK(strstr(err.text, why), "%s: %s", product->name, err.text);
    mt_program_release(&p);
    mt_graph_free(g);
}

static void test_refusals(void) {
    const struct product *cuts = &products[1], *alike = &products[4], *samples = &products[3];
    expect_refused(cuts, (int[]){0, 1, 2, 3}, 4, NULL, "another rank counts too");     /* one division of all */
    expect_refused(cuts, (int[]){0, 1, 0, 1}, 2, NULL, "declared replicas");           /* equal divisions */
    expect_refused(cuts, (int[]){0, 1, 2, 3}, 4, (int[]){0, 1, 1, 0}, "counts too");   /* nodes mixed up */
    expect_refused(cuts, (int[]){0, 1, 2, 3}, 4, (int[]){0, 1, 2, 2}, "5 of 8 terms"); /* all of it where it is not */
    expect_refused(alike, NULL, 1, NULL, "4 of 8 terms");                              /* complete */
    expect_refused(samples, (int[]){0, 0, 1}, 2, NULL, "5 of 8 terms");
    expect_refused(&products[0], (int[]){0, 1, 1, 2, 3}, 4, (int[]){0, 0, 1, 1}, "declared replicas");
}

int main(void) {
    for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
        check_product(&products[i], 1);
        check_product(&products[i], 2);
        check_tree(&products[i]);
    }
    test_refusals();
    return 0;
}
