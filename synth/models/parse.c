/* Model texts: parsing, and help from the table of front-ends. */
#include "synth/models/model.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/text/nearest.h"

#define MT_MODEL(class) extern const struct mt_model_class mt_model_class_##class;
#include "synth/models/models.def"
#undef MT_MODEL
#define MT_MODEL(class) &mt_model_class_##class,
static const struct mt_model_class *const classes[] = {
#include "synth/models/models.def"
};
#undef MT_MODEL
enum { NCLASSES = sizeof classes / sizeof *classes };

const struct mt_model_class *const *mt_model_classes(int *count) {
    *count = NCLASSES;
    return classes;
}

static struct mt_model_option *find_option(struct mt_model *model, const char *name, size_t length) {
    for (int i = 0; i < model->noptions; i++)
        if (strlen(model->options[i].name) == length && !memcmp(model->options[i].name, name, length))
            return &model->options[i];
    return NULL;
}

static enum mt_status unknown_class(const char *text, size_t length, struct mt_err *err) {
    struct mt_nearest class = mt_nearest_to_part(text, length), near = class;
    for (int c = 0; c < NCLASSES; c++) mt_nearest_add(&class, classes[c]->name);
    for (int c = 0; c < NCLASSES; c++) mt_nearest_add(&near, classes[c]->name);
    for (int c = 0; c < NCLASSES; c++)
        for (const char *const *n = classes[c]->named; *n; n += 2) mt_nearest_add(&near, *n);
    mt_fail(err, MT_EINPUT, "there is no model \"%.*s\"", (int)length, text);
    return mt_nearest_hint(&near, err, "models are: %s; `motley plan --models` lists their sizes", class.list);
}

static enum mt_status unknown_word(const struct mt_model *model, const char *what, const char *text, size_t length,
                                   struct mt_err *err) {
    struct mt_nearest options = mt_nearest_to_part(text, length), sizes = options, near;
    for (int i = 0; i < model->noptions; i++) mt_nearest_add(&options, model->options[i].name);
    for (const char *const *n = model->class->named; *n; n += 2) mt_nearest_add(&sizes, *n);
    near = options.best[0] && (!sizes.best[0] || options.cost < sizes.cost) ? options : sizes;
    mt_fail(err, MT_EINPUT, "%s has no %s \"%.*s\"", model->class->name, what, (int)length, text);
    return mt_nearest_hint(&near, err, "%s takes a size (%s) and options (%s)", model->class->name, sizes.list,
                           options.list);
}

/* What an option that counts parts is set to; false where it is no number, or no whole number of parts. */
static bool parse_parts(const char *digits, int64_t per, long long *value) {
    char *end;
    double parts = strtod(digits, &end) * (double)per, whole = nearbyint(parts);
    if (*end || !(fabs(whole) < 0x1p53) || fabs(parts - whole) > 1e-6 * fmax(1, fabs(whole))) return false;
    *value = (long long)whole;
    return true;
}

/* "layers=12": `seen` has a bit for each option that was given in this list. */
static enum mt_status parse_option(struct mt_model *model, const char *text, size_t length, unsigned *seen,
                                   struct mt_err *err) {
    const char *equals = memchr(text, '=', length);
    size_t name_length = equals ? (size_t)(equals - text) : length;
    struct mt_model_option *o = find_option(model, text, name_length);
    if (!o) return unknown_word(model, "option", text, name_length, err);
    if (!equals) return mt_fail(err, MT_EINPUT, "option %s has no value: say %s=NUMBER", o->name, o->name);
    if (*seen >> (o - model->options) & 1) return mt_fail(err, MT_EINPUT, "option %s is given twice", o->name);
    *seen |= 1u << (o - model->options);
    char digits[32], *end;
    long long value;
    size_t n = length - name_length - 1;
    if (n == 0 || n >= sizeof digits || !isdigit((unsigned char)equals[1])) goto refused;
    memcpy(digits, equals + 1, n);
    digits[n] = 0;
    errno = 0;
    if (o->per && !parse_parts(digits, o->per, &value)) goto refused;
    if (!o->per) value = strtoll(digits, &end, 10);
    if (errno || (!o->per && *end) || value < o->least || value > o->most) goto refused;
    o->value = value;
    return MT_OK;
refused:
    if (o->per)
        return mt_fail(err, MT_EINPUT, "option %s is \"%.*s\", not a number from %g to %g in steps of %g", o->name,
                       (int)(n > 40 ? 40 : n), equals + 1, (double)o->least / (double)o->per,
                       (double)o->most / (double)o->per, 1 / (double)o->per);
    return mt_fail(err, MT_EINPUT, "option %s is \"%.*s\", not a whole number from %lld to %lld", o->name,
                   (int)(n > 40 ? 40 : n), equals + 1, (long long)o->least, (long long)o->most);
}

static enum mt_status parse_options(struct mt_model *model, const char *text, struct mt_err *err) {
    unsigned seen = 0;
    for (;;) {
        size_t length = strcspn(text, ",");
        enum mt_status st = parse_option(model, text, length, &seen, err);
        if (st) return st;
        if (!text[length]) return MT_OK;
        text += length + 1;
    }
}

/* The row of a named size, up to the comma; null: the class has none of that name. */
static const char *const *find_named(const struct mt_model_class *class, const char *text) {
    size_t length = strcspn(text, ",");
    for (const char *const *n = class->named; *n; n += 2)
        if (strlen(n[0]) == length && !memcmp(n[0], text, length)) return n;
    return NULL;
}

/* What follows the colon: a named size, options, or both. */
static enum mt_status parse_settings(struct mt_model *model, const char *text, struct mt_err *err) {
    size_t length = strcspn(text, ",");
    if (memchr(text, '=', length)) return parse_options(model, text, err);
    const char *const *size = find_named(model->class, text);
    if (!size) return unknown_word(model, "size", text, length, err);
    enum mt_status st = parse_options(model, size[1], err);
    return !st && text[length] ? parse_options(model, text + length + 1, err) : st;
}

/* The class that a text begins with, or that has a size of this name, or null. *settings: what sets options, or null.
 */
static const struct mt_model_class *class_of(const char *text, const char **settings) {
    size_t length = strcspn(text, ":");
    *settings = text[length] ? text + length + 1 : NULL;
    for (int c = 0; c < NCLASSES; c++)
        if (strlen(classes[c]->name) == length && !memcmp(classes[c]->name, text, length)) return classes[c];
    *settings = text;
    for (int c = 0; c < NCLASSES; c++)
        if (find_named(classes[c], text)) return classes[c];
    return NULL;
}

bool mt_model_is_text(const char *text) {
    const char *settings;
    return class_of(text, &settings) != NULL;
}

enum mt_status mt_model_settings(const char *text, struct mt_model *model, struct mt_err *err) {
    const char *settings;
    *model = (struct mt_model){.class = class_of(text, &settings)};
    if (!model->class) return unknown_class(text, strcspn(text, ":"), err);
    for (const struct mt_model_option *o = model->class->options; o->name; o++) {
        assert(model->noptions < MT_MODEL_OPTIONS);
        model->options[model->noptions] = *o;
        model->options[model->noptions++].value = o->preset;
    }
    return settings ? parse_settings(model, settings, err) : MT_OK;
}

enum mt_status mt_model_parse(const char *text, struct mt_model *model, struct mt_err *err) {
    enum mt_status st = mt_model_settings(text, model, err);
    if (!st && model->class->complete) st = model->class->complete(model, err);
    return st ? mt_err_context(err, "model %.200s", text) : MT_OK;
}

void mt_model_help(FILE *file) {
    for (int c = 0; c < NCLASSES; c++) {
        fprintf(file, "%s: %s\n", classes[c]->name, classes[c]->help);
        for (const char *const *n = classes[c]->named; *n; n += 2) fprintf(file, "  %-14s  %s\n", n[0], n[1]);
        struct mt_arena arena = MT_ARENA_INIT;
        for (const struct mt_model_option *o = classes[c]->options; o->name; o++)
            fprintf(file, "  %s  %s\n", mt_model_option_text(o, o->preset, &arena), o->help);
        mt_arena_release(&arena);
    }
}
