/* A program, lowered for all ranks, of which mutants are made and judged: the checker may accept one only if it still
 * computes the same numbers, in fp64, whichever stream runs ahead. */
#ifndef MT_TESTS_SYNTH_CHECK_LOWERED_MUTANTS_H
#define MT_TESTS_SYNTH_CHECK_LOWERED_MUTANTS_H

#include "synth/check/check.h"
#include "tests/synth/check/changes.h"
#include "tests/synth/programs.h"
#include "tests/synth/replay.h"

static struct {
    const char *name;
    const struct mt_program *program;
    struct mt_interp *want;
    double loss;
    double **begin; /* [graph values]: states before the first step */
    struct mt_lowered *lowered[8];
    struct mt_lower_options options;
    int made, refused, right;
} truth;

static inline bool is_accepted(struct mt_err *err) {
    return !mt_check_lowered(truth.program, (const struct mt_lowered *const *)truth.lowered, &truth.options, NULL, err);
}

/* A mutant that the checker accepts must compute the truth, whatever the timing: it is tried with each stream ahead. */
static inline void expect_verdict(const char *what, int rank, int instr) {
    struct mt_err err = MT_ERR_INIT;
    if (!changed()) {
        take_back();
        return;
    }
    truth.made++;
    bool accepted = is_accepted(&err);
    if (!accepted) {
        CHECK_EQ(err.status, MT_EPROOF);
        truth.refused++;
    }
    for (int timing = COMPUTE_AHEAD; timing <= COMM_AHEAD && accepted; timing++) {
        double worst =
            replay_difference(truth.program, truth.lowered, (enum timing)timing, truth.want, truth.loss, truth.begin);
        if (worst <= 1e-9) continue;
        mt_lowered_print(truth.lowered[rank], stderr);
        fprintf(stderr, "%s: accepted though wrong: %s at rank %d's instruction %d, timing %d: %g\n", truth.name, what,
                rank, instr, timing, worst);
        abort();
    }
    truth.right += accepted;
    take_back();
}

static inline struct mt_linstr *linstr(int rank, int instr) {
    return &truth.lowered[rank]->instrs[instr];
}

static inline struct mt_lower_options lower_options(bool fuse, int copy_streams) {
    return (struct mt_lower_options){.fuse = fuse,
                                     .copy_streams = copy_streams,
                                     .latency_s = 1e-5,
                                     .bandwidth_Bps = 1e9,
                                     .scratch_bytes = replay_scratch_bytes};
}

/* For all ranks; free_all releases them. */
static inline void lower_all(const struct mt_program *p, struct mt_lower_options options) {
    struct mt_err err = MT_ERR_INIT;
    truth.options = options;
    for (int r = 0; r < p->nranks; r++) CHECK_OK(mt_lower(p, r, &truth.options, &truth.lowered[r], &err), err);
    truth.program = p;
}

static inline void free_all(void) {
    for (int r = 0; r < truth.program->nranks; r++) mt_lowered_free(truth.lowered[r]);
}

/* Changes instruction l, the instr-th of m, in one of several ways; or nothing, where there is nothing to change. */
typedef void mutation(struct mt_lowered *m, struct mt_linstr *l, int instr, int variant);
#define MUTATE(name) static inline void name(struct mt_lowered *m, struct mt_linstr *l, int instr, int variant)
#define UNUSED (void)m, (void)l, (void)instr, (void)variant

#endif
