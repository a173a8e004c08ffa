/* One rank's part of a collective, as calls of NCCL.
 *
 * NCCL has AllReduce and Broadcast, and ReduceScatter and AllGather of even blocks. For uneven blocks there are the
 * implementations of kernels/coll/nccl_unequal.h. Where the plan names a hierarchical algorithm, an AllReduce,
 * ReduceScatter or AllGather is in phases within and across nodes (kernels/coll/nccl_nodes.h), in communicators of
 * their own; a Broadcast is NCCL's own. An AllToAll is sends and receives between all pairs, through the
 * communicator of all ranks: pairs need none of their own. Where blocks are located in memory, they go from there and
 * to there, by the steps of the schedule.
 *
 * NCCL works on the message itself; or on a staging buffer, where the wire type differs or blocks must be padded:
 * cuda_pack and cuda_unpack convert the blocks that are needed. NCCL rounds partial sums to the wire type.
 *
 * Large messages among all ranks of one host go by copy engines instead, where the communicator has a window
 * (kernels/cuda/engine/engine.h).
 *
 * A call may return before NCCL has enqueued anything (ncclInProgress); cuda_nccl_wait waits for that. */
#include <stdlib.h>

#include "kernels/coll/nccl_nodes.h"
#include "kernels/cuda/nccl/internal.h"
#include "kernels/cuda/nccl/pieces.h"
#include "kernels/device/piece.h"

static const ncclDataType_t nccl_types[MT_NTYPES] = {[MT_F64] = ncclFloat64,
                                                     [MT_F32] = ncclFloat32,
                                                     [MT_BF16] = ncclBfloat16,
                                                     [MT_F16] = ncclFloat16,
                                                     [MT_I32] = ncclInt32};

struct job {
    struct nccl *nccl;
    const struct cuda_queue *queue;
    const struct mt_coll *problem;
    const int *group;
    void *const *buffer;
    ncclComm_t comm; /* of the group; by_node: none */
    ncclDataType_t type;
    ncclRedOp_t op;
    bool by_node;
    enum mt_nccl_impl impl;
    int64_t size_bytes; /* of an element of data */
    char *data;         /* the message, or the staging buffer */
    int64_t *start;     /* of block r in data, elements; of block n, the end */
    int64_t *count;     /* of block r; padded: all are the longest */
};

static ncclRedOp_t op_of(const struct mt_coll *problem) {
    return problem->reduce == MT_MAX ? ncclMax : ncclSum;
}

/* Whether a call of NCCL has succeeded so far. */
static bool succeeded(ncclResult_t result) {
    return result == ncclSuccess || result == ncclInProgress;
}

static ncclResult_t end_group(ncclResult_t result) {
    ncclResult_t end = ncclGroupEnd();
    return succeeded(result) ? end : result;
}

static char *block(const struct job *job, int r) {
    return job->data + job->start[r] * job->size_bytes;
}

static ncclResult_t queue_all_reduce(const struct job *job) {
    return ncclAllReduce(job->data, job->data, (size_t)job->start[job->problem->n], job->type, job->op, job->comm,
                         job->queue->stream);
}

static ncclResult_t queue_broadcast(const struct job *job) {
    return ncclBroadcast(job->data, job->data, (size_t)job->start[job->problem->n], job->type, job->problem->root,
                         job->comm, job->queue->stream);
}

static ncclResult_t queue_reduce_scatter(const struct job *job) {
    CUstream stream = job->queue->stream;
    if (job->impl != MT_NCCL_ROOTED)
        return ncclReduceScatter(job->data, block(job, job->problem->me), (size_t)job->count[0], job->type, job->op,
                                 job->comm, stream);
    ncclResult_t result = ncclGroupStart();
    for (int r = 0; r < job->problem->n && succeeded(result); r++)
        if (job->count[r])
            result = ncclReduce(block(job, r), block(job, r), (size_t)job->count[r], job->type, job->op, r, job->comm,
                                stream);
    return end_group(result);
}

/* With one peer. Empty transfers are left out, by both ranks. */
static ncclResult_t exchange(const struct job *job, ncclComm_t comm, int peer, const void *out, int64_t nout, void *in,
                             int64_t nin) {
    ncclResult_t result = ncclSuccess;
    if (nout) result = ncclSend(out, (size_t)nout, job->type, peer, comm, job->queue->stream);
    if (nin && succeeded(result)) result = ncclRecv(in, (size_t)nin, job->type, peer, comm, job->queue->stream);
    return result;
}

static ncclResult_t queue_all_gather(const struct job *job) {
    int me = job->problem->me;
    if (job->impl == MT_NCCL_NATIVE || job->impl == MT_NCCL_PADDED)
        return ncclAllGather(block(job, me), job->data, (size_t)job->count[0], job->type, job->comm,
                             job->queue->stream);
    ncclResult_t result = ncclGroupStart();
    for (int r = 0; r < job->problem->n && succeeded(result); r++) {
        if (job->impl == MT_NCCL_PAIRS && r != me)
            result = exchange(job, job->comm, r, block(job, me), job->count[me], block(job, r), job->count[r]);
        else if (job->impl == MT_NCCL_ROOTED && job->count[r])
            result = ncclBroadcast(block(job, r), block(job, r), (size_t)job->count[r], job->type, r, job->comm,
                                   job->queue->stream);
    }
    return end_group(result);
}

/* Peers are ranks of the communicator of all ranks. */
static enum mt_status queue_all_to_all(const struct job *job, struct mt_err *err) {
    const struct mt_coll *p = job->problem;
    const int64_t *out = p->counts + (int64_t)p->me * p->n;
    const char *from = job->buffer[0], *own_from = from;
    char *to = job->buffer[1], *own_to = to;
    ncclResult_t result = ncclGroupStart();
    for (int r = 0; r < p->n && succeeded(result); r++) {
        int64_t in = p->counts[(int64_t)r * p->n + p->me];
        if (r == p->me)
            own_from = from, own_to = to;
        else
            result = exchange(job, job->nccl->world, job->group[r], from, out[r], to, in);
        from += out[r] * job->size_bytes;
        to += in * job->size_bytes;
    }
    enum mt_status st = cuda_nccl_wait(job->nccl, job->nccl->world, end_group(result), "AllToAll", err);
    if (st) return st;
    if (out[p->me])
        CUDA_TRY(cuMemcpyDtoDAsync((CUdeviceptr)own_to, (CUdeviceptr)own_from, (size_t)(out[p->me] * job->size_bytes),
                                   job->queue->stream),
                 err, "cuMemcpyDtoDAsync");
    return MT_OK;
}

static ncclResult_t queue_step(const struct job *job, const struct mt_step *step) {
    char *place = (char *)job->buffer[step->buffer] + step->offset * job->size_bytes;
    size_t count = (size_t)step->count;
    if (step->kind == MT_STEP_SEND)
        return ncclSend(place, count, job->type, job->group[step->peer], job->nccl->world, job->queue->stream);
    if (step->kind == MT_STEP_RECV)
        return ncclRecv(place, count, job->type, job->group[step->peer], job->nccl->world, job->queue->stream);
    return step->kind == MT_STEP_COPY ? ncclSuccess : ncclInvalidUsage;
}

/* A located AllToAll: all sends and receives in one group call, then copies, which touch no other blocks. */
static enum mt_status queue_steps(const struct job *job, const struct mt_schedule *schedule, struct mt_err *err) {
    ncclResult_t result = ncclGroupStart();
    for (int i = 0; i < schedule->nsteps && succeeded(result); i++) result = queue_step(job, &schedule->steps[i]);
    enum mt_status st = cuda_nccl_wait(job->nccl, job->nccl->world, end_group(result), "AllToAll", err);
    for (int i = 0; i < schedule->nsteps && !st; i++) {
        const struct mt_step *step = &schedule->steps[i];
        if (step->kind != MT_STEP_COPY) continue;
        const char *from = (char *)job->buffer[step->buffer] + step->offset * job->size_bytes;
        char *to = (char *)job->buffer[step->to_buffer] + step->to * job->size_bytes;
        CUDA_TRY(cuMemcpyDtoDAsync((CUdeviceptr)to, (CUdeviceptr)from, (size_t)(step->count * job->size_bytes),
                                   job->queue->stream),
                 err, "cuMemcpyDtoDAsync");
    }
    return st;
}

/* ---- within and across nodes ---- */

static ncclResult_t queue_call(const struct job *job, const struct mt_nccl_call *call, int me, ncclComm_t comm) {
    char *data = job->data + call->at * job->size_bytes, *mine = data + me * call->count * job->size_bytes;
    size_t count = (size_t)call->count;
    CUstream stream = job->queue->stream;
    switch (call->op) {
    case MT_NCCL_ALL_REDUCE: return ncclAllReduce(data, data, count, job->type, job->op, comm, stream);
    case MT_NCCL_REDUCE_SCATTER: return ncclReduceScatter(data, mine, count, job->type, job->op, comm, stream);
    case MT_NCCL_ALL_GATHER: return ncclAllGather(mine, data, count, job->type, comm, stream);
    case MT_NCCL_REDUCE: return ncclReduce(data, data, count, job->type, job->op, call->root, comm, stream);
    case MT_NCCL_BROADCAST: return ncclBroadcast(data, data, count, job->type, call->root, comm, stream);
    }
    return ncclInvalidUsage;
}

/* The communicators of the list's groups. */
static enum mt_status join_groups(const struct job *job, const struct mt_nccl_list *list, ncclComm_t *comms,
                                  struct mt_err *err) {
    int *ranks = mt_calloc((size_t)job->problem->n, sizeof *ranks);
    enum mt_status st = MT_OK;
    for (int g = 0; g < list->ngroups && !st; g++) {
        const struct mt_nccl_ranks *group = &list->groups[g];
        struct mt_coll part = {.n = group->n, .me = group->me};
        for (int p = 0; p < group->n; p++) ranks[p] = job->group[group->places[p]];
        st = cuda_nccl_comm_of(job->nccl, job->queue, &part, ranks, &comms[g], err);
    }
    free(ranks);
    return st;
}

static enum mt_status queue_by_node(const struct job *job, struct mt_err *err) {
    struct mt_nccl_list list;
    mt_nccl_list(job->problem, &list);
    ncclComm_t *comms = mt_calloc((size_t)list.ngroups + 1, sizeof(ncclComm_t));
    enum mt_status st = join_groups(job, &list, comms, err);
    for (int phase = 0, i = 0; phase < MT_NCCL_PHASES && !st; phase++) {
        int begin = i, end = list.phase_end[phase];
        if (begin == end) continue;
        ncclResult_t result = ncclGroupStart();
        for (; i < end && succeeded(result); i++)
            result = queue_call(job, &list.calls[i], list.groups[list.calls[i].group].me, comms[list.calls[i].group]);
        result = end_group(result);
        for (i = begin; i < end && !st; i++)
            st = cuda_nccl_wait(job->nccl, comms[list.calls[i].group], result, mt_coll_name(job->problem->kind), err);
    }
    free(comms);
    mt_nccl_list_release(&list);
    return st;
}

/* ---- by copy engines ---- */

static enum mt_status engines_blocks(const struct job *job, struct mt_err *err) {
    struct mt_engine_part parts[MT_ENGINE_RANKS];
    for (int r = 0; r < job->problem->n; r++)
        parts[r] = (struct mt_engine_part){job->count[r], r, block(job, r), block(job, r)};
    return cuda_engines_queue(job->nccl->engines, job->queue, job->problem, parts, job->problem->n, err);
}

/* Array i as parts: one, or one for each rank. Returns how many. */
static int parts_of_array(const struct mt_coll *problem, const struct mt_comm_arrays *a, int i,
                          struct mt_engine_part *parts) {
    int64_t count = a->count[i], step = count * mt_type_size(problem->wire);
    const char *from = a->from[i];
    char *to = a->to[i];
    if (problem->kind == MT_ALL_REDUCE || a->root)
        return parts[0] = (struct mt_engine_part){count, a->root ? a->root[i] : 0, from, to}, 1;
    bool gathers = problem->kind == MT_ALL_GATHER;
    for (int r = 0; r < problem->n; r++) {
        bool mine = r == problem->me;
        parts[r].count = count, parts[r].owner = r;
        parts[r].from = !gathers ? from + r * step : mine ? from : NULL;
        parts[r].to = gathers ? to + r * step : mine ? to : NULL;
    }
    return problem->n;
}

static enum mt_status engines_arrays(struct nccl *nccl, const struct cuda_queue *queue, const struct mt_coll *problem,
                                     const struct mt_comm_arrays *arrays, struct mt_err *err) {
    struct mt_engine_part *parts = mt_calloc((size_t)(arrays->n * problem->n) + 1, sizeof *parts);
    int n = 0;
    for (int i = 0; i < arrays->n; i++) n += parts_of_array(problem, arrays, i, parts + n);
    enum mt_status st = cuda_engines_queue(nccl->engines, queue, problem, parts, n, err);
    free(parts);
    return st;
}

/* ---- staging buffers ---- */

static enum mt_status stage_of(struct nccl *nccl, CUstream stream, int64_t size_bytes, char **memory,
                               struct mt_err *err) {
    int64_t largest = 0;
    for (struct cuda_nccl_stage *s = nccl->stages; s; s = s->next) {
        if (s->stream != stream) continue;
        *memory = (char *)s->memory;
        if (s->size_bytes >= size_bytes) return MT_OK;
        if (s->size_bytes > largest) largest = s->size_bytes;
    }
    if (size_bytes < 2 * largest) size_bytes = 2 * largest;
    CUdeviceptr fresh;
    CUDA_TRY(cuMemAlloc(&fresh, (size_t)size_bytes), err, "a staging buffer");
    struct cuda_nccl_stage *s = mt_malloc(sizeof *s);
    *s = (struct cuda_nccl_stage){nccl->stages, stream, fresh, size_bytes};
    nccl->stages = s;
    *memory = (char *)fresh;
    return MT_OK;
}

enum side { BEFORE, AFTER };

/* Whether this rank needs block r in the staging buffer before the collective, or in the message after it. */
static bool matters(const struct mt_coll *problem, int r, enum side side) {
    switch (problem->kind) {
    case MT_REDUCE_SCATTER: return side == BEFORE || r == problem->me;
    case MT_ALL_GATHER: return side == AFTER || r == problem->me;
    case MT_BROADCAST: return side == AFTER || problem->me == problem->root;
    case MT_ALL_REDUCE:
    case MT_ALL_TO_ALL:
    case MT_NCOLLS: break;
    }
    return true;
}

/* Convert blocks from the message to the staging buffer, or back. Blocks that are contiguous on both sides are one
 * piece. */
static enum mt_status copy_blocks(const struct job *job, enum side side, struct mt_err *err) {
    const struct mt_coll *problem = job->problem;
    struct mt_piece *pieces = mt_calloc((size_t)problem->n, sizeof *pieces);
    void *const message[2] = {job->data, NULL};
    int64_t at = 0, size_bytes = mt_type_size(problem->acc);
    int npieces = 0;
    for (int r = 0; r < problem->n; at += problem->counts[r++]) {
        if (!problem->counts[r] || !matters(problem, r, side)) continue;
        char *data = (char *)job->buffer[0] + at * size_bytes;
        struct mt_piece *last = npieces ? &pieces[npieces - 1] : NULL;
        if (last && last->at + last->extent[0] == job->start[r] &&
            (char *)last->data + last->extent[0] * size_bytes == data)
            last->extent[0] += problem->counts[r];
        else
            pieces[npieces++] = (struct mt_piece){.at = job->start[r],
                                                  .naxes = 1,
                                                  .extent = {problem->counts[r]},
                                                  .stride = {1},
                                                  .data = data,
                                                  .type = problem->acc};
    }
    enum mt_status st = side == BEFORE ? cuda_pack(job->queue, problem->wire, message, pieces, npieces, err)
                                       : cuda_unpack(job->queue, problem->wire, message, pieces, npieces, err);
    free(pieces);
    return st;
}

enum mt_nccl_impl cuda_nccl_impl_of(const struct nccl *nccl, const struct mt_coll *problem) {
    return mt_nccl_impl_serves(nccl->impl, problem) ? nccl->impl : mt_nccl_impl_choose(problem);
}

/* All but AllToAll: the offsets of blocks, then the collective, between two conversions if it is staged. */
static enum mt_status queue_blocks(struct job *job, struct mt_err *err) {
    static ncclResult_t (*const collectives[MT_NCOLLS])(const struct job *) = {[MT_ALL_REDUCE] = queue_all_reduce,
                                                                               [MT_REDUCE_SCATTER] =
                                                                                   queue_reduce_scatter,
                                                                               [MT_ALL_GATHER] = queue_all_gather,
                                                                               [MT_BROADCAST] = queue_broadcast};
    const struct mt_coll *problem = job->problem;
    int n = problem->n;
    bool blocks = problem->kind == MT_REDUCE_SCATTER || problem->kind == MT_ALL_GATHER;
    bool engines = !job->by_node && cuda_engines_serve(job->nccl->engines, problem, job->group);
    job->impl = blocks && !job->by_node && !engines ? cuda_nccl_impl_of(job->nccl, problem) : MT_NCCL_NATIVE;
    int64_t most = 0;
    for (int r = 0; r < n; r++)
        if (problem->counts[r] > most) most = problem->counts[r];
    for (int r = 0; r < n; r++) {
        job->count[r] = job->impl == MT_NCCL_PADDED ? most : problem->counts[r];
        job->start[r + 1] = job->start[r] + job->count[r];
    }
    if (!most) return MT_OK;
    bool staged = problem->wire != problem->acc || job->impl == MT_NCCL_PADDED;
    enum mt_status st = MT_OK;
    job->data = job->buffer[0];
    if (staged && (st = stage_of(job->nccl, job->queue->stream, job->start[n] * job->size_bytes, &job->data, err)))
        return st;
    if (staged && (st = copy_blocks(job, BEFORE, err))) return st;
    if (job->by_node)
        st = queue_by_node(job, err);
    else if (engines)
        st = engines_blocks(job, err);
    else if (n > 1)
        st = cuda_nccl_wait(job->nccl, job->comm, collectives[problem->kind](job), mt_coll_name(problem->kind), err);
    if (st) return st;
    return staged ? copy_blocks(job, AFTER, err) : MT_OK;
}

enum mt_status cuda_nccl_problem(struct nccl *nccl, const struct cuda_queue *queue, const struct mt_coll *problem,
                                 const struct mt_schedule *schedule, const int *group, void *const buffer[2],
                                 struct mt_err *err) {
    struct job job = {.nccl = nccl,
                      .queue = queue,
                      .problem = problem,
                      .group = group,
                      .buffer = buffer,
                      .type = nccl_types[problem->wire],
                      .op = op_of(problem),
                      .size_bytes = mt_type_size(problem->wire)};
    if (problem->wire != problem->acc && !mt_coll_reduces(problem->kind))
        return mt_fail(err, MT_EBUG, "%s: %s is sent as %s, which is only for sums and maxima",
                       mt_coll_name(problem->kind), mt_type_name(problem->acc), mt_type_name(problem->wire));
    if (problem->kind == MT_ALL_TO_ALL)
        return schedule && schedule->located ? queue_steps(&job, schedule, err) : queue_all_to_all(&job, err);
    job.by_node = schedule && schedule->by_node && mt_nccl_by_node(problem);
    bool one = problem->n > 1 && !job.by_node; /* communicator */
    enum mt_status st = one ? cuda_nccl_comm_of(nccl, queue, problem, group, &job.comm, err) : MT_OK;
    if (st) return st;
    job.start = mt_calloc((size_t)problem->n + 1, sizeof *job.start);
    job.count = mt_calloc((size_t)problem->n, sizeof *job.count);
    st = queue_blocks(&job, err);
    free(job.start);
    free(job.count);
    return st;
}

/* ---- arrays ---- */

struct arrays_job {
    const struct mt_coll *problem;
    const struct mt_comm_arrays *arrays;
    ncclComm_t comm;
    CUstream stream;
};

static ncclResult_t queue_array(const struct arrays_job *job, int i) {
    const struct mt_comm_arrays *a = job->arrays;
    ncclDataType_t type = nccl_types[job->problem->wire];
    ncclRedOp_t op = op_of(job->problem);
    size_t count = (size_t)a->count[i];
    switch (job->problem->kind) {
    case MT_ALL_REDUCE: return ncclAllReduce(a->from[i], a->to[i], count, type, op, job->comm, job->stream);
    case MT_REDUCE_SCATTER:
        return a->root ? ncclReduce(a->from[i], a->to[i], count, type, op, a->root[i], job->comm, job->stream)
                       : ncclReduceScatter(a->from[i], a->to[i], count, type, op, job->comm, job->stream);
    case MT_ALL_GATHER:
        return a->root ? ncclBroadcast(a->from[i], a->to[i], count, type, a->root[i], job->comm, job->stream)
                       : ncclAllGather(a->from[i], a->to[i], count, type, job->comm, job->stream);
    case MT_BROADCAST:
    case MT_ALL_TO_ALL:
    case MT_NCOLLS: break;
    }
    return ncclInvalidUsage;
}

/* NCCL makes one launch of a group of calls. */
enum mt_status cuda_nccl_arrays(struct nccl *nccl, const struct cuda_queue *queue, const struct mt_coll *problem,
                                const int *group, const struct mt_comm_arrays *arrays, struct mt_err *err) {
    struct arrays_job job = {.problem = problem, .arrays = arrays, .stream = queue->stream};
    if (cuda_engines_serve(nccl->engines, problem, group)) return engines_arrays(nccl, queue, problem, arrays, err);
    enum mt_status st = cuda_nccl_comm_of(nccl, queue, problem, group, &job.comm, err);
    if (st) return st;
    ncclResult_t result = ncclGroupStart();
    for (int i = 0; i < arrays->n && succeeded(result); i++) result = queue_array(&job, i);
    return cuda_nccl_wait(nccl, job.comm, end_group(result), mt_coll_name(problem->kind), err);
}

/* ---- messages ---- */

enum mt_status cuda_nccl_messages(struct nccl *nccl, const struct cuda_queue *queue,
                                  const struct cuda_nccl_message *messages, int count, const char *what,
                                  struct mt_err *err) {
    ncclResult_t result = ncclGroupStart();
    for (int i = 0; i < count && succeeded(result); i++) {
        const struct cuda_nccl_message *m = &messages[i];
        size_t size = (size_t)m->size_bytes;
        result = m->sends ? ncclSend(m->data, size, ncclInt8, m->peer, nccl->world, queue->stream)
                          : ncclRecv(m->data, size, ncclInt8, m->peer, nccl->world, queue->stream);
    }
    return cuda_nccl_wait(nccl, nccl->world, end_group(result), what, err);
}
