/* motley diff: the differences between two documents of one kind. */
#include <errno.h>
#include <stdio.h>

#include "launcher/commands/command.h"
#include "launcher/show/diff.h"
#include "launcher/flags/flags.h"

struct diff_flags {
    struct mt_err *err;
    const char *path[2];
    int npaths;
};

static error_t parse(int key, char *text, struct argp_state *state) {
    struct diff_flags *f = state->input;
    if (key != ARGP_KEY_ARG) return ARGP_ERR_UNKNOWN;
    if (f->npaths == 2) {
        mt_fail(f->err, MT_EINPUT, "\"%.60s\": two files at a time", text);
        return EINVAL;
    }
    return mt_flag_path("FILE", text, &f->path[f->npaths++], f->err) ? EINVAL : 0;
}

int mt_command_diff(int argc, char **argv) {
    static const struct argp argp = {
        .parser = parse,
        .args_doc = "FILE FILE",
        .doc = "Compare two documents of one kind, plans or clusters, by content. Measured figures differ when their "
               "error bands do not overlap.\v"
               "Exits with 0 when they say the same, 1 when they differ, and 2 when they cannot be compared."};
    struct mt_err err = MT_ERR_INIT;
    struct diff_flags f = {.err = &err};
    int count = 0;
    enum mt_status st = mt_flags_parse(&argp, argc, argv, &f, &err);
    if (!st && f.npaths < 2) st = mt_fail(&err, MT_EINPUT, "compare what? Name two files");
    if (!st) st = mt_diff(f.path[0], f.path[1], stdout, &count, &err);
    if (!st && !count) printf("%s and %s say the same\n", f.path[0], f.path[1]);
    if (st) return mt_command_fail(&err);
    return count ? MT_EXIT_DIFFERENT : MT_EXIT_OK;
}
