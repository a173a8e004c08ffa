/* Set figures: WHOSE.NAME[.FIGURE]=VALUE; a table with one row for each figure. */
#include <string.h>

#include "kernels/base/text/units.h"
#include "profiler/describe/edit.h"
#include "profiler/describe/internal.h"
#include "profiler/describe/hardware.h"

static enum mt_status find_link(const struct mt_cluster *c, const char *name, int *link, struct mt_err *err) {
    struct mt_nearest near = mt_nearest_to(name);
    *link = mt_cluster_link_named(c, name);
    if (*link >= 0) return MT_OK;
    for (int l = 0; l < c->nlinks; l++) mt_nearest_add(&near, c->links[l].name);
    mt_fail(err, MT_EINPUT, "there is no link \"%.60s\"", name);
    return mt_nearest_hint(&near, err, "links: %s", near.list);
}

static enum mt_status take_rate(const char *value, bool bits, double *rate, struct mt_err *err) {
    if (mt_units_parse_rate(value, bits, rate)) return MT_OK;
    mt_fail(err, MT_EINPUT, "\"%.60s\" must be a rate in %s a second, as %s", value, bits ? "bits" : "bytes",
            bits ? "400G" : "300G");
    return mt_err_hint(err, "%s", mt_units_rate_hint(value, bits));
}

static enum mt_status set_bandwidth(struct mt_cluster *c, const char *name, const char *value, struct mt_err *err) {
    static const struct mt_hardware_link plain = {.name = "", .reached = 1};
    int link;
    double rate;
    enum mt_status st = find_link(c, name, &link, err);
    if (st) return st;
    const struct mt_hardware_link *row = mt_hardware_link_find(name);
    if (!row && link == c->network) row = mt_hardware_link_find("net");
    if (!row) row = &plain;
    if ((st = take_rate(value, row->bits, &rate, err))) return st;
    mt_edit_link_rates(c, link, mt_hardware_link_Bps(row, rate), c->links[link].latency_s);
    return MT_OK;
}

static enum mt_status set_latency(struct mt_cluster *c, const char *name, const char *value, struct mt_err *err) {
    int link;
    double latency_s;
    enum mt_status st = find_link(c, name, &link, err);
    if (st) return st;
    if (!mt_units_parse_seconds(value, &latency_s))
        return mt_fail(err, MT_EINPUT, "\"%.60s\" must be a time, as 5us", value);
    mt_edit_link_rates(c, link, c->links[link].bandwidth_Bps, latency_s);
    return MT_OK;
}

static enum mt_status set_node_rate(struct mt_cluster *c, const char *name, const char *value, bool egress,
                                    struct mt_err *err) {
    int node = mt_cluster_node_named(c, name);
    double rate;
    if (node < 0) return mt_edit_no_node(c, name, err);
    if (c->network < 0) return mt_fail(err, MT_EINPUT, "there is one node, and so no network");
    enum mt_status st = take_rate(value, true, &rate, err);
    if (st) return st;
    mt_edit_node_rate(c, node, egress, mt_hardware_link_Bps(mt_hardware_link_find("net"), rate));
    return MT_OK;
}

static enum mt_status set_node_egress(struct mt_cluster *c, const char *name, const char *value, struct mt_err *err) {
    return set_node_rate(c, name, value, true, err);
}

static enum mt_status set_node_ingress(struct mt_cluster *c, const char *name, const char *value, struct mt_err *err) {
    return set_node_rate(c, name, value, false, err);
}

static enum mt_status find_class(const struct mt_cluster *c, const char *name, int *class, struct mt_err *err) {
    *class = mt_cluster_class_named(c, name);
    if (*class >= 0) return MT_OK;
    mt_fail(err, MT_EINPUT, "there is no class \"%.60s\"", name);
    return mt_edit_names(c, name, false, err);
}

/* Or null. */
static struct mt_cluster_device *find_rank(const struct mt_cluster *c, const char *name, struct mt_err *err) {
    int64_t rank;
    if (mt_units_parse_int(name, &rank) && rank >= 0 && rank < c->ndevices) return &c->devices[rank];
    mt_fail(err, MT_EINPUT, "\"%.60s\" must be a rank, from 0 to %d", name, c->ndevices - 1);
    return NULL;
}

static enum mt_status take_speed(const char *value, double *speed, struct mt_err *err) {
    if (mt_units_parse_real(value, speed) && *speed > 0) return MT_OK;
    return mt_fail(err, MT_EINPUT, "\"%.60s\" must be a number above 0", value);
}

static enum mt_status take_memory(const char *value, int64_t *bytes, struct mt_err *err) {
    if (mt_units_parse_bytes(value, bytes) && *bytes > 0) return MT_OK;
    return mt_fail(err, MT_EINPUT, "\"%.60s\" must be a number of bytes, as 32GiB", value);
}

static enum mt_status set_class_speed(struct mt_cluster *c, const char *name, const char *value, struct mt_err *err) {
    int class;
    double speed;
    enum mt_status st;
    if ((st = find_class(c, name, &class, err)) || (st = take_speed(value, &speed, err))) return st;
    for (int d = 0; d < c->ndevices; d++)
        if (c->devices[d].class == class) c->devices[d].speed = speed;
    return MT_OK;
}

static enum mt_status set_class_memory(struct mt_cluster *c, const char *name, const char *value, struct mt_err *err) {
    int class;
    int64_t bytes;
    enum mt_status st;
    if ((st = find_class(c, name, &class, err)) || (st = take_memory(value, &bytes, err))) return st;
    c->classes[class].memory_bytes = bytes;
    for (int d = 0; d < c->ndevices; d++)
        if (c->devices[d].class == class) c->devices[d].memory_bytes = bytes;
    return MT_OK;
}

static enum mt_status set_rank_speed(struct mt_cluster *c, const char *name, const char *value, struct mt_err *err) {
    struct mt_cluster_device *device = find_rank(c, name, err);
    return device ? take_speed(value, &device->speed, err) : err->status;
}

static enum mt_status set_rank_memory(struct mt_cluster *c, const char *name, const char *value, struct mt_err *err) {
    struct mt_cluster_device *device = find_rank(c, name, err);
    return device ? take_memory(value, &device->memory_bytes, err) : err->status;
}

static const struct figure {
    const char *whose, *figure;
    enum mt_status (*set)(struct mt_cluster *c, const char *name, const char *value, struct mt_err *err);
} figures[] = {{"link", "", set_bandwidth},         {"link", "latency", set_latency},
               {"node", "egress", set_node_egress}, {"node", "ingress", set_node_ingress},
               {"class", "speed", set_class_speed}, {"class", "memory", set_class_memory},
               {"rank", "speed", set_rank_speed},   {"rank", "memory", set_rank_memory}};

/* Split "link.net.latency": whose, the name (which may contain dots), and the last part if it is a figure of the table.
 */
static const struct figure *find_figure(char *path, char **name) {
    char *dot = strchr(path, '.');
    if (!dot) return NULL;
    *dot = 0;
    *name = dot + 1;
    char *last = strrchr(*name, '.');
    const struct figure *whole = NULL;
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
        if (strcmp(figures[i].whose, path)) continue;
        if (!figures[i].figure[0]) {
            whole = &figures[i];
        } else if (last && !strcmp(last + 1, figures[i].figure)) {
            *last = 0;
            return &figures[i];
        }
    }
    return whole;
}

static enum mt_status set(struct mt_cluster *c, const char *what, struct mt_err *err) {
    char *path = mt_arena_strdup(&c->arena, what), *value = strchr(path, '='), *name;
    if (value) *value++ = 0;
    const struct figure *figure = value ? find_figure(path, &name) : NULL;
    if (figure) return figure->set(c, name, value, err);
    /* What may stand around the name, or the name for which it was forgotten. */
    struct mt_nearest near = mt_nearest_to_part(what, strcspn(what, ".="));
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) mt_nearest_add(&near, figures[i].whose);
    mt_fail(err, MT_EINPUT, "is not understood");
    return mt_nearest_hint(&near, err,
                           "as link.net=400G, link.net.latency=5us, node.NAME.egress=100M, node.NAME.ingress=1G, "
                           "class.NAME.speed=1.2, class.NAME.memory=32GiB, rank.3.speed=0.5 or rank.3.memory=8GiB");
}

enum mt_status mt_cluster_set(struct mt_cluster *cluster, const char *what, struct mt_err *err) {
    return mt_edit(cluster, "set", what, set, err);
}
