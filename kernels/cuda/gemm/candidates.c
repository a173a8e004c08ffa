/* The algorithms that cuBLASLt has for a GEMM: what its heuristic offers, and their neighbours. */
#include <string.h>

#include "kernels/base/arena.h"
#include "kernels/cuda/gemm/gemm.h"

static struct gemm_view view_of(const struct gemm_shape *shape, enum gemm_impl impl) {
    return impl == GEMM_STRIPS ? gemm_strips_view(shape) : gemm_whole_view(shape, impl);
}

/* Partial sums over k are not rounded to half precision. */
static cublasStatus_t prefer(const struct gemm_shape *shape, cublasLtMatmulPreferenceOpaque_t *preference) {
    static const cublasLtMatmulPreferenceAttributes_t alignments[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    const uint64_t workspace = GEMM_WORKSPACE_BYTES;
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

static bool runs(cublasLtHandle_t handle, struct gemm_problem *p, const cublasLtMatmulAlgo_t *algo) {
    cublasLtMatmulHeuristicResult_t result;
    return !cublasLtMatmulAlgoCheck(handle, &p->desc, &p->b, &p->a, &p->y, &p->y, algo, &result) &&
           result.state == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= GEMM_WORKSPACE_BYTES;
}

void gemm_list_add(struct gemm_list *list, const struct gemm_choice *choice) {
    for (int i = 0; i < list->count; i++)
        if (list->choices[i].impl == choice->impl &&
            !memcmp(&list->choices[i].algo, &choice->algo, sizeof choice->algo))
            return;
    if (list->count == list->capacity)
        list->choices =
            mt_realloc(list->choices, (size_t)(list->capacity = 2 * list->capacity + 32) * sizeof *list->choices);
    list->choices[list->count++] = *choice;
}

static void add(struct gemm_list *list, enum gemm_impl impl, const cublasLtMatmulAlgo_t *algo) {
    gemm_list_add(list, &(struct gemm_choice){impl, *algo});
}

/* Queries the heuristic for the GEMM by implementation `asked`, and adds the algorithms that can run implementation
 * `impl`. */
static enum mt_status ask(cublasLtHandle_t handle, const struct gemm_shape *shape, enum gemm_impl asked,
                          enum gemm_impl impl, struct gemm_list *list, struct mt_err *err) {
    enum { MOST = 16 };
    cublasLtMatmulHeuristicResult_t found[MOST];
    cublasLtMatmulPreferenceOpaque_t preference;
    struct gemm_problem p, wanted;
    struct gemm_view view = view_of(shape, asked), as = view_of(shape, impl);
    int count = 0;
    enum mt_status status = gemm_describe_problem(shape, asked, &view, NULL, &p, err);
    if (!status) status = gemm_describe_problem(shape, impl, &as, NULL, &wanted, err);
    if (status) return status;
    cublasStatus_t st = prefer(shape, &preference);
    if (st) return gemm_failed(st, shape, "describing it", err);
    st = cublasLtMatmulAlgoGetHeuristic(handle, &p.desc, &p.b, &p.a, &p.y, &p.y, &preference, MOST, found, &count);
    if (st && st != CUBLAS_STATUS_NOT_SUPPORTED && st != CUBLAS_STATUS_INVALID_VALUE)
        return gemm_failed(st, shape, "asking for algorithms", err);
    for (int i = 0; !st && i < count; i++) {
        bool right =
            asked == impl ? found[i].workspaceSize <= GEMM_WORKSPACE_BYTES : runs(handle, &wanted, &found[i].algo);
        if (found[i].state == CUBLAS_STATUS_SUCCESS && right) add(list, impl, &found[i].algo);
    }
    return MT_OK;
}

enum mt_status gemm_offered(const struct gemm_shape *shape, enum gemm_impl impl, struct gemm_list *list,
                            struct mt_err *err) {
    cublasLtHandle_t handle;
    if (!gemm_possible(shape, impl)) return MT_OK;
    enum mt_status st = gemm_library(&handle, err);
    if (!st) st = ask(handle, shape, impl, impl, list, err);
    bool epilogue = shape->epilogue != EPILOGUE_NONE && impl <= GEMM_BIAS;
    return !st && epilogue && shape->among != GEMM_AMONG_FIRST ? ask(handle, shape, GEMM_PLAIN, impl, list, err) : st;
}

bool gemm_usable(const struct gemm_shape *shape, const struct gemm_choice *choice) {
    struct gemm_problem p;
    struct mt_err err;
    cublasLtHandle_t handle;
    struct gemm_view view = view_of(shape, choice->impl);
    return gemm_possible(shape, choice->impl) && !gemm_library(&handle, &err) &&
           !gemm_describe_problem(shape, choice->impl, &view, NULL, &p, &err) && runs(handle, &p, &choice->algo);
}

/* ---- neighbours ---- */

enum { MOST_CLUSTERS = 16, MOST_OPTIONS = 8, MOST_PARTS = 12 };

/* Split k into `parts`, and add their sums in float. */
static void split(cublasLtMatmulAlgo_t *algo, int32_t parts) {
    uint32_t scheme = parts > 1 ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE : CUBLASLT_REDUCTION_SCHEME_NONE;
    cublasLtMatmulAlgoConfigSetAttribute(algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &parts, sizeof parts);
    cublasLtMatmulAlgoConfigSetAttribute(algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &scheme, sizeof scheme);
}

/* An attribute that the library refuses to set stays as it was. Algorithms that cannot run are left out. */
enum mt_status gemm_neighbours(const struct gemm_shape *shape, const struct gemm_choice *choice, struct gemm_list *list,
                               struct mt_err *err) {
    struct gemm_problem p;
    cublasLtHandle_t handle;
    if (choice->impl == GEMM_TILES) return MT_OK; /* all of them were offered */
    struct gemm_view view = view_of(shape, choice->impl);
    enum mt_status st = gemm_library(&handle, err);
    if (!st) st = gemm_describe_problem(shape, choice->impl, &view, NULL, &p, err);
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
            if (runs(handle, &p, &algo)) add(list, choice->impl, &algo);
        }
    for (int32_t parts = 1; parts <= MOST_PARTS && view.k >= 4 * view.m; parts++) {
        cublasLtMatmulAlgo_t algo = choice->algo;
        split(&algo, parts);
        if (runs(handle, &p, &algo)) add(list, choice->impl, &algo);
    }
    return MT_OK;
}
