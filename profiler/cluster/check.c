/* The consistency of a cluster document. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/op/op.h"
#include "profiler/cluster/cluster.h"

/* A number's range: [least, most], or (least, most] if open. */
struct range {
    double least, most;
    bool open;
};
/* Wide, but bounded so that no computation overflows. */
static const struct range positive = {0, 1e9, true}, not_negative = {0, 1e9, false}, part = {0, 1, false};
static const struct range rate = {1, 1e24, false}, rate_or_none = {0, 1e24, false}, factor = {1e-6, 1e6, false};
/* Of a measured time to a line's, which is next to nothing for small messages where noise has hidden the latency. */
static const struct range of_line = {1e-12, 1e12, false};
static const struct range none = {0, 0, false};
static const struct range bytes = {0, 0x1p50, false}, node_bytes = {0, 0x1p62, false};
static const struct range count = {0, 1 << 18, false}, node_count = {0, 1 << 30, false};

static enum mt_status check_number(double value, struct range range, struct mt_err *err, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static enum mt_status check_number(double value, struct range range, struct mt_err *err, const char *format, ...) {
    if (isfinite(value) && (range.open ? value > range.least : value >= range.least) && value <= range.most)
        return MT_OK;
    char where[120];
    va_list args;
    va_start(args, format);
    vsnprintf(where, sizeof where, format, args);
    va_end(args);
    return mt_fail(err, MT_EINPUT, "%s: is %g, but must be %s %g%s %g", where, value, range.open ? "above" : "from",
                   range.least, range.open ? " and at most" : " to", range.most);
}

/* The range of a rate that is 0 if it is not known. */
static struct range optional(double value) {
    return value != 0 ? rate : none;
}

/* Names must be usable in flags, descriptions and price lists. */
static enum mt_status check_name(const char *list, int i, const char *name, struct mt_err *err) {
    static const char *const known = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    if (!name[0]) return mt_fail(err, MT_EINPUT, "%s[%d].name: must not be empty", list, i);
    if (!name[strspn(name, known)]) return MT_OK;
    return mt_fail(err, MT_EINPUT, "%s[%d].name: \"%.60s\" must be of letters, digits, '.', '_' and '-'", list, i,
                   name);
}

struct named {
    const char *name;
    int row;
};

static int by_name(const void *left, const void *right) {
    const struct named *l = left, *r = right;
    int order = strcmp(l->name, r->name);
    return order ? order : (l->row > r->row) - (l->row < r->row);
}

/* No two rows have one name. `names` begins at the first row's member, and rows are row_bytes apart. O(n log n). */
static enum mt_status check_unique(const char *list, const char *const *names, int n, size_t row_bytes,
                                   struct mt_err *err) {
    struct named *sorted = mt_malloc(((size_t)n + 1) * sizeof *sorted);
    int twice = n;
    for (int i = 0; i < n; i++)
        sorted[i] = (struct named){*(const char *const *)((const char *)names + (size_t)i * row_bytes), i};
    if (n) qsort(sorted, (size_t)n, sizeof *sorted, by_name);
    for (int i = 1; i < n; i++)
        if (!strcmp(sorted[i].name, sorted[i - 1].name) && sorted[i].row < twice) twice = sorted[i].row;
    for (int i = 0; i < n && twice < n; i++)
        if (sorted[i].row == twice)
            mt_fail(err, MT_EINPUT, "%s[%d].name: \"%.60s\" is there more than once", list, twice, sorted[i].name);
    free(sorted);
    return twice < n ? MT_EINPUT : MT_OK;
}

static enum mt_status check_curve(const struct mt_cluster_class *class, int c, int k, struct mt_err *err) {
    const struct mt_curve *curve = &class->curves[k];
    int kind = 0;
    while (kind < MT_NOPS && strcmp(mt_op_info[kind].name, curve->op)) kind++;
    if (kind == MT_NOPS)
        return mt_fail(err, MT_EINPUT, "classes[%d].curves[%d].op: there is no operator \"%.60s\"", c, k, curve->op);
    for (int j = 0; j < k; j++) {
        const struct mt_curve *other = &class->curves[j];
        if (other->type == curve->type && other->dim[0] == curve->dim[0] && other->dim[1] == curve->dim[1] &&
            !strcmp(other->op, curve->op) && !strcmp(other->variant, curve->variant))
            return mt_fail(err, MT_EINPUT, "classes[%d].curves[%d]: is there already, as curves[%d]", c, k, j);
    }
    if (curve->dim[0] < 1 || curve->dim[1] < 1)
        return mt_fail(err, MT_EINPUT, "classes[%d].curves[%d].dim: must be at least 1", c, k);
    if (curve->npoints < 1) return mt_fail(err, MT_EINPUT, "classes[%d].curves[%d].rows: is empty", c, k);
    for (int p = 0; p < curve->npoints; p++) {
        if (curve->rows[p] < 1 || (p && curve->rows[p] <= curve->rows[p - 1]))
            return mt_fail(err, MT_EINPUT, "classes[%d].curves[%d].rows[%d]: must rise, from 1", c, k, p);
        enum mt_status st;
        if ((st = check_number(curve->time_s[p], positive, err, "classes[%d].curves[%d].time_s[%d]", c, k, p)) ||
            (st = check_number(curve->error[p], not_negative, err, "classes[%d].curves[%d].error[%d]", c, k, p)))
            return st;
    }
    return MT_OK;
}

static enum mt_status check_class(const struct mt_cluster *cluster, int c, struct mt_err *err) {
    const struct mt_cluster_class *class = &cluster->classes[c];
    enum mt_status st = check_name("classes", c, class->name, err);
    if (st) return st;
    if (strcmp(class->kind, "cpu") && strcmp(class->kind, "cuda"))
        return mt_fail(err, MT_EINPUT, "classes[%d].kind: \"%.60s\" must be \"cpu\" or \"cuda\"", c, class->kind);
    bool known = class->ncurves > 0;
    for (int t = 0; t < MT_NTYPES; t++) {
        if ((st = check_number(class->flops[t], rate_or_none, err, "classes[%d].flops.%s", c,
                               mt_type_name((enum mt_type)t))))
            return st;
        known |= class->flops[t] > 0;
    }
    if (!known) return mt_fail(err, MT_EINPUT, "classes[%d]: has neither a rate (flops) nor a curve", c);
    if (class->flops[MT_I32] > 0) return mt_fail(err, MT_EINPUT, "classes[%d].flops: GEMMs have no i32 form", c);
    if ((st = check_number(class->threads, count, err, "classes[%d].threads", c)) ||
        (st = check_number(class->calibration, factor, err, "classes[%d].calibration", c)) ||
        (st = check_number((double)class->memory_bytes, bytes, err, "classes[%d].memory_bytes", c)) ||
        (st = check_number(class->memory_Bps, rate, err, "classes[%d].memory_Bps", c)) ||
        (st = check_number(class->memory_error, not_negative, err, "classes[%d].memory_error", c)) ||
        (st = check_number(class->overhead_s, not_negative, err, "classes[%d].overhead_s", c)))
        return st;
    for (int k = 0; k < class->ncurves && !st; k++) st = check_curve(class, c, k, err);
    return st;
}

static enum mt_status check_link_figures(const char *list, int i, const double figures[4], struct mt_err *err) {
    static const char *const keys[] = {"latency_s", "latency_error", "bandwidth_Bps", "bandwidth_error"};
    enum mt_status st = MT_OK;
    for (int f = 0; f < 4 && !st; f++)
        st = check_number(figures[f], f == 2 ? rate : not_negative, err, "%s[%d].%s", list, i, keys[f]);
    return st;
}

/* Either all figures of puts are there, or none. */
static enum mt_status check_puts(const struct mt_cluster_link *link, int l, struct mt_err *err) {
    const struct mt_cluster_puts *p = &link->puts;
    bool any = false, has = mt_cluster_has_puts(link);
    enum mt_status st;
    for (int f = 0; f < MT_CLUSTER_PUTS_FIGURES; f++) any |= mt_cluster_puts_figure(p, f) != 0;
    if (!any) return MT_OK;
    if ((st = check_number(p->signal_s, has ? part : positive, err, "links[%d].puts.signal_s", l)) ||
        (st = check_number(p->copy_s, part, err, "links[%d].puts.copy_s", l)) ||
        (st = check_number(p->blocks_Bps, rate, err, "links[%d].puts.blocks_Bps", l)) ||
        (st = check_number(p->compute_slowdown, not_negative, err, "links[%d].puts.compute_slowdown", l)) ||
        (st = check_number(p->put_slowdown, not_negative, err, "links[%d].puts.put_slowdown", l)))
        return st;
    return link->copy_Bps > 0 ? MT_OK : mt_fail(err, MT_EINPUT, "links[%d].puts: is there, but copy_Bps is not", l);
}

static enum mt_status check_link(const struct mt_cluster *cluster, int l, struct mt_err *err) {
    const struct mt_cluster_link *link = &cluster->links[l];
    enum mt_status st = check_name("links", l, link->name, err);
    if (st) return st;
    if ((st = check_link_figures(
             "links", l,
             (const double[]){link->latency_s, link->latency_error, link->bandwidth_Bps, link->bandwidth_error},
             err)) ||
        (st = check_number(link->shared_Bps, rate_or_none, err, "links[%d].shared_Bps", l)) ||
        (st = check_number(link->compute_slowdown, not_negative, err, "links[%d].compute_slowdown", l)))
        return st;
    if ((st = check_number(link->copy_Bps, rate_or_none, err, "links[%d].copy_Bps", l)) ||
        (st = check_puts(link, l, err)))
        return st;
    return check_number(link->comm_slowdown, not_negative, err, "links[%d].comm_slowdown", l);
}

static enum mt_status check_node(const struct mt_cluster *cluster, int n, int ndevices, struct mt_err *err) {
    const struct mt_cluster_node *node = &cluster->nodes[n];
    enum mt_status st = check_name("nodes", n, node->name, err);
    if (st) return st;
    if ((st = check_number(node->cores, node_count, err, "nodes[%d].cores", n)) ||
        (st = check_number((double)node->memory_bytes, node_bytes, err, "nodes[%d].memory_bytes", n)) ||
        (st = check_number(node->egress_Bps, optional(node->egress_Bps), err, "nodes[%d].egress_Bps", n)) ||
        (st = check_number(node->ingress_Bps, optional(node->ingress_Bps), err, "nodes[%d].ingress_Bps", n)))
        return st;
    if (node->inside < -1 || node->inside >= cluster->nlinks)
        return mt_fail(err, MT_EINPUT, "nodes[%d].inside: there is no link %d", n, node->inside);
    if (!ndevices) return mt_fail(err, MT_EINPUT, "nodes[%d]: \"%s\" has no device", n, node->name);
    if (ndevices > 1 && node->inside < 0)
        return mt_fail(err, MT_EINPUT, "nodes[%d].inside: \"%s\" has %d devices, but no link between them", n,
                       node->name, ndevices);
    return MT_OK;
}

/* "0-1,4": increasing ranges of cores. */
static bool is_mask(const char *mask) {
    long last = -1;
    for (const char *c = mask; *c;) {
        char *end;
        if (*c < '0' || *c > '9') return false;
        long first = strtol(c, &end, 10), to = first;
        if (*end == '-') {
            if (end[1] < '0' || end[1] > '9') return false;
            to = strtol(end + 1, &end, 10);
        }
        if (first <= last || to < first || to > 1 << 20 || (*end && *end != ',') || (*end == ',' && !end[1]))
            return false;
        last = to;
        c = *end ? end + 1 : end;
    }
    return true;
}

static enum mt_status check_gpu(const struct mt_cluster_gpu *gpu, int d, struct mt_err *err) {
    enum mt_status st = check_number((double)gpu->reserved_bytes, bytes, err, "devices[%d].gpu.reserved_bytes", d);
    for (int f = 0; f < MT_CLUSTER_GPU_FIGURES && !st; f++)
        st = check_number(mt_cluster_gpu_figure(gpu, f), rate_or_none, err, "devices[%d].gpu.%s", d,
                          mt_cluster_gpu_figures[f].name);
    return st;
}

static enum mt_status check_device(const struct mt_cluster *cluster, int d, struct mt_err *err) {
    const struct mt_cluster_device *device = &cluster->devices[d];
    if (device->node < 0 || device->node >= cluster->nnodes)
        return mt_fail(err, MT_EINPUT, "devices[%d].node: there is no node %d", d, device->node);
    if (device->class < 0 || device->class >= cluster->nclasses)
        return mt_fail(err, MT_EINPUT, "devices[%d].class: there is no class %d", d, device->class);
    enum mt_status st;
    if ((st = check_number(device->speed, factor, err, "devices[%d].speed", d)) ||
        (st = check_number(device->speed_error, not_negative, err, "devices[%d].speed_error", d)) ||
        (st = check_number(device->emulated, factor, err, "devices[%d].emulated", d)) ||
        (st = check_number(device->stolen, part, err, "devices[%d].stolen", d)) ||
        (st = check_number((double)device->memory_bytes, bytes, err, "devices[%d].memory_bytes", d)))
        return st;
    bool cpu = !strcmp(cluster->classes[device->class].kind, "cpu");
    if (!cpu && device->mask[0])
        return mt_fail(err, MT_EINPUT, "devices[%d].mask: a device of kind \"%s\" has none", d,
                       cluster->classes[device->class].kind);
    if (!is_mask(device->mask))
        return mt_fail(err, MT_EINPUT, "devices[%d].mask: \"%.60s\" must be a rising list of cores, as \"0-1,4\"", d,
                       device->mask);
    if (cpu && device->gpu) return mt_fail(err, MT_EINPUT, "devices[%d].gpu: a device of kind \"cpu\" is none", d);
    return device->gpu ? check_gpu(device->gpu, d, err) : MT_OK;
}

static enum mt_status check_pair(const struct mt_cluster *cluster, int p, struct mt_err *err) {
    const struct mt_cluster_pair *pair = &cluster->pairs[p], *before = p ? pair - 1 : NULL;
    if (pair->a < 0 || pair->b >= cluster->ndevices || pair->a >= pair->b)
        return mt_fail(err, MT_EINPUT, "pairs[%d]: of %d and %d, but must be of a < b below %d", p, pair->a, pair->b,
                       cluster->ndevices);
    if (before && (before->a > pair->a || (before->a == pair->a && before->b >= pair->b)))
        return mt_fail(err, MT_EINPUT, "pairs[%d]: %d-%d after %d-%d is not in order", p, pair->a, pair->b, before->a,
                       before->b);
    if (pair->link < 0 || pair->link >= cluster->nlinks)
        return mt_fail(err, MT_EINPUT, "pairs[%d].link: there is no link %d", p, pair->link);
    enum mt_status st;
    if ((st = check_number(pair->reverse_Bps, optional(pair->reverse_Bps), err, "pairs[%d].reverse_Bps", p)) ||
        (st = check_number(pair->reverse_error, pair->reverse_Bps > 0 ? not_negative : none, err,
                           "pairs[%d].reverse_error", p)))
        return st;
    return check_link_figures(
        "pairs", p, (const double[]){pair->latency_s, pair->latency_error, pair->bandwidth_Bps, pair->bandwidth_error},
        err);
}

static enum mt_status check_fit(const struct mt_cluster_group *group, int g, int f, struct mt_err *err) {
    const struct mt_coll_fit *fit = &group->fits[f];
    if (!mt_coll_find(fit->kind, fit->algorithm))
        return mt_fail(err, MT_EINPUT, "groups[%d].fits[%d].algorithm: %s has no algorithm \"%.60s\"", g, f,
                       mt_coll_name(fit->kind), fit->algorithm);
    for (int j = 0; j < f; j++) {
        const struct mt_coll_fit *other = &group->fits[j];
        if (other->kind == fit->kind && other->wire == fit->wire && other->acc == fit->acc &&
            !strcmp(other->algorithm, fit->algorithm))
            return mt_fail(err, MT_EINPUT, "groups[%d].fits[%d]: is there already, as fits[%d]", g, f, j);
    }
    enum mt_status st;
    if ((st = check_number(fit->latency_s, not_negative, err, "groups[%d].fits[%d].latency_s", g, f)) ||
        (st = check_number(fit->bandwidth_Bps, rate, err, "groups[%d].fits[%d].bandwidth_Bps", g, f)) ||
        (st = check_number(fit->error, not_negative, err, "groups[%d].fits[%d].error", g, f)))
        return st;
    for (int p = 0; p < fit->npoints; p++) {
        if (fit->size_bytes[p] < 1 || (p && fit->size_bytes[p] <= fit->size_bytes[p - 1]))
            return mt_fail(err, MT_EINPUT, "groups[%d].fits[%d].size_bytes[%d]: must rise, from 1", g, f, p);
        if ((st = check_number(fit->ratio[p], of_line, err, "groups[%d].fits[%d].ratio[%d]", g, f, p)) ||
            (fit->skew != 0 &&
             (st = check_number(fit->skewed_ratio[p], of_line, err, "groups[%d].fits[%d].skewed_ratio[%d]", g, f, p))))
            return st;
    }
    if (fit->skew != 0 && !(fit->skew > 1 && fit->skew <= MT_CLUSTER_MOST_DEVICES))
        return mt_fail(err, MT_EINPUT, "groups[%d].fits[%d].skew: is %g, but must be above 1, at most %d", g, f,
                       fit->skew, MT_CLUSTER_MOST_DEVICES);
    return MT_OK;
}

static enum mt_status check_group(const struct mt_cluster *cluster, int g, struct mt_err *err) {
    const struct mt_cluster_group *group = &cluster->groups[g];
    if (!group->name[0]) return mt_fail(err, MT_EINPUT, "groups[%d].name: must not be empty", g);
    if (group->ndevices < 2) return mt_fail(err, MT_EINPUT, "groups[%d].devices: must be at least two", g);
    for (int d = 0; d < group->ndevices; d++)
        if (group->devices[d] < (d ? group->devices[d - 1] + 1 : 0) || group->devices[d] >= cluster->ndevices)
            return mt_fail(err, MT_EINPUT, "groups[%d].devices[%d]: must rise, below %d", g, d, cluster->ndevices);
    if (group->link < 0 || group->link >= cluster->nlinks)
        return mt_fail(err, MT_EINPUT, "groups[%d].link: there is no link %d", g, group->link);
    enum mt_status st = MT_OK;
    for (int f = 0; f < group->nfits && !st; f++) st = check_fit(group, g, f, err);
    return st;
}

static enum mt_status check_head(const struct mt_cluster *c, struct mt_err *err) {
    static const char *const sources[] = {"measured", "described", "edited"};
    int s = 0;
    while (s < 3 && strcmp(c->source, sources[s])) s++;
    if (s == 3)
        return mt_fail(err, MT_EINPUT, "source: \"%.60s\" must be \"measured\", \"described\" or \"edited\"",
                       c->source);
    if (c->ndevices < 1 || c->ndevices > MT_CLUSTER_MOST_DEVICES)
        return mt_fail(err, MT_EINPUT, "devices: there are %d, but must be from 1 to %d", c->ndevices,
                       MT_CLUSTER_MOST_DEVICES);
    if (c->network < -1 || c->network >= c->nlinks)
        return mt_fail(err, MT_EINPUT, "network: there is no link %d", c->network);
    if (c->nnodes > 1 && c->network < 0)
        return mt_fail(err, MT_EINPUT, "network: there are %d nodes, but no link between them", c->nnodes);
    return MT_OK;
}

#define UNIQUE(list, rows, n, err) check_unique(list, (n) ? &(rows)[0].name : NULL, n, sizeof *(rows), err)

enum mt_status mt_cluster_check(const struct mt_cluster *cluster, struct mt_err *err) {
    enum mt_status st = check_head(cluster, err);
    for (int i = 0; i < cluster->nclasses && !st; i++) st = check_class(cluster, i, err);
    if (!st) st = UNIQUE("classes", cluster->classes, cluster->nclasses, err);
    for (int i = 0; i < cluster->nlinks && !st; i++) st = check_link(cluster, i, err);
    if (!st) st = UNIQUE("links", cluster->links, cluster->nlinks, err);
    for (int i = 0; i < cluster->ndevices && !st; i++) st = check_device(cluster, i, err);
    if (st) return st;
    int *on = mt_calloc((size_t)cluster->nnodes, sizeof *on);
    for (int i = 0; i < cluster->ndevices; i++) on[cluster->devices[i].node]++;
    for (int i = 0; i < cluster->nnodes && !st; i++) st = check_node(cluster, i, on[i], err);
    free(on);
    if (!st) st = UNIQUE("nodes", cluster->nodes, cluster->nnodes, err);
    for (int i = 0; i < cluster->npairs && !st; i++) st = check_pair(cluster, i, err);
    for (int i = 0; i < cluster->ngroups && !st; i++) st = check_group(cluster, i, err);
    return st ? st : UNIQUE("groups", cluster->groups, cluster->ngroups, err);
}
