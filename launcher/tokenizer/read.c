/* A tokenizer.json, from its top. */
#include <stdio.h>

#include "kernels/base/log.h"
#include "launcher/tokenizer/internal.h"

/* ---- the model ---- */

static const char *const types[] = {
#define MODEL(type, prefix) #type,
#include "launcher/tokenizer/models.def"
#undef MODEL
};
enum { NMODELS = sizeof types / sizeof *types };

static enum mt_status read_vocabulary(struct mt_json object, struct mt_tokenizer *t, struct mt_err *err) {
    struct mt_json vocab, member;
    const char *text;
    int n;
    enum mt_status st;
    if ((st = mt_json_get(object, "vocab", &vocab, err)) || (st = mt_json_members(vocab, MT_TOKEN_MOST, &n, err)))
        return st;
    for (int i = 0; i < n; i++) {
        int64_t id;
        if ((st = mt_json_member(vocab, i, &text, &member, err)) ||
            (st = mt_json_as_int(member, 0, MT_TOKEN_MOST, &id, err)))
            return st;
        size_t length = strlen(text);
        mt_vocabulary_set(&t->model.ids, mt_arena_memdup(&t->arena, text, length + 1), length, (int32_t)id);
        if (id >= t->vocab) t->vocab = (int32_t)id + 1;
    }
    return n ? MT_OK : mt_json_fail(vocab, err, "is empty");
}

/* Members that the models share. */
static enum mt_status read_shared(struct mt_json object, struct mt_tokenizer *t, struct mt_err *err) {
    struct mt_model *m = &t->model;
    enum mt_status st;
    if ((st = read_vocabulary(object, t, err)) ||
        (st = mt_part_text(object, "unk_token", &t->arena, &m->unknown, err)) ||
        (st = mt_part_text(object, "continuing_subword_prefix", &t->arena, &m->prefix, err)))
        return st;
    if (m->prefix) m->prefix_length = strlen(m->prefix);
    if (!m->unknown) return MT_OK;
    m->unknown_id = mt_vocabulary_find(&m->ids, m->unknown, strlen(m->unknown));
    return m->unknown_id >= 0 ? MT_OK : mt_json_fail(object, err, "unk_token: is not in the vocabulary");
}

static enum mt_status read_model(struct mt_json root, struct mt_tokenizer *t, struct mt_err *err) {
    static enum mt_status (*const read_as[])(struct mt_json, struct mt_tokenizer *, struct mt_err *) = {
#define MODEL(type, prefix) mt_##prefix##_read,
#include "launcher/tokenizer/models.def"
#undef MODEL
    };
    struct mt_json object;
    const char *type = types[0];
    enum mt_status st = mt_json_get(root, "model", &object, err);
    if (st) return st;
    bool old = !mt_json_has(object, "type") && mt_json_has(object, "merges"); /* old files of BPE do not say so */
    if (!old && (st = mt_json_string(object, "type", &type, err))) return st;
    while (t->model.row < NMODELS && strcmp(types[t->model.row], type) != 0) t->model.row++;
    if (t->model.row == NMODELS) {
        mt_json_fail(object, err, "a model of type \"%.60s\" is not supported", type);
        return mt_err_hint(err, "the data can be made into tokens elsewhere, and given as .bin");
    }
    return (st = read_shared(object, t, err)) ? st : read_as[t->model.row](object, t, err);
}

/* ---- the rest ---- */

static enum mt_status read_parts(struct mt_json root, const char *key, const struct mt_part_kind *kind,
                                 struct mt_tokenizer *t, struct mt_parts *parts, struct mt_err *err) {
    struct mt_json object;
    if (!mt_json_has_value(root, key)) return MT_OK;
    enum mt_status st = mt_json_get(root, key, &object, err);
    return st ? st : mt_parts_read(kind, object, &t->arena, parts, err);
}

/* Settings of the last call in transformers, which it writes into the file and does not apply when it loads it. */
static void say_reshaping(struct mt_json root) {
    static const char *const keys[] = {"truncation", "padding"};
    for (int k = 0; k < 2; k++)
        if (mt_json_has_value(root, keys[k]))
            mt_log(MT_LOG_INFO, "%s of the tokenizer is not applied: all tokens of a text are taken", keys[k]);
}

/* Some numbers may be free. A file of a few tokens with huge numbers would take memory for nothing. */
static enum mt_status check_numbers(struct mt_json root, const struct mt_tokenizer *t, struct mt_err *err) {
    size_t tokens = t->model.ids.count + t->added_ids.count;
    if ((size_t)t->vocab <= 16 * tokens + 1024) return MT_OK;
    return mt_json_fail(root, err, "has %zu tokens, but numbers them up to %d", tokens, t->vocab - 1);
}

static void set_texts(struct mt_tokenizer *t) {
    t->texts = mt_new(&t->arena, struct mt_token_text, t->vocab);
    for (size_t i = 0; i < t->model.ids.capacity; i++) {
        const struct mt_vocabulary_entry *e = &t->model.ids.entries[i];
        if (e->text) t->texts[e->value].text = e->text;
    }
    for (size_t i = 0; i < t->added_ids.capacity; i++) {
        const struct mt_vocabulary_entry *e = &t->added_ids.entries[i];
        if (e->text) t->texts[e->value].text = e->text;
    }
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < t->added[k].n; i++) { /* `tokenizers` prints what it looks for: the normalized text */
            const struct mt_added_token *token = &t->added[k].tokens[i];
            t->texts[token->id] = (struct mt_token_text){token->text, token->special};
        }
}

enum mt_status mt_tokenizer_read(struct mt_json root, struct mt_tokenizer *t, struct mt_err *err) {
    enum { MOST_GROWTH = 64 };
    static const char *const keys[] = {"version",       "truncation",     "padding", "added_tokens", "normalizer",
                                       "pre_tokenizer", "post_processor", "decoder", "model",        NULL};
    struct mt_json object;
    enum mt_status st;
    if ((st = mt_json_only(root, keys, err)) || (st = read_model(root, t, err)) ||
        (st = read_parts(root, "normalizer", &mt_normalizers, t, &t->normalizers, err)) ||
        (st = read_parts(root, "pre_tokenizer", &mt_splitters, t, &t->splitters, err)) ||
        (st = read_parts(root, "decoder", &mt_decoders, t, &t->decoders, err)) || (st = mt_added_read(root, t, err)))
        return st;
    t->decodes = mt_json_has_value(root, "decoder");
    if ((st = check_numbers(root, t, err))) return st;
    if (mt_decode_growth(&t->decoders) > MOST_GROWTH)
        return mt_json_fail(root, err, "decoder: its replacements could make a text more than %d times as long",
                            MOST_GROWTH);
    if (mt_json_has_value(root, "post_processor") &&
        ((st = mt_json_get(root, "post_processor", &object, err)) || (st = mt_frame_read(object, t, err))))
        return st;
    for (int i = 0; i < t->nbefore; i++)
        if (t->before[i] >= t->vocab)
            return mt_json_fail(root, err, "post_processor: token %d does not exist", t->before[i]);
    for (int i = 0; i < t->nafter; i++)
        if (t->after[i] >= t->vocab)
            return mt_json_fail(root, err, "post_processor: token %d does not exist", t->after[i]);
    say_reshaping(root);
    set_texts(t);
    t->maps_bytes = mt_split_maps_bytes(&t->splitters);
    t->cuts_blanks = !strcmp(types[t->model.row], "BPE") && mt_bpe_cuts_blanks(&t->model);
    return MT_OK;
}
