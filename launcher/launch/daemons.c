/* Connections of mpirun's daemons. mpirun of Open MPI 4.1 waits for ever for a daemon that was started and cannot reach
 * it, or whose agent hangs, and does not say for which. So the ports on which it listens are looked up, as /proc has
 * them, and hosts are asked who is connected to one of them. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher/launch/hosts.h"

enum { MOST_PORTS = 64, MOST_SOCKETS = 4096, MOST_TOLD = 8, LISTENS = 10 };

/* The inodes of a process's sockets. */
static int list_sockets(pid_t pid, struct mt_arena *arena, unsigned long *inodes) {
    const char *folder = mt_arena_printf(arena, "/proc/%d/fd", (int)pid);
    DIR *files = opendir(folder);
    int n = 0;
    if (!files) return 0;
    for (struct dirent *entry; n < MOST_SOCKETS && (entry = readdir(files));) {
        char to[64] = "";
        if (readlink(mt_arena_printf(arena, "%s/%s", folder, entry->d_name), to, sizeof to - 1) < 0) continue;
        n += sscanf(to, "socket:[%lu]", &inodes[n]) == 1;
    }
    closedir(files);
    return n;
}

static int add_ports(const char *path, const unsigned long *inodes, int ninodes, int *ports, int n) {
    char line[512];
    FILE *file = fopen(path, "r");
    if (!file) return n;
    while (n < MOST_PORTS - 1 && fgets(line, sizeof line, file)) {
        unsigned port, state;
        unsigned long inode;
        if (sscanf(line, " %*u: %*[0-9A-Fa-f]:%x %*s %x %*s %*s %*s %*s %*s %lu", &port, &state, &inode) != 3 ||
            state != LISTENS)
            continue;
        for (int i = 0; i < ninodes; i++)
            if (inodes[i] == inode) {
                ports[n++] = (int)port;
                break;
            }
    }
    fclose(file);
    return n;
}

const char *mt_daemons_missing(pid_t mpirun, struct mt_hosts *hosts, const bool *used, const char *agent,
                               double deadline_s) {
    struct mt_arena *arena = hosts->arena;
    unsigned long *inodes = mt_new(arena, unsigned long, MOST_SOCKETS);
    int ports[MOST_PORTS] = {0}, ninodes = list_sockets(mpirun, arena, inodes), nports = 0, told = 0;
    const char *text = "";
    nports = add_ports(mt_arena_printf(arena, "/proc/%d/net/tcp", (int)mpirun), inodes, ninodes, ports, nports);
    nports = add_ports(mt_arena_printf(arena, "/proc/%d/net/tcp6", (int)mpirun), inodes, ninodes, ports, nports);
    ports[nports] = 0;
    mt_hosts_ask_connections(hosts, agent, deadline_s, ports);
    for (int h = 0; h < hosts->n; h++) {
        const struct mt_host *host = &hosts->hosts[h];
        if (!used[h] || host->connected == MT_HOST_CONNECTED || (host->connected == MT_HOST_UNCONNECTED && !nports))
            continue;
        if (told++ < MOST_TOLD)
            text = mt_arena_printf(arena, "%s%s%s: %s", text, *text ? "; " : "", host->name,
                                   host->connected == MT_HOST_SILENT
                                       ? mt_arena_printf(arena, "no answer for %.0f s", deadline_s)
                                       : "its daemon has no connection to mpirun");
    }
    return told > MOST_TOLD ? mt_arena_printf(arena, "%s; and %d more", text, told - MOST_TOLD) : text;
}
