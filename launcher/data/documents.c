/* Documents to tokens. */
#include "launcher/data/documents.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/number/hash.h"
#include "kernels/base/text/json.h"

/* The end-of-text token of tokenizer_config.json: a string, or an object with it; null: there is none. */
static enum mt_status read_config(struct mt_documents *d, const char *folder, struct mt_err *err) {
    const char *path = mt_arena_printf(&d->arena, "%s/tokenizer_config.json", folder), *name = NULL;
    struct mt_json_doc doc;
    struct mt_json token;
    struct mt_err ignored = MT_ERR_INIT;
    if (access(path, F_OK)) return MT_OK;
    enum mt_status st = mt_json_load_texts(path, &doc, err);
    if (st) return st;
    if (mt_json_has_value(doc.root, "eos_token") && !(st = mt_json_get(doc.root, "eos_token", &token, err)) &&
        mt_json_as_string(token, &name, &ignored))
        st = mt_json_string(token, "content", &name, err);
    if (!st && name) d->name = mt_arena_strdup(&d->arena, name);
    mt_json_release(&doc);
    return st;
}

enum mt_status mt_documents_open(const struct mt_data_reading *reading, struct mt_documents *d, struct mt_err *err) {
    enum { MOST_BYTES = 1 << 30 };
    *d = (struct mt_documents){.reading = reading, .end = '\n'};
    if (!reading->tokenizer) return MT_OK;
    const char *path = reading->tokenizer, *folder = mt_folder_of(path, &d->arena);
    d->path =
        mt_is_folder(path) ? mt_arena_printf(&d->arena, "%s/tokenizer.json", path) : mt_arena_strdup(&d->arena, path);
    d->name = reading->end;
    enum mt_status st = mt_file_read(d->path, MOST_BYTES, &d->text, &d->length, err);
    if (!st && !d->name) st = read_config(d, folder, err);
    if (st) {
        mt_documents_close(d);
        return st;
    }
    char content[33];
    mt_hash_text(d->text, d->length, content);
    const char *all = mt_arena_printf(&d->arena, "%s %s", content, d->name ? d->name : "");
    mt_hash_text(all, strlen(all), d->hash);
    return MT_OK;
}

void mt_documents_close(struct mt_documents *d) {
    mt_tokenizer_free(d->tokenizer);
    free(d->text);
    mt_arena_release(&d->arena);
    *d = (struct mt_documents){0};
}

static enum mt_status find_end(struct mt_documents *d, struct mt_err *err) {
    static const char *const usual[] = {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "[SEP]"};
    d->end = -1;
    if (d->name && !strcmp(d->name, "none")) return MT_OK;
    if (d->name) {
        d->end = mt_tokenizer_find(d->tokenizer, d->name);
        if (d->end >= 0) return MT_OK;
        mt_fail(err, MT_EINPUT, "%s: has no token \"%.60s\", with which documents are to end", d->path, d->name);
        return mt_err_hint(err, "--data-end names another, or none");
    }
    if (mt_tokenizer_ends(d->tokenizer)) return MT_OK;
    for (size_t i = 0; i < sizeof usual / sizeof *usual && d->end < 0; i++)
        d->end = mt_tokenizer_find(d->tokenizer, usual[i]);
    return MT_OK;
}

enum mt_status mt_documents_add(struct mt_documents *d, const char *text, size_t length, bool ends,
                                struct mt_tokens *tokens, struct mt_err *err) {
    if (!d->reading->tokenizer) {
        for (size_t i = 0; i < length; i++) mt_tokens_add(tokens, (unsigned char)text[i]);
        if (ends) mt_tokens_add(tokens, d->end);
        return MT_OK;
    }
    enum mt_status st = MT_OK;
    if (!d->tokenizer &&
        ((st = mt_tokenizer_parse(d->path, d->text, d->length, &d->tokenizer, err)) || (st = find_end(d, err))))
        return st;
    if ((st = mt_tokenizer_encode(d->tokenizer, text, length, tokens, err)) || !ends) return st;
    if (d->end >= 0) {
        mt_tokens_add(tokens, d->end);
        return MT_OK;
    }
    if (mt_tokenizer_ends(d->tokenizer) || d->name) return MT_OK;
    mt_fail(err, MT_EINPUT, "%s: does not say which token ends a document", d->path);
    return mt_err_hint(err, "--data-end names one of its tokens, or none");
}
