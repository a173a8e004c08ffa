/* Matrix products by cuBLASLt, of row-major operands, with what follows them.
 *
 *     struct product_shape shape = {.m = 64, .n = 32, .k = 8, .nsm = cuda->nsm, .align = 16, .in = MT_BF16, ...};
 *     product_choose(queue, &shape, &choice, err);          // measured on the first call of a shape
 *     product_run(queue, &shape, &choice, &data, err);
 *
 * Row-major matrices are column-major ones transposed, so y^T = b^T a^T is computed and nothing is copied. */
#ifndef MT_KERNELS_CUDA_PRODUCT_H
#define MT_KERNELS_CUDA_PRODUCT_H

#include <cublasLt.h>

#include "kernels/cuda/cuda.h"

enum { PRODUCT_WORKSPACE_BYTES = 32 << 20 };

/* After the sums: nothing; the bias, which is one row; the bias and an activation. */
enum product_finish { FINISH_NONE, FINISH_BIAS, FINISH_GELU, FINISH_RELU };

/* y[m, n] = finish(sum over k of a[m, k] b[k, n]), or that sum added to y. No extent is zero. Compared by its bytes:
 * there are none between the members. */
struct product_shape {
    int64_t m, n, k;
    int32_t nsm;              /* multiprocessors to choose for; 0: all that the device has */
    int32_t align;            /* of the addresses of all matrices and the bias: bytes, at most 16 */
    uint8_t in, out;          /* enum mt_type, of a, b and bias; of y and pre */
    uint8_t trans_a, trans_b; /* a is stored as [k, m], b as [n, k] */
    uint8_t accumulate;       /* only with FINISH_NONE */
    uint8_t finish;
    uint8_t tf32;      /* f32 products in tf32 */
    uint8_t heuristic; /* the library's first choice, unmeasured */
};
_Static_assert(sizeof(struct product_shape) == 40, "has holes");

struct product_data {
    const void *a, *b, *bias;
    void *y;
    void *pre; /* [m, n] before the activation; where there is one */
    void *workspace;
};

/* Who does what. cuBLASLt's own GELU is the tanh form and keeps the sums with the bias; of its ReLU it keeps bits. */
enum product_how {
    HOW_WHOLE,  /* cuBLASLt does all */
    HOW_BIAS,   /* cuBLASLt adds the bias; the activation is a pass of ours */
    HOW_SPREAD, /* our pass writes the bias to each row, cuBLASLt adds to it, our pass activates */
    NHOWS
};
extern const char *const product_how_names[NHOWS];

struct product_choice {
    enum product_how how;
    cublasLtMatmulAlgo_t algo;
};

/* The best choice known: from this process, the tuning file (tune.h), or a measurement, which waits for the queue's
 * stream and takes memory of its own. While the stream is captured nothing is measured, and the library's first choice
 * is taken with a warning. With MOTLEY_TUNE=off it always is. */
enum mt_status product_choose(const struct cuda_queue *queue, const struct product_shape *shape,
                              struct product_choice *choice, struct mt_err *err);
enum mt_status product_run(const struct cuda_queue *queue, const struct product_shape *shape,
                           const struct product_choice *choice, const struct product_data *data, struct mt_err *err);

/* The same with sums over nothing (shape->k is not looked at). */
enum mt_status product_of_nothing(const struct cuda_queue *queue, const struct product_shape *shape,
                                  const struct product_data *data, struct mt_err *err);

/* ---- for product_choose.c ---- */

enum { PRODUCT_MOST = 8 };
/* What cuBLASLt offers, its best guess first; at most PRODUCT_MOST, none where it cannot do it in this way. */
enum mt_status product_candidates(const struct product_shape *shape, enum product_how how,
                                  struct product_choice *choices, int *count, struct mt_err *err);
/* Whether cuBLASLt can run a choice that was stored. */
bool product_usable(const struct product_shape *shape, const struct product_choice *choice);
/* "product m=64 n=32 k=8 bf16 to f32, a transposed, accumulated" */
void product_describe(const struct product_shape *shape, char *text, size_t room);

#endif
