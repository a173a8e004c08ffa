/* How fast GPUs of a host move data to each other themselves, and what messages between them take: measurements, for
 * the design and the prediction of overlapped kernels.
 *
 *     struct mt_put_probe probe = {MT_PUT_STORES, there, here, 64 << 20, .blocks = 16, .flight_bytes = 32 << 10,
 *                                  .repeats = 20};
 *     mt_device_puts_start(device, &probe, &err);       // concurrent with what streams run
 *     mt_device_puts_finish(device, &each_s, &err);
 *
 * Peers' memory is mapped by mt_device_import. MT_EINPUT on a CPU. */
#ifndef MT_KERNELS_DEVICE_PUT_H
#define MT_KERNELS_DEVICE_PUT_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/base/err.h"

struct mt_device;

enum mt_put_how {
    MT_PUT_ENGINE, /* a copy engine */
    MT_PUT_STORES, /* loads and stores of a kernel's threads */
    MT_PUT_BULK,   /* bulk copies through shared memory (TMA); MT_EMISSING before compute capability 9.0 */
};
struct mt_put_probe {
    enum mt_put_how how;
    void *to;
    const void *from;
    int64_t size_bytes; /* a multiple of flight_bytes */
    int blocks;         /* of the kernel */
    int flight_bytes; /* that each block has in flight: a power of two, 512 to 32 KiB by stores, 1 to 128 KiB in bulk */
    int repeats;
};

/* One at a time; work queued on streams before and after may run at the same time. */
enum mt_status mt_device_puts_start(struct mt_device *device, const struct mt_put_probe *probe, struct mt_err *err);
/* Wait; *each_s: time of one. */
enum mt_status mt_device_puts_finish(struct mt_device *device, double *each_s, struct mt_err *err);

/* Messages with a signal, back and forth between two GPUs. Both call at about the same time, with zeros in the first
 * MT_TURNS_BYTES of their parts. */
enum mt_turns_level { MT_TURNS_THREAD, MT_TURNS_WARP, MT_TURNS_BLOCK };
struct mt_turns_probe {
    void *mine, *peer;  /* parts of equal layout, MT_TURNS_BYTES + 3 size_bytes each */
    int64_t size_bytes; /* of a message, a multiple of 16 */
    int64_t rounds;
    bool leads;                /* one of the two */
    double deadline_s;         /* of one wait */
    enum mt_turns_level level; /* who sends and receives together */
};
enum { MT_TURNS_BYTES = 256 };
/* *each_s: of one message, half a round. MT_ESTALL when the peer did not answer; MT_EBUG when what arrived is not what
 * was sent. */
enum mt_status mt_device_turns(struct mt_device *device, const struct mt_turns_probe *probe, double *each_s,
                               struct mt_err *err);

#endif
