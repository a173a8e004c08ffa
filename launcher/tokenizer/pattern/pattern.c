/* Compiling a tree to instructions, and running them: a backtracking matcher with a stack of its own. A run of one set,
 * which is most of what tokenizers' expressions are, is one instruction and one point to go back to. */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/text/utf8.h"
#include "launcher/tokenizer/pattern/internal.h"

enum { MOST_INSTRUCTIONS = 20000 };

/* Of one search. Those of real expressions take a few turns a character. */
static size_t most_turns(size_t length) {
    return 100000 + 64 * length;
}

/* ---- compiling ---- */

static bool may_be_empty(const struct pattern_node *node) {
    bool empty = false;
    switch (node->kind) {
    case PATTERN_SET: return false;
    case PATTERN_LOOK: return true;
    case PATTERN_REPEAT: return !node->least || may_be_empty(node->first);
    case PATTERN_ALL:
        for (const struct pattern_node *n = node->first; n; n = n->next)
            if (!may_be_empty(n)) return false;
        return true;
    case PATTERN_ANY:
        for (const struct pattern_node *n = node->first; n && !empty; n = n->next) empty = may_be_empty(n);
        return empty;
    }
    return empty;
}

/* Add the bytes with which a match of `node`, which may not be empty, can begin. */
static void add_begins(const struct pattern_node *node, bool *begins) {
    switch (node->kind) {
    case PATTERN_SET:
        for (int c = 0; c < 256; c++) begins[c] |= c >= 128 || node->set->ascii[c];
        break;
    case PATTERN_LOOK: break;
    case PATTERN_REPEAT: add_begins(node->first, begins); break;
    case PATTERN_ALL:
        for (const struct pattern_node *n = node->first; n; n = n->next) {
            add_begins(n, begins);
            if (!may_be_empty(n)) break;
        }
        break;
    case PATTERN_ANY:
        for (const struct pattern_node *n = node->first; n; n = n->next) add_begins(n, begins);
        break;
    }
}

static const bool *begins_of(struct mt_pattern *p, const struct pattern_node *node) {
    if (may_be_empty(node)) return NULL;
    bool *begins = mt_new(&p->arena, bool, 256);
    add_begins(node, begins);
    return begins;
}

static int emit(struct mt_pattern *p, struct pattern_instruction instruction) {
    mt_arena_grow(&p->arena, &p->code, p->n, &p->capacity, sizeof *p->code);
    p->code[p->n] = instruction;
    return p->n++;
}

static bool compile(struct mt_pattern *p, const struct pattern_node *node);

static bool compile_any(struct mt_pattern *p, const struct pattern_node *node) {
    int last_jump = -1; /* jumps to the end are a list, by `other`, until the end is known */
    for (const struct pattern_node *n = node->first; n; n = n->next) {
        int split = -1;
        if (n->next) {
            split = emit(p, (struct pattern_instruction){.op = PATTERN_SPLIT, .begins = begins_of(p, n)});
            p->code[split].to = split + 1;
        }
        if (!compile(p, n)) return false;
        if (!n->next) break;
        last_jump = emit(p, (struct pattern_instruction){.op = PATTERN_JUMP, .other = last_jump});
        p->code[split].other = p->n;
    }
    for (int jump = last_jump; jump >= 0; jump = p->code[jump].other) p->code[jump].to = p->n;
    return true;
}

/* A choice between what follows, and what is at `out` once that is known. */
static int emit_optional(struct mt_pattern *p, const struct pattern_node *node, bool lazy) {
    int split = emit(p, (struct pattern_instruction){.op = PATTERN_SPLIT, .lazy = lazy});
    p->code[split].to = split + 1;
    if (!lazy) p->code[split].begins = begins_of(p, node);
    return split;
}

static void set_out(struct mt_pattern *p, int split) {
    p->code[split].other = p->n;
    if (!p->code[split].lazy) return;
    p->code[split].other = p->code[split].to;
    p->code[split].to = p->n;
}

static bool compile_loop(struct mt_pattern *p, const struct pattern_node *node) {
    const struct pattern_node *body = node->first;
    bool lazy = node->mode == PATTERN_LAZY;
    for (int i = 0; i < node->least; i++)
        if (!compile(p, body)) return false;
    if (node->most < 0) {
        int split = emit_optional(p, body, lazy);
        if (!compile(p, body)) return false;
        emit(p, (struct pattern_instruction){.op = PATTERN_JUMP, .to = split});
        set_out(p, split);
        return true;
    }
    int n = node->most - node->least, *splits = mt_new(&p->arena, int, n + 1);
    for (int i = 0; i < n; i++) {
        splits[i] = emit_optional(p, body, lazy);
        if (!compile(p, body)) return false;
    }
    for (int i = 0; i < n; i++) set_out(p, splits[i]);
    return true;
}

static const struct pattern_set *only_set(const struct pattern_node *node) {
    while ((node->kind == PATTERN_ALL || node->kind == PATTERN_ANY) && node->first && !node->first->next)
        node = node->first;
    return node->kind == PATTERN_SET ? node->set : NULL;
}

static bool compile_repeat(struct mt_pattern *p, const struct pattern_node *node) {
    const struct pattern_set *set = only_set(node->first);
    int atomic = -1;
    if (node->mode == PATTERN_POSSESSIVE) atomic = emit(p, (struct pattern_instruction){.op = PATTERN_ATOMIC});
    if (set)
        emit(p, (struct pattern_instruction){.op = PATTERN_RUN,
                                             .set = set,
                                             .least = node->least,
                                             .most = node->most,
                                             .lazy = node->mode == PATTERN_LAZY});
    else if (may_be_empty(node->first) || !compile_loop(p, node))
        return false;
    if (atomic < 0) return true;
    emit(p, (struct pattern_instruction){.op = PATTERN_END});
    p->code[atomic].to = p->n;
    return true;
}

static bool compile(struct mt_pattern *p, const struct pattern_node *node) {
    int ahead;
    if (p->n > MOST_INSTRUCTIONS) return false;
    switch (node->kind) {
    case PATTERN_SET: emit(p, (struct pattern_instruction){.op = PATTERN_ONE, .set = node->set}); return true;
    case PATTERN_ALL:
        for (const struct pattern_node *n = node->first; n; n = n->next)
            if (!compile(p, n)) return false;
        return true;
    case PATTERN_ANY: return compile_any(p, node);
    case PATTERN_REPEAT: return compile_repeat(p, node);
    case PATTERN_LOOK:
        ahead = emit(p, (struct pattern_instruction){.op = PATTERN_AHEAD, .negative = node->negative});
        if (!compile(p, node->first)) return false;
        emit(p, (struct pattern_instruction){.op = PATTERN_END});
        p->code[ahead].to = p->n;
        return true;
    }
    return false;
}

enum mt_status mt_pattern_new(const char *expression, struct mt_pattern **pattern, struct mt_err *err) {
    struct mt_pattern *p = mt_calloc(1, sizeof *p);
    struct pattern_node *tree;
    enum mt_status st = mt_pattern_parse(expression, &p->arena, &tree, err);
    if (!st && may_be_empty(tree))
        st = mt_fail(err, MT_EINPUT,
                     "the regular expression \"%.300s\": matches the empty text, which is not supported", expression);
    if (!st && !compile(p, tree))
        st = mt_fail(err, MT_EINPUT, "the regular expression \"%.300s\": is too long, or repeats what may be empty",
                     expression);
    if (st) {
        mt_pattern_free(p);
        return st;
    }
    emit(p, (struct pattern_instruction){.op = PATTERN_END});
    p->begins = begins_of(p, tree);
    *pattern = p;
    return MT_OK;
}

void mt_pattern_free(struct mt_pattern *p) {
    if (!p) return;
    mt_arena_release(&p->arena);
    free(p);
}

/* ---- matching ---- */

/* Where to go on if what follows does not match: at `code`, with the text at `at`; of a run, after giving back a
 * character, as long as `at` is beyond `least`, or, of a lazy one, after taking another. */
struct mt_search_point {
    int code;
    bool run;
    size_t at, least;
};

struct matcher {
    const struct mt_pattern *pattern;
    struct mt_search *search;
    const char *text;
    size_t length, points, turns, most_turns;
    const uint16_t *table;
    bool too_long;
};

void mt_search_free(struct mt_search *search) {
    free(search->points);
    *search = (struct mt_search){0};
}

static void push(struct matcher *m, struct mt_search_point point) {
    struct mt_search *s = m->search;
    if (m->points == s->capacity) {
        s->capacity = 2 * s->capacity + 64;
        s->points = mt_realloc(s->points, s->capacity * sizeof *s->points);
    }
    s->points[m->points++] = point;
}

/* The length of the character at `at` if the set holds it, else 0. */
static inline int take_one(const struct matcher *m, const struct pattern_set *set, size_t at) {
    if (at >= m->length) return 0;
    unsigned char lead = (unsigned char)m->text[at];
    if (lead < 0x80) return set->ascii[lead];
    int n;
    uint32_t code = mt_utf8_decode(m->text + at, &n);
    return mt_pattern_set_holds(set, m->table, code) ? n : 0;
}

static bool run_set(struct matcher *m, const struct pattern_instruction *in, int next, size_t *at) {
    size_t here = *at, least = *at;
    int most = in->lazy ? in->least : in->most, n;
    for (int count = 0; most < 0 || count < most; count++) {
        if (!(n = take_one(m, in->set, here))) {
            if (count < in->least) return false;
            break;
        }
        here += (size_t)n;
        if (count + 1 == in->least) least = here;
    }
    m->turns += (here - *at) / 16;
    /* What a lazy run may still take is counted from its beginning, when it goes on. */
    if (in->lazy || here > least) push(m, (struct mt_search_point){next - 1, true, here, in->lazy ? *at : least});
    *at = here;
    return true;
}

static bool go_on_lazily(struct matcher *m, const struct pattern_instruction *in, struct mt_search_point point,
                         size_t *at) {
    int taken = 0, n;
    for (size_t c = point.least; c < point.at; c++) taken += ((unsigned char)m->text[c] & 0xc0) != 0x80;
    if ((in->most >= 0 && taken >= in->most) || !(n = take_one(m, in->set, point.at))) return false;
    point.at += (size_t)n;
    push(m, point);
    *at = point.at;
    return true;
}

/* Take the last point to go back to, if there is one above `floor`. */
static bool back_up(struct matcher *m, size_t floor, int *code, size_t *at) {
    while (m->points > floor) {
        struct mt_search_point point = m->search->points[--m->points];
        *code = point.code, *at = point.at;
        if (!point.run) return true;
        const struct pattern_instruction *in = &m->pattern->code[point.code];
        *code = point.code + 1;
        if (in->lazy) {
            if (go_on_lazily(m, in, point, at)) return true;
            continue;
        }
        do point.at--;
        while (((unsigned char)m->text[point.at] & 0xc0) == 0x80);
        *at = point.at;
        if (point.at > point.least) m->search->points[m->points++] = point;
        return true;
    }
    return false;
}

static inline bool can_begin(const struct matcher *m, const bool *begins, size_t at) {
    return !begins || (at < m->length && begins[(unsigned char)m->text[at]]);
}

/* Run from `code` to an END; *at: where the match ends. Nests as deep as look-aheads do in the expression. */
static bool match(struct matcher *m, int code, size_t *end) {
    size_t at = *end, floor = m->points, inner;
    for (;;) {
        const struct pattern_instruction *in = &m->pattern->code[code];
        bool going = true;
        int n;
        if (++m->turns > m->most_turns) {
            m->too_long = true;
            return false;
        }
        switch (in->op) {
        case PATTERN_ONE:
            n = take_one(m, in->set, at);
            going = n > 0, at += (size_t)n, code++;
            break;
        case PATTERN_RUN: going = run_set(m, in, ++code, &at); break;
        case PATTERN_SPLIT:
            if (can_begin(m, in->begins, at)) {
                push(m, (struct mt_search_point){in->other, false, at, 0});
                code = in->to;
            } else {
                code = in->other;
            }
            break;
        case PATTERN_JUMP: code = in->to; break;
        case PATTERN_AHEAD:
            inner = at;
            going = match(m, code + 1, &inner) != in->negative;
            code = in->to;
            break;
        case PATTERN_ATOMIC:
            going = match(m, code + 1, &at);
            code = in->to;
            break;
        case PATTERN_END:
            m->points = floor;
            *end = at;
            return true;
        }
        if (m->too_long || (!going && !back_up(m, floor, &code, &at))) {
            m->points = floor;
            return false;
        }
    }
}

enum mt_found mt_pattern_find(const struct mt_pattern *p, struct mt_search *search, const char *text, size_t length,
                              size_t at, size_t *from, size_t *to) {
    struct matcher m = {.pattern = p,
                        .search = search,
                        .text = text,
                        .length = length,
                        .most_turns = most_turns(length - at),
                        .table = mt_unicode_table()};
    while (at < length) {
        *from = *to = at;
        if (can_begin(&m, p->begins, at) && match(&m, 0, to)) return MT_FOUND;
        if (m.too_long) return MT_FOUND_TOO_LONG;
        do at++;
        while (at < length && ((unsigned char)text[at] & 0xc0) == 0x80);
    }
    return MT_FOUND_NONE;
}
