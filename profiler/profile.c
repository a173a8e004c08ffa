/* A profile in three phases: ranks tell each other where they are, the probes run, the document is assembled. */
#include "profiler/profile.h"

#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "kernels/base/log.h"
#include "kernels/base/text/printed.h"
#include "profiler/assemble/assemble.h"
#include "profiler/probes/calls.h"

static const struct {
    double share; /* of the budget */
    bool alone;
    enum mt_status (*run)(struct mt_profile *profile, double budget_s, struct mt_err *err);
} probes[] = {
#define MT_PROBE(name, share, alone) {share, alone, mt_probe_##name},
#include "profiler/probes/probes.def"
#undef MT_PROBE
};
enum { NPROBES = sizeof probes / sizeof *probes };

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Number hosts and classes in the order of their first ranks. */
static void number_places(struct mt_profile *p) {
    for (int r = 0; r < p->nranks; r++) {
        struct mt_place *mine = &p->places[r];
        int host = 0, kind = 0;
        while (strcmp(p->places[host].topology.host, mine->topology.host)) host++;
        while (p->places[kind].threads != mine->threads || strcmp(p->places[kind].model, mine->model) ||
               strcmp(p->places[kind].kind, mine->kind))
            kind++;
        mine->node = host < r ? p->places[host].node : p->nnodes++;
        mine->class = kind < r ? p->places[kind].class : p->nclasses++;
        if (!p->gpu) p->places[host].room_bytes = least(p->places[host].room_bytes, mine->room_bytes);
    }
    for (int r = 0; r < p->nranks && !p->gpu; r++) /* one figure a host: the least that its ranks saw */
        for (int q = 0; q < r; q++)
            if (p->places[q].node == p->places[r].node) p->places[r].room_bytes = p->places[q].room_bytes;
}

static enum mt_status open_device(struct mt_profile *p, const struct mt_profile_options *options, struct mt_place *mine,
                                  struct mt_err *err) {
    enum mt_status st;
    p->device = options->device;
    if (!p->device) {
        if ((st = mt_device_open("cpu", &p->device, err))) return st;
        mt_device_emulate(p->device, options->emulate);
    }
    if ((st = mt_stream_new(p->device, "compute", &p->compute, err)) ||
        (options->wire && (st = mt_stream_new(p->device, "comm", &p->talk, err))))
        return st;
    mt_device_facts(p->device, &mine->facts);
    if ((st = mt_topology_read(NULL, mine->facts.bus[0] ? mine->facts.bus : NULL, &mine->topology, err))) return st;
    bool gpu = mine->facts.multiprocessors > 0;
    snprintf(mine->kind, sizeof mine->kind, "%s", mt_device_kind(p->device));
    snprintf(mine->model, sizeof mine->model, "%s", gpu ? mine->facts.model : mine->topology.model);
    mine->threads = gpu ? mine->facts.computing : mt_device_threads(p->device);
    mine->pid = getpid();
    mine->room_bytes = mt_device_memory_bytes(p->device);
    mine->emulated_exact_s = mt_device_emulated_exact_s(p->device);
    return MT_OK;
}

/* Probes measure the same on all ranks, so all devices must be of one kind. */
static enum mt_status check_kinds(struct mt_profile *p, struct mt_err *err) {
    for (int r = 1; r < p->nranks; r++)
        if (strcmp(p->places[r].kind, p->places[0].kind)) {
            mt_fail(err, MT_EINPUT, "rank %d on %s has a device of kind %s, but rank %d on %s one of kind %s", 0,
                    p->places[0].topology.host, p->places[0].kind, r, p->places[r].topology.host, p->places[r].kind);
            return mt_err_hint(err, "profile CPUs and GPUs separately: a job has ranks of one kind");
        }
    p->gpu = p->places[0].facts.multiprocessors > 0;
    return MT_OK;
}

static enum mt_status start(struct mt_profile *p, const struct mt_profile_options *options, struct mt_err *err) {
    struct mt_place mine = {0};
    p->rank = p->comm->rank, p->nranks = p->comm->nranks;
    p->wire = options->wire ? options->wire : p->comm;
    p->deadline_s = options->deadline_s > 0 ? options->deadline_s : 60;
    p->largest_bytes = options->largest_bytes;
    p->exchange = mt_exchange_new(p->comm, p->deadline_s);
    mt_exchange_on_progress(p->exchange, options->progress);
    p->places = mt_new(&p->arena, struct mt_place, p->nranks);
    enum mt_status st = mt_exchange_agree(p->exchange, open_device(p, options, &mine, err), err);
    if (!st) st = mt_exchange_gather(p->exchange, &mine, sizeof mine, p->places, err);
    if (st || (st = check_kinds(p, err))) return st;
    number_places(p);
    int64_t room_bytes = INT64_MAX; /* the least of all ranks, so that all measure the same */
    for (int r = 0; r < p->nranks; r++)
        room_bytes = least(room_bytes, p->places[r].room_bytes / mt_profile_sharing(p, r));
    mt_log(MT_LOG_INFO, "measuring %d rank%s on %d host%s for about %.0f s; rank 0: %s", p->nranks,
           p->nranks == 1 ? "" : "s", p->nnodes, p->nnodes == 1 ? "" : "s", options->budget_s,
           mt_device_describe(p->device));
    return mt_exchange_agree(p->exchange, mt_calls_new(p->device, room_bytes, &p->calls, err), err);
}

/* First the probes that a single rank can run, while the load of other processes is watched. Their memory is freed
 * before the others run, so that free_bytes is what a job would find. */
static enum mt_status run_probes(struct mt_profile *p, double budget_s, struct mt_err *err) {
    double shares = 0;
    int *pids = mt_new(&p->arena, int, p->nranks), npids = 0;
    for (int r = 0; r < p->nranks; r++)
        if (p->places[r].node == p->places[p->rank].node) pids[npids++] = p->places[r].pid;
    for (int i = 0; i < NPROBES; i++) shares += p->nranks > 1 || probes[i].alone ? probes[i].share : 0;
    budget_s /= shares;
    struct mt_load *load = p->gpu ? NULL : mt_load_start(&p->places[p->rank].topology.set, pids, npids);
    enum mt_status st = MT_OK;
    for (int i = 0; i < NPROBES && !st; i++)
        if (probes[i].alone) st = probes[i].run(p, probes[i].share * budget_s, err);
    if (load) mt_load_end(load, p->places[p->rank].threads, &p->load);
    mt_calls_free(p->calls);
    p->calls = NULL;
    p->free_bytes = mt_device_memory_bytes(p->device);
    for (int i = 0; i < NPROBES && !st && p->nranks > 1; i++)
        if (!probes[i].alone) st = probes[i].run(p, probes[i].share * budget_s, err);
    return st;
}

static void release(struct mt_profile *p, const struct mt_profile_options *options) {
    mt_profile_release_samples(p);
    mt_calls_free(p->calls);
    mt_stream_free(p->compute);
    mt_stream_free(p->talk);
    if (p->device != options->device) mt_device_close(p->device);
    mt_exchange_free(p->exchange);
    mt_arena_release(&p->arena);
}

static enum mt_status collect_samples(struct mt_profile *p, char **raw, struct mt_err *err) {
    struct mt_printed printed;
    size_t *starts = mt_new(&p->arena, size_t, p->nranks + 1);
    mt_profile_print_samples(p, mt_printed_begin(&printed));
    char *mine = mt_printed_end(&printed);
    enum mt_status st = mt_exchange_collect(p->exchange, mine, printed.length, raw, starts, err);
    if (!st && *raw) (*raw)[starts[p->nranks]] = 0;
    free(mine);
    return st;
}

enum mt_status mt_profile_run(struct mt_comm *comm, const struct mt_profile_options *options,
                              struct mt_cluster **cluster, char **raw, struct mt_err *err) {
    struct mt_profile p = {.comm = comm, .emulate = options->emulate, .slowdown = {{-1, -1}, {-1, -1}}};
    *cluster = NULL;
    if (raw) *raw = NULL;
    /* This thread communicates here; its timer slack is that of a stream's thread in training. */
    int slack = prctl(PR_GET_TIMERSLACK);
    prctl(PR_SET_TIMERSLACK, 1000UL);
    enum mt_status st = start(&p, options, err);
    if (!st) st = run_probes(&p, options->budget_s, err);
    if (!st) st = mt_profile_assemble(&p, cluster, err);
    if (!st && raw && (st = collect_samples(&p, raw, err))) {
        mt_cluster_free(*cluster);
        *cluster = NULL;
    }
    release(&p, options);
    if (slack > 0) prctl(PR_SET_TIMERSLACK, (unsigned long)slack);
    return st;
}
