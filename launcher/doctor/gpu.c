/* Collecting what a rank observes of its GPU, and of the network that NCCL uses between hosts. */
#include <dirent.h>
#include <ifaddrs.h>
#include <mpi.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "kernels/device/device.h"
#include "launcher/doctor/internal.h"
#include "launcher/session/rank_device.h"

/* ---- network interfaces, as NCCL chooses them ---- */

/* NCCL_SOCKET_IFNAME is a list of prefixes of names; after "=", of whole names; after "^", of names to exclude. */
static bool matches(const char *list, const char *interface) {
    bool leave_out = *list == '^', whole = false, found = false;
    if (leave_out) list++;
    if (*list == '=') whole = true, list++;
    while (*list) {
        size_t length = strcspn(list, ",");
        if (length && !strncmp(list, interface, length) && (!whole || !interface[length])) found = true;
        list += length + (list[length] == ',');
    }
    return found != leave_out;
}

static void observe_network(struct mt_doctor_gpu *g) {
    const char *wanted = getenv("NCCL_SOCKET_IFNAME");
    struct ifaddrs *all = NULL;
    struct rlimit locked;
    snprintf(g->socket, sizeof g->socket, "%s", wanted ? wanted : "");
    if (getifaddrs(&all)) all = NULL;
    for (int loopback = 0; loopback < 2 && !g->interfaces[0]; loopback++) /* used only if there is no other */
        for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
            size_t used = strlen(g->interfaces);
            bool here = i->ifa_addr && (i->ifa_addr->sa_family == AF_INET || i->ifa_addr->sa_family == AF_INET6);
            if (!here || !(i->ifa_flags & IFF_UP) || !(i->ifa_flags & IFF_LOOPBACK) != !loopback) continue;
            if (wanted && !matches(wanted, i->ifa_name)) continue;
            if (!wanted && !loopback && !strncmp(i->ifa_name, "docker", 6)) continue; /* NCCL uses it last */
            if (strstr(g->interfaces, i->ifa_name)) continue; /* listed already: another address */
            snprintf(g->interfaces + used, sizeof g->interfaces - used, "%s%s", used ? ", " : "", i->ifa_name);
        }
    freeifaddrs(all);
    DIR *folder = opendir("/sys/class/infiniband");
    for (const struct dirent *entry; folder && (entry = readdir(folder));)
        g->infiniband = g->infiniband || entry->d_name[0] != '.';
    if (folder) closedir(folder);
    g->locked_bytes =
        getrlimit(RLIMIT_MEMLOCK, &locked) || locked.rlim_cur == RLIM_INFINITY ? INT64_MAX : (int64_t)locked.rlim_cur;
}

/* ---- the GPU ---- */

static void observe_own(struct mt_doctor_rank *mine) {
    struct mt_doctor_gpu *g = &mine->gpu;
    struct mt_device *device;
    struct mt_err err = MT_ERR_INIT;
    char kind[32];
    snprintf(kind, sizeof kind, "cuda:%d", g->index);
    if (mt_device_open(kind, &device, &err)) {
        snprintf(g->missing, sizeof g->missing, "%.250s", err.text);
        return;
    }
    g->free_bytes = mt_device_memory_bytes(device);
    if (mt_alike_describe(device, mine->device, &err)) mine->device[0] = 0;
    mt_device_close(device);
}

void mt_doctor_observe_gpus(struct mt_doctor_rank *mine) {
    struct mt_doctor_gpu *g = &mine->gpu;
    struct mt_err err = MT_ERR_INIT;
    int rank;
    MPI_Comm host;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &host);
    g->free_bytes = -1;
    mine->device[0] = 0;
    observe_network(g);
    struct mt_err later = MT_ERR_INIT;
    enum mt_status st = mt_gpus_query(&g->gpus, &err);
    enum mt_status own = mt_rank_gpu(host, &g->gpus, &g->index, st ? &later : &err);
    MPI_Comm_free(&host);
    if (st || own) {
        snprintf(g->missing, sizeof g->missing, "%.250s", err.text);
        g->index = -1;
    } else {
        observe_own(mine);
    }
}
