/* The watch: detects ranks that are dead, stopped or cut off, so that no rank waits for them.
 *
 *     mt_watch_begin(&options, &err);             // before MPI_Init
 *     MPI_Init_thread(...);
 *     mt_watch_phase(MT_WATCH_SLOW, "reading the data");
 *     ... mt_watch_phase(MT_WATCH_QUICK, "step %d", n); work ...
 *     mt_watch_phase(MT_WATCH_SLOW, "the end");
 *     MPI_Finalize();
 *     mt_watch_end(well);                         // then exit
 *
 * A thread of every process sends rank 0 heartbeats (0.2 s apart, in large jobs up to 1 s) over TCP, not MPI, which may
 * be what hangs: which phase this rank is in, and a counter of its progress. Rank 0 answers. A rank that is silent for
 * `heartbeat_s`, or exits without a message, is named by rank 0 with its host and last phase; rank 0 informs the
 * others, and every process that is left exits with the code of MT_EPEER (by _exit: only lines of text are flushed).
 * When rank 0 itself is silent, the others name it. Ranks that are alive but make no progress for their deadline are
 * named too (MT_ESTALL), first those that do not wait for others. mpirun's own exit code is that of the process that
 * failed first: 137 (128 + SIGKILL) where a rank was killed, else the code above.
 *
 * Silence is counted in time for which the listener itself was awake, so a job that is suspended as a whole (or a
 * laptop that sleeps) goes on; and a process on the listener's own host that the kernel calls running gets six times as
 * long.
 *
 * Every function but mt_watch_begin does nothing in a process that has not begun a watch. Any thread may call. */
#ifndef MT_LAUNCHER_WATCH_WATCH_H
#define MT_LAUNCHER_WATCH_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/base/err.h"

#define MT_WATCH_HEARTBEAT_S 5.0

struct mt_watch_options {
    double heartbeat_s; /* a rank that is silent for so long is lost; 0: no watch */
    double start_s;     /* until every rank must have started; 0: 6 + 0.1 * ranks */
    double deadline_s;  /* without progress, in quick phases; ten times that in slow ones */
    const char *hint;   /* printed below the error; or null */
};

/* MT_ESYSTEM when no socket or thread can be had; then there is no watch. */
enum mt_status mt_watch_begin(const struct mt_watch_options *options, struct mt_err *err);

/* Where this process is, for messages: "step 17", "checkpoint of step 20". A new phase is progress. Slow phases contain
 * one long system operation (a file written, or read whole); in an idle phase no progress is expected. */
enum mt_watch_pace { MT_WATCH_QUICK, MT_WATCH_SLOW, MT_WATCH_IDLE };
void mt_watch_phase(enum mt_watch_pace pace, const char *format, ...) __attribute__((format(printf, 2, 3)));
void mt_watch_progress(void); /* count one step of progress inside a phase */

/* After MPI_Init: how many ranks MPI has. A launcher without PMIx leaves the watch with one rank: then no heartbeats
 * are sent, only deadlines guard the job, and rank 0 warns. */
void mt_watch_expect(int rank, int nranks);

/* The rank by which messages name this process, where it differs from that in MPI_COMM_WORLD. */
void mt_watch_rank(int rank);

/* Let the watch's thread ask for what goes on inside a phase; null: stop (when the call returns, the old function is
 * not running). A change of `progress` is progress. */
struct mt_watch_progress {
    char text[128]; /* "AllReduce grad.h.3" */
    uint64_t progress;
    bool waits; /* for other ranks */
};
typedef void mt_watch_query(void *context, struct mt_watch_progress *progress);
void mt_watch_observe(mt_watch_query *query, void *context);

/* A failure while peers may be waiting: rank 0 prints it with this rank and host and, for a stall, with where the
 * others are; all processes exit with its code. Returns only without a watch. */
void mt_watch_fail(const struct mt_err *err);

/* After MPI_Finalize. Rank 0 waits until all others have exited or are lost; the others are watched until they exit.
 * well: this process is going to exit with 0. */
void mt_watch_end(bool well);

#endif
