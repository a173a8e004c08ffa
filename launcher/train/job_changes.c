/* What a resumed run's job changes: the members of two JSON objects, compared by name. */
#include <float.h>
#include <string.h>

#include "launcher/train/job_changes.h"

#include "kernels/base/text/json.h"

struct members {
    struct mt_arena *arena;
    struct member {
        const char *key, *text;
    } * items;
    int count, capacity;
};

/* List all members of an object and of the objects in it, as words, numbers and truth values. The seed is not listed,
 * since it has a message of its own, and neither is recomputation, which changes no number. */
static void list(struct mt_json object, struct members *m) {
    int count = 0;
    struct mt_err ignored = MT_ERR_INIT;
    mt_json_members(object, 64, &count, &ignored);
    for (int i = 0; i < count; i++) {
        const char *key, *word;
        struct mt_json value;
        double number;
        bool truth = false;
        int inner;
        if (mt_json_member(object, i, &key, &value, &ignored) || !strcmp(key, "seed") || !strcmp(key, "recompute"))
            continue;
        if (!mt_json_members(value, 64, &inner, &ignored)) {
            list(value, m);
            continue;
        }
        if (!mt_json_as_string(value, &word, &ignored))
            word = mt_arena_strdup(m->arena, word);
        else if (!mt_json_as_real(value, -DBL_MAX, DBL_MAX, &number, &ignored))
            word = mt_arena_printf(m->arena, "%.9g", number);
        else
            word = !mt_json_bool(object, key, &truth, &ignored) && truth ? "true" : "false";
        mt_arena_grow(m->arena, &m->items, m->count, &m->capacity, sizeof *m->items);
        m->items[m->count++] = (struct member){mt_arena_strdup(m->arena, key), word};
    }
}

static enum mt_status parse(const char *name, const char *text, struct members *m, struct mt_err *err) {
    struct mt_json_doc doc;
    enum mt_status st = mt_json_parse(name, text, strlen(text), &doc, err);
    if (st) return st;
    list(doc.root, m);
    mt_json_release(&doc);
    return MT_OK;
}

static const char *find(const struct members *m, const char *key) {
    for (int i = 0; i < m->count; i++)
        if (!strcmp(m->items[i].key, key)) return m->items[i].text;
    return NULL;
}

const char *mt_job_changes(const char *then, const char *now, struct mt_arena *arena) {
    struct members old = {.arena = arena}, new = {.arena = arena};
    struct mt_err why = MT_ERR_INIT;
    if (parse("the checkpoint's job", then, &old, &why) || parse("this job", now, &new, &why))
        return mt_arena_strdup(arena, why.text);
    const char *text = "";
    for (int i = 0; i < old.count + new.count; i++) {
        const struct member *m = i < old.count ? &old.items[i] : &new.items[i - old.count];
        const char *before = find(&old, m->key), *after = find(&new, m->key);
        if ((i >= old.count && before) || (before && after && !strcmp(before, after))) continue;
        text = mt_arena_printf(arena, "%s%s%s %s, now %s", text, *text ? "; " : "", m->key, before ? before : "none",
                               after ? after : "none");
    }
    return text;
}

char *mt_job_text(const struct mt_job *job) {
    struct mt_json_out out;
    mt_json_out_init(&out);
    mt_json_open_inline(&out, NULL, '{');
    mt_job_write(job, "job", &out);
    mt_json_close(&out);
    return out.text;
}
