/* Attention and its gradient. There are several implementations (implementations.def): kernels of ours (kernels.c), and
 * cuDNN's (cudnn_candidate.c, cudnn/). Each says what it can run.
 *
 *   operator.c          the operators: choose an implementation, run it
 *   choose.c            which one: MOTLEY_CUDA_ATTENTION, what was measured, or the first that is possible
 *   measure.c           whether an implementation's result is right, and how long it takes
 *   implementations.c   the table of them
 *   attention.c         what all of them ask about a call */
#ifndef MT_KERNELS_CUDA_ATTENTION_ATTENTION_H
#define MT_KERNELS_CUDA_ATTENTION_ATTENTION_H

#include "kernels/cuda/driver/driver.h"
#include "kernels/cuda/tune/tune.h"

struct attention_impl {
    const char *name;
    /* Whether it can run this call. Devices of the same kind agree. */
    bool (*possible)(const struct cuda *cuda, const struct mt_call *call);
    const char *(*missing)(void); /* why it cannot run on this host at all, or null; null: it can on every host */
    int64_t (*scratch_bytes)(const struct mt_call *call); /* null: none beyond attention_rows_bytes */
    enum mt_status (*queue)(const struct cuda_queue *queue, const struct mt_call *call, struct mt_err *err);
    bool any_order; /* only for gradients that may be summed in any order: other bits each time */
};

/* implementations.def */
enum attention_impl_id {
#define IMPL(name) ATTENTION_##name,
#include "kernels/cuda/attention/implementations.def"
#undef IMPL
    ATTENTION_NIMPLS
};
#define IMPL(name) extern __attribute__((visibility("hidden"))) const struct attention_impl attention_impl_##name;
#include "kernels/cuda/attention/implementations.def"
#undef IMPL
extern const struct attention_impl *const attention_impls[ATTENTION_NIMPLS];

/* ---- attention.c ---- */

/* Possible, allowed, and not missing. */
bool attention_can(const struct attention_impl *impl, const struct cuda *cuda, const struct mt_call *call);
/* Whether the addresses of all operands are multiples of so many bytes. */
bool attention_aligned(const struct mt_call *call, uintptr_t size_bytes);
/* Scratch for lse and delta of each query, which our gradient's first kernel passes to its second. */
int64_t attention_rows_bytes(const struct mt_call *call);
/* MOTLEY_CUDA_ATTENTION as the number of a row of attention_tiles.def, or -1 where it is unset or no number. Heads of
 * that row's size run with it, in its kernel. */
int attention_forced_row(void);

/* ---- kernels.c ---- */

/* The implementation that a row of attention_tiles.def belongs to; null: there is no such row. */
const struct attention_impl *attention_impl_of_row(int row);

/* ---- choose.c ---- */

/* The implementation that MOTLEY_CUDA_ATTENTION names (one that is only for gradients does not count for the rest), or
 * the fastest that is right, as choose.h says. Fails where the one that is named cannot run the call. */
enum mt_status attention_choose(const struct cuda_queue *queue, const struct mt_call *call,
                                const struct attention_impl **impl, struct mt_err *err);
/* While set, this thread's calls run with that implementation, which can; null: as they are chosen. Returns what it
 * was. */
const struct attention_impl *attention_only(const struct attention_impl *impl);

/* ---- measure.c ---- */

/* *best: the fastest of impls[count] that is right; where none is, the plain kernels ("row"), and it fails. `key` is
 * for messages. */
enum mt_status attention_measure(const struct cuda_queue *queue, const struct mt_call *call, const char *key,
                                 const struct attention_impl *const *impls, int count,
                                 const struct attention_impl **best, struct tune_facts *facts, struct mt_err *err);

#endif
