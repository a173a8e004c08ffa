/* Text that is printed into memory.
 *
 *     struct mt_printed printed;
 *     fprintf(mt_printed_begin(&printed), "%d", 7);
 *     char *text = mt_printed_end(&printed);         // printed.length bytes, and a 0; to be freed
 *
 * Where memory runs out, the process ends with a message, as with mt_malloc. */
#ifndef MT_KERNELS_BASE_TEXT_PRINTED_H
#define MT_KERNELS_BASE_TEXT_PRINTED_H

#include <stdio.h>

struct mt_printed {
    char *text;
    size_t length;
    FILE *file;
};

FILE *mt_printed_begin(struct mt_printed *printed);
char *mt_printed_end(struct mt_printed *printed);

#endif
