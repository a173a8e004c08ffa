/* States of a training run: initialised from the seed, loaded, saved, compared. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "kernels/base/log.h"
#include "kernels/base/text/units.h"
#include "launcher/checkpoint/weights.h"
#include "launcher/session/agree.h"
#include "launcher/train/internal.h"
#include "launcher/watch/watch.h"
#include "synth/models/config/config.h"

static enum mt_status get_state(void *context, int gvalue, int64_t at, int64_t size_bytes, void *to,
                                struct mt_err *err) {
    const struct trainer *t = context;
    const char *box = mt_executor_state(t->executor, gvalue)->data;
    return mt_device_copy_out(t->device, to, box + at, size_bytes, err);
}

static enum mt_status set_state(void *context, int gvalue, int64_t at, int64_t size_bytes, const void *from,
                                struct mt_err *err) {
    const struct trainer *t = context;
    char *box = mt_executor_state(t->executor, gvalue)->data;
    mt_executor_states_changed(t->executor);
    return mt_device_copy_in(t->device, box + at, from, size_bytes, err);
}

static struct mt_states states_of(struct trainer *t) {
    struct mt_states states;
    mt_states_init(&states, t->comm, &t->planned.program, (struct mt_state_memory){t, get_state, set_state});
    return states;
}

static void say_changes(const struct trainer *t, const char *path, const char *then) {
    struct mt_arena arena = MT_ARENA_INIT;
    char *now = mt_job_text(&t->plan->job);
    const char *changes = mt_job_changes(then, now, &arena);
    if (*changes) mt_log(MT_LOG_WARN, "%s: was trained by another job: %s", path, changes);
    free(now);
    mt_arena_release(&arena);
}

/* At rank 0: check the checkpoint's metadata against the plan. */
static enum mt_status check_about(struct trainer *t, const struct mt_safetensors *file, struct mt_err *err) {
    struct mt_checkpoint_about about;
    enum mt_status st = mt_checkpoint_about(file, &about, err);
    if (st) return st;
    if (strcmp(about.model, t->plan->model)) {
        mt_fail(err, MT_EINPUT, "%s: is of model %.200s, but the plan is for %.200s", file->path, about.model,
                t->plan->model);
        return mt_err_hint(err, "plan for that model, or start from other weights with --init");
    }
    if (about.seed != t->plan->job.seed)
        mt_log(MT_LOG_WARN, "%s: was trained with seed %llu; the plan's is %llu: the order of the data changes",
               file->path, (unsigned long long)about.seed, (unsigned long long)t->plan->job.seed);
    if (strcmp(about.data_hash, t->run.data_hash))
        mt_log(MT_LOG_WARN, "%s: was trained on other data, or with another validation part", file->path);
    say_changes(t, file->path, about.job);
    t->step = about.step, t->samples = about.samples;
    mt_log(MT_LOG_INFO, "resuming from %s: step %lld, %lld samples seen", file->path, (long long)about.step,
           (long long)about.samples);
    return MT_OK;
}

/* Weights of the right shapes may be those of another model, which differs in a constant, as the rotation of positions.
 * `text`, the model that their config.json describes, must be the plan's, but for the longest sequence. */
static enum mt_status check_model(const struct trainer *t, const char *text, struct mt_err *err) {
    struct mt_model theirs;
    const struct mt_model *ours = &t->planned.model;
    const char *init = t->options->init;
    enum mt_status st = mt_model_parse(text, &theirs, err);
    if (st) return mt_err_context(err, "--init %s", init);
    bool same = theirs.class == ours->class;
    for (int i = 0; i < theirs.noptions && same; i++)
        same = theirs.options[i].value == ours->options[i].value || !strcmp(theirs.options[i].name, "context");
    if (same) return MT_OK;
    mt_fail(err, MT_EINPUT, "--init %s: is a %.300s, but the plan is for %.300s", init, text, t->plan->model);
    return mt_err_hint(err, "plan with --model %s", mt_is_folder(init) ? init : text);
}

/* The config.json in the folder that --init names, or beside the file that it names. */
static enum mt_status check_config(const struct trainer *t, struct mt_err *err) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_config config;
    const char *folder = mt_folder_of(t->options->init, &arena);
    enum mt_status st = MT_OK;
    if (!access(mt_arena_printf(&arena, "%s/" MT_CONFIG_NAME, folder), F_OK) &&
        !(st = mt_config_read(folder, &arena, &config, err)))
        st = check_model(t, config.model, err);
    mt_arena_release(&arena);
    return st;
}

static enum mt_status open_source(struct trainer *t, struct mt_safetensors **file, struct mt_err *err) {
    const struct mt_train_options *o = t->options;
    enum mt_status st;
    if (o->resume) {
        st = mt_checkpoint_open(o->resume, file, err);
        return st ? st : check_about(t, *file, err);
    }
    if ((st = check_config(t, err)) || (st = mt_weights_open(o->init, file, err))) return st;
    const char *model = mt_safetensors_note(*file, MT_MODEL_NOTE);
    if (model && (st = check_model(t, model, err))) return st;
    return mt_safetensors_carries_checksums(*file) ? mt_safetensors_verify(*file, err) : MT_OK;
}

/* At rank 0: when the run goes on in its folder, take over run.json up to this step. */
static void continue_document(struct trainer *t) {
    if (!t->folder || t->saved_step < 0) return;
    struct mt_arena arena = MT_ARENA_INIT;
    const char *path = mt_arena_printf(&arena, "%s/run.json", t->folder);
    struct mt_run_doc before;
    struct mt_err err = MT_ERR_INIT;
    if (mt_run_read(path, &before, &err)) {
        mt_log(MT_LOG_WARN, "the earlier losses are lost: %s", err.text);
    } else {
        int64_t lost = mt_run_continue(&t->run, &before, t->step);
        if (lost)
            mt_log(MT_LOG_WARN, "%s: ends at step %lld: the losses of steps %lld to %lld are lost", path,
                   (long long)(t->step - lost), (long long)(t->step - lost + 1), (long long)t->step);
        mt_run_release(&before);
    }
    mt_arena_release(&arena);
}

enum mt_status mt_trainer_load(struct trainer *t, struct mt_err *err) {
    const struct mt_train_options *o = t->options;
    struct mt_safetensors *file = NULL;
    enum mt_status st = MT_OK;
    mt_watch_phase(MT_WATCH_SLOW, o->resume || o->init ? "loading states" : "initialising states");
    if (!t->rank && (o->resume || o->init)) st = open_source(t, &file, err);
    if (!st && !t->rank) st = mt_trainer_prepare_folder(t, err);
    if ((st = mt_agree_rank0(t->comm, st, err))) goto out;
    if (!o->resume) {
        st = mt_executor_init_states(t->executor, t->planned.graph, t->plan->job.seed, err);
        if ((st = mt_agree(t->comm, st, err))) goto out;
    }
    if (o->resume || o->init) {
        struct mt_states states = states_of(t);
        if ((st = mt_checkpoint_load(&states, file, o->resume ? MT_LOAD_ALL : MT_LOAD_PARAMS, err))) goto out;
    }
    int64_t at[4] = {t->step, t->samples, t->saved_step, t->keeps};
    MPI_Bcast(at, 4, MPI_INT64_T, 0, t->comm);
    t->step = at[0], t->samples = at[1], t->saved_step = at[2], t->keeps = at[3] != 0;
    t->first_step = t->step;
    t->run.first_step = t->step + 1;
    if (!t->rank) continue_document(t);
    if (!t->rank && t->keeps) st = mt_metrics_open(t->folder, t->step, &t->metrics, err);
    st = mt_agree_rank0(t->comm, st, err);
out:
    mt_safetensors_close(file);
    return st;
}

enum mt_status mt_trainer_save(struct trainer *t, struct mt_err *err) {
    if (!t->keeps) {
        if (!t->rank) mt_log(MT_LOG_WARN, "no checkpoint was written: --no-out says so");
        return MT_OK;
    }
    struct mt_arena arena = MT_ARENA_INIT;
    double start_s = mt_now_s();
    mt_watch_phase(MT_WATCH_SLOW, "the checkpoint of step %lld", (long long)t->step);
    char *job = mt_job_text(&t->plan->job), size[MT_UNITS_TEXT];
    const char *path = t->rank ? NULL : mt_checkpoint_path(t->folder, t->step, &arena);
    struct mt_checkpoint_about about = {.step = t->step,
                                        .samples = t->samples,
                                        .seed = t->plan->job.seed,
                                        .model = t->plan->model,
                                        .job = job,
                                        .plan_hash = t->plan->hash,
                                        .data_hash = t->run.data_hash};
    struct mt_states states = states_of(t);
    enum mt_status st = mt_checkpoint_save(&states, path, &about, err);
    if (!st && !t->rank) {
        mt_progress_say(&t->progress, "checkpoint %s (%s, %.2f s)", path,
                        mt_units_bytes((double)mt_checkpoint_bytes(path), size), mt_now_s() - start_s);
        st = mt_trainer_publish(t, err);
        if (!st) st = mt_checkpoint_prune(t->folder, t->options->keep, err);
    }
    st = mt_agree_rank0(t->comm, st, err);
    if (!st) t->saved_step = t->step;
    t->saved_s = mt_now_s(); /* also when it failed: it is tried again later */
    free(job);
    mt_arena_release(&arena);
    return st;
}

enum mt_status mt_trainer_compare(struct trainer *t, struct mt_err *err) {
    struct mt_states states = states_of(t);
    mt_watch_phase(MT_WATCH_SLOW, "the comparison of replicas after step %lld", (long long)t->step);
    enum mt_status st = mt_states_compare(&states, err);
    if (st && !t->rank) mt_err_context(err, "after step %lld", (long long)t->step);
    return st;
}

enum mt_status mt_trainer_hash(struct trainer *t, struct mt_err *err) {
    struct mt_states states = states_of(t);
    uint64_t hash;
    mt_watch_phase(MT_WATCH_SLOW, "hashing parameters");
    enum mt_status st = mt_states_hash(&states, &hash, err);
    if (!st) t->run.parameter_hash = mt_arena_printf(&t->run.arena, "%016llx", (unsigned long long)hash);
    return st;
}
