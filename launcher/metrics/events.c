/* A small encoder: messages are built in the record itself, inner ones in a buffer, since their length comes first. */
#include "launcher/metrics/events.h"

#include <assert.h>
#include <string.h>

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };
enum { HEAD_BYTES = 12, TAIL_BYTES = 4, MOST_TAG = 64 };

struct message {
    uint8_t *data;
    size_t size, room;
};

uint32_t mt_crc32c(const void *data, size_t size_bytes) {
    const uint8_t *bytes = data;
    uint32_t crc = ~0u;
    for (size_t i = 0; i < size_bytes; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (0x82f63b78u & (0u - (crc & 1u)));
    }
    return ~crc;
}

uint32_t mt_crc32c_masked(const void *data, size_t size_bytes) {
    uint32_t crc = mt_crc32c(data, size_bytes);
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static void put(struct message *m, const void *data, size_t size) {
    assert(m->size + size <= m->room);
    memcpy(m->data + m->size, data, size);
    m->size += size;
}

static void put_varint(struct message *m, uint64_t value) {
    do {
        uint8_t byte = (uint8_t)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        put(m, &byte, 1);
    } while (value >>= 7);
}

static void put_key(struct message *m, int field, int wire) {
    put_varint(m, (uint64_t)(field << 3 | wire));
}

static void put_bytes(struct message *m, int field, const void *data, size_t size) {
    put_key(m, field, BYTES);
    put_varint(m, size);
    put(m, data, size);
}

static struct message begin(void *out, double wall_s, int64_t step) {
    struct message m = {(uint8_t *)out + HEAD_BYTES, 0, MT_EVENT_BYTES - HEAD_BYTES - TAIL_BYTES};
    put_key(&m, 1, FIXED64);
    put(&m, &wall_s, sizeof wall_s);
    put_key(&m, 2, VARINT);
    put_varint(&m, (uint64_t)step);
    return m;
}

static size_t end(void *out, const struct message *m) {
    uint8_t *bytes = out;
    uint64_t length = m->size;
    memcpy(bytes, &length, sizeof length);
    uint32_t crc = mt_crc32c_masked(bytes, sizeof length);
    memcpy(bytes + sizeof length, &crc, sizeof crc);
    crc = mt_crc32c_masked(m->data, m->size);
    memcpy(m->data + m->size, &crc, sizeof crc);
    return HEAD_BYTES + m->size + TAIL_BYTES;
}

size_t mt_event_version(double wall_s, void *out) {
    static const char version[] = "brain.Event:2";
    struct message m = begin(out, wall_s, 0);
    put_bytes(&m, 3, version, sizeof version - 1);
    return end(out, &m);
}

size_t mt_event_restart(double wall_s, int64_t step, void *out) {
    static const uint8_t start[] = {1 << 3 | VARINT, 1};
    struct message m = begin(out, wall_s, step);
    put_bytes(&m, 7, start, sizeof start);
    return end(out, &m);
}

size_t mt_event_scalars(double wall_s, int64_t step, const struct mt_event_scalar *scalars, int count, void *out) {
    uint8_t summary_bytes[MT_EVENT_BYTES], value_bytes[MOST_TAG + 16];
    struct message m = begin(out, wall_s, step), summary = {summary_bytes, 0, sizeof summary_bytes};
    assert(count <= MT_EVENT_MOST_SCALARS);
    for (int i = 0; i < count; i++) {
        struct message value = {value_bytes, 0, sizeof value_bytes};
        float number = (float)scalars[i].value;
        size_t length = strlen(scalars[i].tag);
        assert(length <= MOST_TAG);
        put_bytes(&value, 1, scalars[i].tag, length);
        put_key(&value, 2, FIXED32);
        put(&value, &number, sizeof number);
        put_bytes(&summary, 1, value.data, value.size);
    }
    put_bytes(&m, 5, summary.data, summary.size);
    return end(out, &m);
}
