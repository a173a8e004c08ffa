/* Saving and loading: between the ranks' states and one file at rank 0, which holds one whole tensor at a time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* A checkpoint on its way to its files; null writers elsewhere than at rank 0. */
struct saving {
    const struct mt_graph *graph;
    const char *path, *optimizer_path;
    const struct mt_checkpoint_about *about;
    struct mt_arena arena;
    struct mt_safetensors_writer *weights, *optimizer; /* the second is null, too, if the program has no such state */
};

/* The tensors of the parameters, or of the other states. */
static struct mt_saved *list_tensors(struct saving *s, bool params, int *count) {
    struct mt_saved *tensors = mt_new(&s->arena, struct mt_saved, s->graph->nvalues);
    *count = 0;
    for (int g = 0; g < s->graph->nvalues; g++)
        if (mt_is_state(s->graph, g) && !s->graph->values[g].param == !params)
            tensors[(*count)++] = mt_saved_of(s->graph, g);
    return tensors;
}

static const char *name_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static enum mt_status create_optimizer(struct saving *s, struct mt_err *err) {
    int count;
    const struct mt_saved *tensors = list_tensors(s, false, &count);
    const struct mt_saved_note notes[] = {{"motley.made_by", "motley " MOTLEY_VERSION},
                                          {MT_WEIGHTS_NOTE, name_of(s->path)}};
    if (!count) return MT_OK;
    return mt_safetensors_create(s->optimizer_path, tensors, count, notes, 2, &s->optimizer, err);
}

/* The checksum of the other file is noted when that one is whole. */
static enum mt_status create_weights(struct saving *s, struct mt_err *err) {
    const struct mt_checkpoint_about *a = s->about;
    struct mt_arena *arena = &s->arena;
    int count, nnotes = 0;
    const struct mt_saved *tensors = list_tensors(s, true, &count);
    struct mt_saved_note notes[12] = {
        {"format", "pt"}, /* which readers of Hugging Face files require */
        {"motley.version", "1"},
        {"motley.made_by", "motley " MOTLEY_VERSION},
        {"motley.step", mt_arena_printf(arena, "%lld", (long long)a->step)},
        {"motley.samples", mt_arena_printf(arena, "%lld", (long long)a->samples)},
        {"motley.seed", mt_arena_printf(arena, "%llu", (unsigned long long)a->seed)},
        {"motley.model", a->model},
        {"motley.job", a->job},
        {"motley.plan_hash", a->plan_hash},
        {"motley.data_hash", a->data_hash},
    };
    while (nnotes < 12 && notes[nnotes].key) nnotes++;
    if (s->optimizer) {
        notes[nnotes++] = (struct mt_saved_note){MT_OPTIMIZER_NOTE, name_of(s->optimizer_path)};
        notes[nnotes++] = (struct mt_saved_note){MT_OPTIMIZER_HASH_NOTE, "0000000000000000"};
    }
    return mt_safetensors_create(s->path, tensors, count, notes, nnotes, &s->weights, err);
}

static enum mt_status append(void *context, const void *piece, size_t size_bytes, struct mt_err *err) {
    mt_watch_progress();
    return mt_safetensors_append(context, piece, size_bytes, err);
}

/* Both files are whole, and get their names, the weights last. */
static enum mt_status commit(struct saving *s, struct mt_err *err) {
    char digits[MT_CHECKSUM_DIGITS + 1];
    enum mt_status st = MT_OK;
    if (s->optimizer) {
        st = mt_safetensors_commit(s->optimizer, digits, err);
        s->optimizer = NULL;
        if (!st) mt_safetensors_renote(s->weights, MT_OPTIMIZER_HASH_NOTE, digits);
    }
    if (st) {
        mt_safetensors_abort(s->weights);
        return st;
    }
    st = mt_safetensors_commit(s->weights, NULL, err);
    if (st && access(s->path, F_OK)) unlink(s->optimizer_path); /* of no checkpoint */
    return st;
}

static enum mt_status save_states(struct saving *s, struct mt_states *states, struct mt_err *err) {
    enum mt_status st = MT_OK;
    if (!states->rank && !(st = create_optimizer(s, err)) && (st = create_weights(s, err)))
        mt_safetensors_abort(s->optimizer);
    if ((st = mt_agree_rank0(states->comm, st, err))) return st;
    for (int g = 0; g < s->graph->nvalues; g++)
        if (mt_is_state(s->graph, g))
            mt_states_read(states, g, append, s->graph->values[g].param ? s->weights : s->optimizer);
    if ((st = mt_states_end(states, err))) {
        mt_safetensors_abort(s->weights);
        mt_safetensors_abort(s->optimizer);
        return st;
    }
    return mt_agree_rank0(states->comm, states->rank ? MT_OK : commit(s, err), err);
}

enum mt_status mt_checkpoint_save(struct mt_states *states, const char *path, const struct mt_checkpoint_about *about,
                                  struct mt_err *err) {
    struct saving s = {.graph = states->program->graph, .path = path, .about = about};
    if (!states->rank) s.optimizer_path = mt_checkpoint_optimizer_path(path, &s.arena);
    enum mt_status st = save_states(&s, states, err);
    mt_arena_release(&s.arena);
    return st;
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
