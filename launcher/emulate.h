/* --emulate: devices that compute as slower ones do, for trying uneven plans on even hardware.
 *
 *     "speed=1,0.5"    one for each rank, or one for all; above 0.01, at most 1
 *
 *     mt_emulation_parse(text, &arena, &emulation, err);
 *     mt_emulation_check(&emulation, nranks, err);                           // when their number is known
 *     mt_device_emulate(device, mt_emulation_speed(&emulation, rank)); */
#ifndef MT_LAUNCHER_EMULATE_H
#define MT_LAUNCHER_EMULATE_H

#include <stdbool.h>

#include "kernels/base/arena.h"
#include "kernels/base/err.h"

struct mt_emulation {
    int nspeeds; /* 0: nothing is emulated */
    double *speeds;
};

enum mt_status mt_emulation_parse(const char *text, struct mt_arena *arena, struct mt_emulation *emulation,
                                  struct mt_err *err);
/* Whether there is a speed for each of so many ranks. */
enum mt_status mt_emulation_check(const struct mt_emulation *emulation, int nranks, struct mt_err *err);

double mt_emulation_speed(const struct mt_emulation *emulation, int rank); /* 1: its own */
bool mt_emulation_any(const struct mt_emulation *emulation);               /* some speed is not 1 */

/* "emulated speed 0.5" or "emulated speeds 1, 0.5, ..." in the arena; "" where nothing is emulated. */
const char *mt_emulation_text(const struct mt_emulation *emulation, struct mt_arena *arena);

#endif
