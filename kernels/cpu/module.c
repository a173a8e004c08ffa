/* Finds and loads the oneDNN module, once. */
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/rng.h"
#include "kernels/cpu/onednn/module.h"

/* What the module calls: named here so that every program that can load it has them. */
static const struct {
    enum mt_status (*fail)(struct mt_err *, enum mt_status, const char *, ...);
    const char *(*type_name)(enum mt_type);
    int64_t (*type_size)(enum mt_type);
    void (*philox_blocks)(uint64_t, uint64_t, uint64_t, int64_t, uint32_t *);
} called __attribute__((used)) = {mt_fail, mt_type_name, mt_type_size, mt_philox_blocks};

static const struct mt_onednn_module *module;
static struct mt_err load_err = MT_ERR_INIT;

/* The folders to search, in order: $MOTLEY_MODULES, the program's own, and ../lib/motley beside it. Returns how
 * many there are. */
static int folders(char out[3][PATH_MAX]) {
    int n = 0;
    const char *given = getenv("MOTLEY_MODULES");
    if (given && *given) snprintf(out[n++], PATH_MAX, "%s", given);
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length <= 0) return n;
    self[length] = 0;
    char *slash = strrchr(self, '/');
    if (!slash) return n;
    *slash = 0;
    snprintf(out[n++], PATH_MAX, "%s", self);
    if ((size_t)snprintf(out[n], PATH_MAX, "%.*s/../lib/motley", PATH_MAX - 32, self) < PATH_MAX) n++;
    return n;
}

static void load_from(const char *path) {
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        mt_fail(&load_err, MT_EMISSING, "%s", dlerror()); /* names the file, or the library that it lacks */
        return;
    }
    const struct mt_onednn_module *found = dlsym(handle, "mt_onednn_module");
    static const int64_t shape[4] = MT_ONEDNN_SHAPE;
    if (!found) {
        mt_fail(&load_err, MT_EMISSING, "%s: is not a oneDNN module of Motley", path);
    } else if (strncmp(found->motley, MOTLEY_VERSION, sizeof found->motley) ||
               memcmp(found->shape, shape, sizeof shape)) {
        mt_fail(&load_err, MT_EMISSING, "%s: was built with another Motley (%.32s; this is %s)", path, found->motley,
                MOTLEY_VERSION);
        mt_err_hint(&load_err, "build and install both together, or unset MOTLEY_MODULES");
    } else {
        module = found;
        return;
    }
    dlclose(handle);
}

static void load(void) {
    char folder[3][PATH_MAX], path[PATH_MAX + 32], searched[sizeof load_err.text] = "";
    int n = folders(folder);
    for (int i = 0; i < n && !module; i++) {
        snprintf(path, sizeof path, "%s/motley_onednn.so", folder[i]);
        if (access(path, F_OK) == 0) {
            load_from(path);
            if (!module) return;
        }
        size_t used = strlen(searched);
        snprintf(searched + used, sizeof searched - used, "%s%s", i ? ", " : "", folder[i]);
    }
    if (module) return;
    mt_fail(&load_err, MT_EMISSING, "motley_onednn.so was not found in %s", searched);
    mt_err_hint(&load_err, "install libdnnl-dev, configure and build again; or set MOTLEY_MODULES to the module's "
                           "folder. Without it, products are plain C, and slow");
}

const struct mt_backend *mt_backend_onednn(struct mt_err *err) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    if (!module) *err = load_err;
    return module ? &module->backend : NULL;
}
