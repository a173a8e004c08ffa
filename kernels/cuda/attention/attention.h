/* The ways to run attention: kernels of ours, and cuDNN's. attention.c asks; each says what it can do.
 *
 * The first that is possible is the default; others are taken where they were measured to be faster, and right
 * (choose.c). */
#ifndef MT_KERNELS_CUDA_ATTENTION_ATTENTION_H
#define MT_KERNELS_CUDA_ATTENTION_ATTENTION_H

#include "kernels/cuda/driver/cuda.h"

struct attention_way {
    const char *name;
    /* Whether it can run this call. Devices that are like this one agree. */
    bool (*possible)(const struct cuda *cuda, const struct mt_call *call);
    const char *(*missing)(void); /* why this host cannot go it at all, or null; null: every host can */
    int64_t (*scratch_bytes)(const struct mt_call *call); /* null: none beyond attention_rows_bytes */
    enum mt_status (*queue)(const struct cuda_queue *queue, const struct mt_call *call, struct mt_err *err);
    bool any_order; /* only for gradients that may be added up in any order: other bits each time */
};

/* attention_ways.def */
enum attention_way_id {
#define WAY(name) ATTENTION_##name,
#include "kernels/cuda/attention/attention_ways.def"
#undef WAY
    ATTENTION_NWAYS
};
#define WAY(name) extern const struct attention_way attention_way_##name;
#include "kernels/cuda/attention/attention_ways.def"
#undef WAY
extern const struct attention_way *const attention_ways[ATTENTION_NWAYS];

static inline const struct mt_tensor *attention_qkv(const struct mt_call *call) {
    return &call->in[call->kind == MT_OP_attention ? 0 : 1];
}
/* Possible, allowed, and not missing. */
bool attention_can(const struct attention_way *way, const struct cuda *cuda, const struct mt_call *call);
/* Whether all memory of a call begins on whole parts of so many bytes. */
bool attention_aligned(const struct mt_call *call, uintptr_t size_bytes);
/* The way that the row of attention_tiles.def is for; null: there is no such row. */
const struct attention_way *attention_way_of_row(int row);
/* lse and delta of each query, which the gradient's kernels of ours hand on. */
int64_t attention_rows_bytes(const struct mt_call *call);

/* The way that MOTLEY_CUDA_ATTENTION names, or the fastest that is right; measured on the first call of a shape, on
 * memory of its own, and kept in the tuning file. Nothing is measured while the stream is captured, or with
 * MOTLEY_TUNE=off. */
enum mt_status attention_choose(const struct cuda_queue *queue, const struct mt_call *call,
                                const struct attention_way **way, struct mt_err *err);
/* While set, this thread's calls go that way, which can; null: as they are chosen. Returns what it was. */
const struct attention_way *attention_only(const struct attention_way *way);
/* MOTLEY_CUDA_ATTENTION: a way's name (one that is only for gradients says nothing of the rest), or the number of a row
 * of attention_tiles.def (then *row, else -1), which is taken for heads of that row's size, in its kernel. *way is null
 * where the variable is not set. */
enum mt_status attention_forced(const struct attention_way **way, int *row, struct mt_err *err);

#endif
