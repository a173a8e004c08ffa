/* The watch: nobody waits for a rank that is dead, stopped or cut off.
 *
 *     mt_watch_begin(&options, &err);             // before MPI_Init
 *     MPI_Init_thread(...);
 *     mt_watch_phase(MT_WATCH_SLOW, "reading the data");
 *     ... mt_watch_phase(MT_WATCH_QUICK, "step %d", n); work ...
 *     mt_watch_phase(MT_WATCH_SLOW, "the end");
 *     MPI_Finalize();
 *     mt_watch_end(well);                         // then exit
 *
 * A thread of every process sends rank 0 a note twice a second, over TCP and without MPI, which may itself be what
 * hangs: where this rank is, and how far. Rank 0 answers. Who is not heard of for `heartbeat_s`, or ends without a
 * word, is named by rank 0, with host and what it did last; rank 0 tells the others, and all processes end with the
 * exit code of MT_EPEER (_exit: nothing is flushed but lines of text). When it is rank 0 that is not heard of, the
 * others name it. Ranks that are heard of but get nowhere for their deadline are named too, those first that do not
 * wait for others.
 *
 * Silence is measured in time that the listener itself was awake for, so a job that is stopped as a whole (or a laptop
 * that sleeps) goes on; and a process on the listener's own host is silent only if the kernel does not call it alive.
 *
 * Everything but mt_watch_begin does nothing in a process that has not begun a watch. Any thread may call. */
#ifndef MT_LAUNCHER_WATCH_WATCH_H
#define MT_LAUNCHER_WATCH_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/base/err.h"

#define MT_WATCH_HEARTBEAT_S 5.0

struct mt_watch_options {
    double heartbeat_s; /* silence that counts as death; 0: no watch */
    double start_s;     /* until every rank must have begun; 0: 6, and a tenth for every rank */
    double deadline_s;  /* without progress, in quick phases; ten times that in slow ones */
    const char *hint;   /* printed below the name of a lost rank; or null */
};

/* MT_ESYSTEM when there is no socket or thread to be had; the watch does nothing then. */
enum mt_status mt_watch_begin(const struct mt_watch_options *options, struct mt_err *err);

/* Where this process is, for messages: "step 17", "checkpoint of step 20". That is progress as well. Slow phases are
 * those with one long operation of the system (a file written, or read whole). */
enum mt_watch_pace { MT_WATCH_QUICK, MT_WATCH_SLOW };
void mt_watch_phase(enum mt_watch_pace pace, const char *format, ...) __attribute__((format(printf, 2, 3)));
void mt_watch_progress(void); /* a counter; for loops inside a phase */

/* After MPI_Init: how many ranks MPI has. A launcher that does not speak PMIx has told the watch of one only: then no
 * heartbeats go, only deadlines guard, and rank 0 says so. */
void mt_watch_expect(int rank, int nranks);

/* The rank that messages name this process by, where it is not MPI's in MPI_COMM_WORLD. */
void mt_watch_rank(int rank);

/* What goes on inside the phase, asked by the watch's thread; null: no more (when the call returns, nobody is in the
 * old one). A change of `progress` is progress. */
struct mt_watch_progress {
    char text[128]; /* "AllReduce grad.h.3" */
    uint64_t progress;
    bool waits; /* for other ranks */
};
typedef void mt_watch_query(void *context, struct mt_watch_progress *sight);
void mt_watch_observe(mt_watch_query *look, void *context);

/* A failure in the middle of things, when peers may be waiting: rank 0 prints it with this rank and host and, if it is
 * a stall, with where the others are; all processes end with its exit code. Returns only without a watch. */
void mt_watch_fail(const struct mt_err *err);

/* After MPI_Finalize. Rank 0 waits until all others have ended or are lost; the others are watched until they exit.
 * well: what this process is going to exit with is 0. */
void mt_watch_end(bool well);

#endif
