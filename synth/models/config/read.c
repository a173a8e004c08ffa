/* Reading: every member has a row, every row that must be there is there; the result is the text of options. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "synth/models/config/internal.h"

#define MT_ARCHITECTURE(type) extern const struct mt_architecture mt_architecture_##type;
#include "synth/models/config/architectures.def"
#undef MT_ARCHITECTURE
#define MT_ARCHITECTURE(type) &mt_architecture_##type,
const struct mt_architecture *const mt_architectures[] = {
#include "synth/models/config/architectures.def"
};
#undef MT_ARCHITECTURE
const int mt_narchitectures = sizeof mt_architectures / sizeof *mt_architectures;

#define FRESH_STD 0.02
enum { MOST_MEMBERS = 1000, MOST_BYTES = 16 << 20 };

static const struct mt_config_key *find_key(const struct mt_config_key *keys, const char *name) {
    while (keys->key && strcmp(keys->key, name)) keys++;
    return keys->key ? keys : NULL;
}

static int option_of(const struct mt_config_reader *r, const char *name) {
    int o = 0;
    while (strcmp(r->model.options[o].name, name)) o++;
    return o;
}

/* Set an option, unless another key has set it otherwise. */
static enum mt_status set_option(struct mt_config_reader *r, struct mt_json member, const struct mt_config_key *key,
                                 int64_t value, struct mt_err *err) {
    int o = option_of(r, key->option);
    struct mt_model_option *option = &r->model.options[o];
    if (r->set_by[o] && option->value != value) {
        mt_json_fail(member, err, "is %s, but %s says otherwise", mt_json_shown(member), r->set_by[o]);
        return mt_err_hint(err, "both say the same thing: correct the one that is wrong");
    }
    option->value = value;
    r->set_by[o] = key->key;
    return MT_OK;
}

/* A count of 0, from which Motley derives the option, is none of a configuration; without a window it is 0, or null. */
static enum mt_status set_count(struct mt_config_reader *r, struct mt_json member, const struct mt_config_key *key,
                                struct mt_err *err) {
    const struct mt_model_option *o = &r->model.options[option_of(r, key->option)];
    int64_t count;
    if (key->nullable && mt_json_is(member, "null")) return MT_OK;
    int64_t least = o->least > 0 || !strcmp(key->option, "window") ? o->least : 1;
    enum mt_status st = mt_json_as_int(member, least, o->most, &count, err);
    return st ? st : set_option(r, member, key, count, err);
}

/* Options count parts, and a number that is no whole number of them would become another. */
static enum mt_status set_real(struct mt_config_reader *r, struct mt_json member, const struct mt_config_key *key,
                               struct mt_err *err) {
    const struct mt_model_option *o = &r->model.options[option_of(r, key->option)];
    double per = o->per ? (double)o->per : 1, value;
    enum mt_status st = mt_json_as_real(member, (double)o->least / per, (double)o->most / per, &value, err);
    if (st) return st;
    double parts = nearbyint(value * per);
    if (fabs(value * per - parts) > 1e-9 + 1e-12 * parts)
        return mt_json_fail(member, err, "is %s, but Motley has it in steps of %g", mt_json_shown(member), 1 / per);
    return set_option(r, member, key, (int64_t)parts, err);
}

/* Whether the value is one of "a|b". */
static bool is_one_of(struct mt_json member, const char *values, struct mt_arena *arena) {
    for (const char *at = values; at;) {
        const char *end = strchr(at, '|');
        char *literal = mt_arena_printf(arena, "%.*s", (int)(end ? end - at : (ptrdiff_t)strlen(at)), at);
        if (mt_json_is(member, literal)) return true;
        at = end ? end + 1 : NULL;
    }
    return false;
}

static enum mt_status refuse(const struct mt_config_reader *r, struct mt_json member, const struct mt_config_key *key,
                             struct mt_err *err) {
    mt_json_fail(member, err, "is %s, which would change what the model computes: Motley's %s has %.*s only",
                 mt_json_shown(member), r->architecture->model_type, (int)strcspn(key->values, "|"), key->values);
    return mt_err_hint(err, "%s",
                       key->instead ? key->instead
                                    : "choose a model with that value: weights trained with another one mean something "
                                      "else here");
}

/* Dropouts at all places are one number, the job's. */
static enum mt_status take_dropout(struct mt_config_reader *r, struct mt_json member, const char *key, double p,
                                   struct mt_err *err) {
    if (r->dropout_key && r->config->dropout != p) {
        mt_json_fail(member, err, "is %g, but %s is %g: Motley drops with one probability everywhere", p,
                     r->dropout_key, r->config->dropout);
        return mt_err_hint(err, "make them equal: dropout is of training alone, and changes no weights");
    }
    r->dropout_key = key;
    r->config->dropout = p;
    return MT_OK;
}

static enum mt_status take_std(struct mt_config_reader *r, struct mt_json member, struct mt_err *err) {
    double std;
    enum mt_status st = mt_json_as_real(member, 0, 1e6, &std, err);
    if (!st && std != FRESH_STD)
        r->config->note = mt_arena_printf(r->arena, "initializer_range %g is not used: fresh weights are drawn with %g",
                                          std, FRESH_STD);
    return st;
}

static enum mt_status take_each(struct mt_config_reader *r, struct mt_json member, const struct mt_config_key *key,
                                struct mt_err *err) {
    int count;
    struct mt_json item;
    if (mt_json_is(member, "null")) return MT_OK;
    enum mt_status st = mt_json_length(member, MOST_MEMBERS, &count, err);
    for (int i = 0; i < count && !st; i++)
        if (!(st = mt_json_item(member, i, &item, err)) && !is_one_of(item, key->values, r->arena))
            st = refuse(r, item, key, err);
    return st;
}

/* An id, or a list of them; null and what is neither is none. */
static enum mt_status take_tokens(struct mt_config_reader *r, struct mt_json member, const char *key,
                                  struct mt_err *err) {
    struct mt_err ignored = MT_ERR_INIT;
    struct mt_json item;
    int which = 0, count;
    while (strcmp(key, mt_config_token_keys[which])) which++;
    struct mt_token_ids *t = &r->config->tokens[which];
    t->count = 0;
    if (!mt_json_as_int(member, 0, INT64_MAX, &t->ids[0], &ignored)) {
        t->count = 1;
        return MT_OK;
    }
    if (mt_json_length(member, MT_TOKEN_MOST_IDS, &count, &ignored)) return MT_OK;
    enum mt_status st = MT_OK;
    for (int i = 0; i < count && !st; i++)
        if (!(st = mt_json_item(member, i, &item, err))) st = mt_json_as_int(item, 0, INT64_MAX, &t->ids[i], err);
    t->count = count;
    return st;
}

static enum mt_status read_member(struct mt_config_reader *r, struct mt_json object, const struct mt_config_key *key,
                                  struct mt_json member, struct mt_err *err) {
    enum mt_status st = MT_OK;
    double p = 0;
    bool truth = false;
    switch (key->meaning) {
    case MT_KEY_COUNT: return set_count(r, member, key, err);
    case MT_KEY_REAL: return set_real(r, member, key, err);
    case MT_KEY_TRUTH:
        st = mt_json_bool(object, key->key, &truth, err);
        return st ? st : set_option(r, member, key, truth, err);
    case MT_KEY_ONLY: return is_one_of(member, key->values, r->arena) ? MT_OK : refuse(r, member, key, err);
    case MT_KEY_EACH: return take_each(r, member, key, err);
    case MT_KEY_ROPE: return mt_config_read_rope(r, member, err);
    case MT_KEY_DROPOUT:
        if ((st = mt_json_as_real(member, 0, 1, &p, err))) return st;
        if (p >= 1) return mt_json_fail(member, err, "is 1: nothing would be left");
        return take_dropout(r, member, key->key, p, err);
    case MT_KEY_STD: return take_std(r, member, err);
    case MT_KEY_TOKENS: return take_tokens(r, member, key->key, err);
    case MT_KEY_IGNORED: return MT_OK;
    }
    return MT_OK;
}

/* What is absent is as in transformers, or refused. */
static enum mt_status take_absent(struct mt_config_reader *r, struct mt_json object, const struct mt_config_key *k,
                                  struct mt_err *err) {
    if (mt_json_has(object, k->key)) return MT_OK;
    if (!k->optional) return mt_json_fail(object, err, "has no \"%s\"", k->key);
    if (k->meaning == MT_KEY_DROPOUT) return take_dropout(r, object, k->key, k->absent, err);
    if (k->meaning != MT_KEY_TRUTH && k->meaning != MT_KEY_REAL) return MT_OK;
    struct mt_model_option *o = &r->model.options[option_of(r, k->option)];
    if (!r->set_by[o - r->model.options]) o->value = (int64_t)nearbyint(k->absent * (double)(o->per ? o->per : 1));
    return MT_OK;
}

enum mt_status mt_config_read_object(struct mt_config_reader *r, struct mt_json object,
                                     const struct mt_config_key *const *tables, struct mt_err *err) {
    int count;
    enum mt_status st = mt_json_members(object, MOST_MEMBERS, &count, err);
    for (int i = 0; i < count && !st; i++) {
        struct mt_json member;
        const char *name;
        const struct mt_config_key *key = NULL;
        if ((st = mt_json_member(object, i, &name, &member, err))) return st;
        for (int t = 0; tables[t] && !key; t++) key = find_key(tables[t], name);
        if (key) {
            st = read_member(r, object, key, member, err);
            continue;
        }
        st = mt_json_fail(object, err, "key \"%.60s\" is not known: it may change what the model computes", name);
        mt_err_hint(err, "if you know that it does not, remove it from the file");
    }
    for (int t = 0; tables[t]; t++)
        for (const struct mt_config_key *k = tables[t]; k->key && !st; k++) st = take_absent(r, object, k, err);
    return st;
}

static enum mt_status find_architecture(struct mt_json root, const struct mt_architecture **architecture,
                                        struct mt_err *err) {
    struct mt_json member;
    const char *type;
    char known[200] = "";
    enum mt_status st;
    if ((st = mt_json_get(root, "model_type", &member, err)) || (st = mt_json_as_string(member, &type, err)))
        return mt_err_hint(err, "a config.json of transformers says model_type, as \"gpt2\"");
    for (int a = 0; a < mt_narchitectures; a++) {
        if (!strcmp(mt_architectures[a]->model_type, type)) return *architecture = mt_architectures[a], MT_OK;
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", a ? ", " : "", mt_architectures[a]->model_type);
    }
    mt_json_fail(member, err, "Motley has no model of type %s", mt_json_shown(member));
    return mt_err_hint(err, "model types are: %s", known);
}

static enum mt_status read_root(const char *name, struct mt_json root, struct mt_arena *arena, struct mt_config *config,
                                struct mt_err *err) {
    struct mt_config_reader r = {.arena = arena, .config = config};
    struct mt_model whole;
    enum mt_status st = find_architecture(root, &r.architecture, err);
    if (st) return st;
    const struct mt_config_key *const *keys = r.architecture->keys;
    const struct mt_config_key *const tables[] = {mt_config_ignored, keys[0], keys[1], NULL};
    const char *fixed = r.architecture->fixed;
    const char *text = mt_arena_printf(arena, "%s%s%s", r.architecture->class, *fixed ? ":" : "", fixed);
    if ((st = mt_model_settings(text, &r.model, err)) || (st = mt_config_read_object(&r, root, tables, err))) return st;
    if ((st = mt_model_parse(mt_model_text(&r.model, arena), &whole, err))) return mt_err_context(err, "%s", name);
    config->model = mt_model_text(&whole, arena);
    return MT_OK;
}

enum mt_status mt_config_parse(const char *name, const char *text, size_t length, struct mt_arena *arena,
                               struct mt_config *config, struct mt_err *err) {
    struct mt_json_doc doc;
    *config = (struct mt_config){.dropout = -1, .note = ""};
    enum mt_status st = mt_json_parse(name, text, length, &doc, err);
    if (st) return st;
    st = read_root(name, doc.root, arena, config, err);
    mt_json_release(&doc);
    return st;
}

/* A model's text is one, whatever files there are. */
bool mt_config_is_path(const char *text) {
    if (strchr(text, '/')) return true;
    return !mt_model_is_text(text) && !access(text, F_OK);
}

enum mt_status mt_config_read(const char *path, struct mt_arena *arena, struct mt_config *config, struct mt_err *err) {
    size_t length = strlen(path), size;
    const char *between = length && path[length - 1] == '/' ? "" : "/";
    bool folder = mt_is_folder(path);
    const char *file = folder ? mt_arena_printf(arena, "%s%s" MT_CONFIG_NAME, path, between) : path;
    char *text;
    enum mt_status st = mt_file_read(file, MOST_BYTES, &text, &size, err);
    if (st && folder)
        return mt_err_hint(err, "a folder of a model has a " MT_CONFIG_NAME ", as transformers writes it");
    if (st) {
        if (!folder && access(path, F_OK))
            mt_err_hint(err,
                        "a name with a slash is a folder here: Motley downloads nothing; get the model's files first");
        return st;
    }
    st = mt_config_parse(file, text, size, arena, config, err);
    if (st && !err->hint[0] && (size < 1 || text[strspn(text, " \t\r\n")] != '{'))
        mt_err_hint(err, "name the model's folder, or its " MT_CONFIG_NAME "; --init of `motley train` names weights");
    free(text);
    return st;
}
