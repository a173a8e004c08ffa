/* Figures that were measured while other processes used a fraction of the device's time (mt_load_report.stolen): what
 * they would be without is not known, so the figures stay, and their errors are wider. */
#ifndef MT_PROFILER_MEASURE_DISTURBED_H
#define MT_PROFILER_MEASURE_DISTURBED_H

#include <math.h>

/* The relative error of a figure with this error of its own: others may take nothing next time, or as much again. */
static inline double mt_disturbed_error(double error, double stolen) {
    return hypot(error, stolen);
}

/* The speed of an emulated device relative to one that is not (both of one class). An emulated device sleeps, and other
 * processes run in that time, while they stop the other device: relative to it, the emulated one seems too fast.
 *
 * ratio     as measured
 * emulated  the speed given to the emulated device over that of the other, at most 1
 * stolen    of the other device
 *
 * At most `emulated`; or what the ratio is if the other device did not lose that time, where that is more: it is slow
 * for another reason, as a quota. */
static inline double mt_disturbed_speed(double ratio, double emulated, double stolen) {
    return emulated < 1 && ratio > emulated ? fmax(emulated, ratio * (1 - stolen)) : ratio;
}

#endif
