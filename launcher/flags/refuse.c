/* What argp refuses, said as other errors are: argp itself is told to be silent (ARGP_NO_ERRS), and does not say what
 * it found, so that the word at which it stopped is looked up again. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/text/nearest.h"
#include "launcher/flags/internal.h"

typedef void visit_option(const struct argp_option *option, void *context);

/* Call `visit` for each option of a command and of the parts of it. */
static void each_option(const struct argp *argp, visit_option *visit, void *context) {
    const struct argp_option *o = argp->options;
    for (; o && (o->name || o->key || o->doc); o++)
        if (o->name || o->key) visit(o, context);
    for (const struct argp_child *child = argp->children; child && child->argp; child++)
        each_option(child->argp, visit, context);
}

static void each_flag(const struct argp *argp, visit_option *visit, void *context) {
    each_option(argp, visit, context);
    for (const struct argp_option *o = mt_shared_options; o->name || o->key; o++) visit(o, context);
}

/* What the flags of other programs are called here; those that are missing letters are found without. */
static const struct {
    const char *there, *here;
} others[] = {{"batch-size", "batch"},
              {"global-batch-size", "batch"},
              {"epochs", "steps"},
              {"max-steps", "steps"},
              {"train-iters", "steps"},
              {"learning-rate", "lr"},
              {"model-name-or-path", "model"},
              {"dtype", "precision"},
              {"bf16", "precision"},
              {"fp16", "precision"},
              {"train-file", "data"},
              {"output-dir", "out"},
              {"save-steps", "checkpoint-every"},
              {"nproc-per-node", "ranks"},
              {"num-gpus", "ranks"},
              {"gpus", "ranks"},
              {"hostfile", "hosts"},
              {"max-new-tokens", "tokens"}};

/* A flag as it was typed, and what it may be. */
struct looked_up {
    const char *text; /* without dashes */
    size_t length;    /* up to "=" */
    bool is_short;
    const struct argp_option *exact; /* or the first that begins so, or null */
    int nbegun;                      /* flags that begin so */
    char begun[200];
    struct mt_nearest near;
    const char *other; /* the flag of this command that another program calls so, or null */
};

/* Hyphens and underscores alike. */
static bool same_word(const struct looked_up *l, const char *name) {
    size_t i = 0;
    for (; i < l->length && name[i]; i++)
        if (l->text[i] != name[i] && !(l->text[i] == '_' && name[i] == '-')) return false;
    return i == l->length && !name[i];
}

static void look_at(const struct argp_option *o, void *context) {
    struct looked_up *l = context;
    if (l->is_short) {
        if (o->key == l->text[0]) l->exact = o;
        return;
    }
    if (!o->name) return;
    char flag[MT_NEAREST_LETTERS];
    snprintf(flag, sizeof flag, "--%s", o->name);
    mt_nearest_add(&l->near, flag);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (same_word(l, others[i].there) && !strcmp(others[i].here, o->name)) l->other = o->name;
    if (strncmp(o->name, l->text, l->length)) return;
    if (!o->name[l->length] || !l->exact) l->exact = o;
    size_t used = strlen(l->begun);
    snprintf(l->begun + used, sizeof l->begun - used, "%s%s", l->nbegun++ ? ", " : "", flag);
}

static struct looked_up look_up(const struct argp *argp, const char *word) {
    bool is_short = word[1] != '-';
    struct looked_up l = {.text = word + (is_short ? 1 : 2), .is_short = is_short};
    l.length = strcspn(l.text, "=");
    char whole[MT_NEAREST_LETTERS] = ""; /* -batch is --batch */
    if (l.length < sizeof whole - 2) snprintf(whole, sizeof whole, "--%.*s", (int)l.length, l.text);
    l.near = mt_nearest_to(whole);
    each_flag(argp, look_at, &l);
    if (!is_short) return l;
    struct looked_up as_long = {.text = l.text, .length = l.length, .near = l.near};
    each_flag(argp, look_at, &as_long);
    l.near = as_long.near;
    return l;
}

static bool refuse_short(const struct looked_up *l, const char *command, struct mt_err *err) {
    if (l->exact && (!l->exact->arg || l->text[1])) return false;
    if (l->exact) {
        mt_fail(err, MT_EINPUT, "-%c: has no value", l->text[0]);
        mt_err_hint(err, "as -%c %s", l->text[0], l->exact->arg);
        return true;
    }
    mt_fail(err, MT_EINPUT, "-%.60s: is no flag of %s", l->text, command);
    if (l->text[1])
        mt_nearest_hint(&l->near, err, "`%s --help` lists its flags", command);
    else
        mt_err_hint(err, "`%s --help` lists its flags", command);
    return true;
}

static bool refuse_long(const struct looked_up *l, const char *command, struct mt_err *err) {
    int length = (int)l->length;
    bool is_exact = l->exact && !l->exact->name[l->length];
    if (!l->exact) {
        mt_fail(err, MT_EINPUT, "--%.*s: is no flag of %s", length > 60 ? 60 : length, l->text, command);
        if (l->other)
            mt_err_hint(err, "it is --%s here; `%s --help` lists its flags", l->other, command);
        else
            mt_nearest_hint(&l->near, err, "`%s --help` lists its flags", command);
    } else if (l->nbegun > 1 && !is_exact) {
        mt_fail(err, MT_EINPUT, "--%.*s: may be one of several flags", length, l->text);
        mt_err_hint(err, "%s", l->begun);
    } else if (l->exact->arg && !l->text[l->length]) {
        mt_fail(err, MT_EINPUT, "--%s: has no value", l->exact->name);
        mt_err_hint(err, "as --%s %s", l->exact->name, l->exact->arg);
    } else if (!l->exact->arg && l->text[l->length]) {
        mt_fail(err, MT_EINPUT, "--%s: takes no value", l->exact->name);
    } else {
        return false;
    }
    return true;
}

/* Whether this word is what is wrong. */
static bool refuse_word(const struct argp *argp, const char *word, const char *command, struct mt_err *err) {
    if (word[0] != '-' || !word[1] || !strcmp(word, "--")) return false;
    struct looked_up l = look_up(argp, word);
    return l.is_short ? refuse_short(&l, command, err) : refuse_long(&l, command, err);
}

void mt_flags_refuse(const struct argp *argp, const struct argp_state *state, struct mt_err *err) {
    /* The word before the next one, unless argp has stopped in the middle of several short flags. */
    for (int w = state->next - 1; w <= state->next && w < state->argc; w++)
        if (w >= 1 && refuse_word(argp, state->argv[w], state->name, err)) return;
    int at = state->next - 1 < 1 ? 1 : state->next - 1;
    mt_fail(err, MT_EINPUT, "\"%.60s\" is an extra word", at < state->argc ? state->argv[at] : "");
    mt_err_hint(err, "`%s --help` says what it takes", state->name);
}
