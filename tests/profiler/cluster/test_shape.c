/* Shapes of calls: names, rows, dims, flops and bytes counted by hand; all operators of a training graph against the
 * graph's own counts; and a rank's share of the batch changes nothing but rows. */
#include "profiler/cluster/shape.h"

#include "planner/make/make.h"
#include "planner/plan/planned.h"
#include "synth/ops/ops.h"
#include "tests/check.h"
#include "tests/synth/find_op.h"

/* "f4,5": type (f f32, h bf16, i i32, d f64) and extents. */
static struct mt_tensor tensor(const char *text) {
    struct mt_tensor t = {.type = *text == 'f' ? MT_F32 : *text == 'h' ? MT_BF16 : *text == 'd' ? MT_F64 : MT_I32};
    char *end = (char *)text + 1;
    while (*end && *end != ' ') {
        t.extent[t.naxes] = t.global[t.naxes] = strtoll(end, &end, 10);
        t.naxes++;
        if (*end == ',') end++;
    }
    return t;
}

struct row {
    enum mt_op_kind kind;
    struct mt_attr attr;
    const char *in, *out;
    const char *variant;
    enum mt_type type;
    int64_t rows, dim0, dim1;
    double flops, bytes;
};

/* kind, attributes, inputs, outputs, variant, type, rows, dim[0], dim[1], flops, bytes */
#define A(...)                                                                                                         \
    { __VA_ARGS__ }
#define CASE(kind, attr, ...)                                                                                          \
    { MT_OP_##kind, attr, __VA_ARGS__ }
static const struct row rows[] = {
    /* GEMMs: [2,3] rows, k 5, n 7 */
    CASE(matmul, A(.nm = 2, .nn = 1, .nk = 1), "f2,3,5 f5,7", "f2,3,7", "nn", MT_F32, 6, 7, 5, 2 * 6 * 7 * 5,
         4 * (30 + 35 + 42)),
    CASE(matmul, A(.nm = 1, .nn = 2, .nk = 1, .trans_b = true), "d6,5 d7,2,5", "d6,7,2", "nt", MT_F64, 6, 14, 5,
         2 * 6 * 14 * 5, 8 * (30 + 70 + 84)),
    CASE(matmul, A(.nm = 1, .nn = 1, .nk = 2, .trans_a = true, .out_acc = true), "h2,3,5 h2,3,7", "f5,7", "tn+f32",
         MT_BF16, 6, 5, 7, 2 * 6 * 5 * 7, 2 * (30 + 42) + 4 * 35),
    CASE(matmul, A(.nm = 1, .nn = 1, .nk = 2, .trans_a = true, .accumulate = true), "f2,3,5 f2,3,7", "f5,7", "tn+acc",
         MT_F32, 6, 5, 7, 2 * 6 * 5 * 7, 4 * (30 + 42 + 2 * 35)),
    CASE(matmul, A(.nm = 1, .nn = 1, .nk = 1, .trans_a = true, .trans_b = true), "f5,6 f7,5", "f6,7", "tt", MT_F32, 6,
         7, 5, 2 * 6 * 7 * 5, 4 * (30 + 35 + 42)),
    CASE(fused_matmul, A(.nm = 1, .nn = 1, .nk = 1, .epilogue = MT_OP_add), "f6,5 f5,7 f7", "f6,7", "nn+bias", MT_F32,
         6, 7, 5, 2 * 6 * 7 * 5 + 42, 4 * (30 + 35 + 7 + 42)),
    CASE(fused_matmul, A(.nm = 1, .nn = 1, .nk = 1, .epilogue = MT_OP_gelu), "f6,5 f5,7 f7", "f6,7 f6,7", "nn+gelu",
         MT_F32, 6, 7, 5, 2 * 6 * 7 * 5 + 42 * 16, 4 * (30 + 35 + 7 + 84)),
    CASE(fused_matmul, A(.nm = 1, .nn = 1, .nk = 1, .trans_b = true, .epilogue = MT_OP_gelu_grad), "f6,5 f7,5 f6,7",
         "f6,7", "nt+gelu_grad", MT_F32, 6, 7, 5, 2 * 6 * 7 * 5 + 42 * 24, 4 * (30 + 35 + 84)),
    CASE(fused_matmul, A(.nm = 1, .nn = 1, .nk = 1, .trans_a = true, .out_acc = true, .epilogue = MT_OP_sum),
         "f5,6 f5,7", "f6,7 f7", "tn+sum", MT_F32, 5, 6, 7, 2 * 6 * 7 * 5 + 35, 4 * (30 + 35 + 42 + 7)),
    CASE(fused_matmul, A(.nm = 1, .nn = 1, .nk = 1, .epilogue = MT_OP_relu), "f6,5 f5,7 f7", "f6,7 f6,7", "nn+relu",
         MT_F32, 6, 7, 5, 2 * 6 * 7 * 5 + 42 * 2, 4 * (30 + 35 + 7 + 84)),
    /* attention: 2 samples of 4 positions, 3 heads of 5: 10 of 16 pairs are not masked */
    CASE(attention_packed, A(.causal = true, .scale = 1), "f2,4,3,3,5", "f2,4,3,5 f2,3,4", "causal", MT_F32, 6, 4, 5,
         2 * 2 * 6 * 10 * 5, 4 * (360 + 120 + 24)),
    CASE(attention_packed, A(.scale = 1, .p = 0.1), "f2,4,3,3,5", "f2,4,3,5 f2,3,4", "+drop", MT_F32, 6, 4, 5,
         2 * 2 * 6 * 16 * 5, 4 * (360 + 120 + 24)),
    CASE(attention_packed_grad, A(.causal = true, .scale = 1, .p = 0.1), "f2,4,3,5 f2,4,3,3,5 f2,4,3,5 f2,3,4",
         "f2,4,3,3,5", "causal+drop", MT_F32, 6, 4, 5, 5 * 2 * 6 * 10 * 5, 4 * (120 + 360 + 120 + 24 + 360)),
    CASE(attention_packed_grad, A(.causal = true, .scale = 1, .p = 0.1, .any_order = true),
         "f2,4,3,5 f2,4,3,3,5 f2,4,3,5 f2,3,4", "f2,4,3,3,5", "causal+drop+any", MT_F32, 6, 4, 5, 5 * 2 * 6 * 10 * 5,
         4 * (120 + 360 + 120 + 24 + 360)),
    /* queries apart: all of 4 positions; 4 of 8, which are 10 of 36 pairs; two query heads for each of 3, of 5 */
    CASE(attention, A(.causal = true, .scale = 1), "f2,4,3,5 f2,4,2,3,5", "f2,4,3,5 f2,3,4", "causal", MT_F32, 6, 4, 5,
         4 * 6 * 10 * 5, 4 * (120 + 240 + 120 + 24)),
    CASE(attention, A(.causal = true, .scale = 1), "f2,4,3,5 f2,8,2,3,5", "f2,4,3,5 f2,3,4", "causal", MT_F32, 2, 8, 5,
         4 * 6 * 10 * 5, 4 * (120 + 480 + 120 + 24)),
    CASE(attention, A(.scale = 1), "f2,4,3,2,5 f2,8,2,3,5", "f2,4,3,2,5 f2,3,2,4", "", MT_F32, 6, 8, 5, 4 * 12 * 32 * 5,
         4 * (240 + 480 + 240 + 48)),
    CASE(attention_grad, A(.scale = 1), "f2,4,3,5 f2,4,3,5 f2,4,2,3,5 f2,4,3,5 f2,3,4", "f2,4,3,5 f2,4,2,3,5", "",
         MT_F32, 6, 4, 5, 10 * 6 * 16 * 5, 4 * (4 * 120 + 2 * 240 + 24)),
    /* a window of 2: the 4 queries see 1 + 2 + 2 + 2 of 10 keys */
    CASE(attention, A(.causal = true, .scale = 1, .window = 2), "f2,4,3,5 f2,4,2,3,5", "f2,4,3,5 f2,3,4", "causal",
         MT_F32, 5, 4, 5, 4 * 6 * 7 * 5, 4 * (120 + 240 + 120 + 24)),
    CASE(separate, A(.axis = 1, .parts = 2), "f2,7,5", "f2,5 f2,6,5", "", MT_F32, 70, 1, 1, 0, 4 * 140),
    CASE(join, A(.axis = 1), "f2,5 f2,6,5", "f2,7,5", "", MT_F32, 70, 1, 1, 0, 4 * 140),
    /* along rows */
    CASE(norm_sqdev, A(0), "f2,3,7 f2,3", "f2,3", "", MT_F32, 6, 7, 1, 3 * 42, 4 * (42 + 6 + 6)),
    CASE(norm_apply, A(0), "f2,3,7 f2,3 f2,3 f7 f7", "f2,3,7", "", MT_F32, 6, 7, 1, 4 * 42, 4 * (42 + 12 + 14 + 42)),
    CASE(norm_dots, A(0), "f6,7 f6,7 f6 f6 f7", "f6 f6", "", MT_F32, 6, 7, 1, 6 * 42, 4 * (84 + 12 + 7 + 12)),
    CASE(norm_grad, A(0), "f6,7 f6,7 f6 f6 f7 f6 f6", "f6,7", "", MT_F32, 6, 7, 1, 7 * 42, 4 * (84 + 24 + 7 + 42)),
    CASE(norm_param_grad, A(.accumulate = true), "f6,7 f6,7 f6 f6", "f7 f7", "+acc", MT_F32, 6, 7, 1, 5 * 42,
         4 * (84 + 12 + 2 * 14)),
    CASE(rms_sq, A(0), "f2,3,7", "f2,3", "", MT_F32, 6, 7, 1, 2 * 42, 4 * (42 + 6)),
    CASE(rms_apply, A(0), "f2,3,7 f2,3 f7", "f2,3,7", "", MT_F32, 6, 7, 1, 2 * 42, 4 * (42 + 6 + 7 + 42)),
    CASE(rms_dot, A(0), "f6,7 f6,7 f6 f7", "f6", "", MT_F32, 6, 7, 1, 4 * 42, 4 * (84 + 6 + 7 + 6)),
    CASE(rms_grad, A(0), "f6,7 f6,7 f6 f7 f6", "f6,7", "", MT_F32, 6, 7, 1, 5 * 42, 4 * (84 + 6 + 7 + 6 + 42)),
    CASE(rms_param_grad, A(.accumulate = true), "f6,7 f6,7 f6", "f7", "+acc", MT_F32, 6, 7, 1, 3 * 42,
         4 * (84 + 6 + 2 * 7)),
    CASE(layer_norm, A(0), "f6,7 f7 f7", "f6,7 f6 f6", "", MT_F32, 6, 7, 1, 8 * 42, 4 * (42 + 14 + 42 + 12)),
    CASE(residual_norm, A(0), "f6,7 f6,7 f7", "f6,7 f6,7 f6 f6", "", MT_F32, 6, 7, 1, 9 * 42, 4 * (4 * 42 + 7 + 12)),
    CASE(layer_norm_grad, A(0), "f6,7 f6,7 f6 f6 f7", "f6,7 f7 f7", "", MT_F32, 6, 7, 1, 18 * 42,
         4 * (3 * 42 + 12 + 21)),
    CASE(layer_norm_grad, A(.accumulate = true), "f6,7 f6,7 f6 f6 f7 f6,7", "f6,7 f7 f7", "+add+acc", MT_F32, 6, 7, 1,
         19 * 42, 4 * (4 * 42 + 12 + 7 + 2 * 14)),
    CASE(layer_norm_grad, A(.accumulate = true, .epilogue = MT_OP_sum), "f6,7 f6,7 f6 f6 f7 f6,7", "f6,7 f7 f7 f7",
         "+add+sum+acc", MT_F32, 6, 7, 1, 20 * 42, 4 * (4 * 42 + 12 + 7 + 2 * 21)),
    CASE(rms_norm, A(0), "f6,7 f7", "f6,7 f6", "", MT_F32, 6, 7, 1, 4 * 42, 4 * (42 + 7 + 42 + 6)),
    CASE(residual_rms, A(0), "f6,7 f6,7 f7", "f6,7 f6,7 f6", "", MT_F32, 6, 7, 1, 5 * 42, 4 * (4 * 42 + 7 + 6)),
    CASE(rms_norm_grad, A(0), "f6,7 f6,7 f6 f7", "f6,7 f7", "", MT_F32, 6, 7, 1, 12 * 42, 4 * (3 * 42 + 6 + 14)),
    CASE(rms_norm_grad, A(.accumulate = true), "f6,7 f6,7 f6 f7 f6,7", "f6,7 f7", "+add+acc", MT_F32, 6, 7, 1, 13 * 42,
         4 * (4 * 42 + 6 + 7 + 2 * 7)),
    CASE(row_max, A(0), "f6,7", "f6", "", MT_F32, 6, 7, 1, 42, 4 * (42 + 6)),
    CASE(exp_sum, A(0), "f6,7 f6", "f6", "", MT_F32, 6, 7, 1, 420, 4 * (42 + 12)),
    CASE(pick, A(0), "f6,7 i6", "f6", "", MT_F32, 6, 7, 1, 0, 4 * (6 + 6 + 6)),
    CASE(nll_grad, A(0), "f6,7 f6 f6 i6 f6", "f6,7", "", MT_F32, 6, 7, 1, 12 * 42, 4 * (84 + 24)),
    CASE(cross_entropy, A(0), "f6,7 i6", "f6 f6 f6", "", MT_F32, 6, 7, 1, 11 * 42 + 10 * 6, 4 * (42 + 24)),
    CASE(cross_entropy_grad, A(.value = 1), "f6,7 i6", "f6,7 f6", "", MT_F32, 6, 7, 1, 23 * 42 + 60, 4 * (84 + 12)),
    CASE(matmul, A(.nm = 1, .nn = 1, .nk = 1, .tf32 = true, .accumulate = true), "f6,7 f7,5", "f6,5", "nn+tf32+acc",
         MT_F32, 6, 5, 7, 2 * 210, 4 * (42 + 35 + 2 * 30)),
    /* tables */
    CASE(embedding, A(0), "f11,7 i2,3", "f2,3,7", "", MT_F32, 6, 11, 7, 0, 4 * (42 + 6 + 42)),
    CASE(embedding_grad, A(0), "f2,3,7 i2,3", "f11,7", "", MT_F32, 6, 11, 7, 42, 4 * (42 + 6 + 77)),
    CASE(embedding_grad, A(.accumulate = true), "f6,7 i6", "f11,7", "+acc", MT_F32, 6, 11, 7, 42,
         4 * (42 + 6 + 2 * 77)),
    /* sums */
    CASE(sum, A(.axes = 3), "f2,3,7,5", "f7,5", "leading", MT_F32, 210, 35, 1, 210, 4 * (210 + 35)),
    CASE(sum, A(.axes = 4, .accumulate = true), "f2,3,7", "f2,3", "trailing+acc", MT_F32, 42, 7, 1, 42, 4 * (42 + 12)),
    CASE(sum, A(.axes = 2), "f2,3,7", "f2,7", "mixed", MT_F32, 42, 1, 1, 42, 4 * (42 + 14)),
    CASE(sum, A(.axes = 7), "f2,3,7", "f", "all", MT_F32, 42, 1, 1, 42, 4 * 43),
    /* element by element */
    CASE(add, A(.axes = 3), "f6,7 f6,7", "f6,7", "", MT_F32, 42, 1, 1, 42, 4 * 126),
    CASE(add, A(.axes = 2), "f6,7 f7", "f6,7", "broadcast", MT_F32, 42, 1, 1, 42, 4 * (84 + 7)),
    CASE(gelu, A(0), "h6,7", "h6,7", "", MT_BF16, 42, 1, 1, 15 * 42, 2 * 84),
    CASE(gelu_grad, A(0), "f6,7 f6,7", "f6,7", "", MT_F32, 42, 1, 1, 24 * 42, 4 * 126),
    CASE(rotary, A(.rope_base = 10), "f2,3,7,6", "f2,3,7,6", "", MT_F32, 252, 1, 1, 3 * 252, 4 * 504),
    CASE(silu_mul, A(0), "f6,7 f6,7", "f6,7", "", MT_F32, 42, 1, 1, 12 * 42, 4 * 126),
    CASE(silu_mul_grad, A(0), "f6,7 f6,7 f6,7", "f6,7 f6,7", "", MT_F32, 42, 1, 1, 18 * 42, 4 * 210),
    CASE(relu, A(0), "f6,7", "f6,7", "", MT_F32, 42, 1, 1, 42, 4 * 84),
    CASE(relu_grad, A(0), "f6,7 f6,7", "f6,7", "", MT_F32, 42, 1, 1, 42, 4 * 126),
    CASE(dropout, A(.p = 0.1), "f6,7", "f6,7", "", MT_F32, 42, 1, 1, 30 * 42, 4 * 84),
    CASE(nll, A(0), "f6 f6 f6 i6", "f6", "", MT_F32, 6, 1, 1, 60, 4 * 30),
    CASE(count, A(0), "i2,3", "f", "", MT_I32, 6, 1, 1, 6, 4 * 7),
    CASE(fill, A(.to = MT_F64), "f6,7", "d6,7", "", MT_F64, 42, 1, 1, 0, 8 * 42),
    CASE(cast, A(.to = MT_BF16), "f6,7", "h6,7", "bf16", MT_F32, 42, 1, 1, 0, 6 * 42),
    CASE(sq_norm_add, A(0), "f6,7 f", "f", "", MT_F32, 42, 1, 1, 84, 4 * 44),
    CASE(sq_norm, A(0), "f6,7", "f", "", MT_F32, 42, 1, 1, 84, 4 * 43),
    CASE(grad_scale, A(0), "f f", "f", "", MT_F32, 1, 1, 1, 6, 12),
    CASE(loss_scale, A(0), "f f f f", "f f f", "", MT_F32, 1, 1, 1, 4, 4 * 7),
    CASE(adamw, A(0), "f6,7 f6,7 f6,7 f6,7 f", "f6,7 f6,7 f6,7", "", MT_F32, 42, 1, 1, 16 * 42, 4 * (7 * 42 + 1)),
    CASE(sgd, A(0), "f6,7 f6,7 f6,7 f", "f6,7 f6,7", "", MT_F32, 42, 1, 1, 6 * 42, 4 * (5 * 42 + 1))};

static int operands(const char *text, struct mt_tensor *out) {
    int n = 0;
    for (; text; text = strchr(text, ' '), text += !!text) out[n++] = tensor(text);
    return n;
}

static void by_hand(void) {
    bool seen[MT_NOPS] = {0};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *r = &rows[i];
        struct mt_tensor in[MT_MAX_IN], out[MT_MAX_OUT];
        struct mt_call call = {.kind = r->kind, .attr = &r->attr, .in = in, .out = out};
        call.nin = operands(r->in, in), call.nout = operands(r->out, out);
        struct mt_op_shape s;
        mt_op_shape(&call, &s);
        enum mt_op_kind kind = r->kind == MT_OP_attention_packed        ? MT_OP_attention
                               : r->kind == MT_OP_attention_packed_grad ? MT_OP_attention_grad
                                                                        : r->kind;
        CHECK(s.kind == kind && !strcmp(s.variant, r->variant) && s.type == r->type, "%s: \"%s\" %s",
              mt_op_info[r->kind].name, s.variant, mt_type_name(s.type));
        CHECK(s.rows == r->rows && s.dim[0] == r->dim0 && s.dim[1] == r->dim1, "%s %s: %lld, %lld, %lld",
              mt_op_info[r->kind].name, s.variant, (long long)s.rows, (long long)s.dim[0], (long long)s.dim[1]);
        CHECK(s.flops == r->flops && s.bytes == r->bytes, "%s %s: %g flops, %g bytes", mt_op_info[r->kind].name,
              s.variant, s.flops, s.bytes);
        seen[r->kind] = true;
    }
    for (int k = 0; k < MT_NOPS; k++) CHECK(seen[k], "%s has no row", mt_op_info[k].name);
}

static struct mt_lowered *lower(const char *model, double dropout, enum mt_type precision, int64_t batch, bool fuse,
                                struct mt_planned *planned) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_plan_request request = {.model = model, .nranks = 1, .fixed = {.decisions = mt_decisions_unset}};
    mt_job_default(&request.job);
    request.job.batch = batch, request.job.dropout = dropout, request.job.precision = precision;
    struct mt_plan *plan;
    CHECK_OK(mt_plan_make(&request, &plan, &err), err);
    CHECK_OK(mt_planned_open(plan, planned, &err), err);
    struct mt_lowered *low;
    struct mt_lower_options options = {.fuse = fuse};
    CHECK_OK(mt_lower(&planned->program, 0, &options, &low, &err), err);
    mt_plan_free(plan);
    return low;
}

static struct mt_op_shape shape_of(const struct mt_linstr *c) {
    struct mt_call call = mt_linstr_call(c, c->tensor);
    struct mt_op_shape s;
    mt_op_shape(&call, &s);
    return s;
}

/* Bytes of an operator's operands, each once; but of a table only the rows that are written, and of a shape nothing. */
static double op_bytes(const struct mt_graph *g, const struct mt_op *op, const int64_t *extent) {
    double bytes = 0;
    for (int k = 0; k < op->nin + op->nout; k++) {
        bool table = k == 0 && (op->kind == MT_OP_embedding || op->kind == MT_OP_pick), input = k < op->nin && !table;
        int o = table ? 0 : k - op->nin, value = input ? op->in[k] : op->out[o];
        double one = (double)mt_type_size(g->values[value].type);
        for (int a = 0; a < g->values[value].naxes; a++)
            one *= (double)extent[input ? op->in_index[k][a] : op->out_index[o][a]];
        if (k > 0 || op->kind != MT_OP_fill) bytes += one;
    }
    return bytes;
}

static void of_models(const char *model, double dropout, enum mt_type precision) {
    struct mt_planned planned[2];
    struct mt_lowered *a = lower(model, dropout, precision, 4, true, &planned[0]);
    struct mt_lowered *b = lower(model, dropout, precision, 6, true, &planned[1]);
    CHECK_EQ(a->ninstrs, b->ninstrs);
    int grown = 0;
    for (int i = 0; i < a->ninstrs; i++) {
        if (a->instrs[i].what != MT_LOWERED_OP) continue;
        struct mt_op_shape s = shape_of(&a->instrs[i]), t = shape_of(&b->instrs[i]);
        CHECK(s.kind == t.kind && s.type == t.type && !strcmp(s.variant, t.variant), "%s", a->instrs[i].name);
        CHECK(s.dim[0] == t.dim[0] && s.dim[1] == t.dim[1], "%s", a->instrs[i].name);
        CHECK(t.rows == s.rows || t.rows * 4 == s.rows * 6, "%s", a->instrs[i].name);
        CHECK(t.rows > s.rows || (t.flops == s.flops && t.bytes == s.bytes), "%s", a->instrs[i].name);
        grown += t.rows > s.rows;
    }
    CHECK(grown > 10, "%d operators work on samples", grown);
    mt_lowered_free(a), mt_lowered_free(b);
    mt_planned_release(&planned[0]), mt_planned_release(&planned[1]);

    struct mt_lowered *bare = lower(model, dropout, precision, 4, false, &planned[0]);
    const struct mt_graph *g = planned[0].graph;
    int found = 0;
    for (int i = 0; i < bare->ninstrs; i++) {
        int op = bare->instrs[i].what == MT_LOWERED_OP ? find_op(g, bare->instrs[i].name) : -1;
        if (op < 0) continue;
        int64_t extent[MT_MAX_INDICES];
        mt_op_extents(g, &g->ops[op], extent);
        struct mt_op_shape s = shape_of(&bare->instrs[i]);
        CHECK_NEAR(s.flops, mt_op_flops(&g->ops[op], extent), 0);
        CHECK_NEAR(s.bytes, op_bytes(g, &g->ops[op], extent), 0);
        found++;
    }
    CHECK(found > 9 * g->nops / 10, "%d of %d operators", found, g->nops);
    mt_lowered_free(bare);
    mt_planned_release(&planned[0]);
}

int main(void) {
    by_hand();
    of_models("gpt2:layers=2,heads=2,embed=16,context=8,vocab=40", 0.1, MT_F32);
    of_models("gpt2:layers=1,heads=2,embed=16,context=8,vocab=40,bias=0,tied=0", 0, MT_BF16);
    of_models("llama:layers=2,heads=4,kv_heads=2,embed=16,context=8,vocab=40,qkv_bias=1", 0.1, MT_F32);
    of_models("mlp:context=3,embed=4,hidden=8,vocab=16", 0, MT_F64);
    return 0;
}
