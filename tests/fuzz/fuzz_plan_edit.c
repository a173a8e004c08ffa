/* Plans as people edit them. The first byte picks a plan of tests/fuzz/corpus/plan; each further line is "N VALUE": the
 * N-th value of the document becomes VALUE (JSON), or goes away where there is none. What follows from the edit is
 * derived, as `motley plan --check` does: refused with a message, or a plan that reads itself back as signed. Deriving
 * takes a hundred times as long as reading, so one input in DERIVED goes so far, by its hash.
 *     build/fuzz/tests/fuzz_plan_edit -runs=10000000 -rss_limit_mb=512 tests/fuzz/corpus/plan_edit */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/number/hash.h"
#include "planner/make/make.h"
#include "planner/plan/plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { DERIVED = 1024, MOST_VALUES = 1000 };

static const char *const documents[] = {"two_ranks", "sgd", "idle"};

/* A document's values, depth first: those inside of value i are i + 1 to end[i] - 1. */
struct original {
    json_t *root;
    const char *model;
    int count, end[MOST_VALUES];
    char *scalar[MOST_VALUES]; /* its text, or null */
};

/* What becomes of the values: the text instead; "": removed; null: it stays. */
struct edited {
    const struct original *original;
    const char *instead[MOST_VALUES];
    FILE *out;
    int at;
};

static void list_values(struct original *o, json_t *in);

static void list_value(struct original *o, json_t *child) {
    int i = o->count++;
    if (i >= MOST_VALUES) abort();
    if (!json_is_object(child) && !json_is_array(child)) o->scalar[i] = json_dumps(child, JSON_ENCODE_ANY);
    list_values(o, child);
    o->end[i] = o->count;
}

static void list_values(struct original *o, json_t *in) {
    const char *key;
    json_t *child;
    size_t i;
    json_object_foreach(in, key, child) list_value(o, child);
    json_array_foreach(in, i, child) list_value(o, child);
}

static void load(struct original *o, const char *name) {
    char path[512];
    snprintf(path, sizeof path, MOTLEY_SOURCE "/tests/fuzz/corpus/plan/%s.json", name);
    o->root = json_load_file(path, 0, NULL);
    if (!o->root) abort();
    o->model = json_string_value(json_object_get(o->root, "model"));
    list_values(o, o->root);
}

static void write_values(struct edited *e, json_t *in);

/* key: null in an array. */
static void write_value(struct edited *e, const char *key, json_t *child, bool *first) {
    int i = e->at++;
    const char *instead = e->instead[i], *scalar = e->original->scalar[i];
    if (instead) e->at = e->original->end[i];
    if (instead && !*instead) return;
    if (!*first) fputc(',', e->out);
    *first = false;
    if (key) fprintf(e->out, "\"%s\":", key);
    if (instead || scalar)
        fputs(instead ? instead : scalar, e->out);
    else
        write_values(e, child);
}

static void write_values(struct edited *e, json_t *in) {
    const char *key;
    json_t *child;
    size_t i;
    bool first = true, object = json_is_object(in);
    fputc(object ? '{' : '[', e->out);
    json_object_foreach(in, key, child) write_value(e, key, child, &first);
    json_array_foreach(in, i, child) write_value(e, NULL, child, &first);
    fputc(object ? '}' : ']', e->out);
}

/* What is no JSON is nothing. */
static void take_line(struct edited *e, const char *line) {
    char *rest;
    long which = strtol(line, &rest, 10);
    if (rest == line || which < 0 || which >= e->original->count) return;
    json_t *value = json_loads(rest, JSON_DECODE_ANY, NULL);
    e->instead[which] = value ? rest : "";
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
    static struct original originals[3];
    static struct edited e;
    if (!size) return 0;
    struct original *original = &originals[data[0] % 3];
    if (!original->root) load(original, documents[data[0] % 3]);
    memset(&e, 0, sizeof e);
    e.original = original;
    char *edits = strndup((const char *)data + 1, size - 1), *rest = edits, *line, *text;
    while ((line = strsep(&rest, "\n"))) take_line(&e, line);
    size_t length;
    e.out = open_memstream(&text, &length);
    write_values(&e, original->root);
    fclose(e.out);
    struct mt_plan *plan;
    struct mt_err err = MT_ERR_INIT;
    if (!mt_plan_parse_edited("edited", text, length, &plan, &err)) {
        if (mt_hash64(data, size, 0) % DERIVED == 0) derive(plan, original->model);
        mt_plan_free(plan);
    } else if (!err.text[0] || err.status != MT_EINPUT) {
        abort();
    }
    free(text);
    free(edits);
    return 0;
}
