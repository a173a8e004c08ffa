/* Attempts, and what is decided between them. */
#include "launcher/launch/job.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "kernels/base/log.h"
#include "launcher/checkpoint/checkpoint.h"
#include "launcher/launch/again.h"
#include "launcher/launch/attempt.h"
#include "launcher/launch/slurm.h"
#include "launcher/run/restarts.h"
#include "profiler/describe/describe.h"

struct job {
    const struct mt_job_options *o;
    struct mt_arena arena;
    struct mt_hosts hosts;
    struct mt_cluster *cluster; /* the last one; null: none was given */
    struct mt_plan *plan;       /* the last one, with the names of its hosts */
    struct mt_places places;
    bool *lost;  /* [nranks]: not to be started again */
    int *deaths; /* [nranks] */
    const char *folder;
    int lock; /* of the first folder; -1: none */
    struct mt_err *err;
};

/* ---- before the first attempt ---- */

static enum mt_status open_hosts(struct job *j) {
    if (j->o->slurm) return mt_slurm_hosts(j->o->slurm, &j->arena, &j->hosts, j->err);
    enum mt_status st = mt_hosts_read(j->o->hosts, &j->arena, &j->hosts, j->err);
    if (st || j->o->dry_run) return st;
    mt_hosts_ask(&j->hosts, j->o->start.agent, j->o->answer_s, NULL);
    return MT_OK;
}

/* Hosts that the plan uses must answer; others are spare. */
static enum mt_status check_answers(struct job *j) {
    for (int r = 0; r < j->plan->nranks && !j->o->dry_run; r++) {
        const struct mt_host *host = &j->hosts.hosts[j->places.host[r]];
        if (host->answers) continue;
        mt_fail(j->err, MT_EMISSING, "%s does not answer: %s", host->name, host->why);
        return mt_err_hint(j->err, "`%s %s true` must work from here, or name another --agent", j->o->start.agent,
                           host->name);
    }
    return MT_OK;
}

/* The documents that are named, which must belong together. */
static enum mt_status open_documents(struct job *j, struct mt_plan **plan, struct mt_cluster **described) {
    const struct mt_job_options *o = j->o;
    enum mt_status st = mt_plan_read(o->plan, plan, j->err);
    if (st) return st;
    if ((*plan)->hypothetical[0]) {
        mt_fail(j->err, MT_EINPUT, "%s: is a hypothetical plan, which cannot run: %s", o->plan, (*plan)->hypothetical);
        return mt_err_hint(j->err, "plan without --hypothetical, for devices that run the job");
    }
    if (o->cluster && (st = mt_cluster_open(o->cluster, &j->cluster, j->err))) return st;
    if (o->described && (st = mt_cluster_open(o->described, described, j->err))) return st;
    if (!*described || !strcmp((*described)->hash, (*plan)->cluster_hash)) return MT_OK;
    return mt_fail(j->err, MT_EINPUT, "--described: %s was made for another cluster (%s) than this (%s)", o->plan,
                   (*plan)->cluster_hash[0] ? (*plan)->cluster_hash : "none", (*described)->hash);
}

/* "node0 is a.cluster, node1 is b.cluster" */
static void log_matched(struct job *j, const struct mt_plan *before) {
    const char *text = "";
    int nhosts, *host = mt_plan_hosts(before, &j->arena, &nhosts);
    for (int r = 0, next = 0; r < before->nranks; r++) {
        if (host[r] != next) continue;
        text = mt_arena_printf(&j->arena, "%s%s%s is %s", text, next++ ? ", " : "", before->ranks[r].host,
                               j->hosts.hosts[j->places.host[r]].says);
    }
    mt_log(MT_LOG_INFO, "launch: of the plan's nodes, %s", text);
}

static enum mt_status place_first(struct job *j) {
    struct mt_plan *plan = NULL;
    struct mt_cluster *described = NULL;
    enum mt_status st = open_documents(j, &plan, &described);
    if (!st) st = open_hosts(j);
    const struct mt_place_request request = {.plan = plan,
                                             .hosts = &j->hosts,
                                             .cluster = j->cluster,
                                             .described = described,
                                             .asked = !j->o->dry_run,
                                             .chosen = j->o->slurm != NULL};
    if (!st) st = mt_place(&request, &j->arena, &j->places, stderr, j->err);
    if (!st) st = mt_places_name(plan, &j->hosts, &j->places, &j->plan, j->err);
    if (!st && j->places.matched) log_matched(j, plan);
    mt_plan_free(plan);
    mt_cluster_free(described);
    return st ? st : check_answers(j);
}

static void count_from_here(struct job *j) {
    j->lost = mt_new(&j->arena, bool, j->plan->nranks);
    j->deaths = mt_new(&j->arena, int, j->plan->nranks);
}

/* ---- an attempt ---- */

static bool has_checkpoint(const char *folder) {
    int count = 0;
    struct mt_err ignored = MT_ERR_INIT;
    return folder && !mt_checkpoint_count(folder, &count, &ignored) && count;
}

/* The step of the newest checkpoint; 0: there is none. */
static int64_t last_step(const char *folder) {
    int64_t step = 0;
    struct mt_err ignored = MT_ERR_INIT;
    return folder && !mt_checkpoint_newest(folder, &step, &ignored) ? step : 0;
}

/* The flags of train: a run that has a checkpoint is gone on with. */
static char **words_of(struct job *j, bool go_on) {
    const struct mt_job_options *o = j->o;
    int n = 0, count = 0;
    while (o->words[n]) n++;
    char **words = mt_new(&j->arena, char *, n + 4);
    for (int i = 0; i < n; i++) words[count++] = o->words[i];
    if (go_on) {
        words[count++] = mt_arena_printf(&j->arena, "--resume=%s", o->out);
        return words;
    }
    if (o->out) words[count++] = mt_arena_printf(&j->arena, "--out=%s", o->out);
    if (o->resume) words[count++] = mt_arena_printf(&j->arena, "--resume=%s", o->resume);
    if (o->init) words[count++] = mt_arena_printf(&j->arena, "--init=%s", o->init);
    return words;
}

static bool is_used(const struct job *j, int host) {
    for (int r = 0; r < j->plan->nranks; r++)
        if (j->places.host[r] == host) return true;
    return false;
}

static int hosts_used(const struct job *j) {
    int n = 0;
    for (int h = 0; h < j->hosts.n; h++) n += is_used(j, h);
    return n;
}

static enum mt_status write_files(struct job *j, bool go_on) {
    const struct mt_job_files start = {.options = &j->o->start,
                                       .plan = j->plan,
                                       .hosts = &j->hosts,
                                       .places = &j->places,
                                       .folder = j->folder,
                                       .words = words_of(j, go_on)};
    return mt_job_files_write(&start, &j->arena, j->err);
}

/* Nodes of Slurm are not asked: no agent reaches them. */
static const char *unstarted(void *context, pid_t mpirun) {
    struct job *j = context;
    if (j->o->slurm) return "";
    bool *used = mt_new(&j->arena, bool, j->hosts.n);
    for (int h = 0; h < j->hosts.n; h++) used[h] = is_used(j, h);
    return mt_daemons_missing(mpirun, &j->hosts, used, j->o->start.agent, j->o->answer_s);
}

static enum mt_status attempt(struct job *j, struct mt_attempt *a) {
    enum { not_found = 127 }; /* a shell's exit code */
    const char *out = j->o->out;
    *a = (struct mt_attempt){.script = mt_arena_printf(&j->arena, "%s/mpirun.sh", j->folder),
                             .run = out ? mt_arena_printf(&j->arena, "%s/run.json", out) : NULL,
                             .start_s = j->o->start_s,
                             .end_s = j->o->end_s,
                             .unstarted = unstarted,
                             .context = j};
    mt_log(MT_LOG_INFO, "launch: %d rank%s on %d host%s, by %s", j->plan->nranks, j->plan->nranks == 1 ? "" : "s",
           hosts_used(j), hosts_used(j) == 1 ? "" : "s", a->script);
    enum mt_status st = mt_attempt_run(a, j->err);
    if (!st && a->code == not_found) {
        mt_fail(j->err, MT_EMISSING, "mpirun was not found on this host");
        return mt_err_hint(j->err, "install Open MPI (openmpi-bin), or add its folder to PATH");
    }
    if (!st && a->overdue && !a->hurried && a->started)
        mt_log(MT_LOG_WARN, "launch: mpirun did not end within %.0f s of its job, and was killed", j->o->end_s);
    return st;
}

/* ---- between attempts ---- */

/* Hosts of the last plan that do not answer now, "a, b"; "" if all do. */
static const char *silent_hosts(struct job *j) {
    const char *text = "";
    for (int h = 0; h < j->hosts.n; h++) {
        if (is_used(j, h) && !j->hosts.hosts[h].answers)
            text = mt_arena_printf(&j->arena, "%s%s%s", text, *text ? ", " : "", j->hosts.hosts[h].name);
    }
    return text;
}

/* Note a rank that died for the second time as lost. Names in what is said are the plan's. */
static bool note_death(struct job *j, const struct mt_attempt *a) {
    int rank = a->lost_rank;
    if (rank < 0 || rank >= j->plan->nranks || ++j->deaths[rank] < 2) return false;
    return j->lost[rank] = true;
}

static enum mt_status plan_again(struct job *j) {
    struct mt_plan *again;
    struct mt_cluster *left;
    mt_attempt_idle(true); /* a search takes a while */
    enum mt_status st = mt_again(j->plan, &j->hosts, &j->places, j->lost, j->cluster, &again, &left, j->err);
    mt_attempt_idle(false);
    if (st) return st;
    mt_plan_free(j->plan);
    j->plan = NULL;
    if (left) {
        mt_cluster_free(j->cluster);
        j->cluster = left;
    } else {
        mt_cluster_free(j->cluster); /* devices of the plan are not its devices any more */
        j->cluster = NULL;
    }
    const struct mt_place_request request = {.plan = again, .hosts = &j->hosts, .cluster = j->cluster, .asked = true};
    if (!(st = mt_place(&request, &j->arena, &j->places, stderr, j->err)))
        st = mt_places_name(again, &j->hosts, &j->places, &j->plan, j->err);
    mt_plan_free(again);
    if (!st) count_from_here(j);
    return st;
}

static enum mt_status prepare_again(struct job *j, const struct mt_attempt *a, int number) {
    const char *why = a->lost[0] ? a->lost : a->overdue ? "mpirun hung" : "mpirun ended";
    enum mt_status st = MT_OK;
    if (!j->o->slurm) mt_hosts_ask(&j->hosts, j->o->start.agent, j->o->answer_s, mt_attempt_asked);
    if (mt_attempt_asked()) return MT_OK;
    const char *silent = silent_hosts(j);
    bool left_out = note_death(j, a), changed = *silent || left_out;
    const char *there = *silent ? mt_arena_printf(&j->arena, "%s does not answer", silent)
                        : left_out
                            ? mt_arena_printf(&j->arena, "all hosts answer, but rank %d died twice", a->lost_rank)
                            : "all hosts answer";
    j->folder = mt_arena_printf(&j->arena, "%s/restart-%d", j->o->folder, number);
    mt_log(MT_LOG_WARN, "launch: %s; %s", why, there);
    if (mkdir(j->folder, 0777) && errno != EEXIST) return mt_fail_errno(j->err, "%s", j->folder);
    if (changed && (st = plan_again(j))) return st;
    if (changed && j->cluster &&
        (st = mt_cluster_write(j->cluster, mt_arena_printf(&j->arena, "%s/cluster.json", j->folder), j->err)))
        return st;
    bool go_on = has_checkpoint(j->o->out);
    const char *what = mt_arena_printf(&j->arena, "restart %d of %d, by %s", number, j->o->restarts,
                                       changed ? "a new plan" : "the same plan");
    mt_log(MT_LOG_WARN, "launch: %s: %s", what,
           go_on ? mt_arena_printf(&j->arena, "from the last checkpoint of %s", j->o->out)
                 : "from the beginning: there is no checkpoint yet");
    const struct mt_restart noted = {last_step(j->o->out), mt_arena_printf(&j->arena, "%s: %s; %s", what, why, there)};
    if (j->o->out && (st = mt_restarts_add(j->o->out, &noted, j->err))) return st;
    return write_files(j, go_on);
}

/* Checkpoints that are there already are another run's: train refuses them, but a restart would go on with them. */
static enum mt_status check_run(const struct job *j) {
    const struct mt_job_options *o = j->o;
    if (o->slurm || !has_checkpoint(o->out) || (o->resume && mt_file_same(o->out, o->resume))) return MT_OK;
    mt_fail(j->err, MT_EINPUT, "--out %s: holds checkpoints of another run", o->out);
    return mt_err_hint(j->err, "go on with that run (-- --resume %s), or choose another folder", o->out);
}

/* Two that start a job in one folder would replace each other's files. The lock ends with the process; on a file system
 * without locks there is none. */
static enum mt_status lock_folder(struct job *j) {
    enum mt_status st = mt_job_folder_make(j->folder, j->err);
    if (st) return st;
    j->lock = open(mt_arena_printf(&j->arena, "%s/.lock", j->folder), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (j->lock < 0 || !flock(j->lock, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK) return MT_OK;
    mt_fail(j->err, MT_EINPUT, "--out %s: another `motley launch` runs there", j->folder);
    return mt_err_hint(j->err, "wait until it has ended, or choose another folder");
}

static enum mt_status run(struct job *j, int *code) {
    struct mt_attempt a;
    enum mt_status st = mt_attempt_prepare(j->err);
    if (j->o->out && !has_checkpoint(j->o->out)) /* those of a run that was removed from the folder */
        unlink(mt_arena_printf(&j->arena, "%s/" MT_RESTARTS_CSV, j->o->out));
    for (int number = 1; !st; number++) {
        if ((st = attempt(j, &a))) break;
        *code = a.code;
        if (!a.died || a.asked || mt_attempt_asked() || number > j->o->restarts) break;
        st = prepare_again(j, &a, number);
        if (!st && mt_attempt_asked()) break;
    }
    if (!st && j->o->requeue && mt_attempt_out_of_time() && !*code) st = mt_slurm_requeue(j->o->out, j->err);
    return st;
}

/* Who goes where, after a dry run. */
static void tell_places(struct job *j) {
    struct mt_tables *doc = j->o->doc;
    mt_tables_say(doc, "written: %s/mpirun.sh, for %d rank%s on %d host%s", j->folder, j->plan->nranks,
                  j->plan->nranks == 1 ? "" : "s", hosts_used(j), hosts_used(j) == 1 ? "" : "s");
    struct mt_table *t = mt_tables_add(doc, "places", "", "");
    mt_table_columns(t, {"rank", "rank", MT_UNIT_COUNT}, {"host", "host", MT_UNIT_TEXT},
                     {"class", "class", MT_UNIT_TEXT}, {"cores", "cores", MT_UNIT_TEXT}, {"gpu", "GPU", MT_UNIT_COUNT},
                     {"device", "of the profile", MT_UNIT_COUNT});
    for (int r = 0; r < j->plan->nranks; r++) {
        mt_table_row(t);
        mt_cell_int(t, r);
        mt_cell_text(t, "%s", j->hosts.hosts[j->places.host[r]].name);
        mt_cell_text(t, "%s", j->plan->ranks[r].class);
        mt_cell_text(t, "%s", j->places.cores[r][0] ? j->places.cores[r] : "not bound");
        for (int i = 0; i < 2; i++) {
            int number = i ? j->places.device[r] : j->places.gpu[r];
            if (number < 0)
                mt_cell_none(t);
            else
                mt_cell_int(t, number);
        }
    }
    mt_table_fold(t, 1, "ranks");
}

static void close_job(struct job *j) {
    if (j->lock >= 0) close(j->lock);
    mt_plan_free(j->plan);
    mt_cluster_free(j->cluster);
    mt_arena_release(&j->arena);
}

enum mt_status mt_job_launch(const struct mt_job_options *options, int *code, struct mt_err *err) {
    struct job j = {.o = options, .folder = options->folder, .lock = -1, .err = err};
    *code = 0;
    enum mt_status st = place_first(&j);
    if (!st && !options->dry_run) st = check_run(&j);
    if (!st) st = lock_folder(&j);
    if (!st) {
        count_from_here(&j);
        st = write_files(&j, options->slurm && has_checkpoint(options->out)); /* a job that was queued again */
    }
    if (!st && options->dry_run)
        tell_places(&j);
    else if (!st)
        st = run(&j, code);
    close_job(&j);
    return st;
}

/* ---- Slurm ---- */

/* The nodes by name, where they are known: those of the hostfile that the plan gets, or those of the profile that it
 * was made from. */
static const char *const *names_of(struct job *j) {
    int nhosts, *host = mt_plan_hosts(j->plan, &j->arena, &nhosts), next = 0;
    const struct mt_cluster *c = j->cluster;
    bool known = j->o->hosts || (c && !strcmp(c->source, "measured") && !strcmp(c->hash, j->plan->cluster_hash));
    if (!known || !j->plan->ranks[0].host[0]) return NULL;
    const char **names = mt_new(&j->arena, const char *, nhosts + 1);
    for (int r = 0; r < j->plan->nranks; r++)
        if (host[r] == next)
            names[next++] = j->o->hosts ? j->hosts.hosts[j->places.host[r]].name : j->plan->ranks[r].host;
    return names;
}

enum mt_status mt_job_write_slurm(const struct mt_job_options *options, struct mt_slurm_options *slurm,
                                  struct mt_err *err) {
    struct mt_job_options only_write = *options;
    struct job j = {.o = &only_write, .folder = options->folder, .lock = -1, .err = err};
    struct mt_cluster *described = NULL;
    only_write.dry_run = true; /* nodes may be busy, and need not answer */
    enum mt_status st = options->hosts ? place_first(&j) : open_documents(&j, &j.plan, &described);
    mt_cluster_free(described);
    if (!st && !(st = mt_slurm_check(slurm, err))) st = lock_folder(&j);
    if (!st) st = mt_plan_write(j.plan, mt_arena_printf(&j.arena, "%s/plan.json", options->folder), err);
    if (!st) {
        slurm->names = names_of(&j);
        st = mt_slurm_write(slurm, j.plan, &j.arena, err);
    }
    if (!st) printf("written: %s/job.sbatch\n", options->folder);
    close_job(&j);
    return st;
}
