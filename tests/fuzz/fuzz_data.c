/* The reader of data on any bytes in every format: refused, or as many tokens as the bytes hold. The first byte chooses
 * the format.
 *     build/fuzz/tests/fuzz_data -runs=10000000 tests/fuzz/corpus/data */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/text/utf8.h"
#include "launcher/data/documents.h"
#include "launcher/data/file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2) return 0;
    enum mt_data_format format = (enum mt_data_format)(data[0] % (MT_DATA_NFORMATS + 1));
    const struct mt_data_reading reading = {.field = data[0] & 64 ? "t" : NULL, .skips_bad_lines = data[0] & 32};
    size--;
    void *content = malloc(size);
    if (!content) abort();
    memcpy(content, data + 1, size);
    struct mt_data_file file = {.content = content, .size_bytes = size};
    struct mt_err err = MT_ERR_INIT;
    struct mt_documents documents;
    if (mt_documents_open(&reading, &documents, &err)) abort();
    enum mt_status st = mt_data_file_read("fuzz.bin", format, &documents, false, &file, &err);
    mt_documents_close(&documents);
    if (st) {
        if (!err.text[0]) abort();
        mt_data_file_close(&file);
        return 0;
    }
    if (!file.bytes + !file.words + !file.longs != 2) abort();
    if (format == MT_DATA_text && mt_utf8_valid(file.content, size) != size) abort();
    bool marked = format == MT_DATA_text && size >= 3 && !memcmp(file.content, "\xef\xbb\xbf", 3);
    if ((format == MT_DATA_text || format == MT_DATA_bytes) && file.count != (int64_t)size - 3 * marked) abort();
    if (format == MT_DATA_uint32 && 4 * file.count != (int64_t)size) abort();
    if (format == MT_DATA_llmc && 1024 + (file.words ? 2 : 4) * file.count != (int64_t)size) abort();
    int64_t sum = 0; /* read every token: the address sanitizer looks on */
    for (int64_t i = 0; i < file.count; i++) sum += mt_data_token(&file, i);
    mt_data_file_close(&file);
    return sum < 0;
}
