/* Topologies that hwloc makes up, and this machine's against the kernel's own word. */
#include "profiler/measure/topology.h"

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

/* Two packages, a GPU and a network adapter at the second. */
static const char two_packages[] =
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?><!DOCTYPE topology SYSTEM \"hwloc2.dtd\"><topology version=\"2.0\">"
    "<object type=\"Machine\" os_index=\"0\" cpuset=\"0xf\" complete_cpuset=\"0xf\" allowed_cpuset=\"0xf\" "
    "nodeset=\"0x3\" "
    "complete_nodeset=\"0x3\" allowed_nodeset=\"0x3\" gp_index=\"1\">"
    "<object type=\"Package\" os_index=\"0\" cpuset=\"0x3\" complete_cpuset=\"0x3\" nodeset=\"0x1\" "
    "complete_nodeset=\"0x1\" gp_index=\"2\">"
    "<object type=\"NUMANode\" os_index=\"0\" cpuset=\"0x3\" complete_cpuset=\"0x3\" nodeset=\"0x1\" "
    "complete_nodeset=\"0x1\" gp_index=\"3\" local_memory=\"1073741824\"/>"
    "<object type=\"PU\" os_index=\"0\" cpuset=\"0x1\" complete_cpuset=\"0x1\" nodeset=\"0x1\" "
    "complete_nodeset=\"0x1\" "
    "gp_index=\"4\"/><object type=\"PU\" os_index=\"1\" cpuset=\"0x2\" complete_cpuset=\"0x2\" nodeset=\"0x1\" "
    "complete_nodeset=\"0x1\" gp_index=\"5\"/></object>"
    "<object type=\"Package\" os_index=\"1\" cpuset=\"0xc\" complete_cpuset=\"0xc\" nodeset=\"0x2\" "
    "complete_nodeset=\"0x2\" gp_index=\"6\">"
    "<object type=\"NUMANode\" os_index=\"1\" cpuset=\"0xc\" complete_cpuset=\"0xc\" nodeset=\"0x2\" "
    "complete_nodeset=\"0x2\" gp_index=\"7\" local_memory=\"1073741824\"/>"
    "<object type=\"PU\" os_index=\"2\" cpuset=\"0x4\" complete_cpuset=\"0x4\" nodeset=\"0x2\" "
    "complete_nodeset=\"0x2\" "
    "gp_index=\"8\"/><object type=\"PU\" os_index=\"3\" cpuset=\"0x8\" complete_cpuset=\"0x8\" nodeset=\"0x2\" "
    "complete_nodeset=\"0x2\" gp_index=\"9\"/>"
    "<object type=\"Bridge\" gp_index=\"20\" bridge_type=\"0-1\" depth=\"0\" bridge_pci=\"0000:[1a-1c]\">"
    "<object type=\"PCIDev\" gp_index=\"21\" pci_busid=\"0000:1b:00.0\" pci_type=\"0302 [10de:2330] [10de:16c1] a1\" "
    "pci_link_speed=\"0.000000\"/>"
    "<object type=\"PCIDev\" gp_index=\"22\" pci_busid=\"0000:1c:00.0\" pci_type=\"0207 [15b3:1021] [15b3:0041] 00\" "
    "pci_link_speed=\"0.000000\"><object type=\"OSDev\" gp_index=\"23\" name=\"ib0\" osdev_type=\"2\"/>"
    "<object type=\"OSDev\" gp_index=\"24\" name=\"mlx5_0\" osdev_type=\"3\"/>"
    "<object type=\"OSDev\" gp_index=\"25\" name=\"nvme0n1\" osdev_type=\"0\"/></object>"
    "</object></object></object></topology>";

static void test_bus(void) {
    struct mt_topology t;
    struct mt_err err = MT_ERR_INIT;
    CHECK_OK(mt_topology_read(two_packages, "0000:1b:00.0", &t, &err), err);
    CHECK_EQ(t.cores, 4);
    CHECK_EQ(t.near_cores, 2);
    CHECK_TEXT(t.near_text, "2-3");
    CHECK(CPU_COUNT(&t.near) == 2 && CPU_ISSET(2, &t.near) && CPU_ISSET(3, &t.near), "near");
    CHECK_TEXT(t.nics, "ib0 mlx5_0");
    CHECK_OK(mt_topology_read(two_packages, "0000:ff:00.0", &t, &err), err);
    CHECK_EQ(t.near_cores, 0);
    CHECK_OK(mt_topology_read("pack:1 core:2 pu:1", "0000:1b:00.0", &t, &err), err);
    CHECK_EQ(t.near_cores, 0);
    CHECK_TEXT(t.nics, "");
    CHECK_EQ(mt_topology_read("<topology", NULL, &t, &err), MT_EINPUT);
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
    test_bus();
    test_this_machine();
    return 0;
}
