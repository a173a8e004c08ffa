/* Folders of weights. A name in an index is a file of the folder itself, so that a folder cannot make Motley read
 * elsewhere. */
#include "launcher/checkpoint/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "kernels/base/text/json.h"

#define MOST_INDEX_BYTES ((size_t)256 << 20)
enum { MOST_TENSORS = 1 << 20, MOST_SHARDS = 4096 };

static bool is_plain_name(const char *name) {
    return *name && !strchr(name, '/') && strcmp(name, ".") && strcmp(name, "..") && strlen(name) < 256;
}

/* The number of a shard, which is new or the last one's mostly. */
static enum mt_status find_shard(struct mt_weights_index *index, struct mt_json member, const char *name, int *number,
                                 struct mt_arena *arena, struct mt_err *err) {
    for (int s = index->nshards - 1; s >= 0; s--)
        if (!strcmp(index->shards[s], name)) return *number = s, MT_OK;
    if (!is_plain_name(name)) return mt_json_fail(member, err, "%s is no file of the folder", mt_json_shown(member));
    if (index->nshards == MOST_SHARDS) return mt_json_fail(member, err, "more than %d files", MOST_SHARDS);
    index->shards[ *number = index->nshards++] = mt_arena_strdup(arena, name);
    return MT_OK;
}

/* JSON that is no index: most likely a document of another kind, which says so. */
static enum mt_status refuse_other(struct mt_json root, struct mt_err *err) {
    const char *format = NULL;
    if (mt_json_has(root, "format") && !mt_json_string(root, "format", &format, err))
        mt_json_fail(root, err, "is a \"%.60s\", not weights", format);
    else
        mt_json_fail(root, err, "is no index of weights: it has no \"weight_map\"");
    return mt_err_hint(err, "weights are a safetensors file, a folder with some, or their index, " MT_WEIGHTS_INDEX);
}

static enum mt_status parse_map(struct mt_json root, struct mt_arena *arena, struct mt_weights_index *index,
                                struct mt_err *err) {
    static const char *const keys[] = {"metadata", "weight_map", NULL};
    struct mt_json map, member;
    int count;
    enum mt_status st;
    if (!mt_json_has(root, keys[1])) return refuse_other(root, err);
    if ((st = mt_json_only(root, keys, err)) || (st = mt_json_get(root, "weight_map", &map, err)) ||
        (st = mt_json_members(map, MOST_TENSORS, &count, err)))
        return st;
    if (!count) return mt_json_fail(map, err, "names no tensor");
    index->tensors = mt_new(arena, const char *, count);
    index->shard = mt_new(arena, int, count);
    index->shards = mt_new(arena, const char *, count < MOST_SHARDS ? count : MOST_SHARDS);
    for (int i = 0; i < count && !st; i++) {
        const char *tensor, *file;
        if ((st = mt_json_member(map, i, &tensor, &member, err)) || (st = mt_json_as_string(member, &file, err)) ||
            (st = find_shard(index, member, file, &index->shard[i], arena, err)))
            return st;
        index->tensors[index->ntensors++] = mt_arena_strdup(arena, tensor);
    }
    return st;
}

enum mt_status mt_weights_index_parse(const char *name, const char *text, size_t length, struct mt_arena *arena,
                                      struct mt_weights_index *index, struct mt_err *err) {
    struct mt_json_doc doc;
    *index = (struct mt_weights_index){0};
    enum mt_status st = mt_json_parse(name, text, length, &doc, err);
    if (st) return st;
    st = parse_map(doc.root, arena, index, err);
    mt_json_release(&doc);
    return st;
}

struct named {
    const char *name;
    int at;
};

static int by_name(const void *left, const void *right) {
    return strcmp(((const struct named *)left)->name, ((const struct named *)right)->name);
}

/* The index's tensors by name; the caller frees it. */
static struct named *sort_index(const struct mt_weights_index *index) {
    struct named *sorted = mt_malloc((size_t)index->ntensors * sizeof *sorted);
    for (int i = 0; i < index->ntensors; i++) sorted[i] = (struct named){index->tensors[i], i};
    qsort(sorted, (size_t)index->ntensors, sizeof *sorted, by_name);
    return sorted;
}

/* Add the tensors of shard `s`, with those that the index does not name. there[i] is set if the index's tensor i is in
 * the shard that it names. */
static enum mt_status take_tensors(struct mt_safetensors *whole, const struct mt_weights_index *index,
                                   const struct named *sorted, int s, bool *there, struct mt_err *err) {
    const struct mt_safetensors *shard = whole->shards[s];
    for (int t = 0; t < shard->ntensors; t++) {
        const struct named key = {shard->tensors[t].name, 0};
        const struct named *entry = bsearch(&key, sorted, (size_t)index->ntensors, sizeof *sorted, by_name);
        if (entry && index->shard[entry->at] != s) {
            mt_fail(err, MT_EINPUT, "%s: has tensor %.200s, which %s says is in %s", shard->path, key.name, whole->path,
                    index->shards[index->shard[entry->at]]);
            return mt_err_hint(err, "of two such tensors one is old: download or save the folder again");
        }
        if (entry) there[entry->at] = true;
        whole->tensors[whole->ntensors] = shard->tensors[t];
        whole->tensors[whole->ntensors++].shard = s;
    }
    return MT_OK;
}

static enum mt_status join_shards(const struct mt_weights_index *index, struct mt_safetensors *whole,
                                  struct mt_err *err) {
    int count = 0;
    for (int s = 0; s < whole->nshards; s++) count += whole->shards[s]->ntensors;
    whole->tensors = mt_new(&whole->arena, struct mt_saved, count);
    struct named *sorted = sort_index(index);
    bool *there = mt_calloc((size_t)index->ntensors, sizeof *there);
    enum mt_status st = MT_OK;
    for (int s = 0; s < whole->nshards && !st; s++) st = take_tensors(whole, index, sorted, s, there, err);
    for (int i = 0; i < index->ntensors && !st; i++) {
        if (there[i]) continue;
        st = mt_fail(err, MT_EINPUT, "%s: has no tensor %.200s, which %s says is there",
                     whole->shards[index->shard[i]]->path, index->tensors[i], whole->path);
        mt_err_hint(err, "the folder is of two models, or a file of it is old: download or save it again");
    }
    free(sorted);
    free(there);
    return st;
}

static enum mt_status open_shards(const char *folder, const struct mt_weights_index *index, const char *index_path,
                                  struct mt_safetensors *whole, struct mt_err *err) {
    whole->path = mt_arena_strdup(&whole->arena, index_path);
    whole->shards = mt_new(&whole->arena, struct mt_safetensors *, index->nshards);
    for (int s = 0; s < index->nshards; s++) {
        const char *path = mt_arena_printf(&whole->arena, "%s/%s", folder, index->shards[s]);
        enum mt_status st = mt_safetensors_open(path, &whole->shards[s], err);
        if (st) return mt_err_hint(err, "%s needs it: download or save the folder again", index_path);
        whole->nshards++;
    }
    if (whole->nshards == 1) whole->notes = whole->shards[0]->notes, whole->nnotes = whole->shards[0]->nnotes;
    return join_shards(index, whole, err);
}

static enum mt_status open_index(const char *folder, const char *path, struct mt_safetensors **file,
                                 struct mt_err *err) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_weights_index index;
    char *text;
    size_t length;
    enum mt_status st = mt_file_read(path, MOST_INDEX_BYTES, &text, &length, err);
    if (st) return st;
    struct mt_safetensors *whole = mt_calloc(1, sizeof *whole);
    whole->fd = -1;
    st = mt_weights_index_parse(path, text, length, &arena, &index, err);
    if (!st) st = open_shards(folder, &index, path, whole, err);
    free(text);
    mt_arena_release(&arena);
    if (st)
        mt_safetensors_close(whole);
    else
        *file = whole;
    return st;
}

/* What else people have in such folders. */
static enum mt_status no_weights(const char *folder, struct mt_arena *arena, struct mt_err *err) {
    static const char *const others[] = {"pytorch_model.bin", "pytorch_model.bin.index.json", "tf_model.h5",
                                         "flax_model.msgpack"};
    mt_fail(err, MT_EINPUT, "%s: has no " MT_WEIGHTS_NAME " and no " MT_WEIGHTS_INDEX, folder);
    for (int i = 0; i < (int)(sizeof others / sizeof *others); i++)
        if (!access(mt_arena_printf(arena, "%s/%s", folder, others[i]), F_OK))
            return mt_err_hint(
                err, "its weights are in %s: load it with transformers, and save it with save_pretrained", others[i]);
    return mt_err_hint(err, "name a folder with safetensors, or a file of them");
}

enum mt_status mt_weights_open(const char *path, struct mt_safetensors **file, struct mt_err *err) {
    static const char json[] = ".json";
    size_t length = strlen(path), tail = sizeof json - 1;
    struct mt_arena arena = MT_ARENA_INIT;
    if (!mt_is_folder(path) && length > tail && !strcmp(path + length - tail, json)) {
        enum mt_status st = open_index(mt_folder_of(path, &arena), path, file, err);
        mt_arena_release(&arena);
        return st;
    }
    if (!mt_is_folder(path)) return mt_safetensors_open(path, file, err);
    char *folder = mt_arena_strdup(&arena, path);
    for (size_t n = strlen(folder); n > 1 && folder[n - 1] == '/'; n--) folder[n - 1] = 0;
    const char *single = mt_arena_printf(&arena, "%s/" MT_WEIGHTS_NAME, folder);
    const char *index = mt_arena_printf(&arena, "%s/" MT_WEIGHTS_INDEX, folder);
    enum mt_status st;
    if (!access(single, F_OK)) /* as transformers prefers it */
        st = mt_safetensors_open(single, file, err);
    else if (!access(index, F_OK))
        st = open_index(folder, index, file, err);
    else
        st = no_weights(folder, &arena, err);
    mt_arena_release(&arena);
    return st;
}

const struct mt_saved *mt_weights_find(const struct mt_safetensors *file, const char *name) {
    char prefixed[512];
    const struct mt_saved *tensor = mt_safetensors_find(file, name);
    if (tensor) return tensor;
    snprintf(prefixed, sizeof prefixed, "transformer.%s", name);
    tensor = mt_safetensors_find(file, prefixed);
    return tensor || strncmp(name, "model.", 6) ? tensor : mt_safetensors_find(file, name + 6);
}

enum mt_status mt_weights_index_write(const char *folder, const char *shard, const struct mt_saved *tensors,
                                      int ntensors, struct mt_err *err) {
    struct mt_json_out out;
    struct mt_arena arena = MT_ARENA_INIT;
    int64_t size_bytes = 0;
    for (int i = 0; i < ntensors; i++) size_bytes += tensors[i].size_bytes;
    mt_json_out_init(&out);
    mt_json_open(&out, NULL, '{');
    mt_json_open(&out, "metadata", '{');
    mt_json_put_int(&out, "total_size", size_bytes);
    mt_json_close(&out);
    mt_json_open(&out, "weight_map", '{');
    for (int i = 0; i < ntensors; i++) mt_json_put_string(&out, tensors[i].name, shard);
    mt_json_close(&out);
    mt_json_close(&out);
    enum mt_status st =
        mt_file_replace(mt_arena_printf(&arena, "%s/" MT_WEIGHTS_INDEX, folder), out.text, out.length, err);
    mt_json_out_release(&out);
    mt_arena_release(&arena);
    return st;
}
