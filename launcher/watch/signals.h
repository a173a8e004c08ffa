/* What users ask of a running job by signals, to any of its ranks:
 *   SIGUSR1            write a checkpoint and go on
 *   SIGUSR2, SIGTERM   write a checkpoint and end well
 * A handler only sets a flag; launcher/session/asking.h tells ranks of each other's flags. */
#ifndef MT_LAUNCHER_WATCH_SIGNALS_H
#define MT_LAUNCHER_WATCH_SIGNALS_H

#include <stdbool.h>

enum { MT_ASK_CHECKPOINT = 1, MT_ASK_STOP = 2 };

void mt_signals_install(void);
void mt_signals_restore(void); /* a second SIGTERM kills, as it does without us */

/* What this process was asked since the last call. */
int mt_signals_take(void);

/* Whether it was asked to stop and that has not been taken; any thread may ask. */
bool mt_signals_stopping(void);

#endif
