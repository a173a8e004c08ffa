/* Inside `motley bench overlap`: see overlap.h. */
#ifndef MT_LAUNCHER_BENCH_OVERLAP_INTERNAL_H
#define MT_LAUNCHER_BENCH_OVERLAP_INTERNAL_H

#include "kernels/device/window.h"
#include "kernels/overlap/choice.h"
#include "launcher/bench/overlap/overlap.h"
#include "planner/overlap/predict.h"
#include "planner/plan/plan.h"

/* What is kept of a case for the table of all. */
struct mt_bench_line {
    enum mt_overlap_form form;
    int64_t shape[3];
    const char *chosen, *best, *collective;
    double gemm_s, collective_s, sequential_s, chosen_s, error, eta, speedup, to_best;
    double errors, worst_error; /* of all predictions, without sign: the sum, the largest, how many */
    int predicted;
    struct mt_overlap_choice row; /* of the best */
};

struct mt_bench_overlap {
    const struct mt_bench_overlap_options *options;
    const char *kind;       /* of device */
    enum mt_type precision; /* of operands, results, and what is sent */
    bool tf32, f32_sums;
    int rank, nranks;
    struct mt_plan *plan;        /* or null; */
    struct mt_overlap *problems; /* a problem of each shape of it; whether its A, B and result lie transposed */
    bool (*transposed)[3];
    int nproblems;
    struct mt_device *device;
    struct mt_stream *compute, *talk;
    struct mt_event *computed, *told; /* the ends of work on the two streams */
    struct mt_comm *wire;
    int *group;        /* [nranks]: all ranks */
    char *poison;      /* of a GPU: a block of its memory, of NaN in every type; or null */
    int slices, least; /* of a turn, and the least instances of a captured one; 0: three, and 20 */
    struct mt_tables doc;
    struct mt_arena arena;
    struct mt_bench_line *lines; /* rank 0's */
    int nlines, lines_capacity;
};

enum mt_bench_part {
    MT_BENCH_GEMM,       /* the GEMM of this rank's part */
    MT_BENCH_COLLECTIVE, /* by one algorithm */
    MT_BENCH_ENGINE,     /* its bytes alone, by copy engines */
    MT_BENCH_SEQUENTIAL, /* the GEMM and the collective */
    MT_BENCH_OVERLAPPED, /* a form */
    MT_BENCH_PUTS,       /* a form without its GEMM, or with a short one: another collective */
    /* For rates, of a form, and of each implementation that is predicted: */
    MT_BENCH_FLAGS,    /* its flags, without data and tiles */
    MT_BENCH_TILES,    /* its GEMM, without waits and puts */
    MT_BENCH_SUMS,     /* the other tiles, without waits and puts */
    MT_BENCH_IN_STEP,  /* its GEMM with the flags, without data */
    MT_BENCH_TOGETHER, /* all of it, but nothing is awaited */
    /* And of sequential: */
    MT_BENCH_HANDOVER, /* one stream waits for the other, and that one for it */
};

struct mt_bench_variant {
    enum mt_bench_part part;
    const char *name;
    struct mt_overlap problem; /* of a form: */
    struct mt_overlap_schedule schedule;
    struct mt_overlap_call call;
    int64_t epoch;                             /* since its turn began */
    const struct mt_coll_algorithm *algorithm; /* of a collective: */
    struct mt_coll_call message;
    struct mt_schedule steps;
    struct mt_capture *capture; /* of its instances; null: the device does not capture */
    int instances;              /* in a turn, each of which depends on the one before */
    double *time_s, *own_s;     /* [rounds]: of one instance, on the slowest rank and on this one */
    double *final_s;            /* [rounds]: as time_s, in the final */
    double median_s;
    double predicted_s; /* NAN: nothing is predicted */
};

/* Whether it is an overlapped form, or parts of one. */
static inline bool mt_bench_is_form(const struct mt_bench_variant *v) {
    return v->part >= MT_BENCH_OVERLAPPED && v->part != MT_BENCH_HANDOVER;
}

enum { MT_BENCH_VARIANTS = 64 };
struct mt_bench_case {
    struct mt_bench_overlap *bench;
    struct mt_arena arena;
    int64_t shape[3];             /* as the user gave it, or would */
    const struct mt_overlap *of;  /* a problem whose rows and shares it has; null: as the options say */
    struct mt_overlap problem;    /* with tiles, and all else open */
    int64_t first_row, first_col; /* of this rank's result, in the whole */
    int64_t gathered_at;          /* the first of its own rows */
    int64_t out_extent[2];
    /* Of what the GEMM alone writes: the wire's, if the communicator adds it (NCCL); else the type of sums. */
    enum mt_type product_type;
    /* In the device's memory. a: of a gather the whole operand, whose part in its place is this rank's. product: the
     * GEMM's result where it is summed up. Captured work keeps its scratch: a later variant that needs more has more.
     */
    char *a, *b, *out, *product, *scratch, *gemm_scratch, *more_scratch;
    int64_t scratch_bytes;
    struct mt_attr attr;
    struct mt_tensor tensors[3];
    struct mt_call gemm;
    const struct mt_backend *backend;
    int64_t *counts; /* [n]: of the collective */
    struct mt_piece unpack;
    /* One for all variants, from its begin on: the flags are reset when a turn begins. */
    struct mt_window *window;
    int64_t window_bytes;
    struct mt_bench_variant variants[MT_BENCH_VARIANTS];
    int nvariants;
    double *want, *size; /* the sample of the result, and what its terms add up to without signs; or null */
    double begun_s;
    int rounds;      /* that count */
    double clock_Hz; /* of multiprocessors after the rounds, the least of all ranks; 0: not known */
    /* After the turns, indices of variants. collective: the fastest of the collective and the puts; chosen and best: of
     * the sequential and the overlapped. */
    int gemm_alone, collective, sequential, chosen, best;
    struct mt_overlap_rates rates, fused; /* the slowest rank's; of one kernel with its first tile, if there is one */
    double bandwidth_Bps, latency_s, in_step, fused_bandwidth_Bps, fused_latency_s;
};

/* What predictions are made of: of all ranks, and between them. */
struct mt_bench_rates {
    struct mt_overlap_rates *rates;
    struct mt_overlap_links links;
};

/* overlap.c: fill in all but the options and the document: device and communicator, if they are not there already, and
 * streams; collective, agrees. Closed after a failure too, with the document. */
enum mt_status mt_bench_overlap_open(struct mt_bench_overlap *bench, struct mt_err *err);
/* A shape and a form, to its tables; `of`: whose rows and shares, or null. Collective, agrees. */
enum mt_status mt_bench_overlap_measure(struct mt_bench_overlap *bench, enum mt_overlap_form form,
                                        const int64_t shape[3], const struct mt_overlap *of, struct mt_err *err);
void mt_bench_overlap_close(struct mt_bench_overlap *bench);

/* planned.c: the problems of the options' plan, its kind and precision; collective, agrees. Rank 0: the plan with the
 * rows of all lines, to the options' output. */
enum mt_status mt_bench_overlap_read_plan(struct mt_bench_overlap *bench, struct mt_err *err);
enum mt_status mt_bench_overlap_write_plan(struct mt_bench_overlap *bench, struct mt_err *err);

/* case.c: shares of M or N (`what`) for the ranks; MT_EINPUT where one would be empty. */
enum mt_status mt_bench_overlap_divide(const struct mt_bench_overlap *bench, const char *what, int64_t extent,
                                       int64_t *sizes, struct mt_err *err);
/* Fill in the problem and this rank's places of a case whose bench and shape are known. */
enum mt_status mt_bench_case_pose(struct mt_bench_case *c, enum mt_overlap_form form, struct mt_err *err);
/* Make a case's operands and variants and check their results, and after the turns those of the final again;
 * collective, agree. Released after a failure too. */
enum mt_status mt_bench_case_init(struct mt_bench_case *c, struct mt_bench_overlap *bench, enum mt_overlap_form form,
                                  const int64_t shape[3], const struct mt_overlap *of, struct mt_err *err);
enum mt_status mt_bench_case_check(struct mt_bench_case *c, struct mt_err *err);
enum mt_status mt_bench_case_check_final(struct mt_bench_case *c, struct mt_err *err);
/* All variants take their turns, in as many rounds as there is time for, but a few at least. The best of many is so
 * partly by chance. So after the judgement comes a final, of the GEMM, the collective, sequential, what was chosen and
 * what was best. */
void mt_bench_case_rounds(struct mt_bench_case *c, int rounds);
void mt_bench_case_final(struct mt_bench_case *c);
void mt_bench_case_release(struct mt_bench_case *c);

/* forms.c: the variants that every case has; then, when rates are known, those that are predicted to be fast, from
 * variant `first` on. Collective. */
enum { MT_BENCH_PILOT_ROUNDS = 2 };
void mt_bench_forms_add(struct mt_bench_case *c);
enum mt_status mt_bench_forms_add_fast(struct mt_bench_case *c, struct mt_err *err);
struct mt_bench_variant *mt_bench_add(struct mt_bench_case *c, enum mt_bench_part part, const char *name);
/* The window that the variants need, and those that may be added. */
int64_t mt_bench_forms_window_bytes(struct mt_bench_case *c);

/* engine.c: `count` copies by copy engines of what the rank sends to each peer, all ranks at the same time; seconds of
 * one. MT_BENCH_ENGINE is for devices that put into each other's memory. */
bool mt_bench_engine_serves(const struct mt_bench_case *c);
double mt_bench_engine_bytes(const struct mt_overlap *problem); /* of the rank that copies most, to all peers */
enum mt_status mt_bench_engine_run(struct mt_bench_case *c, int count, double *each_s, struct mt_err *err);

/* variant.c. Queue one instance. */
void mt_bench_variant_queue(struct mt_bench_case *c, struct mt_bench_variant *v);
/* Run `count` instances after a barrier; *own_s: this rank's time of one; returns the slowest rank's. A failure ends
 * all ranks. */
double mt_bench_variant_run(struct mt_bench_case *c, struct mt_bench_variant *v, int count, double *own_s);
/* Choose the instances of a turn, and capture them; says how long one takes. */
void mt_bench_variant_prepare(struct mt_bench_case *c, struct mt_bench_variant *v);
/* Of a form, before it runs: its flags and its epoch are those of a first run. Collective. */
void mt_bench_variant_begin(struct mt_bench_case *c, struct mt_bench_variant *v);
/* A turn; seconds of one instance, of the slowest rank and of this one. */
void mt_bench_variant_turn(struct mt_bench_case *c, struct mt_bench_variant *v, double *time_s, double *own_s);
void mt_bench_variant_release(struct mt_bench_variant *v);
/* Keep of a form's schedule, of rank `me`, the variant's part. */
void mt_bench_variant_reduce(struct mt_bench_variant *v, int me);

/* values.c: fill this rank's operands; overwrite its result, and what it gathers, which the variant then must write;
 * compare a sample of it with products in f64. */
enum mt_status mt_bench_values_fill(struct mt_bench_case *c, struct mt_err *err);
enum mt_status mt_bench_values_poison(struct mt_bench_case *c, const struct mt_bench_variant *v, struct mt_err *err);
enum mt_status mt_bench_values_check(struct mt_bench_case *c, const struct mt_bench_variant *v, struct mt_err *err);
#define MT_BENCH_OVERLAP_SEED 20261123

/* choice.c: medians, predictions and the choice. Collective. */
enum mt_status mt_bench_case_judge(struct mt_bench_case *c, struct mt_err *err);
/* Predict problems by the rounds so far, or by all; seconds[count]. Each rank predicts some of them. Collective. */
enum mt_status mt_bench_predict(struct mt_bench_case *c, const struct mt_overlap *problems, int count, double *seconds,
                                struct mt_err *err);
void mt_bench_find_medians(struct mt_bench_case *c);
/* Whether rates for such a problem are measured. */
bool mt_bench_predicts(const struct mt_bench_case *c, const struct mt_overlap *problem);

/* rates.c: of forms by chunks, or of a CPU, direct or not; fused.c: of one kernel with the problem's tile. Medians have
 * been found. Collective. */
struct mt_bench_rates mt_bench_rates_of_chunks(struct mt_bench_case *c, const struct mt_overlap *problem);
struct mt_bench_rates mt_bench_rates_of_fused(struct mt_bench_case *c, const struct mt_overlap *problem);
/* The part of forms by chunks, or of one kernel (of the problem's tile, and for few rows as it is; or null: of any but
 * those for few rows); the last of several, or the first, or null. */
const struct mt_bench_variant *mt_bench_part_of(const struct mt_bench_case *c, enum mt_bench_part part);
const struct mt_bench_variant *mt_bench_first_part_of(const struct mt_bench_case *c, enum mt_bench_part part);
const struct mt_bench_variant *mt_bench_fused_part_of(const struct mt_bench_case *c, enum mt_bench_part part,
                                                      const struct mt_overlap *problem);
double mt_bench_own_median(const struct mt_bench_case *c, const struct mt_bench_variant *v);
double mt_bench_in_step(const struct mt_bench_case *c);
/* What the rank that sends or receives most does so of; and the puts of the rank with most of them. */
struct mt_bench_traffic {
    double bytes, puts;
};
struct mt_bench_traffic mt_bench_traffic_of(const struct mt_overlap *problem, struct mt_arena *arena);
/* Bytes that tiles of sums and copies read and write, as predictions count them. */
double mt_bench_bytes_of_sums(const struct mt_overlap *problem, const struct mt_overlap_schedule *schedule);
/* How many times as long computing and putting take while the other goes on: by how much longer they take together than
 * the longer of them. */
double mt_bench_slowdown(double together_s, double tiles_s, double puts_s);

/* results.c: at rank 0, a case's table, and its line of the table of all cases, which comes at the end. */
void mt_bench_case_tell(struct mt_bench_case *c);
void mt_bench_case_note(const struct mt_bench_case *c);
void mt_bench_overlap_summarise(struct mt_bench_overlap *bench);

#endif
