/* Windows of processes: the ranks of a host map one POSIX shared-memory object, and each exposes its part of it to
 * other hosts.
 *
 * The first rank of a host makes the object, at its full size, so that a full /dev/shm is an error here and no signal
 * later; the others map it; then it loses its name, so that nothing is left behind however the job ends. Between these
 * steps the ranks exchange what happened, and fail together. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernels/base/wait.h"
#include "kernels/comm/comm.h"
#include "kernels/window/internal.h"

enum { TAG = 0x3157 }; /* of the messages here: no stream has it */

struct card { /* what ranks tell each other */
    int32_t status;
    int32_t reserved;
    int64_t process;
    char name[32], text[512];
};

struct opening {
    struct mt_comm *comm;
    const int *node;
    int first, nhost; /* the first rank of this host, and how many it has */
    int file;         /* of the object, or -1 */
    double deadline_s;
    struct card *cards; /* [nranks] */
};

static int host_of(const struct opening *o, int rank) {
    return o->node ? o->node[rank] : 0;
}

/* Exchange cards; all fail with the first failure. `made` is this rank's status so far. */
static enum mt_status exchange(struct opening *o, enum mt_status made, struct mt_err *err) {
    int n = o->comm->nranks, me = o->comm->rank;
    int64_t *counts = mt_calloc((size_t)n, sizeof *counts);
    int *group = mt_calloc((size_t)n, sizeof *group);
    for (int r = 0; r < n; r++) counts[r] = (int64_t)(sizeof *o->cards / 4), group[r] = r;
    struct card *mine = &o->cards[me];
    mine->status = made;
    mine->process = getpid();
    snprintf(mine->text, sizeof mine->text, "%.511s", made ? err->text : "");
    struct mt_coll problem = {.kind = MT_ALL_GATHER, .wire = MT_I32, .acc = MT_I32, .n = n, .me = me, .counts = counts};
    struct mt_schedule schedule = MT_SCHEDULE_INIT;
    mt_coll_find(MT_ALL_GATHER, "direct")->schedule(&problem, &schedule);
    void *buffer[2] = {o->cards, NULL};
    struct mt_err failed = MT_ERR_INIT;
    enum mt_status st = mt_comm_run(o->comm, &problem, &schedule, group, buffer, TAG, o->deadline_s, &failed);
    mt_schedule_release(&schedule);
    free(counts);
    free(group);
    if (made) return made;
    if (st) {
        *err = failed;
        return mt_err_context(err, "making a window");
    }
    for (int r = 0; r < n; r++)
        if (o->cards[r].status)
            return mt_fail(err, (enum mt_status)o->cards[r].status, "rank %d: %s", mt_comm_rank_name(o->comm, r),
                           o->cards[r].text);
    return MT_OK;
}

static enum mt_status create(struct opening *o, int64_t size_bytes, struct mt_err *err) {
    char *name = o->cards[o->comm->rank].name;
    for (int attempt = 0;; attempt++) {
        snprintf(name, sizeof o->cards->name, "/motley-%d-%d", (int)getpid(), attempt);
        o->file = shm_open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (o->file >= 0 || errno != EEXIST || attempt == 1000) break;
    }
    if (o->file < 0) {
        name[0] = 0;
        return mt_fail_errno(err, "making shared memory in /dev/shm");
    }
    int code = posix_fallocate(o->file, 0, size_bytes);
    if (!code) return MT_OK;
    errno = code;
    mt_fail_errno(err, "reserving %lld bytes of shared memory in /dev/shm", (long long)size_bytes);
    return mt_err_hint(err, "make room there, or mount it with a larger size (in a container: --shm-size)");
}

static enum mt_status map(struct opening *o, struct mt_window *w, struct mt_err *err) {
    if (o->file < 0) o->file = shm_open(o->cards[o->first].name, O_RDWR | O_CLOEXEC, 0);
    if (o->file < 0) {
        mt_fail_errno(err, "opening the shared memory of rank %d", mt_comm_rank_name(o->comm, o->first));
        return mt_err_hint(err, "ranks of one host must share /dev/shm");
    }
    char *mapping = mmap(NULL, (size_t)w->mapping_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, o->file, 0);
    if (mapping == MAP_FAILED) return mt_fail_errno(err, "mapping shared memory");
    w->mapping = mapping;
    for (int r = 0, place = 0; r < w->nranks; r++)
        if (host_of(o, r) == host_of(o, w->rank)) w->part[r] = mapping + place++ * mt_window_part_bytes(w->size_bytes);
    return MT_OK;
}

/* Say which process this is, if its host's ranks all see each other's processes: in containers they may not. */
static void identify(const struct opening *o, struct mt_window *w) {
    bool seen = true;
    for (int r = 0; r < w->nranks; r++) seen &= !w->part[r] || !kill((pid_t)o->cards[r].process, 0) || errno != ESRCH;
    if (seen) atomic_store(&mt_window_header(w, w->rank)->process, o->cards[w->rank].process);
}

static enum mt_status expose(const struct opening *o, struct mt_window *w, struct mt_err *err) {
    struct mt_rma *rma;
    enum mt_status st = mt_comm_expose(o->comm, w->part[w->rank], mt_window_part_bytes(w->size_bytes), &rma, err);
    if (!st) w->remote = mt_window_remote_new(rma, w->nranks);
    return st;
}

static void drop(struct mt_window *w) {
    if (w->mapping && !w->remote) munmap(w->mapping, (size_t)w->mapping_bytes);
    mt_window_remote_free(w->remote, true);
    free(w->part);
    free(w);
}

enum mt_status mt_window_new(struct mt_comm *comm, const int *node, int64_t size_bytes, double deadline_s,
                             struct mt_window **window, struct mt_err *err) {
    struct opening o = {comm, node, .first = -1, .file = -1, .deadline_s = deadline_s};
    struct mt_window *w = mt_calloc(1, sizeof *w);
    *w = (struct mt_window){
        .rank = comm->rank, .nranks = comm->nranks, .comm = comm, .size_bytes = size_bytes, .deadline_s = deadline_s};
    w->part = mt_calloc((size_t)w->nranks, sizeof *w->part);
    o.cards = mt_calloc((size_t)w->nranks, sizeof *o.cards);
    for (int r = 0; r < w->nranks; r++) {
        if (host_of(&o, r) != host_of(&o, w->rank)) continue;
        if (o.first < 0) o.first = r;
        o.nhost++;
    }
    w->mapping_bytes = o.nhost * mt_window_part_bytes(size_bytes);
    enum mt_status st = o.first == w->rank ? create(&o, w->mapping_bytes, err) : MT_OK;
    st = exchange(&o, st, err);
    if (!st) st = exchange(&o, map(&o, w, err), err);
    char *name = o.cards[w->rank].name;
    if (name[0]) shm_unlink(name);
    if (o.file >= 0) close(o.file);
    if (!st) {
        identify(&o, w);
        st = exchange(&o, o.nhost < w->nranks ? expose(&o, w, err) : MT_OK, err);
    }
    free(o.cards);
    if (st) {
        drop(w);
        return st;
    }
    *window = w;
    return MT_OK;
}
