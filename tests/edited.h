/* Documents with mistakes, for tests of their readers. */
#ifndef MT_TESTS_EDITED_H
#define MT_TESTS_EDITED_H

#include "tests/check.h"

/* One edit of the document's text; free it. */
static inline char *edited(const char *text, const char *from, const char *to) {
    const char *at = strstr(text, from);
    CHECK(at, "the document has no %s", from);
    char *copy = malloc(strlen(text) + strlen(to) + 1);
    sprintf(copy, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    return copy;
}

#endif
