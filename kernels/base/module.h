/* Modules: shared objects, loaded when first needed, for libraries that not every host has (oneDNN, GLPK, CUDA).
 *
 *     static struct mt_module glpk = MT_MODULE("motley_glpk.so", "mt_lp_module", MT_LP_SHAPE, "install libglpk-dev");
 *     const struct mt_lp_module *module = mt_module_load(&glpk, err);
 *
 * A module exports one symbol, a table that begins with struct mt_module_head. It is used only if its version and its
 * shape are those of the program. The functions of the program that it calls must be linked into the program: the file
 * that loads a module refers to them in a table. */
#ifndef MT_KERNELS_BASE_MODULE_H
#define MT_KERNELS_BASE_MODULE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/base/err.h"

#define MT_MODULE_NSHAPE 6
struct mt_module_head {
    char motley[32];                 /* version of Motley it was built with */
    int64_t shape[MT_MODULE_NSHAPE]; /* sizes of the structs that both sides use */
};

struct mt_module {
    const char *file, *symbol;
    int64_t shape[MT_MODULE_NSHAPE];
    const char *hint; /* what to do when no folder has the file */
    /* The result of loading; a process tries once. */
    pthread_mutex_t lock;
    bool tried;
    const struct mt_module_head *head;
    struct mt_err err;
};
#define MT_MODULE(file, symbol, shape, hint)                                                                           \
    { file, symbol, shape, hint, PTHREAD_MUTEX_INITIALIZER, false, 0, MT_ERR_INIT }

/* The module's table. Folders searched: $MOTLEY_MODULES, the program's folder, ../lib/motley from there. Null and
 * MT_EMISSING, with those folders or the file that cannot be loaded, on failure. Any thread may call. */
const void *mt_module_load(struct mt_module *module, struct mt_err *err);

#endif
