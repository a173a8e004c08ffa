/* The plan: every decision of a training run, as a document to review. Format "motley-plan", version 1.
 *
 *     struct mt_plan *plan;
 *     if ((st = mt_plan_read("plan.json", &plan, err))) return st;
 *     ... mt_plan_free(plan);
 *
 * Labels, operators and parameters are names, to which `synth` gives meaning. A plan is immutable once checked, and
 * carries the hash of its own text, so that an edit is seen; `motley plan --check` signs an edited plan.
 *
 *   split          one extent divided over ranks: a vector of sizes with a name; it may be uneven, with zeros
 *   share          a rank's part of a split
 *   storage split  divides parameters and optimizer state along their storage axis (sharding)
 *   micro-batch    the samples that a rank computes at once; its share is one or more of them
 *   order, place   the ranks that take part, in the order in which they are numbered in the program: place i of the
 *                  program is rank order[i]. A rank that is not listed is idle: it has no program, joins no message
 *                  of the step, and has shares of 0. Ranks are in the order of the cluster document, one per process.
 *   prediction     the step's time by simulation, with its error, lower bound and rejected candidates
 *   decisions      rules, storage, sync, buckets, ... (synth/job/decisions.h) */
#ifndef MT_PLANNER_PLAN_PLAN_H
#define MT_PLANNER_PLAN_PLAN_H

#include "kernels/base/arena.h"
#include "synth/job/decisions.h"
#include "synth/job/job.h"

#define MT_PLAN_FORMAT "motley-plan"
#define MT_PLAN_VERSION 1
#define MT_PLAN_MOST_RANKS 16384

struct mt_plan_rank {
    const char *host;       /* or "" when the plan was made without hosts; all ranks have one, or none */
    const char *class;      /* device class, or "" */
    double speed;           /* relative; work per second in any unit */
    int64_t memory_bytes;   /* what it may use; 0: not stated */
    int64_t reserved_bytes; /* of a GPU, what context, kernels and NCCL take in addition; 0: not known */
};

/* A named way to divide an extent. Two kinds are known by their names: "batch" divides the samples (label "batch",
 * always there, sums to the job's batch), and "storage:LABEL" divides parameters and optimizer state whose
 * storage axis (a long one, see synth/builder/build.h) has that label. Others are what rows name. */
struct mt_plan_split {
    const char *name, *label;
    int64_t align; /* shares are multiples of it, but one may be ragged */
    /* [nranks]: what each rank has. Over hosts, the share of its host, which all ranks of a host have; in the document
     * a number for each host, in order of first rank. Over devices, the share of its host's part, or of the whole. */
    int64_t *sizes;
    enum mt_over over; /* MT_OVER_ALL where the document does not say */
};

/* Exact shares of one storage label, as a person gives them. */
struct mt_storage_shares {
    const char *label;
    int64_t *sizes; /* [nranks] */
};

/* Who may take part. */
enum mt_use {
    MT_USE_UNSET, /* as MT_USE_AUTO; where shares are fixed, as MT_USE_ALL */
    MT_USE_AUTO,  /* the search leaves out ranks that slow the step */
    MT_USE_ALL,   /* every rank takes part */
    MT_USE_SOME,  /* those of mt_plan_fixed.used, all of them */
};

/* What a person fixes of a plan. What is not set gets a default or is searched. Vectors belong to the caller. */
struct mt_plan_fixed {
    const int64_t *shares; /* [nranks] of the batch, or null */
    const int64_t *micro;  /* [nranks] at most so many samples a micro-batch, or null */
    int nstorage_shares;   /* exact shares of labels */
    const struct mt_storage_shares *storage_shares;
    struct mt_decisions decisions; /* of the algorithms at most one row a kind, for any size */
    enum mt_use use;
    const bool *used; /* [nranks], with MT_USE_SOME */
};

struct mt_plan_memory { /* predicted, per rank */
    int64_t state_bytes, arena_bytes;
    int64_t communicator_bytes; /* of NCCL, beside the arena; 0: none, or not known. The key is absent then */
    int64_t window_bytes;       /* of overlapped instructions, beside the arena; 0: none. The key is absent then */
};

/* What the maker expects of the plan on its cluster; there when the plan was made for one (cluster_hash). */
struct mt_plan_time {                    /* per rank: seconds of a step */
    double compute_s, exposed_s, idle_s; /* operators; communication that nothing hides; waiting for others */
};
struct mt_plan_rejected {
    const char *what; /* "even shares", "proportional shares", "all_reduce, buckets of 16 MiB" */
    const char *why;  /* "slower", "does not fit: rank 2 lacks 1.2 GiB" */
    double step_s;    /* 0: not known, as where it does not fit; those come last */
};
struct mt_plan_idle { /* a rank that takes no part */
    int rank;
    const char *why; /* mt_plan_left_out: a person has decided it */
    double step_s;   /* the best step found that uses it; 0: not known */
};
struct mt_plan_error { /* of predictions of one planning: equal sources err together */
    const char *source;
    double time_s; /* half-width */
};
struct mt_plan_prediction {
    /* The band: from (1 - error_below) to (1 + error) times step_s. "error_below" in the document, absent when equal.
     */
    double step_s, error, error_below;
    int nparts; /* sources of the error; not in the document */
    struct mt_plan_error *parts;
    /* The lower bound: no plan of its space (mt_plan_bound_space) is faster; the gap is step_s / bound_s - 1. 0: none
     * is known. */
    double bound_s;
    bool nominal;               /* some figures it rests on were never measured */
    struct mt_plan_time *times; /* [nranks] */
    int nrejected;
    struct mt_plan_rejected *rejected; /* in order of time */
    int nidle;
    struct mt_plan_idle *idle; /* at most a row for each idle rank */
};

struct mt_plan {
    struct mt_arena arena;
    char hash[33];         /* of the document without this field; filled by read and write */
    const char *made_by;   /* "motley 0.1.0" */
    const char *device;    /* the kind that all ranks compute with: "cpu", "cuda" */
    const char *model;     /* canonical text */
    char model_hash[33];   /* of the training graph's description: values, operators */
    char program_hash[33]; /* of the program that the plan stands for */
    char cluster_hash[33]; /* of the cluster document, or "" */
    /* Why its devices cannot run it ("v100: has compute capability 7.0, ..."), so that it only predicts; or "". The
     * key is absent then. */
    const char *hypothetical;
    struct mt_job job;
    int nranks;
    struct mt_plan_rank *ranks;
    int nplaces; /* ranks that take part, and so ranks of the program */
    int *order; /* [nplaces]: the rank at each place. "order" in the document, absent when it is 0, 1, ... nranks - 1 */
    int nsplits;
    struct mt_plan_split *splits;
    int64_t *micro;                /* [nranks]: samples a micro-batch */
    struct mt_decisions decisions; /* complete; algorithm rows for each kind that is used ("collectives") */
    struct mt_plan_memory *memory; /* [nranks] */
    double flops_per_step;
    int64_t parameters;
    struct mt_plan_prediction *prediction; /* or null: not made for a cluster, or edited since */
};

/* All ranks take part in order, all strings empty, all other vectors of [nranks] there and zero, no rows, AllReduce,
 * full buckets start at once, no buckets; filled in by the maker, strings in the plan's arena. */
struct mt_plan *mt_plan_new(int nranks);
void mt_plan_free(struct mt_plan *plan);
/* When full buckets start where nobody says, on devices of a kind (null: cpu): only GPUs have kernels that yield
 * multiprocessors to NCCL. */
enum mt_start mt_plan_default_start(const char *device);
enum mt_type mt_plan_wire(const struct mt_plan *plan); /* of sums of gradients */

/* Within the document: sums, names, ranges. The message begins with the member's path, as "splits[0].sizes: ...". */
enum mt_status mt_plan_check(const struct mt_plan *plan, struct mt_err *err);

/* Read and check. MT_EINPUT when the hash is not that of the text, as after an edit; `_edited` accepts that, and
 * plan->hash is then the text's. Unknown keys are refused. */
enum mt_status mt_plan_read(const char *path, struct mt_plan **plan, struct mt_err *err);
enum mt_status mt_plan_read_edited(const char *path, struct mt_plan **plan, struct mt_err *err);
enum mt_status mt_plan_parse(const char *name, const char *text, size_t length, struct mt_plan **plan,
                             struct mt_err *err);
enum mt_status mt_plan_parse_edited(const char *name, const char *text, size_t length, struct mt_plan **plan,
                                    struct mt_err *err);

/* A copy of a plan that passes mt_plan_check; MT_EINPUT when it does not. */
enum mt_status mt_plan_copy(const struct mt_plan *plan, struct mt_plan **copy, struct mt_err *err);

/* Fill in the hash, and replace the file. mt_plan_text: the document alone; free() it. */
enum mt_status mt_plan_write(struct mt_plan *plan, const char *path, struct mt_err *err);
char *mt_plan_text(struct mt_plan *plan, size_t *length);
void mt_plan_hash(const struct mt_plan *plan, char hash[33]); /* of the document as it would be written now */

void mt_plan_print_document(FILE *file); /* what splits and rows may say, for those who edit them */
/* "no plan for this model, ... over any of these devices": what bound_s is a bound of. Of a plan that divides samples
 * alone: all subsets of the ranks; all shares of samples, in any micro-batches; parameters and optimizer state
 * replicated, or sharded in any shares (or both, as the plan's rows say); all buckets and algorithms. Of others: all
 * programs (planner/divide/bound.c). */
const char *mt_plan_bound_space(const struct mt_plan *plan);
extern const char
    *const mt_plan_left_out; /* why a rank is idle that --use leaves out; such ranks are not in the space */

/* The place of a rank in the program, or -1: idle. _places: of all ranks, [nranks] in `arena`. */
int mt_plan_place(const struct mt_plan *plan, int rank);
int *mt_plan_places(const struct mt_plan *plan, struct mt_arena *arena);
/* Whether all ranks take part, and place i is rank i. */
bool mt_plan_in_order(const struct mt_plan *plan);
/* Leave out the idle ranks: a plan with the same program, for fewer processes. Its cluster_hash stays that of the
 * cluster with all ranks, whose prediction is this plan's too. */
void mt_plan_drop_idle(struct mt_plan *plan);
/* A row of plan->prediction->idle for every idle rank: that of `before` (or null), else one with `why`. */
void mt_plan_explain_idle(struct mt_plan *plan, const struct mt_plan_prediction *before, const char *why);
/* A vector over ranks as one over places, [nplaces] in `arena`. */
int64_t *mt_plan_at_places(const struct mt_plan *plan, const int64_t *of_rank, struct mt_arena *arena);
/* The node (host) of each place, [nplaces] in `arena`, numbered from 0 by first place; null unless ranks of several
 * nodes take part, and several of one node: only then does a node decide anything. */
int *mt_plan_nodes(const struct mt_plan *plan, struct mt_arena *arena);

/* The host of each rank, [nranks] in `arena`, numbered from 0 by first rank; ranks without a host are on one. */
int *mt_plan_hosts(const struct mt_plan *plan, struct mt_arena *arena, int *nhosts);
/* Whether all splits are over all ranks, rules have one level, and storage rows no splits of their own. */
bool mt_plan_is_flat(const struct mt_plan *plan);
/* "batch", "batch over hosts"; "split by batch over hosts, heads within them": rows for people, in `arena`. */
const char *mt_plan_split_text(const struct mt_plan_split *split, struct mt_arena *arena);
const char *mt_plan_rule_text(const struct mt_rule_row *row, struct mt_arena *arena);
const char *mt_plan_storage_text(const struct mt_storage_row *row, struct mt_arena *arena);
/* What the plan takes of a rank's memory_bytes. */
static inline int64_t mt_plan_needs_bytes(const struct mt_plan *plan, int rank) {
    const struct mt_plan_memory *memory = &plan->memory[rank];
    return memory->arena_bytes + memory->communicator_bytes + memory->window_bytes;
}
/* The window of overlapped instructions, which all ranks have that take part; 0: there are none. */
static inline int64_t mt_plan_window_bytes(const struct mt_plan *plan) {
    return plan->memory[plan->order[0]].window_bytes;
}
/* The shares of a split over all ranks, or over hosts, together. */
int64_t mt_plan_split_sum(const struct mt_plan *plan, const struct mt_plan_split *split);

const struct mt_plan_split *mt_plan_split_named(const struct mt_plan *plan, const char *name); /* or null */
/* The storage row that a parameter takes: the first that matches, or -1; and whether that row stores it in shares.
 * Without a row it is replicated. */
int mt_plan_storage_row(const struct mt_plan *plan, const char *parameter);
bool mt_plan_stored_split(const struct mt_plan *plan, const char *parameter);

/* Whether two names are of one host: equal, or one is the other's first part ("node7", "node7.cluster.example"). */
bool mt_plan_same_host(const char *a, const char *b);

/* Which rank of the plan each process is: by host where the plan names hosts (in the order of processes on
 * a host; "node7" and "node7.cluster.example" are one), else in order. host[nprocs]; place[nprocs] out. Refuses another
 * number of processes, and hosts the plan does not know or gives fewer ranks, by name. */
enum mt_status mt_plan_match(const struct mt_plan *plan, int nprocs, const char *const *host, int *place,
                             struct mt_err *err);

#endif
