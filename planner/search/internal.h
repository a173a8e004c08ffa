/* Inside the search: what its parts hand to each other.
 *
 *   search.c     opens and closes a search
 *   order.c      the canonical order of ranks, and which of them are equal
 *   part.c       a search on some of the ranks
 *   screen.c     a quick estimate of a subset of the ranks
 *   subsets.c    which subsets of the ranks are worth a search
 *   participate.c  mt_search: who takes part
 *   idle.c       why ranks are idle
 *   class.c      classes of ranks; structures
 *   curve.c      a structure's work as curves over shares, per class
 *   shares.c     shares that need no solver
 *   timeline.c   a structure's collectives and their timeline, simulated with the compute of one class
 *   balance.c    both become a balance problem; its solution becomes shares
 *   evaluate.c   shares become a program, and its prediction
 *   price.c      the prediction of a plan as it is
 *   bound.c      the lower bound of all plans
 *   report.c     rejected candidates
 *   divided.c    programs of the whole space, by planner/divide, and in which subsets they are looked for
 *   overlap.c    overlapped GEMMs of the plans that were found
 *   explore.c    which candidates are tried, in which order */
#ifndef MT_PLANNER_SEARCH_INTERNAL_H
#define MT_PLANNER_SEARCH_INTERNAL_H

#include "synth/builder/build.h"
#include "planner/predict/predict.h"
#include "planner/search/search.h"
#include "planner/work/work.h"

struct search_class {
    int rank; /* the first of its ranks: costs are asked for it */
    int64_t nranks;
    int64_t memory_limit; /* 0: none */
    double fastest;       /* speed of its fastest rank over that of `rank` */
    const char *name;     /* "xeon-1t (ranks 0 2-5)" */
    int device_class;
    double speed; /* of the device, for costs of operators */
};

/* Rule rows, storage rows and sync: what decides the operators of the program. */
struct search_structure {
    struct mt_decisions decisions; /* with a start and a wire type; buckets and algorithms are candidates' */
    const char *what;              /* "state replicated, all_reduce" */
    bool by_batch;                 /* all operators with samples split the batch, as they do by default */
};

/* Seconds and bytes of a class over shares; `storage` counts units of searching->unit. */
struct search_curves {
    struct mt_share_curve samples;      /* once through LAST: forward and backward */
    struct mt_share_curve body_samples; /* once through BODY */
    struct mt_share_curve update;       /* over storage */
    double before_s;                    /* PROLOGUE */
    struct mt_share_curve state;        /* bytes over storage */
    int64_t state_fixed;
};

/* A structure's work, with and without a body. */
struct search_work {
    const struct search_structure *structure;
    bool body;
    struct search_work *of; /* the parent's, whose `work` and curves this one borrows; or null */
    bool borrowed;          /* `work` is another's: the parent's, or the memo's */
    struct mt_work work;
    struct mt_plan *plan;         /* as mt_work_open wants it */
    struct search_curves *curves; /* [nclasses] */
    /* Memory without the state, over samples of a micro-batch; npoints 0: not computed. */
    struct mt_share_curve arena;
    struct search_op_prices *prices; /* [nclasses]: of the last timeline of each class; null before the first */
};
/* Seconds of a work's operators at a share. */
struct search_op_prices {
    int64_t share, micro, *storage; /* storage: [labels of the work] */
    double *op_s;                   /* [nops]; null: not computed */
};

struct search_candidate {
    struct search_work *work;
    struct mt_decisions decisions; /* complete but for algorithms */
    bool needs_margin;             /* must be predicted to be margin better: search_evaluate */
    const char *what;
    int64_t *batch, *micro; /* [nranks] */
    int64_t *storage;       /* [label nranks + rank] */
    double estimate_s;      /* 0: none */
    bool evaluated, fits;
    double step_s;
    const char *why;
    struct mt_prediction prediction; /* when evaluated, and `same` is null */
    struct search_candidate *same;   /* an equal one that was evaluated before */
    bool tried;
    /* Corrections of the estimate by an evaluation, per class: factor of compute, bytes of memory. */
    double *slower;
    int64_t *heavier;
    double later_s; /* seconds that the estimate lacks */
};

/* Ranks that may take part, in the canonical order; a place is an index into it. Ranks of a cell are on one node and
 * equal, so that a subset of the ranks is a number of ranks for each cell. */
struct search_cell {
    int kind, node, first, count; /* places first .. first + count - 1 */
};
struct search_places {
    int n, *rank;           /* [n] */
    int nkinds, *kind;      /* [n]: equal ranks have one kind */
    int nnodes, *node_cell; /* node i has the cells from node_cell[i] to node_cell[i + 1] */
    int ntypes, *type;      /* [nnodes]: equal nodes have one type */
    int ncells;
    struct search_cell *cells; /* in the order of places */
};
/* allowed: [nranks], or null: all. */
void mt_search_places(const struct mt_search *search, const struct mt_plan *plan, const bool *allowed,
                      struct search_places *places, struct mt_arena *arena);

/* The search on some ranks of a plan. */
struct search_part {
    struct mt_arena arena;
    struct mt_search search; /* of the part; `last` is null */
    struct mt_costs costs;
    struct mt_plan *plan, *last; /* of the part, owned; strings are the whole plan's. last: null, or search.last */
    int n, *rank;
    /* For programs of the whole space: a step that is known, 0: none; and buckets, where the part has no plan. */
    double known_s;
    int64_t bucket_bytes;
    unsigned settled; /* forms of the plan's overlapped instructions whose rows are chosen (planner/divide/forms.h) */
    bool overlapped;  /* mt_search_overlap has chosen for the plan */
};
/* Close it with mt_search_part_close before `plan` is freed. */
void mt_search_part_open(const struct mt_search *whole, const struct mt_plan *plan, int n, const int *rank,
                         struct search_part *part);
void mt_search_part_close(struct search_part *part);
/* Decisions and shares of a plan of all ranks, copied to a plan of the part; and as the plan that the part's search
 * begins at. */
void mt_search_part_take(struct search_part *part, const struct mt_plan *whole, struct mt_plan *to);
void mt_search_part_begin_at(struct search_part *part, const struct mt_plan *whole);
/* The part's plan as one of all ranks: the others are idle. */
void mt_search_part_write(const struct search_part *part, struct mt_plan *to);

struct mt_searching {
    const struct mt_search *search;
    const int *rank_of;          /* [nranks]: the rank that messages name; null: they are the search's own */
    struct mt_searching *parent; /* of the same job on more ranks: its works and curves are borrowed; or null */
    double known_s;    /* a step that is known to be possible: what is much slower is not improved. Infinite: none */
    int64_t most_work; /* of evaluations: explore.c */
    struct mt_costs costs; /* with a memory of answers */
    struct mt_arena arena;
    struct mt_err *err;
    struct mt_plan *plan;         /* the caller's */
    int nranks, nclasses, *class; /* [nranks] */
    struct search_class *classes;
    int *everybody; /* [nranks]: 0, 1, ... */
    int *node;      /* [nranks]: the node of each, or null (mt_plan_nodes) */
    double end_s;
    /* Storage is balanced in units: shares of the longest label; the others follow in proportion. */
    int nlabels, *labels;
    int64_t unit, unit_align;
    const int64_t **given_storage; /* [nlabels]: or null */
    int nstructures;
    struct search_structure *structures;
    struct search_work **works; /* [2 nstructures]: opened when wanted */
    int ncandidates, capacity;
    struct search_candidate **candidates;
    struct search_candidate *best; /* evaluated, fits */
    struct mt_program program;     /* of the best */
    struct mt_plan *best_plan;     /* the program points into it */
    int64_t nevaluated;
    struct mt_err why; /* why nothing fitted, where that was so */
};

/* The simulated timeline of a class at given shares: an estimate of the step, as if all ranks were of that class. */
struct search_timeline {
    double compute_s;           /* forward and backward pass, all micro-batches, and the prologue */
    double wait_s;              /* blocked on weights; slowed by overlapped messages */
    double ready_s, comm_end_s; /* of the chain of messages that ends last: its first message is ready; its end */
    double tail_s;              /* messages that can only be sent when the backward pass has ended */
    double after_s;             /* exposed communication after both, but for the update */
    double update_s;
    double comm_s;    /* all messages */
    double overlap_s; /* of them, overlapped by computation */
    double slowed_s;  /* of the step: what overlapped messages slow computation down */
    double step_s;
};

enum { SEARCH_MOST_STRUCTURES = 5, SEARCH_MOST_WORK = 100000 };
enum mt_status mt_search_classes(struct mt_searching *s);
enum mt_status mt_search_structures(struct mt_searching *s);

/* Open (once) a structure's work and its curves. */
enum mt_status mt_search_open_work(struct mt_searching *s, int structure, bool body, struct search_work **work);
/* Memory over samples of a micro-batch; once. */
enum mt_status mt_search_open_memory(struct mt_searching *s, struct search_work *work, int64_t bucket_bytes);
int64_t mt_search_memory_buckets(const struct mt_searching *s);
bool mt_search_memory_matters(const struct mt_searching *s);

/* Seconds of an operator of the work, once. */
double mt_search_op_s(const struct mt_searching *s, int rank, const struct mt_work_op *op,
                      const struct mt_work_share *share);
/* How often BODY runs for a rank's share. */
static inline int64_t mt_search_body_runs(int64_t share, int64_t micro) {
    return micro > 0 && share > micro ? (share + micro - 1) / micro - 1 : 0;
}
/* The best division of a class's share into micro-batches: samples of one, and the seconds of all. */
int64_t mt_search_micro(const struct mt_searching *s, const struct search_work *work, int class, int64_t share,
                        int64_t most, double *seconds);
/* The most samples of a micro-batch that fit into a class's memory with so many units of storage; 0: not one. */
int64_t mt_search_most_micro(const struct mt_searching *s, const struct search_work *work, int class, int64_t units,
                             int64_t heavier);

/* Seconds of each bucket of a candidate. bucket: [nmessages], cost: [nbuckets]. */
enum mt_status mt_search_messages(struct mt_searching *s, const struct search_candidate *c, int *bucket, double *cost);
void mt_search_simulate(struct mt_searching *s, struct search_work *work, int class, int64_t share, int64_t micro,
                        const int64_t *storage, const int *bucket, const double *cost,
                        struct search_timeline *timeline);

struct search_candidate *mt_search_new_candidate(struct mt_searching *s, struct search_work *work, int64_t bucket_bytes,
                                                 const char *what);
/* Storage of all labels from shares in units. */
enum mt_status mt_search_divide_storage(struct mt_searching *s, const int64_t *units, int64_t *storage);
void mt_search_set_micro(struct mt_searching *s, struct search_candidate *c);
/* Give the larger of a class's shares to its nodes in turn. sizes[nranks]: in and out. */
void mt_search_spread(const struct mt_searching *s, int64_t *sizes);
/* Other shares by balance, beginning from those that are set, with the candidate's corrections. Fills in estimate_s.
 * Release balanced->arena. */
enum mt_status mt_search_balance(struct mt_searching *s, struct search_candidate *c, struct mt_balanced *balanced);
/* The estimate of a candidate whose shares are set. */
enum mt_status mt_search_estimate(struct mt_searching *s, struct search_candidate *c);

/* Build, predict, compare with memory limits; keep it if it is the best. Equal candidates are evaluated once. */
enum mt_status mt_search_evaluate(struct mt_searching *s, struct search_candidate *c);
/* From a candidate's prediction, what its estimate should have said: its corrections. */
void mt_search_learn(struct mt_searching *s, struct search_candidate *c);
/* A new candidate with the shares and corrections of another. */
struct search_candidate *mt_search_like(struct mt_searching *s, const struct search_candidate *c, const char *what);
/* Even shares, or in proportion to the speeds; of samples and of storage. */
enum mt_status mt_search_simple_shares(struct mt_searching *s, struct search_candidate *c, bool even,
                                       bool even_storage);
/* Whether all shares but one are multiples. */
bool mt_search_aligned(const int64_t *sizes, int nranks, int64_t align);
/* Those of a plan; false where they do not fit the job. */
bool mt_search_take_shares(const struct mt_searching *s, const struct mt_plan *plan, struct search_candidate *c);
/* Its step by evaluation, else by estimate; infinite where it does not fit, or has neither. */
double mt_search_time(const struct search_candidate *c);
int64_t mt_search_units(const struct mt_searching *s, const struct search_candidate *c, int rank);

/* The candidate's decisions as a plan. */
void mt_search_write_plan(const struct mt_searching *s, const struct search_candidate *c, struct mt_plan *plan);
void mt_search_speeds(const struct mt_searching *s, const struct search_work *w, struct mt_plan *plan);
/* That algorithms which a person has fixed are of messages that the best has. */
enum mt_status mt_search_check_algorithms(const struct mt_searching *s);
void mt_search_fill_plan(struct mt_searching *s, double bound_s); /* the caller's, with the best */
/* Costs of the plan's program, whose ranks are places; `costs` are those of its ranks. */
struct mt_costs mt_search_costs_of(const struct mt_costs *costs, const struct mt_plan *plan, struct mt_arena *arena);
/* `found`: of the plan's program. */
void mt_search_fill_prediction(const struct mt_prediction *found, double bound_s, struct mt_plan *plan);
void mt_search_fill_rejected(struct mt_searching *s, struct mt_plan *plan);

/* rank_of: see mt_searching. */
enum mt_status mt_search_begin(struct mt_searching *s, const struct mt_search *search, struct mt_plan *plan,
                               const int *rank_of, struct mt_searching *parent, struct mt_err *err);
void mt_search_end(struct mt_searching *s);
static inline int mt_search_rank(const struct mt_searching *s, int rank) {
    return s->rank_of ? s->rank_of[rank] : rank;
}
/* The search proper, on all ranks that it has. again: in the plan's own structure (mt_search_rebalance). */
enum mt_status mt_search_explore(struct mt_searching *s, bool again, struct mt_search_report *report);

int64_t mt_search_work_done(const struct mt_searching *s); /* in units of most_work */

/* Seconds of a step among some of the search's ranks (places[n]) by a quick estimate: shares by bisection over the
 * step's time, messages by two sizes of each kind, one simulated timeline. Infinite where they do not fit into memory.
 * Where it is known from lower bounds of the messages to be give_up_s or more, the bound alone is returned (*bounded),
 * because simulating schedules takes most of the time. */
enum mt_status mt_search_screen(struct mt_searching *s, const int *places, int n, double give_up_s, double *step_s,
                                bool *bounded);
/* Seconds of a message with counts[n], among places[n] on node[n] (mt_coll; or null). */
double mt_search_message_s(struct mt_searching *s, const struct mt_bucket_key *like, const int64_t *counts,
                           const int *places, const int *node, int n);

/* Never more than that, nor than it takes by any algorithm. */
double mt_search_message_least_s(const struct mt_searching *s, const struct mt_bucket_key *like, const int64_t *counts,
                                 const int *places, int n);

/* Subsets are searched whose estimates are at most so many times the least. */
#define SEARCH_NEAR 1.05
struct search_subset {
    int n, *of_cell; /* of_cell: ranks that each cell gives */
    double screen_s; /* the quick estimate */
    bool bounded;    /* screen_s is less than the estimate, which was not wanted so far */
    /* Once it has been searched: */
    bool searched, is_last, is_whole; /* is_last: the ranks of search.last, in its order; is_whole: whole nodes */
    bool divided;                     /* programs of the whole space have been looked for */
    double step_s;                    /* infinite where there is no plan */
    struct search_part part;
    struct mt_search_report report;
};
struct search_subsets {
    struct mt_arena *arena;
    const struct search_places *places;
    struct mt_searching *whole; /* on all places: its curves are read */
    bool screened;              /* false: no estimates are wanted */
    double give_up_s;           /* estimates that are not less are not wanted: mt_search_screen */
    int most;                   /* how many may be listed */
    int count, capacity;
    struct search_subset *items; /* by estimate */
};
/* List them, by estimate. Estimates near the least are complete. */
enum mt_status mt_search_list_subsets(struct search_subsets *subsets);
/* Complete the estimates that may be most_s or less, and sort the items. */
enum mt_status mt_search_complete_subsets(struct search_subsets *subsets, double most_s);
/* One more, or the one that is equal: its index. */
int mt_search_subset_add(struct search_subsets *subsets, const int *of_cell, enum mt_status *st);
int mt_search_subset_places(const struct search_places *places, const int *of_cell, int *out);
/* A row for each idle rank, and one for each subset that was searched and not taken. allowed: null, or [nranks]. */
void mt_search_fill_idle(const struct search_subsets *subsets, const bool *allowed, struct mt_plan *plan);
void mt_search_fill_other_subsets(const struct search_subsets *subsets, const struct search_subset *best,
                                  struct mt_plan *plan);
/* Samples a second of a class of the search with an even share. */
double mt_search_class_speed(const struct mt_searching *s, int class);
/* A plan's rows, without its algorithms; false if one splits operators by anything but the batch: such a share is in no
 * curve. */
bool mt_search_rows_of(const struct mt_plan *plan, struct mt_decisions *rows);

/* The lower bound, seconds: no plan is faster that has these rows of rules and, where there are any, of storage; see
 * search.h for the space. 0: there is none. Of `plan` the ranks' memory limits are read. */
enum mt_status mt_search_bound(const struct mt_search *search, const struct mt_plan *plan,
                               const struct mt_decisions *rows, double *bound_s, struct mt_err *err);
/* Whether that bounds plans with a plan's rows: it counts messages that overlapped GEMMs need not wait for. */
bool mt_search_bounds_rows(const struct mt_plan *plan, struct mt_decisions *rows);
/* Of all plans with the rules of a plan, however parameters are stored; 0 also where the search wants no bound. */
enum mt_status mt_search_bound_of(const struct mt_search *search, const struct mt_plan *plan, double *bound_s,
                                  struct mt_err *err);
/* Price the plan's program; the costs are those of its ranks in their order. Release both. */
enum mt_status mt_search_predict(const struct mt_search *search, const struct mt_plan *plan, struct mt_program *program,
                                 struct mt_prediction *prediction, struct mt_err *err);
/* Whether the search chooses which GEMMs are overlapped: nobody has decided, and what they gain is known. */
bool mt_search_may_overlap(const struct mt_search *search, const struct mt_costs *costs);
/* Choose for a part's plan, once, which forms of overlapped instructions it takes, unless a person has decided, and how
 * each shape runs: what makes its step, *step_s, shorter. Nothing is done where it would take other_s at best. */
enum mt_status mt_search_overlap(struct search_part *part, double other_s, double *step_s, struct mt_err *err);

enum { SEARCH_NSTAGES = 3 };
extern const char *const search_stage_names[SEARCH_NSTAGES];
void mt_search_fill_report(struct mt_searching *s, struct mt_search_report *report);

/* Whether all programs are searched: a person who has fixed shares, rows or sync has chosen what is divided. */
bool mt_search_is_open(const struct mt_search *search);
/* Whether the plan may be one by samples alone. Else the search by samples only says among which ranks to look. */
bool mt_search_takes_samples_alone(const struct mt_search *search);
/* Look for a program of the whole space among the ranks of a part, whose search by samples has ended (with a plan or
 * without): a faster one becomes the part's plan, *step_s its step. Nothing is done where a person has fixed what is
 * divided. */
enum mt_status mt_search_divide(struct search_part *part, double end_s, double *step_s, struct mt_err *err);

/* ---- who takes part ---- */

struct participation {
    const struct mt_search *search;
    struct mt_plan *plan;    /* the caller's */
    struct mt_err *err, why; /* why: of the first failure */
    struct mt_arena arena;
    struct search_places places;
    struct search_part part; /* of all places */
    bool part_open;
    struct mt_searching whole;
    struct search_subsets subsets;
    struct mt_costs costs; /* of all ranks, with the memory of answers that all searches share */
    enum mt_use use;
    const bool *allowed;         /* [nranks], or null: all */
    double bound_s;              /* of plans by samples; below 0: not known yet */
    struct mt_divide_bound *all; /* of all programs; null: not asked for yet */
    bool pinned; /* what a person has fixed of ranks: not for other subsets than all, and those that have shares */
    int nsearched;
    int64_t spent;     /* work of evaluations (explore.c) */
    bool least_effort; /* of the next search: one evaluation */
};

/* The shortest step that a subset has; infinite: none has a plan. */
double mt_search_best_step(const struct participation *p);

/* The subset with the shortest step; among nearly equal ones that with the most ranks; null: none has a plan. */
struct search_subset *mt_search_winner(struct participation *p);

/* What no program among the ranks of a part is faster than. */
enum mt_status mt_search_bound_all(struct participation *p, const struct search_part *part, double *bound_s);

/* Open its part, which is closed with the subsets. */
void mt_search_open_subset(struct participation *p, struct search_subset *subset);

/* Whether the ranks are some of a subset that has no plan, of the same kinds: they have less memory, and no less to
 * hold. */
bool mt_search_is_part_of_failed(const struct participation *p, const struct search_subset *subset);

/* Where the weights are more than any rank holds, only programs of the whole space may fit: look for them among all
 * ranks. Nothing else needs to be searched if there is one. */
enum mt_status mt_search_divide_large(struct participation *p);

/* Look for programs of the whole space in the subsets that may win by them. */
enum mt_status mt_search_divide_subsets(struct participation *p);

/* Overlap the plan of the best subset, then those of subsets that may be faster so. */
enum mt_status mt_search_overlap_subsets(struct participation *p);

#endif
