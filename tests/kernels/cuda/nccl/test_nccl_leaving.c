/* The end of communicators, over a stand-in for NCCL that waits as NCCL 2.28 does: an abort or a destruction ends when
 * no graph has work of the communicator, and its peers have left. A communicator with one of a group, whose work was
 * captured: all of NCCL's are told at once, none waits for a graph of ours, and one that waits for a caller's graph is
 * waited for when it is freed. */
#include <pthread.h>
#include <stdlib.h>

#include "tests/check.h"

#ifndef MOTLEY_CUDA
int main(void) {
    printf("skipped: built without CUDA\n");
    return 77;
}
#else
#include "kernels/cuda/nccl/internal.h"

/* ---- what stands in for NCCL ---- */

struct ncclComm {
    int graphs; /* with its work */
    bool told, ended;
};
enum { WORLD, GROUP, NCOMMS };
static struct ncclComm comms[NCOMMS];
static int made;
static bool peers_have_left;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static _Thread_local int depth, nqueued;
static _Thread_local ncclComm_t queued[NCOMMS];

static void end(ncclComm_t comm) {
    pthread_mutex_lock(&lock);
    while (comm->graphs || !peers_have_left) pthread_cond_wait(&changed, &lock);
    comm->ended = true;
    pthread_mutex_unlock(&lock);
}

ncclResult_t ncclGroupStart(void) {
    depth++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void) {
    if (--depth) return ncclSuccess;
    for (; nqueued; nqueued--) end(queued[nqueued - 1]);
    return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
    pthread_mutex_lock(&lock);
    CHECK(!comm->told);
    comm->told = true;
    pthread_mutex_unlock(&lock);
    if (depth)
        queued[nqueued++] = comm;
    else
        end(comm);
    return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
    return ncclCommAbort(comm);
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
    CHECK_EQ(comm->graphs, 0);
    return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank, ncclConfig_t *config) {
    (void)nranks, (void)id, (void)rank, (void)config;
    *comm = &comms[made++];
    **comm = (struct ncclComm){0};
    return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *result) {
    CHECK(!comm->ended);
    return *result = ncclSuccess;
}

ncclResult_t ncclGetVersion(int *version) {
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
    (void)id;
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result) {
    (void)result;
    return "";
}

const char *ncclGetLastError(ncclComm_t comm) {
    (void)comm;
    return "";
}

/* ---- and for what moves messages; graphs of ours are communicators that they have work of ---- */

static void destroy(CUgraph *graph) {
    pthread_mutex_lock(&lock);
    if (*graph) ((ncclComm_t)*graph)->graphs--;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    *graph = NULL;
}

void cuda_nccl_forget_order(struct nccl *nccl) {
    destroy(&nccl->graph);
    for (struct cuda_nccl_group *g = nccl->groups; g; g = g->next) destroy(&g->graph);
}

enum mt_status cuda_nccl_keep_order(struct nccl *nccl, const struct cuda_queue *queue, struct mt_err *err) {
    (void)nccl, (void)queue, (void)err;
    return MT_OK;
}

enum mt_status cuda_nccl_problem(struct nccl *nccl, const struct cuda_queue *queue, const struct mt_coll *problem,
                                 const struct mt_schedule *schedule, const int *group, void *const buffer[2],
                                 struct mt_err *err) {
    (void)nccl, (void)queue, (void)problem, (void)schedule, (void)group, (void)buffer, (void)err;
    return MT_OK;
}

enum mt_status cuda_nccl_arrays(struct nccl *nccl, const struct cuda_queue *queue, const struct mt_coll *problem,
                                const int *group, const struct mt_comm_arrays *arrays, struct mt_err *err) {
    (void)nccl, (void)queue, (void)problem, (void)group, (void)arrays, (void)err;
    return MT_OK;
}

enum mt_status cuda_nccl_messages(struct nccl *nccl, const struct cuda_queue *queue,
                                  const struct cuda_nccl_message *messages, int count, const char *what,
                                  struct mt_err *err) {
    (void)nccl, (void)queue, (void)messages, (void)count, (void)what, (void)err;
    return MT_OK;
}

enum mt_nccl_impl cuda_nccl_impl_of(const struct nccl *nccl, const struct mt_coll *problem) {
    (void)nccl, (void)problem;
    return MT_NCCL_AUTO;
}

int64_t cuda_engines_window_bytes(int nranks) {
    (void)nranks;
    return 0;
}

enum mt_status cuda_engines_make(struct mt_window *window, struct cuda_engines **engines, struct mt_err *err) {
    (void)window, (void)engines, (void)err;
    return MT_OK;
}

bool cuda_engines_serve(const struct cuda_engines *engines, const struct mt_coll *problem, const int *group) {
    (void)engines, (void)problem, (void)group;
    return false;
}

enum mt_status cuda_engines_check(struct cuda_engines *engines, struct mt_err *err) {
    (void)engines, (void)err;
    return MT_OK;
}

void cuda_engines_abort(struct cuda_engines *engines) {
    (void)engines;
}

void cuda_engines_free(struct cuda_engines *engines) {
    (void)engines;
}

CUresult cuMemFree(CUdeviceptr memory) {
    (void)memory;
    return CUDA_SUCCESS;
}

/* ---- trials ---- */

static struct mt_err err = MT_ERR_INIT;

/* A communicator and one of a group; both have a graph of ours. */
static struct mt_comm *make(void) {
    char id[MT_COMM_NCCL_ID_BYTES] = "";
    ncclUniqueId unique = {.internal = ""};
    struct mt_comm *comm;
    made = 0;
    CHECK_OK(cuda_nccl_new(id, 0, 2, 60, &comm, &err), err);
    struct nccl *nccl = (struct nccl *)comm;
    struct cuda_nccl_group *g = calloc(1, sizeof *g);
    CHECK_OK(cuda_nccl_join(nccl, &unique, 0, 2, &g->nccl, &err), err);
    nccl->groups = g;
    comms[WORLD].graphs = comms[GROUP].graphs = 1;
    nccl->graph = (CUgraph)&comms[WORLD], g->graph = (CUgraph)&comms[GROUP];
    return comm;
}

static void check_ended(void) {
    CHECK(comms[WORLD].ended && comms[GROUP].ended && !cuda_nccl_is_leaving());
}

static void test_free(void) {
    struct mt_comm *comm = make();
    peers_have_left = true;
    mt_comm_free(comm);
    check_ended();
}

static void test_abort(void) {
    struct mt_comm *comm = make();
    peers_have_left = true;
    cuda_nccl_abort_all();
    check_ended();
    cuda_nccl_abort_all();
    CHECK_OK(cuda_nccl_check_all(&err), err);
    mt_comm_free(comm);
}

/* What a caller has captured is destroyed after the abort, and the peers leave then; before the communicator is freed.
 */
static void test_late(void) {
    struct mt_comm *comm = make();
    CUgraph captured = (CUgraph)&comms[GROUP];
    comms[GROUP].graphs++;
    peers_have_left = false;
    cuda_nccl_abort_all();
    CHECK(comms[WORLD].told && comms[GROUP].told && cuda_nccl_is_leaving());
    pthread_mutex_lock(&lock);
    CHECK(!comms[WORLD].ended && !comms[GROUP].ended);
    peers_have_left = true;
    pthread_mutex_unlock(&lock);
    destroy(&captured);
    mt_comm_free(comm);
    check_ended();
}

int main(void) {
    test_free();
    test_abort();
    test_late();
    return 0;
}
#endif
