/* Which hosts keep mpirun from starting: those whose daemon has not connected to it. */
#ifndef MT_LAUNCHER_LAUNCH_DAEMONS_H
#define MT_LAUNCHER_LAUNCH_DAEMONS_H

#include <sys/types.h>

#include "launcher/launch/hosts.h"

/* Ask the hosts of used[n], by the agent, whether they have a connection to a port on which process `mpirun` of this
 * host listens. "b: no answer for 30 s; c: its daemon has no connection to mpirun", in the hosts' arena; "": nothing is
 * known, or all have. */
const char *mt_daemons_missing(pid_t mpirun, struct mt_hosts *hosts, const bool *used, const char *agent,
                               double deadline_s);

#endif
