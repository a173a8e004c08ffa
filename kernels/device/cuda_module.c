/* The CUDA module, loaded when such a device is first asked for. */
#include <string.h>

#include "kernels/base/arena.h"
#include "kernels/base/file.h"
#include "kernels/base/number/hash.h"
#include "kernels/base/text/json.h"
#include "kernels/base/log.h"
#include "kernels/base/number/stats.h"
#include "kernels/device/cuda_module.h"

/* What the module calls, named here so that every program that can load it has them; mt_op_info comes with
 * mt_op_nout. */
#define CALLED(function) (void (*)(void)) function
static void (*const called[])(void) __attribute__((used)) = {
    CALLED(mt_fail),
    CALLED(mt_err_context),
    CALLED(mt_err_hint),
    CALLED(mt_log),
    CALLED(mt_malloc),
    CALLED(mt_calloc),
    CALLED(mt_realloc),
    CALLED(mt_arena_alloc),
    CALLED(mt_arena_grow),
    CALLED(mt_arena_strdup),
    CALLED(mt_arena_printf),
    CALLED(mt_arena_release),
    CALLED(mt_hash64),
    CALLED(mt_hash_text),
    CALLED(mt_file_read),
    CALLED(mt_file_replace),
    CALLED(mt_json_load),
    CALLED(mt_json_parse),
    CALLED(mt_json_has),
    CALLED(mt_json_only),
    CALLED(mt_json_fail),
    CALLED(mt_json_get),
    CALLED(mt_json_real),
    CALLED(mt_json_int),
    CALLED(mt_json_string),
    CALLED(mt_json_members),
    CALLED(mt_json_member),
    CALLED(mt_json_format),
    CALLED(mt_json_release),
    CALLED(mt_json_out_init),
    CALLED(mt_json_open),
    CALLED(mt_json_open_inline),
    CALLED(mt_json_close),
    CALLED(mt_json_put_int),
    CALLED(mt_json_put_real),
    CALLED(mt_json_put_string),
    CALLED(mt_json_out_release),
    CALLED(mt_quantile),
    CALLED(mt_type_name),
    CALLED(mt_type_size),
    CALLED(mt_type_store),
    CALLED(mt_type_load),
    CALLED(mt_op_nout),
    CALLED(mt_op_epilogue),
    CALLED(mt_coll_name),
    CALLED(mt_now_s),
    CALLED(mt_sleep_s),
    CALLED(mt_awake_check),
    CALLED(mt_cond_init),
    CALLED(mt_cond_wait_until),
    CALLED(mt_nccl_impl_serves),
    CALLED(mt_nccl_impl_choose),
};
#undef CALLED

static const struct mt_cuda_module *load(struct mt_err *err) {
    static struct mt_module cuda = MT_MODULE("motley_cuda.so", "mt_cuda_module", MT_CUDA_SHAPE,
                                             "install CUDA (12.4 or later) and NCCL, configure and build again; or set "
                                             "MOTLEY_MODULES to the module's folder");
    return mt_module_load(&cuda, err);
}

enum mt_status mt_cuda_device_open(int index, struct mt_device **device, struct mt_err *err) {
    const struct mt_cuda_module *module = load(err);
    return module ? module->open(index, device, err) : err->status;
}

enum mt_status mt_comm_nccl_id(void *id, struct mt_err *err) {
    const struct mt_cuda_module *module = load(err);
    return module ? module->comm_id(id, err) : err->status;
}

enum mt_status mt_comm_nccl_new(const void *id, int rank, int nranks, double deadline_s, struct mt_comm **comm,
                                struct mt_err *err) {
    const struct mt_cuda_module *module = load(err);
    return module ? module->comm_new(id, rank, nranks, deadline_s, comm, err) : err->status;
}

void mt_comm_nccl_impl(struct mt_comm *comm, enum mt_nccl_impl way) {
    struct mt_err ignored = MT_ERR_INIT; /* whoever has a communicator has loaded it */
    const struct mt_cuda_module *module = load(&ignored);
    if (module) module->comm_impl(comm, way);
}

enum mt_status mt_gpus_query(struct mt_gpus *gpus, struct mt_err *err) {
    const struct mt_cuda_module *module = load(err);
    return module ? module->gpus_query(gpus, err) : err->status;
}

const char *mt_gpus_version(const struct mt_gpus *gpus, const char *library) {
    for (int i = 0; i < MT_GPU_LIBRARIES; i++)
        if (!strcmp(gpus->libraries[i].name, library)) return gpus->libraries[i].version;
    return "";
}
