/* Shared by the watch's files: watch.c is what callers see; coordinator.c is rank 0's thread, agent.c that of the other
 * ranks; process.c is this process's side of either, liveness.c checks whether another rank is alive. */
#ifndef MT_LAUNCHER_WATCH_INTERNAL_H
#define MT_LAUNCHER_WATCH_INTERNAL_H

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "kernels/base/wait.h"
#include "launcher/watch/launch.h"
#include "launcher/watch/watch.h"
#include "launcher/watch/socket.h"

/* Seconds between polls, the most awake time that one gap between polls counts as, for how long after such a gap, or a
 * stop that was noticed, a SIGCONT is that which ended it, and what the launcher gets to end this process after another
 * was killed. */
#define WATCH_POLL_S 0.2
#define WATCH_GAP_S 0.5
#define WATCH_AFTER_GAP_S 0.5
#define WATCH_LAUNCHER_S 1.0

struct watch {
    struct mt_watch_options options;
    struct mt_launch launch;
    char host[64];
    pid_t parent;  /* the launcher's process; 0: none */
    int wake[2];   /* a pipe to the thread */
    int listening; /* at rank 0 */
    uint64_t token;
    struct mt_awake awake; /* the thread's */
    int waiting, nwaited;  /* an epoll set, -1: there is none, of these files; null: none was made yet */
    struct pollfd *waited;
    double gap_s; /* the end of the last gap between its polls, or of a stop */
    atomic_uint_fast64_t progress;
    atomic_bool news;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* guarded by the lock */
    char phase[128];
    enum mt_watch_pace pace;
    int rank;
    mt_watch_query *query;
    void *query_context;
    bool leaving, well; /* mt_watch_end(well) has been called */
    bool left;          /* and the thread needs this process no longer */
    bool failing;       /* mt_watch_fail(err) has been called */
    struct mt_err err;
};

void mt_watch_run_coordinator(struct watch *w);
void mt_watch_run_agent(struct watch *w);

/* ---- process.c ---- */

/* Seconds between heartbeats: rank 0 receives at most 100 a second, and every rank sends at least one a second. */
double mt_watch_beat_s(const struct watch *w);

/* Where this process is now. */
void mt_watch_describe(struct watch *w, struct watch_message *message);

/* Wait until a descriptor is ready, at most timeout_s; returns how long the thread has been awake. fds[0] is set to the
 * wake pipe, which is emptied. */
double mt_watch_poll(struct watch *w, struct pollfd *fds, int count, double timeout_s);

void mt_watch_print(const struct watch *w, const char *text);

/* Print `text`, unless it is null, and end this process. */
_Noreturn void mt_watch_die(const struct watch *w, int code, const char *text);

/* This process's failure as text. Returns its exit code; 0: it has not failed. */
int mt_watch_failure(struct watch *w, char *text, size_t size);

/* Whether this process's place has changed so that others should hear of it at once; true once for each change. */
bool mt_watch_has_news(struct watch *w);

/* Whether mt_watch_end has been called; and with well = false. */
bool mt_watch_is_leaving(struct watch *w);
bool mt_watch_leaves_with_error(struct watch *w);
void mt_watch_set_left(struct watch *w);

/* ---- liveness.c ---- */

enum watch_liveness { WATCH_ALIVE, WATCH_NOT_STARTED, WATCH_EXITED, WATCH_STOPPED, WATCH_SILENT };

/* Of a rank that has sent nothing yet, `waited_s` after this rank started. *seen, false at first: whether its process
 * has been visible on this host. */
enum watch_liveness mt_watch_liveness_at_start(const struct watch *w, int world_rank, double waited_s, bool *seen);
/* Of a rank whose last message is `silent_s` old. */
enum watch_liveness mt_watch_liveness_of(const struct watch *w, const struct watch_message *last, double silent_s);

/* Append "rank 1 on b has ..." to text. `last` may have no host yet. */
void mt_watch_print_liveness(const struct watch *w, enum watch_liveness liveness, const struct watch_message *last,
                             double silent_s, char *text, size_t size);
void mt_watch_append(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
