/* Descriptors of a graph, kept until the graph is freed, since operations refer to tensors, and plans to both. */
#include <stdlib.h>

#include "kernels/base/arena.h"
#include "kernels/base/log.h"
#include "kernels/cuda/attention/cudnn/library.h"

enum { MOST_CONFIGS = 16 };

struct cudnn_graph {
    const struct cudnn_library *lib;
    cudnnBackendDescriptor_t *made; /* all of them */
    size_t nmade, capacity;
    cudnnBackendDescriptor_t tensors[CUDNN_TENSORS], operations[CUDNN_OPERATIONS], plan;
    int noperations;
    int64_t workspace_bytes;
    struct mt_err err; /* the first */
};

static void check(struct cudnn_graph *g, cudnnStatus_t status, const char *what) {
    if (status && !g->err.status) cudnn_fail(g->lib, status, what, &g->err);
}

static cudnnBackendDescriptor_t make(struct cudnn_graph *g, cudnnBackendDescriptorType_t type, const char *what) {
    cudnnBackendDescriptor_t descriptor = NULL;
    if (g->err.status) return NULL;
    check(g, g->lib->descriptor(type, &descriptor), what);
    if (g->err.status) return NULL;
    if (g->nmade == g->capacity) {
        g->capacity = 2 * g->capacity + 64;
        g->made = mt_realloc(g->made, g->capacity * sizeof *g->made);
    }
    return g->made[g->nmade++] = descriptor;
}

static void set(struct cudnn_graph *g, cudnnBackendDescriptor_t on, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t count, const void *from, const char *what) {
    if (!g->err.status) check(g, g->lib->set(on, name, type, count, from), what);
}

static void set_descriptor(struct cudnn_graph *g, cudnnBackendDescriptor_t on, cudnnBackendAttributeName_t name,
                           cudnnBackendDescriptor_t descriptor, const char *what) {
    set(g, on, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &descriptor, what);
}

static void finalize(struct cudnn_graph *g, cudnnBackendDescriptor_t descriptor, const char *what) {
    if (!g->err.status) check(g, g->lib->finalize(descriptor), what);
}

struct cudnn_graph *cudnn_graph_new(void) {
    struct cudnn_graph *g = mt_calloc(1, sizeof *g);
    g->err = (struct mt_err)MT_ERR_INIT;
    g->lib = cudnn_library(&g->err);
    return g;
}

void cudnn_graph_free(struct cudnn_graph *g) {
    if (!g) return;
    while (g->nmade) g->lib->destroy(g->made[--g->nmade]);
    free(g->made);
    free(g);
}

void cudnn_tensor(struct cudnn_graph *g, const struct cudnn_tensor *tensor) {
    static const char what[] = "a tensor";
    const int64_t id = tensor->id, align = tensor->kind == CUDNN_NUMBER ? 4 : 16;
    const cudnnBackendTensorReordering_t tiles = CUDNN_TENSOR_REORDERING_F16x16;
    const bool is_virtual = tensor->kind == CUDNN_VIRTUAL, by_value = tensor->kind == CUDNN_NUMBER;
    cudnnBackendDescriptor_t t = make(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR, what);
    set(g, t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id, what);
    set(g, t, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &tensor->type, what);
    set(g, t, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, tensor->extent, what);
    set(g, t, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, tensor->stride, what);
    set(g, t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &align, what);
    set(g, t, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual, what);
    set(g, t, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &by_value, what);
    if (tensor->kind == CUDNN_TILED)
        set(g, t, CUDNN_ATTR_TENSOR_REORDERING_MODE, CUDNN_TYPE_TENSOR_REORDERING_MODE, 1, &tiles, what);
    finalize(g, t, what);
    g->tensors[id] = t;
}

/* ---- operations ---- */

static void add(struct cudnn_graph *g, cudnnBackendDescriptor_t operation, const char *what) {
    finalize(g, operation, what);
    if (!g->err.status) g->operations[g->noperations++] = operation;
}

void cudnn_matmul(struct cudnn_graph *g, int a, int b, int c) {
    static const char what[] = "a GEMM";
    const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t op = make(g, CUDNN_BACKEND_MATMUL_DESCRIPTOR, what);
    set(g, op, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute, what);
    finalize(g, op, what);
    cudnnBackendDescriptor_t o = make(g, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, what);
    set_descriptor(g, o, CUDNN_ATTR_OPERATION_MATMUL_ADESC, g->tensors[a], what);
    set_descriptor(g, o, CUDNN_ATTR_OPERATION_MATMUL_BDESC, g->tensors[b], what);
    set_descriptor(g, o, CUDNN_ATTR_OPERATION_MATMUL_CDESC, g->tensors[c], what);
    set_descriptor(g, o, CUDNN_ATTR_OPERATION_MATMUL_DESC, op, what);
    add(g, o, what);
}

static void pointwise(struct cudnn_graph *g, cudnnPointwiseMode_t mode, int64_t axis, const int operands[4]) {
    static const char what[] = "a pointwise operation";
    static const cudnnBackendAttributeName_t names[4] = {
        CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
        CUDNN_ATTR_OPERATION_POINTWISE_TDESC, CUDNN_ATTR_OPERATION_POINTWISE_YDESC};
    const cudnnDataType_t compute =
        mode >= CUDNN_POINTWISE_CMP_EQ && mode <= CUDNN_POINTWISE_CMP_LE ? CUDNN_DATA_BOOLEAN : CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t op = make(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR, what);
    set(g, op, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode, what);
    set(g, op, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &compute, what);
    if (mode == CUDNN_POINTWISE_GEN_INDEX) set(g, op, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &axis, what);
    finalize(g, op, what);
    cudnnBackendDescriptor_t o = make(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, what);
    set_descriptor(g, o, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, op, what);
    for (int i = 0; i < 4; i++)
        if (operands[i]) set_descriptor(g, o, names[i], g->tensors[operands[i]], what);
    add(g, o, what);
}

void cudnn_pointwise(struct cudnn_graph *g, cudnnPointwiseMode_t mode, int x, int b, int t, int y) {
    pointwise(g, mode, 0, (const int[]){x, b, t, y});
}

void cudnn_index(struct cudnn_graph *g, int axis, int x, int y) {
    pointwise(g, CUDNN_POINTWISE_GEN_INDEX, axis, (const int[]){x, 0, 0, y});
}

void cudnn_reduce(struct cudnn_graph *g, cudnnReduceTensorOp_t mode, int x, int y) {
    static const char what[] = "a reduction";
    const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t op = make(g, CUDNN_BACKEND_REDUCTION_DESCRIPTOR, what);
    set(g, op, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &mode, what);
    set(g, op, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute, what);
    finalize(g, op, what);
    cudnnBackendDescriptor_t o = make(g, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, what);
    set_descriptor(g, o, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, g->tensors[x], what);
    set_descriptor(g, o, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, g->tensors[y], what);
    set_descriptor(g, o, CUDNN_ATTR_OPERATION_REDUCTION_DESC, op, what);
    add(g, o, what);
}

void cudnn_reshape(struct cudnn_graph *g, int x, int y) {
    static const char what[] = "a reshape";
    cudnnBackendDescriptor_t o = make(g, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, what);
    set_descriptor(g, o, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, g->tensors[x], what);
    set_descriptor(g, o, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, g->tensors[y], what);
    add(g, o, what);
}

/* ---- plans ---- */

static cudnnBackendDescriptor_t heuristic(struct cudnn_graph *g, const struct cudnn_device *device) {
    static const char whole[] = "the graph of operations", what[] = "the heuristic";
    const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    cudnnBackendDescriptor_t graph = make(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, whole);
    set(g, graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, g->noperations, g->operations, whole);
    finalize(g, graph, whole);
    cudnnBackendDescriptor_t h = make(g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, what);
    set_descriptor(g, h, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph, what);
    set(g, h, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode, what);
    set_descriptor(g, h, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, device->properties, what);
    if (device->nsm) {
        const int32_t nsm = device->nsm;
        set(g, h, CUDNN_ATTR_ENGINEHEUR_SM_COUNT_TARGET, CUDNN_TYPE_INT32, 1, &nsm, what);
    }
    finalize(g, h, what);
    return h;
}

/* Whether the engine of a configuration always adds in the same order. */
static bool reproducible(struct cudnn_graph *g, cudnnBackendDescriptor_t config) {
    cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    int64_t count = 0;
    cudnnBackendDescriptor_t engine = make(g, CUDNN_BACKEND_ENGINE_DESCRIPTOR, "an engine");
    if (g->err.status) return false;
    check(g, g->lib->get(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &engine),
          "an engine");
    count = 0;
    if (!g->err.status)
        check(g,
              g->lib->get(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                          CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, notes),
              "an engine's notes");
    for (int64_t i = 0; i < count && !g->err.status; i++)
        if (notes[i] == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) return false;
    return !g->err.status;
}

static void take(struct cudnn_graph *g, const struct cudnn_device *device, cudnnBackendDescriptor_t config) {
    static const char what[] = "a plan";
    int64_t count = 0;
    cudnnBackendDescriptor_t plan = make(g, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, what);
    set_descriptor(g, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config, what);
    set_descriptor(g, plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, device->properties, what);
    finalize(g, plan, what);
    if (g->err.status) return;
    check(g,
          g->lib->get(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count, &g->workspace_bytes),
          what);
    if (!g->err.status) g->plan = plan;
}

enum mt_status cudnn_graph_plan(struct cudnn_graph *g, const struct cudnn_device *device, bool any_order,
                                struct mt_err *err) {
    cudnnBackendDescriptor_t configs[MOST_CONFIGS], h = heuristic(g, device);
    int64_t count = 0;
    for (int i = 0; i < MOST_CONFIGS; i++) configs[i] = make(g, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, "a configuration");
    if (!g->err.status)
        check(
            g,
            g->lib->get(h, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, MOST_CONFIGS, &count, configs),
            "asking the heuristic");
    if (!g->err.status && !count) mt_fail(&g->err, MT_ESYSTEM, "cuDNN has no engine for this graph");
    struct mt_err last = g->err;
    for (int64_t i = 0; i < count && !g->err.status && !g->plan; i++) {
        if (!any_order && !reproducible(g, configs[i])) {
            mt_fail(&last, MT_ESYSTEM, "cuDNN's engine may give other bits each time");
            continue;
        }
        take(g, device, configs[i]);
        if (g->plan) break;
        last = g->err;
        mt_log(MT_LOG_DEBUG, "an engine is out: %s", last.text);
        g->err = (struct mt_err)MT_ERR_INIT;
    }
    if (g->plan) return MT_OK;
    *err = last;
    return last.status;
}

int64_t cudnn_graph_workspace(const struct cudnn_graph *g) {
    return g->workspace_bytes;
}

enum mt_status cudnn_graph_run(const struct cudnn_graph *g, cudnnHandle_t handle, CUstream stream, int count,
                               const int64_t *ids, void *const *pointers, void *workspace, struct mt_err *err) {
    const struct cudnn_library *lib = g->lib;
    cudnnBackendDescriptor_t pack = NULL;
    cudnnStatus_t st = lib->set_stream(handle, (cudaStream_t)stream);
    if (!st) st = lib->descriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);
    if (!st) st = lib->set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids);
    if (!st) st = lib->set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, pointers);
    if (!st) st = lib->set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    if (!st) st = lib->finalize(pack);
    if (!st) st = lib->execute(handle, g->plan, pack);
    enum mt_status status = st ? cudnn_fail(lib, st, "running a plan", err) : MT_OK;
    if (pack) lib->destroy(pack);
    return status;
}
