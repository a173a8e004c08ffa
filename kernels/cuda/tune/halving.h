/* The fastest of several candidates, by successive halving: all run a little, the faster half stays and runs twice as
 * often, until one is left (Karnin, Koren and Somekh, "Almost optimal exploration in multi-armed bandits",
 * 2013). About 2 n log2(n) rounds' worth of runs for n candidates, most of them of the good ones.
 *
 * Candidates run in turns, so that drift and disturbances affect all of them; the median of its runs counts. The first
 * is the default: in the end it and the winner run in turns again, and the default is kept unless the winner is clearly
 * faster. */
#ifndef MT_KERNELS_CUDA_TUNE_HALVING_H
#define MT_KERNELS_CUDA_TUNE_HALVING_H

#include <stdbool.h>

struct halving {
    int count;
    int rounds;      /* runs of each before the first halving; at least 1 */
    double budget_s; /* no further round begins once all runs together have taken this */
    double margin;   /* that the winner must gain: 0.02 is two percent */
    /* One run of a candidate; false if it cannot run: it is out then. */
    bool (*run)(void *context, int which, double *time_s);
    void *context;
};

/* The winner, or -1 where none runs. times_s[count]: the medians; infinite for what does not run. */
int halve(const struct halving *halving, double *times_s);

#endif
