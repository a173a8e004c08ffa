/* The module's one symbol. */
#include "kernels/cuda/module.h"
#include "kernels/cuda/comm_nccl.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/facts.h"

extern const struct mt_cuda_module mt_cuda_module;
__attribute__((visibility("default"))) const struct mt_cuda_module mt_cuda_module = {
    {MOTLEY_VERSION, MT_CUDA_SHAPE}, cuda_device_open, cuda_nccl_id, cuda_nccl_new, cuda_nccl_way, cuda_gpus_look};
