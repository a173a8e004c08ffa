/* Parsing and checking values of command-line flags. */
#include "launcher/flags/flags.h"

#include <stdio.h>
#include <string.h>

#include "kernels/base/text/units.h"

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
    return mt_err_hint(err, "as 65536, 4MiB or 1.5GiB");
}

enum mt_status mt_flag_path(const char *flag, const char *text, const char **path, struct mt_err *err) {
    *path = text;
    return text[0] ? MT_OK : mt_fail(err, MT_EINPUT, "%s: must be a name, not \"\"", flag);
}

enum mt_status mt_flag_name(const char *flag, const char *text, const char *const *names, int count, int *which,
                            struct mt_err *err) {
    char known[300] = "";
    for (int i = 0; i < count; i++) {
        if (!strcmp(text, names[i])) {
            *which = i;
            return MT_OK;
        }
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", names[i]);
    }
    mt_fail(err, MT_EINPUT, "%s: \"%.60s\" is not known here", flag, text);
    return mt_err_hint(err, "it may be: %s", known);
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
    static const char *const kinds[] = {"cpu", "cuda"};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        if (!strcmp(text, kinds[k])) {
            *kind = kinds[k];
            return MT_OK;
        }
    return mt_fail(err, MT_EINPUT, "--device: \"%.60s\" is not a kind of device (cpu, cuda)", text);
}

enum mt_status mt_flag_operand(const char *what, const char *text, const char **operand, struct mt_err *err) {
    if (*operand) return mt_fail(err, MT_EINPUT, "\"%.60s\": one %s at a time", text, what);
    return mt_flag_path(what, text, operand, err);
}

enum mt_status mt_flag_no_operand(const char *text, struct mt_err *err) {
    return mt_fail(err, MT_EINPUT, "\"%.60s\": only flags are expected", text);
}

enum mt_status mt_flags_parse(const struct argp *argp, int argc, char **argv, void *input, struct mt_err *err) {
    err->status = MT_OK;
    error_t code = argp_parse(argp, argc, argv, 0, NULL, input);
    if (!code) return MT_OK;
    if (err->status) return err->status;
    return mt_fail(err, MT_EINPUT, "the command line: %s", strerror(code));
}
