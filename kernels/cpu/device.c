/* The CPU as a device: the process's affinity mask and its memory. */
#include <assert.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kernels/cpu/internal.h"

enum { HUGE_PAGE_BYTES = 2 << 20, PAGE_BYTES = 4096 };

static struct mt_cpu_device *cpu_of(struct mt_device *device) {
    return (struct mt_cpu_device *)device;
}

static int64_t memory_bytes(struct mt_device *device) {
    (void)device;
    return mt_cpu_memory_bytes("");
}

static enum mt_status do_nothing(const struct mt_call *call, struct mt_err *err) {
    (void)call, (void)err;
    return MT_OK;
}

/* The overhead of an operator on an emulated device, in seconds of its own speed: measured with operators that do
 * nothing. 0 when no thread can be started. */
static double overhead_s(struct mt_device *device) {
    enum { COUNT = 256 };
    static const struct mt_backend nothing = {.name = "nothing", .run = do_nothing};
    static const struct mt_attr attr;
    static const double deadline_s = 60;
    const struct mt_call call = {.kind = MT_OP_count, .attr = &attr};
    double seconds[COUNT][2], sum_s = 0;
    struct mt_stream *stream;
    struct mt_event *event;
    struct mt_err err = MT_ERR_INIT;
    if (mt_cpu_stream_new(device, "probe", &stream, &err)) return 0;
    mt_cpu_event_new(device, &event, &err);
    for (int i = 0; i < COUNT; i++) {
        mt_cpu_stream_op(stream, &nothing, &call, seconds[i]);
        mt_cpu_event_record(event, stream); /* as programs do */
    }
    if (!mt_cpu_stream_sync(stream, deadline_s, &err))
        for (int i = 0; i < COUNT; i++) sum_s += seconds[i][1] - seconds[i][0];
    mt_cpu_stream_free(stream);
    mt_cpu_event_free(event);
    return sum_s * ((struct mt_cpu_device *)device)->speed / COUNT;
}

static void emulate(struct mt_device *device, double speed) {
    assert(cpu_of(device)->speed == 1);
    cpu_of(device)->speed = speed;
    if (speed == 1) return;
    device->emulated_exact_s = overhead_s(device) / MT_EMULATED_ERROR;
    char doubt[64] = "";
    if (device->emulated_exact_s > MT_EMULATED_EXACT_S)
        snprintf(doubt, sizeof doubt, " (inexact for operators below %.0f us)", 1e6 * device->emulated_exact_s);
    size_t used = device->unstretched_length = strlen(device->description);
    snprintf(device->description + used, sizeof device->description - used, ", emulated speed %g%s", speed, doubt);
}

static const struct mt_backend *backend(struct mt_device *device, const struct mt_call *call) {
    const struct mt_backend *onednn = cpu_of(device)->onednn;
    return onednn && onednn->supports(call) ? onednn : &mt_backend_c;
}

/* Anonymous pages, allocated at first touch; large blocks are aligned to huge pages. */
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

static enum mt_status allocate(struct mt_device *device, int64_t size_bytes, void **memory, struct mt_err *err) {
    struct mt_cpu_device *cpu = cpu_of(device);
    size_t pages = ((size_t)size_bytes + PAGE_BYTES - 1) / PAGE_BYTES;
    size_t mapped_bytes = (pages ? pages : 1) * PAGE_BYTES;
    void *place = size_bytes < 0 || size_bytes > INT64_MAX / 2 ? NULL : map(mapped_bytes);
    if (!place)
        return mt_fail(err, MT_ESYSTEM, "out of memory: %.3f GB requested, %.3f GB free", 1e-9 * (double)size_bytes,
                       1e-9 * (double)memory_bytes(device));
    struct mt_cpu_allocation *allocation = mt_malloc(sizeof *allocation);
    pthread_mutex_lock(&cpu->lock);
    *allocation = (struct mt_cpu_allocation){cpu->allocations, place, mapped_bytes};
    cpu->allocations = allocation;
    pthread_mutex_unlock(&cpu->lock);
    *memory = place;
    return MT_OK;
}

static void release(struct mt_device *device, void *memory) {
    struct mt_cpu_device *cpu = cpu_of(device);
    pthread_mutex_lock(&cpu->lock);
    struct mt_cpu_allocation **place = &cpu->allocations, *found;
    while (*place && (*place)->memory != memory) place = &(*place)->next;
    if ((found = *place)) *place = found->next;
    pthread_mutex_unlock(&cpu->lock);
    if (!found) return; /* null */
    munmap(found->memory, found->size_bytes);
    free(found);
}

static enum mt_status copy(struct mt_device *device, void *to, const void *from, int64_t size_bytes,
                           struct mt_err *err) {
    (void)device, (void)err;
    if (size_bytes) memcpy(to, from, (size_t)size_bytes);
    return MT_OK;
}

static void close_device(struct mt_device *device) {
    struct mt_cpu_device *cpu = cpu_of(device);
    while (cpu->allocations) release(device, cpu->allocations->memory);
    pthread_mutex_destroy(&cpu->lock);
    free(cpu);
}

static const struct mt_device_class class = {
    .kind = "cpu",
    .close = close_device,
    .memory_bytes = memory_bytes,
    .emulate = emulate,
    .backend = backend,
    .alloc = allocate,
    .free = release,
    .copy_in = copy,
    .copy_out = copy,
    .host_alloc = allocate,
    .host_free = release,
    .stream_new = mt_cpu_stream_new,
    .stream_free = mt_cpu_stream_free,
    .stream_op = mt_cpu_stream_op,
    .stream_coll = mt_cpu_stream_coll,
    .stream_overlap = mt_cpu_stream_overlap,
    .stream_copy = mt_cpu_stream_copy,
    .stream_window = mt_cpu_stream_window,
    .stream_wait = mt_cpu_stream_wait,
    .stream_query = mt_cpu_stream_query,
    .stream_sync = mt_cpu_stream_sync,
    .event_new = mt_cpu_event_new,
    .event_free = mt_cpu_event_free,
    .event_record = mt_cpu_event_record,
    .event_sync = mt_cpu_event_sync,
};

enum mt_status mt_cpu_device_open(int index, struct mt_device **device, struct mt_err *err) {
    (void)index, (void)err;
    struct mt_cpu_device *cpu = mt_calloc(1, sizeof *cpu);
    pthread_mutex_init(&cpu->lock, NULL);
    int threads = omp_get_max_threads(); /* OMP_NUM_THREADS, or the cores of the affinity mask */
    cpu->base.class = &class;
    cpu->base.threads = threads;
    cpu->base.depth = 1;
    cpu->speed = 1;
    cpu->clock = &mt_cpu_clock;
    struct mt_err missing = MT_ERR_INIT;
    cpu->onednn = mt_backend_onednn(&missing);
    char *text = cpu->base.description;
    int used = snprintf(text, sizeof cpu->base.description, "cpu, %d thread%s, ", threads, threads == 1 ? "" : "s");
    size_t room = sizeof cpu->base.description - (size_t)used;
    if (cpu->onednn)
        snprintf(text + used, room, "%s", cpu->onednn->name);
    else
        snprintf(text + used, room, "plain C (%s)", missing.text);
    *device = &cpu->base;
    return MT_OK;
}
