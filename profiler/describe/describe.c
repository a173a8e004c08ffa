/* Parse a description, and make the cluster. */
#include "profiler/describe/describe.h"

#include <ctype.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/text/units.h"
#include "profiler/describe/hardware.h"

struct term {
    int column;             /* of its first character, for messages */
    int class;              /* of the cluster */
    int measured_class;     /* of `measured`, or -1 */
    struct mt_hardware row; /* used if measured_class is -1 */
    int nodes, devices;
    const struct mt_hardware_link *inside; /* null: not given */
    double inside_rate, net_rate;          /* net_rate 0: not given */
    double node_rate[2];                   /* egress, ingress; in bits a second; 0: not given */
};

struct describing {
    const char *text;
    const struct mt_cluster *measured;
    struct mt_cluster *cluster;
    struct term *terms;
    int nterms, capacity, class_capacity, link_capacity;
    int64_t ndevices;
    struct mt_err *err;
};

static enum mt_status refuse(const struct describing *d, const char *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static enum mt_status refuse(const struct describing *d, const char *at, const char *format, ...) {
    char why[400];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    return mt_fail(d->err, MT_EINPUT, "\"%.200s\": column %d: %s", d->text, (int)(at - d->text) + 1, why);
}

/* "2x8" or "2": integers from 1. */
static enum mt_status take_counts(struct describing *d, const char *at, const char *counts, struct term *term) {
    char text[32], *x;
    int64_t nodes, devices = 1;
    snprintf(text, sizeof text, "%s", counts);
    if ((x = strchr(text, 'x'))) *x = 0;
    if (strlen(counts) >= sizeof text || !mt_units_parse_int(text, &nodes) ||
        (x && !mt_units_parse_int(x + 1, &devices)) || nodes < 1 || devices < 1)
        return refuse(d, at, "\"%.60s\" must be NODES or NODESxDEVICES, as 2 or 2x8", counts);
    if (nodes > MT_CLUSTER_MOST_DEVICES || devices > MT_CLUSTER_MOST_DEVICES ||
        (d->ndevices += nodes * devices) > MT_CLUSTER_MOST_DEVICES)
        return refuse(d, at, "more than %d devices", MT_CLUSTER_MOST_DEVICES);
    term->nodes = (int)nodes;
    term->devices = (int)devices;
    return MT_OK;
}

/* Names of hardware and of links may be in capitals. */
static void to_lower(char *word) {
    for (; *word; word++) *word = (char)tolower((unsigned char)*word);
}

static enum mt_status take_name(struct describing *d, const char *at, char *word) {
    mt_arena_grow(&d->cluster->arena, &d->terms, d->nterms, &d->capacity, sizeof *d->terms);
    struct term *term = &d->terms[d->nterms++];
    *term = (struct term){.column = (int)(at - d->text) + 1, .measured_class = -1};
    char *colon = strchr(word, ':');
    if (colon) *colon = 0;
    if (d->measured) term->measured_class = mt_cluster_class_named(d->measured, word);
    if (term->measured_class < 0 && !mt_hardware_find(word, &term->row)) {
        refuse(d, at, "\"%.60s\" is not known here", word);
        size_t digits = strspn(word, "0123456789");
        if (digits && (word[digits] == 'x' || word[digits] == 'X') && mt_hardware_find(word + digits + 1, &term->row))
            return mt_err_hint(d->err,
                               "counts follow the name: %s:1x%.*s is a node of %.*s, %s:%.*s are %.*s nodes of one",
                               word + digits + 1, (int)digits, word, (int)digits, word, word + digits + 1, (int)digits,
                               word, (int)digits, word);
        return mt_hardware_hint(word, d->measured, d->err);
    }
    if (term->measured_class < 0) to_lower(word);
    struct mt_cluster *c = d->cluster;
    term->class = mt_cluster_class_named(c, word);
    if (term->class < 0) {
        mt_arena_grow(&c->arena, &c->classes, c->nclasses, &d->class_capacity, sizeof *c->classes);
        c->classes[term->class = c->nclasses++] =
            term->measured_class < 0 ? mt_hardware_class(&term->row, word, d->measured, &c->arena)
                                     : mt_cluster_class_copy(&d->measured->classes[term->measured_class], &c->arena);
    }
    return take_counts(d, colon ? at + (colon + 1 - word) : at, colon ? colon + 1 : "1", term);
}

static const char *const node_rates[2] = {"egress", "ingress"};

/* LINK=RATE. */
static enum mt_status take_link(struct describing *d, const char *at, char *word) {
    if (!d->nterms) return refuse(d, at, "must begin with the NAME of a device, as h100:2x8");
    struct term *term = &d->terms[d->nterms - 1];
    char *value = strchr(word, '=');
    *value++ = 0;
    to_lower(word);
    const struct mt_hardware_link *row = mt_hardware_link_find(word);
    double rate;
    int of_node = 0; /* 0, 1: egress, ingress; 2: a link */
    while (of_node < 2 && strcmp(word, node_rates[of_node])) of_node++;
    if (of_node == 2 && (!row || strcmp(row->name, word))) {
        struct mt_nearest near = mt_nearest_to(word);
        mt_hardware_link_names(&near);
        mt_nearest_find(&near, node_rates, 2);
        refuse(d, at, "there is no link \"%.60s\"", word);
        return mt_nearest_hint(&near, d->err, "known: %s; the last two are a node's", near.list);
    }
    bool bits = of_node < 2 || row->bits;
    if (!mt_units_parse_rate(value, bits, &rate)) {
        refuse(d, at + (value - word), "\"%.60s\" must be a rate in %s a second, as %s", value, bits ? "bits" : "bytes",
               bits ? "25G" : "300G");
        return mt_err_hint(d->err, "%s", mt_units_rate_hint(value, bits));
    }
    if (of_node < 2) {
        if (term->node_rate[of_node] > 0) return refuse(d, at, "the term has two of %s", word);
        term->node_rate[of_node] = rate;
        return MT_OK;
    }
    if (row->bits ? term->net_rate > 0 : term->inside != NULL)
        return refuse(d, at, "the term has two links %s its nodes", row->bits ? "between" : "within");
    if (row->bits)
        term->net_rate = rate;
    else
        term->inside = row, term->inside_rate = rate;
    return MT_OK;
}

static enum mt_status take_words(struct describing *d) {
    static const char *const space = " \t\n";
    bool name_next = true;
    enum mt_status st = MT_OK;
    const char *at = d->text + strspn(d->text, space);
    while (*at && !st) {
        size_t length = strcspn(at, space);
        char *word = mt_arena_printf(&d->cluster->arena, "%.*s", (int)length, at);
        if (!strcmp(word, "+")) {
            if (name_next) return refuse(d, at, "there is no term before this \"+\"");
            name_next = true;
        } else if (name_next) {
            if (strchr(word, '=')) return refuse(d, at, "a term must begin with the NAME of a device, as h100:2x8");
            st = take_name(d, at, word);
            name_next = false;
        } else if (strchr(word, '=')) {
            st = take_link(d, at, word);
        } else {
            st = refuse(d, at, "\"%.60s\" must be LINK=RATE, or a \"+\" must stand before it", word);
        }
        at += length;
        at += strspn(at, space);
    }
    if (!st && name_next)
        return refuse(d, at, d->nterms ? "a term must follow the last \"+\"" : "there is no term; as h100:2x8");
    return st;
}

/* The index of an equal link, or of a new one; a second link of one name is called "nvlink2". */
static int link_row(struct describing *d, struct mt_cluster_link link) {
    struct mt_cluster *c = d->cluster;
    const char *name = link.name;
    for (int i = 2;; i++) {
        int row = mt_cluster_link_named(c, link.name);
        if (row < 0) break;
        if (c->links[row].bandwidth_Bps == link.bandwidth_Bps && c->links[row].nominal == link.nominal) return row;
        link.name = mt_arena_printf(&c->arena, "%s%d", name, i);
    }
    link.name = mt_arena_strdup(&c->arena, link.name);
    mt_arena_grow(&c->arena, &c->links, c->nlinks, &d->link_capacity, sizeof *c->links);
    c->links[c->nlinks] = link;
    return c->nlinks++;
}

/* The link within the term's nodes: the given one, else one measured between such devices, else the default. */
static int inside_of(struct describing *d, const struct term *term) {
    if (term->inside) return link_row(d, mt_hardware_link(term->inside, term->inside_rate));
    const struct mt_cluster *m = d->measured;
    if (term->measured_class < 0)
        return link_row(d, mt_hardware_link(mt_hardware_link_find(term->row.link), term->row.link_GBps * 1e9));
    for (int i = 0; i < m->ndevices; i++) {
        int inside = m->nodes[m->devices[i].node].inside;
        if (m->devices[i].class == term->measured_class && inside >= 0) return link_row(d, m->links[inside]);
    }
    bool gpu = !strcmp(m->classes[term->measured_class].kind, "cuda");
    const struct mt_hardware_link *row = mt_hardware_link_find(gpu ? "pcie" : "memory");
    return link_row(d, mt_hardware_link(row, row->rate));
}

static void add_nodes(struct describing *d, const struct term *term) {
    struct mt_cluster *c = d->cluster;
    const struct mt_cluster_class *class = &c->classes[term->class];
    bool cpu = !strcmp(class->kind, "cpu");
    int inside = inside_of(d, term);
    for (int n = 0; n < term->nodes; n++) {
        c->nodes[c->nnodes] = (struct mt_cluster_node){
            .name = mt_arena_printf(&c->arena, "node%d", c->nnodes),
            .cores = cpu ? class->threads * term->devices : 0,
            .memory_bytes = cpu ? class->memory_bytes * term->devices : 0,
            .inside = inside,
        };
        for (int i = 0; i < term->devices; i++)
            c->devices[c->ndevices++] = (struct mt_cluster_device){.node = c->nnodes,
                                                                   .class = term->class,
                                                                   .speed = 1,
                                                                   .emulated = 1,
                                                                   .memory_bytes = class->memory_bytes,
                                                                   .mask = ""};
        c->nnodes++;
    }
}

/* The most that the nodes of each term send and receive: what is given; and its net, if others have a faster one. */
static void set_node_rates(struct describing *d, double fastest) {
    const struct mt_hardware_link *net = mt_hardware_link_find("net");
    struct mt_cluster *c = d->cluster;
    for (int t = 0, n = 0; t < d->nterms; t++) {
        const struct term *term = &d->terms[t];
        double most = term->net_rate > 0 && term->net_rate < fastest ? term->net_rate : INFINITY;
        for (int i = 0; i < term->nodes; i++, n++) {
            double *rates[2] = {&c->nodes[n].egress_Bps, &c->nodes[n].ingress_Bps};
            for (int k = 0; k < 2; k++) {
                double rate = term->node_rate[k] > 0 ? fmin(term->node_rate[k], most) : most;
                if (isfinite(rate)) *rates[k] = mt_hardware_link_Bps(net, rate);
            }
        }
    }
}

/* The network is the fastest net that is given; nodes with a slower one are limited by their own rates. */
static enum mt_status add_network(struct describing *d) {
    const struct mt_hardware_link *net = mt_hardware_link_find("net");
    struct mt_cluster *c = d->cluster;
    int said = 0, last = 0;
    double fastest = 0;
    bool of_nodes = false;
    for (int t = 0; t < d->nterms; t++) {
        of_nodes |= d->terms[t].node_rate[0] > 0 || d->terms[t].node_rate[1] > 0;
        if (!(d->terms[t].net_rate > 0)) continue;
        fastest = fmax(fastest, d->terms[t].net_rate);
        said++, last = t;
    }
    if (said > 1 && said < d->nterms)
        return refuse(d, d->text + d->terms[last].column - 1, "net must be given once, or in every term");
    if (!said && !of_nodes && c->nnodes < 2) return MT_OK;
    if (!said && d->measured && d->measured->network >= 0)
        c->network = link_row(d, d->measured->links[d->measured->network]);
    else
        c->network = link_row(d, mt_hardware_link(net, said ? fastest : net->rate));
    set_node_rates(d, fastest);
    return MT_OK;
}

enum mt_status mt_cluster_describe(const char *text, const struct mt_cluster *measured, struct mt_cluster **cluster,
                                   struct mt_err *err) {
    struct mt_cluster *c = mt_cluster_new();
    struct describing d = {.text = text, .measured = measured, .cluster = c, .err = err};
    enum mt_status st = MT_OK;
    for (const char *at = text; *at && !st; at++)
        if (((unsigned char)*at < 0x20 && *at != '\t' && *at != '\n') || *at == 0x7f)
            st = mt_fail(err, MT_EINPUT, "the description of a cluster has a control character at column %d",
                         (int)(at - text) + 1);
    if (st || (st = take_words(&d))) goto out;
    int nodes = 0;
    for (int t = 0; t < d.nterms; t++) nodes += d.terms[t].nodes;
    c->nodes = mt_new(&c->arena, struct mt_cluster_node, nodes);
    c->devices = mt_new(&c->arena, struct mt_cluster_device, d.ndevices);
    for (int t = 0; t < d.nterms; t++) add_nodes(&d, &d.terms[t]);
    if ((st = add_network(&d))) goto out;
    c->made_by = "motley " MOTLEY_VERSION;
    c->source = "described";
    char *description = mt_arena_strdup(&c->arena, text);
    for (char *at = description; *at; at++)
        if (*at == '\t' || *at == '\n') *at = ' ';
    c->description = description;
    st = mt_cluster_check(c, err);
    mt_cluster_hash(c, c->hash);
out:
    if (st)
        mt_cluster_free(c);
    else
        *cluster = c;
    return st;
}

/* A slash that is no rate's, as 50GB/s has one. */
static bool has_folder(const char *text) {
    for (const char *at = text; (at = strchr(at, '/')); at++) {
        bool rate = at > text && strchr("bBt", at[-1]) && at[1] == 's' && (!at[2] || at[2] == ' ');
        if (!rate) return true;
    }
    return false;
}

enum mt_status mt_cluster_open(const char *file_or_text, struct mt_cluster **cluster, struct mt_err *err) {
    size_t length = strlen(file_or_text);
    bool named = has_folder(file_or_text) || (length > 5 && !strcmp(file_or_text + length - 5, ".json"));
    if (named || !access(file_or_text, F_OK)) return mt_cluster_read(file_or_text, cluster, err);
    enum mt_status st = mt_cluster_describe(file_or_text, NULL, cluster, err);
    return st ? mt_err_context(err, "there is no such file, and as a description of a cluster") : MT_OK;
}
