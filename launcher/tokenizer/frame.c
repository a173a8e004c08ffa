/* Post-processors: the tokens in front of a text, and after it. */
#include "launcher/tokenizer/internal.h"

enum { MOST_TOKENS = 1000 };

struct frame {
    struct mt_tokenizer *tokenizer;
    struct mt_tokens before, after;
};

/* ["[SEP]", 102] */
static enum mt_status read_named(struct mt_json object, const char *key, struct mt_tokens *tokens, struct mt_err *err) {
    struct mt_json list, item;
    int64_t id;
    enum mt_status st;
    if ((st = mt_json_get(object, key, &list, err)) || (st = mt_json_item(list, 1, &item, err)) ||
        (st = mt_json_as_int(item, 0, MT_TOKEN_MOST, &id, err)))
        return st;
    mt_tokens_add(tokens, (int32_t)id);
    return MT_OK;
}

static enum mt_status read_pair(struct mt_json object, struct frame *frame, struct mt_err *err) {
    enum mt_status st = read_named(object, "cls", &frame->before, err);
    return st ? st : read_named(object, "sep", &frame->after, err);
}

static enum mt_status read_none(struct mt_json object, struct frame *frame, struct mt_err *err) {
    (void)object, (void)frame, (void)err;
    return MT_OK;
}

/* The numbers of a template's special token. */
static enum mt_status read_special(struct mt_json object, struct mt_json piece, struct mt_tokens *tokens,
                                   struct mt_err *err) {
    struct mt_json specials, special, ids, item;
    const char *name;
    int64_t id;
    int n;
    enum mt_status st;
    if ((st = mt_json_string(piece, "id", &name, err)) ||
        (st = mt_json_get(object, "special_tokens", &specials, err)) ||
        (st = mt_json_get(specials, name, &special, err)) || (st = mt_json_get(special, "ids", &ids, err)) ||
        (st = mt_json_length(ids, MOST_TOKENS, &n, err)))
        return st;
    for (int i = 0; i < n; i++) {
        if ((st = mt_json_item(ids, i, &item, err)) || (st = mt_json_as_int(item, 0, MT_TOKEN_MOST, &id, err)))
            return st;
        mt_tokens_add(tokens, (int32_t)id);
    }
    return MT_OK;
}

/* "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}]; that for pairs is not needed. */
static enum mt_status read_template(struct mt_json object, struct frame *frame, struct mt_err *err) {
    static const char *const keys[] = {"SpecialToken", "Sequence", NULL};
    struct mt_json list, item, piece;
    const char *name;
    int n, texts = 0;
    enum mt_status st;
    if ((st = mt_json_get(object, "single", &list, err)) || (st = mt_json_length(list, MOST_TOKENS, &n, err)))
        return st;
    for (int i = 0; i < n; i++) {
        if ((st = mt_json_item(list, i, &item, err)) || (st = mt_json_only(item, keys, err))) return st;
        if (mt_json_has(item, "SpecialToken")) {
            if ((st = mt_json_get(item, "SpecialToken", &piece, err)) ||
                (st = read_special(object, piece, texts ? &frame->after : &frame->before, err)))
                return st;
            continue;
        }
        if ((st = mt_json_get(item, "Sequence", &piece, err)) || (st = mt_json_string(piece, "id", &name, err)))
            return st;
        if (strcmp(name, "A") != 0 || texts++) return mt_json_fail(piece, err, "must be \"A\", once");
    }
    return texts ? MT_OK : mt_json_fail(list, err, "has no place for the text");
}

static const char *const template_keys[] = {"type", "single", "pair", "special_tokens", NULL};
static const char *const pair_keys[] = {"type", "sep", "cls", "trim_offsets", "add_prefix_space", NULL};
static const char *const byte_keys[] = {"type", "add_prefix_space", "trim_offsets", "use_regex", NULL};

static const struct row {
    const char *type;
    const char *const *keys;
    enum mt_status (*read)(struct mt_json object, struct frame *frame, struct mt_err *err);
} rows[] = {
#define FRAME(type, keys, read) {#type, keys, read},
#include "launcher/tokenizer/frames.def"
#undef FRAME
};

/* Put the tokens around those that are there already. */
static void wrap(struct mt_tokenizer *t, const struct frame *frame) {
    int nbefore = (int)frame->before.count + t->nbefore, nafter = t->nafter + (int)frame->after.count;
    int32_t *before = mt_new(&t->arena, int32_t, nbefore), *after = mt_new(&t->arena, int32_t, nafter);
    for (int i = 0; i < nbefore; i++)
        before[i] = i < frame->before.count ? frame->before.ids[i] : t->before[i - (int)frame->before.count];
    for (int i = 0; i < nafter; i++) after[i] = i < t->nafter ? t->after[i] : frame->after.ids[i - t->nafter];
    t->before = before, t->nbefore = nbefore, t->after = after, t->nafter = nafter;
}

static enum mt_status read_sequence(struct mt_json object, struct mt_tokenizer *t, struct mt_err *err) {
    static const char *const keys[] = {"type", "processors", NULL};
    struct mt_json list, item;
    int n;
    enum mt_status st;
    if ((st = mt_json_only(object, keys, err)) || (st = mt_json_get(object, "processors", &list, err)) ||
        (st = mt_json_length(list, MOST_TOKENS, &n, err)))
        return st;
    for (int i = 0; i < n && !st; i++)
        if (!(st = mt_json_item(list, i, &item, err))) st = mt_frame_read(item, t, err);
    return st;
}

enum mt_status mt_frame_read(struct mt_json object, struct mt_tokenizer *t, struct mt_err *err) {
    const char *type;
    size_t row = 0;
    enum mt_status st = mt_json_string(object, "type", &type, err);
    if (st) return st;
    if (!strcmp(type, "Sequence")) return read_sequence(object, t, err);
    while (row < sizeof rows / sizeof *rows && strcmp(rows[row].type, type) != 0) row++;
    if (row == sizeof rows / sizeof *rows)
        return mt_json_fail(object, err, "a post-processor of type \"%.60s\" is not supported", type);
    struct frame frame = {.tokenizer = t};
    if (!(st = mt_json_only(object, rows[row].keys, err)) && !(st = rows[row].read(object, &frame, err)))
        wrap(t, &frame);
    free(frame.before.ids);
    free(frame.after.ids);
    return st;
}
