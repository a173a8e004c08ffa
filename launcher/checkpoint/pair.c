/* A checkpoint's two files: weights, which other programs read as they are, and optimizer state, which those would call
 * unexpected. The weights' metadata has the name of the other file and the checksum of its header, which covers all of
 * it; so the two belong together, and the weights, which get their name last, make the checkpoint. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "launcher/checkpoint/checkpoint.h"
#include "launcher/checkpoint/internal.h"

char *mt_checkpoint_optimizer_path(const char *path, struct mt_arena *arena) {
    static const char stem[] = MT_CHECKPOINT_STEM;
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const char *rest = strncmp(name, stem, sizeof stem - 1) ? name : name + sizeof stem - 1;
    return mt_arena_printf(arena, "%.*s" MT_OPTIMIZER_STEM "%s", (int)(name - path), path, rest);
}

int64_t mt_checkpoint_bytes(const char *path) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct stat weights, optimizer;
    int64_t bytes = stat(path, &weights) ? 0 : weights.st_size;
    if (!stat(mt_checkpoint_optimizer_path(path, &arena), &optimizer)) bytes += optimizer.st_size;
    mt_arena_release(&arena);
    return bytes;
}

static bool is_plain_name(const char *name) {
    return *name && !strchr(name, '/') && strcmp(name, ".") && strcmp(name, "..");
}

static enum mt_status open_optimizer(const struct mt_safetensors *weights, const char *name,
                                     struct mt_safetensors **file, struct mt_err *err) {
    struct mt_arena arena = MT_ARENA_INIT;
    const char *slash = strrchr(weights->path, '/'), *wanted = mt_safetensors_note(weights, MT_OPTIMIZER_HASH_NOTE);
    int folder = slash ? (int)(slash + 1 - weights->path) : 0;
    enum mt_status st = MT_OK;
    if (!is_plain_name(name))
        st = mt_fail(err, MT_EINPUT, "%s: its optimizer state is in \"%.100s\", which is no file of its folder",
                     weights->path, name);
    if (!st && (st = mt_safetensors_open(mt_arena_printf(&arena, "%.*s%s", folder, weights->path, name), file, err)))
        mt_err_hint(err, "%.300s is its weights alone; --init starts anew from them", weights->path);
    mt_arena_release(&arena);
    if (st) return st;
    const char *have = mt_safetensors_note(*file, MT_CHECKSUM_HEADER);
    if (wanted && have && !strcmp(wanted, have)) return MT_OK;
    st = mt_fail(err, MT_EINPUT, "%s: is damaged, or of another checkpoint than %s", (*file)->path, weights->path);
    mt_safetensors_close(*file);
    return st;
}

/* Both as one: the tensors of the weights first, and their metadata. */
static struct mt_safetensors *join(struct mt_safetensors *weights, struct mt_safetensors *optimizer) {
    struct mt_safetensors *both = mt_calloc(1, sizeof *both);
    both->fd = -1, both->nshards = 2;
    both->path = weights->path, both->notes = weights->notes, both->nnotes = weights->nnotes;
    both->checked = weights->checked && optimizer->checked;
    both->shards = mt_new(&both->arena, struct mt_safetensors *, 2);
    both->shards[0] = weights, both->shards[1] = optimizer;
    both->tensors = mt_new(&both->arena, struct mt_saved, weights->ntensors + optimizer->ntensors);
    for (int s = 0; s < 2; s++)
        for (int t = 0; t < both->shards[s]->ntensors; t++) {
            both->tensors[both->ntensors] = both->shards[s]->tensors[t];
            both->tensors[both->ntensors++].shard = s;
        }
    return both;
}

enum mt_status mt_checkpoint_open_pair(const char *path, struct mt_safetensors **file, struct mt_err *err) {
    struct mt_safetensors *weights, *optimizer;
    enum mt_status st = mt_safetensors_open(path, &weights, err);
    if (st) return st;
    const char *name = mt_safetensors_note(weights, MT_OPTIMIZER_NOTE);
    if (name && (st = open_optimizer(weights, name, &optimizer, err)))
        mt_safetensors_close(weights);
    else
        *file = name ? join(weights, optimizer) : weights;
    return st;
}
