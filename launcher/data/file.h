/* One file of training data, as tokens.
 *
 *     struct mt_data_file file;
 *     if ((st = mt_data_file_open(path, MT_DATA_BY_NAME, &documents, false, &file, err))) return st;
 *     for (int64_t i = 0; i < file.count; i++) ... mt_data_token(&file, i) ...
 *     mt_data_file_close(&file);
 *
 * Tokens that lie in the file are read there, as it is mapped; others are made once, and kept (kept.h). `documents` is
 * open (documents.h); `ends`: text ends as a document does, since others follow. */
#ifndef MT_LAUNCHER_DATA_FILE_H
#define MT_LAUNCHER_DATA_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "launcher/data/spec.h"

/* How text becomes tokens. */
struct mt_data_reading {
    const char *field;     /* of JSONL's objects; null: "text" */
    const char *tokenizer; /* tokenizer.json, or a folder with one; null: each byte is a token */
    const char *end;       /* token, or "none"; null: the usual one (documents.h) */
    bool skips_bad_lines;  /* of JSONL; else the first one is refused */
};

struct mt_documents;
struct mt_data_file {
    void *content; /* what the tokens lie in */
    size_t size_bytes;
    bool mapped;           /* `content` is a mapping; else allocated */
    const uint8_t *bytes;  /* tokens of one byte each; or null */
    const uint16_t *words; /* of two; or null */
    const uint32_t *longs; /* of four; or null */
    enum mt_data_format format;
    int64_t count;   /* tokens */
    int64_t skipped; /* bad lines */
};

/* MT_EINPUT, and nothing to close, for a file that is empty, is not what its format says, or contradicts itself; the
 * message says where. */
enum mt_status mt_data_file_open(const char *path, enum mt_data_format format, struct mt_documents *documents,
                                 bool ends, struct mt_data_file *file, struct mt_err *err);
void mt_data_file_close(struct mt_data_file *file);

/* The same of a file's content in memory, which may be replaced by the tokens made of it; for mt_data_file_open and the
 * fuzzer. */
enum mt_status mt_data_file_read(const char *name, enum mt_data_format format, struct mt_documents *documents,
                                 bool ends, struct mt_data_file *file, struct mt_err *err);

/* At most 2^32 - 1: whether it is a token of the model is mt_data_file_check's to say. */
static inline int64_t mt_data_token(const struct mt_data_file *file, int64_t at) {
    return file->bytes ? file->bytes[at] : file->words ? file->words[at] : (int64_t)file->longs[at];
}

/* MT_EINPUT, with its position, for a token that a model of `vocab` tokens lacks. */
enum mt_status mt_data_file_check(const char *path, const struct mt_data_file *file, int64_t vocab, struct mt_err *err);

#endif
