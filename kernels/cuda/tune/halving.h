/* Which of several candidates is the fastest, by successive halving: all run a little, the better half goes on and runs
 * twice as much, until one is left (Karnin, Koren and Somekh, "Almost optimal exploration in multi-armed bandits",
 * 2013). About 2 n log2(n) rounds' worth of runs for n candidates, most of them of the good ones.
 *
 * Candidates run in turn, so that what drifts or disturbs for a while touches all of them; a candidate counts with the
 * median of its runs. The first is the default: in the end it and the winner run once more in turn, and it is
 * left only for what is clearly faster. */
#ifndef MT_KERNELS_CUDA_TUNE_HALVING_H
#define MT_KERNELS_CUDA_TUNE_HALVING_H

#include <stdbool.h>

struct halving {
    int count;
    int rounds;      /* runs of each in the first turn; at least 1 */
    double budget_s; /* no further turn begins when all runs have taken as long together */
    double margin;   /* that the winner must gain: 0.02 is two percent */
    /* One run of a candidate, or false where it does not run: it is out then. */
    bool (*run)(void *context, int which, double *time_s);
    void *context;
};

/* The winner, or -1 where none runs. times_s[count]: the medians; infinite for what does not run. */
int halve(const struct halving *halving, double *times_s);

#endif
