/* The reader of config.json on any text: refused with a message, or a model's text whose own config.json, where
 * transformers has such a model, is of the same model.
 *     build/fuzz/tests/fuzz_config -runs=10000000 tests/fuzz/corpus/config */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "synth/models/config/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_config config, again;
    struct mt_model model;
    struct mt_err err = MT_ERR_INIT;
    if (mt_config_parse("fuzz", (const char *)data, size, &arena, &config, &err)) {
        if (!err.text[0] || err.status != MT_EINPUT) abort();
    } else {
        if (mt_model_parse(config.model, &model, &err) || strcmp(config.model, mt_model_text(&model, &arena))) abort();
        char *text = mt_config_text(&model, MT_F32, config.dropout < 0 ? 0 : config.dropout, &config);
        if (!text || mt_config_parse("again", text, strlen(text), &arena, &again, &err)) abort();
        if (memcmp(again.tokens, config.tokens, sizeof config.tokens)) abort();
        if (strcmp(again.model, config.model) || again.dropout != config.dropout) abort();
        free(text);
    }
    mt_arena_release(&arena);
    return 0;
}
