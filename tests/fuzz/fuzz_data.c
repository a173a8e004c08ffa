/* The token file reader on any bytes: refused, or text, or as many tokens as the bytes hold.
 *     build/fuzz/tests/fuzz_data -runs=10000000 tests/fuzz/corpus/data */
#include <stdlib.h>

#include "launcher/data/data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct mt_data_file file;
    struct mt_err err = MT_ERR_INIT;
    enum mt_status st = mt_data_parse("fuzz", data, size, &file, &err);
    if (st) {
        if (!err.text[0]) abort();
        return 0;
    }
    if (!file.bytes == !file.words) abort();
    if (file.bytes && file.count != (int64_t)size) abort();
    if (file.words && 1024 + 2 * file.count != (int64_t)size) abort();
    int64_t sum = 0; /* read every token: the address sanitizer looks on */
    for (int64_t i = 0; i < file.count; i++) sum += file.bytes ? file.bytes[i] : file.words[i];
    return sum < 0;
}
