/* The facts of a cluster: nodes, devices, classes, links and fitted collectives, with their measured error bands. */
#include <stdlib.h>

#include "kernels/base/text/units.h"
#include "launcher/show/diff/diff.h"
#include "profiler/cluster/cluster.h"

/* Errors of figures that have none of their own: relative; part_error is absolute. */
static const double rate_error = 0.02, overhead_error = 0.2, memory_error = 0.05, part_error = 0.02;

static void list_part(struct mt_facts *f, const char *name, double value) {
    mt_fact_real(f, name, value, value > 0 ? part_error / value : 0, MT_UNIT_FRACTION);
}

static void list_head(const struct mt_cluster *c, struct mt_facts *f) {
    mt_fact(f, "source", "%s", c->source);
    mt_fact(f, "description", "%s", c->description);
    mt_fact(f, "devices", "%d", c->ndevices);
    mt_fact(f, "nodes", "%d", c->nnodes);
    mt_fact(f, "network", "%s", c->network < 0 ? "-" : c->links[c->network].name);
    for (int n = 0; n < c->nnodes; n++) {
        const struct mt_cluster_node *node = &c->nodes[n];
        mt_fact(f, mt_fact_name(f, "node %s: cores", node->name), "%d", node->cores);
        mt_fact_real(f, mt_fact_name(f, "node %s: memory", node->name), (double)node->memory_bytes, memory_error,
                     MT_UNIT_BYTES);
        mt_fact(f, mt_fact_name(f, "node %s: link", node->name), "%s",
                node->inside < 0 ? "-" : c->links[node->inside].name);
        double error = c->network < 0 ? 0 : c->links[c->network].bandwidth_error;
        mt_fact_real(f, mt_fact_name(f, "node %s: bytes sent a second", node->name), node->egress_Bps, error,
                     MT_UNIT_QUANTITY);
        mt_fact_real(f, mt_fact_name(f, "node %s: bytes received a second", node->name), node->ingress_Bps, error,
                     MT_UNIT_QUANTITY);
    }
}

static void list_devices(const struct mt_cluster *c, struct mt_facts *f) {
    for (int d = 0; d < c->ndevices; d++) {
        const struct mt_cluster_device *device = &c->devices[d];
        mt_fact(f, mt_fact_name(f, "rank %d: node", d), "%s", c->nodes[device->node].name);
        mt_fact(f, mt_fact_name(f, "rank %d: class", d), "%s", c->classes[device->class].name);
        mt_fact_real(f, mt_fact_name(f, "rank %d: speed", d), device->speed, device->speed_error, MT_UNIT_NUMBER);
        mt_fact_real(f, mt_fact_name(f, "rank %d: emulated speed", d), device->emulated, 0, MT_UNIT_NUMBER);
        list_part(f, mt_fact_name(f, "rank %d: stolen", d), device->stolen);
        mt_fact_real(f, mt_fact_name(f, "rank %d: memory", d), (double)device->memory_bytes, memory_error,
                     MT_UNIT_BYTES);
        mt_fact(f, mt_fact_name(f, "rank %d: cores", d), "%s", device->mask);
    }
}

static void list_curve(const char *class, const struct mt_curve *curve, struct mt_facts *f) {
    const char *name =
        mt_fact_name(f, "class %s: %s%s%s %s %lldx%lld", class, curve->op, curve->variant[0] ? " " : "", curve->variant,
                     mt_type_name(curve->type), (long long)curve->dim[0], (long long)curve->dim[1]);
    for (int p = 0; p < curve->npoints; p++)
        mt_fact_real(f, mt_fact_name(f, "%s, %lld rows", name, (long long)curve->rows[p]), curve->time_s[p],
                     curve->error[p], MT_UNIT_SECONDS);
}

static void list_classes(const struct mt_cluster *c, struct mt_facts *f) {
    for (int i = 0; i < c->nclasses; i++) {
        const struct mt_cluster_class *class = &c->classes[i];
        const char *name = class->name;
        mt_fact(f, mt_fact_name(f, "class %s: kind", name), "%s", class->kind);
        mt_fact(f, mt_fact_name(f, "class %s: model", name), "%s", class->model);
        mt_fact(f, mt_fact_name(f, "class %s: threads", name), "%d", class->threads);
        mt_fact(f, mt_fact_name(f, "class %s: figures", name), class->nominal ? "nominal" : "measured");
        mt_fact_real(f, mt_fact_name(f, "class %s: calibration", name), class->calibration, 0, MT_UNIT_NUMBER);
        mt_fact_real(f, mt_fact_name(f, "class %s: memory", name), (double)class->memory_bytes, memory_error,
                     MT_UNIT_BYTES);
        mt_fact_real(f, mt_fact_name(f, "class %s: bytes streamed a second", name), class->memory_Bps,
                     class->memory_error, MT_UNIT_QUANTITY);
        mt_fact_real(f, mt_fact_name(f, "class %s: overhead", name), class->overhead_s, overhead_error,
                     MT_UNIT_SECONDS);
        for (int t = 0; t < MT_I32; t++)
            mt_fact_real(f, mt_fact_name(f, "class %s: %s flop/s", name, mt_type_name((enum mt_type)t)),
                         class->flops[t], rate_error, MT_UNIT_QUANTITY);
        for (int k = 0; k < class->ncurves; k++) list_curve(name, &class->curves[k], f);
    }
}

static void list_links(const struct mt_cluster *c, struct mt_facts *f) {
    for (int l = 0; l < c->nlinks; l++) {
        const struct mt_cluster_link *link = &c->links[l];
        const char *name = link->name;
        mt_fact(f, mt_fact_name(f, "link %s: figures", name), link->nominal ? "nominal" : "measured");
        mt_fact_real(f, mt_fact_name(f, "link %s: latency", name), link->latency_s, link->latency_error,
                     MT_UNIT_SECONDS);
        mt_fact_real(f, mt_fact_name(f, "link %s: bytes a second", name), link->bandwidth_Bps, link->bandwidth_error,
                     MT_UNIT_QUANTITY);
        mt_fact_real(f, mt_fact_name(f, "link %s: bytes a second, shared", name), link->shared_Bps,
                     link->bandwidth_error, MT_UNIT_QUANTITY);
        list_part(f, mt_fact_name(f, "link %s: slows compute", name), link->compute_slowdown);
        list_part(f, mt_fact_name(f, "link %s: slowed", name), link->comm_slowdown);
        mt_fact_real(f, mt_fact_name(f, "link %s: bytes a second, by copy engine", name), link->copy_Bps,
                     link->bandwidth_error, MT_UNIT_QUANTITY);
        if (!mt_cluster_has_puts(link)) continue;
        mt_fact_real(f, mt_fact_name(f, "link %s: seconds of each copy", name), link->puts.copy_s, link->latency_error,
                     MT_UNIT_SECONDS);
        mt_fact_real(f, mt_fact_name(f, "link %s: bytes a second, put by a kernel", name), link->puts.blocks_Bps,
                     link->bandwidth_error, MT_UNIT_QUANTITY);
        mt_fact_real(f, mt_fact_name(f, "link %s: seconds of a signal", name), link->puts.signal_s, link->latency_error,
                     MT_UNIT_SECONDS);
        list_part(f, mt_fact_name(f, "link %s: puts slow a GEMM", name), link->puts.compute_slowdown);
        list_part(f, mt_fact_name(f, "link %s: puts slowed by it", name), link->puts.put_slowdown);
    }
    for (int p = 0; p < c->npairs; p++) {
        const struct mt_cluster_pair *pair = &c->pairs[p];
        const char *name = mt_fact_name(f, "ranks %d and %d", pair->a, pair->b);
        mt_fact(f, mt_fact_name(f, "%s: link", name), "%s", c->links[pair->link].name);
        mt_fact_real(f, mt_fact_name(f, "%s: latency", name), pair->latency_s, pair->latency_error, MT_UNIT_SECONDS);
        bool reversed = pair->reverse_Bps > 0;
        mt_fact_real(f, mt_fact_name(f, "rank %d to %d: bytes a second", pair->a, pair->b), pair->bandwidth_Bps,
                     pair->bandwidth_error, MT_UNIT_QUANTITY);
        mt_fact_real(f, mt_fact_name(f, "rank %d to %d: bytes a second", pair->b, pair->a),
                     reversed ? pair->reverse_Bps : pair->bandwidth_Bps,
                     reversed ? pair->reverse_error : pair->bandwidth_error, MT_UNIT_QUANTITY);
    }
}

/* The fitted time of a message in even blocks. Times are compared, since fits with different latency and bandwidth may
 * predict the same. */
static double fit_time(const struct mt_cluster_group *group, const struct mt_coll_fit *fit, int64_t bytes,
                       double ratio) {
    int n = group->ndevices, blocks = fit->kind == MT_ALL_TO_ALL ? n * n : n;
    int64_t *counts = mt_calloc((size_t)blocks, sizeof *counts), elements = bytes / mt_type_size(fit->wire);
    for (int b = 0; b < blocks; b++) counts[b] = elements / blocks + (b < elements % blocks);
    enum mt_reduce reduce = mt_coll_reduces(fit->kind) ? MT_SUM : MT_REDUCE_NONE;
    struct mt_coll problem = {fit->kind, reduce, fit->wire, fit->acc, n, 0, 0, counts, false, NULL};
    double s = mt_coll_find(fit->kind, fit->algorithm)->cost_s(&problem, fit->latency_s, fit->bandwidth_Bps) * ratio;
    free(counts);
    return s;
}

static void list_fit(const struct mt_cluster_group *group, const struct mt_coll_fit *fit, struct mt_facts *f) {
    static const int64_t sizes[] = {1 << 16, 1 << 22};
    char bytes[MT_UNITS_TEXT];
    const char *name = mt_fact_name(f, "group %s: %s %s %s", group->name, mt_coll_name(fit->kind), fit->algorithm,
                                    mt_type_name(fit->wire));
    int n = fit->npoints ? fit->npoints : 2;
    for (int p = 0; p < n; p++) {
        int64_t size = fit->npoints ? fit->size_bytes[p] : sizes[p];
        mt_fact_real(f, mt_fact_name(f, "%s of %s", name, mt_units_bytes((double)size, bytes)),
                     fit_time(group, fit, size, fit->npoints ? fit->ratio[p] : 1), fit->error, MT_UNIT_SECONDS);
    }
}

static void list_groups(const struct mt_cluster *c, struct mt_facts *f) {
    for (int g = 0; g < c->ngroups; g++) {
        const struct mt_cluster_group *group = &c->groups[g];
        mt_fact(f, mt_fact_name(f, "group %s: devices", group->name), "%d", group->ndevices);
        for (int k = 0; k < group->nfits; k++) list_fit(group, &group->fits[k], f);
    }
    for (int w = 0; w < c->nwarnings; w++) mt_fact(f, mt_fact_name(f, "noticed: %s", c->warnings[w]), "yes");
}

static void (*const lists[])(const struct mt_cluster *, struct mt_facts *) = {list_head, list_devices, list_classes,
                                                                              list_links, list_groups};

enum mt_status mt_facts_of_cluster(const char *path, struct mt_facts *facts, struct mt_err *err) {
    struct mt_cluster *c;
    enum mt_status st = mt_cluster_read(path, &c, err);
    if (st) return st;
    facts->one_screen = true;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) lists[i](c, facts);
    mt_cluster_free(c);
    return MT_OK;
}
