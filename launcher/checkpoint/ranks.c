/* Saving and loading: between the ranks' states and one file at rank 0, which holds one whole tensor at a time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/log.h"
#include "launcher/session/agree.h"
#include "launcher/checkpoint/checkpoint.h"
#include "launcher/checkpoint/internal.h"
#include "launcher/checkpoint/weights.h"
#include "launcher/watch/watch.h"
#include "synth/interp/init.h"

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

static enum mt_status create(const struct mt_graph *graph, const char *path, const struct mt_checkpoint_about *a,
                             struct mt_safetensors_writer **writer, struct mt_err *err) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_saved *tensors = mt_new(&arena, struct mt_saved, graph->nvalues);
    int count = 0;
    for (int g = 0; g < graph->nvalues; g++)
        if (mt_is_state(graph, g)) tensors[count++] = mt_saved_of(graph, g);
    struct mt_saved_note notes[] = {
        {"format", "pt"}, /* which readers of Hugging Face files require */
        {"motley.version", "1"},
        {"motley.made_by", "motley " MOTLEY_VERSION},
        {"motley.step", mt_arena_printf(&arena, "%lld", (long long)a->step)},
        {"motley.samples", mt_arena_printf(&arena, "%lld", (long long)a->samples)},
        {"motley.seed", mt_arena_printf(&arena, "%llu", (unsigned long long)a->seed)},
        {"motley.model", a->model},
        {"motley.job", a->job},
        {"motley.plan_hash", a->plan_hash},
        {"motley.data_hash", a->data_hash},
    };
    enum mt_status st = mt_safetensors_create(path, tensors, count, notes, sizeof notes / sizeof *notes, writer, err);
    mt_arena_release(&arena);
    return st;
}

static enum mt_status append(void *context, const void *piece, size_t size_bytes, struct mt_err *err) {
    mt_watch_progress();
    return mt_safetensors_append(context, piece, size_bytes, err);
}

enum mt_status mt_checkpoint_save(struct mt_states *states, const char *path, const struct mt_checkpoint_about *about,
                                  struct mt_err *err) {
    const struct mt_graph *graph = states->program->graph;
    struct mt_safetensors_writer *writer = NULL;
    enum mt_status st = states->rank ? MT_OK : create(graph, path, about, &writer, err);
    if ((st = mt_agree_rank0(states->comm, st, err))) return st;
    for (int g = 0; g < graph->nvalues; g++)
        if (mt_is_state(graph, g)) mt_states_read(states, g, append, writer);
    if ((st = mt_states_end(states, err))) {
        mt_safetensors_abort(writer);
        return st;
    }
    if (writer) st = mt_safetensors_commit(writer, err);
    return mt_agree_rank0(states->comm, st, err);
}

/* The tensor that a state is loaded from, or null. */
static const struct mt_saved *source_of(const struct mt_safetensors *file, const struct mt_value *v,
                                        enum mt_load what) {
    return what == MT_LOAD_ALL ? mt_safetensors_find(file, v->name) : mt_weights_find(file, v->name);
}

/* The states of loss scaling, which not every job has. */
static bool is_loss_scaling(const char *name) {
    return !strcmp(name, "loss_scale") || !strncmp(name, "loss_scale.", strlen("loss_scale."));
}

static bool is_loaded(const struct mt_graph *graph, int gvalue, enum mt_load what) {
    return mt_is_state(graph, gvalue) && (what == MT_LOAD_ALL || graph->values[gvalue].param);
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
    mt_fail(err, MT_EINPUT, "%s: tensor %s is %s, but the plan's model has %s", mt_safetensors_path_of(file, have),
            have->name, text[0], text[1]);
    return mt_err_hint(err, "the file is of another model than the plan");
}

/* Check before anything is sent: every state has its tensor, of its shape; with MT_LOAD_ALL there are no others. */
static enum mt_status check_file(const struct mt_graph *graph, const struct mt_safetensors *file, enum mt_load what,
                                 struct mt_err *err) {
    int used = 0;
    for (int g = 0; g < graph->nvalues; g++) {
        if (!is_loaded(graph, g, what)) continue;
        const struct mt_value *v = &graph->values[g];
        const struct mt_saved *t = source_of(file, v, what);
        if (!t && is_loss_scaling(v->name)) {
            mt_log(MT_LOG_INFO, "%s: has no %s; it is initialised", file->path, v->name);
            continue;
        }
        if (!t) {
            mt_fail(err, MT_EINPUT, "%s: has no tensor %s", file->path, v->name);
            return mt_err_hint(err, v->param ? "the file is of another model than the plan"
                                             : "the optimizer differs: --init FILE loads the weights alone");
        }
        struct mt_saved want = mt_saved_of(graph, g);
        enum mt_status st = check_shape(file, t, &want, err);
        if (st) return st;
        used++;
    }
    if (used == file->ntensors) return MT_OK;
    if (what == MT_LOAD_PARAMS) {
        mt_log(MT_LOG_INFO, "%s: %d tensors loaded, %d ignored that are not weights of this model", file->path, used,
               file->ntensors - used);
        return MT_OK;
    }
    for (int i = 0; i < file->ntensors; i++) {
        int g = mt_graph_find_value(graph, file->tensors[i].name);
        if ((g >= 0 && mt_is_state(graph, g)) || is_loss_scaling(file->tensors[i].name)) continue;
        mt_fail(err, MT_EINPUT, "%s: tensor %s is not a state of the plan's model and optimizer", file->path,
                file->tensors[i].name);
        return mt_err_hint(err, "--init FILE loads the weights alone");
    }
    return MT_OK;
}

enum mt_status mt_checkpoint_load(struct mt_states *states, const struct mt_safetensors *file, enum mt_load what,
                                  struct mt_err *err) {
    const struct mt_graph *graph = states->program->graph;
    enum mt_status st = states->rank ? MT_OK : check_file(graph, file, what, err);
    if ((st = mt_agree_rank0(states->comm, st, err))) return st;
    for (int g = 0; g < graph->nvalues; g++) {
        if (!is_loaded(graph, g, what)) continue;
        const struct mt_value *v = &graph->values[g];
        void *whole = states->rank ? NULL : mt_calloc(1, (size_t)mt_saved_of(graph, g).size_bytes);
        const struct mt_saved *source = whole ? source_of(file, v, what) : NULL;
        if (whole && !source)
            mt_init_fill(graph, g, &(struct mt_box){{0}, {0}}, 0, whole); /* a scalar that the file lacks */
        else if (whole && !states->st)
            states->st = mt_safetensors_read_as(file, source, v->type, whole, &states->err);
        mt_states_write(states, g, whole);
        mt_watch_progress();
        free(whole);
    }
    return mt_states_end(states, err);
}
