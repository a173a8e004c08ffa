/* Collect the samples of all ranks, and assemble the document on rank 0. */
#include "profiler/assemble/assemble.h"

#include <stdlib.h>
#include <string.h>

/* A rank's operators as bytes: for each operator a struct mt_op_times, then its samples. */
static char *pack_ops(const struct mt_profile *p, size_t *size_bytes) {
    size_t size = 0, at = 0;
    for (int i = 0; i < p->nops; i++)
        size += sizeof(struct mt_op_times) + (size_t)p->ops[i].series.count * sizeof(double);
    char *bytes = mt_malloc(size + 1);
    for (int i = 0; i < p->nops; i++) {
        const struct mt_op_times *op = &p->ops[i];
        size_t samples = (size_t)op->series.count * sizeof(double);
        memcpy(bytes + at, op, sizeof *op);
        memcpy(bytes + at + sizeof *op, op->series.values, samples);
        at += sizeof *op + samples;
    }
    *size_bytes = size;
    return bytes;
}

static struct mt_rank_ops unpack_ops(struct mt_arena *arena, const char *bytes, size_t size_bytes) {
    struct mt_rank_ops ops = {0};
    int capacity = 0;
    for (size_t at = 0; at < size_bytes; ops.nops++) {
        mt_arena_grow(arena, &ops.ops, ops.nops, &capacity, sizeof *ops.ops);
        struct mt_op_times *op = &ops.ops[ops.nops];
        memcpy(op, bytes + at, sizeof *op);
        size_t samples = (size_t)op->series.count * sizeof(double);
        op->series.values = mt_arena_memdup(arena, bytes + at + sizeof *op, samples);
        op->series.capacity = op->series.count;
        at += sizeof *op + samples;
    }
    return ops;
}

static enum mt_status collect_ops(struct mt_profile *p, struct mt_rank_ops *ops, struct mt_err *err) {
    size_t size_bytes, *starts = mt_new(&p->arena, size_t, p->nranks + 1);
    char *mine = pack_ops(p, &size_bytes), *all = NULL;
    enum mt_status st = mt_exchange_collect(p->exchange, mine, size_bytes, &all, starts, err);
    for (int r = 0; r < p->nranks && all; r++)
        ops[r] = unpack_ops(&p->arena, all + starts[r], starts[r + 1] - starts[r]);
    free(all);
    free(mine);
    return st;
}

/* The times of each case from its group's first rank (all ranks of a group have the same). */
static enum mt_status collect_colls(struct mt_profile *p, struct mt_interval *times, struct mt_err *err) {
    size_t *starts = mt_new(&p->arena, size_t, p->nranks + 1);
    struct mt_interval *mine = mt_new(&p->arena, struct mt_interval, p->ncolls + 1);
    size_t count = 0;
    char *all = NULL;
    for (int i = 0; i < p->ncolls; i++)
        if (p->groups[p->colls[i].group].ranks[0] == p->rank) mine[count++] = mt_samples_interval(&p->coll_times[i]);
    enum mt_status st = mt_exchange_collect(p->exchange, mine, count * sizeof *mine, &all, starts, err);
    for (int i = 0; i < p->ncolls && all; i++) {
        size_t *at = &starts[p->groups[p->colls[i].group].ranks[0]];
        memcpy(&times[i], all + *at, sizeof *times);
        *at += sizeof *times;
    }
    free(all);
    return st;
}

enum mt_status mt_profile_assemble(struct mt_profile *p, struct mt_cluster **cluster, struct mt_err *err) {
    struct mt_device_facts facts;
    mt_device_facts(p->device, &facts);
    struct mt_device_figures mine = {.copy_Bps = mt_samples_interval(&p->copy_Bps),
                                     .overhead_s = mt_samples_interval(&p->overhead_s).median,
                                     .emulated = p->emulate,
                                     .load = p->load,
                                     .health = facts.health,
                                     .free_bytes = p->free_bytes,
                                     .host_Bps = {p->host_Bps[0], p->host_Bps[1]}};
    struct mt_device_figures *figures = mt_new(&p->arena, struct mt_device_figures, p->nranks);
    struct mt_rank_ops *ops = mt_new(&p->arena, struct mt_rank_ops, p->nranks);
    struct mt_interval *times = mt_new(&p->arena, struct mt_interval, p->ncolls + 1);
    enum mt_status st = mt_exchange_gather(p->exchange, &mine, sizeof mine, figures, err);
    if (st || (st = collect_ops(p, ops, err)) || (st = collect_colls(p, times, err))) return st;
    if (!p->rank) {
        struct mt_cluster *c = mt_cluster_new();
        c->made_by = mt_arena_strdup(&c->arena, "motley " MOTLEY_VERSION);
        c->source = "measured";
        if (p->gpu && p->nranks > 1) c->nccl = mt_arena_strdup(&c->arena, p->places[0].facts.nccl);
        mt_assemble_devices(p, figures, ops, c);
        mt_assemble_links(p, c);
        mt_assemble_groups(p, times, c);
        mt_assemble_warnings(p, figures, c);
        if ((st = mt_cluster_check(c, err))) {
            mt_err_context(err, "what was measured");
            err->status = st = MT_EBUG;
            mt_cluster_free(c);
        } else {
            *cluster = c;
        }
    }
    return mt_exchange_agree(p->exchange, st, err);
}
