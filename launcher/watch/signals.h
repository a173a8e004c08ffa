/* Requests to a running job by signals, to any of its ranks:
 *   SIGUSR1            write a checkpoint and go on
 *   SIGUSR2, SIGTERM   write a checkpoint and exit with 0
 *   SIGINT (Ctrl-C)    the same; a second one ends the process at once
 *   SIGCONT            from mpirun, to a process that was not stopped: the same (process.c knows whether it was)
 * The last is how mpirun of Open MPI 4.1 begins to end a job, after Ctrl-C or SIGTERM to it: SIGCONT to every rank at
 * once, SIGTERM after odls_base_sigkill_timeout (1 s), and SIGKILL after as long again; Slurm's scancel begins so too.
 * A handler only sets a flag; launcher/session/requests.h spreads the flags to all ranks. */
#ifndef MT_LAUNCHER_WATCH_SIGNALS_H
#define MT_LAUNCHER_WATCH_SIGNALS_H

#include <stdbool.h>

enum { MT_REQUEST_CHECKPOINT = 1, MT_REQUEST_STOP = 2 };

void mt_signals_install(void);
void mt_signals_restore(void); /* a second SIGTERM kills, as by default; but SIGUSR1 and SIGUSR2, late, do nothing */

/* The requests since the last call. */
int mt_signals_take(void);

/* Who sent a SIGCONT since the last call; 0: none came. And a request to stop, as by a signal: the watch's thread knows
 * whether this process was stopped (process.c). */
int mt_signals_continued_by(void);
void mt_signals_stop(void);

/* Whether a request to stop has not been taken yet; any thread may call. */
bool mt_signals_stopping(void);

#endif
