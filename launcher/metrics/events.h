/* TensorBoard's event files: records of protobuf messages.
 *
 * A record: uint64 length, its masked CRC-32C, the message, the message's masked CRC-32C; little-endian. The message is
 * tensorflow.Event: 1 double wall_time, 2 int64 step, 3 string file_version, 5 Summary summary, 7 SessionLog
 * session_log; Summary: repeated 1 Value {1 string tag, 2 float simple_value}; SessionLog: 1 status, of which START (1)
 * tells readers to drop what earlier files of the folder have from `step` on. */
#ifndef MT_LAUNCHER_METRICS_EVENTS_H
#define MT_LAUNCHER_METRICS_EVENTS_H

#include <stddef.h>
#include <stdint.h>

struct mt_event_scalar {
    const char *tag;
    double value; /* written as float */
};

enum { MT_EVENT_MOST_SCALARS = 8, MT_EVENT_BYTES = 1024 };

/* Each puts a whole record into out[MT_EVENT_BYTES], and returns its size. Tags have at most 64 bytes. */
size_t mt_event_version(double wall_s, void *out);
size_t mt_event_restart(double wall_s, int64_t step, void *out);
size_t mt_event_scalars(double wall_s, int64_t step, const struct mt_event_scalar *scalars, int count, void *out);

/* CRC-32C (Castagnoli), and as event files mask it: rotated, plus a constant. */
uint32_t mt_crc32c(const void *data, size_t size_bytes);
uint32_t mt_crc32c_masked(const void *data, size_t size_bytes);

#endif
