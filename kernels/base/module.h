/* Modules: what not every host has (oneDNN, GLPK) is a shared object that is loaded when it is first needed.
 *
 *     static struct mt_module glpk = MT_MODULE("motley_glpk.so", "mt_lp_module", MT_LP_SHAPE, "install libglpk-dev");
 *     const struct mt_lp_module *module = mt_module_load(&glpk, err);
 *
 * A module exports one symbol, a table that begins with struct mt_module_head; it is used only if what it says of
 * itself is what the program says of itself. What it calls back must be in the program: whoever loads a module names
 * those functions in a table of its own. */
#ifndef MT_KERNELS_BASE_MODULE_H
#define MT_KERNELS_BASE_MODULE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/base/err.h"

#define MT_MODULE_NSHAPE 6
struct mt_module_head {
    char motley[32];                 /* the version that it was built with */
    int64_t shape[MT_MODULE_NSHAPE]; /* sizes of what both sides use */
};

struct mt_module {
    const char *file, *symbol;
    int64_t shape[MT_MODULE_NSHAPE];
    const char *hint; /* what to do when no folder has the file */
    /* What loading it has given; one attempt in the life of a process. */
    pthread_mutex_t lock;
    bool tried;
    const struct mt_module_head *head;
    struct mt_err err;
};
#define MT_MODULE(file, symbol, shape, hint)                                                                           \
    { file, symbol, shape, hint, PTHREAD_MUTEX_INITIALIZER, false, 0, MT_ERR_INIT }

/* The module's table, from $MOTLEY_MODULES, the program's folder or ../lib/motley beside it; null and MT_EMISSING
 * with the folders that were searched, or the file that is at fault. Any thread may call. */
const void *mt_module_load(struct mt_module *module, struct mt_err *err);

#endif
