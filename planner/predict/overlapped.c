/* Rates for the prediction of overlapped instructions. A tile takes what the cost of operators says of a GEMM of its
 * shape; a GPU's multiprocessors share the rate of the whole GEMM. */
#include "planner/predict/overlapped.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/number/hash.h"

enum { COPY_BYTES = 1 << 20 };

/* A GEMM of rows by cols by k in the problem's type, without data. */
static struct mt_cost gemm_cost(const struct mt_costs *costs, int rank, const struct mt_overlap *p, int64_t rows,
                                int64_t cols, int64_t k) {
    struct mt_attr attr = {.nm = 1, .nn = 1, .nk = 1, .out_acc = true, .tf32 = p->tf32};
    int64_t extents[3][2] = {{rows, k}, {k, cols}, {rows, cols}};
    struct mt_tensor tensors[3];
    struct mt_op_shape shape;
    for (int i = 0; i < 3; i++) {
        tensors[i] = (struct mt_tensor){.type = i < 2 ? p->type : mt_type_acc(p->type), .naxes = 2};
        for (int a = 0; a < 2; a++) tensors[i].extent[a] = tensors[i].global[a] = extents[i][a];
    }
    struct mt_call call = {
        .kind = MT_OP_matmul, .attr = &attr, .nin = 2, .nout = 1, .in = tensors, .out = tensors + 2, .what = "tile"};
    mt_op_shape(&call, &shape);
    return mt_cost_op(costs, rank, &shape);
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

void mt_predict_overlap_rates(const struct mt_costs *costs, const struct mt_overlap *p, const int *group,
                              struct mt_arena *arena, struct mt_overlap_rates **rates, struct mt_overlap_links *links,
                              double *error, bool *nominal) {
    const struct mt_cluster *cluster = costs->cluster;
    double *bandwidth_Bps = mt_new(arena, double, p->n * p->n), *latency_s = mt_new(arena, double, p->n * p->n);
    *rates = mt_new(arena, struct mt_overlap_rates, p->n);
    *links = (struct mt_overlap_links){bandwidth_Bps, latency_s};
    *error = 0, *nominal = false;
    for (int i = 0; i < p->n; i++) {
        const struct mt_cluster_device *device = &cluster->devices[costs->device[group[i]]];
        const struct mt_cluster_class *class = &cluster->classes[device->class];
        bool gather = p->form == MT_OVERLAP_GATHER, cpu = !strcmp(class->kind, "cpu");
        int64_t k = gather ? p->k : p->shares[i], cols = gather ? p->shares[i] : p->cols;
        int64_t rows = cpu ? least(p->tile[0], p->m) : p->m, wide = cpu ? least(p->tile[1], cols) : cols;
        struct mt_cost cost = gemm_cost(costs, group[i], p, rows, wide ? wide : 1, k ? k : 1);
        double copy_s = mt_cost_copy_s(costs, group[i], COPY_BYTES, 1) - mt_cost_copy_s(costs, group[i], 0, 1);
        int workers = cpu || class->threads < 1 ? 1 : class->threads;
        double flops = 2.0 * (double)rows * (double)(wide ? wide : 1) * (double)(k ? k : 1) / fmax(cost.s, 1e-12);
        double egress = mt_cluster_node_egress(cluster, device->node);
        double ingress = mt_cluster_node_ingress(cluster, device->node);
        (*rates)[i] = (struct mt_overlap_rates){.workers = workers,
                                                .flops = flops / workers,
                                                .memory_Bps = 2 * COPY_BYTES / fmax(copy_s, 1e-12) / workers,
                                                .whole_tiles = !cpu,
                                                .streams = 1,
                                                .holds = cpu,
                                                .egress_Bps = egress > 0 ? egress : INFINITY,
                                                .ingress_Bps = ingress > 0 ? ingress : INFINITY,
                                                .compute_slowdown = 1,
                                                .put_slowdown = 1};
        *error = fmax(*error, cost.error);
        *nominal |= cost.basis == MT_COST_NOMINAL;
        bool inside = true;
        for (int j = 0; j < p->n; j++) {
            const struct mt_cluster_device *other = &cluster->devices[costs->device[group[j]]];
            struct mt_path path = mt_cluster_path(cluster, costs->device[group[i]], costs->device[group[j]]);
            bandwidth_Bps[i * p->n + j] = path.bandwidth_Bps;
            latency_s[i * p->n + j] = path.latency_s;
            inside &= other->node == device->node;
            if (i == j || path.link < 0) continue;
            (*rates)[i].compute_slowdown =
                fmax((*rates)[i].compute_slowdown, cpu ? 1 : 1 + cluster->links[path.link].compute_slowdown);
            (*rates)[i].put_slowdown =
                fmax((*rates)[i].put_slowdown, cpu ? 1 : 1 + cluster->links[path.link].comm_slowdown);
        }
        if (inside) (*rates)[i].egress_Bps = (*rates)[i].ingress_Bps = INFINITY;
    }
}

static uint64_t key_of(const struct mt_overlap *p, const int *group) {
    int64_t what[] = {p->form,    p->n,       p->m,     p->cols, p->k,      p->type, p->out, p->wire,
                      p->tile[0], p->tile[1], p->chunk, p->mix,  p->direct, p->keep, p->tf32};
    uint64_t key = mt_hash64(what, sizeof what, 0x6f7665726c6170);
    key = mt_hash64(p->rows, (size_t)p->n * sizeof *p->rows, key);
    key = mt_hash64(p->shares, (size_t)p->n * sizeof *p->shares, key);
    key = mt_hash64(p->groups, (size_t)p->ngroups * sizeof *p->groups, key);
    return mt_hash64(group, (size_t)p->n * sizeof *group, key);
}

enum mt_status mt_predict_overlapped(const struct mt_costs *costs, const struct mt_overlap *p, const int *group,
                                     struct mt_cost *cost, struct mt_err *err) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_overlap_rates *rates;
    struct mt_overlap_links links;
    bool nominal;
    uint64_t key = key_of(p, group);
    enum mt_status st = MT_OK;
    *cost = (struct mt_cost){0};
    mt_predict_overlap_rates(costs, p, group, &arena, &rates, &links, &cost->error, &nominal);
    cost->basis = nominal ? MT_COST_NOMINAL : MT_COST_SCHEDULE;
    if (!mt_cost_recall(costs, key, &cost->s)) {
        struct mt_overlap_schedule *schedules = mt_calloc((size_t)p->n, sizeof *schedules);
        struct mt_overlap_prediction found;
        for (int i = 0; i < p->n; i++) mt_overlap_schedule(p, i, &schedules[i]);
        st = mt_overlap_predict(p, schedules, rates, &links, &found, err);
        for (int i = 0; i < p->n; i++) mt_overlap_schedule_release(&schedules[i]);
        free(schedules);
        if (!st) mt_cost_note(costs, key, cost->s = found.s);
    }
    mt_arena_release(&arena);
    return st;
}
