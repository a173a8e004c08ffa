/* Units of numbers, and how a number is printed for people: one prefix for all numbers of a column.
 *
 *     struct mt_prefix prefix = mt_unit_prefix(MT_UNIT_SECONDS, 0.0123, 1.5);   // ms: 12.3 ms and 1500 ms
 *     char text[MT_UNIT_TEXT_BYTES];
 *     puts(mt_unit_text(MT_UNIT_SECONDS, prefix, -1, 0.0123, text)); */
#ifndef MT_KERNELS_BASE_TABLE_UNIT_H
#define MT_KERNELS_BASE_TABLE_UNIT_H

#include <stdbool.h>

enum mt_unit {
#define MT_UNIT(id, name, suffix, scale) MT_UNIT_##id,
#include "kernels/base/table/units.def"
#undef MT_UNIT
    MT_NUNITS
};

#define MT_UNIT_TEXT_BYTES 48

/* What numbers are divided by, and what follows them: " ms", " GiB". For money, the decimals. */
struct mt_prefix {
    double factor;
    const char *name;
    int decimals;
};

const char *mt_unit_name(enum mt_unit unit); /* "flop/s" */
bool mt_unit_is_number(enum mt_unit unit);   /* neither text nor a list */

/* The prefix for numbers whose sizes without sign are from `least` (the smallest that is not 0) to `most`: the largest
 * number has at most three digits before the point; four, if the smallest would else begin with "0."; or more, if it
 * would be below a thousandth and they are within five orders of magnitude. Where they are not, the smallest are
 * printed as "<0.001 ms". */
struct mt_prefix mt_unit_prefix(enum mt_unit unit, double least, double most);

/* Three digits for scaled units; decimals >= 0: so many instead. Returns out. */
char *mt_unit_text(enum mt_unit unit, struct mt_prefix prefix, int decimals, double value,
                   char out[MT_UNIT_TEXT_BYTES]);

#endif
