/* The checkpoint itself is not copied: the index names its file, and of its tensors the parameters. */
#include "launcher/checkpoint/publish.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "launcher/checkpoint/internal.h"
#include "launcher/checkpoint/weights.h"
#include "synth/models/config/config.h"

static enum mt_status write_index(const char *folder, int64_t step, const struct mt_graph *graph,
                                  struct mt_arena *arena, struct mt_err *err) {
    struct mt_saved *tensors = mt_new(arena, struct mt_saved, graph->nvalues);
    int count = 0;
    for (int v = 0; v < graph->nvalues; v++)
        if (graph->values[v].param) tensors[count++] = mt_saved_of(graph, v);
    const char *path = mt_checkpoint_path(folder, step, arena);
    return mt_weights_index_write(folder, strrchr(path, '/') + 1, tensors, count, err);
}

enum mt_status mt_checkpoint_publish(const char *folder, int64_t step, const struct mt_graph *graph,
                                     const struct mt_model *model, double dropout, struct mt_err *err) {
    struct mt_arena arena = MT_ARENA_INIT;
    const char *path = mt_arena_printf(&arena, "%s/" MT_CONFIG_NAME, folder);
    char *text = mt_config_text(model, graph->acc, dropout);
    enum mt_status st = MT_OK;
    if (text) {
        st = write_index(folder, step, graph, &arena, err);
        if (!st && access(path, F_OK) && errno == ENOENT) st = mt_file_replace(path, text, strlen(text), err);
    }
    free(text);
    mt_arena_release(&arena);
    return st;
}
