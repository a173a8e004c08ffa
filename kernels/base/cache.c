/* The cache's folder, by the environment. */
#include "kernels/base/cache.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

bool mt_cache_folder(char out[PATH_MAX]) {
    static const struct {
        const char *variable, *below;
    } places[] = {{"MOTLEY_CACHE", ""}, {"XDG_CACHE_HOME", "/motley"}, {"HOME", "/.cache/motley"}};
    const char *root = NULL, *below = "";
    for (size_t i = 0; i < sizeof places / sizeof *places && (!root || !*root); i++)
        root = getenv(places[i].variable), below = places[i].below;
    if (!root || !*root) return false;
    int n = snprintf(out, PATH_MAX, "%s%s", root, below);
    if (n < 0 || n >= PATH_MAX) return false;
    for (char *end = out + 1;; end++) {
        char kept = *end;
        if (kept && kept != '/') continue;
        *end = 0;
        bool there = !mkdir(out, 0777) || errno == EEXIST || !access(out, F_OK);
        *end = kept;
        if (!there) return false;
        if (!kept) return true;
    }
}
