/* The checkpoint itself is not copied: the index names its file, and of its tensors the parameters. */
#include "launcher/checkpoint/publish.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "launcher/checkpoint/internal.h"
#include "launcher/checkpoint/weights.h"
#include "synth/models/config/config.h"

#define MOST_FILE_BYTES ((size_t)256 << 20)

static enum mt_status write_index(const char *folder, int64_t step, const struct mt_graph *graph,
                                  struct mt_arena *arena, struct mt_err *err) {
    struct mt_saved *tensors = mt_new(arena, struct mt_saved, graph->nvalues);
    int count = 0;
    for (int v = 0; v < graph->nvalues; v++)
        if (graph->values[v].param) tensors[count++] = mt_saved_of(graph, v);
    const char *path = mt_checkpoint_path(folder, step, arena);
    return mt_weights_index_write(folder, strrchr(path, '/') + 1, tensors, count, err);
}

static bool is_there(const char *path) {
    return !access(path, F_OK);
}

static enum mt_status write_config(const struct mt_publish *a, const char *path, struct mt_arena *arena,
                                   struct mt_err *err) {
    struct mt_config theirs;
    bool known = a->init && is_there(mt_arena_printf(arena, "%s/" MT_CONFIG_NAME, a->init));
    enum mt_status st = known ? mt_config_read(a->init, arena, &theirs, err) : MT_OK;
    if (st) return st;
    char *text = mt_config_text(a->model, a->graph->acc, a->dropout, known ? &theirs : NULL);
    st = mt_file_replace(path, text, strlen(text), err);
    free(text);
    return st;
}

static enum mt_status copy(const char *from, const char *to, struct mt_err *err) {
    char *text;
    size_t length;
    if (!is_there(from) || is_there(to)) return MT_OK;
    enum mt_status st = mt_file_read(from, MOST_FILE_BYTES, &text, &length, err);
    if (st) return st;
    st = mt_file_replace(to, text, length, err);
    free(text);
    return st;
}

static enum mt_status compare_files(const char *a, const char *b, bool *same, struct mt_err *err) {
    char *text[2] = {NULL, NULL};
    size_t length[2];
    enum mt_status st = mt_file_read(a, MOST_FILE_BYTES, &text[0], &length[0], err);
    if (!st) st = mt_file_read(b, MOST_FILE_BYTES, &text[1], &length[1], err);
    if (!st) *same = length[0] == length[1] && !memcmp(text[0], text[1], length[0]);
    free(text[0]);
    if (!st) free(text[1]);
    return st;
}

enum mt_status mt_publish_check_tokenizer(const char *folder, const char *given, struct mt_err *err) {
    struct mt_arena arena = MT_ARENA_INIT;
    bool same = true;
    enum mt_status st = MT_OK;
    if (!given) return MT_OK;
    const char *mine = mt_is_folder(given) ? mt_arena_printf(&arena, "%s/tokenizer.json", given) : given;
    const char *theirs = mt_arena_printf(&arena, "%s/tokenizer.json", folder);
    if (is_there(mine) && is_there(theirs)) st = compare_files(mine, theirs, &same, err);
    if (!same) {
        st = mt_fail(err, MT_EINPUT, "%s: is another tokenizer than %s", theirs, mine);
        mt_err_hint(err,
                    "go on with the folder's, without --tokenizer; or start anew from its weights, in another folder: "
                    "--init %.150s --tokenizer %.150s",
                    folder, given);
    }
    mt_arena_release(&arena);
    return st;
}

/* Of a folder, all files that tokenizers of transformers have. Of a file, those beside it; it gets the name by which it
 * is found. */
static enum mt_status copy_tokenizer(const struct mt_publish *a, struct mt_arena *arena, struct mt_err *err) {
    static const char *const names[] = {"tokenizer.json",
                                        "tokenizer_config.json",
                                        "special_tokens_map.json",
                                        "added_tokens.json",
                                        "vocab.json",
                                        "merges.txt",
                                        "vocab.txt",
                                        "tokenizer.model",
                                        "chat_template.jinja",
                                        "generation_config.json"};
    const char *given = a->tokenizer ? a->tokenizer : a->init;
    if (!given) return MT_OK;
    bool file = !mt_is_folder(given);
    const char *from = mt_folder_of(given, arena);
    enum mt_status st = MT_OK;
    for (int i = 0; i < (int)(sizeof names / sizeof *names) && !st; i++)
        st = copy(file && !i ? given : mt_arena_printf(arena, "%s/%s", from, names[i]),
                  mt_arena_printf(arena, "%s/%s", a->folder, names[i]), err);
    return st;
}

enum mt_status mt_checkpoint_publish(const struct mt_publish *a, int64_t step, struct mt_err *err) {
    struct mt_arena arena = MT_ARENA_INIT;
    const char *path = mt_arena_printf(&arena, "%s/" MT_CONFIG_NAME, a->folder);
    enum mt_status st = copy_tokenizer(a, &arena, err);
    if (!st && mt_config_has(a->model)) {
        st = write_index(a->folder, step, a->graph, &arena, err);
        if (!st && !is_there(path)) st = write_config(a, path, &arena, err);
    }
    mt_arena_release(&arena);
    return st;
}
