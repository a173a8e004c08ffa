/* Price lists: refused with a message, or prices that are not negative; and sums of money, sizes and rates.
 *     build/fuzz/tests/fuzz_prices -runs=10000000 tests/fuzz/corpus/prices */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/text/units.h"
#include "planner/review/prices.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct mt_prices prices;
    struct mt_err err = MT_ERR_INIT;
    double value;
    int64_t bytes;
    char *text = mt_malloc(size + 1);
    memcpy(text, data, size);
    text[size] = 0;
    if (mt_prices_parse("fuzz", text, size, &prices, &err)) {
        if (!err.text[0] || err.status != MT_EINPUT) abort();
    } else {
        for (int i = 0; i < prices.count; i++)
            if (!(prices.items[i].per_hour >= 0) || !(prices.items[i].per_hour <= 1e12)) abort();
    }
    mt_prices_release(&prices);
    if (mt_units_parse_money(text, &value) && !isfinite(value)) abort();
    if (mt_units_parse_bytes(text, &bytes) && bytes < 0) abort();
    for (int bits = 0; bits < 2; bits++)
        if (mt_units_parse_rate(text, bits, &value) ? !(value > 0) : !*mt_units_rate_hint(text, bits)) abort();
    free(text);
    return 0;
}
