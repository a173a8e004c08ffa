/* Windows in the memory of devices that other processes of the host reach (mt_device_export): of GPUs, by CUDA IPC. On
 * other devices a window is in the host's memory.
 *
 *     mt_device_window_new(device, comm, size_bytes, 10, &window, &err);  // collective
 *     char *part = mt_device_window_part(window, rank);                   // as this device addresses it
 *     mt_window_free(window);                                             // collective
 *
 * Memory is zero at first. Kernels and copy engines put and signal there (kernels/cuda/window/window.cuh); hosts keep
 * the window's abort word and look whether processes live (mt_window_check). */
#ifndef MT_KERNELS_DEVICE_WINDOW_H
#define MT_KERNELS_DEVICE_WINDOW_H

#include "kernels/device/device.h"
#include "kernels/window/window.h"

struct mt_comm;

/* Make a window of size_bytes on each rank; collective, and all ranks fail together. Ranks whose memory
 * cannot be reached have no part: those of other hosts, and all others where a GPU cannot reach another of its host.
 * The communicator, or its `host`, must outlive the window. */
enum mt_status mt_device_window_new(struct mt_device *device, struct mt_comm *comm, int64_t size_bytes,
                                    double deadline_s, struct mt_window **window, struct mt_err *err);
/* Windows on one device for streams or threads of this process; each is freed on its own. */
enum mt_status mt_device_window_local(struct mt_device *device, int nranks, int64_t size_bytes, double deadline_s,
                                      struct mt_window **windows, struct mt_err *err);

/* Null: out of reach, or the window is in the host's memory. */
char *mt_device_window_part(const struct mt_window *window, int rank);
/* Byte `at` of a rank's part, wherever it is, as this rank's device addresses it; null: out of reach. */
void *mt_device_window_ptr(const struct mt_window *window, int64_t at, int rank);

/* MT_EINPUT if one of ranks[n] is none of the window's. `names` as in struct mt_overlap_operands. */
enum mt_status mt_device_window_has(const struct mt_window *window, const int *ranks, int n, const int *names,
                                    struct mt_err *err);
/* The same, or if the device cannot reach the part of one of them. Then only a communicator that queues can overlap
 * (MT_OVERLAP_NCCL). */
enum mt_status mt_device_window_reaches(const struct mt_window *window, const int *ranks, int n, const int *names,
                                        struct mt_err *err);

/* Whether this device runs a rank's overlapped GEMM as `problem->how` says, of operands that are not transposed, where
 * its window, or for MT_OVERLAP_NCCL its communicator, reaches the other ranks. */
bool mt_device_overlaps(struct mt_device *device, const struct mt_overlap *problem, int me);

/* The scratch that this device needs for a rank's overlapped GEMM, with an epilogue or 0. */
int64_t mt_device_overlap_scratch_bytes(struct mt_device *device, const struct mt_overlap *problem, int me,
                                        enum mt_op_kind epilogue);

#endif
