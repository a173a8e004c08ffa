/* The flags that name data, as a child of a command's argp.
 *
 *     struct mt_data_flags data;
 *     mt_data_flags_init(&data, err);
 *     struct argp_child children[] = {{mt_data_argp(), 0, "Data:", 1}, {0}};
 *     ... in ARGP_KEY_INIT: state->child_inputs[0] = &data; at last: mt_data_flags_release(&data) */
#ifndef MT_LAUNCHER_FLAGS_DATA_FLAGS_H
#define MT_LAUNCHER_FLAGS_DATA_FLAGS_H

#include <argp.h>
#include <stdbool.h>

#include "launcher/data/data.h"

struct mt_data_flags {
    struct mt_err *err; /* where a wrong value is reported */
    struct mt_arena arena;
    struct mt_data_files files;
    int data_capacity, val_capacity;
    double val_fraction;
    bool val_fraction_given, bad_lines_given;
};

void mt_data_flags_init(struct mt_data_flags *flags, struct mt_err *err);
void mt_data_flags_release(struct mt_data_flags *flags);

const struct argp *mt_data_argp(void);     /* --data, and how it is read */
const struct argp *mt_data_val_argp(void); /* and --val, --val-fraction */

/* The tokenizer, if it was not named: that of the first of these weights (a folder, or a file; null: none) beside which
 * one lies. --tokenizer none is none. */
void mt_data_flags_find_tokenizer(struct mt_data_flags *flags, const char *const *weights, int n);

/* Refuse flags that contradict each other, and those that say how data is read that is not there. */
enum mt_status mt_data_flags_check(const struct mt_data_flags *flags, struct mt_err *err);

/* All files that are read for the data. */
struct mt_files;
void mt_data_flags_files(const struct mt_data_files *data, struct mt_files *files);

#endif
