/* The table of the kinds that oneDNN serves; plain C runs the others. */
#include <dnnl_version.h>
#include <omp.h>

#include "kernels/cpu/onednn/module.h"
#include "kernels/cpu/onednn/internal.h"

static const struct mt_backend kinds[MT_NOPS] = {
    [MT_OP_matmul] = {"matmul", onednn_matmul_supports, onednn_matmul_scratch, onednn_matmul_run},
    [MT_OP_fused_matmul] = {"fused_matmul", onednn_matmul_supports, onednn_matmul_scratch, onednn_matmul_run},
    [MT_OP_attention] = {"attention", onednn_attention_supports, onednn_attention_scratch, onednn_attention_run},
    [MT_OP_attention_grad] = {"attention_grad", onednn_attention_grad_supports, onednn_attention_scratch,
                              onednn_attention_grad_run},
    [MT_OP_attention_packed] = {"attention_packed", onednn_attention_supports, onednn_attention_scratch,
                                onednn_attention_run},
    [MT_OP_attention_packed_grad] = {"attention_packed_grad", onednn_attention_grad_supports, onednn_attention_scratch,
                                     onednn_attention_grad_run},
};

/* Each compute thread of the program has an OpenMP team of its own. All teams must have the size for which scratch was
 * planned, which is that of the first caller. */
int onednn_threads(void) {
    static int threads;
    int known = __atomic_load_n(&threads, __ATOMIC_ACQUIRE);
    if (known) return known;
    int mine = omp_get_max_threads();
    return __atomic_compare_exchange_n(&threads, &known, mine, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE) ? mine
                                                                                                          : known;
}

static bool supports(const struct mt_call *call) {
    return kinds[call->kind].supports && kinds[call->kind].supports(call);
}

static int64_t scratch_bytes(const struct mt_call *call) {
    return supports(call) ? kinds[call->kind].scratch_bytes(call) : 0;
}

static enum mt_status run(const struct mt_call *call, struct mt_err *err) {
    if (omp_get_max_threads() != onednn_threads()) omp_set_num_threads(onednn_threads());
    return kinds[call->kind].run(call, err);
}

#define TEXT(x) #x
#define NAME(major, minor, patch) "oneDNN " TEXT(major) "." TEXT(minor) "." TEXT(patch)
extern const struct mt_onednn_module mt_onednn_module;
__attribute__((visibility("default"))) const struct mt_onednn_module mt_onednn_module = {
    {MOTLEY_VERSION, MT_ONEDNN_SHAPE},
    {NAME(DNNL_VERSION_MAJOR, DNNL_VERSION_MINOR, DNNL_VERSION_PATCH), supports, scratch_bytes, run}};
