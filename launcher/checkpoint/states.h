/* States (parameters, optimizer state) divided over ranks: read whole at rank 0, written from it, compared.
 *
 *     struct mt_states states;
 *     mt_states_init(&states, comm, &program, memory);
 *     for each state: mt_states_read(&states, gvalue, print_it, file);
 *     return mt_states_end(&states, err);
 *
 * Every call is collective over the communicator, whose rank r is the program's rank r. All ranks know from the program
 * which rank holds what, so only the numbers are sent. A rank that fails goes on sending, so that its peers do not
 * wait; its failure is kept in `st` and `err`, and agreed by mt_states_end. */
#ifndef MT_LAUNCHER_CHECKPOINT_STATES_H
#define MT_LAUNCHER_CHECKPOINT_STATES_H

#include <mpi.h>

#include "synth/program/program.h"

/* A rank's memory: bytes [at, +size_bytes) of the box of `gvalue` that it holds, dense, of the value's type. */
struct mt_state_memory {
    void *context;
    enum mt_status (*get)(void *context, int gvalue, int64_t at, int64_t size_bytes, void *to, struct mt_err *err);
    enum mt_status (*set)(void *context, int gvalue, int64_t at, int64_t size_bytes, const void *from,
                          struct mt_err *err);
};

struct mt_states {
    MPI_Comm comm;
    int rank, nranks;
    const struct mt_program *program;
    struct mt_state_memory memory;
    enum mt_status st; /* of this rank, so far */
    struct mt_err err;
};

void mt_states_init(struct mt_states *states, MPI_Comm comm, const struct mt_program *program,
                    struct mt_state_memory memory);

static inline bool mt_is_state(const struct mt_graph *graph, int gvalue) {
    return graph->values[gvalue].kind == MT_VALUE_STATE;
}

/* Read the whole state at rank 0, in order, in pieces; a failure of the reader is kept. MT_EDIVERGED is kept, and the
 * reader not called, for a piece with an element that is not finite. A state that rank 0 does not hold whole takes its
 * whole size in memory there during the call. */
typedef enum mt_status mt_state_reader(void *context, const void *piece, size_t size_bytes, struct mt_err *err);
void mt_states_read(struct mt_states *states, int gvalue, mt_state_reader *reader, void *context);

/* Write the whole state from rank 0 (null elsewhere) into every rank's box. */
void mt_states_write(struct mt_states *states, int gvalue, const void *whole);

/* The status of all calls so far, agreed. */
enum mt_status mt_states_end(struct mt_states *states, struct mt_err *err);

/* Check that ranks that hold the same box of a state hold the same bits: MT_EBUG names two that do not. Agreed. */
enum mt_status mt_states_compare(struct mt_states *states, struct mt_err *err);

/* A hash of all parameters, which does not depend on their sharding. Agreed; the hash is valid at rank 0. MT_EDIVERGED
 * names a parameter that is not finite. */
enum mt_status mt_states_hash(struct mt_states *states, uint64_t *hash, struct mt_err *err);

#endif
