/* Inside the checker of programs: what is known of each program value, and the parts of the proof.
 *
 * The idea of all of it: a rank's box of a value holds the sum of a *set of terms*. Every instruction determines which
 * terms each rank's new box holds: the ranges of the indices that an operator sums over, times the parts of its partial
 * inputs; or the old parts that a collective brings together. Then the declared layout must say the same: within each
 * declared cover, ranks of one part hold the same terms, other ranks hold disjoint ones, and every element that the
 * cover has has every term once. Elements are compared by regions (regions.h).
 *
 *   facts.c  facts about values, refusals, the ranks of covers
 *   memo.c   what is proven already: layers repeat
 *   op.c     operators
 *   repeats.c  whose results are bit-equal
 *   move.c   collectives and slices
 *   check.c  the walk over the program */
#ifndef MT_SYNTH_CHECK_INTERNAL_H
#define MT_SYNTH_CHECK_INTERNAL_H

#include <stdio.h>

#include "synth/check/regions.h"
#include "synth/program/program.h"

struct mt_fact {
    bool known;
    enum mt_block_kind block; /* where it was made */
    enum mt_covers covers;    /* the samples that a sum over samples covers */
    bool uniform;             /* replicas are equal to the last bit */
    enum { MT_NOT_ACCUMULATOR, MT_ACCUMULATOR_ZERO, MT_ACCUMULATOR_TAKEN, MT_ACCUMULATOR_FULL } accumulator;
};

/* Answers by what they depend on: vectors of integers, compared in full. */
struct mt_memo_entry {
    int *key, n, answer;
};
struct mt_memo {
    struct mt_arena arena;
    struct mt_memo_entry *slots; /* open addressing; key null: free */
    int nslots, count;
    const int **groups; /* distinct vectors of groups */
    int ngroups, groups_capacity;
};

struct mt_checker {
    struct mt_memo memo;
    const struct mt_program *program;
    const struct mt_graph *graph;
    struct mt_fact *facts; /* [program->nvalues] */
    bool has_body;
    enum mt_block_kind block; /* of the current instruction */
    const struct mt_instr *instr;
    FILE *proof;
    struct mt_err *err;
};

/* Refuse the current instruction; MT_EPROOF. */
enum mt_status mt_checker_refuse(struct mt_checker *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

const char *mt_checker_instr_name(const struct mt_checker *c);

/* Whether a graph value, or an operator, has the batch label. */
bool mt_checker_samples(const struct mt_checker *c, int gvalue);
bool mt_checker_sample_op(const struct mt_checker *c, const struct mt_op *op);

/* The ranks of each cover of a layout that hold something, by cover: those of cover k are
 * ranks[begin[k] .. begin[k + 1]). Vectors are in `arena`. */
struct mt_cover_ranks {
    int *ranks, *begin;
};
struct mt_cover_ranks mt_checker_covers(const struct mt_program *program, const struct mt_layout *layout,
                                        struct mt_arena *arena);

/* Whether two ranks of one part hold the same element; whether two covers do. */
bool mt_checker_replicated(struct mt_checker *c, int layout);
bool mt_checker_shared(struct mt_checker *c, int layout);

/* The place of an answer (0: not known yet) to the question `key`, which begins with its kind and has all that the
 * answer depends on but the program's ranks and layouts. Valid until the next call. */
enum mt_question {
    MT_ASK_REPLICATED,
    MT_ASK_SHARED,
    MT_ASK_DECLARED,
    MT_ASK_OPERATOR,
    MT_ASK_MOVE,
    MT_ASK_UNIFORM,
    MT_ASK_REPEATS
};
int *mt_checker_answer(struct mt_checker *c, const int *key, int n);
/* A number for the current instruction's vector of groups: equal vectors have equal numbers. -1: it has none. */
int mt_checker_group_id(struct mt_checker *c);
void mt_checker_forget(struct mt_checker *c);

/* Record a value that the current instruction makes. A value without replicas is uniform in any case. */
void mt_checker_learn(struct mt_checker *c, int value, enum mt_covers covers, bool uniform);

/* repeats.c: of the current instruction, an operator with bit-equal inputs that mt_op_repeats: whether replicas of an
 * output are bit-equal. */
bool mt_checker_repeats(struct mt_checker *c, int output);

/* op.c, move.c: check the current instruction, whose operands are known. */
enum mt_status mt_checker_op(struct mt_checker *c);
enum mt_status mt_checker_move(struct mt_checker *c);

#endif
