/* Shared by the files of data: how each format is opened. */
#ifndef MT_LAUNCHER_DATA_INTERNAL_H
#define MT_LAUNCHER_DATA_INTERNAL_H

#include "launcher/data/file.h"

/* Set the tokens of a file from its content; `name` is for messages. */
#define FORMAT(name, what)                                                                                             \
    enum mt_status mt_data_open_##name(const char *path, const struct mt_data_reading *reading,                        \
                                       struct mt_data_file *file, struct mt_err *err);
#include "launcher/data/formats.def"
#undef FORMAT

enum { MT_DATA_LLMC_MAGIC = 20240520, MT_DATA_LLMC_WIDE_MAGIC = 20240801 };

/* Tokens as they are made. */
struct mt_data_made {
    uint32_t *tokens;
    int64_t count, capacity;
};
void mt_data_made_add(struct mt_data_made *made, uint32_t token);

/* Replace a file's content by the tokens made of it, which become the file's. */
void mt_data_replace(struct mt_data_file *file, struct mt_data_made *made);

#endif
