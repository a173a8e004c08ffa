/* What algorithms cuBLASLt has for a product: what its heuristic offers, and their neighbours. */
#include <string.h>

#include "kernels/base/arena.h"
#include "kernels/cuda/gemm/gemm.h"

static struct product_view view_of(const struct product_shape *shape, enum product_how how) {
    return how == HOW_STRIPS ? product_strips_view(shape) : product_whole_view(shape, how);
}

/* Parts of a sum are not rounded to half precision on the way. */
static cublasStatus_t prefer(const struct product_shape *shape, cublasLtMatmulPreferenceOpaque_t *preference) {
    static const cublasLtMatmulPreferenceAttributes_t alignments[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    const uint64_t workspace = PRODUCT_WORKSPACE_BYTES;
    const uint32_t align = (uint32_t)shape->align;
    const uint32_t reductions =
        CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | (shape->out == MT_F32 ? CUBLASLT_REDUCTION_SCHEME_INPLACE : 0);
    cublasStatus_t st = cublasLtMatmulPreferenceInit(preference);
    if (!st)
        st = cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                                  sizeof workspace);
    if (!st)
        st = cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions,
                                                  sizeof reductions);
    for (int i = 0; !st && i < 4; i++)
        st = cublasLtMatmulPreferenceSetAttribute(preference, alignments[i], &align, sizeof align);
    return st;
}

static bool runs(cublasLtHandle_t handle, struct product_problem *p, const cublasLtMatmulAlgo_t *algo) {
    cublasLtMatmulHeuristicResult_t result;
    return !cublasLtMatmulAlgoCheck(handle, &p->desc, &p->b, &p->a, &p->y, &p->y, algo, &result) &&
           result.state == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= PRODUCT_WORKSPACE_BYTES;
}

static void add(struct product_list *list, enum product_how how, const cublasLtMatmulAlgo_t *algo) {
    for (int i = 0; i < list->count; i++)
        if (list->choices[i].how == how && !memcmp(&list->choices[i].algo, algo, sizeof *algo)) return;
    if (list->count == list->capacity)
        list->choices =
            mt_realloc(list->choices, (size_t)(list->capacity = 2 * list->capacity + 32) * sizeof *list->choices);
    list->choices[list->count++] = (struct product_choice){how, *algo};
}

/* The heuristic's answers for the product as done in the way `asked`, of which those are added that run in the way
 * `how`. */
static enum mt_status ask(cublasLtHandle_t handle, const struct product_shape *shape, enum product_how asked,
                          enum product_how how, struct product_list *list, struct mt_err *err) {
    enum { MOST = 16 };
    cublasLtMatmulHeuristicResult_t found[MOST];
    cublasLtMatmulPreferenceOpaque_t preference;
    struct product_problem p, wanted;
    struct product_view view = view_of(shape, asked), as = view_of(shape, how);
    int count = 0;
    enum mt_status status = product_describe_problem(shape, asked, &view, NULL, &p, err);
    if (!status) status = product_describe_problem(shape, how, &as, NULL, &wanted, err);
    if (status) return status;
    cublasStatus_t st = prefer(shape, &preference);
    if (st) return product_failed(st, shape, "describing it", err);
    st = cublasLtMatmulAlgoGetHeuristic(handle, &p.desc, &p.b, &p.a, &p.y, &p.y, &preference, MOST, found, &count);
    if (st && st != CUBLAS_STATUS_NOT_SUPPORTED && st != CUBLAS_STATUS_INVALID_VALUE)
        return product_failed(st, shape, "asking for algorithms", err);
    for (int i = 0; !st && i < count; i++) {
        bool right =
            asked == how ? found[i].workspaceSize <= PRODUCT_WORKSPACE_BYTES : runs(handle, &wanted, &found[i].algo);
        if (found[i].state == CUBLAS_STATUS_SUCCESS && right) add(list, how, &found[i].algo);
    }
    return MT_OK;
}

enum mt_status product_offered(const struct product_shape *shape, enum product_how how, struct product_list *list,
                               struct mt_err *err) {
    cublasLtHandle_t handle;
    if (!product_possible(shape, how)) return MT_OK;
    enum mt_status st = product_library(&handle, err);
    if (!st) st = ask(handle, shape, how, how, list, err);
    bool epilogue = shape->finish != FINISH_NONE && how <= HOW_BIAS;
    return !st && epilogue && !shape->heuristic ? ask(handle, shape, HOW_PLAIN, how, list, err) : st;
}

bool product_usable(const struct product_shape *shape, const struct product_choice *choice) {
    struct product_problem p;
    struct mt_err err;
    cublasLtHandle_t handle;
    struct product_view view = view_of(shape, choice->how);
    return product_possible(shape, choice->how) && !product_library(&handle, &err) &&
           !product_describe_problem(shape, choice->how, &view, NULL, &p, &err) && runs(handle, &p, &choice->algo);
}

/* ---- neighbours ---- */

enum { MOST_CLUSTERS = 16, MOST_OPTIONS = 8, MOST_PARTS = 12 };

/* Split k into `parts`, their sums added in float. */
static void split(cublasLtMatmulAlgo_t *algo, int32_t parts) {
    uint32_t scheme = parts > 1 ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE : CUBLASLT_REDUCTION_SCHEME_NONE;
    cublasLtMatmulAlgoConfigSetAttribute(algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &parts, sizeof parts);
    cublasLtMatmulAlgoConfigSetAttribute(algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &scheme, sizeof scheme);
}

/* What the library refuses to set stays as it was, and what it then cannot run is left out. */
enum mt_status product_neighbours(const struct product_shape *shape, const struct product_choice *choice,
                                  struct product_list *list, struct mt_err *err) {
    struct product_problem p;
    cublasLtHandle_t handle;
    struct product_view view = view_of(shape, choice->how);
    enum mt_status st = product_library(&handle, err);
    if (!st) st = product_describe_problem(shape, choice->how, &view, NULL, &p, err);
    if (st) return st;
    int32_t options = 0;
    size_t written;
    cublasLtMatmulAlgoCapGetAttribute(&choice->algo, CUBLASLT_ALGO_CAP_CUSTOM_OPTION_MAX, &options, sizeof options,
                                      &written);
    for (uint16_t cluster = 0; cluster < MOST_CLUSTERS; cluster++)
        for (int32_t option = 0; option <= options && option < MOST_OPTIONS; option++) {
            cublasLtMatmulAlgo_t algo = choice->algo;
            cublasLtMatmulAlgoConfigSetAttribute(&algo, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, &cluster,
                                                 sizeof cluster);
            cublasLtMatmulAlgoConfigSetAttribute(&algo, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, &option, sizeof option);
            if (runs(handle, &p, &algo)) add(list, choice->how, &algo);
        }
    for (int32_t parts = 1; parts <= MOST_PARTS && view.k >= 4 * view.m; parts++) {
        cublasLtMatmulAlgo_t algo = choice->algo;
        split(&algo, parts);
        if (runs(handle, &p, &algo)) add(list, choice->how, &algo);
    }
    return MT_OK;
}
