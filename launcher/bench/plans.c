/* What plans must have in common to be compared, whether their programs fit into memory together, and the turns. */
#include "launcher/bench/plans.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/base/log.h"
#include "kernels/base/text/units.h"
#include "launcher/bench/internal.h"
#include "launcher/flags/data_flags.h"
#include "launcher/flags/files.h"
#include "launcher/session/agree.h"
#include "launcher/session/rank_device.h"
#include "launcher/train/job_changes.h"
#include "launcher/watch/watch.h"

enum { CAPTURING_STEPS = 2 };

static const double room = 0.9; /* of the free memory, for all programs together */

/* ---- the plans ---- */

/* A plan for a cluster has shares for its kind of devices only. */
static enum mt_status check_kind(struct mt_bench_plans *b, const struct mt_bench_plan *p, struct mt_err *err) {
    const struct mt_plan *plan = p->plan;
    const char *asked = b->options->device, *kind = asked ? asked : plan->device;
    if (plan->hypothetical[0])
        return mt_fail(err, MT_EINPUT, "%s: is a hypothetical plan, which cannot run here: %s", p->path,
                       plan->hypothetical);
    if (plan->cluster_hash[0] && strcmp(kind, plan->device))
        return mt_fail(err, MT_EINPUT, "--device %s: %s was made for a cluster of kind %s", asked, p->path,
                       plan->device);
    if (!b->kind) b->kind = kind;
    if (!strcmp(b->kind, kind)) return MT_OK;
    mt_fail(err, MT_EINPUT, "%s: is for devices of kind %s, but %s is for %s", p->path, kind, b->plans[0].path,
            b->kind);
    return mt_err_hint(err, "--device runs all of them on one kind");
}

static enum mt_status check_same_job(const struct mt_bench_plan *first, const struct mt_bench_plan *p,
                                     struct mt_err *err) {
    struct mt_arena arena = MT_ARENA_INIT;
    char *then = mt_job_text(&first->plan->job), *now = mt_job_text(&p->plan->job);
    const char *changes = mt_job_changes(then, now, &arena);
    enum mt_status st = MT_OK;
    if (strcmp(first->plan->model, p->plan->model))
        st = mt_fail(err, MT_EINPUT, "%s: is of model %.200s, but %s is of %.200s", p->path, p->plan->model,
                     first->path, first->plan->model);
    else if (*changes)
        st = mt_fail(err, MT_EINPUT, "%s: is for another job than %s: %s", p->path, first->path, changes);
    else if (p->plan->job.seed != first->plan->job.seed)
        st = mt_fail(err, MT_EINPUT, "%s: is for another job than %s: another seed", p->path, first->path);
    else if (p->plan->nranks != first->plan->nranks)
        st = mt_fail(err, MT_EINPUT, "%s: is for %d ranks, but %s is for %d", p->path, p->plan->nranks, first->path,
                     first->plan->nranks);
    free(then);
    free(now);
    mt_arena_release(&arena);
    return st;
}

static enum mt_status read_all(struct mt_bench_plans *b, struct mt_err *err) {
    for (int i = 0; i < b->nplans; i++) {
        struct mt_bench_plan *p = &b->plans[i];
        enum mt_status st = mt_plan_read(p->path, &p->plan, err);
        if (!st) st = check_kind(b, p, err);
        if (!st && i) st = check_same_job(&b->plans[0], p, err);
        if (st) return st;
    }
    return MT_OK;
}

/* This process's rank is the same in all plans, since emulation goes by it and a device is opened once. */
static enum mt_status take_rank(struct mt_bench_plans *b, const char *const *hosts, struct mt_err *err) {
    int *rank_of = mt_new(&b->arena, int, b->nranks), *first = mt_new(&b->arena, int, b->nranks);
    for (int i = 0; i < b->nplans; i++) {
        struct mt_bench_plan *p = &b->plans[i];
        enum mt_status st = mt_plan_match(p->plan, b->nranks, hosts, i ? rank_of : first, err);
        if (st) return mt_err_context(err, "%s", p->path);
        if (i && memcmp(first, rank_of, (size_t)b->nranks * sizeof *first))
            return mt_fail(err, MT_EINPUT, "%s: places its ranks on other hosts than %s", p->path, b->plans[0].path);
    }
    b->plan_rank = first[b->rank];
    return MT_OK;
}

static enum mt_status join_ranks(struct mt_bench_plans *b, struct mt_err *err) {
    enum { HOST_BYTES = 256 };
    char mine[HOST_BYTES] = {0}, *names = mt_arena_alloc(&b->arena, (size_t)b->nranks * HOST_BYTES);
    const char **hosts = mt_new(&b->arena, const char *, b->nranks);
    strncpy(mine, mt_agree_host(), HOST_BYTES - 1);
    MPI_Allgather(mine, HOST_BYTES, MPI_CHAR, names, HOST_BYTES, MPI_CHAR, MPI_COMM_WORLD);
    for (int r = 0; r < b->nranks; r++) hosts[r] = names + (size_t)r * HOST_BYTES;
    enum mt_status st = mt_agree(MPI_COMM_WORLD, take_rank(b, hosts, err), err);
    for (int i = 0; i < b->nplans && !st; i++) {
        struct mt_bench_plan *p = &b->plans[i];
        p->place = mt_plan_places(p->plan, &b->arena)[b->plan_rank];
        MPI_Comm_split(MPI_COMM_WORLD, p->place < 0 ? MPI_UNDEFINED : 0, p->place, &p->comm);
    }
    return st;
}

static enum mt_status read_plans(struct mt_bench_plans *b, struct mt_err *err) {
    mt_watch_phase(MT_WATCH_SLOW, "reading the plans");
    enum mt_status st = mt_agree(MPI_COMM_WORLD, read_all(b, err), err);
    for (int i = 0; i < b->nplans && !st; i++)
        st = mt_agree_same(MPI_COMM_WORLD, b->plans[i].path, b->plans[i].plan->hash, err);
    return st ? st : join_ranks(b, err);
}

/* ---- the device, the data, the memory ---- */

static enum mt_status open_device(struct mt_bench_plans *b, struct mt_err *err) {
    double speed;
    enum mt_status st = mt_emulation_check(&b->options->emulation, b->nranks, b->kind, err);
    if ((st = mt_agree(MPI_COMM_WORLD, st, err))) return st;
    mt_watch_phase(MT_WATCH_SLOW, "opening the device");
    if ((st = mt_rank_device_open(MPI_COMM_WORLD, b->kind, &b->device, err))) return st;
    st = mt_emulation_apply(&b->options->emulation, b->plan_rank, b->device, &speed, err);
    if (!st && mt_device_captures(b->device) && b->options->warmup < CAPTURING_STEPS)
        st = mt_fail(err, MT_EINPUT, "--warmup: must be at least %d here: a GPU's program is captured in these steps",
                     CAPTURING_STEPS);
    return mt_agree(MPI_COMM_WORLD, st, err);
}

static enum mt_status open_data(struct mt_bench_plans *b, struct mt_err *err) {
    const struct mt_planned *first = &b->plans[0].planned;
    int tokens = mt_graph_find_value(first->graph, "tokens");
    b->batch = mt_value_extent(first->graph, tokens, 0), b->seq = mt_value_extent(first->graph, tokens, 1);
    if (!b->options->data) return MT_OK;
    mt_watch_phase(MT_WATCH_SLOW, "reading the data");
    struct mt_data_options options = {.files = b->options->data,
                                      .seq = b->seq,
                                      .vocab = mt_model_get(&first->model, "vocab"),
                                      .seed = b->plans[0].plan->job.seed};
    return mt_agree(MPI_COMM_WORLD, mt_data_open(&options, &b->data, err), err);
}

/* Sums over the ranks whose memory is one: a host's, or a GPU's alone. */
static int64_t shared_sum(const struct mt_bench_plans *b, MPI_Comm host, int64_t mine) {
    if (strcmp(b->kind, "cuda") != 0) MPI_Allreduce(MPI_IN_PLACE, &mine, 1, MPI_INT64_T, MPI_SUM, host);
    return mine;
}

/* Refuse a plan that does not fit alone; find out whether all fit together. */
static enum mt_status check_memory(struct mt_bench_plans *b, struct mt_err *err) {
    char needs[MT_UNITS_TEXT], has[MT_UNITS_TEXT];
    int64_t free_bytes = mt_device_memory_bytes(b->device), all = 0;
    enum mt_status st = MT_OK;
    MPI_Comm host;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, b->rank, MPI_INFO_NULL, &host);
    for (int i = 0; i < b->nplans; i++) {
        struct mt_bench_plan *p = &b->plans[i];
        int64_t bytes = shared_sum(b, host, p->lowered ? p->lowered->arena_bytes : 0);
        all += bytes;
        if (bytes <= free_bytes || st) continue;
        st = mt_fail(err, MT_EINPUT, "%s: needs %s of memory on %s, and %s are free", p->path,
                     mt_units_bytes((double)bytes, needs), mt_agree_host(), mt_units_bytes((double)free_bytes, has));
    }
    MPI_Comm_free(&host);
    int fits = (double)all <= room * (double)free_bytes;
    MPI_Allreduce(MPI_IN_PLACE, &fits, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    b->resident = fits && !b->options->alone;
    return mt_agree(MPI_COMM_WORLD, st, err);
}

static enum mt_status check_files(const struct mt_bench_plans_options *o, struct mt_err *err) {
    struct mt_files files = {0};
    for (int i = 0; i < o->npaths; i++) mt_files_reads(&files, NULL, o->paths[i]);
    if (o->data) mt_data_flags_files(o->data, &files);
    mt_files_writes(&files, "--json", o->output.path, MT_BENCH_PLANS_FORMAT);
    return mt_files_check(&files, err);
}

static enum mt_status open_all(struct mt_bench_plans *b, struct mt_err *err) {
    enum mt_status st = b->rank ? MT_OK : check_files(b->options, err);
    if ((st = mt_agree(MPI_COMM_WORLD, st, err)) || (st = read_plans(b, err)) || (st = open_device(b, err))) return st;
    for (int i = 0; i < b->nplans && !st; i++) st = mt_bench_plan_build(b, &b->plans[i], err);
    if (!st) st = open_data(b, err);
    return st ? st : check_memory(b, err);
}

/* ---- the turns ---- */

static void log_start(const struct mt_bench_plans *b) {
    struct mt_arena arena = MT_ARENA_INIT;
    const char *emulated = mt_emulation_text(&b->options->emulation, &arena);
    mt_log(MT_LOG_INFO, "%d plan%s, %d rank%s%s%s, %s; %s; rank %d: %s", b->nplans, b->nplans == 1 ? "" : "s",
           b->nranks, b->nranks == 1 ? "" : "s", *emulated ? " of " : "", emulated, b->plans[0].plan->model,
           b->resident ? "all in memory together" : "one in memory at a time", b->plan_rank,
           mt_device_describe(b->device));
    mt_arena_release(&arena);
    if (*emulated) mt_emulation_warn(MPI_COMM_WORLD, b->device);
}

static enum mt_status take_turns(struct mt_bench_plans *b, struct mt_err *err) {
    enum mt_status st = MT_OK;
    for (int repetition = 0; repetition < b->options->repetitions; repetition++)
        for (int k = 0; k < b->nplans; k++) {
            struct mt_bench_plan *p = &b->plans[(k + repetition) % b->nplans];
            if ((!b->resident || !repetition) && (st = mt_bench_plan_start(b, p, err))) return st;
            if ((st = mt_bench_plan_turn(b, p, repetition, err))) return st;
            if (!b->resident) mt_bench_plan_stop(p);
        }
    return MT_OK;
}

enum mt_status mt_bench_plans(const struct mt_bench_plans_options *options, struct mt_err *err) {
    struct mt_bench_plans b = {.options = options, .nplans = options->npaths};
    MPI_Comm_rank(MPI_COMM_WORLD, &b.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &b.nranks);
    b.plans = mt_new(&b.arena, struct mt_bench_plan, b.nplans);
    for (int i = 0; i < b.nplans; i++)
        b.plans[i] = (struct mt_bench_plan){.path = options->paths[i],
                                            .comm = MPI_COMM_NULL,
                                            .place = -1,
                                            .step_s = mt_new(&b.arena, double, options->repetitions)};
    enum mt_status st = open_all(&b, err);
    if (!st) {
        log_start(&b);
        st = take_turns(&b, err);
    }
    if (!st) st = mt_agree_rank0(MPI_COMM_WORLD, b.rank ? MT_OK : mt_bench_plans_report(&b, err), err);
    for (int i = 0; i < b.nplans; i++) mt_bench_plan_release(&b.plans[i]);
    if (options->data) mt_data_close(&b.data);
    if (b.device) mt_device_close(b.device);
    mt_arena_release(&b.arena);
    return st;
}
