/* cuDNN through its C backend interface: graphs of primitive operations, and the plans that it makes of them.
 *
 *     struct cudnn_graph *g = cudnn_graph_new();
 *     cudnn_tensor(g, &(struct cudnn_tensor){.id = A, ...}); ...
 *     cudnn_matmul(g, A, B, C); cudnn_pointwise(g, CUDNN_POINTWISE_EXP, C, 0, 0, D); ...
 *     if (!(st = cudnn_graph_plan(g, &device, false, err))) st = cudnn_graph_run(g, device.handle, ids, pointers, ...);
 *     cudnn_graph_free(g);
 *
 * The library (9.8 or later) is loaded when it is first asked for; a host without it works. After the
 * first failure in building a graph the rest does nothing, and cudnn_graph_plan reports it, in the library's words. */
#ifndef MT_KERNELS_CUDA_ATTENTION_CUDNN_CUDNN_H
#define MT_KERNELS_CUDA_ATTENTION_CUDNN_CUDNN_H

#include <cuda.h>
#include <cudnn.h>

#include "kernels/op/op.h"

/* The device that plans are for. */
struct cudnn_device {
    cudnnHandle_t handle; /* null: plans are made, but cannot run */
    cudnnBackendDescriptor_t properties;
    int nsm; /* multiprocessors to choose for; 0: all */
};

/* Of the current context; created once for each, and never released. */
enum mt_status cudnn_device_here(struct cudnn_device *device, struct mt_err *err);
size_t cudnn_version(void);      /* 91900 is 9.19.0; 0: it cannot be loaded */
const char *cudnn_missing(void); /* why, or null */

/* Tiled: in memory, in a layout of the library's own, for what the graph both writes and reads. */
enum cudnn_tensor_kind { CUDNN_VIRTUAL, CUDNN_MEMORY, CUDNN_TILED, CUDNN_NUMBER };
struct cudnn_tensor {
    int id; /* from 1 to CUDNN_TENSORS - 1 */
    enum cudnn_tensor_kind kind;
    cudnnDataType_t type;
    int64_t extent[4], stride[4];
};

enum { CUDNN_TENSORS = 48, CUDNN_OPERATIONS = 32 };
struct cudnn_graph;
struct cudnn_graph *cudnn_graph_new(void);
void cudnn_graph_free(struct cudnn_graph *g); /* or null */
void cudnn_tensor(struct cudnn_graph *g, const struct cudnn_tensor *tensor);
/* Operations have tensors by id; 0 is none. They compute in f32, indices in i32, comparisons in booleans. */
void cudnn_matmul(struct cudnn_graph *g, int a, int b, int c);
void cudnn_pointwise(struct cudnn_graph *g, cudnnPointwiseMode_t mode, int x, int b, int t, int y);
void cudnn_index(struct cudnn_graph *g, int axis, int x, int y);
void cudnn_reduce(struct cudnn_graph *g, cudnnReduceTensorOp_t op, int x, int y);
void cudnn_reshape(struct cudnn_graph *g, int x, int y);

/* The first plan of the library's heuristic whose engine gives the same bits every time (any_order: or not). For its
 * workspace see cudnn_graph_workspace. */
enum mt_status cudnn_graph_plan(struct cudnn_graph *g, const struct cudnn_device *device, bool any_order,
                                struct mt_err *err);
int64_t cudnn_graph_workspace(const struct cudnn_graph *g);
/* ids[count], pointers[count]: memory, or the host's numbers. */
enum mt_status cudnn_graph_run(const struct cudnn_graph *g, cudnnHandle_t handle, CUstream stream, int count,
                               const int64_t *ids, void *const *pointers, void *workspace, struct mt_err *err);

#endif
