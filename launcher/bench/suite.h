/* `motley bench`: rates on this machine against its measured peak, as tables and as JSON. A benchmark is a file NAME.c
 * and a row of benches.def:
 *
 *     enum mt_status mt_bench_NAME(struct mt_bench *bench, struct mt_err *err)
 *
 * called on all ranks; it agrees, and rank 0 prints. suite.c runs them. */
#ifndef MT_LAUNCHER_BENCH_SUITE_H
#define MT_LAUNCHER_BENCH_SUITE_H

#include "kernels/base/text/json.h"
#include "kernels/base/text/plain_table.h"
#include "kernels/device/device.h"
#include "synth/job/job.h"
#include "profiler/cluster/shape.h"

struct mt_bench_options {
    const char *device; /* a kind */
    const char *model;  /* null: a default for the kind of device */
    struct mt_job job;
    bool batch_given;
    const char *json; /* a file, or null */
    double seconds;   /* about, for each result */
    unsigned which;   /* bits, by benches.def */
};

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
    struct mt_json_out *json; /* at rank 0 */
};

#define MT_BENCH(name, what) enum mt_status mt_bench_##name(struct mt_bench *bench, struct mt_err *err);
#include "launcher/bench/benches.def"
#undef MT_BENCH
extern const char *const mt_bench_names[]; /* ends with null */

/* Measure and print; collective over MPI_COMM_WORLD, agrees. */
enum mt_status mt_bench_suite(const struct mt_bench_options *options, struct mt_err *err);

/* ---- table.c: tables that are printed and written as JSON ---- */

enum mt_bench_unit {
    MT_BENCH_TEXT,
    MT_BENCH_COUNT,
    MT_BENCH_BYTES,
    MT_BENCH_SECONDS,
    MT_BENCH_FLOPS,
    MT_BENCH_BPS,
    MT_BENCH_PART
};
struct mt_bench_column {
    const char *key, *title; /* in JSON ("time_s"); for people ("time") */
    enum mt_bench_unit unit; /* PART: a fraction, printed as percent */
};
struct mt_bench_table {
    const struct mt_bench_column *columns;
    int ncolumns, at;
    struct mt_plain_table table;
    struct mt_json_out *json; /* or null */
};
/* Begin a table of that name; add cells in the order of the columns, row by row; end it, which prints it unless `print`
 * is false (on ranks other than 0). */
void mt_bench_table_begin(struct mt_bench_table *table, struct mt_json_out *json, const char *name,
                          const struct mt_bench_column *columns, int ncolumns);
void mt_bench_text(struct mt_bench_table *table, const char *text);
void mt_bench_number(struct mt_bench_table *table,
                     double value); /* not above 0: printed as "-", left out of the JSON */
void mt_bench_table_end(struct mt_bench_table *table, bool print, const char *title);

/* ---- time_call.c: timing one operator ---- */

/* Time of a call with these shapes (its data pointers are not used): the median of the runs that fit into about
 * `seconds`, back to back, on synthetic operands in more copies than the caches hold. *time_s is 0 if the device does
 * not support the call or lacks the memory. */
enum mt_status mt_bench_call(struct mt_bench *bench, const struct mt_call *call, double seconds, double *time_s,
                             struct mt_err *err);

/* The fraction of the peak that a call reaches, of arithmetic or of memory, whichever is larger; 0: not known. */
double mt_bench_part(const struct mt_bench *bench, const struct mt_op_shape *shape, double time_s);

#endif
