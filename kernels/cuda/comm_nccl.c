/* A communicator over NCCL.
 *
 * NCCL has AllReduce and Broadcast, and ReduceScatter and AllGather of even blocks. Uneven blocks go by a way that
 * way_of chooses. An AllToAll is sends and receives between all pairs, by the communicator of all ranks: pairs need
 * none of their own.
 *
 * What NCCL works on is the message itself, or a copy of it, the *stage*, where the wire's type is another one or
 * blocks must be padded: cuda_pack and cuda_unpack convert the blocks that matter. Sums are rounded to the wire's type
 * as NCCL makes them. */
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/cuda/coll.h"
#include "kernels/cuda/comm_nccl.h"

_Static_assert(sizeof(ncclUniqueId) == MT_COMM_NCCL_ID_BYTES, "the size of NCCL's unique id");

/* A group that is not all ranks in order; place p of the group is its rank p. */
struct subgroup {
    struct subgroup *next;
    ncclComm_t nccl;
    int n;
    int ranks[];
};

/* Memory of a stream for stages. What was outgrown is kept: graphs may use it. */
struct stage {
    struct stage *next;
    CUstream stream;
    CUdeviceptr memory;
    int64_t size_bytes;
};

struct nccl {
    struct mt_comm comm;
    ncclComm_t world; /* null: aborted */
    struct subgroup *subgroups;
    struct stage *stages;
    bool broken;
};

static enum mt_status fail_nccl(struct mt_err *err, ncclResult_t result, const char *what) {
    static const enum mt_status statuses[ncclNumResults] = {[ncclUnhandledCudaError] = MT_ESYSTEM,
                                                            [ncclSystemError] = MT_ESYSTEM,
                                                            [ncclInternalError] = MT_ESYSTEM,
                                                            [ncclInvalidArgument] = MT_EBUG,
                                                            [ncclInvalidUsage] = MT_EBUG,
                                                            [ncclRemoteError] = MT_EPEER,
                                                            [ncclInProgress] = MT_EBUG};
    const char *last = ncclGetLastError(NULL);
    return mt_fail(err, statuses[result] ? statuses[result] : MT_ESYSTEM, "NCCL: %s: %s%s%s", what,
                   ncclGetErrorString(result), last && *last ? ": " : "", last ? last : "");
}
#define NCCL_TRY(call, err, what)                                                                                      \
    do {                                                                                                               \
        ncclResult_t result_ = (call);                                                                                 \
        if (result_ != ncclSuccess) return fail_nccl(err, result_, what);                                              \
    } while (0)

static const ncclDataType_t nccl_types[MT_NTYPES] = {[MT_F64] = ncclFloat64,
                                                     [MT_F32] = ncclFloat32,
                                                     [MT_BF16] = ncclBfloat16,
                                                     [MT_F16] = ncclFloat16,
                                                     [MT_I32] = ncclInt32};

/* ---- groups ---- */

static bool is_all(const struct nccl *nccl, const struct mt_coll *problem, const int *group) {
    bool all = problem->n == nccl->comm.nranks;
    for (int p = 0; all && p < problem->n; p++) all = group[p] == p;
    return all;
}

/* The id that the group's first rank has made: to its others, through the communicator of all ranks. (ncclCommSplit
 * would need those who are not in the group.) */
static enum mt_status share_id(struct nccl *nccl, const struct cuda_queue *queue, const struct mt_coll *problem,
                               const int *group, CUdeviceptr place, ncclUniqueId *id, struct mt_err *err) {
    bool first = problem->me == 0;
    if (first) {
        NCCL_TRY(ncclGetUniqueId(id), err, "ncclGetUniqueId");
        CUDA_TRY(cuMemcpyHtoD(place, id, sizeof *id), err, "cuMemcpyHtoD");
    }
    ncclResult_t result = ncclGroupStart();
    for (int p = 1; p < problem->n && !result; p++) {
        if (first)
            result = ncclSend((const void *)place, sizeof *id, ncclChar, group[p], nccl->world, queue->stream);
        else if (p == problem->me)
            result = ncclRecv((void *)place, sizeof *id, ncclChar, group[0], nccl->world, queue->stream);
    }
    ncclResult_t end = ncclGroupEnd();
    NCCL_TRY(result ? result : end, err, "sharing a group's id");
    CUDA_TRY(cuStreamSynchronize(queue->stream), err, "sharing a group's id");
    if (!first) CUDA_TRY(cuMemcpyDtoH(id, place, sizeof *id), err, "cuMemcpyDtoH");
    return MT_OK;
}

static enum mt_status found(struct nccl *nccl, const struct cuda_queue *queue, const struct mt_coll *problem,
                            const int *group, ncclComm_t *comm, struct mt_err *err) {
    CUstreamCaptureStatus capture;
    CUDA_TRY(cuStreamIsCapturing(queue->stream, &capture), err, "cuStreamIsCapturing");
    if (capture != CU_STREAM_CAPTURE_STATUS_NONE)
        return mt_fail(err, MT_EBUG, "a group's first collective is captured into a graph; it must run before");
    CUdeviceptr place;
    ncclUniqueId id;
    CUDA_TRY(cuMemAlloc(&place, sizeof id), err, "cuMemAlloc");
    enum mt_status st = share_id(nccl, queue, problem, group, place, &id, err);
    if (!st) {
        ncclResult_t result = ncclCommInitRank(comm, problem->n, id, problem->me);
        if (result) st = fail_nccl(err, result, "ncclCommInitRank of a group");
    }
    cuMemFree(place);
    return st;
}

/* The communicator of the problem's group. */
static enum mt_status comm_of(struct nccl *nccl, const struct cuda_queue *queue, const struct mt_coll *problem,
                              const int *group, ncclComm_t *comm, struct mt_err *err) {
    size_t size_bytes = (size_t)problem->n * sizeof *group;
    *comm = nccl->world;
    if (is_all(nccl, problem, group)) return MT_OK;
    for (struct subgroup *s = nccl->subgroups; s; s = s->next)
        if (s->n == problem->n && !memcmp(s->ranks, group, size_bytes)) {
            *comm = s->nccl;
            return MT_OK;
        }
    enum mt_status st = found(nccl, queue, problem, group, comm, err);
    if (st) return st;
    struct subgroup *s = mt_malloc(sizeof *s + size_bytes);
    *s = (struct subgroup){nccl->subgroups, *comm, problem->n};
    memcpy(s->ranks, group, size_bytes);
    nccl->subgroups = s;
    return MT_OK;
}

/* ---- one problem ---- */

/* How uneven blocks are reduced or gathered. */
enum way {
    NATIVE, /* even: ncclReduceScatter, ncclAllGather */
    PADDED, /* the same, of blocks as long as the longest */
    ROOTED, /* a reduction to, or a broadcast from, each block's rank, all at once */
    PAIRS,  /* a gather by sends and receives between all */
};

struct job {
    struct nccl *nccl;
    const struct cuda_queue *queue;
    const struct mt_coll *problem;
    const int *group;
    void *const *buffer;
    ncclComm_t comm;
    ncclDataType_t type;
    ncclRedOp_t op;
    enum way way;
    int64_t size_bytes; /* of an element of data */
    char *data;         /* the message, or the stage */
    int64_t *start;     /* of block r in data, elements; of block n, the end */
    int64_t *count;     /* of block r; padded: all are the longest */
};

/* Which is fastest, by size; not yet from measured costs. Padding costs the bytes that it adds, and copies. Broadcasts
 * and reductions each are a chain through all ranks, which long messages fill; short gathers are faster in one hop. */
static enum way way_of(const struct mt_coll *problem) {
    const int64_t short_bytes = 1 << 20;
    const double padding = 1.25;
    int64_t most = 0, total = 0;
    bool even = true;
    for (int r = 0; r < problem->n; r++) {
        even = even && problem->counts[r] == problem->counts[0];
        if (problem->counts[r] > most) most = problem->counts[r];
        total += problem->counts[r];
    }
    if (even) return NATIVE;
    if (problem->kind == MT_ALL_GATHER && total * mt_type_size(problem->wire) < short_bytes) return PAIRS;
    return (double)(most * problem->n) <= padding * (double)total ? PADDED : ROOTED;
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
    if (job->way != ROOTED)
        return ncclReduceScatter(job->data, block(job, job->problem->me), (size_t)job->count[0], job->type, job->op,
                                 job->comm, stream);
    ncclResult_t result = ncclGroupStart();
    for (int r = 0; r < job->problem->n && !result; r++)
        if (job->count[r])
            result = ncclReduce(block(job, r), block(job, r), (size_t)job->count[r], job->type, job->op, r, job->comm,
                                stream);
    ncclResult_t end = ncclGroupEnd();
    return result ? result : end;
}

/* With one peer: both ends leave out what is empty. */
static ncclResult_t exchange(const struct job *job, ncclComm_t comm, int peer, const void *out, int64_t nout, void *in,
                             int64_t nin) {
    ncclResult_t result = ncclSuccess;
    if (nout) result = ncclSend(out, (size_t)nout, job->type, peer, comm, job->queue->stream);
    if (nin && !result) result = ncclRecv(in, (size_t)nin, job->type, peer, comm, job->queue->stream);
    return result;
}

static ncclResult_t queue_all_gather(const struct job *job) {
    int me = job->problem->me;
    if (job->way == NATIVE || job->way == PADDED)
        return ncclAllGather(block(job, me), job->data, (size_t)job->count[0], job->type, job->comm,
                             job->queue->stream);
    ncclResult_t result = ncclGroupStart();
    for (int r = 0; r < job->problem->n && !result; r++) {
        if (job->way == PAIRS && r != me)
            result = exchange(job, job->comm, r, block(job, me), job->count[me], block(job, r), job->count[r]);
        else if (job->way == ROOTED && job->count[r])
            result = ncclBroadcast(block(job, r), block(job, r), (size_t)job->count[r], job->type, r, job->comm,
                                   job->queue->stream);
    }
    ncclResult_t end = ncclGroupEnd();
    return result ? result : end;
}

/* Here ranks are those of all. */
static enum mt_status queue_all_to_all(const struct job *job, struct mt_err *err) {
    const struct mt_coll *p = job->problem;
    const int64_t *out = p->counts + (int64_t)p->me * p->n;
    const char *from = job->buffer[0], *own_from = from;
    char *to = job->buffer[1], *own_to = to;
    ncclResult_t result = ncclGroupStart();
    for (int r = 0; r < p->n && !result; r++) {
        int64_t in = p->counts[(int64_t)r * p->n + p->me];
        if (r == p->me)
            own_from = from, own_to = to;
        else
            result = exchange(job, job->nccl->world, job->group[r], from, out[r], to, in);
        from += out[r] * job->size_bytes;
        to += in * job->size_bytes;
    }
    ncclResult_t end = ncclGroupEnd();
    NCCL_TRY(result ? result : end, err, "AllToAll");
    if (out[p->me])
        CUDA_TRY(cuMemcpyDtoDAsync((CUdeviceptr)own_to, (CUdeviceptr)own_from, (size_t)(out[p->me] * job->size_bytes),
                                   job->queue->stream),
                 err, "cuMemcpyDtoDAsync");
    return MT_OK;
}

/* ---- stages ---- */

static enum mt_status stage_of(struct nccl *nccl, CUstream stream, int64_t size_bytes, char **memory,
                               struct mt_err *err) {
    int64_t largest = 0;
    for (struct stage *s = nccl->stages; s; s = s->next) {
        if (s->stream != stream) continue;
        *memory = (char *)s->memory;
        if (s->size_bytes >= size_bytes) return MT_OK;
        if (s->size_bytes > largest) largest = s->size_bytes;
    }
    if (size_bytes < 2 * largest) size_bytes = 2 * largest;
    CUdeviceptr fresh;
    CUDA_TRY(cuMemAlloc(&fresh, (size_t)size_bytes), err, "memory to convert messages in");
    struct stage *s = mt_malloc(sizeof *s);
    *s = (struct stage){nccl->stages, stream, fresh, size_bytes};
    nccl->stages = s;
    *memory = (char *)fresh;
    return MT_OK;
}

enum side { BEFORE, AFTER };

/* Whether this rank's block r is needed on the stage before the collective, or in the message after it. */
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

/* Between the message and the stage; neighbours on both sides go as one. */
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

/* What is not an AllToAll: where blocks lie, and then the collective between two copies, if there are any. */
static enum mt_status queue_blocks(struct job *job, struct mt_err *err) {
    static ncclResult_t (*const collectives[MT_NCOLLS])(const struct job *) = {[MT_ALL_REDUCE] = queue_all_reduce,
                                                                               [MT_REDUCE_SCATTER] =
                                                                                   queue_reduce_scatter,
                                                                               [MT_ALL_GATHER] = queue_all_gather,
                                                                               [MT_BROADCAST] = queue_broadcast};
    const struct mt_coll *problem = job->problem;
    int n = problem->n;
    bool blocks = problem->kind == MT_REDUCE_SCATTER || problem->kind == MT_ALL_GATHER;
    job->way = blocks ? way_of(problem) : NATIVE;
    int64_t most = 0;
    for (int r = 0; r < n; r++)
        if (problem->counts[r] > most) most = problem->counts[r];
    for (int r = 0; r < n; r++) {
        job->count[r] = job->way == PADDED ? most : problem->counts[r];
        job->start[r + 1] = job->start[r] + job->count[r];
    }
    if (!most) return MT_OK;
    bool staged = problem->wire != problem->acc || job->way == PADDED;
    enum mt_status st = MT_OK;
    job->data = job->buffer[0];
    if (staged && (st = stage_of(job->nccl, job->queue->stream, job->start[n] * job->size_bytes, &job->data, err)))
        return st;
    if (staged && (st = copy_blocks(job, BEFORE, err))) return st;
    if (n > 1) NCCL_TRY(collectives[problem->kind](job), err, mt_coll_name(problem->kind));
    return staged ? copy_blocks(job, AFTER, err) : MT_OK;
}

static enum mt_status queue_problem(struct nccl *nccl, const struct cuda_queue *queue, const struct mt_coll *problem,
                                    const int *group, void *const buffer[2], struct mt_err *err) {
    struct job job = {.nccl = nccl,
                      .queue = queue,
                      .problem = problem,
                      .group = group,
                      .buffer = buffer,
                      .type = nccl_types[problem->wire],
                      .op = problem->reduce == MT_MAX ? ncclMax : ncclSum,
                      .size_bytes = mt_type_size(problem->wire)};
    if (problem->wire != problem->acc && !mt_coll_reduces(problem->kind))
        return mt_fail(err, MT_EBUG, "%s: %s is sent as %s, which is only for sums and maxima",
                       mt_coll_name(problem->kind), mt_type_name(problem->acc), mt_type_name(problem->wire));
    if (problem->kind == MT_ALL_TO_ALL) return queue_all_to_all(&job, err);
    enum mt_status st = problem->n > 1 ? comm_of(nccl, queue, problem, group, &job.comm, err) : MT_OK;
    if (st) return st;
    job.start = mt_calloc((size_t)problem->n + 1, sizeof *job.start);
    job.count = mt_calloc((size_t)problem->n, sizeof *job.count);
    st = queue_blocks(&job, err);
    free(job.start);
    free(job.count);
    return st;
}

/* ---- the communicator ---- */

static enum mt_status check_one(struct nccl *nccl, ncclComm_t comm, struct mt_err *err) {
    ncclResult_t state;
    NCCL_TRY(ncclCommGetAsyncError(comm, &state), err, "ncclCommGetAsyncError");
    if (state == ncclSuccess || state == ncclInProgress) return MT_OK;
    nccl->broken = true;
    return fail_nccl(err, state, "an earlier collective");
}

enum mt_status cuda_nccl_check(struct mt_comm *comm, struct mt_err *err) {
    struct nccl *nccl = (struct nccl *)comm;
    if (!nccl->world) return mt_fail(err, MT_EPEER, "NCCL: the communicator was aborted");
    enum mt_status st = check_one(nccl, nccl->world, err);
    for (struct subgroup *s = nccl->subgroups; s && !st; s = s->next) st = check_one(nccl, s->nccl, err);
    return st;
}

static enum mt_status queue_on(struct mt_comm *comm, void *stream, const struct mt_coll *problem,
                               const struct mt_schedule *schedule, const int *group, void *const buffer[2], int tag,
                               struct mt_err *err) {
    (void)schedule, (void)tag; /* NCCL has its own, and matches collectives by their order */
    struct nccl *nccl = (struct nccl *)comm;
    if (nccl->broken)
        return mt_fail(err, MT_EPEER, "%s: an earlier collective did not end", mt_coll_name(problem->kind));
    enum mt_status st = queue_problem(nccl, stream, problem, group, buffer, err);
    if (!st) st = cuda_nccl_check(comm, err);
    if (st) nccl->broken = true;
    return st;
}

/* Leave all of NCCL's communicators by `leave`. */
static void leave_all(struct nccl *nccl, ncclResult_t (*leave)(ncclComm_t)) {
    if (nccl->world) leave(nccl->world);
    nccl->world = NULL;
    while (nccl->subgroups) {
        struct subgroup *s = nccl->subgroups;
        nccl->subgroups = s->next;
        leave(s->nccl);
        free(s);
    }
}

void cuda_nccl_abort(struct mt_comm *comm) {
    struct nccl *nccl = (struct nccl *)comm;
    nccl->broken = true;
    leave_all(nccl, ncclCommAbort);
}

static void release(struct mt_comm *comm) {
    struct nccl *nccl = (struct nccl *)comm;
    leave_all(nccl, nccl->broken ? ncclCommAbort : ncclCommDestroy);
    while (nccl->stages) {
        struct stage *s = nccl->stages;
        nccl->stages = s->next;
        cuMemFree(s->memory);
        free(s);
    }
    free(nccl);
}

static const struct mt_comm_class nccl_class = {.name = "nccl", .queue = queue_on, .release = release};

enum mt_status cuda_nccl_id(void *id, struct mt_err *err) {
    NCCL_TRY(ncclGetUniqueId(id), err, "ncclGetUniqueId");
    return MT_OK;
}

enum mt_status cuda_nccl_new(const void *id, int rank, int nranks, struct mt_comm **comm, struct mt_err *err) {
    ncclUniqueId unique;
    ncclComm_t world;
    memcpy(&unique, id, sizeof unique);
    NCCL_TRY(ncclCommInitRank(&world, nranks, unique, rank), err, "ncclCommInitRank");
    struct nccl *nccl = mt_calloc(1, sizeof *nccl);
    nccl->comm = (struct mt_comm){&nccl_class, rank, nranks};
    nccl->world = world;
    *comm = &nccl->comm;
    return MT_OK;
}

void cuda_nccl_version(char text[32]) {
    int version = 0;
    ncclGetVersion(&version);
    snprintf(text, 32, "%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
}
