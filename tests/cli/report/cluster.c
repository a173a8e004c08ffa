/* A cluster's page: topology, pairs, rooflines. */
#include "tests/cli/report/check.h"

/* ---- pairs ---- */

/* The bandwidth from a to b, by the rows of the document. */
static double bandwidth(const json_t *c, int a, int b) {
    const json_t *pair, *devices = json_object_get(c, "devices");
    size_t i;
    json_array_foreach(json_object_get(c, "pairs"), i, pair) {
        int x = (int)real_at(pair, "a"), y = (int)real_at(pair, "b");
        double back = real_at(pair, "reverse_Bps");
        if (x == a && y == b) return real_at(pair, "bandwidth_Bps");
        if (x == b && y == a) return back > 0 ? back : real_at(pair, "bandwidth_Bps");
    }
    const char *first = text_at(json_array_get(devices, (size_t)a), "node"),
               *second = text_at(json_array_get(devices, (size_t)b), "node");
    const json_t *nodes = json_object_get(c, "nodes"), *links = json_object_get(c, "links");
    if (!strcmp(first, second)) return real_at(named(links, text_at(named(nodes, first), "inside")), "bandwidth_Bps");
    double Bps = real_at(named(links, text_at(c, "network")), "bandwidth_Bps");
    double out = real_at(named(nodes, first), "egress_Bps"), in = real_at(named(nodes, second), "ingress_Bps");
    if (out > 0) Bps = fmin(Bps, out);
    return in > 0 ? fmin(Bps, in) : Bps;
}

static void check_pairs(const json_t *c) {
    struct picture p = picture_of("pairs-wide");
    char text[MOST_CELLS][TEXT];
    struct cells row = {.text = text};
    const char *at = find_table(page, "pairs");
    int checked = 0, rows = 0;
    for (int i = 0; i < p.n; i++) {
        const struct element *e = &p.elements[i];
        const char *arrow = strstr(e->text, "\xe2\x86\x92"), *colon = strrchr(e->text, ':');
        if (strcmp(e->name, "rect") != 0 || !arrow || !colon) continue;
        same(e->text, quantity(colon + 2), bandwidth(c, atoi(e->text), atoi(arrow + 4)), 6e-3, 0);
        checked++;
    }
    for (bool head = true; at && next_row(page, &at, &row); head = false) {
        if (head) continue;
        same("bandwidth in the table", quantity(row.text[4]), bandwidth(c, atoi(row.text[0]), atoi(row.text[1])), 6e-3,
             0);
        rows++;
    }
    if (!checked || rows != checked) differ("pairs: %d cells, %d rows of the table", checked, rows);
    free(p.elements);
}

/* ---- topology ---- */

static double network_Bps(const json_t *c) {
    return real_at(named(json_object_get(c, "links"), text_at(c, "network")), "bandwidth_Bps");
}

/* What a node sends or receives: its own rate, or that of the network. */
static double rate_of(const json_t *c, const json_t *node, const char *key) {
    double Bps = real_at(node, key);
    return Bps > 0 ? Bps : network_Bps(c);
}

/* 1 GB/s is 3 pixels, ten times as much 3 more; at least 1.5 and at most 12. */
static double thickness(double Bps) {
    return fmin(fmax(3 + 3 * log10(1e-9 * Bps), 1.5), 12);
}

/* "8 \xc3\x97 h100" or "h100": how many, and the name's place. */
static int count_of(const char *text, const char **name) {
    const char *times = strstr(text, " \xc3\x97 ");
    *name = times ? times + 4 : text;
    return times ? atoi(text) : 1;
}

static int devices_of(const json_t *c, const char *node, const char *class) {
    const json_t *d;
    size_t i;
    int n = 0;
    json_array_foreach(json_object_get(c, "devices"), i, d) n +=
        !strcmp(text_at(d, "class"), class) && (!node || !strcmp(text_at(d, "node"), node));
    return n;
}

struct box { /* the one that is being read */
    const json_t *node, *class;
    int count;
};

/* "4 \xc3\x97 node0 \xe2\x80\xa6 node3", "8 \xc3\x97 h100", "nvlink: 360 GB/s a pair", "47.0 GB/s". */
static void check_name(const json_t *c, const char *text, struct box *box, int *nodes, int *devices) {
    const char *name;
    char first[TEXT];
    int count = count_of(text, &name);
    snprintf(first, sizeof first, "%.*s", (int)strcspn(name, " "), name);
    const json_t *class = named(json_object_get(c, "classes"), first);
    if (class && box->node) {
        box->class = class;
        if (count != devices_of(c, text_at(box->node, "name"), first))
            differ("topology: %d %s on %s", count, first, text_at(box->node, "name"));
        *devices += box->count * count;
    } else if ((box->node = named(json_object_get(c, "nodes"), first))) {
        box->count = count;
        *nodes += count;
    } else {
        differ("topology: there is no %s", first);
    }
}

static void check_link(const json_t *c, const struct element *e, const struct box *box) {
    char name[TEXT];
    bool sends = !strncmp(e->text, "sends ", 6), receives = !strncmp(e->text, "receives ", 9);
    double want, told = quantity(e->text + (sends ? 6 : receives ? 9 : strcspn(e->text, ":") + 2));
    if (sends || receives) {
        want = rate_of(c, box->node, sends ? "egress_Bps" : "ingress_Bps");
    } else {
        snprintf(name, sizeof name, "%.*s", (int)strcspn(e->text, ":"), e->text);
        if (strcmp(name, text_at(box->node, "inside")) != 0) differ("topology: %s is inside, not %s", e->text, name);
        want = real_at(named(json_object_get(c, "links"), name), "bandwidth_Bps");
    }
    same(e->text, told, want, 6e-3, 0);
    same("a link's line", sends || receives ? e->width : e->height, thickness(want), 0, 0.011);
}

/* Texts beside lines say what the lines' titles say. */
static void check_rate(const json_t *c, const char *text, const struct box *box) {
    double told = quantity(strchr(text, ':') ? strchr(text, ':') + 2 : text);
    const char *keys[] = {"egress_Bps", "ingress_Bps"};
    double inside = real_at(named(json_object_get(c, "links"), text_at(box->node, "inside")), "bandwidth_Bps"),
           nearest = INFINITY;
    for (int k = 0; k < 2; k++) nearest = fmin(nearest, fabs(rate_of(c, box->node, keys[k]) / told - 1));
    if (strchr(text, ':')) nearest = fabs(inside / told - 1);
    if (!(nearest < 6e-3)) differ("topology: %s of %s", text, text_at(box->node, "name"));
}

static void check_topology_table(const json_t *c) {
    char text[MOST_CELLS][TEXT];
    struct cells row = {.text = text};
    const char *at = find_table(page, "topology");
    int nodes = 0, rows = 0;
    for (bool head = true; at && next_row(page, &at, &row); head = false) {
        if (head) continue;
        char first[TEXT];
        snprintf(first, sizeof first, "%.*s", (int)strcspn(row.text[1], " "), row.text[1]);
        const json_t *node = named(json_object_get(c, "nodes"), first);
        nodes += atoi(row.text[0]), rows++;
        if (json_array_size(json_object_get(c, "nodes")) < 2) continue;
        same("sends at most", quantity(row.text[5]), rate_of(c, node, "egress_Bps"), 6e-3, 0);
        same("receives at most", quantity(row.text[6]), rate_of(c, node, "ingress_Bps"), 6e-3, 0);
    }
    if (!rows || nodes != (int)json_array_size(json_object_get(c, "nodes")))
        differ("topology: %d nodes in %d rows", nodes, rows);
}

static void check_topology(const json_t *c) {
    struct picture p = picture_of("topology-wide");
    struct box box = {0};
    int nodes = 0, devices = 0;
    for (int i = 0; i < p.n; i++) {
        const struct element *e = &p.elements[i];
        bool is_text = !strcmp(e->name, "text") && e->text[0];
        if (is_text && has_class(e, "strong") && has_class(e, "m")) {
            same(e->text, quantity(strchr(e->text, ':') + 2), network_Bps(c), 6e-3, 0);
        } else if (is_text && has_class(e, "strong")) {
            check_name(c, e->text, &box, &nodes, &devices);
        } else if (is_text && has_class(e, "soft") && box.class) {
            same("memory", quantity(e->text), real_at(box.class, "memory_bytes"), 6e-3, 0);
            box.class = NULL;
        } else if (is_text && has_class(e, "soft") && box.node && strchr(e->text, ',')) { /* "2 cores, 23.5 GiB" */
            same("cores", atoi(e->text), real_at(box.node, "cores"), 0, 0);
            same("memory of a node", quantity(strchr(e->text, ',') + 2), real_at(box.node, "memory_bytes"), 6e-3, 0);
        } else if (is_text && !has_class(e, "soft") && box.node) {
            check_rate(c, e->text, &box);
        } else if (!strcmp(e->name, "rect") && has_class(e, "link") && box.node) {
            check_link(c, e, &box);
        }
    }
    if (nodes != (int)json_array_size(json_object_get(c, "nodes")) ||
        devices != (int)json_array_size(json_object_get(c, "devices")))
        differ("topology: %d devices on %d nodes", devices, nodes);
    free(p.elements);
    check_topology_table(c);
}

/* ---- rooflines ---- */

/* The peak of a class that this one is, also as far as it is reached; NaN: none. */
static double peak_of(const json_t *class, double flops, double part) {
    const char *type;
    const json_t *peak;
    double reached = real_at(class, "calibration");
    json_object_foreach((json_t *)json_object_get(class, "flops"), type, peak) {
        double whole = json_number_value(peak);
        if (whole > 0 && fabs(flops / whole - 1) <= part) return whole;
        if (whole > 0 && fabs(flops / (whole * reached) - 1) <= part) return whole * reached;
    }
    return NAN;
}

/* Each line is min(peak, intensity * memory bandwidth) of a peak of its own. */
static int check_roofs(const json_t *class, const struct picture *p, const struct scale *x, const struct scale *y) {
    double xs[MOST_POINTS], ys[MOST_POINTS], memory = real_at(class, "memory_Bps"), part = 0.02 * pixel_of(y);
    int lines = 0;
    for (int i = 0; i < p->n; i++) {
        if (strcmp(p->elements[i].name, "path") != 0 || !has_class(&p->elements[i], "line")) continue;
        int n = read_path(p->elements[i].path, xs, ys, MOST_POINTS);
        double peak = peak_of(class, at_pixel(y, ys[n - 1]), part);
        if (n != 3 || !isfinite(peak)) differ("roofline: level at %g flop/s", at_pixel(y, ys[n - 1]));
        for (int k = 0; k < n; k++)
            same("roofline", at_pixel(y, ys[k]), fmin(peak, at_pixel(x, xs[k]) * memory), 2 * part + 0.02 * pixel_of(x),
                 0);
        lines++;
    }
    return lines;
}

static int roofs_of(const json_t *class) {
    double seen[16];
    int n = 0;
    const char *type;
    const json_t *peak;
    json_object_foreach((json_t *)json_object_get(class, "flops"), type, peak) {
        bool again = !(json_number_value(peak) > 0);
        for (int i = 0; i < n; i++) again |= seen[i] == json_number_value(peak);
        if (!again && n < 16) seen[n++] = json_number_value(peak);
    }
    return json_is_true(json_object_get(class, "nominal")) && real_at(class, "calibration") < 1 ? 2 * n : n;
}

/* The nearest dot that is not taken yet, which then is; false: there is none at this place. */
static bool take_dot(const struct picture *p, bool *taken, const struct scale *x, const struct scale *y,
                     double intensity, double rate) {
    double nearest = INFINITY;
    int which = -1;
    for (int i = 0; i < p->n; i++) {
        const struct element *e = &p->elements[i];
        if (strcmp(e->name, "circle") != 0 || taken[i]) continue;
        double dx = fabs(log(at_pixel(x, e->cx) / intensity)) / pixel_of(x);
        double dy = fabs(log(at_pixel(y, e->cy) / rate)) / pixel_of(y);
        if (fmax(dx, dy) < nearest) nearest = fmax(dx, dy), which = i;
    }
    if (!(nearest <= 0.02)) return false;
    return taken[which] = true;
}

/* Dots are GEMMs that were measured: flops over bytes, and a second. */
static void check_gemms(const json_t *class, const struct picture *p, const struct scale *x, const struct scale *y) {
    const json_t *curve, *rows;
    size_t k, r;
    int dots = 0, wanted = 0;
    bool *taken = calloc((size_t)p->n + 1, sizeof *taken);
    if (!taken) abort();
    for (int i = 0; i < p->n; i++) dots += !strcmp(p->elements[i].name, "circle");
    json_array_foreach(json_object_get(class, "curves"), k, curve) {
        static const struct {
            const char *name;
            double bytes;
        } types[] = {{"f64", 8}, {"f32", 4}, {"tf32", 4}, {"bf16", 2}, {"f16", 2}};
        double bytes = 0;
        if (strcmp(text_at(curve, "op"), "matmul") != 0) continue;
        for (int t = 0; t < 5; t++)
            if (!strcmp(types[t].name, text_at(curve, "type"))) bytes = types[t].bytes;
        const json_t *dim = json_object_get(curve, "dim"), *time = json_object_get(curve, "time_s");
        double b = json_number_value(json_array_get(dim, 0)), c = json_number_value(json_array_get(dim, 1));
        json_array_foreach(json_object_get(curve, "rows"), r, rows) {
            double a = json_number_value(rows), flops = 2 * a * b * c, s = json_number_value(json_array_get(time, r));
            double intensity = flops / ((a * b + a * c + b * c) * bytes);
            if (!take_dot(p, taken, x, y, intensity, flops / s))
                differ("roofline: no dot of a GEMM of %g x %g x %g", a, b, c);
            wanted++;
        }
    }
    if (dots != wanted) differ("roofline: %d dots of %d GEMMs", dots, wanted);
    free(taken);
}

static void check_roofline(const json_t *class, int number) {
    char id[48], text[MOST_CELLS][TEXT];
    struct cells row = {.text = text};
    struct scale x = {.log = true}, y = {.log = true};
    snprintf(id, sizeof id, "roofline-%d-wide", number);
    struct picture p = picture_of(id);
    if (!find_scale(&p, true, &x) || !find_scale(&p, false, &y)) {
        differ("roofline: no scale");
        free(p.elements);
        return;
    }
    int lines = check_roofs(class, &p, &x, &y), rows = 0;
    if (lines != roofs_of(class)) differ("roofline: %d lines of %d peaks", lines, roofs_of(class));
    check_gemms(class, &p, &x, &y);
    snprintf(id, sizeof id, "roofline-%d", number);
    const char *at = find_table(page, id);
    for (bool head = true; at && next_row(page, &at, &row); head = false) {
        double peak = head ? 0 : peak_of(class, quantity(row.text[1]), 6e-3);
        if (head) continue;
        if (!isfinite(peak)) differ("roofline: %s in the table", row.text[1]);
        same("level from", quantity(row.text[2]), peak / real_at(class, "memory_Bps"), 6e-3, 0.05);
        rows++;
    }
    if (rows != lines) differ("roofline: %d rows of %d lines", rows, lines);
    free(p.elements);
}

void check_cluster(const json_t *c) {
    const json_t *class;
    size_t k;
    if (json_array_size(json_object_get(c, "devices")) > 1) check_pairs(c);
    check_topology(c);
    json_array_foreach(json_object_get(c, "classes"), k, class) if (real_at(class, "memory_Bps") > 0 && roofs_of(class))
        check_roofline(class, (int)k);
}
