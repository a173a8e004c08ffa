/* `motley bench`: rates on this machine against its measured peak, as tables and as JSON. A benchmark is a file NAME.c
 * and a row of benches.def:
 *
 *     enum mt_status mt_bench_NAME(struct mt_bench *bench, struct mt_err *err)
 *
 * called on all ranks; it agrees, and adds a table to bench->doc, which rank 0 prints. suite.c runs them. */
#ifndef MT_LAUNCHER_BENCH_SUITE_H
#define MT_LAUNCHER_BENCH_SUITE_H

#include "kernels/base/table/table.h"
#include "kernels/device/device.h"
#include "launcher/flags/output.h"
#include "synth/job/job.h"
#include "profiler/cluster/shape.h"

#define MT_BENCH_FORMAT "motley-bench" /* of the JSON document */

struct mt_bench_options {
    const char *device; /* a kind */
    const char *model;  /* null: a default for the kind of device */
    struct mt_job job;
    bool batch_given;
    struct mt_output output;
    double seconds; /* about, for each result */
    unsigned which; /* bits, by benches.def; or MT_BENCH_ALL */
};
#define MT_BENCH_ALL (~0u)

/* The measured peak: rates of a large GEMM in the job's precision, of a large copy (bytes read and written), and of the
 * link between ranks (one direction, one pair). 0: not measured. */
struct mt_bench_peak {
    double flops, copy_Bps, link_Bps;
};

struct mt_bench {
    const struct mt_bench_options *options;
    int rank, nranks;
    struct mt_device *device;
    struct mt_stream *stream; /* "compute" */
    struct mt_comm *wire;
    const char *model;
    struct mt_job job; /* with the batch to use */
    struct mt_bench_peak peak;
    struct mt_tables doc; /* each benchmark adds its table; of use at rank 0 */
};

#define MT_BENCH(name, what) enum mt_status mt_bench_##name(struct mt_bench *bench, struct mt_err *err);
#include "launcher/bench/benches.def"
#undef MT_BENCH
extern const char *const mt_bench_names[]; /* ends with null */

/* Measure and print; collective over MPI_COMM_WORLD, agrees. */
enum mt_status mt_bench_suite(const struct mt_bench_options *options, struct mt_err *err);

/* ---- time_call.c: timing one operator ---- */

/* Time of a call with these shapes (its data pointers are not used): the median of the runs that fit into about
 * `seconds`, back to back, on synthetic operands in more copies than the caches hold. *time_s is 0 if the device does
 * not support the call or lacks the memory. */
enum mt_status mt_bench_call(struct mt_bench *bench, const struct mt_call *call, double seconds, double *time_s,
                             struct mt_err *err);

/* The fraction of the peak that a call reaches, of arithmetic or of memory, whichever is larger; 0: not known. */
double mt_bench_part(const struct mt_bench *bench, const struct mt_op_shape *shape, double time_s);

#endif
