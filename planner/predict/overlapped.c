/* Rates for the prediction of overlapped instructions. On a CPU a tile takes what the cost of operators says of a GEMM
 * of its shape. A GPU runs its tiles by chunks (kernels/overlap/chunk.h): a GEMM for each, in whole waves, at the rate
 * of the whole GEMM; or all in one kernel, each on a multiprocessor. Links are those of the profile's puts (struct
 * mt_cluster_puts): copy engines put chunks, and blocks what one kernel puts itself. */
#include "planner/predict/overlapped.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/number/hash.h"
#include "kernels/overlap/wave.h"
#include "profiler/describe/runs.h"

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

/* Units of a GPU's GEMMs, as tiles of its library are mostly. */
static const int64_t unit[2] = {128, 256};

/* What a rank multiplies in all. */
struct whole {
    int64_t rows, cols, k;
};

static struct whole whole_of(const struct mt_overlap *p, int rank) {
    bool gather = p->form == MT_OVERLAP_GATHER;
    struct whole w = {p->m, gather ? p->shares[rank] : p->cols, gather ? p->k : p->shares[rank]};
    if (!w.cols) w.cols = 1;
    if (!w.k) w.k = 1;
    return w;
}

/* A CPU: by a GEMM of a tile's shape. */
static struct mt_cost rate_of_cpu(const struct mt_costs *costs, int rank, const struct mt_overlap *p, struct whole w,
                                  struct mt_overlap_rates *rates) {
    int64_t rows = least(p->tile[0], w.rows), cols = least(p->tile[1], w.cols);
    struct mt_cost cost = gemm_cost(costs, rank, p, rows, cols, w.k);
    rates->flops = 2.0 * (double)rows * (double)cols * (double)w.k / fmax(cost.s, 1e-12);
    rates->holds = true;
    rates->within = rates->adds_slabs = true;
    return cost;
}

/* A GPU: the whole GEMM in waves of units, one for each multiprocessor. */
static struct mt_cost rate_of_gpu(const struct mt_costs *costs, int rank, const struct mt_overlap *p, struct whole w,
                                  const struct mt_cluster_class *class, struct mt_overlap_rates *rates) {
    struct mt_cost cost = gemm_cost(costs, rank, p, w.rows, w.cols, w.k);
    double parts = ceil((double)w.rows / (double)unit[0]) * ceil((double)w.cols / (double)unit[1]);
    rates->units = class->threads < 1 ? 1 : class->threads;
    rates->unit[0] = unit[0], rates->unit[1] = unit[1];
    double waves = fmax(1, ceil(parts / rates->units)), wave = 2.0 * (double)(unit[0] * unit[1] * w.k) * rates->units;
    rates->tile_s = rates->sum_s = fmin(class->overhead_s, cost.s / 2);
    rates->flops = wave * waves / fmax(cost.s - rates->tile_s, 1e-12);
    return cost;
}

/* The fused kernel beside the library's GEMMs, measured on an H200: the rate of its tiles with large K, and what each
 * takes beside that, for its pipeline and its epilogue. */
static const double fused_rate = 0.97, fused_tile_s = 2.2e-6;
enum { COPIES_A_PUT = 2 /* its rows, and its flags */ };
/* A small kernel comes before the one that multiplies, beside the first put by copy engines. */
static const double engines_begin_s = 2.5e-6;

/* Operations a second of a device, at the best rate of its class. */
static double peak_of(const struct mt_costs *costs, int rank, enum mt_type type) {
    const struct mt_cluster_device *device = &costs->cluster->devices[costs->device[rank]];
    const struct mt_cluster_class *class = &costs->cluster->classes[device->class];
    return class->flops[type] * (class->nominal ? class->calibration : 1) * device->speed;
}

/* A box of A that reaches beyond its rows is loaded slowly: the time of a tile's boxes where all of a share's rows are
 * in one tile, measured on an H200. */
static double outside_s(const struct mt_overlap *p, int64_t k) {
    static const double slab_s = 0.25e-6, row_s = 3.7e-9;
    enum { SLAB = 64 };
    int64_t beyond = 0;
    for (int r = 0; r < p->n; r++) {
        int64_t rows = p->direct ? p->m : p->rows[r];
        if (rows && p->tile[0] - rows > beyond) beyond = p->tile[0] - rows;
    }
    return beyond ? ceil((double)k / SLAB) * (slab_s + row_s * (double)beyond) : 0;
}

/* The time of the K loop of a tile, on one of so many multiprocessors: as the largest tiles take it that the library
 * would have, and these at the best rate of the class; where there are few tiles, the GEMM is no faster than the
 * library's. */
static double loop_of_fused(const struct mt_costs *costs, int rank, const struct mt_overlap *p, struct whole w,
                            double gemm_s, int workers) {
    double peak = peak_of(costs, rank, p->type);
    double largest = ceil((double)w.rows / (double)unit[0]) * ceil((double)w.cols / (double)unit[1]);
    double parts = ceil((double)w.rows / (double)p->tile[0]) * ceil((double)w.cols / (double)p->tile[1]);
    double each_s = peak > 0 ? 2.0 * (double)(unit[0] * unit[1] * w.k) * workers / peak : 0;
    if (largest >= workers) each_s = fmax(each_s, gemm_s / ceil(largest / workers));
    double tile_s = fmax(each_s * mt_overlap_fused_time(p->tile), gemm_s / ceil(fmax(1, parts) / workers));
    return fmax(tile_s / fused_rate, outside_s(p, w.k));
}

/* One kernel for few rows (planner/overlap/few.c): B is read as fast as memory streams, and multiplied at the best rate
 * of the class by what multiprocessors have tiles, rows by 64. */
static struct mt_cost rate_of_few(const struct mt_costs *costs, int rank, const struct mt_overlap *p, struct whole w,
                                  const struct mt_cluster_class *class, struct mt_overlap_rates *rates) {
    enum { ROWS = 64 };
    int multiprocessors = class->threads < 1 ? 1 : class->threads;
    struct mt_overlap_few few = mt_overlap_few_of(p, rank, multiprocessors);
    double peak = peak_of(costs, rank, p->type) * few.parts / multiprocessors; /* of a tile's */
    double rows = ceil((double)p->tile[0] / ROWS) * ROWS;
    double multiplies_s = peak > 0 ? 2.0 * rows * (double)(p->tile[1] * w.k) / (fused_rate * peak) : 0;
    mt_overlap_few_rates(
        p, rank, &few, few.beside_s + fmax(few.bytes / rates->memory_Bps, multiplies_s) + few.again / rates->memory_Bps,
        rates);
    return gemm_cost(costs, rank, p, w.rows, w.cols, w.k);
}

/* A GPU: one kernel, with a tile on each multiprocessor. */
static struct mt_cost rate_of_fused(const struct mt_costs *costs, int rank, const struct mt_overlap *p, struct whole w,
                                    const struct mt_cluster_class *class, struct mt_overlap_rates *rates) {
    struct mt_cost cost = gemm_cost(costs, rank, p, w.rows, w.cols, w.k);
    rates->workers = class->threads < 1 ? 1 : class->threads;
    double gemm_s = cost.s - fmin(class->overhead_s, cost.s / 2);
    double loop_s = loop_of_fused(costs, rank, p, w, gemm_s, rates->workers);
    rates->flops = 2.0 * (double)(p->tile[0] * p->tile[1] * w.k) / fmax(loop_s, 1e-12);
    rates->whole_tiles = true;
    rates->within = true;
    rates->tile_s = rates->sum_s = fused_tile_s;
    rates->movers = mt_overlap_fused_movers(p, rates->workers);
    if (p->form != MT_OVERLAP_GATHER && !mt_overlap_fused_adds(p))
        rates->memory_Bps = mt_overlap_fused_moves_Bps(p, rank, rates->memory_Bps);
    rates->memory_Bps /= rates->movers;
    rates->moves_slowdown = p->form == MT_OVERLAP_GATHER ? 1 : mt_overlap_fused_moves_slowdown;
    if (p->engines) rates->begin_s = engines_begin_s;
    rates->unsent = mt_overlap_fused_unsent(p, rates->workers);
    rates->streams = mt_overlap_fused_streams(p, rates->workers);
    return cost;
}

static bool on_one_host(const struct mt_costs *costs, const int *group, int n) {
    const struct mt_cluster_device *devices = costs->cluster->devices;
    bool one = true;
    for (int i = 1; i < n; i++) one &= devices[costs->device[group[i]]].node == devices[costs->device[group[0]]].node;
    return one;
}

struct route {
    double bandwidth_Bps, latency_s;
    bool nominal;
};

/* Between two GPUs of one host copy engines or blocks put, where their rates are known; in a group of several hosts
 * NCCL sends, at the rates of links. The sender's rates are slowed down by what the link says. */
static struct route route_of(const struct mt_costs *costs, const int *group, const struct mt_overlap *p, int i, int j,
                             struct mt_overlap_rates *rates) {
    const struct mt_cluster *cluster = costs->cluster;
    struct mt_path path = mt_cluster_path(cluster, costs->device[group[i]], costs->device[group[j]]);
    struct route route = {path.bandwidth_Bps, path.latency_s, false};
    if (i == j || path.link < 0) return route;
    const struct mt_cluster_link *link = &cluster->links[path.link];
    route.nominal = link->nominal;
    if (rates->holds) return route;
    bool inside = on_one_host(costs, group, p->n), puts = inside && mt_cluster_has_puts(link);
    bool blocks = p->how == MT_OVERLAP_FUSED && !p->engines;
    route.nominal |= inside && !puts;
    if (inside && link->copy_Bps > 0) route.bandwidth_Bps = link->copy_Bps;
    if (puts && blocks) route.bandwidth_Bps = link->puts.blocks_Bps;
    if (puts) route.latency_s = link->puts.signal_s;
    if (puts && !blocks) rates->put_s = fmax(rates->put_s, COPIES_A_PUT * link->puts.copy_s);
    double slows = puts ? link->puts.compute_slowdown : link->compute_slowdown;
    double slowed = puts ? link->puts.put_slowdown : link->comm_slowdown;
    rates->compute_slowdown = fmax(rates->compute_slowdown, 1 + slows);
    rates->put_slowdown = fmax(rates->put_slowdown, 1 + slowed);
    return route;
}

static struct mt_cost rate_of(const struct mt_costs *costs, int rank, const struct mt_overlap *p, struct whole w,
                              const struct mt_cluster_class *class, struct mt_overlap_rates *rates) {
    if (!strcmp(class->kind, "cpu")) return rate_of_cpu(costs, rank, p, w, rates);
    if (p->how == MT_OVERLAP_FUSED && mt_overlap_fused_few(p)) return rate_of_few(costs, rank, p, w, class, rates);
    if (p->how == MT_OVERLAP_FUSED) return rate_of_fused(costs, rank, p, w, class, rates);
    return rate_of_gpu(costs, rank, p, w, class, rates);
}

/* What a rank sends to all others of its node together, and receives: a GPU's links lead to a switch, so as much as to
 * the one that it reaches fastest; or its part of what all pairs were measured to share, if that is more. CPUs' memory
 * limits pairs alone. */
static double inside_rate(const struct mt_cluster *cluster, int node, const struct mt_overlap_rates *rates,
                          const double *bandwidth_Bps, int n, int me) {
    int inside = cluster->nodes[node].inside, devices = 0;
    if (rates->holds || inside < 0) return INFINITY;
    for (int d = 0; d < cluster->ndevices; d++) devices += cluster->devices[d].node == node;
    double most = cluster->links[inside].shared_Bps / devices;
    for (int peer = 0; peer < n; peer++)
        if (peer != me) most = fmax(most, bandwidth_Bps[peer]);
    return most > 0 ? most : INFINITY;
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
        struct mt_overlap_rates *r = &(*rates)[i];
        double copy_s = mt_cost_copy_s(costs, group[i], COPY_BYTES, 1) - mt_cost_copy_s(costs, group[i], 0, 1);
        double egress = mt_cluster_node_egress(cluster, device->node);
        double ingress = mt_cluster_node_ingress(cluster, device->node);
        *r = (struct mt_overlap_rates){.workers = 1,
                                       .memory_Bps = 2 * COPY_BYTES / fmax(copy_s, 1e-12),
                                       .streams = 1,
                                       .egress_Bps = egress > 0 ? egress : INFINITY,
                                       .ingress_Bps = ingress > 0 ? ingress : INFINITY,
                                       .compute_slowdown = 1,
                                       .put_slowdown = 1};
        struct mt_cost cost = rate_of(costs, group[i], p, whole_of(p, i), class, r);
        *error = fmax(*error, cost.error);
        *nominal |= cost.basis == MT_COST_NOMINAL;
        bool inside = true;
        for (int j = 0; j < p->n; j++) {
            inside &= cluster->devices[costs->device[group[j]]].node == device->node;
            struct route route = route_of(costs, group, p, i, j, r);
            bandwidth_Bps[i * p->n + j] = route.bandwidth_Bps, latency_s[i * p->n + j] = route.latency_s;
            *nominal |= route.nominal;
        }
        if (inside)
            r->egress_Bps = r->ingress_Bps = inside_rate(cluster, device->node, r, &bandwidth_Bps[i * p->n], p->n, i);
    }
}

/* The problem with the tiles that its GPUs make of it: as large as the chunks of the rank that multiplies most; or by
 * NCCL, where all cut alike, as those are. */
static struct mt_overlap in_chunks(const struct mt_overlap *p, const struct mt_overlap_rates *rates, bool one_host) {
    struct mt_overlap q = *p;
    int most = 0;
    if (!one_host && q.how == MT_OVERLAP_ANY) q.how = MT_OVERLAP_NCCL;
    for (int r = 1; r < p->n; r++)
        if (p->shares[r] > p->shares[most]) most = r;
    if (!rates[most].units || p->ngroups) return q;
    q.tile[0] = one_host ? mt_overlap_chunk_rows(p, most, rates[most].units) : mt_overlap_common_rows(p);
    q.tile[1] = p->cols > 0 ? p->cols : 1;
    return q;
}

/* By devices: costs of several subsets of the ranks share a memo. */
static uint64_t key_of(const struct mt_costs *costs, const struct mt_overlap *p, const int *group) {
    int64_t what[] = {p->form, p->n,       p->m,       p->cols,    p->k,    p->type,   p->out,
                      p->wire, p->tile[0], p->tile[1], p->chunk,   p->mix,  p->direct, p->keep,
                      p->tf32, p->how,     p->slabs,   p->engines, p->joint};
    uint64_t key = mt_hash64(what, sizeof what, 0x6f7665726c6170);
    key = mt_hash64(p->rows, (size_t)p->n * sizeof *p->rows, key);
    key = mt_hash64(p->shares, (size_t)p->n * sizeof *p->shares, key);
    key = mt_hash64(p->groups, (size_t)p->ngroups * sizeof *p->groups, key);
    for (int i = 0; i < p->n; i++) key = mt_hash64(&costs->device[group[i]], sizeof *costs->device, key);
    return key;
}

enum mt_status mt_predict_overlapped(const struct mt_costs *costs, const struct mt_overlap *p, const int *group,
                                     struct mt_cost *cost, struct mt_err *err) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_overlap_rates *rates;
    struct mt_overlap_links links;
    bool nominal;
    uint64_t key = key_of(costs, p, group);
    enum mt_status st = MT_OK;
    *cost = (struct mt_cost){0};
    mt_predict_overlap_rates(costs, p, group, &arena, &rates, &links, &cost->error, &nominal);
    cost->basis = nominal ? MT_COST_NOMINAL : MT_COST_SCHEDULE;
    if (!mt_cost_recall(costs, key, &cost->s)) {
        struct mt_overlap by_chunks = in_chunks(p, rates, on_one_host(costs, group, p->n));
        struct mt_overlap_prediction found;
        st = mt_overlap_predict_problem(&by_chunks, rates, &links, &found, err);
        if (!st) mt_cost_note(costs, key, cost->s = found.s);
    }
    mt_arena_release(&arena);
    return st;
}

struct mt_cost mt_predict_epilogue(const struct mt_costs *costs, int rank, const struct mt_call *gemm) {
    struct mt_attr attr = *gemm->attr;
    struct mt_call plain = *gemm;
    struct mt_op_shape with, without;
    if (!attr.epilogue) return (struct mt_cost){.basis = MT_COST_MEASURED};
    attr.epilogue = 0;
    plain.kind = MT_OP_matmul, plain.attr = &attr, plain.nin = 2, plain.nout = 1;
    mt_op_shape(gemm, &with);
    mt_op_shape(&plain, &without);
    struct mt_cost cost = mt_cost_op(costs, rank, &with);
    cost.s = fmax(cost.s - mt_cost_op(costs, rank, &without).s, 0);
    cost.floor_s = 0;
    return cost;
}

/* ---- the choice ---- */

bool mt_predict_puts_measured(const struct mt_costs *costs, const int *group, int n) {
    const struct mt_cluster *cluster = costs->cluster;
    bool measured = on_one_host(costs, group, n);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n && measured; j++) {
            int link = i == j ? -1 : mt_cluster_path(cluster, costs->device[group[i]], costs->device[group[j]]).link;
            measured =
                i == j || (link >= 0 && mt_cluster_has_puts(&cluster->links[link]) && !cluster->links[link].nominal);
        }
    return measured;
}

/* Whether one kernel runs it on all of the group's devices. */
static bool may_fuse(const struct mt_costs *costs, const struct mt_overlap *p, const int *group,
                     const bool transposed[3]) {
    bool may = true;
    for (int i = 0; i < p->n && may; i++) {
        int class = costs->cluster->devices[costs->device[group[i]]].class;
        may = mt_cluster_class_capability(&costs->cluster->classes[class]) == 90 &&
              mt_overlap_fused_serves(p, i, transposed[0], transposed[1], transposed[2]);
    }
    return may;
}

struct choosing {
    const struct mt_costs *costs;
    const int *group;
    const bool *transposed; /* [3] */
    struct mt_overlap *best;
    double *best_s;
};

/* One kernel must win over chunks by more than their predictions err, and slabs over whole rows. */
static void consider(struct choosing *c, const struct mt_overlap *tried, double s) {
    const double surely = 0.97;
    bool other = tried->how == MT_OVERLAP_FUSED && c->best->how != MT_OVERLAP_FUSED;
    other |= mt_overlap_nslabs(tried) > 1 && mt_overlap_nslabs(c->best) == 1;
    if (s < (other ? surely : 1) * *c->best_s) *c->best = *tried, *c->best_s = s;
}

/* Multiprocessors of the group's device that has most. */
static int multiprocessors(const struct mt_costs *costs, const int *group, int n) {
    int most = 1;
    for (int i = 0; i < n; i++) {
        int class = costs->cluster->devices[costs->device[group[i]]].class;
        if (costs->cluster->classes[class].threads > most) most = costs->cluster->classes[class].threads;
    }
    return most;
}

static enum mt_status try_one(struct choosing *c, const struct mt_overlap *tried, struct mt_err *err) {
    struct mt_cost cost;
    if (!may_fuse(c->costs, tried, c->group, c->transposed)) return MT_OK;
    enum mt_status st = mt_predict_overlapped(c->costs, tried, c->group, &cost, err);
    if (!st) consider(c, tried, cost.s);
    return st;
}

static enum mt_status try_fused(struct choosing *c, const struct mt_overlap *p, struct mt_err *err) {
    struct mt_overlap base = *p, tried;
    int most = multiprocessors(c->costs, c->group, p->n);
    enum mt_status st = MT_OK;
    base.how = MT_OVERLAP_FUSED, base.groups = NULL, base.ngroups = 0;
    for (int t = 0; !st && mt_overlap_fused_tile(p, t, most, base.tile); t++)
        for (int i = 0; !st && mt_overlap_candidate(&base, i, &tried); i++)
            if (!mt_overlap_fused_few(&tried)) st = try_one(c, &tried, err);
    for (int i = 0; !st && mt_overlap_few_candidate(&base, i, &tried); i++) st = try_one(c, &tried, err);
    return st;
}

enum mt_status mt_predict_overlap_choice(const struct mt_costs *costs, const struct mt_overlap *p, const int *group,
                                         const bool transposed[3], struct mt_arena *arena, struct mt_overlap *best,
                                         double *best_s, struct mt_err *err) {
    struct choosing c = {costs, group, transposed, best, best_s};
    struct mt_overlap_rates *rates;
    struct mt_overlap_links links;
    struct mt_overlap_prediction found;
    struct mt_cost as_is;
    double error;
    bool nominal, one_host = on_one_host(costs, group, p->n);
    *best = *p;
    enum mt_status st = mt_predict_overlapped(costs, p, group, &as_is, err);
    if (st) return st;
    *best_s = as_is.s;
    mt_predict_overlap_rates(costs, p, group, arena, &rates, &links, &error, &nominal);
    if (!rates[0].units) return MT_OK;
    if (!one_host) best->how = MT_OVERLAP_NCCL, best->engines = best->joint = false;
    struct mt_overlap tried = *p;
    tried.engines = tried.joint = false;
    tried.how = one_host ? MT_OVERLAP_CHUNKS : MT_OVERLAP_NCCL;
    if ((st = mt_overlap_best_groups(&tried, rates, &links, arena, &found, err))) return st;
    consider(&c, &tried, found.s);
    return one_host ? try_fused(&c, p, err) : MT_OK;
}
