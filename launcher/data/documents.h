/* Documents to tokens: by a tokenizer, or each byte a token.
 *
 *     struct mt_documents documents;
 *     if ((st = mt_documents_open(&reading, &documents, err))) return st;
 *     st = mt_documents_add(&documents, text, length, true, &tokens, err);
 *     mt_documents_close(&documents);
 *
 * A document ends with a token of its own, unless the tokenizer puts tokens after every text: the end-of-text token
 * that
 * --data-end or tokenizer_config.json names, or one of the usual names; of bytes, the new line. The tokenizer is read
 * when the first document comes: tokens that were made before need none (kept.h). */
#ifndef MT_LAUNCHER_DATA_DOCUMENTS_H
#define MT_LAUNCHER_DATA_DOCUMENTS_H

#include "launcher/data/file.h"
#include "launcher/tokenizer/tokenizer.h"

struct mt_documents {
    const struct mt_data_reading *reading;
    struct mt_tokenizer *tokenizer; /* null until it is needed, and for bytes */
    int32_t end;                    /* token; -1: none */
    char *text;                     /* tokenizer.json; null for bytes */
    size_t length;
    char *path;       /* of it */
    char hash[33];    /* of it, and of the name of the end */
    const char *name; /* of the end, or null */
    struct mt_arena arena;
};

enum mt_status mt_documents_open(const struct mt_data_reading *reading, struct mt_documents *documents,
                                 struct mt_err *err);
void mt_documents_close(struct mt_documents *documents);

/* Add a document's tokens; `ends`: and its end. */
enum mt_status mt_documents_add(struct mt_documents *documents, const char *text, size_t length, bool ends,
                                struct mt_tokens *tokens, struct mt_err *err);

#endif
