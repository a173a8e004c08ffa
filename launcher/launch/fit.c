/* Whether a host is fit for a node of a plan: slots, devices by class, their memory, links; and the table of what does
 * not match. */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/text/units.h"
#include "launcher/launch/internal.h"
#include "profiler/describe/hardware.h"

/* Equal names; a measured device of a model that a row of hardware.def describes; for a described core of a CPU, any
 * measured CPU with as many threads. */
static bool same_class(const char *planned, const struct mt_cluster_class *measured) {
    struct mt_hardware row;
    if (!planned[0] || !strcmp(planned, measured->name)) return true;
    if (!mt_hardware_find(planned, &row) || strcmp(row.kind, measured->kind)) return false;
    if (!strcmp(row.kind, "cpu")) return measured->threads >= row.threads;
    const char *model = mt_hardware_of_model(measured->model);
    return model && !strcmp(model, row.name);
}

static int64_t needs(const struct mt_plan *plan, int rank) {
    return mt_plan_needs_bytes(plan, rank);
}

/* The free device of the profile's node for a rank, of those of its class with enough memory: the first one of the
 * rank's own speed, as in the profile that the plan was made from, else the first. Without any that has enough, the one
 * with the most. -1: there is none. */
static int device_for(const struct placing *p, int rank, int profile, const bool *taken) {
    const struct mt_cluster *c = p->q->cluster;
    const struct mt_plan_rank *r = &p->q->plan->ranks[rank];
    int best = -1;
    int64_t most = -1;
    for (int d = 0; d < c->ndevices; d++) {
        const struct mt_cluster_device *device = &c->devices[d];
        const struct mt_cluster_class *class = &c->classes[device->class];
        if (device->node != profile || taken[d] || !same_class(r->class, class)) continue;
        bool enough = !device->memory_bytes || device->memory_bytes >= needs(p->q->plan, rank);
        if (enough && !strcmp(r->class, class->name) && device->speed == r->speed) return d;
        int64_t memory = enough ? INT64_MAX : device->memory_bytes;
        if (memory > most) best = d, most = memory;
    }
    return best;
}

/* Ranks of a node that need the most memory choose first; equal ones in their order. */
static int *by_need(const struct placing *p, const struct plan_node *node) {
    int *order = mt_new(p->arena, int, node->n);
    for (int k = 0; k < node->n; k++) {
        int at = k;
        for (; at && needs(p->q->plan, order[at - 1]) < needs(p->q->plan, node->ranks[k]); at--)
            order[at] = order[at - 1];
        order[at] = node->ranks[k];
    }
    return order;
}

/* The plan is for this cluster, rank by rank. */
static bool is_own(const struct placing *p) {
    return p->q->plan->nranks == p->q->cluster->ndevices && !strcmp(p->q->plan->cluster_hash, p->q->cluster->hash);
}

/* Give each rank a device, in this order; whether each has one with enough memory. Any such device will do: what is
 * enough for a rank is enough for all that need less. */
static bool take_in_order(const struct placing *p, int profile, const int *order, int n, int *device) {
    bool *taken = mt_new(p->arena, bool, p->q->cluster->ndevices), right = true;
    for (int k = 0; k < n; k++) {
        int rank = order[k], d = is_own(p) ? rank : device_for(p, rank, profile, taken);
        device[rank] = d;
        if (d >= 0) taken[d] = true;
        int64_t has = d >= 0 ? p->q->cluster->devices[d].memory_bytes : 0;
        right &= d >= 0 && (!has || has >= needs(p->q->plan, rank));
    }
    return right;
}

bool mt_place_devices(const struct placing *p, int node, int profile, int *device) {
    const struct plan_node *n = &p->nodes[node];
    if (profile < 0) return false;
    return take_in_order(p, profile, n->ranks, n->n, device) || take_in_order(p, profile, by_need(p, n), n->n, device);
}

static const char *lacks_devices(const struct placing *p, const struct plan_node *node, const int *device) {
    const struct mt_plan *plan = p->q->plan;
    char lacking[MT_UNITS_TEXT], has[MT_UNITS_TEXT];
    for (int k = 0; k < node->n; k++) {
        int rank = node->ranks[k], found = 0, wanted = 0;
        const char *class = plan->ranks[rank].class;
        if (device[rank] >= 0) continue;
        for (int i = 0; i < node->n; i++) {
            if (strcmp(plan->ranks[node->ranks[i]].class, class)) continue;
            wanted++;
            found += device[node->ranks[i]] >= 0;
        }
        return mt_arena_printf(p->arena, "%d of %d %s", found, wanted, class[0] ? class : "devices");
    }
    for (int k = 0; k < node->n; k++) {
        int rank = node->ranks[k];
        int64_t memory = p->q->cluster->devices[device[rank]].memory_bytes;
        if (!memory || needs(plan, rank) <= memory) continue;
        return mt_arena_printf(p->arena, "rank %d needs %s, device %d has %s", rank,
                               mt_units_bytes((double)needs(plan, rank), lacking), device[rank],
                               mt_units_bytes((double)memory, has));
    }
    return NULL;
}

static const char *lacks_link(const struct placing *p, const char *what, double planned_Bps, double Bps) {
    char planned[MT_UNITS_TEXT], measured[MT_UNITS_TEXT];
    if (!(planned_Bps > 0) || Bps >= MT_PLACE_LINK_LEAST * planned_Bps) return NULL;
    return mt_arena_printf(p->arena, "%s: %s, planned %s", what, mt_units_Bps(Bps, measured),
                           mt_units_Bps(planned_Bps, planned));
}

/* What a node sends over the network at most. */
static double network_Bps(const struct mt_cluster *c, int node) {
    double link = c->links[c->network].bandwidth_Bps, egress = mt_cluster_node_egress(c, node);
    return egress < link ? egress : link;
}

static const char *lacks_links(const struct placing *p, const struct plan_node *node, int profile) {
    const struct mt_cluster *was = p->q->described, *is = p->q->cluster;
    int planned = was ? mt_cluster_node_named(was, node->name) : -1;
    if (planned < 0) return NULL;
    const char *lacks = NULL;
    int inside = was->nodes[planned].inside, here = is->nodes[profile].inside;
    if (node->n > 1 && inside >= 0 && here >= 0)
        lacks = lacks_link(p, is->links[here].name, was->links[inside].bandwidth_Bps, is->links[here].bandwidth_Bps);
    if (!lacks && p->nnodes > 1 && was->network >= 0 && is->network >= 0)
        lacks = lacks_link(p, is->links[is->network].name, network_Bps(was, planned), network_Bps(is, profile));
    return lacks;
}

/* Whether a list "a,b(3),c" has a word. */
static bool lists(const char *list, const char *word) {
    size_t length = strlen(word);
    for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',')
        if (!strncmp(at, word, length) && (!at[length] || strchr(",(", at[length]))) return true;
    return false;
}

static const char *lacks_feature(const struct placing *p, const struct plan_node *node, const struct mt_host *host) {
    for (int k = 0; k < node->n; k++) {
        const char *class = p->q->plan->ranks[node->ranks[k]].class;
        if (!lists(host->features ? host->features : "", class))
            return mt_arena_printf(p->arena, "no feature %s", class);
    }
    return NULL;
}

const char *mt_place_lacks(const struct placing *p, int node, int host) {
    const struct plan_node *n = &p->nodes[node];
    const struct mt_host *h = &p->q->hosts->hosts[host];
    if (p->matching && p->q->asked && !h->answers) return mt_arena_printf(p->arena, "does not answer: %s", h->why);
    if (h->slots && h->slots < n->n) return mt_arena_printf(p->arena, "slots=%d, %d ranks", h->slots, n->n);
    if (!p->q->cluster) return p->by_features ? lacks_feature(p, n, h) : NULL;
    int profile = p->profile[host], *device = mt_new(p->arena, int, p->q->plan->nranks);
    if (profile < 0) return "not in the profile";
    mt_place_devices(p, node, profile, device);
    const char *lacks = lacks_devices(p, n, device);
    return lacks ? lacks : lacks_links(p, n, profile);
}

/* "2 a100-40, 1 a10": counts by class, in order of first. */
static const char *count_classes(struct mt_arena *arena, const char **classes, int n) {
    const char *text = "";
    for (int i = 0; i < n; i++) {
        int count = 0, first = 0;
        while (strcmp(classes[first], classes[i])) first++;
        for (int k = i; k < n && first == i; k++) count += !strcmp(classes[k], classes[i]);
        if (first == i)
            text = mt_arena_printf(arena, "%s%s%d %s", text, *text ? ", " : "", count,
                                   classes[i][0] ? classes[i] : "ranks");
    }
    return text;
}

static void begin_table(struct placing *p) {
    p->table = mt_tables_add(&p->doc, "mismatches", "", "");
    p->table->indent = 0;
    mt_table_column(p->table, "node", "the plan's", MT_UNIT_TEXT);
    mt_table_column(p->table, "wants", "wants", MT_UNIT_TEXT);
    mt_table_column(p->table, "host", "host", MT_UNIT_TEXT);
    mt_table_column(p->table, "has", "has", MT_UNIT_TEXT);
    mt_table_column(p->table, "lacks", "does not match", MT_UNIT_TEXT);
}

void mt_place_tell(struct placing *p, int node, int host, const char *lacks) {
    const struct plan_node *n = &p->nodes[node];
    const struct mt_cluster *c = p->q->cluster;
    const char **classes = mt_new(p->arena, const char *, n->n + (c ? c->ndevices : 0)), *has = "";
    if (!p->table) begin_table(p);
    for (int k = 0; k < n->n; k++) classes[k] = p->q->plan->ranks[n->ranks[k]].class;
    mt_table_row(p->table);
    mt_cell_text(p->table, "%s", n->name);
    mt_cell_text(p->table, "%s", count_classes(p->arena, classes, n->n));
    mt_cell_text(p->table, "%s", host < 0 ? "-" : p->q->hosts->hosts[host].name);
    int count = 0;
    for (int d = 0; c && host >= 0 && d < c->ndevices; d++)
        if (c->devices[d].node == p->profile[host]) classes[count++] = c->classes[c->devices[d].class].name;
    if (count) has = count_classes(p->arena, classes, count);
    mt_cell_text(p->table, "%s", has);
    mt_cell_text(p->table, "%s", lacks);
}

void mt_place_print(struct placing *p, FILE *file) {
    if (p->table) mt_tables_write(&p->doc, MT_TABLES_TEXT, file);
}
