/* Plans as people edit them. The first byte picks a plan of tests/fuzz/corpus/plan; each further line is "N VALUE": the
 * N-th value of the document becomes VALUE (JSON), or goes away where there is none. What follows from the edit is
 * derived, as `motley plan --check` does: refused with a message, or a plan that reads itself back as signed. Deriving
 * takes a hundred times as long as reading, so one input in DERIVED goes so far, by its hash.
 *     build/fuzz/tests/fuzz_plan_edit -runs=10000000 -rss_limit_mb=512 tests/fuzz/corpus/plan_edit */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/number/hash.h"
#include "planner/make/make.h"
#include "planner/plan/plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { DERIVED = 256 };

static const char *const documents[] = {"two_ranks", "sgd", "idle"};

static json_t *load(size_t which) {
    char path[512];
    snprintf(path, sizeof path, MOTLEY_SOURCE "/tests/fuzz/corpus/plan/%s.json", documents[which]);
    json_t *root = json_load_file(path, 0, NULL);
    if (!root) abort();
    return root;
}

/* Replace or remove the value that `*left` members and items, depth first, stand before. */
static bool edit(json_t *in, long *left, json_t *value) {
    const char *key;
    json_t *child;
    size_t i;
    void *next;
    json_object_foreach_safe(in, next, key, child) {
        if ((*left)-- == 0) return value ? json_object_set(in, key, value) : json_object_del(in, key), true;
        if (edit(child, left, value)) return true;
    }
    json_array_foreach(in, i, child) {
        if ((*left)-- == 0) return value ? json_array_set(in, i, value) : json_array_remove(in, i), true;
        if (edit(child, left, value)) return true;
    }
    return false;
}

static void edit_line(json_t *root, const char *line) {
    char *rest;
    long left = strtol(line, &rest, 10);
    if (rest == line || left < 0) return;
    json_t *value = json_loads(rest, JSON_DECODE_ANY, NULL);
    edit(root, &left, value);
    json_decref(value);
}

/* Deriving builds the model: of one that is not the document's own, nothing would bound the time. */
static void derive(struct mt_plan *plan, const char *model) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_plan *again;
    size_t length;
    if (strcmp(plan->model, model) || plan->nranks > 8) return;
    if (mt_plan_edited(plan, &err)) {
        if (!err.text[0] || err.status == MT_EBUG) abort();
        return;
    }
    char *text = mt_plan_text(plan, &length);
    if (mt_plan_parse("signed", text, length, &again, &err)) abort();
    mt_plan_free(again);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static json_t *originals[3];
    if (!size) return 0;
    size_t which = data[0] % 3;
    if (!originals[which]) originals[which] = load(which);
    json_t *root = json_deep_copy(originals[which]);
    char *edits = strndup((const char *)data + 1, size - 1), *rest = edits, *line;
    while ((line = strsep(&rest, "\n"))) edit_line(root, line);
    char *text = json_dumps(root, 0), *model = strdup(json_string_value(json_object_get(originals[which], "model")));
    struct mt_plan *plan;
    struct mt_err err = MT_ERR_INIT;
    if (!mt_plan_parse_edited("edited", text, strlen(text), &plan, &err)) {
        if (mt_hash64(data, size, 0) % DERIVED == 0) derive(plan, model);
        mt_plan_free(plan);
    } else if (!err.text[0] || err.status != MT_EINPUT) {
        abort();
    }
    free(model);
    free(text);
    free(edits);
    json_decref(root);
    return 0;
}
