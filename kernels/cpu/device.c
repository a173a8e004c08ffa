/* The CPU as a device: the process's affinity mask and its memory. */
#include <assert.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kernels/cpu/cpu.h"

enum { HUGE_PAGE_BYTES = 2 << 20, PAGE_BYTES = 4096 };

enum mt_status mt_device_open(const char *kind, struct mt_device **device, struct mt_err *err) {
    if (strcmp(kind, "cpu")) return mt_fail(err, MT_EINPUT, "there is no device \"%s\" (there is: cpu)", kind);
    struct mt_device *d = mt_calloc(1, sizeof *d);
    pthread_mutex_init(&d->lock, NULL);
    d->threads = omp_get_max_threads(); /* OMP_NUM_THREADS, or the affinity mask's */
    d->speed = 1;
    struct mt_err missing = MT_ERR_INIT;
    d->onednn = mt_backend_onednn(&missing);
    int used =
        snprintf(d->description, sizeof d->description, "cpu, %d thread%s, ", d->threads, d->threads == 1 ? "" : "s");
    char *rest = d->description + used;
    size_t room = sizeof d->description - (size_t)used;
    if (d->onednn)
        snprintf(rest, room, "%s", d->onednn->name);
    else
        snprintf(rest, room, "plain C (%s)", missing.text);
    *device = d;
    return MT_OK;
}

void mt_device_close(struct mt_device *device) {
    if (!device) return;
    while (device->allocations) mt_device_free(device, device->allocations->memory);
    pthread_mutex_destroy(&device->lock);
    free(device);
}

const char *mt_device_describe(struct mt_device *device) {
    return device->description;
}

void mt_device_emulate(struct mt_device *device, double speed) {
    assert(speed > 0 && speed <= 1 && device->speed == 1);
    device->speed = speed;
    if (speed == 1) return;
    size_t used = strlen(device->description);
    snprintf(device->description + used, sizeof device->description - used, ", emulated speed %g", speed);
}

int mt_device_threads(struct mt_device *device) {
    return device->threads;
}

int64_t mt_device_memory_bytes(struct mt_device *device) {
    (void)device;
    return mt_cpu_memory_bytes("");
}

const struct mt_backend *mt_device_backend(struct mt_device *device, const struct mt_call *call) {
    return device->onednn && device->onednn->supports(call) ? device->onednn : &mt_backend_c;
}

/* Pages that the kernel gives as they are first touched; large blocks begin at a huge page's boundary. */
static void *map(size_t size_bytes) {
    size_t slack = size_bytes >= HUGE_PAGE_BYTES ? HUGE_PAGE_BYTES : 0;
    char *memory = mmap(NULL, size_bytes + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return NULL;
    if (!slack) return memory;
    size_t before = (HUGE_PAGE_BYTES - (uintptr_t)memory % HUGE_PAGE_BYTES) % HUGE_PAGE_BYTES, after = slack - before;
    if (before) munmap(memory, before);
    if (after) munmap(memory + before + size_bytes, after);
    madvise(memory + before, size_bytes, MADV_HUGEPAGE);
    return memory + before;
}

enum mt_status mt_device_alloc(struct mt_device *device, int64_t size_bytes, void **memory, struct mt_err *err) {
    size_t pages = ((size_t)size_bytes + PAGE_BYTES - 1) / PAGE_BYTES;
    size_t mapped_bytes = (pages ? pages : 1) * PAGE_BYTES;
    void *place = size_bytes < 0 || size_bytes > INT64_MAX / 2 ? NULL : map(mapped_bytes);
    if (!place)
        return mt_fail(err, MT_ESYSTEM, "no memory: %.3f GB are wanted, %.3f GB can be had", 1e-9 * (double)size_bytes,
                       1e-9 * (double)mt_device_memory_bytes(device));
    struct mt_cpu_allocation *allocation = mt_malloc(sizeof *allocation);
    pthread_mutex_lock(&device->lock);
    *allocation = (struct mt_cpu_allocation){device->allocations, place, mapped_bytes};
    device->allocations = allocation;
    pthread_mutex_unlock(&device->lock);
    *memory = place;
    return MT_OK;
}

void mt_device_free(struct mt_device *device, void *memory) {
    pthread_mutex_lock(&device->lock);
    struct mt_cpu_allocation **place = &device->allocations, *found;
    while (*place && (*place)->memory != memory) place = &(*place)->next;
    if ((found = *place)) *place = found->next;
    pthread_mutex_unlock(&device->lock);
    if (!found) return; /* null */
    munmap(found->memory, found->size_bytes);
    free(found);
}

enum mt_status mt_device_copy_in(struct mt_device *device, void *to, const void *from, int64_t size_bytes,
                                 struct mt_err *err) {
    (void)device, (void)err;
    if (size_bytes) memcpy(to, from, (size_t)size_bytes);
    return MT_OK;
}

enum mt_status mt_device_copy_out(struct mt_device *device, void *to, const void *from, int64_t size_bytes,
                                  struct mt_err *err) {
    return mt_device_copy_in(device, to, from, size_bytes, err);
}
