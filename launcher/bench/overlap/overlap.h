/* `motley bench overlap`: GEMMs with their collectives, one after the other and overlapped, in one run of mpirun.
 *
 * A shape M,N,K is an MLP's: AllGather+GEMM is [M, K] by [K, N], M gathered and N split over the ranks;
 * GEMM+ReduceScatter and GEMM+AllReduce are [M, N] by [N, K], N split.
 *
 * Of each shape and form all variants take turns, in another order in each round: the GEMM alone, the
 * collective alone, both in sequence, and the overlapped forms. A turn is short, and its time that of the slowest rank;
 * of three slices the fastest counts.
 * Turns and rounds are cut to fit a number of seconds, as where ranks share a GPU and take turns of milliseconds there.
 * The GEMM alone writes what is sent, and the collective adds that: where NCCL adds, in the wire's type. The fastest of
 * the collective, of copies of its bytes by copy engines, and of the puts of forms is what eta takes.
 * Parts of overlapped forms take turns too: the tiles alone, the puts alone. From their medians come the rates by which
 * the overlapped forms are predicted (planner/overlap/predict.h), and one is chosen, or none. After a few rounds the
 * candidates that are predicted to be fastest join. What was chosen is then measured again, in turn with sequential and
 * with what was best.
 *
 *     overlap.c    options to tables: the devices, the shapes in turn
 *     case.c       a shape and a form: operands, window, rounds
 *     forms.c      which variants a case has
 *     variant.c    one variant: what it queues, and its turns
 *     engine.c     copies by copy engines
 *     values.c     random operands, and the check of results in f64
 *     rates.c      rates of forms by chunks, from turns
 *     fused.c      rates of one kernel
 *     choice.c     predictions, the choice
 *     results.c    the tables
 *     planned.c    the overlapped GEMMs of a plan
 */
#ifndef MT_LAUNCHER_BENCH_OVERLAP_OVERLAP_H
#define MT_LAUNCHER_BENCH_OVERLAP_OVERLAP_H

#include "kernels/base/err.h"
#include "kernels/base/number/type.h"
#include "launcher/flags/output.h"
#include "launcher/session/emulate.h"

struct mt_bench_overlap_options {
    const char *device; /* a kind; null: the plan's, or cpu */
    /* Instead of shapes, forms, shares and a precision: the overlapped GEMMs of a plan; and where the plan is written
     * with the form of each that was fastest. Null: none, nowhere. */
    const char *plan, *out;
    const int64_t (*shapes)[3];
    int nshapes;
    unsigned forms;         /* bits of enum mt_overlap_form */
    enum mt_type precision; /* of operands, results, and what is sent */
    bool tf32;              /* f32 rounded to tf32 */
    bool f32_sums;          /* partial sums are sent, and sums are stored, as f32: as those of weights' gradients are */
    const int64_t *shares;  /* of the ranks, in any unit; null: even */
    int nshares;
    struct mt_emulation emulation;
    struct mt_output output;
    int repetitions;   /* rounds, at most */
    double seconds;    /* of a shape and form, about; 0: as many as the rounds take */
    double deadline_s; /* of waits for other ranks */
};

/* Measure and print; collective over MPI_COMM_WORLD, agrees. MT_EINPUT: shares that do not fit the ranks, a device
 * without overlapped instructions or without the precision, a plan for other ranks or without overlapped GEMMs;
 * MT_EBUG: a result that is wrong. */
enum mt_status mt_bench_overlap(const struct mt_bench_overlap_options *options, struct mt_err *err);

#endif
