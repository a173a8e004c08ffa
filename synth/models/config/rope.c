/* Rotary positions: as they are, or slowed as in Llama 3.1. Other kinds (linear, dynamic, yarn, ...) turn positions
 * otherwise, and are refused by name. */
#include <math.h>
#include <string.h>

#include "synth/models/config/internal.h"

#define TYPE(name, only)                                                                                               \
    { .key = name, .meaning = MT_KEY_ONLY, .optional = true, .values = only }
#define THETA                                                                                                          \
    { .key = "rope_theta", .meaning = MT_KEY_REAL, .option = "theta", .optional = true, .absent = 10000 }

static const struct mt_config_key plain_keys[] = {
    TYPE("rope_type", "\"default\""), TYPE("type", "\"default\""), THETA, {0}};

static const struct mt_config_key slowed_keys[] = {
    TYPE("rope_type", "\"llama3\""),
    TYPE("type", "\"llama3\""),
    THETA,
    {.key = "factor", .meaning = MT_KEY_REAL, .option = "rope_factor"},
    {.key = "low_freq_factor", .meaning = MT_KEY_REAL, .option = "rope_low"},
    {.key = "high_freq_factor", .meaning = MT_KEY_REAL, .option = "rope_high"},
    {.key = "original_max_position_embeddings", .meaning = MT_KEY_COUNT, .option = "rope_context"},
    {0},
};

enum mt_status mt_config_read_rope(struct mt_config_reader *r, struct mt_json object, struct mt_err *err) {
    struct mt_json type;
    if (mt_json_is(object, "null")) return MT_OK;
    const char *key = mt_json_has(object, "rope_type") || !mt_json_has(object, "type") ? "rope_type" : "type";
    bool named = mt_json_has(object, key);
    enum mt_status st = named ? mt_json_get(object, key, &type, err) : MT_OK;
    if (st) return st;
    bool slowed = named && mt_json_is(type, "\"llama3\"");
    if (named && !slowed && !mt_json_is(type, "\"default\"")) {
        mt_json_fail(type, err, "is %s, but Motley turns positions as \"default\" or \"llama3\" only",
                     mt_json_shown(type));
        return mt_err_hint(err, "choose a model with one of these; weights that were trained otherwise mean something "
                                "else here");
    }
    if ((st = mt_config_read_object(
             r, object, (const struct mt_config_key *const[]){slowed ? slowed_keys : plain_keys, NULL}, err)) ||
        !slowed)
        return st;
    return mt_model_get(&r->model, "rope_factor") ? MT_OK : mt_json_fail(object, err, "factor: must be above 0");
}

void mt_config_write_rope(const struct mt_model *model, const char *key, struct mt_json_out *out) {
    if (!mt_model_get(model, "rope_factor")) {
        mt_json_put_real_or_null(out, key, NAN);
        return;
    }
    mt_json_open(out, key, '{');
    mt_json_put_string(out, "rope_type", "llama3");
    mt_json_put_real(out, "factor", mt_model_real(model, "rope_factor"));
    mt_json_put_real(out, "low_freq_factor", mt_model_real(model, "rope_low"));
    mt_json_put_real(out, "high_freq_factor", mt_model_real(model, "rope_high"));
    mt_json_put_int(out, "original_max_position_embeddings", mt_model_get(model, "rope_context"));
    mt_json_close(out);
}
