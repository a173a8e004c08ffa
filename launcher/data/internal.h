/* Shared by the files of data: how each format is opened. */
#ifndef MT_LAUNCHER_DATA_INTERNAL_H
#define MT_LAUNCHER_DATA_INTERNAL_H

#include "launcher/data/documents.h"
#include "launcher/data/file.h"
#include "launcher/data/kept.h"

struct data_opening {
    const char *name; /* of the file, for messages */
    struct mt_documents *documents;
    bool ends; /* see file.h */
};

/* Set the tokens of a file from its content. */
#define FORMAT(name, what)                                                                                             \
    enum mt_status mt_data_open_##name(const struct data_opening *opening, struct mt_data_file *file,                  \
                                       struct mt_err *err);
#include "launcher/data/formats.def"
#undef FORMAT

enum { MT_DATA_LLMC_MAGIC = 20240520, MT_DATA_LLMC_WIDE_MAGIC = 20240801 };

/* The bytes of the mark that some editors put in front of UTF-8: 3, or 0. */
size_t mt_data_mark_bytes(const struct mt_data_file *file);

/* MT_EINPUT for text that is UTF-16 or UTF-32: by its mark, or as zeros are in every second byte. */
enum mt_status mt_data_refuse_wide(const char *name, const struct mt_data_file *file, struct mt_err *err);

/* Replace a file's content by the tokens made of it, at least one, which become the file's. */
void mt_data_replace(struct mt_data_file *file, struct mt_tokens *tokens);

/* The same by tokens of the file's documents, which are made by `make` unless they are kept; `how`: what they depend on
 * beside content and tokenizer. */
enum mt_status mt_data_make(const struct data_opening *opening, const char *how, mt_make_tokens *make, void *context,
                            struct mt_data_file *file, struct mt_err *err);

#endif
