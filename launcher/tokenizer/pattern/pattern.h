/* Regular expressions of tokenizers, as Oniguruma reads them, over UTF-8.
 *
 *     struct mt_pattern *pattern;
 *     if ((st = mt_pattern_new(" ?\\p{L}+|\\s+(?!\\S)|\\s+", &pattern, err))) return st;
 *     for (size_t at = 0; mt_pattern_find(pattern, &search, text, length, at, &from, &to) == MT_FOUND; at = to) ...
 *     mt_pattern_free(pattern);
 *
 * Of the syntax: alternatives, (...), (?:...), (?i:...), (?=...), (?!...), [...] with ranges and ^, . $ \s \S \d \D
 * \p{..} \P{..} of general categories, escapes of characters, ? * + {n} {n,} {,m} {n,m}, lazy and possessive. The rest
 * is refused by name, and so is a pattern that matches the empty text. Alternatives are tried in order and repetitions
 * back up, as in every backtracking matcher: the first match counts, not the longest. */
#ifndef MT_LAUNCHER_TOKENIZER_PATTERN_PATTERN_H
#define MT_LAUNCHER_TOKENIZER_PATTERN_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/base/err.h"

struct mt_pattern;

/* Where a search keeps what it may go back to; zeroed before the first, freed after the last. */
struct mt_search {
    struct mt_search_point *points;
    size_t capacity;
};
void mt_search_free(struct mt_search *search);

enum mt_found {
    MT_FOUND_NONE,
    MT_FOUND,
    MT_FOUND_TOO_LONG, /* the search went back too often: it would not end */
};

enum mt_status mt_pattern_new(const char *expression, struct mt_pattern **pattern, struct mt_err *err);
void mt_pattern_free(struct mt_pattern *pattern);

/* The first match in text[length] from `at` on: [*from, *to). The text is valid UTF-8. */
enum mt_found mt_pattern_find(const struct mt_pattern *pattern, struct mt_search *search, const char *text,
                              size_t length, size_t at, size_t *from, size_t *to);

#endif
