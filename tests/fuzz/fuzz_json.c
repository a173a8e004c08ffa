/* The JSON reader on any text: refused, or a tree that can be walked, with every scalar of one kind.
 *     build/fuzz/tests/fuzz_json -runs=10000000 tests/fuzz/corpus/json */
#include <math.h>
#include <stdlib.h>

#include "kernels/base/text/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk(struct mt_json place) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_json child;
    const char *text;
    int64_t number, pair[2];
    int count;
    if (!mt_json_members(place, 1000, &count, &err)) {
        for (int i = 0; i < count; i++) {
            double real;
            if (mt_json_member(place, i, &text, &child, &err)) abort();
            if (!mt_json_has(place, text)) abort();
            if (!mt_json_real(place, text, -1e300, 1e300, &real, &err) && !isfinite(real)) abort();
            (void)mt_json_ints(place, text, 0, 100, 2, pair, &err);
            walk(child);
        }
    } else if (!mt_json_length(place, 1000, &count, &err)) {
        for (int i = 0; i < count; i++) {
            if (mt_json_item(place, i, &child, &err)) abort();
            walk(child);
        }
    } else if (!mt_json_as_int(place, -1000, 1000, &number, &err)) {
        if (number < -1000 || number > 1000 || !mt_json_as_string(place, &text, &err)) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct mt_json_doc doc;
    struct mt_err err = MT_ERR_INIT;
    if (mt_json_parse("fuzz", (const char *)data, size, &doc, &err)) {
        if (!err.text[0]) abort();
        return 0;
    }
    walk(doc.root);
    mt_json_release(&doc);
    return 0;
}
