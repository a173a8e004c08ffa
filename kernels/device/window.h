/* Windows in the memory of devices that other processes of the host reach (mt_device_export): of GPUs, by CUDA IPC. On
 * other devices a window is in the host's memory.
 *
 *     mt_device_window_new(device, comm, size_bytes, 10, &window, &err);  // collective
 *     char *part = mt_device_window_part(window, rank);                   // as this device addresses it
 *     mt_window_free(window);                                             // collective
 *
 * Memory is zero at first. Work of streams puts and signals there (below), and kernels do
 * (kernels/cuda/window/window.cuh); hosts keep the window's abort word and look whether processes live
 * (mt_window_check). */
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

/* ---- one-sided operations as work of a stream (on_stream.c) ----
 *
 *     mt_window_put_signal_on_stream(window, x_at, x, bytes, ready_at, epoch, MT_SIGNAL_SET, peer, stream);
 *     mt_window_wait_on_stream(window, ready_at, MT_CMP_GE, epoch, peer, "the rows of x", stream);
 *     mt_stream_op(stream, ...);         // may read what the peer has put to x_at
 *     mt_stream_sync(stream, 60, &err);  // errors of all of it come out here
 *
 * The functions of kernels/window/window.h, with their names, arguments (a wait is told for whom, too) and rule, in the
 * order of the stream's other work: an operator before a signal has been done when the signal is seen, one after a wait
 * sees what preceded its signal. The window is of mt_device_window_new, or of mt_device_window_local, of the stream's
 * device; `from` and `to` are in that device's memory. Arguments are read when the work is queued, memory when it runs.
 * The window must live, and `what` stay valid, until the stream has been synced or freed. Work on one rank's window
 * belongs to one stream at a time.
 *
 * On a CPU the stream's thread calls window.h's functions, within a host and across. On CUDA, where parts can be
 * reached (mt_device_window_reaches), copy engines put and get, and kernels of one warp signal and wait. Where a
 * window lacks_atomics (kernels/window/window.h: over PCIe), signals of other ranks can be set, not added to. The work
 * cannot be captured: values are constants, of one run. The first on a stream loads kernels, for which the GPU may have
 * to be idle: so should all kernels have run once that are queued while a wait of this GPU depends on them.
 *
 * Errors are the stream's. A wait of more than the window's deadline_s fails with MT_ESTALL, names the rank that it
 * waits for and what, and aborts the window; waits of the other ranks then fail with MT_EPEER, or a stall of their own.
 * MT_EPEER too if a process has ended, and for work that is queued after an error. After a wait that has failed a
 * stream signals no more, so that peers do not take what it has not computed. MT_EINPUT if a part is out of reach,
 * or does not take additions. */

/* `from` may be written by later work of the stream, on a CPU after a quiet. */
void mt_window_put_on_stream(struct mt_window *window, int64_t to, const void *from, int64_t size_bytes, int rank,
                             struct mt_stream *stream);
void mt_window_put_rows_on_stream(struct mt_window *window, int64_t to, int64_t to_stride, const void *from,
                                  int64_t from_stride, int64_t row_bytes, int64_t rows, int rank,
                                  struct mt_stream *stream);
void mt_window_signal_on_stream(struct mt_window *window, int64_t signal, uint64_t value, enum mt_signal how, int rank,
                                struct mt_stream *stream);
void mt_window_put_signal_on_stream(struct mt_window *window, int64_t to, const void *from, int64_t size_bytes,
                                    int64_t signal, uint64_t value, enum mt_signal how, int rank,
                                    struct mt_stream *stream);
void mt_window_get_on_stream(struct mt_window *window, void *to, int64_t from, int64_t size_bytes, int rank,
                             struct mt_stream *stream);
/* from_rank: who is to signal, for messages. */
void mt_window_wait_on_stream(struct mt_window *window, int64_t signal, enum mt_cmp cmp, uint64_t value, int from_rank,
                              const char *what, struct mt_stream *stream);
/* Later work of the stream begins when its puts and signals are done at their ranks: so it is a fence, too. */
void mt_window_quiet_on_stream(struct mt_window *window, struct mt_stream *stream);

/* ---- overlapped GEMMs ---- */

/* Whether this device runs a rank's overlapped GEMM as `problem->how` says, of operands that are not transposed, where
 * its window, or for MT_OVERLAP_NCCL its communicator, reaches the other ranks. */
bool mt_device_overlaps(struct mt_device *device, const struct mt_overlap *problem, int me);

/* The scratch that this device needs for a rank's overlapped GEMM, with an epilogue or 0. */
int64_t mt_device_overlap_scratch_bytes(struct mt_device *device, const struct mt_overlap *problem, int me,
                                        enum mt_op_kind epilogue);

#endif
