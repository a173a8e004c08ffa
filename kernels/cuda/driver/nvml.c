/* libnvidia-ml comes with the driver, and is loaded at the first query. Its header is not needed: the few functions
 * here are stable, and have plain types. Where a function is missing or fails, its figure is left out. */
#include "kernels/cuda/driver/nvml.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* As NVML's reference has them. */
typedef struct nvml_device *nvml_handle;
enum { NVML_CLOCK_SM = 1, NVML_CLOCK_MEMORY = 2 };
enum { NVML_P2P_READ = 0, NVML_P2P_NVLINK = 2 };
enum { NVML_THROTTLED_POWER = 0x4, NVML_THROTTLED_HARDWARE = 0x88, NVML_THROTTLED_HEAT = 0x60 };
enum { NVML_MOST_LINKS = 18 };
struct nvml_memory {
    unsigned version;
    unsigned long long total, reserved, available, used;
};
struct nvml_pci {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char bus_id[32];
};

static struct {
    int (*init)(void);
    int (*driver)(char *text, unsigned length);
    int (*count)(unsigned *count);
    int (*by_index)(unsigned index, nvml_handle *device);
    int (*by_bus)(const char *bus, nvml_handle *device);
    int (*pci)(nvml_handle device, struct nvml_pci *pci);
    int (*clock)(nvml_handle device, int which, unsigned *MHz);
    int (*most_clock)(nvml_handle device, int which, unsigned *MHz);
    int (*power)(nvml_handle device, unsigned *mW);
    int (*power_limit)(nvml_handle device, unsigned *mW);
    int (*temperature)(nvml_handle device, int sensor, unsigned *C);
    int (*throttled)(nvml_handle device, unsigned long long *reasons);
    int (*memory)(nvml_handle device, struct nvml_memory *memory);
    int (*ecc)(nvml_handle device, int kind, int counter, unsigned long long *count);
    int (*link)(nvml_handle device, unsigned link, int *up);
    int (*peer)(nvml_handle device, nvml_handle other, int which, int *status);
} nvml;
static bool there;

static const struct {
    const char *name;
    void **function;
} functions[] = {{"nvmlInit_v2", (void **)&nvml.init},
                 {"nvmlSystemGetDriverVersion", (void **)&nvml.driver},
                 {"nvmlDeviceGetCount_v2", (void **)&nvml.count},
                 {"nvmlDeviceGetHandleByIndex_v2", (void **)&nvml.by_index},
                 {"nvmlDeviceGetHandleByPciBusId_v2", (void **)&nvml.by_bus},
                 {"nvmlDeviceGetPciInfo_v3", (void **)&nvml.pci},
                 {"nvmlDeviceGetClockInfo", (void **)&nvml.clock},
                 {"nvmlDeviceGetMaxClockInfo", (void **)&nvml.most_clock},
                 {"nvmlDeviceGetPowerUsage", (void **)&nvml.power},
                 {"nvmlDeviceGetEnforcedPowerLimit", (void **)&nvml.power_limit},
                 {"nvmlDeviceGetTemperature", (void **)&nvml.temperature},
                 {"nvmlDeviceGetCurrentClocksThrottleReasons", (void **)&nvml.throttled},
                 {"nvmlDeviceGetMemoryInfo_v2", (void **)&nvml.memory},
                 {"nvmlDeviceGetTotalEccErrors", (void **)&nvml.ecc},
                 {"nvmlDeviceGetNvLinkState", (void **)&nvml.link},
                 {"nvmlDeviceGetP2PStatus", (void **)&nvml.peer}};

static void load(void) {
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) return;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        *functions[i].function = dlsym(library, functions[i].name);
    there = nvml.init && nvml.by_bus && !nvml.init();
}

static bool find(const char *bus, nvml_handle *device) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    return there && !nvml.by_bus(bus, device);
}

bool cuda_bus_text(const char *id, char text[MT_DEVICE_BUS_TEXT]) {
    unsigned domain, bus, device;
    *text = 0;
    if (sscanf(id, "%x:%x:%x", &domain, &bus, &device) != 3) return false;
    snprintf(text, MT_DEVICE_BUS_TEXT, "%04x:%02x:%02x.0", domain & 0xffffffu, bus & 0xffu, device & 0xffu);
    return true;
}

static int64_t used_bytes(nvml_handle device) {
    struct nvml_memory memory = {.version = (unsigned)sizeof memory | 2u << 24};
    return nvml.memory && !nvml.memory(device, &memory) ? (int64_t)memory.used : 0;
}

int64_t cuda_nvml_used_bytes(const char *bus) {
    nvml_handle device;
    return find(bus, &device) ? used_bytes(device) : 0;
}

/* A value in units of `unit`; 0 if it is unknown. */
static double figure(int (*ask)(nvml_handle device, unsigned *value), nvml_handle device, double unit) {
    unsigned value;
    return ask && !ask(device, &value) ? unit * value : 0;
}
static double clock_Hz(int (*ask)(nvml_handle device, int which, unsigned *MHz), nvml_handle device, int which) {
    unsigned MHz;
    return ask && !ask(device, which, &MHz) ? 1e6 * MHz : 0;
}
static int64_t ecc_errors(nvml_handle device, int kind) {
    unsigned long long count;
    return nvml.ecc && !nvml.ecc(device, kind, 0, &count) ? (int64_t)count : 0;
}

static void read_health(nvml_handle device, struct mt_device_health *health) {
    unsigned celsius;
    unsigned long long reasons = 0;
    health->known = true;
    health->sm_clock_Hz = clock_Hz(nvml.clock, device, NVML_CLOCK_SM);
    health->sm_clock_most_Hz = clock_Hz(nvml.most_clock, device, NVML_CLOCK_SM);
    health->memory_clock_Hz = clock_Hz(nvml.clock, device, NVML_CLOCK_MEMORY);
    health->memory_clock_most_Hz = clock_Hz(nvml.most_clock, device, NVML_CLOCK_MEMORY);
    health->power_W = figure(nvml.power, device, 1e-3);
    health->power_limit_W = figure(nvml.power_limit, device, 1e-3);
    if (nvml.temperature && !nvml.temperature(device, 0, &celsius)) health->temperature_C = celsius;
    if (nvml.throttled && !nvml.throttled(device, &reasons))
        health->throttled = (reasons & NVML_THROTTLED_POWER ? MT_THROTTLED_POWER : 0u) |
                            (reasons & NVML_THROTTLED_HEAT ? MT_THROTTLED_HEAT : 0u) |
                            (reasons & NVML_THROTTLED_HARDWARE ? MT_THROTTLED_HARDWARE : 0u);
    health->ecc_corrected = ecc_errors(device, 0);
    health->ecc_uncorrected = ecc_errors(device, 1);
    for (unsigned link = 0; link < NVML_MOST_LINKS && nvml.link; link++) {
        int up;
        health->nvlinks += !nvml.link(device, link, &up) && up;
    }
}

static bool reaches(nvml_handle device, nvml_handle other, int which) {
    int status;
    return nvml.peer && !nvml.peer(device, other, which, &status) && status == 0;
}

static void read_peers(const char *bus, nvml_handle device, struct mt_device_facts *facts) {
    unsigned count = 0;
    if (!nvml.count || nvml.count(&count) || !nvml.by_index || !nvml.pci) return;
    for (unsigned i = 0; i < count && facts->npeers < MT_DEVICE_MOST_PEERS; i++) {
        nvml_handle other;
        struct nvml_pci pci;
        struct mt_device_peer *peer = &facts->peers[facts->npeers];
        if (nvml.by_index(i, &other) || nvml.pci(other, &pci) || !cuda_bus_text(pci.bus_id, peer->bus)) continue;
        if (!strcmp(peer->bus, bus)) continue;
        peer->nvlink = reaches(device, other, NVML_P2P_NVLINK);
        peer->access = reaches(device, other, NVML_P2P_READ);
        facts->npeers++;
    }
}

void cuda_nvml_read(const char *bus, struct mt_device_facts *facts) {
    nvml_handle device;
    if (!find(bus, &device)) return;
    if (nvml.driver && nvml.driver(facts->driver, sizeof facts->driver)) facts->driver[0] = 0;
    read_health(device, &facts->health);
    read_peers(bus, device, facts);
}
