/* The safetensors header reader on any bytes: refused, or tensors that fill the file exactly.
 *     build/fuzz/tests/fuzz_safetensors -runs=10000000 tests/fuzz/corpus/safetensors */
#include <stdlib.h>

#include "launcher/checkpoint/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct mt_safetensors file;
    struct mt_err err = MT_ERR_INIT;
    enum mt_status st = mt_safetensors_parse("fuzz", data, size, (int64_t)size, &file, &err);
    if (st && !err.text[0]) abort();
    uint64_t length = 0;
    for (int i = 0; i < 8 && !st; i++) length |= (uint64_t)data[i] << 8 * i;
    int64_t at = 8 + (int64_t)length;
    for (int t = 0; t < file.ntensors && !st; t++) {
        const struct mt_saved *s = &file.tensors[t];
        if (s->begin != at || s->size_bytes < 0 || s->count < 0 || mt_safetensors_find(&file, s->name) != s) abort();
        at += s->size_bytes;
    }
    if (!st && at != (int64_t)size) abort();
    mt_arena_release(&file.arena);
    return 0;
}
