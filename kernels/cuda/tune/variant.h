/* Variants of kernels: block shapes, stages, vector widths, rows of a block. A family lists the variants that are worth
 * trying for a call; the fastest is measured once and kept in the tuning file (choose.h).
 *
 *     static int variants(const struct cuda *cuda, const struct mt_call *call, struct cuda_variant *list) {
 *         list[0] = (struct cuda_variant){{256, 4}};          // the default
 *         ...
 *         return count;                                       // at most CUDA_MOST_VARIANTS
 *     }
 *     static const struct cuda_family rows = {"norm rows", "norm", {"threads", "rows"}, variants, NULL};
 *     ... in the operator: if ((st = cuda_choose_variant(queue, &rows, call, &variant, err))) return st; then launch
 * with it
 *
 * All variants compute the same call, in the same scratch. To measure, variants are left out that do not compile, do
 * not fit a multiprocessor, spill registers or fill little of the device, by examining their launches; then, with a
 * warning, those whose result differs from the default's. The rest race by successive halving (halving.h), on operands
 * of their own, with a cold cache (call_bench.h). */
#ifndef MT_KERNELS_CUDA_TUNE_VARIANT_H
#define MT_KERNELS_CUDA_TUNE_VARIANT_H

#include "kernels/cuda/driver/driver.h"
#include "kernels/device/tuner.h"

enum { CUDA_PARAMS = 6, CUDA_MOST_VARIANTS = 32 };

struct cuda_variant {
    int p[CUDA_PARAMS];
};

struct cuda_family {
    const char *name, *source;       /* in the tuning file, with a hash of kernels/cuda/SOURCE.cu */
    const char *params[CUDA_PARAMS]; /* their names; null: no more */
    int (*variants)(const struct cuda *cuda, const struct mt_call *call, struct cuda_variant *list);
    /* Runs a call by the family's kernel; null: the operator itself does. */
    enum mt_status (*queue)(const struct cuda_queue *queue, const struct mt_call *call, struct mt_err *err);
};

/* The best variant known, as choose.h says. */
enum mt_status cuda_choose_variant(const struct cuda_queue *queue, const struct cuda_family *family,
                                   const struct mt_call *call, struct cuda_variant *variant, struct mt_err *err);

/* For `variants`: the default, then all other pairs of the two parameters' values (lists that end with 0). Returns how
 * many. */
int cuda_variant_pairs(struct cuda_variant first, const int *a, const int *b, struct cuda_variant *list);

/* ---- for tuned_call.c ---- */

/* While set, this thread's calls of the same kind are parts of `whole`, and run with its choices; null: not any more.
 * Returns what it was. */
const struct mt_call *cuda_part_of(const struct mt_call *whole);
/* The call to choose for: the one that `call` is a part of, or itself. */
const struct mt_call *cuda_chosen_for(const struct mt_call *call);
/* The choices of this thread's calls since cuda_choices_begin, as text: "norm rows: threads=64 rows=2". */
void cuda_choices_begin(void);
const char *cuda_choices_text(void);

#endif
