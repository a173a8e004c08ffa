/* Writing: the rows that are marked, of the first architecture that computes the model. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "synth/models/config/internal.h"

static const struct mt_architecture *architecture_of(const struct mt_model *model) {
    for (int a = 0; a < mt_narchitectures; a++) {
        const struct mt_architecture *m = mt_architectures[a];
        if (!strcmp(m->class, model->class->name) && (!m->fits || m->fits(model))) return m;
    }
    return NULL;
}

bool mt_config_has(const struct mt_model *model) {
    return architecture_of(model) != NULL;
}

/* The first of "a|b", which are JSON texts of scalars. */
static void put_first(struct mt_json_out *out, const char *key, const char *values) {
    char text[64];
    snprintf(text, sizeof text, "%.*s", (int)strcspn(values, "|"), values);
    size_t length = strlen(text);
    if (text[0] == '"') {
        text[length - 1] = 0;
        mt_json_put_string(out, key, text + 1);
    } else if (text[0] == 't' || text[0] == 'f') {
        mt_json_put_bool(out, key, text[0] == 't');
    } else {
        mt_json_put_real_or_null(out, key, text[0] == 'n' ? NAN : strtod(text, NULL));
    }
}

static void put_key(struct mt_json_out *out, const struct mt_config_key *k, const struct mt_model *model,
                    double dropout) {
    switch (k->meaning) {
    case MT_KEY_COUNT: mt_json_put_int(out, k->key, mt_model_get(model, k->option)); break;
    case MT_KEY_REAL: mt_json_put_real(out, k->key, mt_model_real(model, k->option)); break;
    case MT_KEY_TRUTH: mt_json_put_bool(out, k->key, mt_model_get(model, k->option) != 0); break;
    case MT_KEY_ONLY: put_first(out, k->key, k->values); break;
    case MT_KEY_ROPE: mt_config_write_rope(model, k->key, out); break;
    case MT_KEY_DROPOUT: mt_json_put_real(out, k->key, dropout); break;
    case MT_KEY_EACH:
    case MT_KEY_STD:
    case MT_KEY_TOKENS:
    case MT_KEY_IGNORED: break;
    }
}

/* Left out, they would be those of the published models. */
static void put_tokens(struct mt_json_out *out, const struct mt_config *from) {
    for (int t = 0; t < MT_NTOKENS; t++) {
        const struct mt_token_ids *ids = from ? &from->tokens[t] : &(struct mt_token_ids){0};
        if (!ids->count)
            mt_json_put_real_or_null(out, mt_config_token_keys[t], NAN);
        else if (ids->count == 1)
            mt_json_put_int(out, mt_config_token_keys[t], ids->ids[0]);
        else
            mt_json_put_ints(out, mt_config_token_keys[t], ids->ids, ids->count);
    }
}

char *mt_config_text(const struct mt_model *model, enum mt_type type, double dropout, const struct mt_config *tokens) {
    const struct mt_architecture *architecture = architecture_of(model);
    if (!architecture) return NULL;
    struct mt_json_out out;
    mt_json_out_init(&out);
    mt_json_open(&out, NULL, '{');
    mt_json_open_inline(&out, "architectures", '[');
    mt_json_put_string(&out, NULL, architecture->with_head);
    mt_json_close(&out);
    mt_json_put_string(&out, "model_type", architecture->model_type);
    for (int t = 0; architecture->keys[t]; t++)
        for (const struct mt_config_key *k = architecture->keys[t]; k->key; k++)
            if (k->written) put_key(&out, k, model, dropout);
    put_tokens(&out, tokens);
    mt_json_put_string(&out, "torch_dtype", type == MT_F64 ? "float64" : "float32");
    mt_json_close(&out);
    return out.text;
}
