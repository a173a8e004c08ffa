/* Documents that carry the hash of their own text without it.
 *
 *     static void write_plan(const void *document, const char *hash, struct mt_json_out *out);
 *     mt_document_hash(plan, write_plan, hash);
 *     st = mt_document_write(plan, write_plan, plan->hash, path, err); */
#ifndef MT_KERNELS_BASE_TEXT_DOCUMENT_H
#define MT_KERNELS_BASE_TEXT_DOCUMENT_H

#include "kernels/base/err.h"
#include "kernels/base/text/json.h"

/* Begins `out` and writes all of the document into it, with this hash; null: without. */
typedef void mt_document_writer(const void *document, const char *hash, struct mt_json_out *out);

void mt_document_hash(const void *document, mt_document_writer *writer, char hash[33]);
/* Sets the hash; the caller frees the text. */
char *mt_document_text(const void *document, mt_document_writer *writer, char hash[33], size_t *length);
/* Sets the hash, and replaces the file (kernels/base/file.h has the errors). */
enum mt_status mt_document_write(const void *document, mt_document_writer *writer, char hash[33], const char *path,
                                 struct mt_err *err);

#endif
