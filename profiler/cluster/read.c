/* Read a cluster document: keys must be known, names must refer to rows; then mt_cluster_check. */
#include <float.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/text/json.h"
#include "profiler/cluster/cluster.h"

#define MOST_ROWS 10000
#define MOST_NAMED 1000 /* rows that others refer to by name */

/* The cluster being read, and the class or group whose rows are being read. */
struct reading {
    struct mt_cluster *cluster;
    struct mt_cluster_class *class;
    struct mt_cluster_group *group;
    int node; /* of the device that was read last */
};

static enum mt_status take_real(struct mt_json at, const char *key, double *value, struct mt_err *err) {
    return mt_json_real(at, key, -DBL_MAX, DBL_MAX, value, err);
}

/* A number that may be missing; then *value is unchanged. */
static enum mt_status take_optional_real(struct mt_json at, const char *key, double *value, struct mt_err *err) {
    return mt_json_has(at, key) ? take_real(at, key, value, err) : MT_OK;
}

static enum mt_status take_index(struct mt_json at, const char *key, int most, int *value, struct mt_err *err) {
    int64_t number;
    enum mt_status st = mt_json_int(at, key, 0, most, &number, err);
    if (!st) *value = (int)number;
    return st;
}

static enum mt_status take_type(struct mt_json at, const char *key, enum mt_type *type, struct mt_err *err) {
    const char *names[MT_NTYPES];
    for (int t = 0; t < MT_NTYPES; t++) names[t] = mt_type_name((enum mt_type)t);
    int which;
    enum mt_status st = mt_json_enum(at, key, names, MT_NTYPES, &which, err);
    if (!st) *type = (enum mt_type)which;
    return st;
}

/* The index of the row of that name, which must come earlier in the document; if not `needed`, "" gives -1. */
static enum mt_status take_name(const struct mt_cluster *c, struct mt_json at, const char *key, bool needed,
                                int find(const struct mt_cluster *cluster, const char *name), int *row,
                                struct mt_err *err) {
    const char *name;
    enum mt_status st = mt_json_string(at, key, &name, err);
    if (st) return st;
    *row = -1;
    if (!needed && !name[0]) return MT_OK;
    *row = find(c, name);
    return *row >= 0 ? MT_OK : mt_json_fail(at, err, "%s: there is no \"%.60s\"", key, name);
}

/* A text that may be missing; then *text is unchanged. */
static enum mt_status take_optional(struct mt_cluster *c, struct mt_json at, const char *key, const char **text,
                                    struct mt_err *err) {
    return mt_json_has(at, key) ? mt_json_text(at, key, &c->arena, text, err) : MT_OK;
}

/* The length of the list `key`, for vectors whose length is free. */
static enum mt_status take_length(struct mt_json at, const char *key, int *length, struct mt_err *err) {
    struct mt_json list;
    enum mt_status st = mt_json_get(at, key, &list, err);
    return st ? st : mt_json_length(list, MOST_ROWS, length, err);
}

static enum mt_status read_curve(void *context, struct mt_json at, int index, struct mt_err *err) {
    static const char *const keys[] = {"op", "variant", "type", "dim", "rows", "time_s", "error", NULL};
    struct reading *reading = context;
    struct mt_curve *curve = &reading->class->curves[index];
    struct mt_arena *arena = &reading->cluster->arena;
    enum mt_status st;
    if ((st = mt_json_only(at, keys, err)) || (st = mt_json_text(at, "op", arena, &curve->op, err)) ||
        (st = mt_json_text(at, "variant", arena, &curve->variant, err)) ||
        (st = take_type(at, "type", &curve->type, err)) ||
        (st = mt_json_ints(at, "dim", INT64_MIN, INT64_MAX, 2, curve->dim, err)) ||
        (st = take_length(at, "rows", &curve->npoints, err)))
        return st;
    curve->rows = mt_new(arena, int64_t, curve->npoints);
    curve->time_s = mt_new(arena, double, curve->npoints);
    curve->error = mt_new(arena, double, curve->npoints);
    if ((st = mt_json_ints(at, "rows", INT64_MIN, INT64_MAX, curve->npoints, curve->rows, err)) ||
        (st = mt_json_reals(at, "time_s", -DBL_MAX, DBL_MAX, curve->npoints, curve->time_s, err)))
        return st;
    return mt_json_reals(at, "error", -DBL_MAX, DBL_MAX, curve->npoints, curve->error, err);
}

static enum mt_status read_flops(struct mt_cluster_class *class, struct mt_json at, struct mt_err *err) {
    const char *keys[MT_I32 + 1] = {0};
    for (int t = 0; t < MT_I32; t++) keys[t] = mt_type_name((enum mt_type)t);
    struct mt_json rates;
    enum mt_status st;
    if ((st = mt_json_get(at, "flops", &rates, err)) || (st = mt_json_only(rates, keys, err))) return st;
    for (int t = 0; t < MT_I32 && !st; t++)
        if (mt_json_has(rates, keys[t])) st = mt_json_real(rates, keys[t], DBL_MIN, DBL_MAX, &class->flops[t], err);
    return st;
}

static enum mt_status read_class(void *context, struct mt_json at, int index, struct mt_err *err) {
    static const char *const keys[] = {
        "name",       "kind",         "model",      "threads", "nominal", "calibration", "memory_bytes",
        "memory_Bps", "memory_error", "overhead_s", "flops",   "curves",  "capability",  NULL};
    static const struct mt_json_rows curves = {"curves", MOST_ROWS, sizeof(struct mt_curve), read_curve};
    struct reading *reading = context;
    struct mt_cluster_class *class = reading->class = &reading->cluster->classes[index];
    struct mt_arena *arena = &reading->cluster->arena;
    enum mt_status st;
    if ((st = mt_json_only(at, keys, err)) || (st = mt_json_text(at, "name", arena, &class->name, err)) ||
        (st = mt_json_text(at, "kind", arena, &class->kind, err)) ||
        (st = mt_json_text(at, "model", arena, &class->model, err)) ||
        (st = take_index(at, "threads", INT32_MAX, &class->threads, err)) ||
        (st = mt_json_bool(at, "nominal", &class->nominal, err)) ||
        (st = take_real(at, "calibration", &class->calibration, err)) ||
        (st = mt_json_int(at, "memory_bytes", INT64_MIN, INT64_MAX, &class->memory_bytes, err)) ||
        (st = take_real(at, "memory_Bps", &class->memory_Bps, err)) ||
        (st = take_real(at, "memory_error", &class->memory_error, err)) ||
        (st = take_real(at, "overhead_s", &class->overhead_s, err)) || (st = read_flops(class, at, err)) ||
        (mt_json_has(at, "capability") && (st = take_index(at, "capability", 10000, &class->capability, err))))
        return st;
    return mt_json_list(at, &curves, reading, arena, &class->curves, &class->ncurves, err);
}

static enum mt_status take_link_figures(struct mt_json at, double *const figures[4], struct mt_err *err) {
    static const char *const keys[] = {"latency_s", "latency_error", "bandwidth_Bps", "bandwidth_error"};
    enum mt_status st = MT_OK;
    for (int f = 0; f < 4 && !st; f++) st = take_real(at, keys[f], figures[f], err);
    return st;
}

/* Absent where no GPU reaches another's memory, or where that was not measured. */
static enum mt_status read_puts(struct mt_json at, struct mt_cluster_puts *puts, struct mt_err *err) {
    const char *keys[MT_CLUSTER_PUTS_FIGURES + 1] = {NULL};
    struct mt_json object;
    enum mt_status st;
    if (!mt_json_has(at, "puts")) return MT_OK;
    for (int f = 0; f < MT_CLUSTER_PUTS_FIGURES; f++) keys[f] = mt_cluster_puts_figures[f].name;
    if ((st = mt_json_get(at, "puts", &object, err)) || (st = mt_json_only(object, keys, err))) return st;
    for (int f = 0; f < MT_CLUSTER_PUTS_FIGURES && !st; f++)
        st = take_real(object, keys[f], (double *)((char *)puts + mt_cluster_puts_figures[f].offset), err);
    if (!st && !(puts->signal_s > 0)) {
        st = mt_json_get(object, "signal_s", &at, err);
        if (!st) st = mt_json_fail(at, err, "is %g, but must be above 0", puts->signal_s);
    }
    return st;
}

static enum mt_status read_link(void *context, struct mt_json at, int index, struct mt_err *err) {
    static const char *const keys[] = {"name",          "nominal",         "latency_s",  "latency_error",
                                       "bandwidth_Bps", "bandwidth_error", "shared_Bps", "compute_slowdown",
                                       "comm_slowdown", "copy_Bps",        "puts",       NULL};
    struct mt_cluster *c = ((struct reading *)context)->cluster;
    struct mt_cluster_link *link = &c->links[index];
    enum mt_status st;
    if ((st = mt_json_only(at, keys, err)) || (st = mt_json_text(at, "name", &c->arena, &link->name, err)) ||
        (st = mt_json_bool(at, "nominal", &link->nominal, err)) ||
        (st = take_link_figures(
             at, (double *[]){&link->latency_s, &link->latency_error, &link->bandwidth_Bps, &link->bandwidth_error},
             err)) ||
        (st = take_real(at, "shared_Bps", &link->shared_Bps, err)) ||
        (st = take_real(at, "compute_slowdown", &link->compute_slowdown, err)))
        return st;
    if ((st = take_optional_real(at, "copy_Bps", &link->copy_Bps, err)) || (st = read_puts(at, &link->puts, err)))
        return st;
    return take_real(at, "comm_slowdown", &link->comm_slowdown, err);
}

static enum mt_status read_node(void *context, struct mt_json at, int index, struct mt_err *err) {
    static const char *const keys[] = {"name", "cores",      "memory_bytes", "inside", "driver",
                                       "nics", "egress_Bps", "ingress_Bps",  NULL};
    struct mt_cluster *c = ((struct reading *)context)->cluster;
    struct mt_cluster_node *node = &c->nodes[index];
    enum mt_status st;
    if ((st = mt_json_only(at, keys, err)) || (st = mt_json_text(at, "name", &c->arena, &node->name, err)) ||
        (st = take_index(at, "cores", INT32_MAX, &node->cores, err)) ||
        (st = mt_json_int(at, "memory_bytes", INT64_MIN, INT64_MAX, &node->memory_bytes, err)) ||
        (st = take_optional(c, at, "driver", &node->driver, err)) ||
        (st = take_optional(c, at, "nics", &node->nics, err)) ||
        (st = take_optional_real(at, "egress_Bps", &node->egress_Bps, err)) ||
        (st = take_optional_real(at, "ingress_Bps", &node->ingress_Bps, err)))
        return st;
    return take_name(c, at, "inside", false, mt_cluster_link_named, &node->inside, err);
}

/* Most often the node of the device before, or the next one; else its name is looked for. */
static enum mt_status take_node(struct reading *reading, struct mt_json at, int *node, struct mt_err *err) {
    const struct mt_cluster *c = reading->cluster;
    const char *name;
    enum mt_status st = mt_json_string(at, "node", &name, err);
    for (int n = reading->node; n < reading->node + 2 && n < c->nnodes && !st; n++)
        if (!strcmp(c->nodes[n].name, name)) return reading->node = *node = n, MT_OK;
    if (!st) st = take_name(c, at, "node", true, mt_cluster_node_named, node, err);
    if (!st) reading->node = *node;
    return st;
}

static enum mt_status read_gpu(struct mt_cluster *c, struct mt_json device, struct mt_cluster_gpu **to,
                               struct mt_err *err) {
    const char *keys[MT_CLUSTER_GPU_FIGURES + 3] = {"bus", "reserved_bytes"};
    struct mt_cluster_gpu *gpu = *to = mt_new(&c->arena, struct mt_cluster_gpu, 1);
    for (int f = 0; f < MT_CLUSTER_GPU_FIGURES; f++) keys[2 + f] = mt_cluster_gpu_figures[f].name;
    struct mt_json at;
    enum mt_status st;
    if ((st = mt_json_get(device, "gpu", &at, err)) || (st = mt_json_only(at, keys, err)) ||
        (st = mt_json_text(at, "bus", &c->arena, &gpu->bus, err)) ||
        (st = mt_json_int(at, "reserved_bytes", 0, INT64_MAX, &gpu->reserved_bytes, err)))
        return st;
    for (int f = 0; f < MT_CLUSTER_GPU_FIGURES && !st; f++)
        if (mt_json_has(at, keys[2 + f]))
            st = take_real(at, keys[2 + f], (double *)((char *)gpu + mt_cluster_gpu_figures[f].offset), err);
    return st;
}

static enum mt_status read_device(void *context, struct mt_json at, int index, struct mt_err *err) {
    static const char *const keys[] = {"node",   "class",        "speed", "speed_error", "emulated",
                                       "stolen", "memory_bytes", "mask",  "gpu",         NULL};
    struct reading *reading = context;
    struct mt_cluster *c = reading->cluster;
    struct mt_cluster_device *device = &c->devices[index];
    enum mt_status st;
    if ((st = mt_json_only(at, keys, err)) || (st = take_node(reading, at, &device->node, err)) ||
        (st = take_name(c, at, "class", true, mt_cluster_class_named, &device->class, err)) ||
        (st = take_real(at, "speed", &device->speed, err)) ||
        (st = take_real(at, "speed_error", &device->speed_error, err)) ||
        (st = take_real(at, "emulated", &device->emulated, err)) ||
        (st = take_real(at, "stolen", &device->stolen, err)) ||
        (st = mt_json_int(at, "memory_bytes", INT64_MIN, INT64_MAX, &device->memory_bytes, err)))
        return st;
    if (mt_json_has(at, "gpu") && (st = read_gpu(c, at, &device->gpu, err))) return st;
    return mt_json_text(at, "mask", &c->arena, &device->mask, err);
}

static enum mt_status read_pair(void *context, struct mt_json at, int index, struct mt_err *err) {
    static const char *const keys[] = {"a",
                                       "b",
                                       "link",
                                       "latency_s",
                                       "latency_error",
                                       "bandwidth_Bps",
                                       "bandwidth_error",
                                       "reverse_Bps",
                                       "reverse_error",
                                       NULL};
    struct mt_cluster *c = ((struct reading *)context)->cluster;
    struct mt_cluster_pair *pair = &c->pairs[index];
    enum mt_status st;
    if ((st = mt_json_only(at, keys, err)) || (st = take_index(at, "a", c->ndevices - 1, &pair->a, err)) ||
        (st = take_index(at, "b", c->ndevices - 1, &pair->b, err)) ||
        (st = take_name(c, at, "link", true, mt_cluster_link_named, &pair->link, err)) ||
        (st = take_optional_real(at, "reverse_Bps", &pair->reverse_Bps, err)) ||
        (st = take_optional_real(at, "reverse_error", &pair->reverse_error, err)))
        return st;
    return take_link_figures(
        at, (double *[]){&pair->latency_s, &pair->latency_error, &pair->bandwidth_Bps, &pair->bandwidth_error}, err);
}

static enum mt_status read_fit(void *context, struct mt_json at, int index, struct mt_err *err) {
    static const char *const keys[] = {"kind",  "algorithm",  "wire",  "acc",  "latency_s",    "bandwidth_Bps",
                                       "error", "size_bytes", "ratio", "skew", "skewed_ratio", NULL};
    struct reading *reading = context;
    struct mt_coll_fit *fit = &reading->group->fits[index];
    struct mt_arena *arena = &reading->cluster->arena;
    const char *kinds[MT_NCOLLS];
    for (int k = 0; k < MT_NCOLLS; k++) kinds[k] = mt_coll_name((enum mt_coll_kind)k);
    int kind;
    enum mt_status st;
    if ((st = mt_json_only(at, keys, err)) || (st = mt_json_enum(at, "kind", kinds, MT_NCOLLS, &kind, err)) ||
        (st = mt_json_text(at, "algorithm", arena, &fit->algorithm, err)) ||
        (st = take_type(at, "wire", &fit->wire, err)) || (st = take_type(at, "acc", &fit->acc, err)) ||
        (st = take_real(at, "latency_s", &fit->latency_s, err)) ||
        (st = take_real(at, "bandwidth_Bps", &fit->bandwidth_Bps, err)) ||
        (st = take_real(at, "error", &fit->error, err)) || (st = take_length(at, "size_bytes", &fit->npoints, err)))
        return st;
    fit->kind = (enum mt_coll_kind)kind;
    fit->size_bytes = mt_new(arena, int64_t, fit->npoints);
    fit->ratio = mt_new(arena, double, fit->npoints);
    if ((st = mt_json_ints(at, "size_bytes", INT64_MIN, INT64_MAX, fit->npoints, fit->size_bytes, err))) return st;
    if ((st = mt_json_reals(at, "ratio", -DBL_MAX, DBL_MAX, fit->npoints, fit->ratio, err)) ||
        (st = take_optional_real(at, "skew", &fit->skew, err)) || !(fit->skew > 0))
        return st;
    fit->skewed_ratio = mt_new(arena, double, fit->npoints);
    return mt_json_reals(at, "skewed_ratio", -DBL_MAX, DBL_MAX, fit->npoints, fit->skewed_ratio, err);
}

static enum mt_status read_member(void *context, struct mt_json at, int index, struct mt_err *err) {
    struct reading *reading = context;
    int64_t device;
    enum mt_status st = mt_json_as_int(at, 0, reading->cluster->ndevices - 1, &device, err);
    if (!st) reading->group->devices[index] = (int)device;
    return st;
}

static enum mt_status read_group(void *context, struct mt_json at, int index, struct mt_err *err) {
    static const char *const keys[] = {"name", "devices", "link", "fits", NULL};
    static const struct mt_json_rows members = {"devices", MT_CLUSTER_MOST_DEVICES, sizeof(int), read_member};
    static const struct mt_json_rows fits = {"fits", MOST_NAMED, sizeof(struct mt_coll_fit), read_fit};
    struct reading *reading = context;
    struct mt_cluster *c = reading->cluster;
    struct mt_cluster_group *group = reading->group = &c->groups[index];
    enum mt_status st;
    if ((st = mt_json_only(at, keys, err)) || (st = mt_json_text(at, "name", &c->arena, &group->name, err)) ||
        (st = mt_json_list(at, &members, reading, &c->arena, &group->devices, &group->ndevices, err)) ||
        (st = take_name(c, at, "link", true, mt_cluster_link_named, &group->link, err)))
        return st;
    return mt_json_list(at, &fits, reading, &c->arena, &group->fits, &group->nfits, err);
}

static enum mt_status read_warning(void *context, struct mt_json at, int index, struct mt_err *err) {
    struct mt_cluster *c = ((struct reading *)context)->cluster;
    const char *text;
    enum mt_status st = mt_json_as_string(at, &text, err);
    if (!st) c->warnings[index] = mt_arena_strdup(&c->arena, text);
    return st;
}

static enum mt_status read_members(struct mt_cluster *c, struct mt_json root, struct mt_err *err) {
    static const char *const keys[] = {"format",  "version",  "hash",    "made_by", "source",  "description",
                                       "classes", "links",    "network", "nodes",   "devices", "pairs",
                                       "groups",  "warnings", "nccl",    NULL};
    static const struct mt_json_rows classes = {"classes", MT_CLUSTER_MOST_DEVICES, sizeof *c->classes, read_class},
                                     links = {"links", MOST_NAMED, sizeof *c->links, read_link},
                                     nodes = {"nodes", MT_CLUSTER_MOST_DEVICES, sizeof *c->nodes, read_node},
                                     devices = {"devices", MT_CLUSTER_MOST_DEVICES, sizeof *c->devices, read_device},
                                     pairs = {"pairs", MT_CLUSTER_MOST_PAIRS, sizeof *c->pairs, read_pair},
                                     groups = {"groups", MOST_ROWS, sizeof *c->groups, read_group},
                                     warnings = {"warnings", MOST_ROWS, sizeof *c->warnings, read_warning};
    struct reading reading = {.cluster = c};
    struct mt_arena *arena = &c->arena;
    const char *hash;
    enum mt_status st;
    if ((st = mt_json_only(root, keys, err)) || (st = mt_json_string(root, "hash", &hash, err)) ||
        (st = mt_json_text(root, "made_by", arena, &c->made_by, err)) ||
        (st = mt_json_text(root, "source", arena, &c->source, err)) ||
        (st = mt_json_text(root, "description", arena, &c->description, err)) ||
        (st = take_optional(c, root, "nccl", &c->nccl, err)) ||
        (st = mt_json_list(root, &classes, &reading, arena, &c->classes, &c->nclasses, err)) ||
        (st = mt_json_list(root, &links, &reading, arena, &c->links, &c->nlinks, err)) ||
        (st = take_name(c, root, "network", false, mt_cluster_link_named, &c->network, err)) ||
        (st = mt_json_list(root, &nodes, &reading, arena, &c->nodes, &c->nnodes, err)) ||
        (st = mt_json_list(root, &devices, &reading, arena, &c->devices, &c->ndevices, err)) ||
        (st = mt_json_list(root, &pairs, &reading, arena, &c->pairs, &c->npairs, err)) ||
        (st = mt_json_list(root, &groups, &reading, arena, &c->groups, &c->ngroups, err)))
        return st;
    if (strlen(hash) != 32) return mt_json_fail(root, err, "hash: must be 32 hexadecimal digits");
    memcpy(c->hash, hash, sizeof c->hash);
    return mt_json_list(root, &warnings, &reading, arena, &c->warnings, &c->nwarnings, err);
}

static enum mt_status check_hash(const char *name, const struct mt_cluster *c, struct mt_err *err) {
    char hash[33];
    mt_cluster_hash(c, hash);
    if (!strcmp(hash, c->hash)) return MT_OK;
    mt_fail(err, MT_EINPUT, "%s: hash: does not fit: the document was changed after it was made", name);
    return mt_err_hint(err, "profile again with `motley profile`, or think about changes with `motley whatif`");
}

static enum mt_status read_document(struct mt_json_doc *doc, struct mt_cluster **cluster, struct mt_err *err) {
    struct mt_cluster *c = mt_cluster_new();
    enum mt_status st;
    if ((st = mt_json_format(doc->root, MT_CLUSTER_FORMAT, MT_CLUSTER_VERSION, err)) ||
        (st = read_members(c, doc->root, err)))
        goto out;
    if ((st = mt_cluster_check(c, err)))
        mt_err_context(err, "%s", doc->name);
    else
        st = check_hash(doc->name, c, err);
out:
    if (st)
        mt_cluster_free(c);
    else
        *cluster = c;
    mt_json_release(doc);
    return st;
}

enum mt_status mt_cluster_parse(const char *name, const char *text, size_t length, struct mt_cluster **cluster,
                                struct mt_err *err) {
    struct mt_json_doc doc;
    enum mt_status st = mt_json_parse(name, text, length, &doc, err);
    return st ? st : read_document(&doc, cluster, err);
}

enum mt_status mt_cluster_read(const char *path, struct mt_cluster **cluster, struct mt_err *err) {
    struct mt_json_doc doc;
    enum mt_status st = mt_json_load(path, &doc, err);
    if (st && access(path, F_OK))
        mt_err_hint(err, "`mpirun -n RANKS motley profile -o %.200s` measures a cluster; or describe one, as h100:1x8",
                    path);
    return st ? st : read_document(&doc, cluster, err);
}
