/* The rows of a catalogue from pairs of column and value; lines of such pairs. */
#include "planner/buy/catalogue/row.h"

#include <math.h>
#include <string.h>
#include <strings.h>

#include "kernels/base/text/units.h"

static const struct {
    const char *name;
    double watts;
    const char *source;
} powers[] = {
#define MT_POWER(name, watts, source) {name, watts, source},
#include "planner/buy/catalogue/power.def"
#undef MT_POWER
};

double mt_power_of(const char *hardware, const char **source) {
    for (size_t i = 0; i < sizeof powers / sizeof powers[0]; i++)
        if (!strcasecmp(powers[i].name, hardware)) return *source = powers[i].source, powers[i].watts;
    *source = "";
    return 0;
}

/* ---- columns ---- */

struct taking {
    struct mt_catalogue *catalogue;
    struct mt_catalogue_item item;
    const char *where;
    bool rates; /* some figure of its devices is its own */
    struct mt_err *err;
};

static enum mt_status refuse(struct taking *t, const char *column, const char *value, const char *must) {
    return mt_fail(t->err, MT_EINPUT, "%s: %s: must be %s, not \"%.60s\"", t->where, column, must, value);
}

static enum mt_status take_name(struct taking *t, const char *column, const char *value) {
    size_t n = strlen(value);
    bool plain = n && n <= 40;
    for (size_t i = 0; i < n; i++)
        plain &= (value[i] >= 'a' && value[i] <= 'z') || (value[i] >= 'A' && value[i] <= 'Z') ||
                 (value[i] >= '0' && value[i] <= '9') || (i && strchr("._-", value[i]));
    if (!plain) return refuse(t, column, value, "at most 40 letters, digits, '.', '-' and '_'");
    for (int i = 0; i < t->catalogue->count; i++)
        if (!strcasecmp(t->catalogue->items[i].shown.name, value))
            return mt_fail(t->err, MT_EINPUT, "%s: name: \"%.60s\" is in the catalogue already", t->where, value);
    t->item.shown.name = mt_arena_strdup(&t->catalogue->arena, value);
    return MT_OK;
}

static enum mt_status take_based_on(struct taking *t, const char *column, const char *value) {
    if (mt_hardware_find(value, &t->item.row)) {
        char *name = mt_arena_strdup(&t->catalogue->arena, value);
        for (char *c = name; *c; c++) *c = (char)(*c >= 'A' && *c <= 'Z' ? *c - 'A' + 'a' : *c);
        t->item.shown.based_on = t->item.row.name = name;
        return MT_OK;
    }
    refuse(t, column, value, "a row of the known hardware");
    return mt_hardware_hint(value, NULL, t->err);
}

static enum mt_status take_count(struct taking *t, const char *column, const char *value, int *count) {
    int64_t number;
    if (!mt_units_parse_int(value, &number) || number < 1 || number > MT_PURCHASE_MOST_DEVICES)
        return mt_fail(t->err, MT_EINPUT, "%s: %s: must be from 1 to %d, not \"%.60s\"", t->where, column,
                       MT_PURCHASE_MOST_DEVICES, value);
    *count = (int)number;
    return MT_OK;
}

static enum mt_status take_devices(struct taking *t, const char *column, const char *value) {
    return take_count(t, column, value, &t->item.shown.devices);
}
static enum mt_status take_most(struct taking *t, const char *column, const char *value) {
    return take_count(t, column, value, &t->item.shown.most);
}

static enum mt_status take_money(struct taking *t, const char *column, const char *value, double *money) {
    if (!mt_units_parse_money(value, money)) return refuse(t, column, value, "a sum of money, as 280000 or 280k");
    if (*money < 0) return refuse(t, column, value, "0 or more");
    if (*money > 1e12) return refuse(t, column, value, "at most 1e12");
    if (*money > 0 && *money < 1e-6) return refuse(t, column, value, "0, or at least 1e-6");
    *money += 0; /* of -0 */
    t->item.priced = true;
    return MT_OK;
}
static enum mt_status take_price(struct taking *t, const char *column, const char *value) {
    return take_money(t, column, value, &t->item.shown.price);
}
static enum mt_status take_per_hour(struct taking *t, const char *column, const char *value) {
    return take_money(t, column, value, &t->item.shown.per_hour);
}

/* "700", "700W", "10.2kW". */
static enum mt_status take_power(struct taking *t, const char *column, const char *value) {
    char number[32];
    size_t n = strlen(value);
    snprintf(number, sizeof number, "%s", value);
    if (n && n < sizeof number && number[n - 1] == 'W') number[n - 1] = 0;
    double *watts = &t->item.shown.power_W;
    if (n >= sizeof number || !mt_units_parse_money(number, watts) || !(*watts >= 1) || *watts > 1e9)
        return refuse(t, column, value, "watts from 1 to 1e9, as 700 or 10.2kW");
    t->item.shown.power_source = "the catalogue";
    return MT_OK;
}

static enum mt_status take_rack_units(struct taking *t, const char *column, const char *value) {
    double *units = &t->item.shown.rack_units;
    if (!mt_units_parse_real(value, units) || *units < 0 || *units > 1e6)
        return refuse(t, column, value, "a number from 0 to 1e6");
    *units += 0;
    t->item.placed = true;
    return MT_OK;
}

static enum mt_status take_rate(struct taking *t, const char *column, const char *value, bool bits, double *rate) {
    if (mt_units_parse_rate(value, bits, rate) && *rate <= 1e18) return MT_OK;
    refuse(t, column, value, bits ? "a rate in bits a second, as 400G" : "a rate in bytes a second, as 300G");
    return mt_err_hint(t->err, "%s", mt_units_rate_hint(value, bits));
}
static enum mt_status take_net(struct taking *t, const char *column, const char *value) {
    return take_rate(t, column, value, true, &t->item.shown.net_bps);
}

static enum mt_status take_link(struct taking *t, const char *column, const char *value) {
    char name[24];
    size_t n = strcspn(value, "=");
    snprintf(name, sizeof name, "%.*s", (int)(n < sizeof name ? n : sizeof name - 1), value);
    for (char *c = name; *c; c++) *c = (char)(*c >= 'A' && *c <= 'Z' ? *c - 'A' + 'a' : *c);
    const struct mt_hardware_link *row = mt_hardware_link_find(name);
    if (!row || strcmp(row->name, name) || row->bits) {
        refuse(t, column, value, "a link within a node");
        struct mt_nearest near = mt_nearest_to(name);
        mt_hardware_link_names(&near);
        return mt_nearest_hint(&near, t->err, "as nvlink=450GB/s; of %s, those within a node", near.list);
    }
    t->item.shown.link = row->name;
    t->item.shown.link_Bps = row->rate;
    return value[n] ? take_rate(t, column, value + n + 1, false, &t->item.shown.link_Bps) : MT_OK;
}

static enum mt_status take_memory(struct taking *t, const char *column, const char *value) {
    int64_t bytes;
    if (!mt_units_parse_bytes(value, &bytes) || bytes < 1 << 20 || bytes > (int64_t)1 << 50)
        return refuse(t, column, value, "a number of bytes from 1MiB on, as 80GiB or 80GB");
    t->item.row.memory_MiB = (double)bytes / 0x1p20;
    t->rates = true;
    return MT_OK;
}

static enum mt_status take_kind(struct taking *t, const char *column, const char *value) {
    bool cpu = !strcmp(value, "cpu");
    if (!cpu && strcmp(value, "cuda")) return refuse(t, column, value, "cuda or cpu");
    if (t->item.shown.based_on[0] && strcmp(t->item.row.kind, value))
        return refuse(t, column, value, "that of the row it is based on");
    t->item.row.kind = cpu ? "cpu" : "cuda";
    if (!t->item.shown.based_on[0]) t->item.row.link = cpu ? "memory" : "pcie";
    return MT_OK;
}

/* "989T", and "989Tflop/s". */
static enum mt_status take_flops(struct taking *t, const char *column, const char *value, enum mt_type type) {
    char number[32];
    double flops;
    size_t n = strlen(value), suffix = strlen("flop/s");
    snprintf(number, sizeof number, "%s", value);
    if (n < sizeof number && n > suffix && !strcmp(number + n - suffix, "flop/s")) number[n - suffix] = 0;
    if (n >= sizeof number || !mt_units_parse_count(number, &flops) || flops < 1e6 || flops > 1e18)
        return refuse(t, column, value, "operations a second from 1M to 1e18, as 989T");
    t->item.row.tflops[type] = flops / 1e12;
    t->rates = true;
    return MT_OK;
}
static enum mt_status take_f64(struct taking *t, const char *column, const char *value) {
    return take_flops(t, column, value, MT_F64);
}
static enum mt_status take_f32(struct taking *t, const char *column, const char *value) {
    return take_flops(t, column, value, MT_F32);
}
static enum mt_status take_bf16(struct taking *t, const char *column, const char *value) {
    return take_flops(t, column, value, MT_BF16);
}
static enum mt_status take_f16(struct taking *t, const char *column, const char *value) {
    return take_flops(t, column, value, MT_F16);
}

static enum mt_status take_streaming(struct taking *t, const char *column, const char *value) {
    double Bps = 0;
    enum mt_status st = take_rate(t, column, value, false, &Bps);
    t->item.row.memory_GBps = Bps / 1e9;
    t->rates = true;
    return st;
}

static enum mt_status take_reached(struct taking *t, const char *column, const char *value) {
    double *part = &t->item.row.reached;
    if (!mt_units_parse_real(value, part) || !(*part >= 0.01) || *part > 1)
        return refuse(t, column, value, "a fraction from 0.01 to 1");
    t->rates = true;
    return MT_OK;
}

static enum mt_status take_overhead(struct taking *t, const char *column, const char *value) {
    double seconds;
    if (!mt_units_parse_seconds(value, &seconds) || seconds > 1) return refuse(t, column, value, "a time, as 4us");
    t->item.row.overhead_us = seconds * 1e6;
    t->rates = true;
    return MT_OK;
}

/* In this order: what a row is based on comes before what it changes. */
static const struct {
    const char *name;
    enum mt_status (*take)(struct taking *t, const char *column, const char *value);
} columns[] = {{"name", take_name},
               {"based_on", take_based_on},
               {"kind", take_kind},
               {"devices", take_devices},
               {"price", take_price},
               {"per_hour", take_per_hour},
               {"power", take_power},
               {"rack_units", take_rack_units},
               {"most", take_most},
               {"net", take_net},
               {"link", take_link},
               {"memory", take_memory},
               {"f64", take_f64},
               {"f32", take_f32},
               {"bf16", take_bf16},
               {"f16", take_f16},
               {"streaming", take_streaming},
               {"reached", take_reached},
               {"overhead", take_overhead}};
enum { NCOLUMNS = sizeof columns / sizeof columns[0] };
_Static_assert((int)NCOLUMNS == (int)CATALOGUE_COLUMNS, "a value for each column");

int mt_catalogue_column(const char *name) {
    for (int c = 0; c < NCOLUMNS; c++)
        if (!strcmp(columns[c].name, name)) return c;
    return -1;
}

void mt_catalogue_columns(char *out, size_t size) {
    out[0] = 0;
    for (int c = 0; c < NCOLUMNS; c++) {
        size_t used = strlen(out);
        snprintf(out + used, size - used, "%s%s", c ? ", " : "", columns[c].name);
    }
}

/* ---- a row ---- */

/* What follows from what is given. */
static enum mt_status complete(struct taking *t) {
    struct mt_purchase_item *shown = &t->item.shown;
    struct mt_hardware *row = &t->item.row;
    if (!shown->based_on[0]) {
        bool any = false;
        for (int p = 0; p < MT_NTYPES; p++) any |= row->tflops[p] > 0;
        if (!any || !(row->memory_MiB > 0) || !(row->memory_GBps > 0)) {
            mt_fail(t->err, MT_EINPUT, "%s: \"%.60s\" is no known hardware, and has no %s", t->where, shown->name,
                    !any                  ? "rate (f32, bf16, f16)"
                    : row->memory_MiB > 0 ? "streaming"
                                          : "memory");
            return mt_err_hint(t->err, "give it, or say with based_on which known hardware it is");
        }
    }
    if (!shown->based_on[0] || t->rates) row->name = shown->name;
    if (!shown->based_on[0]) row->model = shown->name;
    if (!shown->devices) shown->devices = 1;
    if (shown->link[0]) {
        row->link = shown->link;
    } else {
        const struct mt_hardware_link *link = mt_hardware_link_find(row->link);
        shown->link = link->name;
        shown->link_Bps = row->link_GBps > 0 ? row->link_GBps * 1e9 : link->rate;
    }
    row->link_GBps = shown->link_Bps / 1e9;
    if (shown->devices == 1) shown->link = "", shown->link_Bps = 0;
    shown->device = row->model;
    shown->memory_bytes = (int64_t)(row->memory_MiB * 0x1p20);
    if (!(shown->power_W > 0) && shown->based_on[0])
        shown->power_W = shown->devices * mt_power_of(shown->based_on, &shown->power_source);
    return MT_OK;
}

enum mt_status mt_catalogue_row(struct mt_catalogue *c, const char *where, const char *const values[CATALOGUE_COLUMNS],
                                struct mt_err *err) {
    struct taking t = {.catalogue = c, .where = where, .err = err};
    t.item.shown = (struct mt_purchase_item){.name = "", .based_on = "", .device = "", .link = "", .power_source = ""};
    t.item.row = (struct mt_hardware){.kind = "cuda", .reached = 0.75, .overhead_us = 4, .link = "pcie"};
    if (c->count == MT_PURCHASE_MOST_ITEMS)
        return mt_fail(err, MT_EINPUT, "%s: a catalogue has at most %d rows", where, MT_PURCHASE_MOST_ITEMS);
    if (!values[0]) return mt_fail(err, MT_EINPUT, "%s: has no name", where);
    for (int k = 0; k < NCOLUMNS; k++) {
        const char *value = values[k];
        struct mt_hardware row;
        if (k == 1 && !value && mt_hardware_find(values[0], &row)) value = values[0];
        enum mt_status st = value ? columns[k].take(&t, columns[k].name, value) : MT_OK;
        if (st) return st;
    }
    enum mt_status st = complete(&t);
    if (st) return st;
    mt_arena_grow(&c->arena, &c->items, c->count, &c->capacity, sizeof *c->items);
    c->items[c->count++] = t.item;
    return MT_OK;
}

enum mt_status mt_catalogue_line(const char *line, struct mt_catalogue *c, struct mt_err *err) {
    const char *values[CATALOGUE_COLUMNS] = {0};
    char names[400], *next = mt_arena_strdup(&c->arena, line), *word;
    for (const char *at = line; *at; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7f)
            return mt_fail(err, MT_EINPUT, "an item has a control character at column %d", (int)(at - line) + 1);
    const char *where = mt_arena_printf(&c->arena, "\"%.200s\"", line);
    while ((word = strsep(&next, " "))) {
        char *value = strchr(word, '=');
        if (!*word) continue;
        if (value) *value++ = 0;
        int column = value ? mt_catalogue_column(word) : -1;
        if (column < 0) {
            mt_catalogue_columns(names, sizeof names);
            mt_fail(err, MT_EINPUT, "%s: \"%.60s\" must be COLUMN=VALUE", where, word);
            return mt_err_hint(err, "columns: %s", names);
        }
        if (values[column]) return mt_fail(err, MT_EINPUT, "%s: has two of %s", where, word);
        if (*value) values[column] = value;
    }
    return mt_catalogue_row(c, where, values, err);
}

void mt_catalogue_release(struct mt_catalogue *catalogue) {
    mt_arena_release(&catalogue->arena);
    *catalogue = (struct mt_catalogue){.count = 0};
}
