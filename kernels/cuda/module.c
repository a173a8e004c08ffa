/* The module's one symbol. */
#include "kernels/device/cuda_module.h"
#include "kernels/cuda/nccl/comm.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/driver/facts.h"

extern const struct mt_cuda_module mt_cuda_module;
__attribute__((visibility("default"))) const struct mt_cuda_module mt_cuda_module = {
    {MOTLEY_VERSION, MT_CUDA_SHAPE}, cuda_device_open, cuda_nccl_id, cuda_nccl_new, cuda_nccl_impl, cuda_gpus_query};
