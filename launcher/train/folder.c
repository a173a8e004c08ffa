/* The run's folder, at rank 0: --out, or the folder of --resume, or the first free of run, run-2, ... */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "kernels/base/log.h"
#include "launcher/checkpoint/publish.h"
#include "launcher/checkpoint/weights.h"
#include "launcher/train/internal.h"
#include "planner/make/planning.h"
#include "profiler/describe/describe.h"

/* Two runs that write to one folder would replace each other's checkpoints. The lock ends with the process; on a file
 * system without locks there is none. */
static enum mt_status lock_folder(struct trainer *t, struct mt_err *err) {
    t->lock = open(t->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (t->lock < 0 || !flock(t->lock, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK) return MT_OK;
    mt_fail(err, MT_EINPUT, "--out %s: another run is writing to it", t->folder);
    return mt_err_hint(err, "wait until that run has ended, or choose another folder");
}

/* Making it is what claims it, so two runs that begin at once have two folders. */
static enum mt_status make_first_free(struct trainer *t, struct mt_err *err) {
    enum { MOST_FOLDERS = 100000 };
    for (int i = 1; i <= MOST_FOLDERS; i++) {
        t->folder = i == 1 ? "run" : mt_arena_printf(&t->arena, "run-%d", i);
        if (!mkdir(t->folder, 0777)) {
            t->made_folder = true;
            mt_log(MT_LOG_INFO, "checkpoints, run.json and metrics are written to %s; --out names another folder",
                   t->folder);
            return MT_OK;
        }
        if (errno != EEXIST) break;
    }
    mt_fail_errno(err, "%s: a folder for checkpoints cannot be made", t->folder);
    mt_err_hint(err, "name one with --out FOLDER, or say --no-out, which writes nothing");
    return err->status = MT_EINPUT;
}

static enum mt_status open_named(struct trainer *t, const char *folder, struct mt_err *err) {
    t->folder = folder;
    if (mkdir(folder, 0777) && errno != EEXIST) {
        mt_fail_errno(err, "--out %s", folder);
        return err->status = MT_EINPUT;
    }
    if (!mt_is_folder(folder)) {
        mt_fail(err, MT_EINPUT, "--out %s: is a file, not a folder", folder);
        return mt_err_hint(err, "name a folder: checkpoints and run.json are written into it");
    }
    if (access(folder, W_OK | X_OK)) {
        mt_fail_errno(err, "--out %s: checkpoints cannot be written there", folder);
        return err->status = MT_EINPUT;
    }
    return MT_OK;
}

static bool has_file(struct trainer *t, const char *name) {
    struct stat about;
    return !stat(mt_arena_printf(&t->arena, "%s/%s", t->folder, name), &about) && S_ISREG(about.st_mode);
}

/* Weights of its own would hide the checkpoints, or lose their index to them. */
static enum mt_status refuse_model(struct trainer *t, struct mt_err *err) {
    const char *there = has_file(t, MT_WEIGHTS_NAME)    ? MT_WEIGHTS_NAME
                        : has_file(t, MT_WEIGHTS_INDEX) ? MT_WEIGHTS_INDEX
                                                        : NULL;
    if (!there) return MT_OK;
    mt_fail(err, MT_EINPUT, "--out %s: holds the weights of another model (%s)", t->folder, there);
    return mt_err_hint(
        err, "name a folder of its own for the run: checkpoints beside those weights would be taken for them");
}

/* A folder with checkpoints is gone on with, or refused. */
static enum mt_status take_over(struct trainer *t, struct mt_err *err) {
    int there;
    enum mt_status st = mt_checkpoint_count(t->folder, &there, err);
    if (st) return st;
    if (!there) return refuse_model(t, err);
    if (t->options->resume && mt_file_same(t->folder, t->options->resume)) {
        t->saved_step = t->step;
        if ((st = mt_checkpoint_set_aside(t->folder, t->step, err))) return st;
        return mt_trainer_publish(t, err);
    }
    mt_fail(err, MT_EINPUT, "--out %s: holds %d checkpoint%s of another run", t->folder, there, there == 1 ? "" : "s");
    return mt_err_hint(err, "go on with that run (--resume %s), or choose another folder", t->folder);
}

/* The predicted step of a trace, simulated before the run, so that a wrong cluster is refused then. */
static enum mt_status predict(struct trainer *t, struct mt_err *err) {
    struct mt_cluster *cluster;
    const struct mt_train_options *o = t->options;
    enum mt_status st = mt_cluster_open(o->cluster, &cluster, err);
    if (st) return st;
    st = mt_planning_same(t->plan, o->plan, cluster, o->cluster, err);
    if (!st) st = mt_planning_timeline(t->plan, &t->planned.program, cluster, &t->predicted, err);
    mt_cluster_free(cluster);
    return st;
}

enum mt_status mt_trainer_prepare_folder(struct trainer *t, struct mt_err *err) {
    const struct mt_train_options *o = t->options;
    const char *named = o->out ? o->out : o->resume && mt_is_folder(o->resume) ? o->resume : NULL;
    const char *given = o->data->reading.tokenizer;
    enum mt_status st = o->resume ? mt_publish_check_tokenizer(mt_folder_of(o->resume, &t->arena), given, err) : MT_OK;
    if (st || o->eval_only) return st;
    /* Write an empty trace now, so that a file that cannot be written is refused before the run. */
    if (o->trace && mt_file_replace(o->trace, "[\n]\n", 4, err)) return mt_err_context(err, "--trace");
    if (o->cluster && predict(t, err)) return mt_err_context(err, "--cluster");
    if (o->no_out) return MT_OK;
    st = named ? open_named(t, named, err) : make_first_free(t, err);
    if (st || (st = lock_folder(t, err)) || (st = mt_publish_check_tokenizer(t->folder, given, err)) ||
        (st = take_over(t, err)))
        return st;
    t->keeps = true;
    return MT_OK;
}

void mt_trainer_leave_folder(struct trainer *t) {
    if (t->lock >= 0) close(t->lock);
    if (t->made_folder) rmdir(t->folder); /* of a run that has not begun: it is empty */
}

enum mt_status mt_trainer_publish(struct trainer *t, struct mt_err *err) {
    const char *init = t->options->init;
    struct mt_publish about = {.folder = t->folder,
                               .graph = t->planned.graph,
                               .model = &t->planned.model,
                               .dropout = t->plan->job.dropout,
                               .init = init ? mt_folder_of(init, &t->arena) : NULL,
                               .tokenizer = t->options->data->reading.tokenizer};
    return mt_checkpoint_publish(&about, t->step, err);
}
