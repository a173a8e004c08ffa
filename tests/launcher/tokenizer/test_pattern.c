/* Regular expressions: pieces by hand, and an independent matcher, the plain definition of backtracking over a grammar
 * of random expressions; and what is refused. */
#include "launcher/tokenizer/pattern/pattern.h"

#include <stdlib.h>

#include "kernels/base/number/rng.h"
#include "launcher/tokenizer/unicode/unicode.h"
#include "tests/check.h"

/* Matches of an expression in a text, with '|' between. */
static void expect(const char *expression, const char *text, const char *want) {
    struct mt_pattern *pattern;
    struct mt_search search = {0};
    struct mt_err err = MT_ERR_INIT;
    char got[400] = "";
    size_t from, to, length = strlen(text);
    CHECK_OK(mt_pattern_new(expression, &pattern, &err), err);
    for (size_t at = 0; mt_pattern_find(pattern, &search, text, length, at, &from, &to) == MT_FOUND; at = to)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%.*s", got[0] ? "|" : "", (int)(to - from),
                 text + from);
    CHECK(!strcmp(got, want), "%s on \"%s\": \"%s\", not \"%s\"", expression, text, got, want);
    mt_search_free(&search);
    mt_pattern_free(pattern);
}

static void test_examples(void) {
    expect("a|ab", "abab", "a|a"); /* the first, not the longest */
    expect("ab|a", "aba", "ab|a");
    expect("a+?b", "aaab", "aaab");
    expect("a{2,3}?", "aaaaa", "aa|aa");
    expect("a{2}", "aaaaa", "aa|aa");
    expect("a{,2}b", "aaab", "aab");
    expect("a++b", "aab", "aab");
    expect("a++ab", "aaab", "");
    expect("a*+[ab]", "aab", "aab");
    expect("(?:ab)*c", "ababc abc c", "ababc|abc|c");
    expect("(?:ab|a)(?:bc|c)", "abc", "abc");
    expect("(?:a|b){2,3}", "ababa", "aba|ba");
    expect("(?:a|b){2,3}?", "ababa", "ab|ab");
    expect("a(?=b)", "ab ac", "a");
    expect("a(?!b)", "ab ac", "a");
    expect("\\s+(?!\\S)|\\s+", "a   b  ", "  | |  ");
    expect("[ab]$", "ab\na\n\nb", "b|a|b"); /* of a line, as in Oniguruma */
    expect("\\s+$", "a  b \n  ", " \n  ");
    expect("a$b|a", "ab a", "a|a");
    expect("a{1,2}+b|a", "aaaab aa", "aaaab|a|a");
    expect("[^\\s\\p{L}]+", "ab1!c 2", "1!|2");
    expect("[a-c\\-x]+", "ab-xd", "ab-x");
}

static void test_unicode(void) {
    expect("\\p{Lu}\\p{Ll}+", "\xc3\x89t\xc3\xa9 Ab", "\xc3\x89t\xc3\xa9|Ab");
    expect("\\p{N}+", "1\xc2\xb2\xd9\xa3", "1\xc2\xb2\xd9\xa3");
    expect("[\xe4\xb8\x80-\xe9\xbe\xa5]+",
           "a\xe4\xb8\xad\xe6\x96\x87"
           "b",
           "\xe4\xb8\xad\xe6\x96\x87");
    expect("(?i:'s|K)", "'S '\xc5\xbf \xe2\x84\xaa k", "'S|'\xc5\xbf|\xe2\x84\xaa|k");
    expect("\\u4e2d|\\x{6587}|\\x61", "a\xe4\xb8\xad\xe6\x96\x87", "a|\xe4\xb8\xad|\xe6\x96\x87");
    expect("\\s",
           "a\xc2\x85"
           "b\xe3\x80\x80\xe2\x80\x8b",
           "\xc2\x85|\xe3\x80\x80");
    expect("\\p{L}", "\xf0\xae\xaf\xb0", "\xf0\xae\xaf\xb0"); /* U+2EBF0, assigned in Unicode 15.1 */
    CHECK_EQ(mt_unicode_table()[0x2ebf0] & MT_UNICODE_CATEGORY, MT_UNICODE_LO);
    CHECK_EQ(mt_unicode_category_named("Lu", 2), mt_unicode_table()['A'] & MT_UNICODE_CATEGORY);
}

/* ---- random expressions against the definition ---- */

/* A random expression over a, b, c as a tree, printed, and matched by trying everything in order: `then` says whether
 * the rest matches. */
struct tree {
    enum { LETTER, CLASS, ROW, EITHER, STAR, PLUS, OPTION, AHEAD } kind;
    char letter;
    struct tree *left, *right;
};

static struct tree *grow(uint64_t seed, uint64_t *draw, int depth) {
    struct tree *t = calloc(1, sizeof *t);
    uint32_t r = mt_random_u32(21, seed, (*draw)++);
    t->kind = depth ? (int)(r % 8) : (int)(r % 2);
    t->letter = "abc"[r / 8 % 3];
    if (t->kind >= ROW) t->left = grow(seed, draw, depth - 1);
    if (t->kind == ROW || t->kind == EITHER || t->kind == AHEAD) t->right = grow(seed, draw, depth - 1);
    return t;
}

static void cut(struct tree *t) {
    if (!t) return;
    cut(t->left);
    cut(t->right);
    free(t);
}

static void print(const struct tree *t, char *out) {
    char left[2000] = "", right[2000] = "";
    if (t->left) print(t->left, left);
    if (t->right) print(t->right, right);
    switch (t->kind) {
    case LETTER: sprintf(out, "%c", t->letter); break;
    case CLASS: sprintf(out, "[^%c]", t->letter); break;
    case ROW: sprintf(out, "%s%s", left, right); break;
    case EITHER: sprintf(out, "(?:%s|%s)", left, right); break;
    case STAR: sprintf(out, "(?:%s)*", left); break;
    case PLUS: sprintf(out, "(?:%s)+", left); break;
    case OPTION: sprintf(out, "(?:%s)?", left); break;
    case AHEAD: sprintf(out, "(?!%s)%s", left, right); break;
    }
}

struct rest {
    const struct tree *tree;
    const struct rest *then;
    const char *least; /* a repetition must have got beyond this */
};

/* The end of the first match of `t` and then `rest`; null: none. */
static const char *try(const struct tree *t, const char *at, const struct rest *rest);

static const char *go_on(const char *at, const struct rest *rest) {
    if (!rest) return at;
    if (rest->least && at <= rest->least) return NULL;
    return try(rest->tree, at, rest->then);
}

static const char *try(const struct tree *t, const char *at, const struct rest *rest) {
    static const struct tree nothing = {.kind = OPTION};
    const char *end = NULL;
    const struct tree star = {.kind = STAR, .left = t->left};
    const struct rest second = {t->right ? t->right : &nothing, rest, NULL}, again = {&star, rest, at};
    switch (t->kind) {
    case LETTER: return *at == t->letter ? go_on(at + 1, rest) : NULL;
    case CLASS: return *at && *at != t->letter ? go_on(at + 1, rest) : NULL;
    case ROW: return try(t->left, at, &second);
    case EITHER: return (end = try(t->left, at, rest)) ? end : try(t->right, at, rest);
    case STAR: return (end = try(t->left, at, &again)) ? end : go_on(at, rest);
    case PLUS: return try(t->left, at, &again);
    case OPTION: return t->left && (end = try(t->left, at, rest)) ? end : go_on(at, rest);
    case AHEAD: return try(t->left, at, NULL) ? NULL : try(t->right, at, rest);
    }
    return NULL;
}

static void test_random(void) {
    int compared = 0;
    for (uint64_t seed = 0; seed < 4000; seed++) {
        struct mt_pattern *pattern;
        struct mt_search search = {0};
        struct mt_err err = MT_ERR_INIT;
        uint64_t draw = 0;
        struct tree *tree = grow(seed, &draw, 1 + (int)(seed % 4));
        char expression[2000], text[13] = "";
        print(tree, expression);
        if (!mt_pattern_new(expression, &pattern, &err)) { /* those that may be empty are refused */
            for (uint64_t trial = 0; trial < 20; trial++) {
                size_t from, to;
                for (int i = 0; i < 12; i++) text[i] = "abc"[mt_random_u32(22, seed * 20 + trial, (uint64_t)i) % 3];
                const char *start = text, *end = NULL;
                while (*start && !(end = try(tree, start, NULL))) start++;
                enum mt_found found = mt_pattern_find(pattern, &search, text, 12, 0, &from, &to);
                CHECK(found == (end ? MT_FOUND : MT_FOUND_NONE) &&
                          (!end || (from == (size_t)(start - text) && to == (size_t)(end - text))),
                      "%s on %s: %d, %zu to %zu, not %td to %td", expression, text, found, from, to,
                      end ? start - text : -1, end ? end - text : -1);
                compared++;
            }
            mt_pattern_free(pattern);
        }
        mt_search_free(&search);
        cut(tree);
    }
    CHECK(compared > 20000, "%d comparisons", compared);
}

/* ---- refusals ---- */

static void test_refusals(void) {
    static const char *const refused[][2] = {{"a(?<=b)", "a group of this kind, at character 2"},
                                             {"(?i)a", "a group of this kind"},
                                             {"^a", "^ in this place"},
                                             {"\\ba", "\\b, at character 0"},
                                             {"\\w+", "\\w, at character 0"},
                                             {"(a)\\1", "\\1, at character 3"},
                                             {"\\h", "\\h, at character 0"},
                                             {"[[:alpha:]]", "a POSIX class"},
                                             {"[a&&b]", "an intersection"},
                                             {"\\p{Han}", "no general category"},
                                             {"(a", "( without its end"},
                                             {"a)", "a ) without its beginning"},
                                             {"[a", "[ without its end"},
                                             {"[b-a]", "a range that does not rise"},
                                             {"a{2", "a repetition in such a form"},
                                             {"a{3,2}", "a repetition in such a form"},
                                             {"a**", "a repetition of a repetition"},
                                             {"*a", "* in this place"},
                                             {"a\\", "a backslash at the end"},
                                             {"a?", "matches the empty text"},
                                             {"", "matches the empty text"},
                                             {"(?:a?)*b", "repeats what may be empty"},
                                             {"(?:(?:(?:a|bc){1000}){1000})", "is too long"},
                                             {"a{2,3}*", "a repetition of a repetition"},
                                             {"(?:a{0,3}+)b", "repeats what may be empty"},
                                             {"[]a]+", "an empty class"}};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct mt_pattern *pattern;
        struct mt_err err = MT_ERR_INIT;
        CHECK(mt_pattern_new(refused[i][0], &pattern, &err) == MT_EINPUT, "%s", refused[i][0]);
        CHECK(strstr(err.text, refused[i][1]), "\"%s\" does not say \"%s\"", err.text, refused[i][1]);
    }
    /* A search that would not end is given up. */
    struct mt_pattern *pattern;
    struct mt_search search = {0};
    struct mt_err err = MT_ERR_INIT;
    char text[60];
    size_t from, to;
    memset(text, 'a', sizeof text);
    CHECK_OK(mt_pattern_new("(?:a|aa|aaa)*b", &pattern, &err), err);
    CHECK_EQ(mt_pattern_find(pattern, &search, text, sizeof text, 0, &from, &to), MT_FOUND_TOO_LONG);
    mt_search_free(&search);
    mt_pattern_free(pattern);
}

int main(void) {
    test_examples();
    test_unicode();
    test_random();
    test_refusals();
    return 0;
}
