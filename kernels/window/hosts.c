/* Which ranks are on one host: each tells a hash of its host's name, of the boot's number, and of the file system that
 * shared memory is in. Containers of one machine have the first or the last apart. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/base/arena.h"
#include "kernels/base/number/hash.h"
#include "kernels/comm/comm.h"
#include "kernels/window/window.h"

enum { TAG = 0x3158, WORDS = 2 /* of a hash */ };

static uint64_t my_host(void) {
    struct host {
        char name[256], boot[64];
        uint64_t device;
    } host;
    struct stat shared;
    memset(&host, 0, sizeof host);
    if (gethostname(host.name, sizeof host.name - 1)) host.name[0] = 0;
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
    if (file && !fgets(host.boot, sizeof host.boot, file)) host.boot[0] = 0;
    if (file) fclose(file);
    if (!stat("/dev/shm", &shared)) host.device = (uint64_t)shared.st_dev;
    return mt_hash64(&host, sizeof host, 0);
}

enum mt_status mt_window_hosts(struct mt_comm *comm, double deadline_s, int *node, struct mt_err *err) {
    int n = comm->nranks;
    uint64_t *hosts = mt_calloc((size_t)n, sizeof *hosts);
    int64_t *counts = mt_calloc((size_t)n, sizeof *counts);
    int *group = mt_calloc((size_t)n, sizeof *group);
    for (int r = 0; r < n; r++) counts[r] = WORDS, group[r] = r;
    hosts[comm->rank] = my_host();
    struct mt_coll problem = {
        .kind = MT_ALL_GATHER, .wire = MT_I32, .acc = MT_I32, .n = n, .me = comm->rank, .counts = counts};
    struct mt_schedule schedule = MT_SCHEDULE_INIT;
    mt_coll_find(MT_ALL_GATHER, "direct")->schedule(&problem, &schedule);
    void *buffer[2] = {hosts, NULL};
    enum mt_status st = mt_comm_run(comm, &problem, &schedule, group, buffer, TAG, deadline_s, err);
    mt_schedule_release(&schedule);
    for (int r = 0, nodes = 0; r < n && !st; r++) {
        int first = 0;
        while (hosts[first] != hosts[r]) first++;
        node[r] = first < r ? node[first] : nodes++;
    }
    free(hosts);
    free(counts);
    free(group);
    return st ? mt_err_context(err, "telling ranks' hosts") : MT_OK;
}
