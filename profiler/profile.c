/* The order of it all: who is where, the probes, the document. */
#include "profiler/profile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "kernels/base/log.h"
#include "profiler/probe.h"

static const struct {
    const char *name;
    double share;
    bool alone;
    enum mt_status (*run)(struct mt_profile *profile, double budget_s, struct mt_err *err);
} probes[] = {
#define MT_PROBE(name, share, alone) {#name, share, alone, mt_probe_##name},
#include "profiler/probes.def"
#undef MT_PROBE
};
enum { NPROBES = sizeof probes / sizeof *probes };

static bool same_shape(const struct mt_op_shape *a, const struct mt_op_shape *b) {
    return a->kind == b->kind && a->type == b->type && a->rows == b->rows && a->dim[0] == b->dim[0] &&
           a->dim[1] == b->dim[1] && !strcmp(a->variant, b->variant);
}

void mt_profile_op(struct mt_profile *p, const struct mt_op_shape *shape, double time_s) {
    int i = p->nops - 1; /* most often the last */
    while (i >= 0 && !same_shape(&p->ops[i].shape, shape)) i--;
    if (i < 0) {
        mt_arena_grow(&p->arena, &p->ops, p->nops, &p->ops_capacity, sizeof *p->ops);
        i = p->nops++;
        p->ops[i] = (struct mt_op_times){.shape = *shape};
    }
    mt_samples_add(&p->ops[i].series, time_s);
}

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
    for (int r = 0; r < p->nranks && !p->gpu; r++) /* what the host has is the same for all of its ranks */
        for (int q = 0; q < r; q++)
            if (p->places[q].node == p->places[r].node) p->places[r].room_bytes = p->places[q].room_bytes;
}

static enum mt_status open_device(struct mt_profile *p, struct mt_place *mine, struct mt_err *err) {
    enum mt_status st;
    p->device = p->options->device;
    if (!p->device) {
        if ((st = mt_device_open("cpu", &p->device, err))) return st;
        mt_device_emulate(p->device, p->options->emulate);
    }
    if ((st = mt_stream_new(p->device, "compute", &p->compute, err)) ||
        (p->options->wire && (st = mt_stream_new(p->device, "comm", &p->talk, err))))
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

/* Probes measure the same on all ranks, in the same way. */
static enum mt_status check_alike(struct mt_profile *p, struct mt_err *err) {
    for (int r = 1; r < p->nranks; r++)
        if (strcmp(p->places[r].kind, p->places[0].kind)) {
            mt_fail(err, MT_EINPUT, "rank %d on %s has a device of kind %s, but rank %d on %s one of kind %s", 0,
                    p->places[0].topology.host, p->places[0].kind, r, p->places[r].topology.host, p->places[r].kind);
            return mt_err_hint(err, "profile CPUs and GPUs apart: a job has ranks of one kind");
        }
    p->gpu = p->places[0].facts.multiprocessors > 0;
    return MT_OK;
}

bool mt_profile_nvlink(const struct mt_place *from, const struct mt_place *to) {
    for (int i = 0; i < from->facts.npeers; i++)
        if (!strcmp(from->facts.peers[i].bus, to->facts.bus)) return from->facts.peers[i].nvlink;
    return false;
}

int mt_profile_sharing(const struct mt_profile *p, int rank) {
    int sharing = 0;
    for (int q = 0; q < p->nranks; q++) sharing += p->places[q].node == p->places[rank].node;
    return p->gpu ? 1 : sharing;
}

static enum mt_status start(struct mt_profile *p, struct mt_err *err) {
    struct mt_place mine = {0};
    p->rank = p->comm->rank, p->nranks = p->comm->nranks;
    p->wire = p->options->wire ? p->options->wire : p->comm;
    p->deadline_s = p->options->deadline_s > 0 ? p->options->deadline_s : 60;
    p->exchange = mt_exchange_new(p->comm, p->deadline_s);
    mt_exchange_listen(p->exchange, p->options->tell);
    p->places = mt_new(&p->arena, struct mt_place, p->nranks);
    enum mt_status st = mt_exchange_agree(p->exchange, open_device(p, &mine, err), err);
    if (!st) st = mt_exchange_gather(p->exchange, &mine, sizeof mine, p->places, err);
    if (st || (st = check_alike(p, err))) return st;
    number_places(p);
    int64_t room_bytes = INT64_MAX; /* the tightest rank's, so that all measure the same */
    for (int r = 0; r < p->nranks; r++)
        room_bytes = least(room_bytes, p->places[r].room_bytes / mt_profile_sharing(p, r));
    mt_log(MT_LOG_INFO, "measuring %d rank%s on %d host%s for about %.0f s; rank 0: %s", p->nranks,
           p->nranks == 1 ? "" : "s", p->nnodes, p->nnodes == 1 ? "" : "s", p->options->budget_s,
           mt_device_describe(p->device));
    return mt_exchange_agree(p->exchange, mt_calls_new(p->device, room_bytes, &p->calls, err), err);
}

/* The load of other processes is watched while single devices are measured. What these took is given back then: from
 * there on a GPU has nothing in its memory but what every job has. */
static enum mt_status run_probes(struct mt_profile *p, struct mt_err *err) {
    double shares = 0;
    int *pids = mt_new(&p->arena, int, p->nranks), npids = 0;
    for (int r = 0; r < p->nranks; r++)
        if (p->places[r].node == p->places[p->rank].node) pids[npids++] = p->places[r].pid;
    for (int i = 0; i < NPROBES; i++) shares += p->nranks > 1 || probes[i].alone ? probes[i].share : 0;
    double budget_s = p->options->budget_s / shares;
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

static void release(struct mt_profile *p) {
    for (int i = 0; i < p->nops; i++) mt_samples_release(&p->ops[i].series);
    for (int i = 0; i < p->ncolls && p->coll_times; i++) mt_samples_release(&p->coll_times[i]);
    mt_samples_release(&p->copy_Bps);
    mt_samples_release(&p->overhead_s);
    mt_calls_free(p->calls);
    mt_stream_free(p->compute);
    mt_stream_free(p->talk);
    if (p->device != p->options->device) mt_device_close(p->device);
    mt_exchange_free(p->exchange);
    mt_arena_release(&p->arena);
}

/* ---- samples for people ---- */

__attribute__((format(printf, 5, 6))) static void
print_series(FILE *file, int rank, const char *probe, const struct mt_samples *series, const char *format, ...) {
    char what[160];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    for (int i = 0; i < series->count; i++) fprintf(file, "%s,%s,%d,%.9g\n", probe, what, rank, series->values[i]);
}

static void print_samples(const struct mt_profile *p, FILE *file) {
    if (!p->rank) fprintf(file, "probe,what,rank,value\n");
    print_series(file, p->rank, "copy_Bps", &p->copy_Bps, "f32");
    print_series(file, p->rank, "overhead_s", &p->overhead_s, "fill");
    for (int i = 0; i < p->nops; i++) {
        const struct mt_op_shape *s = &p->ops[i].shape;
        print_series(file, p->rank, "op_s", &p->ops[i].series, "%s %s %s %lld %lldx%lld", mt_op_info[s->kind].name,
                     s->variant, mt_type_name(s->type), (long long)s->rows, (long long)s->dim[0], (long long)s->dim[1]);
    }
    for (int i = 0; i < p->npairs && !p->rank; i++) {
        const struct mt_pair_times *pair = &p->pairs[i];
        fprintf(file, "pair_latency_s,%d-%d,%d,%.9g\npair_bandwidth_Bps,%d-%d,%d,%.9g\n", pair->a, pair->b, pair->a,
                pair->latency.median, pair->a, pair->b, pair->a, pair->bandwidth.median);
    }
    for (int i = 0; i < p->ncolls && p->coll_times; i++) {
        const struct mt_coll_case *c = &p->colls[i];
        struct mt_coll problem = {.kind = c->algorithm->kind, .n = p->groups[c->group].n, .counts = c->counts};
        problem.wire = c->wire;
        long long size_bytes = (long long)mt_fit_point(c->algorithm, &problem, 1, 0).size_bytes;
        print_series(file, p->rank, "collective_s", &p->coll_times[i], "%s %s %s %s %lld shares %lld:%lld",
                     p->groups[c->group].name, mt_coll_name(c->algorithm->kind), c->algorithm->name,
                     mt_type_name(c->wire), size_bytes, (long long)c->counts[0], (long long)c->counts[1]);
    }
}

static enum mt_status collect_samples(struct mt_profile *p, char **raw, struct mt_err *err) {
    char *mine = NULL;
    size_t length = 0, *starts = mt_new(&p->arena, size_t, p->nranks + 1);
    FILE *file = open_memstream(&mine, &length);
    if (!file) return mt_fail_errno(err, "raw samples");
    print_samples(p, file);
    fclose(file);
    enum mt_status st = mt_exchange_collect(p->exchange, mine, length, raw, starts, err);
    if (!st && *raw) (*raw)[starts[p->nranks]] = 0;
    free(mine);
    return st;
}

enum mt_status mt_profile_run(struct mt_comm *comm, const struct mt_profile_options *options,
                              struct mt_cluster **cluster, char **raw, struct mt_err *err) {
    struct mt_profile p = {.options = options, .comm = comm, .slowdown = {{-1, -1}, {-1, -1}}};
    *cluster = NULL;
    if (raw) *raw = NULL;
    /* This thread communicates here; it sleeps as exactly as the thread that does in training. */
    int slack = prctl(PR_GET_TIMERSLACK);
    prctl(PR_SET_TIMERSLACK, 1000UL);
    enum mt_status st = start(&p, err);
    if (!st) st = run_probes(&p, err);
    if (!st) st = mt_profile_assemble(&p, cluster, err);
    if (!st && raw && (st = collect_samples(&p, raw, err))) {
        mt_cluster_free(*cluster);
        *cluster = NULL;
    }
    release(&p);
    if (slack > 0) prctl(PR_SET_TIMERSLACK, (unsigned long)slack);
    return st;
}
