/* Facts about a device, for profiles and for checks before a job.
 *
 *     struct mt_device_facts facts;
 *     mt_device_facts(device, &facts);
 *     if (facts.health.known && facts.health.throttled) ...
 *
 * All zero for a CPU, whose facts profiler/measure/topology.h finds. For a GPU the driver gives the first part, and
 * NVML, where it is installed, `peers` and `health`. */
#ifndef MT_KERNELS_DEVICE_FACTS_H
#define MT_KERNELS_DEVICE_FACTS_H

#include <stdbool.h>
#include <stdint.h>

struct mt_device;

enum { MT_DEVICE_BUS_TEXT = 24, MT_DEVICE_MOST_PEERS = 16 };

/* The connection to another GPU of the host. */
struct mt_device_peer {
    char bus[MT_DEVICE_BUS_TEXT];
    bool nvlink; /* else PCIe */
    bool access; /* peer access: copies need no staging in host memory */
};

/* Reasons for a reduced clock, by NVML. */
enum {
    MT_THROTTLED_POWER = 1,   /* at its power limit, as usual under load */
    MT_THROTTLED_HEAT = 2,    /* too hot */
    MT_THROTTLED_HARDWARE = 4 /* hardware power brake, as from a failing power supply */
};

struct mt_device_health {
    bool known;
    double sm_clock_Hz, sm_clock_most_Hz; /* now, and at most */
    double memory_clock_Hz, memory_clock_most_Hz;
    double power_W, power_limit_W;
    double temperature_C;
    unsigned throttled;    /* MT_THROTTLED_... */
    int64_t others_bytes;  /* of its memory, held by other processes */
    int64_t ecc_corrected; /* errors since the driver was loaded */
    int64_t ecc_uncorrected;
    int nvlinks; /* links that are up */
};

/* Compute capabilities of GPUs: the least for which there are kernels, and the least whose tensor cores multiply bf16
 * and tf32. */
enum { MT_CAPABILITY_LEAST = 75, MT_CAPABILITY_BF16 = 80 };

struct mt_device_facts {
    char model[128];              /* "NVIDIA H200" */
    char bus[MT_DEVICE_BUS_TEXT]; /* "0000:1b:00.0": of the PCI device, as hwloc and the kernel write it */
    char driver[32];              /* "580.95.05" */
    char nccl[32];                /* "2.28.9": of the library that was loaded */
    int multiprocessors;          /* all */
    int computing;                /* those of the stream "compute": fewer if emulated */
    int capability;               /* 90: 9.0 */
    int64_t memory_bytes;         /* all of it */
    int64_t context_bytes;        /* taken by opening the device */
    int64_t opened_bytes;         /* free after that */
    int npeers;                   /* other GPUs that NVML, or this process, sees */
    struct mt_device_peer peers[MT_DEVICE_MOST_PEERS];
    struct mt_device_health health;
};

void mt_device_facts(struct mt_device *device, struct mt_device_facts *facts);

#endif
