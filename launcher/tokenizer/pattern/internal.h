/* Shared by the parser, the compiler and the matcher of patterns. */
#ifndef MT_LAUNCHER_TOKENIZER_PATTERN_INTERNAL_H
#define MT_LAUNCHER_TOKENIZER_PATTERN_INTERNAL_H

#include <stdint.h>

#include "kernels/base/arena.h"
#include "launcher/tokenizer/pattern/pattern.h"
#include "launcher/tokenizer/unicode/unicode.h"

/* A set of code points: by category, by White_Space, ranges, and other sets; or all others. */
struct pattern_set {
    bool negated, spaces;
    uint32_t categories; /* bits */
    int nranges, capacity, nsets, sets_capacity;
    struct pattern_range {
        uint32_t first, last;
    } * ranges;
    const struct pattern_set **sets;
    bool ascii[128]; /* whether it holds each, once the set is complete */
};

static inline bool mt_pattern_set_holds(const struct pattern_set *set, const uint16_t *table, uint32_t code) {
    int properties = table[code];
    bool held =
        (set->categories >> (properties & MT_UNICODE_CATEGORY) & 1) || (set->spaces && properties & MT_UNICODE_SPACE);
    for (int i = 0; i < set->nranges && !held; i++) held = code >= set->ranges[i].first && code <= set->ranges[i].last;
    for (int i = 0; i < set->nsets && !held; i++) held = mt_pattern_set_holds(set->sets[i], table, code);
    return held != set->negated;
}

/* The expression as a tree. */
struct pattern_node {
    enum { PATTERN_SET, PATTERN_ALL, PATTERN_ANY, PATTERN_REPEAT, PATTERN_LOOK } kind; /* ALL: in a row; ANY: of */
    const struct pattern_set *set;
    struct pattern_node *first, *next; /* members; of a list */
    int least, most;                   /* of REPEAT; most -1: without end */
    enum { PATTERN_GREEDY, PATTERN_LAZY, PATTERN_POSSESSIVE } mode;
    bool negative; /* of LOOK */
};
enum mt_status mt_pattern_parse(const char *expression, struct mt_arena *arena, struct pattern_node **tree,
                                struct mt_err *err);

/* What the matcher runs. */
struct pattern_instruction {
    enum {
        PATTERN_ONE,    /* a character of the set */
        PATTERN_RUN,    /* least to most of them, as many as there are; lazy: as few */
        PATTERN_SPLIT,  /* go on at `to`, or else at `other` */
        PATTERN_JUMP,   /* go on at `to` */
        PATTERN_AHEAD,  /* the instructions up to END must match here (negative: must not); go on at `to` */
        PATTERN_ATOMIC, /* the instructions up to END match here, in the first way; go on at `to` */
        PATTERN_END,    /* a match */
    } op;
    bool negative, lazy;
    int least, most, to, other;
    const struct pattern_set *set;
    const bool *begins; /* of SPLIT: [256], the first bytes with which `to` may match; null: any, or none */
};
struct mt_pattern {
    struct mt_arena arena;
    int n, capacity;
    struct pattern_instruction *code;
    const bool *begins; /* as above, of the whole */
};

#endif
