/* Documents with hashes. */
#include "kernels/base/text/document.h"

#include <stdlib.h>

#include "kernels/base/file.h"
#include "kernels/base/number/hash.h"

void mt_document_hash(const void *document, mt_document_writer *writer, char hash[33]) {
    struct mt_json_out out;
    writer(document, NULL, &out);
    mt_hash_text(out.text, out.length, hash);
    mt_json_out_release(&out);
}

char *mt_document_text(const void *document, mt_document_writer *writer, char hash[33], size_t *length) {
    struct mt_json_out out;
    mt_document_hash(document, writer, hash);
    writer(document, hash, &out);
    *length = out.length;
    return out.text;
}

enum mt_status mt_document_write(const void *document, mt_document_writer *writer, char hash[33], const char *path,
                                 struct mt_err *err) {
    size_t length;
    char *text = mt_document_text(document, writer, hash, &length);
    enum mt_status st = mt_file_replace(path, text, length, err);
    free(text);
    return st;
}
