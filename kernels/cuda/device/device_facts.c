/* Facts about a GPU, by the driver, and by NVML where it is installed. */
#include <nccl.h>
#include <stdio.h>

#include "kernels/cuda/device/internal.h"
#include "kernels/cuda/driver/facts.h"
#include "kernels/cuda/driver/nvml.h"

const char *cuda_bus(const struct cuda *cuda, char text[MT_DEVICE_BUS_TEXT]) {
    char id[32];
    *text = 0;
    if (!cuDeviceGetPCIBusId(id, sizeof id, cuda->handle)) cuda_bus_text(id, text);
    return text;
}

void cuda_device_facts(struct mt_device *base, struct mt_device_facts *facts) {
    const struct cuda_device *device = (const struct cuda_device *)base;
    size_t total = 0;
    int nccl;
    if (cuDeviceGetName(facts->model, sizeof facts->model, device->cuda.handle)) facts->model[0] = 0;
    if (!cuDeviceTotalMem(&total, device->cuda.handle)) facts->memory_bytes = (int64_t)total;
    cuda_bus(&device->cuda, facts->bus);
    facts->multiprocessors = device->multiprocessors;
    facts->computing = device->cuda.nsm;
    facts->capability = device->cuda.sm;
    if (!ncclGetVersion(&nccl))
        snprintf(facts->nccl, sizeof facts->nccl, "%d.%d.%d", nccl / 10000, nccl / 100 % 100, nccl % 100);
    cuda_nvml_read(facts->bus, facts);
    if (!facts->driver[0]) cuda_driver_version(facts->driver, sizeof facts->driver);
    facts->health.others_bytes = device->others_bytes;
    facts->context_bytes = device->context_bytes;
    facts->opened_bytes = device->opened_bytes;
}
