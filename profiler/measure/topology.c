/* By hwloc; memory by the kernel, since hwloc does not know of memory reserved at boot. */
#include "profiler/measure/topology.h"

#include <hwloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int64_t cache_bytes(hwloc_topology_t hw, hwloc_obj_type_t type) {
    int64_t most = 0;
    for (hwloc_obj_t cache = NULL; (cache = hwloc_get_next_obj_by_type(hw, type, cache));)
        if ((int64_t)cache->attr->cache.size > most) most = (int64_t)cache->attr->cache.size;
    return most;
}

static int count_numa(hwloc_topology_t hw, hwloc_const_bitmap_t cores) {
    int count = 0;
    for (hwloc_obj_t node = NULL; (node = hwloc_get_next_obj_by_type(hw, HWLOC_OBJ_NUMANODE, node));)
        count += node->cpuset && hwloc_bitmap_intersects(node->cpuset, cores);
    return count;
}

static void read_model(hwloc_topology_t hw, char *model, size_t size) {
    const char *name = NULL;
    for (hwloc_obj_t pack = NULL; !name && (pack = hwloc_get_next_obj_by_type(hw, HWLOC_OBJ_PACKAGE, pack));)
        name = hwloc_obj_get_info_by_name(pack, "CPUModel");
    if (!name) name = hwloc_obj_get_info_by_name(hwloc_get_root_obj(hw), "CPUModel");
    snprintf(model, size, "%s", name && *name ? name : "unknown CPU");
}

/* The calling thread's mask, within the allowed cores of the host. */
static int read_mask(hwloc_topology_t hw, bool all, struct mt_topology *t) {
    hwloc_bitmap_t mask = hwloc_bitmap_dup(hwloc_topology_get_allowed_cpuset(hw));
    hwloc_bitmap_t bound = hwloc_bitmap_alloc();
    int failed = !mask || !bound || (!all && hwloc_get_cpubind(hw, bound, HWLOC_CPUBIND_THREAD));
    if (!failed) {
        if (!all) hwloc_bitmap_and(mask, mask, bound);
        t->mask_cores = hwloc_bitmap_weight(mask);
        t->mask_numa = count_numa(hw, mask);
        hwloc_bitmap_list_snprintf(t->mask, sizeof t->mask, mask);
        CPU_ZERO(&t->set);
        for (int c = hwloc_bitmap_first(mask); c >= 0 && c < CPU_SETSIZE; c = hwloc_bitmap_next(mask, c))
            CPU_SET((size_t)c, &t->set);
    }
    hwloc_bitmap_free(bound);
    hwloc_bitmap_free(mask);
    return failed;
}

/* Ethernet and RDMA devices; without lo and bridges of containers. */
static void read_nics(hwloc_topology_t hw, char *text, size_t size) {
    for (hwloc_obj_t device = NULL; (device = hwloc_get_next_osdev(hw, device));) {
        hwloc_obj_osdev_type_t type = device->attr->osdev.type;
        size_t used = strlen(text), length = strlen(device->name);
        bool carries = type == HWLOC_OBJ_OSDEV_NETWORK || type == HWLOC_OBJ_OSDEV_OPENFABRICS;
        if (carries && used + length + 2 < size)
            snprintf(text + used, size - used, "%s%s", used ? " " : "", device->name);
    }
}

static void read_near(hwloc_topology_t hw, const char *bus, struct mt_topology *t) {
    hwloc_obj_t device = hwloc_get_pcidev_by_busidstring(hw, bus);
    hwloc_obj_t around = device ? hwloc_get_non_io_ancestor_obj(hw, device) : NULL;
    CPU_ZERO(&t->near);
    if (!around || !around->cpuset || hwloc_bitmap_isequal(around->cpuset, hwloc_topology_get_topology_cpuset(hw)))
        return;
    for (int c = hwloc_bitmap_first(around->cpuset); c >= 0 && c < CPU_SETSIZE;
         c = hwloc_bitmap_next(around->cpuset, c))
        CPU_SET((size_t)c, &t->near);
    t->near_cores = hwloc_bitmap_weight(around->cpuset);
    hwloc_bitmap_list_snprintf(t->near_text, sizeof t->near_text, around->cpuset);
}

static bool describe(hwloc_topology_t hw, const char *synthetic) {
    if (synthetic[0] == '<') return !hwloc_topology_set_xmlbuffer(hw, synthetic, (int)strlen(synthetic) + 1);
    return !hwloc_topology_set_synthetic(hw, synthetic);
}

enum mt_status mt_topology_read(const char *synthetic, const char *bus, struct mt_topology *t, struct mt_err *err) {
    hwloc_topology_t hw;
    enum mt_status st = MT_OK;
    memset(t, 0, sizeof *t);
    if (gethostname(t->host, sizeof t->host - 1)) return mt_fail_errno(err, "the host's name");
    if (hwloc_topology_init(&hw)) return mt_fail(err, MT_ESYSTEM, "hwloc does not start");
    hwloc_topology_set_io_types_filter(hw, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    if (synthetic && !describe(hw, synthetic)) {
        st = mt_fail(err, MT_EINPUT, "\"%.60s\" is no topology that hwloc understands", synthetic);
        goto out;
    }
    if (hwloc_topology_load(hw)) {
        st = mt_fail(err, MT_ESYSTEM, "hwloc finds no topology on %.60s", t->host);
        goto out;
    }
    hwloc_const_bitmap_t allowed = hwloc_topology_get_allowed_cpuset(hw);
    read_model(hw, t->model, sizeof t->model);
    t->cores = hwloc_bitmap_weight(allowed);
    t->numa_nodes = count_numa(hw, allowed);
    t->l2_bytes = cache_bytes(hw, HWLOC_OBJ_L2CACHE);
    t->l3_bytes = cache_bytes(hw, HWLOC_OBJ_L3CACHE);
    read_nics(hw, t->nics, sizeof t->nics);
    if (bus) read_near(hw, bus, t);
    t->memory_bytes = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    if (read_mask(hw, synthetic != NULL, t))
        st = mt_fail(err, MT_ESYSTEM, "the affinity mask of this process on %.60s is not known", t->host);
out:
    hwloc_topology_destroy(hw);
    return st;
}
