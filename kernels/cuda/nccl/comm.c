/* Communicators over NCCL: creation, asynchronous errors, release, and abort.
 *
 * NCCL's communicators are non-blocking: it returns "in progress" instead of waiting for other ranks, so that every
 * wait here has a deadline. ncclCommAbort and ncclCommDestroy may block all the same: a thread calls them, and is
 * waited for with a timeout. */
#include "kernels/cuda/nccl/comm.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/arena.h"
#include "kernels/base/wait.h"
#include "kernels/cuda/nccl/internal.h"

_Static_assert(sizeof(ncclUniqueId) == MT_COMM_NCCL_ID_BYTES, "the size of NCCL's unique id");

/* Answers usually come at once: it polls for poll_s, then sleeps between looks. */
static const double poll_s = 1e-3, nap_s = 50e-6;
/* Timeouts of ncclCommDestroy and ncclCommAbort, which need no answers of other ranks, but take time. */
static const double leave_s = 10, abort_s = 2;

/* All communicators, for those who wait for a stream and know none. */
static struct nccl *all;
static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;

enum mt_status cuda_nccl_fail(struct mt_err *err, ncclResult_t result, const char *what) {
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

/* ---- waiting for answers ---- */

enum mt_status cuda_nccl_wait(struct nccl *nccl, ncclComm_t comm, ncclResult_t result, const char *what,
                              struct mt_err *err) {
    struct mt_awake awake = {0};
    while (result == ncclInProgress) {
        ncclResult_t asked = ncclCommGetAsyncError(comm, &result);
        if (asked) result = asked;
        double waited_s = mt_awake_check(&awake, 1);
        if (result != ncclInProgress) break;
        if (waited_s >= nccl->deadline_s) {
            nccl->broken = true;
            return mt_fail(err, MT_ESTALL, "NCCL: %s: no answer from the other ranks for %g s", what, nccl->deadline_s);
        }
        if (waited_s > poll_s) mt_sleep_s(nap_s);
    }
    if (!result) return MT_OK;
    nccl->broken = true;
    return cuda_nccl_fail(err, result, what);
}

enum mt_status cuda_nccl_join(struct nccl *nccl, const ncclUniqueId *id, int rank, int nranks, ncclComm_t *comm,
                              struct mt_err *err) {
    /* NCCL chooses how many multiprocessors it takes. On two H100s, with 4 blocks of it (maxCTAs), GEMMs concurrent
     * with an AllReduce are slowed by 13 to 19% instead of 21 to 29%, but for two to three times as long: a byte costs
     * more. */
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclResult_t result = ncclCommInitRankConfig(comm, nranks, *id, rank, &config);
    return cuda_nccl_wait(nccl, *comm, result, "ncclCommInitRankConfig", err);
}

/* ---- asynchronous errors ---- */

static enum mt_status check_one(struct nccl *nccl, ncclComm_t comm, struct mt_err *err) {
    ncclResult_t state, asked = ncclCommGetAsyncError(comm, &state);
    if (asked) state = asked;
    if (state == ncclSuccess || state == ncclInProgress) return MT_OK;
    nccl->broken = true;
    return cuda_nccl_fail(err, state, "an earlier collective");
}

static enum mt_status check(struct nccl *nccl, struct mt_err *err) {
    enum mt_status st = check_one(nccl, nccl->world, err);
    for (struct cuda_nccl_group *g = nccl->groups; g && !st; g = g->next) st = check_one(nccl, g->nccl, err);
    if (!st && (st = cuda_engines_check(nccl->engines, err))) nccl->broken = true;
    return st;
}

enum mt_status cuda_nccl_check_all(struct mt_err *err) {
    enum mt_status st = MT_OK;
    pthread_mutex_lock(&all_lock);
    for (struct nccl *nccl = all; nccl && !st; nccl = nccl->next)
        if (nccl->world) st = check(nccl, err);
    pthread_mutex_unlock(&all_lock);
    return st;
}

/* ---- release and abort ---- */

/* NCCL's communicators that a thread destroys or aborts. It waits until no graph has their work, and NCCL's service
 * threads until the peers of this host have left, or aborted: so it may end much later. If it gets stuck, this is never
 * freed. */
struct cuda_nccl_leaving {
    ncclResult_t (*leave)(ncclComm_t);
    int count;
    ncclComm_t *comms;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool left;
};
static atomic_int nleaving; /* threads */

bool cuda_nccl_is_leaving(void) {
    return atomic_load(&nleaving) > 0;
}

/* Since 2.22 a group of aborts tells all communicators before it waits for one, which another's kernels may hold up. */
static bool aborts_in_groups(void) {
    int version = 0;
    return !ncclGetVersion(&version) && version >= NCCL_VERSION(2, 22, 0);
}

static void *leave(void *argument) {
    struct cuda_nccl_leaving *l = argument;
    bool together = l->leave == ncclCommAbort && aborts_in_groups();
    if (together) ncclGroupStart();
    for (int i = 0; i < l->count; i++) l->leave(l->comms[i]);
    if (together) ncclGroupEnd();
    atomic_fetch_sub(&nleaving, 1);
    pthread_mutex_lock(&l->lock);
    l->left = true;
    pthread_cond_signal(&l->changed);
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* Takes all of NCCL's communicators out of this one. */
static struct cuda_nccl_leaving *take_all(struct nccl *nccl, ncclResult_t (*how)(ncclComm_t)) {
    struct cuda_nccl_leaving *l = mt_calloc(1, sizeof *l);
    int count = nccl->world != NULL;
    for (struct cuda_nccl_group *g = nccl->groups; g; g = g->next) count++;
    l->leave = how;
    l->comms = mt_calloc((size_t)count + 1, sizeof(ncclComm_t));
    pthread_mutex_init(&l->lock, NULL);
    mt_cond_init(&l->changed);
    cuda_nccl_forget_order(nccl);
    while (nccl->groups) {
        struct cuda_nccl_group *g = nccl->groups;
        nccl->groups = g->next;
        l->comms[l->count++] = g->nccl;
        free(g);
    }
    if (nccl->world) l->comms[l->count++] = nccl->world;
    nccl->world = NULL;
    return l;
}

static void start_leaving(struct cuda_nccl_leaving *l) {
    pthread_t thread;
    atomic_fetch_add(&nleaving, 1);
    if (!pthread_create(&thread, NULL, leave, l))
        pthread_detach(thread);
    else
        atomic_fetch_sub(&nleaving, 1);
}

/* Returns whether all of NCCL's communicators have left in time, those too that began to earlier. */
static bool leave_by(struct nccl *nccl, ncclResult_t (*how)(ncclComm_t), double most_s) {
    double until_s = mt_now_s() + most_s;
    if (nccl->world) start_leaving(nccl->leaving = take_all(nccl, how));
    struct cuda_nccl_leaving *l = nccl->leaving;
    if (!l) return true;
    pthread_mutex_lock(&l->lock);
    while (!l->left && !mt_cond_wait_until(&l->changed, &l->lock, until_s)) continue;
    bool left = l->left;
    pthread_mutex_unlock(&l->lock);
    if (!left) return false;
    free(l->comms);
    free(l);
    nccl->leaving = NULL;
    return true;
}

void cuda_nccl_abort_all(void) {
    pthread_mutex_lock(&all_lock);
    for (struct nccl *nccl = all; nccl; nccl = nccl->next) {
        nccl->broken = true;
        cuda_engines_abort(nccl->engines);
        if (nccl->world) leave_by(nccl, ncclCommAbort, abort_s);
    }
    pthread_mutex_unlock(&all_lock);
}

/* Flushes what was enqueued: first it begins for all communicators, then waits for all. */
static void finalize(struct nccl *nccl) {
    struct mt_err ignored = MT_ERR_INIT;
    ncclResult_t world = ncclCommFinalize(nccl->world);
    if (nccl->deadline_s > leave_s) nccl->deadline_s = leave_s;
    for (struct cuda_nccl_group *g = nccl->groups; g; g = g->next) {
        ncclResult_t result = ncclCommFinalize(g->nccl);
        if (!nccl->broken) cuda_nccl_wait(nccl, g->nccl, result, "ncclCommFinalize", &ignored);
    }
    if (!nccl->broken) cuda_nccl_wait(nccl, nccl->world, world, "ncclCommFinalize", &ignored);
}

static void release(struct mt_comm *comm) {
    struct nccl *nccl = (struct nccl *)comm, **place = &all;
    pthread_mutex_lock(&all_lock);
    while (*place && *place != nccl) place = &(*place)->next;
    if (*place) *place = nccl->next;
    pthread_mutex_unlock(&all_lock);
    cuda_nccl_forget_order(nccl);
    if (!nccl->broken) cuda_engines_free(nccl->engines); /* else a kernel may still look at its words */
    if (nccl->world && !nccl->broken) finalize(nccl);
    bool left = nccl->broken ? leave_by(nccl, ncclCommAbort, abort_s) : leave_by(nccl, ncclCommDestroy, leave_s);
    while (nccl->stages) {
        struct cuda_nccl_stage *s = nccl->stages;
        nccl->stages = s->next;
        if (left) cuMemFree(s->memory);
        free(s);
    }
    free(nccl);
}

/* ---- the class ---- */

/* After work was enqueued: its status, or an asynchronous error. */
static enum mt_status queued(struct nccl *nccl, enum mt_status st, struct mt_err *err) {
    if (!st) st = check(nccl, err);
    if (st) nccl->broken = true;
    return st;
}

/* Before work is enqueued. */
static enum mt_status prepare(struct nccl *nccl, const struct cuda_queue *queue, const char *what, struct mt_err *err) {
    if (!nccl->broken && nccl->world) return cuda_nccl_keep_order(nccl, queue, err);
    return mt_fail(err, MT_EPEER, "%s: an earlier collective did not end", what);
}

static enum mt_status queue_on(struct mt_comm *comm, const void *stream, const struct mt_coll *problem,
                               const struct mt_schedule *schedule, const int *group, void *const buffer[2], int tag,
                               struct mt_err *err) {
    (void)tag; /* NCCL matches collectives by their order, and has schedules of its own, but none that knows nodes */
    struct nccl *nccl = (struct nccl *)comm;
    enum mt_status st = prepare(nccl, stream, mt_coll_name(problem->kind), err);
    return st ? st : queued(nccl, cuda_nccl_problem(nccl, stream, problem, schedule, group, buffer, err), err);
}

static enum mt_status queue_arrays(struct mt_comm *comm, const void *stream, const struct mt_coll *problem,
                                   const int *group, const struct mt_comm_arrays *arrays, struct mt_err *err) {
    struct nccl *nccl = (struct nccl *)comm;
    enum mt_status st = prepare(nccl, stream, mt_coll_name(problem->kind), err);
    return st ? st : queued(nccl, cuda_nccl_arrays(nccl, stream, problem, group, arrays, err), err);
}

enum mt_status cuda_nccl_exchange(struct mt_comm *comm, const struct cuda_queue *queue,
                                  const struct cuda_nccl_message *messages, int count, const char *what,
                                  struct mt_err *err) {
    struct nccl *nccl = (struct nccl *)comm;
    enum mt_status st = prepare(nccl, queue, what, err);
    return st ? st : queued(nccl, cuda_nccl_messages(nccl, queue, messages, count, what, err), err);
}

static bool prefers_roots(struct mt_comm *comm, const struct mt_coll *problem, const int *group) {
    struct nccl *nccl = (struct nccl *)comm;
    return cuda_engines_serve(nccl->engines, problem, group) || cuda_nccl_impl_of(nccl, problem) == MT_NCCL_ROOTED;
}

/* ---- copy engines ---- */

static enum mt_status window_bytes(struct mt_comm *comm, int64_t *size_bytes, struct mt_err *err) {
    const char *how = getenv("MOTLEY_COLLECTIVES");
    bool engines = how && !strcmp(how, "engines");
    *size_bytes = engines && !((struct nccl *)comm)->engines ? cuda_engines_window_bytes(comm->nranks) : 0;
    if (!how || engines || !strcmp(how, "nccl")) return MT_OK;
    return mt_fail(err, MT_EINPUT, "MOTLEY_COLLECTIVES is \"%s\", not \"nccl\" or \"engines\"", how);
}

static enum mt_status use_window(struct mt_comm *comm, struct mt_window *window, struct mt_err *err) {
    struct nccl *nccl = (struct nccl *)comm;
    struct cuda_engines *engines = NULL, *were;
    enum mt_status st = window ? cuda_engines_make(window, &engines, err) : MT_OK;
    pthread_mutex_lock(&all_lock);
    were = nccl->engines, nccl->engines = engines;
    pthread_mutex_unlock(&all_lock);
    if (!nccl->broken) cuda_engines_free(were); /* as in release() */
    return st;
}

static const struct mt_comm_class nccl_class = {.name = "nccl",
                                                .queue = queue_on,
                                                .queue_arrays = queue_arrays,
                                                .prefers_roots = prefers_roots,
                                                .window_bytes = window_bytes,
                                                .use_window = use_window,
                                                .release = release};

enum mt_status cuda_nccl_id(void *id, struct mt_err *err) {
    ncclResult_t result = ncclGetUniqueId(id);
    return result ? cuda_nccl_fail(err, result, "ncclGetUniqueId") : MT_OK;
}

enum mt_status cuda_nccl_new(const void *id, int rank, int nranks, double deadline_s, struct mt_comm **comm,
                             struct mt_err *err) {
    ncclUniqueId unique;
    struct nccl *nccl = mt_calloc(1, sizeof *nccl);
    memcpy(&unique, id, sizeof unique);
    nccl->comm = (struct mt_comm){.class = &nccl_class, .rank = rank, .nranks = nranks};
    nccl->deadline_s = deadline_s;
    if (cuda_nccl_join(nccl, &unique, rank, nranks, &nccl->world, err)) {
        release(&nccl->comm);
        return err->status;
    }
    pthread_mutex_lock(&all_lock);
    nccl->next = all;
    all = nccl;
    pthread_mutex_unlock(&all_lock);
    *comm = &nccl->comm;
    return MT_OK;
}

void cuda_nccl_impl(struct mt_comm *comm, enum mt_nccl_impl impl) {
    ((struct nccl *)comm)->impl = impl;
}
