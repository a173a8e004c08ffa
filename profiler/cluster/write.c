/* Write a cluster document. Its hash is over the canonical text without the hash, so that it does not depend on a
 * file's spacing. Rows refer to classes, nodes and links by name. */
#include "kernels/base/text/document.h"
#include "kernels/base/text/json.h"
#include "profiler/cluster/cluster.h"

static const char *link_name(const struct mt_cluster *c, int link) {
    return link < 0 ? "" : c->links[link].name;
}

static void write_curve(const struct mt_curve *curve, struct mt_json_out *out) {
    mt_json_open_inline(out, NULL, '{');
    mt_json_put_string(out, "op", curve->op);
    mt_json_put_string(out, "variant", curve->variant);
    mt_json_put_string(out, "type", mt_type_name(curve->type));
    mt_json_put_ints(out, "dim", curve->dim, 2);
    mt_json_put_ints(out, "rows", curve->rows, curve->npoints);
    mt_json_put_reals(out, "time_s", curve->time_s, curve->npoints);
    mt_json_put_reals(out, "error", curve->error, curve->npoints);
    mt_json_close(out);
}

static void write_classes(const struct mt_cluster *c, struct mt_json_out *out) {
    mt_json_open(out, "classes", '[');
    for (int i = 0; i < c->nclasses; i++) {
        const struct mt_cluster_class *class = &c->classes[i];
        mt_json_open(out, NULL, '{');
        mt_json_put_string(out, "name", class->name);
        mt_json_put_string(out, "kind", class->kind);
        mt_json_put_string(out, "model", class->model);
        mt_json_put_int(out, "threads", class->threads);
        if (class->capability) mt_json_put_int(out, "capability", class->capability);
        mt_json_put_bool(out, "nominal", class->nominal);
        mt_json_put_real(out, "calibration", class->calibration);
        mt_json_put_int(out, "memory_bytes", class->memory_bytes);
        mt_json_put_real(out, "memory_Bps", class->memory_Bps);
        mt_json_put_real(out, "memory_error", class->memory_error);
        mt_json_put_real(out, "overhead_s", class->overhead_s);
        mt_json_open_inline(out, "flops", '{');
        for (int t = 0; t < MT_I32; t++)
            if (class->flops[t] > 0) mt_json_put_real(out, mt_type_name((enum mt_type)t), class->flops[t]);
        mt_json_close(out);
        mt_json_open(out, "curves", '[');
        for (int k = 0; k < class->ncurves; k++) write_curve(&class->curves[k], out);
        mt_json_close(out);
        mt_json_close(out);
    }
    mt_json_close(out);
}

static void put_link_figures(struct mt_json_out *out, const double figures[4]) {
    static const char *const keys[] = {"latency_s", "latency_error", "bandwidth_Bps", "bandwidth_error"};
    for (int f = 0; f < 4; f++) mt_json_put_real(out, keys[f], figures[f]);
}

static void write_links(const struct mt_cluster *c, struct mt_json_out *out) {
    mt_json_open(out, "links", '[');
    for (int i = 0; i < c->nlinks; i++) {
        const struct mt_cluster_link *link = &c->links[i];
        mt_json_open(out, NULL, '{');
        mt_json_put_string(out, "name", link->name);
        mt_json_put_bool(out, "nominal", link->nominal);
        put_link_figures(
            out, (const double[]){link->latency_s, link->latency_error, link->bandwidth_Bps, link->bandwidth_error});
        mt_json_put_real(out, "shared_Bps", link->shared_Bps);
        mt_json_put_real(out, "compute_slowdown", link->compute_slowdown);
        mt_json_put_real(out, "comm_slowdown", link->comm_slowdown);
        if (link->copy_Bps > 0) mt_json_put_real(out, "copy_Bps", link->copy_Bps);
        if (mt_cluster_has_puts(link)) {
            mt_json_open_inline(out, "puts", '{');
            for (int f = 0; f < MT_CLUSTER_PUTS_FIGURES; f++)
                mt_json_put_real(out, mt_cluster_puts_figures[f].name, mt_cluster_puts_figure(&link->puts, f));
            mt_json_close(out);
        }
        mt_json_close(out);
    }
    mt_json_close(out);
    mt_json_put_string(out, "network", link_name(c, c->network));
}

static void write_nodes(const struct mt_cluster *c, struct mt_json_out *out) {
    mt_json_open(out, "nodes", '[');
    for (int i = 0; i < c->nnodes; i++) {
        mt_json_open_inline(out, NULL, '{');
        mt_json_put_string(out, "name", c->nodes[i].name);
        mt_json_put_int(out, "cores", c->nodes[i].cores);
        mt_json_put_int(out, "memory_bytes", c->nodes[i].memory_bytes);
        mt_json_put_string(out, "inside", link_name(c, c->nodes[i].inside));
        if (c->nodes[i].driver) mt_json_put_string(out, "driver", c->nodes[i].driver);
        if (c->nodes[i].nics) mt_json_put_string(out, "nics", c->nodes[i].nics);
        if (c->nodes[i].egress_Bps > 0) mt_json_put_real(out, "egress_Bps", c->nodes[i].egress_Bps);
        if (c->nodes[i].ingress_Bps > 0) mt_json_put_real(out, "ingress_Bps", c->nodes[i].ingress_Bps);
        mt_json_close(out);
    }
    mt_json_close(out);
}

static void write_gpu(const struct mt_cluster_gpu *gpu, struct mt_json_out *out) {
    mt_json_open_inline(out, "gpu", '{');
    mt_json_put_string(out, "bus", gpu->bus);
    mt_json_put_int(out, "reserved_bytes", gpu->reserved_bytes);
    for (int f = 0; f < MT_CLUSTER_GPU_FIGURES; f++) {
        double figure = mt_cluster_gpu_figure(gpu, f);
        if (figure != 0) mt_json_put_real(out, mt_cluster_gpu_figures[f].name, figure);
    }
    mt_json_close(out);
}

static void write_devices(const struct mt_cluster *c, struct mt_json_out *out) {
    mt_json_open(out, "devices", '[');
    for (int i = 0; i < c->ndevices; i++) {
        const struct mt_cluster_device *device = &c->devices[i];
        mt_json_open_inline(out, NULL, '{');
        mt_json_put_string(out, "node", c->nodes[device->node].name);
        mt_json_put_string(out, "class", c->classes[device->class].name);
        mt_json_put_real(out, "speed", device->speed);
        mt_json_put_real(out, "speed_error", device->speed_error);
        mt_json_put_real(out, "emulated", device->emulated);
        mt_json_put_real(out, "stolen", device->stolen);
        mt_json_put_int(out, "memory_bytes", device->memory_bytes);
        mt_json_put_string(out, "mask", device->mask);
        if (device->gpu) write_gpu(device->gpu, out);
        mt_json_close(out);
    }
    mt_json_close(out);
}

static void write_pairs(const struct mt_cluster *c, struct mt_json_out *out) {
    mt_json_open(out, "pairs", '[');
    for (int i = 0; i < c->npairs; i++) {
        const struct mt_cluster_pair *pair = &c->pairs[i];
        mt_json_open_inline(out, NULL, '{');
        mt_json_put_int(out, "a", pair->a);
        mt_json_put_int(out, "b", pair->b);
        mt_json_put_string(out, "link", link_name(c, pair->link));
        put_link_figures(
            out, (const double[]){pair->latency_s, pair->latency_error, pair->bandwidth_Bps, pair->bandwidth_error});
        if (pair->reverse_Bps > 0) {
            mt_json_put_real(out, "reverse_Bps", pair->reverse_Bps);
            mt_json_put_real(out, "reverse_error", pair->reverse_error);
        }
        mt_json_close(out);
    }
    mt_json_close(out);
}

static void write_fit(const struct mt_coll_fit *fit, struct mt_json_out *out) {
    mt_json_open_inline(out, NULL, '{');
    mt_json_put_string(out, "kind", mt_coll_name(fit->kind));
    mt_json_put_string(out, "algorithm", fit->algorithm);
    mt_json_put_string(out, "wire", mt_type_name(fit->wire));
    mt_json_put_string(out, "acc", mt_type_name(fit->acc));
    mt_json_put_real(out, "latency_s", fit->latency_s);
    mt_json_put_real(out, "bandwidth_Bps", fit->bandwidth_Bps);
    mt_json_put_real(out, "error", fit->error);
    mt_json_put_ints(out, "size_bytes", fit->size_bytes, fit->npoints);
    mt_json_put_reals(out, "ratio", fit->ratio, fit->npoints);
    if (fit->skew > 0) {
        mt_json_put_real(out, "skew", fit->skew);
        mt_json_put_reals(out, "skewed_ratio", fit->skewed_ratio, fit->npoints);
    }
    mt_json_close(out);
}

static void write_groups(const struct mt_cluster *c, struct mt_json_out *out) {
    mt_json_open(out, "groups", '[');
    for (int i = 0; i < c->ngroups; i++) {
        const struct mt_cluster_group *group = &c->groups[i];
        mt_json_open(out, NULL, '{');
        mt_json_put_string(out, "name", group->name);
        mt_json_open_inline(out, "devices", '[');
        for (int d = 0; d < group->ndevices; d++) mt_json_put_int(out, NULL, group->devices[d]);
        mt_json_close(out);
        mt_json_put_string(out, "link", link_name(c, group->link));
        mt_json_open(out, "fits", '[');
        for (int f = 0; f < group->nfits; f++) write_fit(&group->fits[f], out);
        mt_json_close(out);
        mt_json_close(out);
    }
    mt_json_close(out);
}

static void write_cluster(const void *document, const char *hash, struct mt_json_out *out) {
    const struct mt_cluster *c = document;
    mt_json_out_init(out);
    mt_json_open(out, NULL, '{');
    mt_json_put_string(out, "format", MT_CLUSTER_FORMAT);
    mt_json_put_int(out, "version", MT_CLUSTER_VERSION);
    if (hash) mt_json_put_string(out, "hash", hash);
    mt_json_put_string(out, "made_by", c->made_by);
    mt_json_put_string(out, "source", c->source);
    mt_json_put_string(out, "description", c->description);
    if (c->nccl) mt_json_put_string(out, "nccl", c->nccl);
    write_classes(c, out);
    write_links(c, out);
    write_nodes(c, out);
    write_devices(c, out);
    write_pairs(c, out);
    write_groups(c, out);
    mt_json_open(out, "warnings", '[');
    for (int i = 0; i < c->nwarnings; i++) mt_json_put_string(out, NULL, c->warnings[i]);
    mt_json_close(out);
    mt_json_close(out);
}

void mt_cluster_hash(const struct mt_cluster *cluster, char hash[33]) {
    mt_document_hash(cluster, write_cluster, hash);
}

char *mt_cluster_text(struct mt_cluster *cluster, size_t *length) {
    return mt_document_text(cluster, write_cluster, cluster->hash, length);
}

enum mt_status mt_cluster_write(struct mt_cluster *cluster, const char *path, struct mt_err *err) {
    return mt_document_write(cluster, write_cluster, cluster->hash, path, err);
}
