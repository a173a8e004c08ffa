/* The CUDA module, loaded when such a device is first asked for. */
#include <string.h>

#include "kernels/device/cuda_module.h"

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

void mt_comm_nccl_impl(struct mt_comm *comm, enum mt_nccl_impl impl) {
    struct mt_err ignored = MT_ERR_INIT; /* a communicator comes from the module, which is loaded then */
    const struct mt_cuda_module *module = load(&ignored);
    if (module) module->comm_impl(comm, impl);
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
