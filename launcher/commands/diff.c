/* motley diff: the differences between two documents of one kind. */
#include <errno.h>
#include <stdio.h>

#include "launcher/commands/command.h"
#include "launcher/show/diff/diff.h"
#include "launcher/flags/flags.h"
#include "launcher/flags/output.h"

enum { KEY_JSON = 0x2000 };

struct diff_flags {
    struct mt_err *err;
    const char *path[2];
    int npaths;
    struct mt_output output;
};

static const struct argp_option flag_table[] = {MT_OPTION_JSON(KEY_JSON, 1), {0}};

static error_t parse(int key, char *text, struct argp_state *state) {
    struct diff_flags *f = state->input;
    if (key == KEY_JSON) return mt_output_flag(text, state, NULL, &f->output, f->err) ? EINVAL : 0;
    if (key != ARGP_KEY_ARG) return ARGP_ERR_UNKNOWN;
    if (f->npaths == 2) {
        mt_fail(f->err, MT_EINPUT, "\"%.60s\": two files at a time", text);
        return EINVAL;
    }
    return mt_flag_path("FILE", text, &f->path[f->npaths++], f->err) ? EINVAL : 0;
}

int mt_command_diff(int argc, char **argv) {
    static const struct argp argp = {
        .options = flag_table,
        .parser = parse,
        .args_doc = "FILE FILE",
        .doc = "Compare two documents of one kind, plans, clusters or runs, by content. Measured figures differ when "
               "their "
               "error bands do not overlap.\v"
               "Exits with 0 when they say the same, 1 when they differ, and 2 when they cannot be compared."};
    struct mt_err err = MT_ERR_INIT;
    struct diff_flags f = {.err = &err};
    int count = 0;
    enum mt_status st = mt_flags_parse(&argp, argc, argv, &f, &err);
    if (!st && f.npaths < 2) st = mt_fail(&err, MT_EINPUT, "compare what? Name two files");
    struct mt_tables doc = MT_TABLES_INIT;
    if (!st) st = mt_output_check(&f.output, f.path, 2, &err);
    if (!st) st = mt_diff(f.path[0], f.path[1], &doc, &count, &err);
    if (!st && !count) mt_tables_say(&doc, "%s and %s say the same", f.path[0], f.path[1]);
    if (!st) st = mt_output_end(&f.output, &doc, &err);
    mt_tables_release(&doc);
    if (st) return mt_command_fail(&err);
    return count ? MT_EXIT_DIFFERENT : MT_EXIT_OK;
}
