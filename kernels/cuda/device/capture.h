/* Captured work: a graph of the driver's, and a part for each stream, which records what was captured. While a stream
 * is captured, stream.c records all work in its part; later it asks the part how far a launch is. */
#ifndef MT_KERNELS_CUDA_DEVICE_CAPTURE_H
#define MT_KERNELS_CUDA_DEVICE_CAPTURE_H

#include "kernels/cuda/device/internal.h"

struct cuda_part;

enum mt_status cuda_capture_begin(struct mt_stream *const *streams, int nstreams, struct mt_capture **capture,
                                  struct mt_err *err);
enum mt_status cuda_capture_end(struct mt_capture *capture, struct mt_err *err);
enum mt_status cuda_capture_launch(struct mt_capture *capture, const struct mt_clock *clock, uint64_t *launch,
                                   struct mt_err *err);
void cuda_capture_times(const struct mt_capture *capture, uint64_t launch, double *stream_s);
void cuda_capture_free(struct mt_capture *capture);

/* ---- while it is captured ---- */

/* The stream, with the capture's clock. */
const struct cuda_queue *cuda_part_queue(const struct cuda_part *part);
/* To be called before and after work, and before a wait for another stream. */
enum mt_status cuda_part_begin(struct cuda_part *part, bool collective, struct mt_err *err);
enum mt_status cuda_part_end(struct cuda_part *part, const char *what, bool collective, bool timestamps,
                             struct mt_err *err);
enum mt_status cuda_part_wait(struct cuda_part *part, struct mt_err *err);
/* It has overlapped GEMMs, on this window. */
void cuda_part_overlaps(struct cuda_part *part, struct mt_window *window);
struct mt_window *cuda_part_window(const struct cuda_part *part); /* or null */

/* ---- when it has been launched; any thread ---- */

uint64_t cuda_part_count(const struct cuda_part *part); /* of items */
/* The progress of a launch on this stream; completed: of the part's items. */
struct mt_stream_progress cuda_part_query(const struct cuda_part *part, uint64_t launch);
/* Changes with each progress of the launch, on any of its streams. */
uint64_t cuda_part_progress(const struct cuda_part *part);
/* "AllReduce h.3"; "h.3.mlp.c_fc or one of the 5 after it"; "the wait for an event" */
void cuda_part_describe(const struct cuda_part *part, uint64_t launch, char *text, size_t room);

#endif
