/* GEMMs by cuBLASLt, of row-major operands, with a bias, activation or column sums as epilogue.
 *
 *     struct gemm_shape shape = {.m = 64, .n = 32, .k = 8, .nsm = cuda->nsm, .align = 16, .in = MT_BF16, ...};
 *     gemm_choose(queue, &shape, &choice, err);          // measured on the first call of a shape
 *     gemm_run(queue, &shape, &choice, &data, err);
 *
 *   matmul.c      the operators
 *   gemm.c        descriptors, the call of the library
 *   epilogue.c    our own passes: what the library's epilogues do not do, or do slower
 *   strips.c      extents that the library is slow with
 *   tiles.c       our own kernels
 *   candidates.c  the algorithms there are
 *   measure.c     how long they take
 *   choose.c      which one runs
 *
 * Row-major matrices are column-major ones transposed, so y^T = b^T a^T is computed and nothing is copied. */
#ifndef MT_KERNELS_CUDA_GEMM_GEMM_H
#define MT_KERNELS_CUDA_GEMM_GEMM_H

#include <cublasLt.h>

#include "kernels/cuda/driver/driver.h"

enum { GEMM_WORKSPACE_BYTES = 32 << 20, GEMM_ALIGN = 256 };

/* As in ops.def, fused_matmul. BIAS: one row is added to all; GELU, RELU: bias and activation; GELU_GRAD, RELU_GRAD:
 * times the activation's slope; SUM: also the sums of b over k. */
enum gemm_epilogue {
    EPILOGUE_NONE,
    EPILOGUE_BIAS,
    EPILOGUE_GELU,
    EPILOGUE_RELU,
    EPILOGUE_GELU_GRAD,
    EPILOGUE_RELU_GRAD,
    EPILOGUE_SUM,
    NEPILOGUES
};
extern const char *const gemm_epilogue_names[NEPILOGUES];
enum gemm_epilogue gemm_epilogue_of(enum mt_op_kind epilogue); /* as fused_matmul's attribute; 0: none */

/* Implementations to choose from: all, the fastest by measurement; the library's first choice, unmeasured; or those of
 * $MOTLEY_GEMM: "library"; "own", our kernels, where they can, else the library's; or "own:128x256/1/2", ours with
 * tiles of so many rows and columns, of which blocks of a cluster share nothing (0), b (1), a (2), or the tile, and add
 * their parts of k (3), and so many parts (tiles.c). */
enum gemm_among { GEMM_AMONG_ALL, GEMM_AMONG_FIRST, GEMM_AMONG_LIBRARY, GEMM_AMONG_OWN, GEMM_NAMONG };

/* y[m, n] = epilogue(sum over k of a[m, k] b[k, n]), or that sum added to y. No extent is zero. Shapes are compared by
 * their bytes: there is no padding. */
struct gemm_shape {
    int64_t m, n, k;
    int32_t nsm;              /* multiprocessors to choose for; 0: all that the device has */
    int32_t align;            /* of the addresses of all operands: bytes, at most 16 */
    uint8_t in, out;          /* enum mt_type, of a, b, bias and x; of y and pre */
    uint8_t trans_a, trans_b; /* a is stored as [k, m], b as [n, k] */
    uint8_t accumulate;       /* only with EPILOGUE_NONE and EPILOGUE_SUM, whose sums are added to as well */
    uint8_t epilogue;
    uint8_t tf32;     /* f32 operands are multiplied in tf32 */
    uint8_t among;    /* enum gemm_among: who may run it */
    uint16_t form[4]; /* OWN: these tiles alone, as $MOTLEY_GEMM says (gemm_tiles_form); zeros: any */
};
_Static_assert(sizeof(struct gemm_shape) == 48, "has holes");

struct gemm_data {
    const void *a, *b;
    const void *bias; /* [n] */
    const void *x;    /* [m, n], the input of the activation, for its slope */
    void *y;
    const void *added; /* only with EPILOGUE_NONE, by gemm_multiply: laid out as y, and added in its stead; or null */
    void *pre;         /* [m, n] before the activation */
    void *sums;        /* [n], float */
    void *scratch;     /* gemm_scratch_bytes, aligned to GEMM_ALIGN: first the library's workspace */
};

/* cuBLASLt's GELU is the tanh form, and can store its input; its ReLU stores bits instead, unusable here. */
enum gemm_impl {
    GEMM_WHOLE,  /* cuBLASLt does everything */
    GEMM_BIAS,   /* cuBLASLt adds the bias; the activation is a pass of ours */
    GEMM_PLAIN,  /* cuBLASLt only multiplies, the rest are passes of ours */
    GEMM_STRIPS, /* as PLAIN, in aligned strips: strips.c */
    GEMM_TILES,  /* as PLAIN, by our own kernel: tiles.c */
    GEMM_NIMPLS
};
enum { GEMM_LIBRARY_IMPLS = GEMM_TILES }; /* those before it are cuBLASLt's */
extern const char *const gemm_impl_names[GEMM_NIMPLS];

struct gemm_choice {
    enum gemm_impl impl;
    cublasLtMatmulAlgo_t algo; /* TILES: numbers of its own in algo.data */
};

int32_t gemm_multiprocessors(const struct cuda *cuda); /* as a shape's nsm */
bool gemm_types(enum mt_type in, enum mt_type out);    /* whether GEMMs of these types are supported */
/* Enough for every choice. Does not depend on the addresses of operands. */
int64_t gemm_scratch_bytes(const struct cuda *cuda, const struct gemm_shape *shape);

/* The best choice known, as tune/choose.h says; the default is the library's first choice. */
enum mt_status gemm_choose(const struct cuda_queue *queue, const struct gemm_shape *shape, struct gemm_choice *choice,
                           struct mt_err *err);
enum mt_status gemm_run(const struct cuda_queue *queue, const struct gemm_shape *shape,
                        const struct gemm_choice *choice, const struct gemm_data *data, struct mt_err *err);

/* The same for k = 0 (shape->k is ignored). */
enum mt_status gemm_zero_k(const struct cuda_queue *queue, const struct gemm_shape *shape, const struct gemm_data *data,
                           struct mt_err *err);

/* ---- between the files ---- */

/* The operands as they are described to the library. */
struct gemm_view {
    int64_t m, n, k;
    int64_t lda, ldb, ldy;          /* elements from row to row, as stored */
    int batches;                    /* GEMMs of this shape in one call... */
    int64_t step_a, step_b, step_y; /* ... and the distances of their operands, in elements */
    float beta;                     /* y = a b + beta y */
};
struct gemm_view gemm_whole_view(const struct gemm_shape *shape, enum gemm_impl impl);

struct gemm_problem {
    cublasLtMatmulDescOpaque_t desc;
    cublasLtMatrixLayoutOpaque_t a, b, y; /* in our order; the library's a is our b */
};
/* data: null where only algorithms are queried. */
enum mt_status gemm_describe_problem(const struct gemm_shape *shape, enum gemm_impl impl, const struct gemm_view *view,
                                     const struct gemm_data *data, struct gemm_problem *problem, struct mt_err *err);
enum mt_status gemm_library(cublasLtHandle_t *handle, struct mt_err *err);
enum mt_status gemm_failed(cublasStatus_t status, const struct gemm_shape *shape, const char *doing,
                           struct mt_err *err);
/* One call of the library, on data's a, b and y. algo: null for the library's own choice. */
enum mt_status gemm_multiply(const struct cuda_queue *queue, const struct gemm_shape *shape, enum gemm_impl impl,
                             const struct gemm_view *view, const cublasLtMatmulAlgo_t *algo,
                             const struct gemm_data *data, struct mt_err *err);
bool gemm_possible(const struct gemm_shape *shape, enum gemm_impl impl);

/* epilogue.c: the passes of `impl` that are ours, before and after the GEMM; their scratch follows the workspace. */
enum mt_status gemm_before(const struct cuda_queue *queue, const struct gemm_shape *shape, enum gemm_impl impl,
                           const struct gemm_data *data, struct mt_err *err);
enum mt_status gemm_after(const struct cuda_queue *queue, const struct gemm_shape *shape, enum gemm_impl impl,
                          const struct gemm_data *data, struct mt_err *err);
/* Load the kernels of these passes. */
enum mt_status gemm_load_passes(const struct cuda_queue *queue, const struct gemm_shape *shape,
                                const struct gemm_choice *choice, struct mt_err *err);
/* Where the library writes: y; or pre, where our pass computes y from it. */
void *gemm_target(const struct gemm_shape *shape, enum gemm_impl impl, const struct gemm_data *data);
int64_t gemm_pass_bytes(const struct cuda *cuda, const struct gemm_shape *shape); /* of scratch */

/* strips.c */
bool gemm_strips_possible(const struct gemm_shape *shape);
struct gemm_view gemm_strips_view(const struct gemm_shape *shape);
int64_t gemm_strips_bytes(const struct gemm_shape *shape); /* of scratch */
enum mt_status gemm_strips_run(const struct cuda_queue *queue, const struct gemm_shape *shape,
                               const struct gemm_choice *choice, const struct gemm_data *data, struct mt_err *err);

/* candidates.c */
struct gemm_list;
void gemm_list_add(struct gemm_list *list, const struct gemm_choice *choice); /* unless it is there */
struct gemm_list {
    struct gemm_choice *choices;
    int count, capacity;
};
/* Appends what cuBLASLt's heuristic offers for an implementation, its best guess first; then, of what it offers for the
 * same GEMM without an epilogue, the algorithms that can run it. Nothing where the implementation is impossible. */
enum mt_status gemm_offered(const struct gemm_shape *shape, enum gemm_impl impl, struct gemm_list *list,
                            struct mt_err *err);
/* Appends variations of an algorithm: other cluster shapes, custom options, splits of k. */
enum mt_status gemm_neighbours(const struct gemm_shape *shape, const struct gemm_choice *choice, struct gemm_list *list,
                               struct mt_err *err);
/* Whether cuBLASLt can run a choice from the tuning file. */
bool gemm_usable(const struct gemm_shape *shape, const struct gemm_choice *choice);

/* tiles.c: whether our kernel can run the GEMM; appends the choices of tiles that promise most; whether a choice from
 * the tuning file is one; and the call, on data's a, b and y. */
bool gemm_tiles_possible(const struct cuda *cuda, const struct gemm_shape *shape);
bool gemm_tiles_form(const char *text, uint16_t form[4]); /* "128x256/1/2"; false: it is none */
void gemm_tiles_offered(const struct cuda *cuda, const struct gemm_shape *shape, struct gemm_list *list);
bool gemm_tiles_usable(const struct cuda *cuda, const struct gemm_shape *shape, const struct gemm_choice *choice);
enum mt_status gemm_tiles_run(const struct cuda_queue *queue, const struct gemm_shape *shape,
                              const struct gemm_choice *choice, const struct gemm_data *data, struct mt_err *err);

/* measure.c: the fastest of the offered choices and their neighbours; *time_s: of one run. Fails where none runs. */
enum mt_status gemm_measure(const struct cuda_queue *queue, const struct gemm_shape *shape,
                            const struct gemm_list *offered, struct gemm_choice *best, double *time_s,
                            struct mt_err *err);

/* "product m=64 n=32 k=8 bf16 to f32, a transposed, accumulated": part of keys of the tuning file, hence "product". */
void gemm_describe(const struct gemm_shape *shape, char *text, size_t room);

#endif
