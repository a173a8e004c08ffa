/* Whether the tensors of a file are those of a model: every one is there, of its shape, and there are no others, which
 * would compute something else (a bias, a layer, a norm of heads) or are of another optimizer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/log.h"
#include "launcher/checkpoint/checkpoint.h"
#include "launcher/checkpoint/internal.h"
#include "launcher/checkpoint/weights.h"

struct mt_saved mt_saved_of(const struct mt_graph *g, int gvalue) {
    const struct mt_value *v = &g->values[gvalue], *shape = v->owner >= 0 ? &g->values[v->owner] : v;
    struct mt_saved t = {.name = v->name, .type = v->type, .ndims = shape->ndims};
    for (int d = 0, axis = 0; d < shape->ndims; d++) {
        t.dims[d] = 1;
        for (; axis < shape->group_end[d]; axis++) t.dims[d] *= mt_value_extent(g, gvalue, axis);
    }
    t.count = mt_value_count(g, gvalue);
    t.size_bytes = t.count * mt_type_size(t.type);
    return t;
}

const struct mt_saved *mt_saved_source(const struct mt_safetensors *file, const struct mt_value *v, enum mt_load what) {
    return what == MT_LOAD_ALL ? mt_safetensors_find(file, v->name) : mt_weights_find(file, v->name);
}

bool mt_saved_is_loaded(const struct mt_graph *graph, int gvalue, enum mt_load what) {
    return mt_is_state(graph, gvalue) && (what == MT_LOAD_ALL || graph->values[gvalue].param);
}

/* The states of loss scaling, which not every job has. */
static bool is_loss_scaling(const char *name) {
    return !strcmp(name, "loss_scale") || !strncmp(name, "loss_scale.", strlen("loss_scale."));
}

static enum mt_status check_shape(const struct mt_safetensors *file, const struct mt_saved *have,
                                  const struct mt_saved *want, struct mt_err *err) {
    bool same = have->ndims == want->ndims;
    for (int d = 0; same && d < want->ndims; d++) same = have->dims[d] == want->dims[d];
    if (same) return MT_OK;
    char text[2][128] = {"", ""};
    for (int i = 0; i < 2; i++) {
        const struct mt_saved *t = i ? want : have;
        for (int d = 0; d < t->ndims; d++) {
            size_t used = strlen(text[i]);
            snprintf(text[i] + used, sizeof text[i] - used, d ? " x %lld" : "%lld", (long long)t->dims[d]);
        }
    }
    mt_fail(err, MT_EINPUT, "%s: tensor %s is %s, but the model has %s", mt_safetensors_path_of(file, have), have->name,
            text[0], text[1]);
    return mt_err_hint(err, "the file is of another model");
}

/* ---- tensors that no state is loaded from ---- */

static bool ends_in(const char *name, const char *end) {
    size_t n = strlen(name), m = strlen(end);
    return n >= m && !strcmp(name + n - m, end);
}

/* Constants that old checkpoints have, and that follow from the configuration: GPT-2's masks, and rotations. */
static bool is_constant(const struct mt_saved *t) {
    bool mask = t->ndims == 4 && t->dims[0] == 1 && t->dims[1] == 1 && ends_in(t->name, ".attn.bias");
    return mask || ends_in(t->name, ".attn.masked_bias") || ends_in(t->name, ".rotary_emb.inv_freq");
}

/* Optimizer state, which older checkpoints of Motley have in the same file, as words before the weight's name. */
static bool is_optimizer_state(const struct mt_safetensors *file, const struct mt_saved *t) {
    if (!mt_safetensors_note(file, "motley.version")) return false;
    for (const char *dot = t->name; (dot = strchr(dot, '.')); dot++)
        if (mt_safetensors_find(file, dot + 1)) return true;
    return is_loss_scaling(t->name);
}

/* The parameter that the output layer multiplies by, or -1. */
static int head_of(const struct mt_graph *graph) {
    if (graph->logits < 0 || graph->values[graph->logits].producer < 0) return -1;
    const struct mt_op *op = &graph->ops[graph->values[graph->logits].producer];
    for (int i = 0; i < op->nin; i++)
        if (mt_graph_param_of(graph, op->in[i]) >= 0) return mt_graph_param_of(graph, op->in[i]);
    return -1;
}

/* Where a model's output layer is its token table, a file may have a copy of the table under the layer's name; an
 * output layer of other numbers is refused, as it would be dropped. */
static enum mt_status check_head(const struct mt_graph *graph, const struct mt_safetensors *file,
                                 const struct mt_saved *head, struct mt_err *err) {
    int table = head_of(graph);
    if (table < 0) return MT_OK;
    const struct mt_saved *shared = mt_saved_source(file, &graph->values[table], MT_LOAD_PARAMS);
    bool same = head->count == shared->count;
    if (same) {
        size_t size_bytes = (size_t)shared->count * sizeof(float);
        float *numbers[2] = {mt_malloc(size_bytes), mt_malloc(size_bytes)};
        enum mt_status st = mt_safetensors_read_as(file, shared, MT_F32, numbers[0], err);
        if (!st) st = mt_safetensors_read_as(file, head, MT_F32, numbers[1], err);
        same = !st && !memcmp(numbers[0], numbers[1], size_bytes);
        free(numbers[0]);
        free(numbers[1]);
        if (st) return st;
    }
    if (same) return MT_OK;
    mt_fail(err, MT_EINPUT, "%s: tensor %s is not %s, but the model's output layer is its token embedding",
            mt_safetensors_path_of(file, head), head->name, shared->name);
    return mt_err_hint(err, "a model with two has \"tie_word_embeddings\": false in its config.json, or tied=0");
}

static enum mt_status refuse_weight(const struct mt_safetensors *file, const struct mt_saved *t, struct mt_err *err) {
    mt_fail(err, MT_EINPUT, "%s: tensor %s is no weight of the model: without it, the model computes something else",
            mt_safetensors_path_of(file, t), t->name);
    return mt_err_hint(err, "plan with --model of the folder that it is from; if the model does not need it, save the "
                            "weights again without it");
}

static enum mt_status refuse_state(const struct mt_safetensors *file, const struct mt_saved *t, struct mt_err *err) {
    mt_fail(err, MT_EINPUT, "%s: tensor %s is not a state of the plan's model and optimizer", file->path, t->name);
    return mt_err_hint(err, "--init FILE loads the weights alone");
}

/* `used`[file->ntensors]: what is loaded. */
static enum mt_status check_rest(const struct mt_graph *graph, const struct mt_safetensors *file, enum mt_load what,
                                 const bool *used, struct mt_err *err) {
    int ignored = 0;
    enum mt_status st = MT_OK;
    for (int i = 0; i < file->ntensors && !st; i++) {
        const struct mt_saved *t = &file->tensors[i];
        if (used[i]) continue;
        if (what == MT_LOAD_ALL)
            st = is_loss_scaling(t->name) ? MT_OK : refuse_state(file, t, err);
        else if (!strcmp(t->name, "lm_head.weight"))
            st = check_head(graph, file, t, err);
        else if (!is_constant(t) && !is_optimizer_state(file, t))
            st = refuse_weight(file, t, err);
        ignored++;
    }
    if (!st && ignored && what == MT_LOAD_PARAMS)
        mt_log(MT_LOG_INFO, "%s: %d tensors loaded, %d ignored that are no weights", file->path,
               file->ntensors - ignored, ignored);
    return st;
}

enum mt_status mt_checkpoint_check(const struct mt_graph *graph, const struct mt_safetensors *file, enum mt_load what,
                                   struct mt_err *err) {
    bool *used = mt_calloc((size_t)file->ntensors + 1, sizeof *used);
    enum mt_status st = MT_OK;
    for (int g = 0; g < graph->nvalues && !st; g++) {
        if (!mt_saved_is_loaded(graph, g, what)) continue;
        const struct mt_value *v = &graph->values[g];
        const struct mt_saved *t = mt_saved_source(file, v, what);
        if (t) {
            struct mt_saved want = mt_saved_of(graph, g);
            used[t - file->tensors] = true;
            st = check_shape(file, t, &want, err);
        } else if (is_loss_scaling(v->name)) {
            mt_log(MT_LOG_INFO, "%s: has no %s; it is initialised", file->path, v->name);
        } else {
            mt_fail(err, MT_EINPUT, "%s: has no tensor %s", file->path, v->name);
            st = mt_err_hint(err, v->param ? "the file is of another model than the plan"
                                           : "the optimizer differs: --init FILE loads the weights alone");
        }
    }
    if (!st) st = check_rest(graph, file, what, used, err);
    free(used);
    return st;
}
