/* States (parameters, optimizer state) as all ranks hold them: read whole at rank 0, written from it, compared.
 *
 *     struct mt_states states;
 *     mt_states_init(&states, comm, &program, memory);
 *     for each state: mt_states_read(&states, gvalue, print_it, file);
 *     return mt_states_end(&states, err);
 *
 * Every call is collective over the communicator, whose rank r is the program's rank r. All ranks know from the program
 * who holds what, so nothing but the numbers is sent. A rank that fails goes on sending, so that its peers are not left
 * waiting; its failure is kept in `st` and `err`, and agreed on at the end. */
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

/* The whole state, in order, in pieces, at rank 0; the reader's failure is kept. A state that rank 0 holds whole takes
 * no memory, others take their whole size there for the time of the call. */
typedef enum mt_status mt_state_reader(void *context, const void *piece, size_t size_bytes, struct mt_err *err);
void mt_states_read(struct mt_states *states, int gvalue, mt_state_reader *reader, void *context);

/* The whole state from rank 0 (null elsewhere) to everybody's box. */
void mt_states_write(struct mt_states *states, int gvalue, const void *whole);

/* What has become of it all, agreed. */
enum mt_status mt_states_end(struct mt_states *states, struct mt_err *err);

/* Ranks that hold the same box of a state must hold the same bits: MT_EBUG naming two that do not. Agreed. */
enum mt_status mt_states_compare(struct mt_states *states, struct mt_err *err);

/* A hash of all parameters, whole: it does not depend on how they are divided. Agreed; the hash is rank 0's. */
enum mt_status mt_states_hash(struct mt_states *states, uint64_t *hash, struct mt_err *err);

#endif
