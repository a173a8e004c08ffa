/* Parsing and checking command-line flags. Messages name the flag: "--batch: must be a whole number, not \"x\"".
 *
 * flags.h parses values and holds the options that several commands have; job_flags.h is the job's flags, plan_flags.h
 * those of `motley plan`. */
#ifndef MT_LAUNCHER_FLAGS_FLAGS_H
#define MT_LAUNCHER_FLAGS_FLAGS_H

#include <argp.h>
#include <stdint.h>

#include "kernels/base/arena.h"
#include "kernels/base/err.h"

/* Options that several commands have; `usual` is the default, as text. */
#define MT_OPTION_DEVICE(key, usual, group)                                                                            \
    { "device", key, "KIND", 0, "cpu; or cuda: one GPU per rank, in order on each host [" usual "]", group }
#define MT_OPTION_EMULATE(key, group)                                                                                  \
    {                                                                                                                  \
        "emulate", key, "SPEEDS", 0,                                                                                   \
            "make devices slower: speed=X,... of their own speed, or sm=N,... multiprocessors of a GPU that compute "  \
            "(communication may use all); one for each rank, or one for all",                                          \
            group                                                                                                      \
    }
#define MT_OPTION_DEADLINE(key, usual, group)                                                                          \
    { "deadline", key, "S", 0, "end the job after S seconds without progress [" usual "]", group }
#define MT_OPTION_HEARTBEAT(key, group)                                                                                \
    { "heartbeat", key, "S", 0, "end the job after S seconds of a rank's silence; 0: ranks are not watched [5]", group }
#define MT_OPTION_START_DEADLINE(key, group)                                                                           \
    { "start-deadline", key, "S", 0, "seconds until every rank must have started [6 + 0.1 * ranks]", group }

/* Parse a command's flags with its argp, whose parser gets `input`, and reports a wrong value by filling *err and
 * returning EINVAL. Flags that it does not have are refused here, with the nearest that it has. -h, --help and
 * --version are answered here, and end the process. */
enum mt_status mt_flags_parse(const struct argp *argp, int argc, char **argv, void *input, struct mt_err *err);

/* End the process after a flag that is answered by what was printed to standard output; a failed write is a failure. */
_Noreturn void mt_flags_answered(void);

/* For what prints the commands' flags (launcher/install/): if set, mt_flags_parse calls it with the argp of the
 * command, argv[0] of which is `command`, instead of parsing. It must not return. */
extern void (*mt_flags_visit)(const struct argp *argp, const char *command);

/* The only operand of a command, which is a `what` ("plan"): refused if there is one already, or if it is empty. */
enum mt_status mt_flag_operand(const char *what, const char *text, const char **operand, struct mt_err *err);
/* For a command without operands: refuse one. */
enum mt_status mt_flag_no_operand(const char *text, struct mt_err *err);

enum mt_status mt_flag_int(const char *flag, const char *text, int64_t least, int64_t most, int64_t *value,
                           struct mt_err *err);
enum mt_status mt_flag_real(const char *flag, const char *text, double *value, struct mt_err *err); /* finite */
enum mt_status mt_flag_bytes(const char *flag, const char *text, int64_t *bytes, struct mt_err *err);
enum mt_status mt_flag_path(const char *flag, const char *text, const char **path, struct mt_err *err); /* not empty */
enum mt_status mt_flag_seconds(const char *flag, const char *text, double *value, struct mt_err *err);  /* above 0 */
/* --heartbeat, in seconds: 0, or at least 2, which is several heartbeats. */
enum mt_status mt_flag_heartbeat(const char *text, double *heartbeat_s, struct mt_err *err);
/* *which: the index of `text` in names[count]. */
enum mt_status mt_flag_name(const char *flag, const char *text, const char *const *names, int count, int *which,
                            struct mt_err *err);
/* --device. */
enum { MT_NDEVICE_KINDS = 2 };
extern const char *const mt_device_kinds[MT_NDEVICE_KINDS];
enum mt_status mt_flag_device(const char *text, const char **kind, struct mt_err *err);

/* Lists separated by commas, allocated in the arena. Items may not be empty. */
enum mt_status mt_flag_words(const char *flag, const char *text, struct mt_arena *arena, char ***words, int *count,
                             struct mt_err *err);
enum mt_status mt_flag_ints(const char *flag, const char *text, int64_t least, int64_t most, struct mt_arena *arena,
                            int64_t **values, int *count, struct mt_err *err);
enum mt_status mt_flag_reals(const char *flag, const char *text, struct mt_arena *arena, double **values, int *count,
                             struct mt_err *err);

#endif
