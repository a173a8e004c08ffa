/* Where a command's tables go: as text to standard output; with --json as JSON instead; with --json=FILE as text, and
 * as JSON to the file.
 *
 *     MT_OPTION_JSON(KEY_JSON, 1), ...
 *     case KEY_JSON: st = mt_output_flag(text, state, NULL, &f->output, f->err);
 *     ...
 *     mt_tables_say(&doc, ...); mt_output_tell(&f.output, &doc);     // as it goes
 *     st = mt_output_end(&f.output, &doc, &err);                     // the rest, or the JSON */
#ifndef MT_LAUNCHER_FLAGS_OUTPUT_H
#define MT_LAUNCHER_FLAGS_OUTPUT_H

#include <argp.h>
#include <stdbool.h>

#include "kernels/base/err.h"
#include "kernels/base/table/table.h"

struct mt_output {
    bool json;        /* to standard output, in place of the text */
    const char *path; /* a file for JSON, or null */
};

#define MT_OPTION_JSON(key, group)                                                                                     \
    {                                                                                                                  \
        "json", key, "FILE", OPTION_ARG_OPTIONAL,                                                                      \
            "print the tables as JSON instead of text; =FILE: write JSON there, and print the text", group             \
    }

/* --json and --json=FILE. `is_operand` (or null: every word is): whether the next word on the command line, which is no
 * flag, can be an operand of the command. If not, `--json FILE` is meant, and refused: were it taken, a mistyped
 * operand would be written to. */
enum mt_status mt_output_flag(const char *text, struct argp_state *state, bool (*is_operand)(const char *word),
                              struct mt_output *output, struct mt_err *err);

/* For a command that writes no other file: refuse a --json=FILE that would destroy a document (files.h), or what the
 * command reads. paths[n]: null is none. */
enum mt_status mt_output_check(const struct mt_output *output, const char *const *paths, int n, struct mt_err *err);

/* Print what was added to the document since the last time, if it is to be text. */
void mt_output_tell(const struct mt_output *output, struct mt_tables *doc);

/* The rest of the text, or the JSON; and the file. */
enum mt_status mt_output_end(const struct mt_output *output, struct mt_tables *doc, struct mt_err *err);

/* Flush standard output at the command's end: MT_ESYSTEM where that fails, or an earlier write has failed. */
enum mt_status mt_output_flush(struct mt_err *err);

#endif
