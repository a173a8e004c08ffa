/* Tables of keys, which are read and written by the same rows. */
#ifndef MT_SYNTH_MODELS_CONFIG_INTERNAL_H
#define MT_SYNTH_MODELS_CONFIG_INTERNAL_H

#include "kernels/base/text/json.h"
#include "synth/models/config/config.h"

enum mt_key_meaning {
    MT_KEY_COUNT,   /* an option's whole number; null, where it may be absent: the option's preset */
    MT_KEY_TRUTH,   /* an option that is 0 or 1 */
    MT_KEY_ONLY,    /* one of `values`, since the model computes nothing else */
    MT_KEY_DROPOUT, /* a probability; all of them must agree */
    MT_KEY_STD,     /* of fresh weights, which Motley draws with 0.02 */
    MT_KEY_IGNORED  /* does not change what the model computes */
};

struct mt_config_key {
    const char *key;
    enum mt_key_meaning meaning;
    bool optional;       /* may be absent: then it is as in transformers, `absent` */
    bool written;        /* into the config.json of a checkpoint */
    const char *option;  /* of the model: MT_KEY_COUNT, MT_KEY_TRUTH */
    double absent;       /* MT_KEY_TRUTH, MT_KEY_DROPOUT */
    const char *values;  /* MT_KEY_ONLY: JSON texts with '|' between them, of which the first is written */
    const char *instead; /* MT_KEY_ONLY: what a person can do; null: see read.c */
};

struct mt_architecture {
    const char *model_type, *with_head; /* "gpt2", "GPT2LMHeadModel" */
    const char *class;                  /* of Motley's models */
    const char *fixed;                  /* options that the model_type itself says, "qkv_bias=1"; or "" */
    const struct mt_config_key *keys;   /* ends with a null key */
    bool (*fits)(const struct mt_model *model); /* whether it computes this model, of its class; null: it does */
};

extern const struct mt_architecture *const mt_architectures[];
extern const int mt_narchitectures;
extern const struct mt_config_key mt_config_ignored[]; /* of all architectures; ends with a null key */

#endif
