/* Saving and loading: between the ranks' states and one file at rank 0, which holds one whole tensor at a time. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/log.h"
#include "launcher/session/agree.h"
#include "launcher/checkpoint/checkpoint.h"
#include "launcher/checkpoint/internal.h"
#include "launcher/watch/watch.h"
#include "synth/interp/init.h"

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
        {MT_MODEL_NOTE, a->model},
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

enum mt_status mt_checkpoint_load(struct mt_states *states, const struct mt_safetensors *file, enum mt_load what,
                                  struct mt_err *err) {
    const struct mt_graph *graph = states->program->graph;
    enum mt_status st = states->rank ? MT_OK : mt_checkpoint_check(graph, file, what, err);
    if ((st = mt_agree_rank0(states->comm, st, err))) return st;
    for (int g = 0; g < graph->nvalues; g++) {
        if (!mt_saved_is_loaded(graph, g, what)) continue;
        const struct mt_value *v = &graph->values[g];
        void *whole = states->rank ? NULL : mt_calloc(1, (size_t)mt_saved_of(graph, g).size_bytes);
        const struct mt_saved *source = whole ? mt_saved_source(file, v, what) : NULL;
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
