/* NVML, where it is installed: what the CUDA driver API does not tell about a GPU. */
#ifndef MT_KERNELS_CUDA_DRIVER_NVML_H
#define MT_KERNELS_CUDA_DRIVER_NVML_H

#include "kernels/device/facts.h"

/* "00000000:1B:00.0" becomes "0000:1b:00.0", as the Linux kernel writes it; false for another text. */
bool cuda_bus_text(const char *id, char text[MT_DEVICE_BUS_TEXT]);

/* Bytes of the GPU's memory that processes hold; 0 where that is not known. */
int64_t cuda_nvml_used_bytes(const char *bus);

/* Health, peers and driver of the GPU on that bus into *facts; all but health.others_bytes. Without NVML nothing is
 * changed. */
void cuda_nvml_read(const char *bus, struct mt_device_facts *facts);

#endif
