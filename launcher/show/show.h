/* Printing documents for people, whatever they are. */
#ifndef MT_LAUNCHER_SHOW_SHOW_H
#define MT_LAUNCHER_SHOW_SHOW_H

#include <stdbool.h>
#include <stdio.h>

#include "kernels/base/err.h"

/* "safetensors", or what the JSON document says it is. */
enum mt_status mt_document_format(const char *path, char format[64], struct mt_err *err);

/* Find out what the file is, and print it; refuses what is no document of ours. *remarkable becomes true when the
 * document has something that a script should know of: a cluster's outliers. */
enum mt_status mt_show(const char *path, FILE *file, bool *remarkable, struct mt_err *err);

#define MT_DOCUMENT(format, name)                                                                                      \
    enum mt_status mt_show_##name(const char *path, FILE *file, bool *remarkable, struct mt_err *err);
#include "launcher/show/documents.def"
#undef MT_DOCUMENT

#endif
