/* Finding the sub-command, and what all commands share. */
#include "launcher/commands/command.h"

#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/arena.h"
#include "kernels/base/log.h"

static const struct {
    const char *name, *help;
    int (*run)(int argc, char **argv);
} commands[] = {
#define MT_COMMAND(name, help) {#name, help, mt_command_##name},
#include "launcher/commands/commands.def"
#undef MT_COMMAND
};
enum { NCOMMANDS = sizeof commands / sizeof commands[0] };

static void print_help(FILE *file) {
    fprintf(file, "Usage: motley COMMAND [FLAG...]\n"
                  "Train one model on unequal devices, by a plan that people can review.\n\n");
    for (int c = 0; c < NCOMMANDS; c++) fprintf(file, "  %-10s %s\n", commands[c].name, commands[c].help);
    fprintf(file, "\n`motley COMMAND --help` lists a command's flags; `motley --version` prints the version.\n");
}

int mt_command_fail(const struct mt_err *err) {
    mt_err_print(err);
    return mt_exit_code(err->status);
}

/* A failed write to standard output is a failure of the command. */
static int check_output(void) {
    errno = 0;
    if (!fflush(stdout) && !ferror(stdout)) return 0;
    if (!errno) errno = EIO; /* an earlier write's errno is lost */
    struct mt_err err = MT_ERR_INIT;
    mt_fail_errno(&err, "standard output");
    return mt_command_fail(&err);
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
    for (int l = 0; l < (int)(sizeof levels / sizeof *levels); l++)
        if (!strcmp(given, levels[l])) {
            mt_log_level((enum mt_log_level)l);
            return;
        }
    mt_log(MT_LOG_WARN, "MOTLEY_LOG is \"%.40s\", but must be warn, info or debug", given);
}

int mt_command_main(int argc, char **argv) {
    fill_standard_streams();
    keep_freed_memory();
    argp_program_version = "motley " MOTLEY_VERSION;
    argp_err_exit_status = mt_exit_code(MT_EINPUT);
    const char *name = argc > 1 ? argv[1] : "";
    if (!strcmp(name, "--version") || !strcmp(name, "-V")) {
        printf("%s\n", argp_program_version);
        return check_output();
    }
    if (!strcmp(name, "--help") || !strcmp(name, "-?")) {
        print_help(stdout);
        return check_output();
    }
    read_log_level();
    struct mt_arena arena = MT_ARENA_INIT;
    for (int c = 0; c < NCOMMANDS; c++) {
        if (strcmp(name, commands[c].name)) continue;
        argv[1] = mt_arena_printf(&arena, "motley %s", name);
        int code = commands[c].run(argc - 1, argv + 1);
        mt_arena_release(&arena);
        return code ? code : check_output();
    }
    if (argc < 2) {
        print_help(stderr);
        return mt_exit_code(MT_EINPUT);
    }
    struct mt_err err = MT_ERR_INIT;
    mt_fail(&err, MT_EINPUT, "\"%.60s\" is no command", name);
    mt_err_hint(&err, "`motley --help` lists them");
    return mt_command_fail(&err);
}
