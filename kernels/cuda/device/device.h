/* A GPU as a device (kernels/device/device.h), for the program that has loaded the module. */
#ifndef MT_KERNELS_CUDA_DEVICE_DEVICE_H
#define MT_KERNELS_CUDA_DEVICE_DEVICE_H

#include "kernels/device/device.h"

/* The caller's to close. `index` is among the GPUs that this process sees. */
enum mt_status cuda_device_open(int index, struct mt_device **device, struct mt_err *err);

#endif
