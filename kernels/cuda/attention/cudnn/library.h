/* The functions of cuDNN that are used, from the library that was loaded. */
#ifndef MT_KERNELS_CUDA_ATTENTION_CUDNN_LIBRARY_H
#define MT_KERNELS_CUDA_ATTENTION_CUDNN_LIBRARY_H

#include "kernels/cuda/attention/cudnn/cudnn.h"

struct cudnn_library {
    __typeof__(cudnnGetVersion) *version;
    __typeof__(cudnnGetErrorString) *error_string;
    __typeof__(cudnnGetLastErrorString) *last_error_string;
    __typeof__(cudnnCreate) *create;
    __typeof__(cudnnSetStream) *set_stream;
    __typeof__(cudnnBackendCreateDescriptor) *descriptor;
    __typeof__(cudnnBackendDestroyDescriptor) *destroy;
    __typeof__(cudnnBackendFinalize) *finalize;
    __typeof__(cudnnBackendSetAttribute) *set;
    __typeof__(cudnnBackendGetAttribute) *get;
    __typeof__(cudnnBackendExecute) *execute;
};

/* Null and MT_EMISSING where it cannot be loaded; tried once. */
const struct cudnn_library *cudnn_library(struct mt_err *err);
/* "what: CUDNN_STATUS_... (the library's reason)", MT_ESYSTEM. */
enum mt_status cudnn_fail(const struct cudnn_library *lib, cudnnStatus_t status, const char *what, struct mt_err *err);

#endif
