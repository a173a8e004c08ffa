/* What people see of tables. */
#ifndef MT_TESTS_LINES_H
#define MT_TESTS_LINES_H

#include "kernels/base/table/table.h"
#include "tests/check.h"

/* Takes the document: as text, with runs of spaces made one; free it. */
static inline char *squeezed(struct mt_tables *doc) {
    char *text;
    size_t length;
    FILE *file = open_memstream(&text, &length);
    mt_tables_write(doc, MT_TABLES_TEXT, file);
    mt_tables_release(doc);
    fclose(file);
    char *to = text;
    for (const char *at = text; *at; at++)
        if (*at != ' ' || (to > text && to[-1] != ' ')) *to++ = *at;
    *to = 0;
    return text;
}

/* Takes the document: it has these pieces of lines. */
static inline void check_lines(struct mt_tables *doc, const char *const *lines, size_t nlines) {
    char *text = squeezed(doc);
    for (size_t i = 0; i < nlines; i++) CHECK(strstr(text, lines[i]), "no \"%s\" in:\n%s", lines[i], text);
    free(text);
}

#endif
