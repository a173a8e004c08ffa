/* Inside the prediction: what predict.c prepares, and simulate.c plays. */
#ifndef MT_PLANNER_PREDICT_SIMULATE_H
#define MT_PLANNER_PREDICT_SIMULATE_H

#include "planner/predict/predict.h"

/* One instruction of a stream, once. */
struct mt_play_item {
    int instr;
    int64_t iteration;
    int phase;    /* may begin when its rank's phases before it are drained */
    int wait;     /* the instruction that it waits for, or -1 */
    int need;     /* how often that must have ended in this step */
    bool work;    /* false: only its place in the order is kept */
    int meeting;  /* a collective that travels; else -1 */
    int kernels;  /* of a collective: what is launched for it, one after another */
    double own_s; /* operators, copies; a collective's packing */
    double unpack_s;
};

/* Ranks that are alike. */
struct mt_play_actor {
    int rank; /* the first of them */
    const struct mt_lowered *low;
    struct mt_play_item *items[MT_NSTREAMS];
    int nitems[MT_NSTREAMS];
    int nphases;
    double copy_rate; /* of the two streams while one copies and the other computes */
    double yield_s;   /* what each kernel of a collective waits for multiprocessors while the rank computes */
    /* of the last step played */
    double compute_s, comm_s, hidden_s, start_s, end_s;
};

/* A collective among a group. */
struct mt_play_meeting {
    int group, next; /* next: another group's meeting of the same instruction, or -1 */
    double alone_s, compute_slowdown, comm_slowdown;
    bool naps;                                /* who waits for others sleeps at times (mt_comm_backoff_s) */
    bool spins;                               /* who waits for others slows its own computing as if it travelled */
    int nmembers, members_capacity, *members; /* actors */
};

struct mt_play {
    struct mt_arena arena;
    int nactors;
    struct mt_play_actor *actors;
    int nmeetings, meetings_capacity;
    struct mt_play_meeting *meetings;
    mt_predicted *each; /* or null */
    void *context;
};

/* Play so many steps; ends_s[i]: when the last rank has ended step i. MT_EBUG when ranks wait for each other in a
 * circle. `each` hears of the last step, in seconds since the first rank began it. */
enum mt_status mt_play_run(struct mt_play *play, int nsteps, double *ends_s, struct mt_err *err);

#endif
