/* Warnings, each with what to do. */
#include <string.h>

#include "profiler/assemble/assemble.h"
#include "profiler/cluster/outlier.h"

static const double much_stolen = 0.05, much_throttled = 0.02;

struct list {
    const struct mt_profile *profile;
    struct mt_cluster *cluster;
    const struct mt_device_figures *figures;
    int capacity;
};

static void add(struct list *list, const char *text) {
    struct mt_cluster *c = list->cluster;
    mt_arena_grow(&c->arena, &c->warnings, c->nwarnings, &list->capacity, sizeof *c->warnings);
    c->warnings[c->nwarnings++] = text;
}

/* "rank 1 on a: " and the text. */
__attribute__((format(printf, 3, 4))) static void warn(struct list *list, int rank, const char *format, ...) {
    struct mt_arena *arena = &list->cluster->arena;
    va_list args;
    va_start(args, format);
    char *text = mt_arena_vprintf(arena, format, args);
    va_end(args);
    add(list, mt_arena_printf(arena, "rank %d on %s: %s", rank, list->profile->places[rank].topology.host, text));
}

/* Nodes that send or receive less than others; of two, the slower direction. */
static void check_nodes(struct list *list) {
    struct mt_arena *arena = &list->cluster->arena;
    struct mt_outlier *outliers;
    int n = mt_cluster_outliers(list->cluster, arena, &outliers);
    for (int i = 0; i < n; i++)
        if (outliers[i].kind == MT_SLOW_NODE)
            add(list, mt_arena_printf(arena,
                                      "%s: look at its network device (ethtool), the switch's port and limits on its "
                                      "traffic (tc), or plan without it",
                                      outliers[i].text));
}

/* The number of cores of the host that no rank uses; *nranks: the number of its ranks. */
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

/* ---- GPUs ---- */

static void check_throttled(struct list *list, int rank, const struct mt_device_health *health) {
    static const struct {
        unsigned why;
        const char *text;
    } reasons[] = {{MT_THROTTLED_HEAT, "is too hot"},
                   {MT_THROTTLED_HARDWARE, "is slowed by a hardware brake (its power supply or cooling)"}};
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (health->throttled & reasons[i].why)
            warn(list, rank, "its GPU %s at %.0f C and %.0f W: it runs at %.0f of at most %.0f MHz", reasons[i].text,
                 health->temperature_C, health->power_W, 1e-6 * health->sm_clock_Hz, 1e-6 * health->sm_clock_most_Hz);
}

static void check_gpu(struct list *list, int rank, const struct mt_device_health *health) {
    const struct mt_profile *p = list->profile;
    const struct mt_place *place = &p->places[rank];
    const double much_held = 0.01, low_limit = 0.9;
    double held_bytes = (double)place->facts.health.others_bytes, all_bytes = (double)place->facts.memory_bytes;
    cpu_set_t both;
    if (held_bytes > much_held * all_bytes)
        warn(list, rank, "other processes hold %.2f GB of its GPU's %.1f GB: stop them, or plan with what they leave",
             1e-9 * held_bytes, 1e-9 * all_bytes);
    if (health->ecc_uncorrected > 0)
        warn(list, rank, "its GPU's memory had %lld errors that could not be corrected: have it tested",
             (long long)health->ecc_uncorrected);
    check_throttled(list, rank, health);
    for (int q = 0; q < p->nranks; q++) { /* GPUs of one model: a limit was set by hand */
        double limit_W = list->figures[q].health.power_limit_W;
        if (strcmp(p->places[q].model, place->model) || health->power_limit_W >= low_limit * limit_W) continue;
        warn(list, rank, "its GPU's power is limited to %.0f W, that of rank %d to %.0f W: set equal limits",
             health->power_limit_W, q, limit_W);
        break;
    }
    for (int q = 0; q < rank; q++)
        if (p->places[q].node == place->node && !strcmp(p->places[q].facts.bus, place->facts.bus))
            warn(list, rank, "it shares its GPU with rank %d: start no more ranks than GPUs", q);
    CPU_AND(&both, &place->topology.set, &place->topology.near);
    if (place->topology.near_cores && !CPU_COUNT(&both))
        warn(list, rank, "its cores (%s) are far from its GPU, whose are %s: bind it there, or use --bind-to none",
             place->topology.mask, place->topology.near_text);
}

static void check_emulation(struct list *list, int rank, double exact_s) {
    if (exact_s > MT_EMULATED_EXACT_S)
        warn(list, rank,
             "its emulated speed is exact to %.0f%% for operators of %.0f us or more only: shorter ones take longer "
             "than they should",
             100 * MT_EMULATED_ERROR, 1e6 * exact_s);
}

void mt_assemble_warnings(const struct mt_profile *p, const struct mt_device_figures *figures,
                          struct mt_cluster *cluster) {
    struct list list = {p, cluster, figures, 0};
    for (int r = 0; r < p->nranks; r++) {
        if (p->gpu) {
            check_gpu(&list, r, &figures[r].health);
            continue;
        }
        check_mask(&list, r);
        check_emulation(&list, r, p->places[r].emulated_exact_s);
        check_load(&list, r, &figures[r].load);
    }
    check_nodes(&list);
}
