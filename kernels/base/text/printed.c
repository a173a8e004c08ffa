/* Text that is printed into memory. */
#include "kernels/base/text/printed.h"

#include <stdlib.h>

static void out_of_memory(void) {
    fputs("motley: out of memory for printed text\n", stderr);
    exit(1);
}

FILE *mt_printed_begin(struct mt_printed *printed) {
    *printed = (struct mt_printed){.text = NULL};
    printed->file = open_memstream(&printed->text, &printed->length);
    if (!printed->file) out_of_memory();
    return printed->file;
}

char *mt_printed_end(struct mt_printed *printed) {
    if (fclose(printed->file)) out_of_memory();
    return printed->text;
}
