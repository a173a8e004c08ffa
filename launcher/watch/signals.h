/* Requests to a running job by signals, to any of its ranks:
 *   SIGUSR1            write a checkpoint and go on
 *   SIGUSR2, SIGTERM   write a checkpoint and exit with 0
 *   SIGINT (Ctrl-C)    the same; a second one ends the process at once
 * A handler only sets a flag; launcher/session/requests.h spreads the flags to all ranks. */
#ifndef MT_LAUNCHER_WATCH_SIGNALS_H
#define MT_LAUNCHER_WATCH_SIGNALS_H

#include <stdbool.h>

enum { MT_REQUEST_CHECKPOINT = 1, MT_REQUEST_STOP = 2 };

void mt_signals_install(void);
void mt_signals_restore(void); /* a second SIGTERM kills, as by default */

/* The requests since the last call. */
int mt_signals_take(void);

/* Whether a request to stop has not been taken yet; any thread may call. */
bool mt_signals_stopping(void);

#endif
