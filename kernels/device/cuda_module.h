/* What the CUDA module and the program that loads it agree on. The module exports one symbol, `mt_cuda_module`; it is
 * used only if both were built with the same sizes and version. The module calls functions of mt_kernels, which the
 * program links whole and exports (motley_loads_modules in CMakeLists.txt). */
#ifndef MT_KERNELS_DEVICE_CUDA_MODULE_H
#define MT_KERNELS_DEVICE_CUDA_MODULE_H

#include "kernels/base/module.h"
#include "kernels/device/class.h"
#include "kernels/device/gpu.h"

struct mt_cuda_module {
    struct mt_module_head head; /* shape: the sizes of what both sides use, two a number, and how many operators */
    enum mt_status (*open)(int index, struct mt_device **device, struct mt_err *err);
    /* kernels/comm/comm.h: mt_comm_nccl_id, mt_comm_nccl_new, mt_comm_nccl_impl */
    enum mt_status (*comm_id)(void *id, struct mt_err *err);
    enum mt_status (*comm_new)(const void *id, int rank, int nranks, double deadline_s, struct mt_comm **comm,
                               struct mt_err *err);
    void (*comm_impl)(struct mt_comm *comm, enum mt_nccl_impl way);
    enum mt_status (*gpus_query)(struct mt_gpus *gpus, struct mt_err *err);
};

#define MT_CUDA_SHAPE_OF(a, b) ((int64_t)(a) << 32 | (int64_t)(b))
#define MT_CUDA_SHAPE                                                                                                  \
    {                                                                                                                  \
        MT_CUDA_SHAPE_OF(sizeof(struct mt_call), sizeof(struct mt_tensor)),                                            \
            MT_CUDA_SHAPE_OF(sizeof(struct mt_attr), MT_NOPS),                                                         \
            MT_CUDA_SHAPE_OF(sizeof(struct mt_coll_call), sizeof(struct mt_piece)),                                    \
            MT_CUDA_SHAPE_OF(sizeof(struct mt_device_class), sizeof(struct mt_device) << 16 | sizeof(struct mt_gpus)), \
            MT_CUDA_SHAPE_OF(sizeof(struct mt_device_facts),                                                           \
                             sizeof(struct mt_device_peer) << 16 | sizeof(struct mt_window_work)),                     \
    }

#endif
