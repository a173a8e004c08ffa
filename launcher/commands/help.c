/* motley help: the list of commands, or a command's flags. */
#include <errno.h>
#include <string.h>

#include "kernels/base/arena.h"
#include "launcher/commands/command.h"
#include "launcher/flags/flags.h"

enum { MOST_WORDS = 2 }; /* of a command's name, as "bench plans" */

struct help_flags {
    struct mt_err *err;
    char *words[MOST_WORDS];
    int nwords;
};

static error_t parse(int key, char *text, struct argp_state *state) {
    struct help_flags *f = state->input;
    if (key != ARGP_KEY_ARG) return ARGP_ERR_UNKNOWN;
    if (f->nwords == MOST_WORDS) return mt_fail(f->err, MT_EINPUT, "\"%.60s\": one command at a time", text), EINVAL;
    f->words[f->nwords++] = text;
    return 0;
}

int mt_command_help(int argc, char **argv) {
    static const struct argp argp = {
        .parser = parse, .args_doc = "[COMMAND]", .doc = "List the commands, or the flags of one."};
    static char flag[] = "--help";
    struct mt_err err = MT_ERR_INIT;
    struct help_flags f = {.err = &err};
    int code = 0;
    enum mt_status st = mt_flags_parse(&argp, argc, argv, &f, &err);
    if (st) return mt_command_fail(&err);
    if (!f.nwords) {
        mt_commands_print(stdout);
        return 0;
    }
    struct mt_arena arena = MT_ARENA_INIT;
    char *words[MOST_WORDS + 2] = {mt_arena_printf(&arena, "motley %s", f.words[0])};
    for (int w = 1; w < f.nwords; w++) words[w] = f.words[w];
    words[f.nwords] = flag;
    if (!mt_command_run(f.words[0], f.nwords + 1, words, &code, &err)) code = mt_command_fail(&err);
    mt_arena_release(&arena);
    return code;
}
