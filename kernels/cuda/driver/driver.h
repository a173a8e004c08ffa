/* The ground of the CUDA module: the device, its queues, errors of the driver, kernels and operators. One device a
 * process.
 *
 * Nothing outside kernels/cuda sees it; the program loads the module and finds a struct mt_device_class (module.h).
 * Linked are the driver's libcuda, NVRTC, cuBLASLt and NCCL; the module is not loaded where one is missing. */
#ifndef MT_KERNELS_CUDA_DRIVER_CUDA_H
#define MT_KERNELS_CUDA_DRIVER_CUDA_H

#include <cuda.h>

#include "kernels/device/device.h"

struct cuda {
    CUdevice handle;
    CUcontext context; /* primary; current in every thread that calls the module */
    unsigned opening;  /* how many devices were opened before: a new context may have the address of a released one */
    int sm;            /* compute capability: 90 is 9.0 */
    int nsm;           /* multiprocessors that compute: fewer where that is emulated */
    int shared_bytes;  /* of one block, at most (opt-in) */
    int l2_bytes;      /* of the L2 cache */
    double memory_Bps; /* nominal; 0: unknown */
    struct cuda_jit *jit;
};

/* A stream, with what its kernels find in the device's memory. */
struct cuda_queue {
    struct cuda *cuda;
    CUstream stream;
    CUdeviceptr clock; /* the device's copy of the call's struct mt_clock (op.h), current when the work runs */
    CUdeviceptr room;  /* CUDA_ROOM_BYTES that a launch leaves to the next in multi-tensor launches (reduce.c) */
    bool shares;       /* copies leave multiprocessors to a collective that runs at the same time */
};
enum { CUDA_ROOM_BYTES = 256 << 10 };

/* ---- driver.c ---- */

/* Make the device's context the calling thread's; does nothing where it is already. */
enum mt_status cuda_enter(const struct cuda *cuda, struct mt_err *err);

enum mt_status cuda_fail(struct mt_err *err, CUresult result, const char *what); /* "what: CUDA_ERROR_... (text)" */
#define CUDA_TRY(call, err, what)                                                                                      \
    do {                                                                                                               \
        CUresult result_ = (call);                                                                                     \
        if (result_ != CUDA_SUCCESS) return cuda_fail(err, result_, what);                                             \
    } while (0)

/* ---- kernels (jit/jit.c) ----
 *
 * Device code is kernels/cuda/FAMILY/NAME.cu, embedded in the module; jit/prelude.cuh is prepended to each. It may
 * include .cuh files of kernels/cuda, nothing else. NVRTC compiles it for the device at hand, once for each set of
 * definitions; the result is kept on disk by content. */

/* "-DTYPE=bf16 -DROWS=4": definitions as NVRTC takes them, separated by single spaces (not T: its own header uses
 * that name). `name` is an extern "C" function.
 * The answer lives as long as the module, and asking again is cheap (a look into a hash table). shared_bytes: dynamic
 * shared memory that launches will ask for; more than 48 KiB is arranged for. */
enum mt_status cuda_kernel(struct cuda *cuda, const char *source, const char *definitions, const char *name,
                           int shared_bytes, CUfunction *kernel, struct mt_err *err);

/* arguments: pointers to each parameter. No blocks: nothing is done. */
enum mt_status cuda_launch(const struct cuda_queue *queue, CUfunction kernel, int64_t blocks, int threads,
                           int shared_bytes, void **arguments, struct mt_err *err);
enum mt_status cuda_launch3(const struct cuda_queue *queue, CUfunction kernel, const int64_t blocks[3], int threads,
                            int shared_bytes, void **arguments, struct mt_err *err);

/* "T=..." of a type: "float", "bf16", "f16" (prelude.cuh's). */
const char *cuda_type(enum mt_type type);

/* ---- operators (ops/ops.c) ----
 *
 * T is f32, bf16 or f16, A is f32, I is i32; what is not supported (f64, say) is refused when a program is lowered.
 * Each kind of ops.def has one `const struct cuda_op cuda_KIND`, in the file of its family. Kernels write outputs
 * whole, give the same bits every time (unless an attribute says that any order will do), and leave nothing on the host
 * to wait for: they may be captured into a graph. */
struct cuda_op {
    bool (*supports)(const struct mt_call *call);                                  /* null: all calls of those types */
    int64_t (*scratch_bytes)(const struct cuda *cuda, const struct mt_call *call); /* null: none */
    enum mt_status (*queue)(const struct cuda_queue *queue, const struct mt_call *call, struct mt_err *err);
};
extern const struct cuda_op *const cuda_ops[MT_NOPS];
extern const bool cuda_merges[MT_NOPS]; /* calls of the kind may be one (mt_call.ncalls) */

#endif
