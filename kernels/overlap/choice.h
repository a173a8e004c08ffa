/* How overlapped GEMMs of one shape run: what a problem leaves open, decided when a plan is made, and the same on all
 * ranks. A plan has a row for each shape; the rows travel in the program (synth/program/pair.h).
 *
 *     struct mt_overlap_choice row = mt_overlap_choice_of(&problem);
 *     mt_overlap_choose(&other, &row, 1);            // has other's shape been decided? then as it says */
#ifndef MT_KERNELS_OVERLAP_CHOICE_H
#define MT_KERNELS_OVERLAP_CHOICE_H

#include "kernels/overlap/overlap.h"

struct mt_overlap_choice {
    /* Of the whole GEMM, as in struct mt_overlap: which problems the row is for. */
    enum mt_overlap_form form;
    int64_t m, cols, k;
    enum mt_overlap_how how; /* MT_OVERLAP_APART: the GEMM and its collective stay two instructions, all else is 0 */
    int64_t tile[2], chunk;  /* chunk: of a gather, else 0 */
    const int64_t *groups;
    int ngroups, mix;
    int slabs; /* of a gather, from 2; else 0 */
    bool direct;
    bool engines; /* of a gather in one kernel */
    bool joint;   /* of a gather, without slabs, groups and engines */
};

/* Words of enum mt_overlap_form ("gather", "scatter", "reduce") and of enum mt_overlap_how ("any", "chunks", "fused",
 * "nccl", "apart"). */
extern const char *const mt_overlap_form_names[MT_OVERLAP_NFORMS], *const mt_overlap_how_names[MT_OVERLAP_NHOWS];

/* The row of a problem, whose groups it borrows. */
struct mt_overlap_choice mt_overlap_choice_of(const struct mt_overlap *problem);
/* Whether the row is for the problem. */
bool mt_overlap_choice_is_for(const struct mt_overlap_choice *row, const struct mt_overlap *problem);
/* Make of the problem what the first row for it says; false: no row is for it, and it stays as it is. Groups are
 * borrowed. */
bool mt_overlap_choose(struct mt_overlap *problem, const struct mt_overlap_choice *rows, int count);
/* MT_EINPUT, with a message that begins with a member's name ("tile: ..."): a row that no problem can have, or that
 * would make schedules too long. */
enum mt_status mt_overlap_choice_check(const struct mt_overlap_choice *row, struct mt_err *err);
/* Copies of rows, with their groups, in the arena. */
struct mt_overlap_choice *mt_overlap_choices_copy(const struct mt_overlap_choice *rows, int count,
                                                  struct mt_arena *arena);
/* What the row says, for people: "one kernel, tiles of 128 by 256, direct", "NCCL, groups of 1024 4096 3072 rows". In
 * the arena. */
const char *mt_overlap_choice_text(const struct mt_overlap_choice *row, struct mt_arena *arena);
bool mt_overlap_choice_equal(const struct mt_overlap_choice *a, const struct mt_overlap_choice *b);

#endif
