/* What the parts of the watch share: this process's side of it. Private to watch*.c.
 *
 * watch.c has what callers see and what both kinds of rank do; coordinator.c is rank 0's thread, agent.c that of the
 * others; liveness.c says what has become of a rank. */
#ifndef MT_LAUNCHER_WATCH_INTERNAL_H
#define MT_LAUNCHER_WATCH_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "kernels/base/wait.h"
#include "launcher/watch/launch.h"
#include "launcher/watch/watch.h"
#include "launcher/watch/link.h"

/* Seconds between looks, and the most that one gap between looks counts for. */
#define WATCH_LOOK_S 0.2
#define WATCH_GAP_S 0.5

struct watch {
    struct mt_watch_options options;
    struct mt_launch launch;
    char host[64];
    pid_t parent;  /* the launcher's process; 0: none */
    int wake[2];   /* a pipe to the thread */
    int listening; /* at rank 0 */
    uint64_t token;
    struct mt_awake awake; /* the thread's */
    atomic_uint_fast64_t progress;
    atomic_bool news;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* guarded by the lock */
    char phase[128];
    enum mt_watch_pace pace;
    int rank;
    mt_watch_query *look;
    void *look_context;
    bool leaving, well; /* mt_watch_end has been called */
    bool left;          /* and the thread has done what it wants */
    bool failing;       /* mt_watch_fail has been called, with: */
    struct mt_err err;
};

/* Seconds between notes: rank 0 hears at most a hundred a second, and everybody once a second. */
double watch_beat_s(const struct watch *w);

/* Where this process is now. */
void watch_describe(struct watch *w, struct watch_note *note);

/* Sleep until a descriptor is ready, at most nap_s; then how long the thread has been awake. Empties the
 * pipe, which fds[0] must be. */
struct pollfd;
double watch_look(struct watch *w, struct pollfd *fds, int count, double nap_s);

void watch_print(const struct watch *w, const char *text);

/* Print `text` (null: nothing more to say) and end this process. */
_Noreturn void watch_die(const struct watch *w, int code, const char *text);

/* The failure of this process, as text. Returns its exit code; 0: there is none. */
int watch_failure(struct watch *w, char *text, size_t size);

/* Whether others should hear of this process at once; once each time. */
bool watch_has_news(struct watch *w);

/* Whether mt_watch_end has been called, and what for. */
bool watch_is_leaving(struct watch *w);
bool watch_leaves_badly(struct watch *w);
void watch_has_left(struct watch *w);

void watch_run_hub(struct watch *w);
void watch_run_peer(struct watch *w);

/* ---- liveness.c ---- */

enum watch_fate { WATCH_FINE, WATCH_UNBORN, WATCH_ENDED, WATCH_STOPPED, WATCH_SILENT };

/* A rank that has not been heard of yet. begun_s: how long we wait already. seen: its process was seen on this host;
 * false at first. */
enum watch_fate watch_fate_unborn(const struct watch *w, int place, double begun_s, bool *seen);
/* One that has, `silent_s` ago. */
enum watch_fate watch_fate_of(const struct watch *w, const struct watch_note *last, double silent_s);
double watch_start_s(const struct watch *w);

/* Add to text: "rank 1 on b ...". `last` may have no host yet. */
void watch_tell_fate(const struct watch *w, enum watch_fate fate, const struct watch_note *last, double silent_s,
                     char *text, size_t size);
void watch_add(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
