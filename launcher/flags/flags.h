/* Values of command-line flags, checked; messages name the flag, as "--batch: must be a whole number, not \"x\"". */
#ifndef MT_LAUNCHER_FLAGS_FLAGS_H
#define MT_LAUNCHER_FLAGS_FLAGS_H

#include <argp.h>
#include <stdint.h>

#include "kernels/base/arena.h"
#include "kernels/base/err.h"

/* Parse a command's flags. The parser, whose input is `input`, reports a wrong value by filling *err and returning
 * EINVAL. Unknown flags and --help are answered by argp, which ends the process (2, and 0). */
enum mt_status mt_flags_parse(const struct argp *argp, int argc, char **argv, void *input, struct mt_err *err);

enum mt_status mt_flag_int(const char *flag, const char *text, int64_t least, int64_t most, int64_t *value,
                           struct mt_err *err);
enum mt_status mt_flag_real(const char *flag, const char *text, double *value, struct mt_err *err); /* finite */
enum mt_status mt_flag_bytes(const char *flag, const char *text, int64_t *bytes, struct mt_err *err);
/* A file's or a folder's name: anything but nothing. */
enum mt_status mt_flag_path(const char *flag, const char *text, const char **path, struct mt_err *err);
/* More than 0. */
enum mt_status mt_flag_seconds(const char *flag, const char *text, double *value, struct mt_err *err);
/* --heartbeat, seconds: none, or long enough to hear of a rank several times. */
enum mt_status mt_flag_heartbeat(const char *text, double *heartbeat_s, struct mt_err *err);
/* One of names[count]: which. */
enum mt_status mt_flag_name(const char *flag, const char *text, const char *const *names, int count, int *which,
                            struct mt_err *err);
/* What --device says: "cpu" or "cuda". */
enum mt_status mt_flag_device(const char *text, const char **kind, struct mt_err *err);

/* Lists with commas; the vector is made in the arena. Words may not be empty. */
enum mt_status mt_flag_words(const char *flag, const char *text, struct mt_arena *arena, char ***words, int *count,
                             struct mt_err *err);
enum mt_status mt_flag_ints(const char *flag, const char *text, int64_t least, int64_t most, struct mt_arena *arena,
                            int64_t **values, int *count, struct mt_err *err);
enum mt_status mt_flag_reals(const char *flag, const char *text, struct mt_arena *arena, double **values, int *count,
                             struct mt_err *err);

#endif
