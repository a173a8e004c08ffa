/* Finding the sub-command, and what all commands share. */
#include "launcher/commands/command.h"

#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/arena.h"
#include "kernels/base/log.h"
#include "kernels/base/text/nearest.h"
#include "launcher/flags/output.h"

static const struct {
    const char *name, *help;
    int (*run)(int argc, char **argv);
} commands[] = {
#define MT_COMMAND(name, help) {#name, help, mt_command_##name},
#include "launcher/commands/commands.def"
#undef MT_COMMAND
};
enum { NCOMMANDS = sizeof commands / sizeof commands[0] };

void mt_commands_print(FILE *file) {
    fprintf(file, "Usage: motley COMMAND [FLAG...]\n"
                  "Train one model on unequal devices, by a plan that people can review.\n\n");
    for (int c = 0; c < NCOMMANDS; c++) fprintf(file, "  %-10s %s\n", commands[c].name, commands[c].help);
    fprintf(file,
            "\n`motley help COMMAND` or `motley COMMAND -h` lists a command's flags; `motley --version` prints the "
            "version.\n");
}

int mt_command_fail(const struct mt_err *err) {
    mt_err_print(err);
    return mt_exit_code(err->status);
}

/* A failed write to standard output is a failure of the command. */
static int check_output(void) {
    struct mt_err err = MT_ERR_INIT;
    return mt_output_flush(&err) ? mt_command_fail(&err) : 0;
}

/* The next file opened would get the number of a standard stream that is closed, and output would go there. Give the
 * number to /dev/null, opened for reading, so that writes fail. */
static void fill_standard_streams(void) {
    for (int fd = open("/dev/null", O_RDONLY); fd >= 0; fd = open("/dev/null", O_RDONLY)) {
        if (fd <= STDERR_FILENO) continue;
        close(fd);
        return;
    }
}

/* Planning takes and frees the same megabytes many times: keep them, instead of having the kernel clear them anew. */
static void keep_freed_memory(void) {
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 256 << 20);
}

/* $MOTLEY_LOG: the level of the log on stderr. */
static void read_log_level(void) {
    static const char *const levels[] = {[MT_LOG_WARN] = "warn", [MT_LOG_INFO] = "info", [MT_LOG_DEBUG] = "debug"};
    const char *given = getenv("MOTLEY_LOG");
    if (!given || !*given) return;
    struct mt_nearest near = mt_nearest_to(given);
    int level = mt_nearest_find(&near, levels, sizeof levels / sizeof *levels);
    if (level >= 0)
        mt_log_level((enum mt_log_level)level);
    else
        mt_log(MT_LOG_WARN, "MOTLEY_LOG is \"%.40s\", but must be warn, info or debug", given);
}

bool mt_command_run(const char *name, int argc, char **argv, int *code, struct mt_err *err) {
    struct mt_nearest near = mt_nearest_to(name);
    for (int c = 0; c < NCOMMANDS; c++) {
        if (!strcmp(name, commands[c].name)) {
            *code = commands[c].run(argc, argv);
            return true;
        }
        mt_nearest_add(&near, commands[c].name);
    }
    mt_fail(err, MT_EINPUT, "\"%.60s\" is no command", name);
    mt_nearest_hint(&near, err, "`motley help` lists them");
    return false;
}

static int answer_flag(const char *flag) {
    static const char *const flags[] = {"--help", "-h", "-?", "--version", "-V"};
    enum { FIRST_OF_VERSION = 3, NFLAGS = 5 };
    struct mt_nearest near = mt_nearest_to(flag);
    struct mt_err err = MT_ERR_INIT;
    int which = mt_nearest_find(&near, flags, NFLAGS);
    if (which < 0) {
        mt_fail(&err, MT_EINPUT, "%.60s: a command must come first, as `motley plan --help`", flag);
        mt_nearest_hint(&near, &err, "`motley help` lists the commands");
        return mt_command_fail(&err);
    }
    if (which < FIRST_OF_VERSION)
        mt_commands_print(stdout);
    else
        puts("motley " MOTLEY_VERSION);
    return check_output();
}

int mt_command_main(int argc, char **argv) {
    fill_standard_streams();
    keep_freed_memory();
    if (argc < 2) {
        mt_commands_print(stderr);
        return MT_EXIT_INPUT;
    }
    char *name = argv[1];
    if (name[0] == '-') return answer_flag(name);
    read_log_level();
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_err err = MT_ERR_INIT;
    int code = 0;
    argv[1] = mt_arena_printf(&arena, "motley %s", name);
    if (!mt_command_run(name, argc - 1, argv + 1, &code, &err)) code = mt_command_fail(&err);
    mt_arena_release(&arena);
    return code ? code : check_output();
}
