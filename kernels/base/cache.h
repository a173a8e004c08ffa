/* The folder for what is made once and kept: $MOTLEY_CACHE, else $XDG_CACHE_HOME/motley, else ~/.cache/motley. */
#ifndef MT_KERNELS_BASE_CACHE_H
#define MT_KERNELS_BASE_CACHE_H

#include <limits.h>
#include <stdbool.h>

/* Created if it is missing; false if there is none. */
bool mt_cache_folder(char path[PATH_MAX]);

#endif
