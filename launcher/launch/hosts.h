/* The hosts that a job may be started on: a hostfile as Open MPI's, one host a line, # begins a comment:
 *
 *     node1 slots=4
 *     node2 slots=2 max_slots=2
 *
 * and which of them answer.
 *
 *     struct mt_hosts hosts;
 *     if ((st = mt_hosts_read("hostfile", &arena, &hosts, err))) return st;
 *     mt_hosts_ask(&hosts, "ssh", 30, NULL); ... hosts.hosts[0].answers ... */
#ifndef MT_LAUNCHER_LAUNCH_HOSTS_H
#define MT_LAUNCHER_LAUNCH_HOSTS_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include "kernels/base/arena.h"
#include "kernels/base/err.h"

enum { MT_HOSTS_MOST = 16384, MT_HOSTS_MOST_SLOTS = 16384 };

/* To mpirun, of its daemon: */
enum mt_host_connection { MT_HOST_CONNECTED, MT_HOST_UNCONNECTED, MT_HOST_SILENT };

struct mt_host {
    const char *name;                  /* as mpirun reaches it */
    const char *says;                  /* its own name, by which plans know it; as `name` until it has answered */
    int slots;                         /* ranks that it takes at most; 0: as many as there are */
    int listed;                        /* lines of the file that name it without slots */
    bool answers;                      /* when it was asked last */
    const char *why;                   /* why it does not answer, if it does not */
    enum mt_host_connection connected; /* when that was asked last */
    const char *features;              /* what Slurm says of the node, "gpu,a10"; null: not known */
};
struct mt_hosts {
    struct mt_arena *arena;
    int n, capacity;
    struct mt_host *hosts;
};

/* Lines of one host add up, as for mpirun. MT_EINPUT with the line of what is not understood, also for an empty list.
 * All in `arena`, which must outlive it. */
enum mt_status mt_hosts_read(const char *path, struct mt_arena *arena, struct mt_hosts *hosts, struct mt_err *err);
enum mt_status mt_hosts_parse(const char *name, const char *text, struct mt_arena *arena, struct mt_hosts *hosts,
                              struct mt_err *err);

/* Ask all hosts at once for their names, by the agent that mpirun starts its daemons with ("ssh", or a program that
 * takes a host and a command), and wait for deadline_s at most. This host needs no agent. Never fails: who does not
 * answer says why. `stop`, unless it is null, is asked meanwhile whether to wait no longer. */
void mt_hosts_ask(struct mt_hosts *hosts, const char *agent, double deadline_s, bool (*stop)(void));

/* Ask all other hosts at once whether they have a connection to one of these TCP ports, ended by 0; this host has. */
void mt_hosts_ask_connections(struct mt_hosts *hosts, const char *agent, double deadline_s, const int *ports);

/* Which hosts keep mpirun from starting (daemons.c): ask the hosts of used[n], by the agent, whether they have a
 * connection to a port on which process `mpirun` of this host listens. "b: no answer for 30 s; c: its daemon has no
 * connection to mpirun", in the hosts' arena; "": nothing is known, or all have. */
const char *mt_daemons_missing(pid_t mpirun, struct mt_hosts *hosts, const bool *used, const char *agent,
                               double deadline_s);

/* The host of that name, by which it is reached or which it says; or -1. */
int mt_hosts_find(const struct mt_hosts *hosts, const char *name);
bool mt_hosts_is_here(const char *name);

#endif
