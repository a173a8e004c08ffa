/* Parsing and checking values of command-line flags. */
#include "launcher/flags/flags.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/color.h"
#include "kernels/base/text/nearest.h"
#include "kernels/base/text/units.h"
#include "launcher/flags/internal.h"
#include "launcher/flags/output.h"

const char *const mt_device_kinds[MT_NDEVICE_KINDS] = {"cpu", "cuda"};
void (*mt_flags_visit)(const struct argp *argp, const char *command);

enum mt_status mt_flag_int(const char *flag, const char *text, int64_t least, int64_t most, int64_t *value,
                           struct mt_err *err) {
    if (!mt_units_parse_int(text, value))
        return mt_fail(err, MT_EINPUT, "%s: must be a whole number, not \"%.60s\"", flag, text);
    if (*value >= least && *value <= most) return MT_OK;
    return mt_fail(err, MT_EINPUT, "%s: is %lld, but must be from %lld to %lld", flag, (long long)*value,
                   (long long)least, (long long)most);
}

enum mt_status mt_flag_real(const char *flag, const char *text, double *value, struct mt_err *err) {
    if (mt_units_parse_real(text, value)) return MT_OK;
    return mt_fail(err, MT_EINPUT, "%s: must be a number, not \"%.60s\"", flag, text);
}

enum mt_status mt_flag_bytes(const char *flag, const char *text, int64_t *bytes, struct mt_err *err) {
    if (mt_units_parse_bytes(text, bytes)) return MT_OK;
    mt_fail(err, MT_EINPUT, "%s: must be a number of bytes, not \"%.60s\"", flag, text);
    struct mt_nearest near = mt_nearest_to(text + strspn(text, "0123456789."));
    mt_nearest_find(&near, (const char *const[]){"KiB", "MiB", "GiB", "TiB"}, 4);
    return mt_nearest_hint(&near, err, "as 65536, 4MiB or 1.5GiB");
}

enum mt_status mt_flag_path(const char *flag, const char *text, const char **path, struct mt_err *err) {
    *path = text;
    return text[0] ? MT_OK : mt_fail(err, MT_EINPUT, "%s: must be a name, not \"\"", flag);
}

enum mt_status mt_flag_name(const char *flag, const char *text, const char *const *names, int count, int *which,
                            struct mt_err *err) {
    struct mt_nearest near = mt_nearest_to(text);
    int found = mt_nearest_find(&near, names, count);
    if (found >= 0) {
        *which = found;
        return MT_OK;
    }
    mt_fail(err, MT_EINPUT, "%s: \"%.60s\" is not known here", flag, text);
    return mt_nearest_hint(&near, err, "it may be: %s", near.list);
}

enum mt_status mt_flag_words(const char *flag, const char *text, struct mt_arena *arena, char ***words, int *count,
                             struct mt_err *err) {
    int n = 1;
    for (const char *c = text; *c; c++) n += *c == ',';
    *words = mt_new(arena, char *, n);
    *count = n;
    const char *at = text;
    for (int i = 0; i < n; i++) {
        size_t length = strcspn(at, ",");
        if (!length) return mt_fail(err, MT_EINPUT, "%s: item %d of \"%.100s\" is empty", flag, i, text);
        (*words)[i] = mt_arena_printf(arena, "%.*s", (int)length, at);
        at += length + 1;
    }
    return MT_OK;
}

enum mt_status mt_flag_ints(const char *flag, const char *text, int64_t least, int64_t most, struct mt_arena *arena,
                            int64_t **values, int *count, struct mt_err *err) {
    char **words;
    enum mt_status st = mt_flag_words(flag, text, arena, &words, count, err);
    if (st) return st;
    *values = mt_new(arena, int64_t, *count);
    for (int i = 0; i < *count && !st; i++) st = mt_flag_int(flag, words[i], least, most, &(*values)[i], err);
    return st;
}

enum mt_status mt_flag_reals(const char *flag, const char *text, struct mt_arena *arena, double **values, int *count,
                             struct mt_err *err) {
    char **words;
    enum mt_status st = mt_flag_words(flag, text, arena, &words, count, err);
    if (st) return st;
    *values = mt_new(arena, double, *count);
    for (int i = 0; i < *count && !st; i++) st = mt_flag_real(flag, words[i], &(*values)[i], err);
    return st;
}

enum mt_status mt_flag_seconds(const char *flag, const char *text, double *value, struct mt_err *err) {
    enum mt_status st = mt_flag_real(flag, text, value, err);
    return st || *value > 0 ? st : mt_fail(err, MT_EINPUT, "%s: must be more than 0", flag);
}

enum mt_status mt_flag_heartbeat(const char *text, double *heartbeat_s, struct mt_err *err) {
    enum mt_status st = mt_flag_real("--heartbeat", text, heartbeat_s, err);
    if (st || *heartbeat_s == 0 || *heartbeat_s >= 2) return st;
    return mt_fail(err, MT_EINPUT,
                   "--heartbeat: must be 0, or at least 2: ranks of a large job send one heartbeat a second");
}

enum mt_status mt_flag_device(const char *text, const char **kind, struct mt_err *err) {
    struct mt_nearest near = mt_nearest_to(text);
    int which = mt_nearest_find(&near, mt_device_kinds, MT_NDEVICE_KINDS);
    if (which >= 0) {
        *kind = mt_device_kinds[which];
        return MT_OK;
    }
    mt_fail(err, MT_EINPUT, "--device: \"%.60s\" is not a kind of device (%s)", text, near.list);
    return mt_err_hint(err, "cuda is for GPUs");
}

enum mt_status mt_flag_operand(const char *what, const char *text, const char **operand, struct mt_err *err) {
    if (*operand) return mt_fail(err, MT_EINPUT, "\"%.60s\": one %s at a time", text, what);
    return mt_flag_path(what, text, operand, err);
}

enum mt_status mt_flag_no_operand(const char *text, struct mt_err *err) {
    return mt_fail(err, MT_EINPUT, "\"%.60s\": only flags are expected", text);
}

const struct argp_option mt_shared_options[] = {{"help", KEY_HELP, 0, 0, "print this", -1},
                                                {0, '?', 0, OPTION_ALIAS | OPTION_HIDDEN, 0, -1},
                                                {"version", KEY_VERSION, 0, 0, "print the version", -1},
                                                {"color", KEY_COLOR, "WHEN", 0,
                                                 "colours: auto (on terminals, unless NO_COLOR is set), always or "
                                                 "never [auto]",
                                                 -1},
                                                {0}};

struct parsing {
    const struct argp *argp;
    void *input;
    struct mt_err *err;
};

_Noreturn void mt_flags_answered(void) {
    struct mt_err err = MT_ERR_INIT;
    if (!mt_output_flush(&err)) exit(MT_EXIT_OK);
    mt_err_print(&err);
    exit(mt_exit_code(err.status));
}

/* Print what was asked for instead of the command's work, and end. */
static void print_and_exit(struct argp_state *state, bool help) {
    if (help)
        argp_help(state->root_argp, stdout, ARGP_HELP_STD_HELP & ~(ARGP_HELP_EXIT_ERR | ARGP_HELP_EXIT_OK),
                  state->name);
    else
        puts("motley " MOTLEY_VERSION);
    mt_flags_answered();
}

/* What every command has, around its own flags. */
static error_t parse_shared(int key, char *text, struct argp_state *state) {
    struct parsing *p = state->input;
    int which;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = p->input; return 0;
    case KEY_HELP:
    case '?':
    case KEY_VERSION: print_and_exit(state, key != KEY_VERSION); return 0;
    case KEY_COLOR:
        if (mt_flag_name("--color", text, mt_color_names, 3, &which, p->err)) return EINVAL;
        mt_color_choose((enum mt_color)which);
        return 0;
    case ARGP_KEY_ERROR:
        if (!p->err->status) mt_flags_refuse(p->argp, state, p->err);
        return 0;
    }
    return ARGP_ERR_UNKNOWN;
}

enum mt_status mt_flags_parse(const struct argp *argp, int argc, char **argv, void *input, struct mt_err *err) {
    struct parsing p = {.argp = argp, .input = input, .err = err};
    const struct argp_child child[] = {{argp, 0, NULL, 0}, {0}};
    const struct argp whole = {.options = mt_shared_options, .parser = parse_shared, .children = child};
    if (mt_flags_visit) mt_flags_visit(&whole, argv[0]);
    err->status = MT_OK;
    error_t code = argp_parse(&whole, argc, argv, ARGP_NO_ERRS | ARGP_NO_HELP, NULL, &p);
    if (!code) return MT_OK;
    if (err->status) return err->status;
    return mt_fail(err, MT_EINPUT, "the command line: %s", strerror(code));
}
