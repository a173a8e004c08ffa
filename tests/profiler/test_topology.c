/* Topologies that hwloc makes up, and this machine's against the kernel's own word. */
#include "profiler/topology.h"

#include <unistd.h>

#include "tests/check.h"

static void test_synthetic(void) {
    static const struct {
        const char *text;
        int cores, numa;
        int64_t l2_bytes, l3_bytes;
        const char *mask;
    } rows[] = {
        {"pack:1 core:1 pu:1", 1, 1, 0, 0, "0"},
        {"pack:2 l3:1(size=33554432) l2:4(size=2097152) core:1 pu:2", 16, 1, 2 << 20, 32 << 20, "0-15"},
        {"numa:4 pack:1 l3:1(size=8388608) core:6 pu:1", 24, 4, 0, 8 << 20, "0-23"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct mt_topology t;
        struct mt_err err = MT_ERR_INIT;
        CHECK_OK(mt_topology_read(rows[i].text, NULL, &t, &err), err);
        CHECK_EQ(t.cores, rows[i].cores);
        CHECK_EQ(t.mask_cores, rows[i].cores);
        CHECK_EQ(CPU_COUNT(&t.set), rows[i].cores);
        CHECK_EQ(t.numa_nodes, rows[i].numa);
        CHECK_EQ(t.mask_numa, rows[i].numa);
        CHECK_EQ(t.l2_bytes, rows[i].l2_bytes);
        CHECK_EQ(t.l3_bytes, rows[i].l3_bytes);
        CHECK_TEXT(t.mask, rows[i].mask);
        CHECK_TEXT(t.model, "unknown CPU");
    }
    struct mt_topology t;
    struct mt_err err = MT_ERR_INIT;
    CHECK_EQ(mt_topology_read("pack:two", NULL, &t, &err), MT_EINPUT);
    CHECK(strstr(err.text, "pack:two"), "%s", err.text);
}

/* This thread, bound to one of its cores. */
static void test_this_machine(void) {
    struct mt_topology all, one;
    struct mt_err err = MT_ERR_INIT;
    cpu_set_t mine, first;
    char host[256], mask[16];
    CHECK(!gethostname(host, sizeof host), "host");
    CHECK(!sched_getaffinity(0, sizeof mine, &mine), "mask");
    CHECK_OK(mt_topology_read(NULL, NULL, &all, &err), err);
    CHECK_TEXT(all.host, host);
    CHECK(CPU_EQUAL(&all.set, &mine), "%s", all.mask);
    CHECK_EQ(all.mask_cores, CPU_COUNT(&mine));
    CHECK(all.cores >= all.mask_cores && all.numa_nodes >= 1 && all.memory_bytes > 1 << 20 && all.model[0], "%s",
          all.model);
    size_t core = 0;
    while (!CPU_ISSET(core, &mine)) core++;
    CPU_ZERO(&first);
    CPU_SET(core, &first);
    CHECK(!sched_setaffinity(0, sizeof first, &first), "bind");
    CHECK_OK(mt_topology_read(NULL, NULL, &one, &err), err);
    snprintf(mask, sizeof mask, "%zu", core);
    CHECK_TEXT(one.mask, mask);
    CHECK_EQ(one.mask_cores, 1);
    CHECK_EQ(one.cores, all.cores);
}

int main(void) {
    test_synthetic();
    test_this_machine();
    return 0;
}
