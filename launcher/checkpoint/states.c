/* Boxes are sent in pieces, whose sizes fit an int. */
#include "launcher/checkpoint/states.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/number/hash.h"
#include "launcher/session/agree.h"

enum { PIECE_BYTES = 4 << 20, TAG_STATE = 71 };

void mt_states_init(struct mt_states *states, MPI_Comm comm, const struct mt_program *program,
                    struct mt_state_memory memory) {
    *states = (struct mt_states){.comm = comm, .program = program, .memory = memory};
    MPI_Comm_rank(comm, &states->rank);
    MPI_Comm_size(comm, &states->nranks);
}

/* The program value of a state at the start of a step. */
static int state_value(const struct mt_program *program, int gvalue) {
    for (int v = 0; v < program->nvalues; v++)
        if (program->values[v].input && program->values[v].gvalue == gvalue) return v;
    assert(!"the program has no such state");
    return 0;
}

static int64_t box_bytes(const struct mt_program *program, int pvalue, int rank) {
    const struct mt_pvalue *v = &program->values[pvalue];
    int naxes = program->graph->values[v->gvalue].naxes;
    return mt_box_count(mt_pvalue_box(program, pvalue, rank), naxes) * mt_type_size(v->type);
}

/* Whether a rank before `rank` holds the same box. */
static bool is_repeated(const struct mt_program *program, int pvalue, int rank) {
    const struct mt_box *box = mt_pvalue_box(program, pvalue, rank);
    for (int r = 0; r < rank; r++)
        if (!memcmp(mt_pvalue_box(program, pvalue, r), box, sizeof *box)) return true;
    return false;
}

/* Copy a dense box into the dense whole value, or out of it. */
static void copy_box(const struct mt_program *program, int pvalue, int rank, const char *from, char *to,
                     bool into_whole) {
    const struct mt_pvalue *v = &program->values[pvalue];
    const struct mt_graph *g = program->graph;
    const struct mt_box *box = mt_pvalue_box(program, pvalue, rank);
    int naxes = g->values[v->gvalue].naxes;
    int64_t e = mt_type_size(v->type), count = mt_box_count(box, naxes);
    if (!count) return;
    int64_t run = naxes ? box->hi[naxes - 1] - box->lo[naxes - 1] : 1, at[MT_MAX_AXES];
    memcpy(at, box->lo, sizeof at);
    for (int64_t done = 0; done < count; done += run) {
        int64_t offset = 0;
        for (int a = 0; a < naxes; a++) offset = offset * mt_value_extent(g, v->gvalue, a) + at[a];
        memcpy(to + (into_whole ? offset : done) * e, from + (into_whole ? done : offset) * e, (size_t)(run * e));
        for (int a = naxes - 2; a >= 0; a--) {
            if (++at[a] < box->hi[a]) break;
            at[a] = box->lo[a];
        }
    }
}

static int64_t piece(int64_t size_bytes, int64_t at) {
    return size_bytes - at < PIECE_BYTES ? size_bytes - at : PIECE_BYTES;
}

static void read_piece(struct mt_states *m, int gvalue, int64_t at, int64_t size_bytes, void *to) {
    if (!m->st) m->st = m->memory.get(m->memory.context, gvalue, at, size_bytes, to, &m->err);
}

static int64_t whole_bytes(const struct mt_states *m, int gvalue) {
    return mt_value_count(m->program->graph, gvalue) * mt_type_size(m->program->graph->values[gvalue].type);
}

/* Send rank `from`'s box of a state to rank 0, into part[]. */
static void receive_box(struct mt_states *m, int pvalue, int from, char *part) {
    int64_t size = box_bytes(m->program, pvalue, from);
    if (m->rank != from && m->rank) return;
    char *buffer = m->rank ? mt_calloc(1, (size_t)piece(size, 0)) : NULL;
    for (int64_t at = 0; at < size; at += PIECE_BYTES) {
        int64_t n = piece(size, at);
        char *to = buffer ? buffer : part + at;
        if (m->rank == from) read_piece(m, m->program->values[pvalue].gvalue, at, n, to);
        if (m->rank)
            MPI_Send(to, (int)n, MPI_BYTE, 0, TAG_STATE, m->comm);
        else if (from)
            MPI_Recv(to, (int)n, MPI_BYTE, from, TAG_STATE, m->comm, MPI_STATUS_IGNORE);
    }
    free(buffer);
}

/* Send part[] at rank 0 to rank `to`, as its box of a state. */
static void send_box(struct mt_states *m, int pvalue, int to, const char *part) {
    int64_t size = box_bytes(m->program, pvalue, to);
    if (m->rank != to && m->rank) return;
    char *buffer = m->rank ? mt_malloc((size_t)piece(size, 0)) : NULL;
    for (int64_t at = 0; at < size; at += PIECE_BYTES) {
        int64_t n = piece(size, at);
        const char *from = buffer ? buffer : part + at;
        if (m->rank)
            MPI_Recv(buffer, (int)n, MPI_BYTE, 0, TAG_STATE, m->comm, MPI_STATUS_IGNORE);
        else if (to)
            MPI_Send(from, (int)n, MPI_BYTE, to, TAG_STATE, m->comm);
        if (m->rank == to && !m->st)
            m->st = m->memory.set(m->memory.context, m->program->values[pvalue].gvalue, at, n, from, &m->err);
    }
    free(buffer);
}

/* The whole state at rank 0; null elsewhere. */
static char *gather(struct mt_states *m, int gvalue) {
    int pvalue = state_value(m->program, gvalue);
    char *whole = m->rank ? NULL : mt_malloc((size_t)whole_bytes(m, gvalue));
    for (int r = 0; r < m->nranks; r++) {
        if (is_repeated(m->program, pvalue, r)) continue;
        char *part = m->rank ? NULL : mt_malloc((size_t)box_bytes(m->program, pvalue, r));
        receive_box(m, pvalue, r, part);
        if (part) copy_box(m->program, pvalue, r, part, whole, true);
        free(part);
    }
    return whole;
}

/* Refuse an element of a state that is infinite or no number: `piece` begins at byte `at` of the whole. */
static void require_finite(struct mt_states *m, int gvalue, int64_t at, const void *piece, int64_t size_bytes) {
    const struct mt_value *v = &m->program->graph->values[gvalue];
    int64_t e = mt_type_size(v->type), found = m->st ? -1 : mt_type_not_finite(v->type, piece, size_bytes / e);
    if (found < 0) return;
    m->st = mt_fail(&m->err, MT_EDIVERGED, "%s: element %lld is %g: training has diverged", v->name,
                    (long long)(at / e + found), mt_type_load(v->type, piece, found));
}

void mt_states_read(struct mt_states *m, int gvalue, mt_state_reader *reader, void *context) {
    int64_t size = whole_bytes(m, gvalue);
    bool rank0_has_all = box_bytes(m->program, state_value(m->program, gvalue), 0) == size;
    if (m->rank && rank0_has_all) return;
    char *whole = rank0_has_all ? NULL : gather(m, gvalue), *buffer = NULL;
    if (m->rank) return;
    if (!whole) buffer = mt_calloc(1, (size_t)piece(size, 0));
    for (int64_t at = 0; at < size && !m->st; at += PIECE_BYTES) {
        const char *from = buffer ? buffer : whole + at;
        if (buffer) read_piece(m, gvalue, at, piece(size, at), buffer);
        require_finite(m, gvalue, at, from, piece(size, at));
        if (!m->st) m->st = reader(context, from, (size_t)piece(size, at), &m->err);
    }
    free(buffer);
    free(whole);
}

/* Broadcast whole[] from rank 0, as every rank's box of a state. */
static void broadcast(struct mt_states *m, int gvalue, const char *whole) {
    int64_t size = whole_bytes(m, gvalue);
    char *buffer = mt_malloc((size_t)piece(size, 0));
    for (int64_t at = 0; at < size; at += PIECE_BYTES) {
        int64_t n = piece(size, at);
        if (!m->rank) memcpy(buffer, whole + at, (size_t)n);
        MPI_Bcast(buffer, (int)n, MPI_BYTE, 0, m->comm);
        if (!m->st) m->st = m->memory.set(m->memory.context, gvalue, at, n, buffer, &m->err);
    }
    free(buffer);
}

void mt_states_write(struct mt_states *m, int gvalue, const void *whole) {
    int pvalue = state_value(m->program, gvalue);
    bool all = true;
    for (int r = 0; r < m->nranks; r++) all = all && box_bytes(m->program, pvalue, r) == whole_bytes(m, gvalue);
    if (all) {
        broadcast(m, gvalue, whole);
        return;
    }
    for (int r = 0; r < m->nranks; r++) {
        bool cut = !m->rank && box_bytes(m->program, pvalue, r) < whole_bytes(m, gvalue);
        char *part = cut ? mt_malloc((size_t)box_bytes(m->program, pvalue, r)) : NULL;
        if (part) copy_box(m->program, pvalue, r, whole, part, false);
        send_box(m, pvalue, r, part ? part : whole);
        free(part);
    }
}

static uint64_t hash_box(struct mt_states *m, int gvalue) {
    int64_t size = box_bytes(m->program, state_value(m->program, gvalue), m->rank);
    char *buffer = mt_calloc(1, (size_t)piece(size, 0));
    struct mt_hasher *hasher = mt_hasher_new();
    for (int64_t at = 0; at < size; at += PIECE_BYTES) {
        read_piece(m, gvalue, at, piece(size, at), buffer);
        mt_hasher_add(hasher, buffer, (size_t)piece(size, at));
    }
    free(buffer);
    return mt_hasher_end(hasher);
}

/* Compare hashes[nranks] of a state's boxes: each with that of the first rank that holds the same box. */
static void compare_hashes(struct mt_states *m, int gvalue, const uint64_t *hashes) {
    int pvalue = state_value(m->program, gvalue);
    for (int r = 1; r < m->nranks; r++) {
        const struct mt_box *box = mt_pvalue_box(m->program, pvalue, r);
        int first = 0;
        while (memcmp(mt_pvalue_box(m->program, pvalue, first), box, sizeof *box)) first++;
        if (hashes[r] == hashes[first] || m->st) continue;
        m->st =
            mt_fail(&m->err, MT_EBUG, "%s is not the same on rank %d (hash %016llx) and rank %d (%016llx)",
                    m->program->graph->values[gvalue].name, mt_agree_rank_name(m->comm, first),
                    (unsigned long long)hashes[first], mt_agree_rank_name(m->comm, r), (unsigned long long)hashes[r]);
    }
}

enum mt_status mt_states_end(struct mt_states *m, struct mt_err *err) {
    enum mt_status st = mt_agree(m->comm, m->st, &m->err);
    if (st) *err = m->err;
    return st;
}

enum mt_status mt_states_compare(struct mt_states *m, struct mt_err *err) {
    uint64_t *hashes = mt_malloc((size_t)m->nranks * sizeof *hashes);
    for (int g = 0; g < m->program->graph->nvalues; g++) {
        if (!mt_is_state(m->program->graph, g)) continue;
        uint64_t mine = hash_box(m, g);
        MPI_Allgather(&mine, 1, MPI_UINT64_T, hashes, 1, MPI_UINT64_T, m->comm);
        compare_hashes(m, g, hashes);
    }
    free(hashes);
    return mt_states_end(m, err);
}

static enum mt_status add_to_hash(void *context, const void *data, size_t size_bytes, struct mt_err *err) {
    (void)err;
    mt_hasher_add(context, data, size_bytes);
    return MT_OK;
}

enum mt_status mt_states_hash(struct mt_states *m, uint64_t *hash, struct mt_err *err) {
    struct mt_hasher *hasher = mt_hasher_new();
    for (int g = 0; g < m->program->graph->nvalues; g++)
        if (m->program->graph->values[g].param) mt_states_read(m, g, add_to_hash, hasher);
    *hash = mt_hasher_end(hasher);
    return mt_states_end(m, err);
}
