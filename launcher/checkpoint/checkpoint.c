/* Generations of checkpoints in a folder, and a checkpoint's metadata. */
#include "launcher/checkpoint/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/base/log.h"
#include "launcher/checkpoint/internal.h"

#define STEM MT_CHECKPOINT_STEM
#define SUFFIX ".safetensors"
/* Counters far below 2^63, so that a run can go on from them: no job has more steps, and no run sees more samples. */
#define MOST_STEPS ((int64_t)1 << 40)
#define MOST_SAMPLES ((int64_t)1 << 53)

char *mt_checkpoint_path(const char *folder, int64_t step, struct mt_arena *arena) {
    return mt_arena_printf(arena, "%s/" STEM "%08lld" SUFFIX, folder, (long long)step);
}

/* The step in the name of a file of a generation; -1 for other files. */
static int64_t step_of(const char *stem, const char *name) {
    if (strncmp(name, stem, strlen(stem))) return -1;
    char *end;
    const char *digits = name + strlen(stem);
    errno = 0;
    long long step = strtoll(digits, &end, 10);
    if (errno || end == digits || *digits < '0' || *digits > '9' || strcmp(end, SUFFIX)) return -1;
    return step;
}

struct generations {
    struct mt_arena arena;
    struct generation {
        int64_t step;
        char *name;
    } * items, *optimizers; /* weights; files of optimizer state, in any order */
    int count, capacity, noptimizers, optimizers_capacity;
    char **leftovers; /* files of interrupted writes */
    int nleftovers, leftovers_capacity;
};

static int newest_first(const void *left, const void *right) {
    const struct generation *a = left, *b = right;
    return a->step > b->step ? -1 : a->step < b->step;
}

static bool is_leftover(const char *name) {
    size_t n = strlen(name), tail = strlen(SUFFIX MT_SAFETENSORS_TEMP);
    bool ours = !strncmp(name, STEM, strlen(STEM)) || !strncmp(name, MT_OPTIMIZER_STEM, strlen(MT_OPTIMIZER_STEM));
    return ours && n > tail && !strcmp(name + n - tail, SUFFIX MT_SAFETENSORS_TEMP);
}

static enum mt_status list(const char *folder, struct generations *g, struct mt_err *err) {
    *g = (struct generations){.arena = MT_ARENA_INIT};
    DIR *dir = opendir(folder);
    if (!dir) {
        mt_fail_errno(err, "%s", folder);
        return err->status = errno == ENOENT || errno == EACCES ? MT_EINPUT : MT_ESYSTEM;
    }
    for (struct dirent *entry; (entry = readdir(dir));) {
        int64_t step = step_of(STEM, entry->d_name), optimizer = step_of(MT_OPTIMIZER_STEM, entry->d_name);
        if (step >= 0) {
            mt_arena_grow(&g->arena, &g->items, g->count, &g->capacity, sizeof *g->items);
            g->items[g->count++] = (struct generation){step, mt_arena_strdup(&g->arena, entry->d_name)};
        } else if (optimizer >= 0) {
            mt_arena_grow(&g->arena, &g->optimizers, g->noptimizers, &g->optimizers_capacity, sizeof *g->optimizers);
            g->optimizers[g->noptimizers++] = (struct generation){optimizer, mt_arena_strdup(&g->arena, entry->d_name)};
        } else if (is_leftover(entry->d_name)) {
            mt_arena_grow(&g->arena, &g->leftovers, g->nleftovers, &g->leftovers_capacity, sizeof *g->leftovers);
            g->leftovers[g->nleftovers++] = mt_arena_strdup(&g->arena, entry->d_name);
        }
    }
    closedir(dir);
    if (g->count) qsort(g->items, (size_t)g->count, sizeof *g->items, newest_first);
    return MT_OK;
}

typedef enum mt_status opener(const char *path, struct mt_safetensors **file, struct mt_err *err);

static enum mt_status open_undamaged(const char *path, opener *opens, struct mt_safetensors **file,
                                     struct mt_err *err) {
    struct mt_safetensors *f;
    struct mt_checkpoint_about about;
    enum mt_status st = opens(path, &f, err);
    if (st) return st;
    if ((st = mt_safetensors_verify(f, err)) || (st = mt_checkpoint_about(f, &about, err))) {
        mt_safetensors_close(f);
        return st;
    }
    *file = f;
    return MT_OK;
}

/* Weights that are whole, without their optimizer state. */
static bool is_alone(const char *path, struct mt_arena *arena) {
    struct mt_safetensors *weights;
    struct mt_err ignored = MT_ERR_INIT;
    if (!access(mt_checkpoint_optimizer_path(path, arena), F_OK)) return false;
    if (open_undamaged(path, mt_safetensors_open, &weights, &ignored)) return false;
    mt_safetensors_close(weights);
    return true;
}

static enum mt_status open_newest(const char *source, opener *opens, struct mt_safetensors **file, struct mt_err *err) {
    struct stat about;
    if (!stat(source, &about) && !S_ISDIR(about.st_mode)) return open_undamaged(source, opens, file, err);
    struct generations g;
    enum mt_status st = list(source, &g, err);
    if (st) return st;
    bool opened = false;
    int alone = 0;
    for (int i = 0; i < g.count && !opened; i++) {
        char *path = mt_arena_printf(&g.arena, "%s/%s", source, g.items[i].name);
        opened = open_undamaged(path, opens, file, err) == MT_OK;
        if (!opened) alone += is_alone(path, &g.arena);
        if (!opened) mt_log(MT_LOG_WARN, "%s%s", err->text, i + 1 < g.count ? "; trying the previous generation" : "");
    }
    if (!opened && !g.count) {
        st = mt_fail(err, MT_EINPUT, "%s: there is no checkpoint (" STEM "*" SUFFIX ") in this folder", source);
        if (!access(mt_arena_printf(&g.arena, "%s/config.json", source), F_OK))
            mt_err_hint(err, "it is a model's folder: --init %.200s starts with its weights", source);
    } else if (!opened && alone == g.count) {
        st = mt_fail(err, MT_EINPUT,
                     "%s: there are the weights of %d checkpoint%s, but no optimizer state (" MT_OPTIMIZER_STEM
                     "*" SUFFIX ")",
                     source, g.count, g.count == 1 ? "" : "s");
        mt_err_hint(err,
                    "bring these files too, to go on as if nothing had been; or start anew from the weights, with "
                    "--init %.200s instead of --resume",
                    source);
    } else if (!opened) {
        st = mt_fail(err, MT_EINPUT, "%s: all of its %d checkpoints are damaged", source, g.count);
        mt_err_hint(err, "the warnings above say what is wrong with each; start again, or from another folder");
    }
    mt_arena_release(&g.arena);
    return st;
}

enum mt_status mt_checkpoint_open(const char *source, struct mt_safetensors **file, struct mt_err *err) {
    return open_newest(source, mt_checkpoint_open_pair, file, err);
}

enum mt_status mt_checkpoint_open_weights(const char *source, struct mt_safetensors **file, struct mt_err *err) {
    return open_newest(source, mt_safetensors_open, file, err);
}

static enum mt_status read_text(const struct mt_safetensors *file, const char *key, const char **value,
                                struct mt_err *err) {
    *value = mt_safetensors_note(file, key);
    if (*value) return MT_OK;
    const char *weights = mt_safetensors_note(file, MT_WEIGHTS_NOTE);
    if (weights) {
        mt_fail(err, MT_EINPUT, "%s: is the optimizer state of a checkpoint", file->path);
        return mt_err_hint(err, "name its weights, %.200s, or the folder", weights);
    }
    return mt_fail(err, MT_EINPUT, "%s: is not a checkpoint of Motley: __metadata__ lacks %s", file->path, key);
}

static enum mt_status read_number(const struct mt_safetensors *file, const char *key, int64_t most, int64_t *value,
                                  struct mt_err *err) {
    const char *text;
    enum mt_status st = read_text(file, key, &text, err);
    if (st) return st;
    char *end;
    errno = 0;
    *value = strtoll(text, &end, 10);
    if (errno || end == text || *end || *value < 0 || *value > most)
        return mt_fail(err, MT_EINPUT, "%s: %s is \"%.40s\", not a count from 0 to %lld", file->path, key, text,
                       (long long)most);
    return MT_OK;
}

enum mt_status mt_checkpoint_about(const struct mt_safetensors *file, struct mt_checkpoint_about *a,
                                   struct mt_err *err) {
    int64_t seed, version;
    enum mt_status st;
    if ((st = read_number(file, "motley.version", INT64_MAX, &version, err))) return st;
    if (version != 1)
        return mt_fail(err, MT_EINPUT, "%s: a checkpoint of version %lld; this Motley reads version 1", file->path,
                       (long long)version);
    if ((st = read_number(file, "motley.step", MOST_STEPS, &a->step, err)) ||
        (st = read_number(file, "motley.samples", MOST_SAMPLES, &a->samples, err)) ||
        (st = read_number(file, "motley.seed", INT64_MAX, &seed, err)) ||
        (st = read_text(file, MT_MODEL_NOTE, &a->model, err)) || (st = read_text(file, "motley.job", &a->job, err)) ||
        (st = read_text(file, "motley.plan_hash", &a->plan_hash, err)) ||
        (st = read_text(file, "motley.data_hash", &a->data_hash, err)))
        return st;
    a->seed = (uint64_t)seed;
    return MT_OK;
}

static enum mt_status remove_file(const char *folder, const char *name, struct mt_arena *arena, struct mt_err *err) {
    const char *path = mt_arena_printf(arena, "%s/%s", folder, name);
    return unlink(path) && errno != ENOENT ? mt_fail_errno(err, "%s: removing", path) : MT_OK;
}

/* Whether the first `count` generations have weights of this step. */
static bool has_weights(const struct generations *g, int count, int64_t step) {
    for (int i = 0; i < count && i < g->count; i++)
        if (g->items[i].step == step) return true;
    return false;
}

enum mt_status mt_checkpoint_prune(const char *folder, int keep, struct mt_err *err) {
    struct generations g;
    enum mt_status st = list(folder, &g, err);
    if (st) return st;
    for (int i = 0; i < g.nleftovers && !st; i++) st = remove_file(folder, g.leftovers[i], &g.arena, err);
    for (int i = keep; i < g.count && !st; i++) st = remove_file(folder, g.items[i].name, &g.arena, err);
    for (int i = 0; i < g.noptimizers && !st; i++)
        if (!has_weights(&g, keep, g.optimizers[i].step)) st = remove_file(folder, g.optimizers[i].name, &g.arena, err);
    mt_arena_release(&g.arena);
    return st;
}

static enum mt_status set_file_aside(const char *folder, const char *name, struct mt_arena *arena, struct mt_err *err) {
    const char *path = mt_arena_printf(arena, "%s/%s", folder, name);
    const char *aside = mt_arena_printf(arena, "%s.damaged", path);
    if (rename(path, aside)) return mt_fail_errno(err, "%s: renaming", path);
    mt_log(MT_LOG_WARN, "%s is now %s", path, aside);
    return MT_OK;
}

enum mt_status mt_checkpoint_set_aside(const char *folder, int64_t step, struct mt_err *err) {
    struct generations g;
    enum mt_status st = list(folder, &g, err);
    if (st) return st;
    for (int i = 0; i < g.count && g.items[i].step > step && !st; i++)
        st = set_file_aside(folder, g.items[i].name, &g.arena, err);
    for (int i = 0; i < g.noptimizers && !st; i++) {
        const struct generation *o = &g.optimizers[i];
        if (o->step > step && has_weights(&g, g.count, o->step)) st = set_file_aside(folder, o->name, &g.arena, err);
        if (o->step > step && !has_weights(&g, g.count, o->step)) st = remove_file(folder, o->name, &g.arena, err);
    }
    mt_arena_release(&g.arena);
    return st;
}

enum mt_status mt_checkpoint_count(const char *folder, int *count, struct mt_err *err) {
    struct generations g;
    *count = 0;
    if (access(folder, F_OK) && errno == ENOENT) return MT_OK;
    enum mt_status st = list(folder, &g, err);
    if (st) return st;
    *count = g.count;
    mt_arena_release(&g.arena);
    return MT_OK;
}

enum mt_status mt_checkpoint_newest(const char *folder, int64_t *step, struct mt_err *err) {
    struct generations g;
    *step = 0;
    if (access(folder, F_OK) && errno == ENOENT) return MT_OK;
    enum mt_status st = list(folder, &g, err);
    if (st) return st;
    if (g.count) *step = g.items[0].step;
    mt_arena_release(&g.arena);
    return MT_OK;
}
