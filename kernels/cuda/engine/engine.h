/* Messages by copy engines between GPUs that map each other's memory: the steps of kernels/coll/engine.h, in the order
 * of a stream. Puts are copies to staging in the peers' parts of a window, flags are copies of a word, as of overlapped
 * GEMMs (kernels/cuda/overlap/engine.c); only begins, sums and waits are kernels.
 *
 *     cuda_engines_make(window, &engines, &err);       // whose memory is as it was made
 *     if (cuda_engines_serve(engines, &problem, group)) cuda_engines_queue(...);
 *     cuda_engines_free(engines);                            // streams are idle
 *
 * All ranks of the window make the same calls in the same order, on streams that follow each other. Messages may be
 * captured: the epoch, which counts messages, is a word of this GPU's memory, and flags are epochs and pieces. */
#ifndef MT_KERNELS_CUDA_ENGINE_ENGINE_H
#define MT_KERNELS_CUDA_ENGINE_ENGINE_H

#include "kernels/coll/engine.h"
#include "kernels/cuda/driver/driver.h"
#include "kernels/window/window.h"

struct cuda_engines;

/* Bytes of a window for so many ranks, as much as is worth having; 0: too many ranks. Less makes smaller pieces. */
int64_t cuda_engines_window_bytes(int nranks);

/* *engines is null where a rank's memory is out of reach. The window must outlive them. */
enum mt_status cuda_engines_make(struct mt_window *window, struct cuda_engines **engines, struct mt_err *err);
void cuda_engines_free(struct cuda_engines *engines);

/* Whether they are for a problem: of all ranks in their order, large, and a kind and types that they have. The same
 * on all ranks. */
bool cuda_engines_serve(const struct cuda_engines *engines, const struct mt_coll *problem, const int *group);

/* Queue a message in parts: `kind` is that of the problem, an AllReduce's parts have no owner. */
enum mt_status cuda_engines_queue(struct cuda_engines *engines, const struct cuda_queue *queue,
                                  const struct mt_coll *problem, const struct mt_engine_part *parts, int nparts,
                                  struct mt_err *err);

/* MT_ESTALL if a kernel has waited in vain: the message names the peer, and the peers learn of it. MT_EPEER if another
 * rank has given up, or its process has ended. Each is reported once. */
enum mt_status cuda_engines_check(struct cuda_engines *engines, struct mt_err *err);
/* Waits end at once. */
void cuda_engines_abort(struct cuda_engines *engines);

#endif
