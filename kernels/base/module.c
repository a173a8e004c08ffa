/* Find and load modules. */
#include "kernels/base/module.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/arena.h"

/* The folders to search, in order. Returns how many there are. */
static int folders(struct mt_arena *arena, const char *out[3]) {
    int n = 0;
    const char *given = getenv("MOTLEY_MODULES");
    if (given && *given) out[n++] = given;
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length <= 0) return n;
    self[length] = 0;
    char *slash = strrchr(self, '/');
    if (!slash) return n;
    *slash = 0;
    out[n++] = mt_arena_strdup(arena, self);
    out[n++] = mt_arena_printf(arena, "%s/../lib/motley", self);
    return n;
}

static void load_from(struct mt_module *module, const char *path) {
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        mt_fail(&module->err, MT_EMISSING, "%s", dlerror()); /* names the file, or the library that it lacks */
        return;
    }
    const struct mt_module_head *found = dlsym(handle, module->symbol);
    if (!found) {
        mt_fail(&module->err, MT_EMISSING, "%s: does not export %s", path, module->symbol);
    } else if (strncmp(found->motley, MOTLEY_VERSION, sizeof found->motley) ||
               memcmp(found->shape, module->shape, sizeof module->shape)) {
        mt_fail(&module->err, MT_EMISSING, "%s: was built with another Motley (%.32s; this is %s)", path, found->motley,
                MOTLEY_VERSION);
        mt_err_hint(&module->err, "build and install both together, or unset MOTLEY_MODULES");
    } else {
        module->head = found;
        return;
    }
    dlclose(handle);
}

static void load(struct mt_module *module) {
    struct mt_arena arena = MT_ARENA_INIT;
    const char *folder[3], *path = "", *searched = "";
    bool found = false;
    int n = folders(&arena, folder);
    for (int i = 0; i < n && !found; i++) {
        path = mt_arena_printf(&arena, "%s/%s", folder[i], module->file);
        found = access(path, F_OK) == 0;
        searched = mt_arena_printf(&arena, "%s%s%s", searched, i ? ", " : "", folder[i]);
    }
    if (found) {
        load_from(module, path);
    } else {
        mt_fail(&module->err, MT_EMISSING, "%s was not found in %s", module->file, searched);
        mt_err_hint(&module->err, "%s", module->hint);
    }
    mt_arena_release(&arena);
}

const void *mt_module_load(struct mt_module *module, struct mt_err *err) {
    pthread_mutex_lock(&module->lock);
    if (!module->tried) load(module);
    module->tried = true;
    pthread_mutex_unlock(&module->lock);
    if (!module->head) *err = module->err;
    return module->head;
}
