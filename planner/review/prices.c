/* Price lists. */
#include "planner/review/prices.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/base/file.h"
#include "kernels/base/text/units.h"

enum { MOST_BYTES = 1 << 20 };

static enum mt_status take_line(struct mt_prices *p, int line, char *text, int *capacity, struct mt_err *err) {
    char *comma = strchr(text, ',');
    struct mt_price price;
    for (const char *c = text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            return mt_fail(err, MT_EINPUT, "%s:%d: has a control character", p->path, line);
    if (!comma || strchr(comma + 1, ','))
        return mt_fail(err, MT_EINPUT, "%s:%d: must be CLASS,PRICE, not \"%.60s\"", p->path, line, text);
    *comma = 0;
    price.class = text;
    if (!text[0]) return mt_fail(err, MT_EINPUT, "%s:%d: the class is empty", p->path, line);
    if (!mt_units_parse_real(comma + 1, &price.per_hour) || price.per_hour < 0 || price.per_hour > 1e12)
        return mt_fail(err, MT_EINPUT, "%s:%d: the price must be a number from 0 to 1e12, not \"%.60s\"", p->path, line,
                       comma + 1);
    for (int i = 0; i < p->count; i++)
        if (!strcmp(p->items[i].class, price.class))
            return mt_fail(err, MT_EINPUT, "%s:%d: \"%.60s\" has a price already", p->path, line, price.class);
    mt_arena_grow(&p->arena, &p->items, p->count, capacity, sizeof *p->items);
    p->items[p->count++] = price;
    return MT_OK;
}

enum mt_status mt_prices_parse(const char *name, const char *text, size_t length, struct mt_prices *prices,
                               struct mt_err *err) {
    static const char *const header = "class,price_per_hour";
    *prices = (struct mt_prices){0};
    prices->path = mt_arena_strdup(&prices->arena, name);
    if (strlen(text) != length) return mt_fail(err, MT_EINPUT, "%s: is no text: it has zero bytes", name);
    char *at = mt_arena_strdup(&prices->arena, text);
    int capacity = 0;
    enum mt_status st = MT_OK;
    for (int line = 1; *at && !st; line++) {
        size_t n = strcspn(at, "\n");
        char *next = at + n + (at[n] == '\n');
        at[n] = 0;
        if (n && at[n - 1] == '\r') at[n - 1] = 0;
        if (line > 1)
            st = take_line(prices, line, at, &capacity, err);
        else if (strcmp(at, header))
            st = mt_fail(err, MT_EINPUT, "%s:1: the first line must be \"%s\"", name, header);
        at = next;
    }
    if (!st && !prices->count) st = mt_fail(err, MT_EINPUT, "%s: has no price", name);
    return st;
}

enum mt_status mt_prices_read(const char *path, struct mt_prices *prices, struct mt_err *err) {
    char *data;
    size_t length;
    *prices = (struct mt_prices){0};
    enum mt_status st = mt_file_read(path, MOST_BYTES, &data, &length, err);
    if (st) return st;
    st = mt_prices_parse(path, data, length, prices, err);
    free(data);
    return st;
}

void mt_prices_release(struct mt_prices *prices) {
    mt_arena_release(&prices->arena);
    *prices = (struct mt_prices){0};
}

enum mt_status mt_prices_of(const struct mt_prices *prices, const struct mt_cluster *cluster, double *per_hour,
                            struct mt_err *err) {
    *per_hour = 0;
    for (int d = 0; d < cluster->ndevices; d++) {
        const char *class = cluster->classes[cluster->devices[d].class].name;
        int i = 0;
        while (i < prices->count && strcmp(prices->items[i].class, class)) i++;
        if (i == prices->count) {
            mt_fail(err, MT_EINPUT, "%s: has no price for the class \"%s\"", prices->path, class);
            return mt_err_hint(err, "add the line %s,PRICE_PER_HOUR", class);
        }
        *per_hour += prices->items[i].per_hour;
    }
    return MT_OK;
}
