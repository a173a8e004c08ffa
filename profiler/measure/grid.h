/* The grid of operators and shapes on which every device is measured: the rows of grid.def, for all types.
 *
 *     struct mt_grid_case *cases = mt_grid_cases(&arena, gpu, &ncases);
 *     struct mt_call call = mt_grid_call(&cases[i], tensors);       // cases[i].tensors with memory */
#ifndef MT_PROFILER_MEASURE_GRID_H
#define MT_PROFILER_MEASURE_GRID_H

#include "kernels/base/arena.h"
#include "profiler/cluster/shape.h"

/* A call without memory: types and extents of its operands. */
struct mt_grid_case {
    enum mt_op_kind kind;
    struct mt_attr attr;
    struct mt_tensor tensors[MT_MAX_IN + MT_MAX_OUT]; /* in, then out */
    int nin, nout;
    struct mt_op_shape shape;
    int64_t ids_below; /* bound of ids and targets; 0: there are none */
    bool first;        /* the smallest of its row and type: never left out */
};

/* The call of a case; its operands are tensors[] (the case's own, or a copy with memory). */
struct mt_call mt_grid_call(const struct mt_grid_case *c, const struct mt_tensor *tensors);

extern const enum mt_type mt_grid_types[]; /* the types to measure, if the device supports them */
extern const int mt_grid_ntypes;

/* All cases, with sizes for CPUs or GPUs, in the same order on all ranks. */
struct mt_grid_case *mt_grid_cases(struct mt_arena *arena, bool gpu, int *ncases);

/* One case of a kind by its operands (syntax of grid.def), for measurements outside the grid. */
void mt_grid_make(enum mt_op_kind kind, const struct mt_attr *attr, const char *in, const char *out, enum mt_type type,
                  const int64_t sizes[3], struct mt_grid_case *c);

#endif
