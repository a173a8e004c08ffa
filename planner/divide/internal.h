/* Inside the search over the whole space.
 *
 *   divide.c    which candidates are tried
 *   strategy.c  strategies as constraints
 *   splits.c    first shares of all labels, by the ranks' speeds
 *   shares.c    shares of all labels together, by what operators take on each rank (GLPK)
 *   rows.c      a choice as rows of a plan
 *   bound.c     a lower bound on all programs
 *   memory.c    how many micro-batches a candidate needs at least
 *   judge.c     a candidate becomes a program, and the program a prediction
 *   layers.c    from programs with few layers to those with all
 *   forms.c     which forms of overlapped instructions a plan takes
 *   overlapped.c  candidates with overlapped instructions */
#ifndef MT_PLANNER_DIVIDE_INTERNAL_H
#define MT_PLANNER_DIVIDE_INTERNAL_H

#include "planner/divide/divide.h"
#include "planner/frontier/space.h"

struct mt_dividing {
    const struct mt_divide *divide;
    struct mt_divide_found *found;
    struct mt_arena *arena; /* found's */
    int nranks, nnodes;
    struct mt_mesh mesh;
    enum mt_label_kind *kind; /* [labels] */
    bool nodes;               /* several nodes, one of them with several ranks */
    double *speed;            /* [nranks]: of the whole step, relative */
    /* Null; or the layers of the job, of which divide->graph has some. Then judged steps and memory are those of all.
     */
    const struct mt_divide_layers *layers;
    double priced_more; /* times what is priced: how much more all layers are */
    double saved_more;  /* of what backward reads, with all layers, over what follows from few and some */
    struct mt_err *err;
};

/* The splits that a strategy may use: for computing, and for storage. In the arena. */
struct divide_splits {
    struct mt_split *items;         /* [n]: samples first, then what else computing uses, then storage */
    const struct mt_split *compute; /* [ncompute], then [nstorage]: in items */
    int n, ncompute, nstorage;
    const struct mt_split *hosts; /* of samples among nodes; or null */
};
enum mt_status mt_divide_splits(struct mt_dividing *d, const struct mt_strategy *strategy,
                                struct divide_splits *splits);
/* Divide a label among the members of an axis in proportion to weights ([nranks], or [nnodes]); every share a multiple
 * of `align` but one. Fills in sizes and starts. `hosts`: null, or samples among nodes, whose shares a DEVICE split of
 * samples divides. */
enum mt_status mt_divide_label(const struct mt_dividing *d, struct mt_split *split, int64_t align, const double *weight,
                               const struct mt_split *hosts);

/* Judge with as few micro-batches as fit into memory. A candidate that the builder refuses has the reason in `why`. */
enum mt_status mt_divide_judge(struct mt_dividing *d, struct mt_divided *c);
/* Whether a program that takes so long, by its price or its prediction, cannot become the best. */
bool mt_divide_is_hopeless(const struct mt_dividing *d, double step_s);

/* So many micro-batches of each rank's samples, or more, are needed for what is surely held to fit, by a count that is
 * much quicker than lowering; more than `most`: no number will do. Of fewer layers, c->plan is read. */
int64_t mt_divide_least_micro(struct mt_dividing *d, const struct mt_divided *c, int64_t most);

/* saved[nranks], fixed[nranks]: bytes that a choice holds on each rank: of what backward reads of all its samples, and
 * of what more micro-batches make no less. */
void mt_divide_held(struct mt_dividing *d, const struct mt_graph *graph, const struct mt_choice *choice, double *saved,
                    double *fixed);

/* Bytes that the backward pass of a graph reads of the forward pass. */
double mt_divide_saved(const struct mt_graph *graph);

/* ---- layers ---- */

/* A figure of all layers from those of few and of some. */
double mt_divide_of_all(const struct mt_divide_layers *layers, double few, double some);
/* The choice of a candidate with some layers, for the graph with few of them, by its plan's rows. */
enum mt_status mt_divide_few(struct mt_dividing *d, const struct mt_divided *c, struct mt_arena *arena,
                             struct mt_choice *few, struct mt_err *err);
/* Make c->prediction, which is of some layers, that of all. */
enum mt_status mt_divide_extrapolate(struct mt_dividing *d, struct mt_divided *c, const struct mt_prediction *few,
                                     struct mt_err *err);
/* Begin a search with some layers. `divide`: to be filled in; it and `found` must outlive `some`. */
void mt_divide_begin_layers(const struct mt_dividing *d, struct mt_divide *divide, struct mt_divide_found *found,
                            struct mt_dividing *some);
/* A candidate with some layers as one with all of them; null where the builder refuses it. */
struct mt_divided *mt_divide_with_all(struct mt_dividing *d, const struct mt_divided *c);

/* A copy with the overlapped instructions that make its step shorter, judged; null: none do. */
enum mt_status mt_divide_overlap(struct mt_dividing *d, const struct mt_divided *c, struct mt_divided **overlapped);
/* Whether it may take less than other_s by overlapped instructions (mt_forms_least_s). */
bool mt_divide_may_overlap(const struct mt_dividing *d, const struct mt_divided *c, double other_s);

/* c->plan from its choice. */
enum mt_status mt_divide_write_plan(struct mt_dividing *d, struct mt_divided *c, struct mt_err *err);

/* A copy with other shares: of all splits by the LP, from the times of its operators on each rank and its memory. Null:
 * nothing changes. */
enum mt_status mt_divide_balance(struct mt_dividing *d, const struct mt_divided *c, struct mt_divided **balanced);

/* Samples that a rank sees. */
int64_t mt_divide_samples(const struct mt_dividing *d, const struct mt_choice *choice, int rank);

/* A copy with splits of its own, to which its rules point. */
struct mt_divided *mt_divide_copy(struct mt_dividing *d, const struct mt_divided *c);

#endif
