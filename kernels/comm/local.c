/* Communicators between threads of one process: a mailbox for each ordered pair of ranks, and one lock.
 *
 * A SEND copies its range, rounded to the wire type, into a message and never waits; the receiver takes messages of its
 * tag in the order in which they were sent. So a round is: all sends, then the other steps in the order given. */
#include "kernels/comm/comm.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "kernels/base/wait.h"
#include "kernels/coll/reduce.h"

struct message {
    struct message *next;
    int tag;
    int64_t count;
    enum mt_type type;
    double data[]; /* in the wire's type */
};

struct mailbox { /* from one rank to another */
    struct message *first;
    pthread_cond_t arrived;
};

struct shared { /* by the communicators */
    pthread_mutex_t lock;
    int nranks, users;
    struct mailbox *boxes; /* [to * nranks + from] */
};

struct local {
    struct mt_comm comm;
    struct shared *shared;
};

struct job {
    struct local *local;
    const struct mt_coll *problem;
    const int *group;
    char *buffer[3];
    int tag;
    double deadline_s;
};

static char *range(const struct job *job, int buffer, int64_t offset) {
    return job->buffer[buffer] + offset * mt_type_size(job->problem->acc);
}

static void send(const struct job *job, const struct mt_step *step) {
    const struct mt_coll *problem = job->problem;
    struct shared *shared = job->local->shared;
    struct message *message = mt_malloc(sizeof *message + (size_t)(step->count * mt_type_size(problem->wire)));
    *message = (struct message){.tag = job->tag, .count = step->count, .type = problem->wire};
    mt_type_convert(problem->wire, message->data, problem->acc, range(job, step->buffer, step->offset), step->count);
    struct mailbox *box = &shared->boxes[job->group[step->peer] * shared->nranks + job->local->comm.rank];
    pthread_mutex_lock(&shared->lock);
    struct message **last = &box->first;
    while (*last) last = &(*last)->next;
    *last = message;
    pthread_cond_signal(&box->arrived);
    pthread_mutex_unlock(&shared->lock);
}

/* The next message from the step's peer, or null when none arrives before the deadline. */
static struct message *receive(const struct job *job, const struct mt_step *step) {
    struct shared *shared = job->local->shared;
    struct mailbox *box = &shared->boxes[job->local->comm.rank * shared->nranks + job->group[step->peer]];
    double until_s = mt_now_s() + job->deadline_s;
    struct message *message = NULL;
    pthread_mutex_lock(&shared->lock);
    for (int late = 0;; late = mt_cond_wait_until(&box->arrived, &shared->lock, until_s)) {
        struct message **place = &box->first;
        while (*place && (*place)->tag != job->tag) place = &(*place)->next;
        if ((message = *place)) {
            *place = message->next;
            break;
        }
        if (late == ETIMEDOUT) break;
    }
    pthread_mutex_unlock(&shared->lock);
    return message;
}

static enum mt_status do_step(const struct job *job, const struct mt_step *step, struct mt_err *err) {
    const struct mt_coll *problem = job->problem;
    char *place = range(job, step->buffer, step->offset);
    switch (step->kind) {
    case MT_STEP_SEND: return MT_OK;
    case MT_STEP_COPY:
        mt_type_convert(problem->acc, range(job, step->to_buffer, step->to), problem->acc, place, step->count);
        return MT_OK;
    case MT_STEP_ADD:
        mt_coll_reduce(problem->reduce, problem->acc, range(job, step->to_buffer, step->to), problem->acc, place,
                       step->count);
        return MT_OK;
    case MT_STEP_ROUND: mt_coll_round(problem->wire, problem->acc, place, step->count); return MT_OK;
    case MT_STEP_RECV:
    case MT_STEP_REDUCE: break;
    }
    struct message *message = receive(job, step);
    if (!message)
        return mt_fail(err, MT_ESTALL, "%s: rank %d received nothing from rank %d for %g s",
                       mt_coll_name(problem->kind), job->local->comm.rank, job->group[step->peer], job->deadline_s);
    assert(message->count == step->count && message->type == problem->wire);
    if (step->kind == MT_STEP_RECV)
        mt_type_convert(problem->acc, place, problem->wire, message->data, step->count);
    else
        mt_coll_reduce(problem->reduce, problem->acc, place, problem->wire, message->data, step->count);
    free(message);
    return MT_OK;
}

static enum mt_status run(struct mt_comm *comm, const struct mt_coll *problem, const struct mt_schedule *schedule,
                          const int *group, void *const buffer[2], int tag, double deadline_s, struct mt_err *err) {
    struct job job = {(struct local *)comm, problem, group, {buffer[0], buffer[1], NULL}, tag, deadline_s};
    if (schedule->scratch_count)
        job.buffer[2] = mt_malloc((size_t)(schedule->scratch_count * mt_type_size(problem->acc)));
    enum mt_status st = MT_OK;
    for (int round = 0, at = 0; round < schedule->nrounds && !st; round++) {
        for (int i = at; i < schedule->round_end[round]; i++)
            if (schedule->steps[i].kind == MT_STEP_SEND) send(&job, &schedule->steps[i]);
        for (; at < schedule->round_end[round] && !st; at++) st = do_step(&job, &schedule->steps[at], err);
    }
    free(job.buffer[2]);
    return st;
}

static void release(struct mt_comm *comm) {
    struct local *local = (struct local *)comm;
    struct shared *shared = local->shared;
    pthread_mutex_lock(&shared->lock);
    bool last = --shared->users == 0;
    pthread_mutex_unlock(&shared->lock);
    free(local);
    if (!last) return;
    for (int i = 0; i < shared->nranks * shared->nranks; i++) {
        for (struct message *next, *m = shared->boxes[i].first; m; m = next) {
            next = m->next;
            free(m);
        }
        pthread_cond_destroy(&shared->boxes[i].arrived);
    }
    pthread_mutex_destroy(&shared->lock);
    free(shared->boxes);
    free(shared);
}

static const struct mt_comm_class local_class = {.name = "local", .run = run, .release = release};

void mt_comm_local_new(int nranks, struct mt_comm **comms) {
    struct shared *shared = mt_calloc(1, sizeof *shared);
    shared->nranks = shared->users = nranks;
    shared->boxes = mt_calloc((size_t)nranks * (size_t)nranks, sizeof *shared->boxes);
    pthread_mutex_init(&shared->lock, NULL);
    for (int i = 0; i < nranks * nranks; i++) mt_cond_init(&shared->boxes[i].arrived);
    for (int r = 0; r < nranks; r++) {
        struct local *local = mt_calloc(1, sizeof *local);
        *local = (struct local){{.class = &local_class, .rank = r, .nranks = nranks}, shared};
        comms[r] = &local->comm;
    }
}
