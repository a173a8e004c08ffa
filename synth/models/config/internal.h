/* Tables of keys, which are read and written by the same rows. */
#ifndef MT_SYNTH_MODELS_CONFIG_INTERNAL_H
#define MT_SYNTH_MODELS_CONFIG_INTERNAL_H

#include "kernels/base/text/json.h"
#include "synth/models/config/config.h"

enum mt_key_meaning {
    MT_KEY_COUNT,   /* an option's whole number */
    MT_KEY_REAL,    /* an option's number */
    MT_KEY_TRUTH,   /* an option that is 0 or 1 */
    MT_KEY_ONLY,    /* one of `values`, since the model computes nothing else */
    MT_KEY_EACH,    /* a list of such; null: no list */
    MT_KEY_ROPE,    /* an object about rotary positions (rope.c); null: there is none */
    MT_KEY_DROPOUT, /* a probability; all of them must agree */
    MT_KEY_STD,     /* of fresh weights, which Motley draws with 0.02 */
    MT_KEY_TOKENS,  /* token ids: what is read is written again, but changes nothing here */
    MT_KEY_IGNORED  /* does not change what the model computes */
};

struct mt_config_key {
    const char *key;
    enum mt_key_meaning meaning;
    bool optional;       /* may be absent: then it is as in transformers, `absent`; of a count: the option's preset */
    bool nullable;       /* of a count: null is the option's preset */
    bool written;        /* into the config.json of a checkpoint */
    const char *option;  /* of the model; two keys of one option must agree */
    double absent;       /* of numbers and truths */
    const char *values;  /* JSON texts with '|' between them, of which the first is written */
    const char *instead; /* of MT_KEY_ONLY: what a person can do; null: see read.c */
};

struct mt_architecture {
    const char *model_type, *with_head;         /* "gpt2", "GPT2LMHeadModel" */
    const char *class;                          /* of Motley's models */
    const char *fixed;                          /* options that the model_type itself says, "qkv_bias=1"; or "" */
    const struct mt_config_key *keys[3];        /* tables, until a null one; each ends with a null key */
    bool (*fits)(const struct mt_model *model); /* whether it computes this model, of its class; null: it does */
};

extern const struct mt_architecture *const mt_architectures[];
extern const int mt_narchitectures;
extern const char *const mt_config_token_keys[MT_NTOKENS];
extern const struct mt_config_key mt_config_ignored[];    /* of all architectures */
extern const struct mt_config_key mt_config_llama_keys[]; /* of llama and those that share its blocks */

/* What is read: the class's presets, and what keys have said. */
struct mt_config_reader {
    const struct mt_architecture *architecture;
    struct mt_model model;
    struct mt_arena *arena;
    struct mt_config *config;
    const char *set_by[MT_MODEL_OPTIONS]; /* of each option: the key; null: none has set it */
    const char *dropout_key;              /* that has been read */
};

/* read.c: an object's members by tables, of which a null one is the last; and what is absent. */
enum mt_status mt_config_read_object(struct mt_config_reader *reader, struct mt_json object,
                                     const struct mt_config_key *const *tables, struct mt_err *err);

/* rope.c: rope_scaling, or rope_parameters of transformers 5. Written: rope_theta and rope_scaling, which both know. */
enum mt_status mt_config_read_rope(struct mt_config_reader *reader, struct mt_json object, struct mt_err *err);
void mt_config_write_rope(const struct mt_model *model, const char *key, struct mt_json_out *out);

#endif
