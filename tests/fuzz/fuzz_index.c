/* The reader of model.safetensors.index.json on any text: refused with a message, or tensors in files of the folder.
 *     build/fuzz/tests/fuzz_index -runs=10000000 tests/fuzz/corpus/index */
#include <stdlib.h>
#include <string.h>

#include "launcher/checkpoint/weights.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_weights_index index;
    struct mt_err err = MT_ERR_INIT;
    if (mt_weights_index_parse("fuzz", (const char *)data, size, &arena, &index, &err)) {
        if (!err.text[0] || err.status != MT_EINPUT) abort();
    } else {
        if (index.ntensors < 1 || index.nshards < 1 || index.nshards > index.ntensors) abort();
        for (int t = 0; t < index.ntensors; t++)
            if (index.shard[t] < 0 || index.shard[t] >= index.nshards || !index.tensors[t]) abort();
        for (int s = 0; s < index.nshards; s++)
            if (!*index.shards[s] || strchr(index.shards[s], '/') || !strcmp(index.shards[s], "..")) abort();
    }
    mt_arena_release(&arena);
    return 0;
}
