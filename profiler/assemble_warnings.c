/* What the profiler noticed, each with what to do about it. */
#include <string.h>

#include "profiler/assemble.h"

static const double much_stolen = 0.05, much_throttled = 0.02;

struct list {
    const struct mt_profile *profile;
    struct mt_cluster *cluster;
    int capacity;
};

/* "rank 1 on a: " and the text. */
__attribute__((format(printf, 3, 4))) static void warn(struct list *list, int rank, const char *format, ...) {
    struct mt_cluster *c = list->cluster;
    va_list args;
    va_start(args, format);
    char *text = mt_arena_vprintf(&c->arena, format, args);
    va_end(args);
    mt_arena_grow(&c->arena, &c->warnings, c->nwarnings, &list->capacity, sizeof *c->warnings);
    c->warnings[c->nwarnings++] =
        mt_arena_printf(&c->arena, "rank %d on %s: %s", rank, list->profile->places[rank].topology.host, text);
}

/* Cores of the host that none of its ranks uses; and how many ranks it has. */
static int idle_cores(const struct mt_profile *p, int node, int *nranks) {
    cpu_set_t used;
    CPU_ZERO(&used);
    int cores = 0;
    *nranks = 0;
    for (int r = 0; r < p->nranks; r++) {
        if (p->places[r].node != node) continue;
        CPU_OR(&used, &used, &p->places[r].topology.set);
        cores = p->places[r].topology.cores;
        ++*nranks;
    }
    return cores - CPU_COUNT(&used);
}

static void check_mask(struct list *list, int rank) {
    const struct mt_profile *p = list->profile;
    const struct mt_place *place = &p->places[rank];
    int nranks, idle = idle_cores(p, place->node, &nranks), cores = place->topology.cores;
    if (idle > 0 && place->topology.mask_cores * nranks < cores)
        warn(list, rank,
             "its mask has %d of %d cores, and %d of them serve%s no rank: start mpirun with --bind-to none, and the "
             "ranks of a host divide its cores",
             place->topology.mask_cores, cores, idle, idle == 1 ? "s" : "");
    for (int q = 0; q < rank; q++) {
        if (p->places[q].node != place->node) continue;
        cpu_set_t both;
        CPU_AND(&both, &place->topology.set, &p->places[q].topology.set);
        if (!CPU_COUNT(&both)) continue;
        warn(list, rank, "it shares %d core%s with rank %d: start no more ranks than cores, with --bind-to none",
             CPU_COUNT(&both), CPU_COUNT(&both) == 1 ? "" : "s", q);
        break;
    }
    if (place->threads != place->topology.mask_cores)
        warn(list, rank, "it computes with %d thread%s on %d core%s: unset OMP_NUM_THREADS", place->threads,
             place->threads == 1 ? "" : "s", place->topology.mask_cores, place->topology.mask_cores == 1 ? "" : "s");
    if (place->topology.mask_numa > 1)
        warn(list, rank, "its cores are of %d NUMA nodes: start a rank for each of them, with --map-by numa",
             place->topology.mask_numa);
}

static void check_load(struct list *list, int rank, const struct mt_load_report *load) {
    bool named = load->pid && load->pid_part > 0.25 * load->stolen;
    if (load->stolen > much_stolen && named)
        warn(list, rank,
             "others had %.0f%% of its cores' time while it was measured (%s, process %d, had %.0f%%): stop them and "
             "profile again, or plan with what they leave",
             100 * load->stolen, load->name, load->pid, 100 * load->pid_part);
    else if (load->stolen > much_stolen)
        warn(list, rank,
             "others had %.0f%% of its cores' time while it was measured, none of them much that could be seen: look "
             "for many short processes, or on the machine that runs this container or virtual machine",
             100 * load->stolen);
    if (load->throttled > much_throttled)
        warn(list, rank,
             "its cgroup's CPU quota stopped it for %.0f%% of the time: raise the quota, or plan with what it leaves",
             100 * load->throttled);
}

void mt_assemble_warnings(const struct mt_profile *p, const struct mt_device_figures *figures,
                          struct mt_cluster *cluster) {
    struct list list = {p, cluster, 0};
    for (int r = 0; r < p->nranks; r++) {
        check_mask(&list, r);
        check_load(&list, r, &figures[r].load);
    }
}
