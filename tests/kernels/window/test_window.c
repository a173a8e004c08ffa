/* Windows of threads, and of processes of which one is killed or stopped. Built a second time under ThreadSanitizer
 * (tests/CMakeLists.txt), with the threads alone. */
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/comm/comm.h"
#include "tests/kernels/window/trials.h"

#ifdef MOTLEY_TSAN
enum { EPOCHS = 12, ROUNDS = 6 };
#else
enum { EPOCHS = 40, ROUNDS = 12 };
#endif
static const uint64_t seed = 20261123;

struct part {
    struct mt_window *window;
    int trial;
};

static void *run(void *of) {
    struct part *part = of;
    struct mt_err err = MT_ERR_INIT;
    if (part->trial == 0) trial_exchange(part->window, EPOCHS, seed);
    if (part->trial == 1) trial_barriers(part->window, ROUNDS, seed);
    if (part->trial == 1) trial_relay(part->window, ROUNDS, seed);
#ifndef MOTLEY_TSAN /* puts are plain stores, which others look at */
    if (part->trial == 1) trial_fence(part->window, 2000, seed);
#endif
    if (part->trial == 2) trial_silence(part->window);
    if (part->trial == 3) {
        if (mt_window_rank(part->window)) {
            CHECK_EQ(mt_window_barrier(part->window, &err), MT_EPEER);
            CHECK(strstr(err.text, "rank 0 gave up: out of paper"), "%s", err.text);
        } else {
            mt_sleep_s(0.05);
            mt_window_abort(part->window, "out of paper");
        }
    }
    return NULL;
}

static void threads(int n, int trial, double deadline_s) {
    struct mt_window *windows[TRIAL_RANKS];
    struct part parts[TRIAL_RANKS];
    pthread_t thread[TRIAL_RANKS];
    mt_window_local_new(n, TRIAL_BYTES, deadline_s, windows);
    for (int r = 0; r < n; r++) {
        parts[r] = (struct part){windows[r], trial};
        CHECK(!pthread_create(&thread[r], NULL, run, &parts[r]), "a thread");
    }
    for (int r = 0; r < n; r++) pthread_join(thread[r], NULL);
    for (int r = 0; r < n; r++) mt_window_free(windows[r]);
}

#ifndef MOTLEY_TSAN
/* A communicator of forked processes, enough to make a window: an all_gather through shared memory. */
struct forked {
    struct mt_comm comm;
    pthread_barrier_t *barrier;
    char *board;
};

static enum mt_status forked_run(struct mt_comm *comm, const struct mt_coll *problem,
                                 const struct mt_schedule *schedule, const int *group, void *const buffer[2], int tag,
                                 double deadline_s, struct mt_err *err) {
    struct forked *f = (struct forked *)comm;
    (void)schedule, (void)group, (void)tag, (void)deadline_s, (void)err;
    CHECK(problem->kind == MT_ALL_GATHER, "only these");
    size_t bytes = (size_t)problem->counts[0] * 4;
    memcpy(f->board + (size_t)comm->rank * bytes, (char *)buffer[0] + (size_t)comm->rank * bytes, bytes);
    pthread_barrier_wait(f->barrier);
    memcpy(buffer[0], f->board, (size_t)comm->nranks * bytes);
    pthread_barrier_wait(f->barrier);
    return MT_OK;
}

static const struct mt_comm_class forked_class = {.name = "forked", .run = forked_run};

/* Rank n - 1 works for two epochs, then gets the signal. */
static void lose(int n, int number) {
    struct mt_err err = MT_ERR_INIT;
    char *shared = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED, "memory");
    struct forked f = {{.class = &forked_class, .nranks = n}, (pthread_barrier_t *)(void *)shared, shared + 4096};
    pthread_barrierattr_t attr;
    pthread_barrierattr_init(&attr);
    pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(f.barrier, &attr, (unsigned)n);
    pid_t child[TRIAL_RANKS];
    for (int r = 0; r < n; r++) {
        child[r] = fork();
        CHECK(child[r] >= 0, "fork");
        if (child[r]) continue;
        struct mt_window *w;
        f.comm.rank = r;
        CHECK_OK(mt_window_new(&f.comm, NULL, TRIAL_BYTES, number == SIGKILL ? 600 : 0.5, &w, &err), err);
        trial_exchange(w, 2, seed);
        if (r == n - 1) {
            raise(number);
            _exit(0);
        }
        enum mt_status st = mt_window_barrier(w, &err);
        const char *why = number == SIGKILL ? "has ended" : "has waited for 0.5 s for rank";
        CHECK(st == MT_EPEER || (st == MT_ESTALL && number == SIGSTOP), "status %d: %s", st, err.text);
        CHECK(strstr(err.text, why), "%s", err.text); /* one's own look, or the reason of the rank that looked first */
        mt_window_free(w);
        _exit(0);
    }
    int status;
    if (number == SIGKILL) CHECK(waitpid(child[n - 1], &status, 0) == child[n - 1], "the killed one");
    for (int r = 0; r < n - 1; r++) {
        CHECK(waitpid(child[r], &status, 0) == child[r], "wait");
        CHECK(WIFEXITED(status) && !WEXITSTATUS(status), "rank %d: status %x", r, (unsigned)status);
    }
    if (number == SIGSTOP) {
        kill(child[n - 1], SIGKILL);
        CHECK(waitpid(child[n - 1], &status, 0) == child[n - 1], "the stopped one");
    }
    pthread_barrier_destroy(f.barrier);
    munmap(shared, 1 << 16);
}
#endif

int main(void) {
    for (int n = 1; n <= TRIAL_RANKS; n += n < 3 ? 1 : 5) {
        threads(n, 0, 60);
        threads(n, 1, 60);
    }
    threads(3, 2, 0.3);
    threads(5, 3, 60);
#ifndef MOTLEY_TSAN
    lose(2, SIGKILL);
    lose(4, SIGKILL);
    lose(3, SIGSTOP);
#endif
    return 0;
}
