/* Better hardware is never worse: random clusters, described and measured (some with fits of collectives), with random
 * edits that only add to them: a faster device or link, a lower latency, more memory, one more rank. The plan for the
 * edited cluster begins at that for the cluster before, as what-if does, and may be slower by 1% at most.
 *
 * And the same cluster in another order: its parts, nodes and devices shuffled, planned anew. */
#ifndef MT_TESTS_PLANNER_MAKE_BETTER_H
#define MT_TESTS_PLANNER_MAKE_BETTER_H

#include "kernels/base/number/rng.h"
#include "planner/cost/cost.h"
#include "planner/make/make.h"
#include "profiler/describe/describe.h"
#include "profiler/describe/edit.h"
#include "tests/check.h"
#include "tests/planner/group_fits.h"
#include "tests/profiler/clusters.h"

static struct mt_err better_err = MT_ERR_INIT;

struct better {
    uint64_t seed;
    uint32_t next;
    const char *model;
    int64_t batch;
};

static inline int better_draw(struct better *b, int below) {
    return (int)(mt_random_u32(b->seed, 11, b->next++) % (uint32_t)below);
}

/* All pairs measured, with noise and directions. */
static inline struct mt_cluster *better_measured(struct better *b) {
    int n = 2 + better_draw(b, 4), per_node = 1 + better_draw(b, 3);
    struct mt_cluster *c = make_cluster(n, per_node, 1 + better_draw(b, 2));
    double slower = pow(10, -better_draw(b, 3));
    for (int k = 0; k < c->nclasses; k++) c->classes[k].flops[MT_F32] *= slower;
    for (int d = 0; d < n; d++) c->devices[d].speed = 1.0 / (1 + better_draw(b, 3));
    for (int l = 0; l < 2; l++) c->links[l].bandwidth_Bps *= pow(10, better_draw(b, 3));
    c->links[1].shared_Bps = c->links[1].bandwidth_Bps;
    c->pairs = mt_new(&c->arena, struct mt_cluster_pair, n * n);
    for (int x = 0; x < n; x++)
        for (int y = x + 1; y < n; y++) {
            int link = c->devices[x].node == c->devices[y].node ? 0 : 1;
            double noise = 1 + 0.01 * better_draw(b, 10), back = better_draw(b, 4) ? 0 : 0.5;
            c->pairs[c->npairs++] = (struct mt_cluster_pair){.a = x,
                                                             .b = y,
                                                             .link = link,
                                                             .latency_s = c->links[link].latency_s * noise,
                                                             .bandwidth_Bps = c->links[link].bandwidth_Bps / noise,
                                                             .reverse_Bps = back * c->links[link].bandwidth_Bps / noise,
                                                             .reverse_error = back > 0 ? 0.01 : 0,
                                                             .latency_error = 0.01,
                                                             .bandwidth_error = 0.01};
        }
    CHECK_OK(mt_cluster_check(c, &better_err), better_err);
    mt_cluster_hash(c, c->hash);
    return c;
}

static inline void better_add_fits(struct better *b, struct mt_cluster *c) {
    add_fitted_groups(c, b->seed);
    CHECK_OK(mt_cluster_check(c, &better_err), better_err);
    mt_cluster_hash(c, c->hash);
}

static const char *const better_parts[] = {"h100:1",      "a10:1x2",  "l4:1",        "t4:2x2",
                                           "a100-40:1x4", "h100:2x2", "a100-80:1x2", "l4:1x3"};
enum { BETTER_PARTS = sizeof better_parts / sizeof *better_parts, BETTER_MOST_PARTS = 3 };
static const char *const better_nets[] = {"net=1G", "net=25G", "net=400G"};

/* Parts of a description, in the order of `turn`. */
static inline struct mt_cluster *better_described(const int *part, int nparts, int turn, const char *net) {
    char text[200] = "";
    struct mt_cluster *c;
    for (int i = 0; i < nparts; i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%s%s%s", i ? " + " : "", better_parts[part[(i + turn) % nparts]],
                 i ? "" : " ", i ? "" : net);
    }
    CHECK_OK(mt_cluster_describe(text, NULL, &c, &better_err), better_err);
    return c;
}

static inline void better_job(struct better *b, bool described) {
    static const char *const models[] = {"mlp", "gpt2:layers=2,heads=4,embed=256,context=128,vocab=512",
                                         "gpt2:layers=4,heads=8,embed=512,context=256,vocab=1024"};
    b->model = described ? models[better_draw(b, 3)] : "mlp:context=8,embed=64,hidden=256,layers=2,vocab=64";
    b->batch = 1 + better_draw(b, described ? 64 : 24);
}

/* The fastest plan, beginning at another (or null); the caller frees it. */
static inline struct mt_plan *better_plan(const struct better *b, const struct mt_cluster *c,
                                          const struct mt_plan *last) {
    struct mt_plan_request request = {.model = b->model,
                                      .fixed = {.decisions = mt_decisions_unset},
                                      .limit_s = 600,
                                      .last = last,
                                      .hypothetical = true};
    struct mt_plan_found found;
    mt_job_default(&request.job);
    request.job.batch = b->batch;
    request.job.recompute = MT_RECOMPUTE_UNSET;
    enum mt_status st = mt_plan_fastest(c, &request, &found, &better_err);
    if (st == MT_EMISSING) {
        printf("skipped: %s\n", better_err.text);
        exit(77);
    }
    CHECK_OK(st, better_err);
    mt_search_report_release(&found.report);
    return found.plan;
}

/* One random edit for the better, with fits carried over as in what-if; its text to `what`. */
static inline void better_edit(struct better *b, struct mt_cluster *c, char what[120]) {
    int rank = better_draw(b, c->ndevices), link = better_draw(b, c->nlinks);
    const struct mt_cluster_device *device = &c->devices[rank];
    double more = 1.1 + better_draw(b, 30) / 10.0;
    struct mt_cluster *before = mt_cluster_copy(c);
    enum mt_status st = MT_OK;
    switch (better_draw(b, 6)) {
    case 0:
        snprintf(what, 120, "rank.%d.speed=%.6f", rank, device->speed * more);
        st = mt_cluster_set(c, what, &better_err);
        break;
    case 1: /* public rates are reached in part */
        snprintf(what, 120, "link.%s=%.6fG", c->links[link].name,
                 c->links[link].bandwidth_Bps / 1e9 * 2 * more * (link == c->network ? 8 : 1));
        st = mt_cluster_set(c, what, &better_err);
        break;
    case 2:
        snprintf(what, 120, "link.%s.latency=%.6fus", c->links[link].name, c->links[link].latency_s * 1e6 / more);
        st = mt_cluster_set(c, what, &better_err);
        break;
    case 3:
        snprintf(what, 120, "rank.%d.memory=%lldKiB", rank, (long long)((double)device->memory_bytes * more / 1024));
        st = mt_cluster_set(c, what, &better_err);
        break;
    case 4:
        snprintf(what, 120, "%s", c->classes[device->class].name);
        st = mt_cluster_add(c, what, &better_err);
        break;
    default:
        snprintf(what, 120, "%s@%s", c->classes[device->class].name, c->nodes[device->node].name);
        st = mt_cluster_add(c, what, &better_err);
    }
    CHECK_OK(st, better_err);
    if (c->ndevices == before->ndevices) mt_cost_carry_fits(before, c);
    mt_cluster_free(before);
}

/* Edits from the seed `first` on. Returns the worst ratio of steps, after over before. */
static inline double better_edits(uint64_t first, int count, bool verbose) {
    double worst = 0;
    for (uint64_t seed = first; seed < first + (uint64_t)count; seed++) {
        struct better b = {.seed = seed};
        bool described = seed % 2;
        char what[120];
        int part[BETTER_MOST_PARTS], nparts = 1 + better_draw(&b, BETTER_MOST_PARTS);
        for (int i = 0; i < nparts; i++) part[i] = better_draw(&b, BETTER_PARTS);
        struct mt_cluster *c =
            described ? better_described(part, nparts, 0, better_nets[better_draw(&b, 3)]) : better_measured(&b);
        if (!described && seed / 2 % 2) better_add_fits(&b, c);
        better_job(&b, described);
        struct mt_plan *before = better_plan(&b, c, NULL);
        better_edit(&b, c, what);
        struct mt_plan *after = better_plan(&b, c, before);
        double ratio = after->prediction->step_s / before->prediction->step_s;
        if (verbose || ratio > 1.01)
            printf("seed %d: %s of %d, %s: %.4g s, with %s %.4g s, ratio %.4f\n", (int)seed, b.model, (int)b.batch,
                   c->description, before->prediction->step_s, what, after->prediction->step_s, ratio);
        worst = fmax(worst, ratio);
        mt_plan_free(before);
        mt_plan_free(after);
        mt_cluster_free(c);
    }
    printf("%d edits: worst ratio %.4f\n", count, worst);
    return worst;
}

/* ---- order ---- */

/* A measured cluster with its devices and nodes in another order: old device at each place. It has no groups: their
 * fits are of collectives in the document's order. */
static inline struct mt_cluster *better_shuffled(const struct mt_cluster *from, struct better *b) {
    struct mt_cluster *c = mt_cluster_copy(from);
    int n = from->ndevices, *old = mt_new(&c->arena, int, n), *place = mt_new(&c->arena, int, n);
    for (int i = 0; i < n; i++) old[i] = i;
    for (int i = n - 1; i > 0; i--) {
        int k = better_draw(b, i + 1), swapped = old[i];
        old[i] = old[k], old[k] = swapped;
    }
    for (int i = 0; i < n; i++) place[old[i]] = i, c->devices[i] = from->devices[old[i]];
    for (int i = 0; i < n; i++) c->devices[i].mask = mt_arena_printf(&c->arena, "%d", i);
    c->npairs = 0;
    for (int x = 0; x < n; x++)
        for (int y = x + 1; y < n; y++)
            for (int p = 0; p < from->npairs; p++) {
                struct mt_cluster_pair pair = from->pairs[p];
                int a = place[pair.a], other = place[pair.b];
                if ((a < other ? a : other) != x || (a < other ? other : a) != y) continue;
                if (a > other && pair.reverse_Bps > 0) {
                    double rate = pair.bandwidth_Bps, error = pair.bandwidth_error;
                    pair.bandwidth_Bps = pair.reverse_Bps, pair.bandwidth_error = pair.reverse_error;
                    pair.reverse_Bps = rate, pair.reverse_error = error;
                }
                pair.a = x, pair.b = y;
                c->pairs[c->npairs++] = pair;
            }
    CHECK_OK(mt_cluster_check(c, &better_err), better_err);
    mt_cluster_hash(c, c->hash);
    return c;
}

/* Returns the worst ratio of two orders' steps. */
static inline double better_orders(uint64_t first, int count, bool verbose) {
    double worst = 1;
    for (uint64_t seed = first; seed < first + (uint64_t)count; seed++) {
        struct better b = {.seed = seed};
        bool described = seed % 2;
        int part[BETTER_MOST_PARTS], nparts = 2 + better_draw(&b, BETTER_MOST_PARTS - 1);
        for (int i = 0; i < nparts; i++) part[i] = better_draw(&b, BETTER_PARTS);
        const char *net = better_nets[better_draw(&b, 3)];
        struct mt_cluster *c = described ? better_described(part, nparts, 0, net) : better_measured(&b);
        struct mt_cluster *other = described ? better_described(part, nparts, 1, net) : better_shuffled(c, &b);
        better_job(&b, described);
        struct mt_plan *one = better_plan(&b, c, NULL), *two = better_plan(&b, other, NULL);
        double ratio = one->prediction->step_s / two->prediction->step_s;
        if (ratio < 1) ratio = 1 / ratio;
        if (verbose || ratio > 1.01)
            printf("seed %d: %s of %d, %s: %.4g s, in another order %.4g s\n", (int)seed, b.model, (int)b.batch,
                   c->description, one->prediction->step_s, two->prediction->step_s);
        worst = fmax(worst, ratio);
        mt_plan_free(one);
        mt_plan_free(two);
        mt_cluster_free(c);
        mt_cluster_free(other);
    }
    printf("%d orders: worst ratio %.4f\n", count, worst);
    return worst;
}

#endif
