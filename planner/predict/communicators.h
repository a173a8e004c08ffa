/* NCCL's communicators: what they take of a GPU's memory, beside its arena. */
#ifndef MT_PLANNER_PREDICT_COMMUNICATORS_H
#define MT_PLANNER_PREDICT_COMMUNICATORS_H

#include "planner/cost/cost.h"
#include "synth/program/program.h"

struct mt_communicators { /* of a rank */
    int count;
    int64_t bytes;
};

/* of[program->nranks]: the communicators that a program makes on each rank, and their memory: one of all ranks, one for
 * each other group of a collective, and those within and across nodes that a hierarchical one needs. Of a measured GPU
 * those that were there when its memory was measured (all ranks, and the cluster's groups) are not among them; CPUs
 * have none. */
void mt_communicators_of(const struct mt_program *program, const struct mt_costs *costs, struct mt_communicators *of);

#endif
