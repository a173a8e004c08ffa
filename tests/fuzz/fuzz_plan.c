/* The plan reader on any text: refused with a message, or a plan that writes itself as what was read.
 *     build/fuzz/tests/fuzz_plan -runs=10000000 tests/fuzz/corpus/plan */
#include <stdlib.h>
#include <string.h>

#include "planner/plan/plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct mt_plan *plan, *again;
    struct mt_err err = MT_ERR_INIT;
    if (mt_plan_parse("fuzz", (const char *)data, size, &plan, &err)) {
        if (!err.text[0] || err.status != MT_EINPUT) abort();
        return 0;
    }
    char hash[33];
    size_t length;
    memcpy(hash, plan->hash, sizeof hash);
    char *text = mt_plan_text(plan, &length);
    if (strcmp(hash, plan->hash) || mt_plan_parse("again", text, length, &again, &err)) abort();
    mt_plan_free(again);
    mt_plan_free(plan);
    free(text);
    return 0;
}
