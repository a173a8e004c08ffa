/* The grid of operators and shapes that every device is measured on: grid.def, over all types. */
#ifndef MT_PROFILER_MEASURE_GRID_H
#define MT_PROFILER_MEASURE_GRID_H

#include "kernels/base/arena.h"
#include "profiler/cluster/shape.h"

/* A call without memory: as many operands, of these types and extents. */
struct mt_grid_case {
    struct mt_attr attr;
    struct mt_tensor tensors[MT_MAX_IN + MT_MAX_OUT]; /* in, then out */
    int nin, nout;
    struct mt_op_shape shape;
    int64_t ids_below; /* ids and targets must be below; 0: it has none */
    bool first;        /* the smallest of its row and type: never left out */
};

/* The call of a case; its operands are tensors[] (the case's own, or a copy with memory). */
struct mt_call mt_grid_call(const struct mt_grid_case *c, const struct mt_tensor *tensors);

extern const enum mt_type mt_grid_types[]; /* what is measured, where the device computes in it */
extern const int mt_grid_ntypes;

/* All cases, in an order that is the same on all ranks; of sizes for CPUs or GPUs. */
struct mt_grid_case *mt_grid_cases(struct mt_arena *arena, bool gpu, int *ncases);

/* One case of a kind by its operands (grid.def); for what is measured beside the grid. */
void mt_grid_make(enum mt_op_kind kind, const struct mt_attr *attr, const char *in, const char *out, enum mt_type type,
                  const int64_t sizes[3], struct mt_grid_case *c);

#endif
