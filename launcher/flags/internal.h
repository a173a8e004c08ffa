/* What flags.c and refuse.c share. */
#ifndef MT_LAUNCHER_FLAGS_INTERNAL_H
#define MT_LAUNCHER_FLAGS_INTERNAL_H

#include <argp.h>

#include "kernels/base/err.h"

enum { KEY_HELP = 'h', KEY_VERSION = 'V', KEY_COLOR = 0x7000 };

/* The flags that every command has. */
extern const struct argp_option mt_shared_options[];

/* Say what is wrong with the word of the command line at which argp has stopped: a flag that neither the command nor
 * mt_shared_options have, or that is one of several, lacks its value, or takes none. */
void mt_flags_refuse(const struct argp *argp, const struct argp_state *state, struct mt_err *err);

#endif
