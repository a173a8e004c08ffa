/* Pairs: a GEMM and a collective of a program that one overlapped instruction runs (kernels/overlap/overlap.h).
 *
 *   form     the program has                                                         of a group
 *   scatter  a matmul, and a ReduceScatter of its result, which nothing else reads    partial sums over k
 *   reduce   a matmul, and an AllReduce of its result, which nothing else reads       partial sums over k
 *   gather   an AllGather, and a matmul that is the first to read its result; kept    rows of A
 *            if others read it as well
 *
 *   transposed  the problem is that of the transposed GEMM, (A B)' = B' A': the columns of the result are scattered, or
 *               B is gathered
 *   region      memory in the window (kernels/window/window.h) for the flags and the staging of one problem. Pairs
 *               with the same problems, in all groups, and operands that lie alike share one: each run is the region's
 *               next epoch
 *
 *     struct mt_pairs pairs;
 *     mt_pairs_find(&program, &arena, &pairs);
 *     mt_pair_problem(&program, &pairs.items[i], rank, &arena, &problem, &group);
 *
 * program->overlap says which forms are wanted, and program->overlaps how GEMMs of some shapes run, or that they stay
 * apart. All ranks find the same pairs: what is asked is the program alone. */
#ifndef MT_SYNTH_PROGRAM_PAIR_H
#define MT_SYNTH_PROGRAM_PAIR_H

#include "kernels/overlap/overlap.h"
#include "synth/program/program.h"

struct mt_pair {
    enum mt_block_kind block;
    int product, collective; /* instructions of the block; the pair runs in the place of the product */
    enum mt_overlap_form form;
    bool transposed, keep;
    int region;
    int64_t window_at; /* where the region begins, on all ranks */
};
struct mt_pairs {
    struct mt_pair *items; /* in the order in which they run */
    int count, nregions;
    int64_t window_bytes;
};

void mt_pairs_find(const struct mt_program *program, struct mt_arena *arena, struct mt_pairs *pairs);
/* Whether some pair would be found for a form. */
bool mt_pairs_any(const struct mt_program *program, enum mt_overlap_form form);

/* The problem of the pair in the rank's group: *group, the rank of each place. Its vectors, and the group, are in the
 * arena. */
void mt_pair_problem(const struct mt_program *program, const struct mt_pair *pair, int rank, struct mt_arena *arena,
                     struct mt_overlap *problem, int **group);
/* Whether the problem's A, B and result lie transposed (struct mt_overlap_operands). */
void mt_pair_transposes(const struct mt_program *program, const struct mt_pair *pair, bool transposed[3]);

#endif
