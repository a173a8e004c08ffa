/* Restarts of a run, which `motley launch --restart` notes in the run's folder, one a line, beside what train writes:
 *
 *     step,restart
 *     40,"restart 1 of 2, by a new plan: rank 1 on b has exited without a message: was it killed?; b does not answer"
 */
#ifndef MT_LAUNCHER_RUN_RESTARTS_H
#define MT_LAUNCHER_RUN_RESTARTS_H

#include <stdint.h>

#include "kernels/base/arena.h"
#include "kernels/base/err.h"

#define MT_RESTARTS_CSV "restarts.csv"

struct mt_restart {
    int64_t step; /* it went on after this one; 0: from the beginning */
    const char *what;
};

/* Add one; a folder that is not there is not made: nothing is noted. */
enum mt_status mt_restarts_add(const char *folder, const struct mt_restart *restart, struct mt_err *err);
/* Those that were noted, in the arena; none without the file. MT_EINPUT with the line of what is not understood. */
enum mt_status mt_restarts_read(const char *folder, struct mt_arena *arena, struct mt_restart **list, int *count,
                                struct mt_err *err);

#endif
