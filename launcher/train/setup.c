/* From the options to an executor: ranks, equal inputs on all ranks, the program, the device. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/log.h"
#include "launcher/flags/data_flags.h"
#include "launcher/flags/files.h"
#include "launcher/session/agree.h"
#include "launcher/session/rank_device.h"
#include "launcher/train/internal.h"
#include "launcher/tune/alike.h"
#include "launcher/tune/tuning.h"
#include "launcher/watch/watch.h"

/* The first part of the version: "Open MPI v4.1.4". */
static const char *mpi_version(void) {
    static char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(text, &length);
    text[strcspn(text, ",\n")] = 0;
    return text;
}

/* A hypothetical plan only predicts. --device, or the plan's kind. A plan for a cluster has shares for its kind of
 * devices only; a plan by speeds runs on any kind. */
static enum mt_status choose_kind(struct trainer *t, struct mt_err *err) {
    const char *asked = t->options->device;
    if (t->plan->hypothetical[0]) {
        mt_fail(err, MT_EINPUT, "%s: is a hypothetical plan, which cannot run here: %s", t->options->plan,
                t->plan->hypothetical);
        return mt_err_hint(err, "plan without --hypothetical, for devices that run the job");
    }
    t->kind = asked ? asked : t->plan->device;
    if (!t->plan->cluster_hash[0] || !strcmp(t->kind, t->plan->device)) return MT_OK;
    mt_fail(err, MT_EINPUT, "--device %s: %s was made for a cluster of kind %s", asked, t->options->plan,
            t->plan->device);
    return mt_err_hint(err, "leave out --device, or plan for a profile of such devices");
}

static enum mt_status read_plan(struct trainer *t, struct mt_err *err) {
    mt_watch_phase(MT_WATCH_SLOW, "reading the plan");
    enum mt_status st = mt_plan_read(t->options->plan, &t->plan, err);
    if ((st = mt_agree(MPI_COMM_WORLD, st, err)) ||
        (st = mt_agree_same(MPI_COMM_WORLD, "the version of MPI", mpi_version(), err)) ||
        (st = mt_agree_same(MPI_COMM_WORLD, "the plan", t->plan->hash, err)))
        return st;
    return mt_agree(MPI_COMM_WORLD, choose_kind(t, err), err);
}

/* The communicators, and who leads: the first rank that takes part. */
static void join_comms(struct trainer *t, int rank) {
    int place = t->place[rank];
    MPI_Comm_split(MPI_COMM_WORLD, 0, rank, &t->all);
    MPI_Comm_split(t->all, place < 0 ? MPI_UNDEFINED : 0, place, &t->comm);
    t->rank = place;
    t->nranks = t->plan->nplaces;
    if (place >= 0) mt_agree_name_ranks(t->comm, t->plan->order);
    mt_log_rank(rank, !place);
    mt_watch_rank(rank);
}

/* Give every process the plan's rank for its host, whatever the order of mpirun. */
static enum mt_status take_ranks(struct trainer *t, struct mt_err *err) {
    enum { HOST_BYTES = 256 };
    int me, n;
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    char mine[HOST_BYTES] = {0}, *names = mt_arena_alloc(&t->arena, (size_t)n * HOST_BYTES);
    const char **hosts = mt_new(&t->arena, const char *, n);
    int *rank_of = mt_new(&t->arena, int, n);
    strncpy(mine, mt_agree_host(), HOST_BYTES - 1);
    MPI_Allgather(mine, HOST_BYTES, MPI_CHAR, names, HOST_BYTES, MPI_CHAR, MPI_COMM_WORLD);
    for (int r = 0; r < n; r++) hosts[r] = names + (size_t)r * HOST_BYTES;
    enum mt_status st = mt_plan_match(t->plan, n, hosts, rank_of, err);
    if (st) mt_err_context(err, "%s", t->options->plan);
    st = mt_agree(MPI_COMM_WORLD, st, err);
    if (st) return st;
    t->place = mt_plan_places(t->plan, &t->arena);
    t->hosts = mt_new(&t->arena, const char *, n);
    for (int r = 0; r < n; r++) t->hosts[rank_of[r]] = hosts[r];
    join_comms(t, rank_of[me]);
    return MT_OK;
}

static enum mt_status open_data(struct trainer *t, struct mt_err *err) {
    const struct mt_graph *g = t->planned.graph;
    int tokens = mt_graph_find_value(g, "tokens");
    t->batch = mt_value_extent(g, tokens, 0), t->seq = mt_value_extent(g, tokens, 1);
    struct mt_data_options options = {.files = t->options->data,
                                      .val_fraction = t->options->val_fraction,
                                      .seq = t->seq,
                                      .vocab = mt_model_get(&t->planned.model, "vocab"),
                                      .seed = t->plan->job.seed};
    mt_watch_phase(MT_WATCH_SLOW, "reading the data");
    enum mt_status st = mt_agree(t->comm, mt_data_open(&options, &t->data, err), err);
    if (st) return st;
    char hash[17];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)t->data.hash);
    if ((st = mt_agree_same(t->comm, "the data", hash, err))) return st;
    if (!t->rank) mt_data_warn(&t->data, !t->options->eval_only);
    enum { BYTES = 256, MANY = 2 * BYTES };
    if (!t->rank && options.vocab > MANY && t->data.sources[0].files[0].bytes && !t->options->data->reading.tokenizer)
        mt_log(MT_LOG_WARN, "each byte of the data is a token, of %d, but the model has %lld: --tokenizer reads text",
               BYTES, (long long)options.vocab);
    const char *evaluates = t->options->eval_only ? "--eval-only" : t->options->eval_every ? "--eval-every" : NULL;
    if (evaluates && !t->data.val_count) {
        if (!t->rank)
            mt_fail(err, MT_EINPUT, "%s: there is no validation part: see --val-fraction and --val", evaluates);
        return MT_EINPUT;
    }
    t->run.data_hash = mt_arena_strdup(&t->run.arena, hash);
    return MT_OK;
}

static enum mt_status lower(struct trainer *t, struct mt_err *err) {
    enum mt_status st =
        mt_emulation_apply(&t->options->emulation, t->plan->order[t->rank], t->device, &t->mine.emulated, err);
    if (st) return st;
    int all;
    t->mine.multiprocessors = mt_device_multiprocessors(t->device, &all);
    t->mine.all_multiprocessors = all;
    struct mt_lower_options options = mt_planned_lower_options(t->device);
    if ((st = mt_lower(&t->planned.program, t->rank, &options, &t->lowered[MT_RUN_TRAIN], err))) return st;
    options.states = t->lowered[MT_RUN_TRAIN];
    return t->data.val_count ? mt_lower(&t->eval_program, t->rank, &options, &t->lowered[MT_RUN_FORWARD], err) : MT_OK;
}

static int64_t resident_bytes(void) {
    long long pages = 0, all;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%lld %lld", &all, &pages) != 2) pages = 0;
    if (f) fclose(f);
    return pages * sysconf(_SC_PAGESIZE);
}

static void query(void *context, struct mt_watch_progress *progress) {
    struct mt_executor_progress now;
    mt_executor_query(context, &now);
    memcpy(progress->text, now.text, sizeof progress->text);
    progress->progress = now.completed;
    progress->waits = now.waits;
}

static enum mt_status make_executor(struct trainer *t, struct mt_err *err) {
    mt_watch_phase(MT_WATCH_SLOW, "opening the device");
    enum mt_status st = mt_rank_device_take(t->comm, &t->chosen, &t->device, err);
    if (st) return st;
    mt_watch_phase(MT_WATCH_SLOW, "lowering the program");
    if ((st = mt_agree(t->comm, lower(t, err), err)) || (st = mt_trainer_check_memory(t, err))) return st;
    const struct mt_lowered *const lowered[] = {t->lowered[MT_RUN_TRAIN], t->lowered[MT_RUN_FORWARD]};
    if ((st = mt_alike_check(t->comm, t->device, &t->planned.program, err)) ||
        (st = mt_tuning_share(t->comm, t->device, lowered, MT_NRUNS, NULL, err)))
        return st;
    t->mine.start_rss_bytes = resident_bytes();
    mt_watch_phase(MT_WATCH_SLOW, "connecting the ranks");
    if ((st = mt_rank_wire_open(t->comm, t->kind, t->options->deadline_s, &t->wire, err))) return st;
    mt_comm_name_ranks(t->wire, t->plan->order);
    st = mt_executor_new(t->device, t->wire, t->lowered[MT_RUN_TRAIN], t->lowered[MT_RUN_FORWARD],
                         t->options->deadline_s, &t->executor, err);
    if (!st) mt_watch_observe(query, t->executor);
    return mt_agree(t->comm, st, err);
}

static void start_documents(struct trainer *t) {
    const struct mt_plan *p = t->plan;
    t->run.made_by = "motley " MOTLEY_VERSION;
    t->run.mpi = mpi_version();
    t->run.plan_hash = p->hash, t->run.program_hash = p->program_hash, t->run.model = p->model;
    t->run.tokens_per_step = t->batch * t->seq;
    t->mine.samples = t->planned.program.batch_size[t->rank];
    if (!t->rank) mt_run_expect(&t->run, p);
    for (int r = 0; r < p->nranks; r++)
        if (t->place[r] < 0) mt_run_idle(&t->run, r, t->hosts[r]);
    const struct mt_plan_split *batch = mt_plan_split_named(p, "batch");
    mt_drift_init(&t->drift, t->nranks, mt_plan_at_places(p, batch->sizes, &t->arena), batch->align);
    t->saved_step = -1;
    t->last_step = t->options->steps >= 0 ? t->options->steps : p->job.steps;
    if (t->options->eval_only) t->last_step = 0;
}

/* Log the emulated multiprocessors, since counts are rounded, and GPUs may differ. Collective. */
static void log_multiprocessors(struct trainer *t) {
    struct mt_arena arena = MT_ARENA_INIT;
    int64_t mine[2] = {t->mine.multiprocessors, t->mine.all_multiprocessors};
    int64_t(*all)[2] = t->rank ? NULL : mt_malloc((size_t)t->nranks * sizeof *all);
    MPI_Gather(mine, 2, MPI_INT64_T, all, 2, MPI_INT64_T, 0, t->comm);
    const char *text = "";
    for (int r = 0; r < t->nranks && all; r++)
        text = mt_arena_printf(&arena, "%s%s%lld of %lld", text, r ? ", " : "", (long long)all[r][0],
                               (long long)all[r][1]);
    mt_log(MT_LOG_INFO, "multiprocessors that compute: %s; communication kernels may use all of them", text);
    free(all);
    mt_arena_release(&arena);
}

static void log_ranks(struct trainer *t, const char *emulated) {
    int n = t->plan->nranks, idle = n - t->nranks;
    const char *some = idle ? mt_arena_printf(&t->arena, ", of which %d idle", idle) : "";
    mt_log(MT_LOG_INFO, "%d rank%s%s%s%s, %s; rank %d: %s", n, n == 1 ? "" : "s", *emulated ? " of " : "", emulated,
           some, t->plan->model, t->plan->order[0], mt_device_describe(t->device));
}

enum mt_status mt_trainer_join(struct trainer *t, struct mt_err *err) {
    enum mt_status st;
    if ((st = read_plan(t, err)) || (st = take_ranks(t, err)) ||
        (st = mt_agree(t->all, mt_emulation_check(&t->options->emulation, t->plan->nranks, t->kind, err), err)))
        return st;
    mt_watch_phase(MT_WATCH_SLOW, "opening the device");
    return mt_rank_device_choose(t->all, t->kind, t->rank >= 0, &t->chosen, err);
}

/* At the rank that writes. The run's folder has rules of its own (folder.c). */
static enum mt_status check_files(const struct mt_train_options *o, struct mt_err *err) {
    struct mt_files files = {0};
    mt_files_reads(&files, NULL, o->plan);
    mt_data_flags_files(o->data, &files);
    mt_files_reads(&files, "--init", o->init);
    mt_files_reads(&files, "--resume", o->resume);
    mt_files_reads(&files, "--cluster", o->cluster);
    mt_files_writes(&files, "--trace", o->trace, NULL);
    return mt_files_check(&files, err);
}

enum mt_status mt_trainer_open(struct trainer *t, struct mt_err *err) {
    enum mt_status st;
    mt_run_init(&t->run, t->plan->nranks);
    mt_requests_init(&t->requests, t->comm);
    if (!t->rank && t->nranks < t->plan->nranks) t->requests.idle = t->all;
    mt_watch_phase(MT_WATCH_SLOW, "building the program");
    if (!(st = t->rank ? MT_OK : check_files(t->options, err)) && (st = mt_planned_open(t->plan, &t->planned, err)))
        mt_err_context(err, "%s", t->options->plan);
    if (!st) st = mt_planned_evaluation(&t->planned, &t->eval_graph, &t->eval_program, err);
    if ((st = mt_agree(t->comm, st, err)) || (st = open_data(t, err))) return st;
    start_documents(t);
    if ((st = make_executor(t, err))) return st;
    if (t->options->trace) t->clock_s = mt_trace_clock(t->comm);
    const char *emulated = mt_emulation_text(&t->options->emulation, &t->run.arena);
    log_ranks(t, emulated);
    if (*emulated) mt_emulation_warn(t->comm, t->device);
    if (*emulated && t->mine.all_multiprocessors) log_multiprocessors(t);
    return MT_OK;
}

void mt_trainer_close(struct trainer *t) {
    mt_watch_observe(NULL, NULL);
    mt_metrics_close(t->metrics);
    mt_trainer_leave_folder(t);
    mt_executor_free(t->executor);
    for (int r = 0; r < MT_NRUNS; r++) mt_lowered_free(t->lowered[r]);
    mt_comm_free(t->wire);
    mt_device_close(t->device);
    if (t->eval_program.graph) mt_program_release(&t->eval_program);
    mt_planned_release(&t->planned);
    mt_data_close(&t->data);
    mt_run_release(&t->run);
    mt_drift_release(&t->drift);
    mt_arena_release(&t->events_arena);
    mt_timeline_release(&t->predicted);
    mt_plan_free(t->plan);
    mt_arena_release(&t->arena);
    if (t->comm != MPI_COMM_NULL) MPI_Comm_free(&t->comm);
    if (t->all != MPI_COMM_NULL) MPI_Comm_free(&t->all);
}
