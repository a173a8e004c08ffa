/* A regular expression to a tree: recursive descent. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/text/utf8.h"
#include "launcher/tokenizer/pattern/internal.h"

enum { DEEPEST = 40, MOST_REPEATS = 1000 };

struct parser {
    const char *at, *begin;
    struct mt_arena *arena;
    bool any_case;
    int depth;
    struct mt_err *err;
};

static enum mt_status refuse(const struct parser *p, const char *what) {
    mt_fail(p->err, MT_EINPUT, "the regular expression \"%.300s\": %s, at character %zu, is not supported", p->begin,
            what, (size_t)(p->at - p->begin));
    return p->err->status;
}

static struct pattern_node *new_node(struct parser *p, int kind) {
    struct pattern_node *node = mt_new(p->arena, struct pattern_node, 1);
    node->kind = kind;
    return node;
}

static uint32_t take_code(struct parser *p) {
    int length;
    uint32_t code = mt_utf8_decode(p->at, &length);
    p->at += length;
    return code;
}

static bool take(struct parser *p, const char *text) {
    size_t n = strlen(text);
    if (strncmp(p->at, text, n) != 0) return false;
    p->at += n;
    return true;
}

/* ---- sets ---- */

static struct pattern_set *new_set(struct parser *p) {
    return mt_new(p->arena, struct pattern_set, 1);
}

static void add_range(struct parser *p, struct pattern_set *set, uint32_t first, uint32_t last) {
    mt_arena_grow(p->arena, &set->ranges, set->nranges, &set->capacity, sizeof *set->ranges);
    set->ranges[set->nranges++] = (struct pattern_range){first, last};
}

/* In (?i:...) also what differs in case only. */
static enum mt_status add_characters(struct parser *p, struct pattern_set *set, uint32_t first, uint32_t last) {
    add_range(p, set, first, last);
    if (!p->any_case) return MT_OK;
    if (last - first > 128) return refuse(p, "a long range without regard to case");
    for (uint32_t c = first; c <= last; c++) {
        uint32_t fold = mt_unicode_fold(c);
        size_t n;
        const struct mt_unicode_folded *folded = mt_unicode_folded_to(fold, &n);
        add_range(p, set, fold, fold);
        for (size_t i = 0; i < n; i++) add_range(p, set, folded[i].code, folded[i].code);
    }
    return MT_OK;
}

static void add_set(struct parser *p, struct pattern_set *set, const struct pattern_set *other) {
    mt_arena_grow(p->arena, &set->sets, set->nsets, &set->sets_capacity, sizeof *set->sets);
    set->sets[set->nsets++] = other;
}

static void complete(struct pattern_set *set) {
    const uint16_t *table = mt_unicode_table();
    for (uint32_t c = 0; c < 128; c++) set->ascii[c] = mt_pattern_set_holds(set, table, c);
}

/* {L}, {^Lu}, after \p or \P. */
static enum mt_status parse_property(struct parser *p, struct pattern_set *set, bool negated) {
    if (!take(p, "{")) return refuse(p, "\\p without braces");
    if (take(p, "^")) negated = !negated;
    size_t length = strcspn(p->at, "}");
    static const char groups[] = "LMNPSZC";
    if (!p->at[length]) return refuse(p, "\\p{ without its end");
    int category = mt_unicode_category_named(p->at, length);
    const char *group = length == 1 ? strchr(groups, *p->at) : NULL;
    static const uint32_t members[] = {0x1fu << MT_UNICODE_LU,
                                       7u << MT_UNICODE_MN,
                                       7u << MT_UNICODE_ND,
                                       0x7fu << MT_UNICODE_PC,
                                       0xfu << MT_UNICODE_SM,
                                       7u << MT_UNICODE_ZS,
                                       0xfu << MT_UNICODE_CC | 1u << MT_UNICODE_CN};
    if (category < 0 && !group) return refuse(p, "a property that is no general category, as L or Lu,");
    if (p->any_case) return refuse(p, "a property without regard to case");
    p->at += length + 1;
    set->categories = group ? members[group - groups] : 1u << category;
    set->negated = negated;
    return MT_OK;
}

static enum mt_status parse_hex(struct parser *p, uint32_t *code) {
    char digits[9] = "", *end;
    bool braces = p->at[-1] == 'x' && take(p, "{");
    size_t most = braces ? 8 : p->at[-1] == 'x' ? 2 : 4, n = strspn(p->at, "0123456789abcdefABCDEF");
    if (n > most && !braces) n = most;
    if (!n || n > most || (!braces && n < most)) return refuse(p, "a code point in such a form");
    memcpy(digits, p->at, n);
    p->at += n;
    *code = (uint32_t)strtoul(digits, &end, 16);
    if (braces && !take(p, "}")) return refuse(p, "\\x{ without its end");
    if (*code >= MT_UNICODE_CODES || (*code >= 0xd800 && *code < 0xe000) || (*code > 0x7f && most == 2))
        return refuse(p, "what is no code point");
    return MT_OK;
}

/* After a backslash: a set, in *set, or a character. */
static enum mt_status parse_escape(struct parser *p, struct pattern_set **set, uint32_t *code) {
    static const char letters[] = "nrtfvae", characters[] = "\n\r\t\f\v\a\033";
    *set = NULL;
    if (!*p->at) return refuse(p, "a backslash at the end");
    *code = take_code(p);
    const char *letter = *code < 0x80 ? strchr(letters, (int)*code) : NULL;
    bool word = (*code >= '0' && *code <= '9') || ((*code | 32) >= 'a' && (*code | 32) <= 'z');
    if (letter) {
        *code = (uint32_t)characters[letter - letters];
    } else if (*code == 'x' || *code == 'u') {
        return parse_hex(p, code);
    } else if (*code == 's' || *code == 'S' || *code == 'd' || *code == 'D') {
        *set = new_set(p);
        (*set)->negated = *code == 'S' || *code == 'D';
        if ((*code | 32) == 's')
            (*set)->spaces = true;
        else
            (*set)->categories = 1u << MT_UNICODE_ND;
    } else if (*code == 'p' || *code == 'P') {
        *set = new_set(p);
        return parse_property(p, *set, *code == 'P');
    } else if (word) {
        p->at -= 2;
        char what[32];
        snprintf(what, sizeof what, "\\%c", (char)*code);
        return refuse(p, what);
    }
    return MT_OK;
}

static enum mt_status parse_class(struct parser *p, struct pattern_set **out);

/* A member of a class: a set, or a character. */
static enum mt_status parse_member(struct parser *p, struct pattern_set **set, uint32_t *code) {
    *set = NULL;
    if (!*p->at) return refuse(p, "[ without its end");
    if (!strncmp(p->at, "[:", 2)) return refuse(p, "a POSIX class, as [:alpha:],");
    if (!strncmp(p->at, "&&", 2)) return refuse(p, "an intersection of classes, &&,");
    if (take(p, "[")) return parse_class(p, set);
    if (take(p, "\\")) return parse_escape(p, set, code);
    *code = take_code(p);
    return MT_OK;
}

/* After '['. */
static enum mt_status parse_class(struct parser *p, struct pattern_set **out) {
    struct pattern_set *set = *out = new_set(p), *inner;
    enum mt_status st;
    uint32_t first = 0, last = 0;
    if (++p->depth > DEEPEST) return refuse(p, "so deep a class");
    set->negated = take(p, "^");
    if (*p->at == ']') return refuse(p, "an empty class");
    while (!take(p, "]")) {
        if ((st = parse_member(p, &inner, &first))) return st;
        if (inner) {
            add_set(p, set, inner);
            continue;
        }
        last = first;
        if (p->at[0] == '-' && p->at[1] && p->at[1] != ']') {
            p->at++;
            if ((st = parse_member(p, &inner, &last))) return st;
            if (inner || last < first) return refuse(p, "a range that does not rise");
        }
        if ((st = add_characters(p, set, first, last))) return st;
    }
    p->depth--;
    return MT_OK;
}

/* ---- the tree ---- */

static enum mt_status parse_any(struct parser *p, struct pattern_node **node);

/* After '('. */
static enum mt_status parse_group(struct parser *p, struct pattern_node **node) {
    bool before = p->any_case, look = false, negative = false;
    if (take(p, "?:"))
        look = false;
    else if (take(p, "?i:"))
        p->any_case = true;
    else if (take(p, "?="))
        look = true;
    else if (take(p, "?!"))
        look = negative = true;
    else if (*p->at == '?')
        return refuse(p, "a group of this kind");
    struct pattern_node *inner;
    enum mt_status st = parse_any(p, &inner);
    if (st) return st;
    if (!take(p, ")")) return refuse(p, "( without its end");
    p->any_case = before;
    *node = inner;
    if (!look) return MT_OK;
    *node = new_node(p, PATTERN_LOOK);
    (*node)->first = inner, (*node)->negative = negative;
    return MT_OK;
}

/* After '$', which is (?![^\n]). */
static enum mt_status parse_line_end(struct parser *p, struct pattern_node **node) {
    struct pattern_set *set = new_set(p);
    add_range(p, set, '\n', '\n');
    set->negated = true;
    complete(set);
    *node = new_node(p, PATTERN_LOOK);
    (*node)->negative = true;
    (*node)->first = new_node(p, PATTERN_SET);
    (*node)->first->set = set;
    return MT_OK;
}

static enum mt_status parse_atom(struct parser *p, struct pattern_node **node) {
    static const char refused[] = "^*+?{}";
    struct pattern_set *set = NULL;
    uint32_t code = 0;
    enum mt_status st = MT_OK;
    if (take(p, "(")) return parse_group(p, node);
    if (take(p, "$")) return parse_line_end(p, node);
    if (*p->at == '}') {
        code = take_code(p);
    } else if (strchr(refused, *p->at)) {
        char what[32];
        snprintf(what, sizeof what, "%c in this place", *p->at);
        return refuse(p, what);
    } else if (take(p, "[")) {
        st = parse_class(p, &set);
    } else if (take(p, ".")) {
        set = new_set(p);
        add_range(p, set, '\n', '\n');
        set->negated = true;
    } else if (take(p, "\\")) {
        st = parse_escape(p, &set, &code);
    } else {
        code = take_code(p);
    }
    if (st) return st;
    if (!set) {
        set = new_set(p);
        if ((st = add_characters(p, set, code, code))) return st;
    }
    complete(set);
    *node = new_node(p, PATTERN_SET);
    (*node)->set = set;
    return MT_OK;
}

static bool parse_count(struct parser *p, int *count) {
    size_t n = strspn(p->at, "0123456789");
    if (!n || n > 4) return false;
    *count = (int)strtol(p->at, NULL, 10);
    p->at += n;
    return *count <= MOST_REPEATS;
}

/* {n}, {n,}, {,m} or {n,m}, after the brace. */
static enum mt_status parse_counts(struct parser *p, int *least, int *most) {
    *least = 0;
    if (*p->at != ',' && !parse_count(p, least)) return refuse(p, "a repetition in such a form");
    *most = *least;
    if (take(p, ",")) {
        *most = -1;
        if (*p->at != '}' && !parse_count(p, most)) return refuse(p, "a repetition in such a form");
    }
    if (!take(p, "}") || (*most >= 0 && *most < *least)) return refuse(p, "a repetition in such a form");
    return MT_OK;
}

static enum mt_status parse_repeated(struct parser *p, struct pattern_node **node) {
    enum mt_status st = parse_atom(p, node);
    while (!st && *p->at && strchr("?*+{", *p->at)) {
        char sign = *p->at++;
        int least = sign == '+', most = sign == '?' ? 1 : -1;
        if (sign == '{' && (st = parse_counts(p, &least, &most))) return st;
        if ((*node)->kind == PATTERN_LOOK) return refuse(p, "a repetition of what looks ahead");
        struct pattern_node *repeat = new_node(p, PATTERN_REPEAT);
        *repeat = (struct pattern_node){.kind = PATTERN_REPEAT, .first = *node, .least = least, .most = most};
        if (take(p, "?"))
            repeat->mode = PATTERN_LAZY;
        else if (sign != '{' && take(p, "+"))
            repeat->mode = PATTERN_POSSESSIVE;
        bool again = sign == '{' && *p->at == '+'; /* (x{1,3})+: to Oniguruma it is not possessive */
        if (*p->at && strchr("?*+{", *p->at) && !again) return refuse(p, "a repetition of a repetition");
        *node = repeat;
    }
    return st;
}

static enum mt_status parse_all(struct parser *p, struct pattern_node **node) {
    *node = new_node(p, PATTERN_ALL);
    struct pattern_node **end = &(*node)->first;
    while (*p->at && *p->at != '|' && *p->at != ')') {
        enum mt_status st = parse_repeated(p, end);
        if (st) return st;
        end = &(*end)->next;
    }
    return MT_OK;
}

static enum mt_status parse_any(struct parser *p, struct pattern_node **node) {
    if (++p->depth > DEEPEST) return refuse(p, "so deep a nesting");
    *node = new_node(p, PATTERN_ANY);
    struct pattern_node **end = &(*node)->first;
    do {
        enum mt_status st = parse_all(p, end);
        if (st) return st;
        end = &(*end)->next;
    } while (take(p, "|"));
    p->depth--;
    return MT_OK;
}

enum mt_status mt_pattern_parse(const char *expression, struct mt_arena *arena, struct pattern_node **tree,
                                struct mt_err *err) {
    struct parser p = {.at = expression, .begin = expression, .arena = arena, .err = err};
    if (expression[mt_utf8_valid(expression, strlen(expression))])
        return mt_fail(err, MT_EINPUT, "a regular expression that is not UTF-8");
    enum mt_status st = parse_any(&p, tree);
    return !st && *p.at ? refuse(&p, "a ) without its beginning") : st;
}
