/* `motley bench`: rates on this machine beside what it can do at most, as tables and as JSON. A benchmark is a file
 * bench_NAME.c and a row of benches.def:
 *
 *     enum mt_status mt_bench_NAME(struct mt_bench *bench, struct mt_err *err)
 *
 * called on all ranks at once, which agree. Rank 0 prints. */
#ifndef MT_LAUNCHER_BENCH_BENCH_H
#define MT_LAUNCHER_BENCH_BENCH_H

#include <mpi.h>

#include "kernels/base/text/json.h"
#include "kernels/base/text/table.h"
#include "kernels/device/device.h"
#include "synth/job/job.h"
#include "profiler/cluster/shape.h"

struct mt_bench_options {
    const char *device; /* a kind */
    const char *model;  /* null: one of the device's size */
    struct mt_job job;
    bool batch_given;
    const char *json; /* a file, or null */
    double seconds;   /* about, for each figure */
    unsigned which;   /* bits, by benches.def */
};

/* What the device can do at most, as measured: rates of a large product in the job's precision, of a large copy (read
 * and written bytes), and of the link between ranks (one way, of one pair). 0: not known. */
struct mt_bench_ceilings {
    double flops, copy_Bps, link_Bps;
};

struct mt_bench {
    const struct mt_bench_options *options;
    int rank, nranks;
    struct mt_device *device;
    struct mt_stream *stream; /* "compute" */
    struct mt_comm *wire;
    const char *model;
    struct mt_job job; /* with the batch that is used */
    struct mt_bench_ceilings ceilings;
    struct mt_json_out *json; /* at rank 0 */
};

#define MT_BENCH(name, what) enum mt_status mt_bench_##name(struct mt_bench *bench, struct mt_err *err);
#include "launcher/bench/benches.def"
#undef MT_BENCH
extern const char *const mt_bench_names[]; /* null at the end */

/* Measure and print; collective over MPI_COMM_WORLD, agrees. */
enum mt_status mt_bench_run(const struct mt_bench_options *options, struct mt_err *err);

/* ---- table.c: rows that are printed and written alike ---- */

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
    enum mt_bench_unit unit; /* PART: of one, printed as percent */
};
struct mt_bench_table {
    const struct mt_bench_column *columns;
    int ncolumns, at;
    struct mt_table table;
    struct mt_json_out *json; /* null: nothing is written */
};
/* Begin a table of that name; cells in the order of the columns, row after row; then end it, which prints. Ranks other
 * than 0 (print: false) do nothing. */
void mt_bench_table_begin(struct mt_bench_table *table, struct mt_json_out *json, const char *name,
                          const struct mt_bench_column *columns, int ncolumns);
void mt_bench_text(struct mt_bench_table *table, const char *text);
void mt_bench_number(struct mt_bench_table *table, double value); /* not above 0: "-", and null in JSON */
void mt_bench_table_end(struct mt_bench_table *table, bool print, const char *title);

/* ---- call.c: one operator, again and again ---- */

/* Seconds of a call of these shapes (memory is not looked into): the median of as many runs as fit into about
 * `seconds`, one after the other, on operands that are made up and too many for the caches. *time_s is 0 where the
 * device does not run it or has no memory for it. */
enum mt_status mt_bench_call(struct mt_bench *bench, const struct mt_call *call, double seconds, double *time_s,
                             struct mt_err *err);

/* Of a call's time, the part that the busier of arithmetic and memory would take at its ceiling; 0: not known. */
double mt_bench_part(const struct mt_bench *bench, const struct mt_op_shape *shape, double time_s);

#endif
