/* The sub-commands: a file in launcher/commands/ and a row in commands.def each; those of `motley bench` are in bench/.
 *
 *     int mt_command_NAME(int argc, char **argv)     // argv[0] is "motley NAME", for argp; returns the exit code
 *
 * Libraries fill an error, commands print it with mt_command_fail and choose the exit code. */
#ifndef MT_LAUNCHER_COMMANDS_COMMAND_H
#define MT_LAUNCHER_COMMANDS_COMMAND_H

#include <stdbool.h>
#include <stdio.h>

#include "kernels/base/arena.h"
#include "kernels/base/err.h"

/* "motley --help", "-h", "--version", or the command that argv[1] names. */
int mt_command_main(int argc, char **argv);

/* Run the command of that name, with argv[0] as it shall be called; returns its exit code. False: there is none, and
 * `err` says so, with the nearest. */
bool mt_command_run(const char *name, int argc, char **argv, int *code, struct mt_err *err);

/* The list of commands, as `motley --help` prints it. */
void mt_commands_print(FILE *file);

/* Print the error; returns its exit code. */
int mt_command_fail(const struct mt_err *err);

#define MT_COMMAND(name, help) int mt_command_##name(int argc, char **argv);
#include "launcher/commands/commands.def"
#undef MT_COMMAND

/* The flags of `motley train`, checked as it checks them, for those who start it: each one word, "--steps=5"; but for
 * those that say where a run begins and what it writes. argv[0] is the command's name; there is no plan among them. */
struct mt_train_words {
    struct mt_arena *arena;
    struct mt_err *err;
    int n;
    char **words; /* ended by null */
    const char *out, *resume, *init;
    bool writes_nothing;
};
enum mt_status mt_train_words(int argc, char **argv, struct mt_arena *arena, struct mt_train_words *words,
                              struct mt_err *err);

int mt_command_bench_plans(int argc, char **argv);   /* "motley bench plans" */
int mt_command_bench_overlap(int argc, char **argv); /* "motley bench overlap" */

#endif
