/* Inside the prediction: what predict.c prepares and simulate.c runs. */
#ifndef MT_PLANNER_PREDICT_SIMULATE_H
#define MT_PLANNER_PREDICT_SIMULATE_H

#include "planner/predict/predict.h"

struct mt_sim_wait {
    int instr, times;
};

/* One instruction of a stream, in one iteration. */
struct mt_sim_item {
    int instr;
    int phase;  /* may begin when all earlier phases of its rank have ended */
    int nwaits; /* instructions that it waits for, and how often each must have ended in this step */
    const struct mt_sim_wait *waits;
    bool work;      /* false: it takes no time, but keeps its place in the order */
    int rendezvous; /* of a collective; else -1 */
    int kernels;    /* that a collective launches, one after another */
    double own_s;   /* an operator, a copy; a collective's launch and packing */
    double unpack_s;
};

/* A class of ranks. */
struct mt_sim_actor {
    int rank;    /* the first of the class */
    int ninstrs; /* of its lowered program */
    bool body_barrier;
    int64_t state_bytes, arena_bytes, window_bytes;
    struct mt_sim_item *items[MT_MOST_STREAMS];
    int nitems[MT_MOST_STREAMS];
    int nphases;
    double copy_rate; /* rate of all streams while one copies, packs or unpacks and another computes */
    double yield_s;   /* how long each kernel of a collective waits for multiprocessors while the rank computes */
    /* out, of the last step: */
    double compute_s, comm_s, hidden_s;
};

/* A collective of one group, or a chunk of it. */
struct mt_sim_rendezvous {
    int group, chunk, stream;
    int next; /* of the same instruction in another group or of another chunk; or -1 */
    double alone_s, compute_slowdown, comm_slowdown;
    bool naps;                                /* a rank that waits sleeps at times (mt_comm_backoff_s) */
    bool spins;                               /* a rank that waits slows its own computing as the transfer would */
    int nmembers, members_capacity, *members; /* actors */
};

struct mt_timeline;

struct mt_sim {
    struct mt_arena arena;
    int nstreams, nactors;
    struct mt_sim_actor *actors;
    int nrendezvous, rendezvous_capacity;
    struct mt_sim_rendezvous *rendezvous;
    struct mt_timeline *timeline; /* or null: the last step is recorded (record.h) */
};

/* Simulate nsteps steps; ends_s[i]: when the last rank ends step i. MT_EBUG when ranks wait for each other in a circle.
 */
enum mt_status mt_sim_run(struct mt_sim *sim, int nsteps, double *ends_s, struct mt_err *err);

#endif
