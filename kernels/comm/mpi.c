/* Communicators over MPI: rounds of Isend and Irecv, with additions between them.
 *
 * Messages are sent as bytes of the wire type, in segments of SEGMENT_BYTES: the addition of one segment overlaps the
 * receipt of the next, staging buffers stay small, and no count overflows an int. Each step of a round is a *flow*: its
 * segments are posted in order, at most `window` beyond those that have been applied. A message that needs neither
 * conversion nor addition uses the problem's buffers directly, without staging.
 *
 * Order within a round (coll.h): a SEND whose range another step writes is copied to staging before anything is posted.
 * A step on exactly the range of an earlier one follows it segment by segment. A step that partly overlaps an earlier
 * one waits for all steps before it.
 *
 * Computation shares the core, so a rank that waits polls for some microseconds, then sleeps, longer and longer. */
#include <mpi.h>

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/wait.h"
#include "kernels/coll/reduce.h"
#include "kernels/comm/comm.h"
#include "kernels/comm/internal.h"

/* A round has about BUDGET segments in flight, so that links stay busy while the process is not scheduled. */
enum { SEGMENT_BYTES = 256 << 10, BUDGET = 64, LEAST_WINDOW = 2, LARGEST_WINDOW = 16 };
static const double long_spin_s = 2e-3;

struct flow {
    const struct mt_step *step;
    int nsegments, window;
    int posted, applied; /* segments */
    int request;         /* the first of `window` requests; of SEND, RECV and REDUCE */
    char *staging;       /* `window` segments of the wire type; null: directly from or to the buffer */
    bool snapshot;       /* a SEND that is copied to staging as a whole */
    int after;           /* posted only after this flow, since messages match in order; or -1 */
    int follows;         /* applied segment by segment after this flow; or -1 */
    bool last;           /* applied only after all flows before it */
};

struct mpi {
    struct mt_comm comm;
    MPI_Comm mpi;
    bool broken; /* a collective failed: its messages are still in flight, and nobody receives them */
    /* Kept between rounds; grown as needed. */
    struct flow *flows;
    MPI_Request *requests;
    bool *arrived; /* [requests]: complete, and not yet applied */
    int *indices;
    char *staging, *scratch;
    int flows_capacity, requests_capacity;
    int64_t staging_capacity, scratch_capacity;
};

/* One round of one run. */
struct job {
    struct mpi *mpi;
    const struct mt_coll *problem;
    const int *group;
    char *buffer[3];
    int tag;
    int nflows, nrequests;
    bool met;        /* the other ranks have arrived: something was received */
    int64_t segment; /* elements */
    double deadline_s;
};

static bool is_message(const struct mt_step *step) {
    return step->kind == MT_STEP_SEND || step->kind == MT_STEP_RECV || step->kind == MT_STEP_REDUCE;
}

struct span {
    int buffer;
    int64_t begin, end; /* empty: nothing */
};

static struct span written(const struct mt_step *step) {
    switch (step->kind) {
    case MT_STEP_SEND: break;
    case MT_STEP_COPY:
    case MT_STEP_ADD: return (struct span){step->to_buffer, step->to, step->to + step->count};
    case MT_STEP_RECV:
    case MT_STEP_REDUCE:
    case MT_STEP_ROUND: return (struct span){step->buffer, step->offset, step->offset + step->count};
    }
    return (struct span){0};
}

/* The range that a step reads and does not write. */
static struct span only_read(const struct mt_step *step) {
    bool reads = step->kind == MT_STEP_SEND || step->kind == MT_STEP_COPY || step->kind == MT_STEP_ADD;
    return reads ? (struct span){step->buffer, step->offset, step->offset + step->count} : (struct span){0};
}

static bool overlap(struct span a, struct span b) {
    return a.buffer == b.buffer && a.begin < b.end && b.begin < a.end;
}

/* Whether `writer` writes what `other` reads or writes. */
static bool touches(const struct mt_step *writer, const struct mt_step *other) {
    return overlap(written(writer), written(other)) || overlap(written(writer), only_read(other));
}

/* Whether both steps write one and the same range, and share nothing else. */
static bool same_range(const struct mt_step *a, const struct mt_step *b) {
    struct span x = written(a), y = written(b);
    return x.buffer == y.buffer && x.begin == y.begin && x.end == y.end && !overlap(x, only_read(b)) &&
           !overlap(y, only_read(a));
}

static char *place(const struct job *job, int buffer, int64_t element) {
    return job->buffer[buffer] + element * mt_type_size(job->problem->acc);
}

static int64_t segment_count(const struct job *job, const struct flow *flow, int segment) {
    int64_t left = flow->step->count - segment * job->segment;
    return left < job->segment ? left : job->segment;
}

static char *staged(const struct job *job, const struct flow *flow, int segment) {
    return flow->staging + segment % flow->window * job->segment * mt_type_size(job->problem->wire);
}

/* The buffer of a segment for MPI. */
static void *wire_place(const struct job *job, const struct flow *flow, int segment) {
    if (flow->staging) return staged(job, flow, segment);
    return place(job, flow->step->buffer, flow->step->offset + segment * job->segment);
}

/* Set what flow i has to wait for. */
static void order_flow(struct flow *flows, int nflows, int i) {
    struct flow *flow = &flows[i];
    const struct mt_step *step = flow->step;
    for (int j = i - 1; j >= 0 && flow->after < 0; j--) {
        const struct mt_step *other = flows[j].step;
        if (is_message(step) && is_message(other) && step->peer == other->peer &&
            (step->kind == MT_STEP_SEND) == (other->kind == MT_STEP_SEND))
            flow->after = j;
    }
    if (step->kind == MT_STEP_SEND) {
        for (int j = 0; j < nflows && !flow->snapshot; j++) flow->snapshot = touches(flows[j].step, step);
        return;
    }
    for (int j = i - 1; j >= 0; j--) {
        const struct mt_step *other = flows[j].step;
        if (other->kind == MT_STEP_SEND || (!touches(step, other) && !touches(other, step))) continue;
        if (!same_range(step, other))
            flow->last = true;
        else if (flow->follows < 0)
            flow->follows = j;
    }
}

static char *grow_bytes(char *memory, int64_t *capacity, int64_t size_bytes) {
    if (size_bytes <= *capacity) return memory;
    free(memory); /* the content is not needed */
    *capacity = size_bytes;
    return mt_malloc((size_t)size_bytes);
}

static bool wants_staging(const struct job *job, const struct flow *flow) {
    switch (flow->step->kind) {
    case MT_STEP_SEND: return flow->snapshot || job->problem->wire != job->problem->acc;
    case MT_STEP_RECV: return flow->follows >= 0 || flow->last || job->problem->wire != job->problem->acc;
    case MT_STEP_REDUCE: return true;
    case MT_STEP_COPY:
    case MT_STEP_ADD:
    case MT_STEP_ROUND: break;
    }
    return false;
}

static void grow_requests(struct mpi *mpi, int count) {
    if (count <= mpi->requests_capacity) return;
    size_t capacity = 2 * (size_t)count;
    mpi->requests_capacity = (int)capacity;
    mpi->requests = mt_realloc(mpi->requests, capacity * sizeof *mpi->requests);
    mpi->arrived = mt_realloc(mpi->arrived, capacity * sizeof *mpi->arrived);
    mpi->indices = mt_realloc(mpi->indices, capacity * sizeof *mpi->indices);
}

/* Make the round's flows, requests and staging. */
static void set_up(struct job *job, const struct mt_step *steps, int nsteps) {
    struct mpi *mpi = job->mpi;
    const struct mt_coll *problem = job->problem;
    int64_t segment_bytes = job->segment * mt_type_size(problem->wire), staging_bytes = 0;
    if (nsteps > mpi->flows_capacity) {
        mpi->flows_capacity = 2 * nsteps;
        mpi->flows = mt_realloc(mpi->flows, (size_t)mpi->flows_capacity * sizeof *mpi->flows);
    }
    int window = BUDGET / nsteps < LEAST_WINDOW ? LEAST_WINDOW : BUDGET / nsteps;
    if (window > LARGEST_WINDOW) window = LARGEST_WINDOW;
    job->nflows = nsteps, job->nrequests = 0;
    for (int i = 0; i < nsteps; i++) {
        int nsegments = (int)((steps[i].count + job->segment - 1) / job->segment);
        mpi->flows[i] = (struct flow){.step = &steps[i], .nsegments = nsegments, .after = -1, .follows = -1};
    }
    for (int i = 0; i < nsteps; i++) {
        struct flow *flow = &mpi->flows[i];
        order_flow(mpi->flows, nsteps, i);
        flow->window = flow->snapshot || flow->nsegments < window ? flow->nsegments : window;
        if (wants_staging(job, flow)) staging_bytes += flow->window * segment_bytes;
        if (!is_message(flow->step)) continue;
        flow->request = job->nrequests;
        job->nrequests += flow->window;
    }
    grow_requests(mpi, job->nrequests);
    for (int r = 0; r < job->nrequests; r++) mpi->requests[r] = MPI_REQUEST_NULL, mpi->arrived[r] = false;
    mpi->staging = grow_bytes(mpi->staging, &mpi->staging_capacity, staging_bytes);
    char *staging = mpi->staging;
    for (int i = 0; i < nsteps; i++) {
        struct flow *flow = &mpi->flows[i];
        if (!wants_staging(job, flow)) continue;
        flow->staging = staging;
        staging += flow->window * segment_bytes;
        if (flow->snapshot)
            mt_type_convert(problem->wire, flow->staging, problem->acc,
                            place(job, flow->step->buffer, flow->step->offset), flow->step->count);
    }
}

static enum mt_status fail_mpi(struct mt_err *err, int code) {
    char text[MPI_MAX_ERROR_STRING];
    int length;
    MPI_Error_string(code, text, &length);
    return mt_fail(err, MT_EPEER, "MPI: %s", text);
}

/* Post as many segments as the flow's window allows. */
static enum mt_status post(struct job *job, struct flow *flow, struct mt_err *err) {
    struct mpi *mpi = job->mpi;
    const struct mt_step *step = flow->step;
    if (flow->after >= 0 && mpi->flows[flow->after].posted < mpi->flows[flow->after].nsegments) return MT_OK;
    for (; flow->posted < flow->nsegments && flow->posted - flow->applied < flow->window; flow->posted++) {
        int segment = flow->posted, peer = job->group[step->peer], code;
        int64_t count = segment_count(job, flow, segment);
        int bytes = (int)(count * mt_type_size(job->problem->wire));
        void *data = wire_place(job, flow, segment);
        MPI_Request *request = &mpi->requests[flow->request + segment % flow->window];
        if (step->kind == MT_STEP_SEND) {
            if (flow->staging && !flow->snapshot)
                mt_type_convert(job->problem->wire, data, job->problem->acc,
                                place(job, step->buffer, step->offset + segment * job->segment), count);
            code = MPI_Isend(data, bytes, MPI_BYTE, peer, job->tag, mpi->mpi, request);
        } else {
            code = MPI_Irecv(data, bytes, MPI_BYTE, peer, job->tag, mpi->mpi, request);
        }
        if (code) return fail_mpi(err, code);
    }
    return MT_OK;
}

/* Whether all that must be applied before this segment has been. */
static bool in_turn(const struct job *job, int i, int segment) {
    const struct flow *flows = job->mpi->flows, *flow = &flows[i];
    if (flow->follows >= 0 && flows[flow->follows].applied <= segment) return false;
    if (flow->last)
        for (int j = 0; j < i; j++)
            if (flows[j].step->kind != MT_STEP_SEND && flows[j].applied < flows[j].nsegments) return false;
    return true;
}

static void apply_segment(const struct job *job, const struct flow *flow, int segment) {
    const struct mt_coll *problem = job->problem;
    const struct mt_step *step = flow->step;
    int64_t at = segment * job->segment, count = segment_count(job, flow, segment);
    char *here = place(job, step->buffer, step->offset + at);
    switch (step->kind) {
    case MT_STEP_SEND: break;
    case MT_STEP_RECV:
        if (flow->staging) mt_type_convert(problem->acc, here, problem->wire, staged(job, flow, segment), count);
        break;
    case MT_STEP_REDUCE:
        mt_coll_reduce(problem->reduce, problem->acc, here, problem->wire, staged(job, flow, segment), count);
        break;
    case MT_STEP_COPY:
        mt_type_convert(problem->acc, place(job, step->to_buffer, step->to + at), problem->acc, here, count);
        break;
    case MT_STEP_ADD:
        mt_coll_reduce(problem->reduce, problem->acc, place(job, step->to_buffer, step->to + at), problem->acc, here,
                       count);
        break;
    case MT_STEP_ROUND: mt_coll_round(problem->wire, problem->acc, here, count); break;
    }
}

/* Apply the segments that have arrived and are in turn. Returns whether there were any. */
static bool apply(struct job *job, int i) {
    struct flow *flow = &job->mpi->flows[i];
    bool any = false;
    for (; flow->applied < flow->nsegments; flow->applied++, any = true) {
        bool *arrived = NULL;
        if (is_message(flow->step)) {
            arrived = &job->mpi->arrived[flow->request + flow->applied % flow->window];
            if (flow->applied == flow->posted || !*arrived) break;
        }
        if (!in_turn(job, i, flow->applied)) break;
        apply_segment(job, flow, flow->applied);
        if (arrived) *arrived = false;
    }
    return any;
}

/* MT_ESTALL with the ranks that are waited for. */
static enum mt_status stall(struct job *job, struct mt_err *err) {
    struct mpi *mpi = job->mpi;
    char peers[256] = "";
    size_t used = 0;
    for (int i = 0; i < job->nflows; i++) {
        const struct flow *flow = &mpi->flows[i];
        if (!is_message(flow->step) || flow->applied == flow->nsegments || used + 16 > sizeof peers) continue;
        bool named = false;
        for (int j = 0; j < i; j++)
            named |= is_message(mpi->flows[j].step) && mpi->flows[j].step->peer == flow->step->peer &&
                     mpi->flows[j].applied < mpi->flows[j].nsegments;
        int peer = mt_comm_rank_name(&mpi->comm, job->group[flow->step->peer]);
        if (!named) used += (size_t)snprintf(peers + used, sizeof peers - used, " %d", peer);
    }
    return mt_fail(err, MT_ESTALL, "%s: rank %d has made no progress for %g s; it waits for rank%s%s",
                   mt_coll_name(job->problem->kind), mt_comm_rank_name(&mpi->comm, mpi->comm.rank), job->deadline_s,
                   strchr(peers + 1, ' ') ? "s" : "", peers);
}

/* Give up. Staging of messages in flight is not freed, since MPI may still write to it. */
static void abandon(struct job *job) {
    struct mpi *mpi = job->mpi;
    for (int i = 0; i < job->nflows; i++)
        for (int r = 0; is_message(mpi->flows[i].step) && r < mpi->flows[i].window; r++) {
            MPI_Request *request = &mpi->requests[mpi->flows[i].request + r];
            if (*request == MPI_REQUEST_NULL) continue;
            if (mpi->flows[i].step->kind != MT_STEP_SEND) MPI_Cancel(request);
            MPI_Request_free(request);
        }
    mpi->staging = NULL;
    mpi->staging_capacity = 0;
    mpi->broken = true;
}

/* Poll for a while, then sleep; `idle_s`: time without progress. Once the other ranks have arrived, a rank that sleeps
 * delays them all and makes them sleep too. So polling then goes on for long_spin_s, which is longer than the kernel
 * takes to reschedule a thread whose core another thread uses. */
static void pause_for(const struct job *job, double idle_s) {
    double sleep_s = job->met && idle_s < long_spin_s ? 0 : mt_comm_backoff_s(idle_s, mt_comm_computes());
    if (sleep_s > 0)
        mt_sleep_s(sleep_s);
    else
        sched_yield();
}

/* Whether one of the completed requests is a receive. */
static bool received(const struct job *job) {
    for (int i = 0; i < job->nflows; i++) {
        const struct flow *flow = &job->mpi->flows[i];
        if (flow->step->kind != MT_STEP_RECV && flow->step->kind != MT_STEP_REDUCE) continue;
        for (int r = 0; r < flow->window; r++)
            if (job->mpi->arrived[flow->request + r]) return true;
    }
    return false;
}

/* Run the round that has been set up. */
static enum mt_status run_round(struct job *job, struct mt_err *err) {
    struct mpi *mpi = job->mpi;
    struct mt_awake idle = {0};
    mt_awake_check(&idle, 1);
    for (;;) {
        bool any = false, complete = true;
        for (int i = 0; i < job->nflows; i++) {
            any |= apply(job, i);
            if (is_message(mpi->flows[i].step)) {
                enum mt_status st = post(job, &mpi->flows[i], err);
                if (st) return st;
            }
            complete &= mpi->flows[i].applied == mpi->flows[i].nsegments;
        }
        if (complete) return MT_OK;
        int ndone = 0;
        if (job->nrequests) {
            int code = MPI_Testsome(job->nrequests, mpi->requests, &ndone, mpi->indices, MPI_STATUSES_IGNORE);
            if (code) return fail_mpi(err, code);
        }
        for (int d = 0; d < ndone; d++) mpi->arrived[mpi->indices[d]] = true;
        job->met = job->met || (ndone > 0 && received(job));
        mt_awake_check(&idle, 1);
        if (any || ndone > 0) {
            idle.awake_s = 0;
            continue;
        }
        if (idle.awake_s > job->deadline_s) return stall(job, err);
        pause_for(job, idle.awake_s);
    }
}

static enum mt_status run(struct mt_comm *comm, const struct mt_coll *problem, const struct mt_schedule *schedule,
                          const int *group, void *const buffer[2], int tag, double deadline_s, struct mt_err *err) {
    struct mpi *mpi = (struct mpi *)comm;
    if (mpi->broken) return mt_fail(err, MT_EPEER, "%s: an earlier collective failed", mt_coll_name(problem->kind));
    mpi->scratch =
        grow_bytes(mpi->scratch, &mpi->scratch_capacity, schedule->scratch_count * mt_type_size(problem->acc));
    struct job job = {mpi,
                      problem,
                      group,
                      {buffer[0], buffer[1], mpi->scratch},
                      tag,
                      .deadline_s = deadline_s,
                      .segment = SEGMENT_BYTES / mt_type_size(problem->wire)};
    for (int round = 0, begin = 0; round < schedule->nrounds; begin = schedule->round_end[round++]) {
        set_up(&job, &schedule->steps[begin], schedule->round_end[round] - begin);
        enum mt_status st = run_round(&job, err);
        if (st) {
            abandon(&job);
            return st;
        }
    }
    return MT_OK;
}

static void release(struct mt_comm *comm) {
    struct mpi *mpi = (struct mpi *)comm;
    if (!mpi->broken) MPI_Comm_free(&mpi->mpi);
    free(mpi->flows);
    free(mpi->requests);
    free(mpi->arrived);
    free(mpi->indices);
    free(mpi->staging);
    free(mpi->scratch);
    free(mpi);
}

static enum mt_status expose(struct mt_comm *comm, void *memory, int64_t size_bytes, struct mt_rma **rma,
                             struct mt_err *err) {
    return mt_mpi_expose(((struct mpi *)comm)->mpi, memory, size_bytes, rma, err);
}

static const struct mt_comm_class mpi_class = {.name = "mpi", .run = run, .expose = expose, .release = release};

enum mt_status mt_comm_mpi_new(const void *mpi_comm, struct mt_comm **comm, struct mt_err *err) {
    struct mpi *mpi = mt_calloc(1, sizeof *mpi);
    mpi->comm.class = &mpi_class;
    MPI_Comm of;
    memcpy(&of, mpi_comm, sizeof of);
    int code = MPI_Comm_dup(of, &mpi->mpi);
    if (code) {
        free(mpi);
        return fail_mpi(err, code);
    }
    MPI_Comm_set_errhandler(mpi->mpi, MPI_ERRORS_RETURN);
    MPI_Comm_rank(mpi->mpi, &mpi->comm.rank);
    MPI_Comm_size(mpi->mpi, &mpi->comm.nranks);
    *comm = &mpi->comm;
    return MT_OK;
}
