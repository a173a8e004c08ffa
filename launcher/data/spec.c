/* [FORMAT:]PATTERN[=WEIGHT] to files. */
#include "launcher/data/spec.h"

#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/text/units.h"

static const char *const names[] = {
#define FORMAT(name, what) #name,
#include "launcher/data/formats.def"
#undef FORMAT
};

const char *mt_data_format_name(enum mt_data_format format) {
    return format < MT_DATA_NFORMATS ? names[format] : "unnamed";
}

/* Take "FORMAT:" from the beginning of a text. */
static const char *take_format(const char *text, enum mt_data_format *format) {
    const char *colon = strchr(text, ':');
    for (int f = 0; f < MT_DATA_NFORMATS && colon; f++)
        if (strlen(names[f]) == (size_t)(colon - text) && !strncmp(text, names[f], (size_t)(colon - text))) {
            *format = (enum mt_data_format)f;
            return colon + 1;
        }
    return text;
}

/* Take "=WEIGHT" from the end; what is no number after the last '=' belongs to the name. */
static enum mt_status take_weight(const char *flag, char *text, double *weight, struct mt_err *err) {
    char *equals = strrchr(text, '=');
    if (!equals || !mt_units_parse_real(equals + 1, weight)) {
        *weight = 0;
        return MT_OK;
    }
    if (!(*weight > 0 && *weight <= 1e9)) {
        mt_fail(err, MT_EINPUT, "%s %.200s: the weight must be above 0, and at most 1e9", flag, text);
        return mt_err_hint(err, "a weight of 2 is twice as many samples as one of 1; leave out what should have none");
    }
    *equals = 0;
    return MT_OK;
}

static int by_text(const void *left, const void *right) {
    return strcmp(*(char *const *)left, *(char *const *)right);
}

static void set_files(struct mt_arena *arena, char **paths, int n, struct mt_data_spec *spec) {
    spec->files = mt_new(arena, char *, n);
    spec->nfiles = n;
    for (int i = 0; i < n; i++) spec->files[i] = mt_arena_strdup(arena, paths[i]);
    qsort(spec->files, (size_t)n, sizeof *spec->files, by_text);
}

/* A folder that is not there has no files; one that cannot be read may have some. */
static int refuse_unreadable(const char *folder, int code) {
    (void)folder;
    return code != ENOENT && code != ENOTDIR;
}

static enum mt_status expand(const char *flag, char *pattern, struct mt_arena *arena, struct mt_data_spec *spec,
                             struct mt_err *err) {
    if (!*pattern) return mt_fail(err, MT_EINPUT, "%s %.200s: names no file", flag, spec->text);
    if (!access(pattern, F_OK) || !strpbrk(pattern, "*?[")) {
        set_files(arena, &pattern, 1, spec);
        return MT_OK;
    }
    glob_t found;
    int code = glob(pattern, GLOB_MARK, refuse_unreadable, &found), n = 0;
    for (size_t i = 0; !code && i < found.gl_pathc; i++) { /* folders, which end with a slash, are left out */
        char *path = found.gl_pathv[i];
        if (path[strlen(path) - 1] == '/') continue;
        found.gl_pathv[i] = found.gl_pathv[n];
        found.gl_pathv[n++] = path;
    }
    if (n) set_files(arena, found.gl_pathv, n, spec);
    if (code == GLOB_NOMATCH || (!code && !n)) {
        code = GLOB_NOMATCH;
        mt_fail(err, MT_EINPUT, "%s %.200s: no file has such a name", flag, pattern);
        mt_err_hint(err, "a pattern is looked up on every host: are the files there?");
    } else if (code) {
        mt_fail(err, MT_ESYSTEM, "%s %.200s: a folder could not be read", flag, pattern);
    }
    globfree(&found);
    return code ? err->status : MT_OK;
}

enum mt_status mt_data_spec_parse(const char *flag, const char *text, struct mt_arena *arena, struct mt_data_spec *spec,
                                  struct mt_err *err) {
    *spec = (struct mt_data_spec){.text = text, .format = MT_DATA_BY_NAME};
    char *pattern = mt_arena_strdup(arena, text);
    if (*text && !access(text, F_OK)) return expand(flag, pattern, arena, spec, err);
    pattern += take_format(text, &spec->format) - text;
    enum mt_status st = take_weight(flag, pattern, &spec->weight, err);
    return st ? st : expand(flag, pattern, arena, spec, err);
}
