/* Numbers of a column to text. */
#include "kernels/base/table/unit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum scale { NONE, WHOLE, PLAIN, THOUSANDS, BINARY, TIME, PERCENT, MONEY, DATE, LIST };

static const struct {
    const char *name, *suffix;
    enum scale scale;
} units[] = {
#define MT_UNIT(id, name, suffix, scale) {name, suffix, scale},
#include "kernels/base/table/units.def"
#undef MT_UNIT
};

static const struct mt_prefix thousands[] = {{1, "", 0},     {1e3, "k", 0},  {1e6, "M", 0},  {1e9, "G", 0},
                                             {1e12, "T", 0}, {1e15, "P", 0}, {1e18, "E", 0}, {1e21, "Z", 0}};
static const struct mt_prefix binary[] = {{1, "", 0},        {0x1p10, "Ki", 0}, {0x1p20, "Mi", 0},
                                          {0x1p30, "Gi", 0}, {0x1p40, "Ti", 0}, {0x1p50, "Pi", 0}};
static const struct mt_prefix times[] = {{1e-9, "ns", 0}, {1e-6, "us", 0}, {1e-3, "ms", 0},
                                         {1, "s", 0},     {3600, "h", 0},  {86400, "d", 0}};
static const double hours_most_s = 48 * 3600;
static const double smallest = 0.9995e-3, most_range = 1e5, most_digits = 9999.5;

const char *mt_unit_name(enum mt_unit unit) {
    return units[unit].name;
}

bool mt_unit_is_number(enum mt_unit unit) {
    return units[unit].scale != NONE && units[unit].scale != LIST;
}

/* The last of the list that leaves a digit before the point, as three digits are printed. */
static int largest(const struct mt_prefix *list, int count, double most) {
    int p = 0;
    while (p + 1 < count && most >= list[p + 1].factor * 0.9995) {
        if (list == times && p == 3 && most < 999.5) break; /* 600 s, not 0.17 h */
        if (list == times && p == 4 && most < hours_most_s) break;
        p++;
    }
    return p;
}

static struct mt_prefix of_money(double least) {
    struct mt_prefix prefix = {1, "", 2};
    if (least > 0 && least < 0.0995) prefix.decimals = (int)fmin(9, 2 - floor(log10(least)));
    return prefix;
}

struct mt_prefix mt_unit_prefix(enum mt_unit unit, double least, double most) {
    const struct mt_prefix *list = thousands;
    int count = 8;
    switch (units[unit].scale) {
    case THOUSANDS: break;
    case BINARY: list = binary, count = 6; break;
    case TIME: list = times, count = 6; break;
    case MONEY: return of_money(least);
    default: return (struct mt_prefix){1, "", -1};
    }
    int p = largest(list, count, most);
    bool whole = p > 0 && least < 0.9995 * list[p].factor && least >= 0.9995 * list[p - 1].factor;
    if (whole && most < most_digits * list[p - 1].factor) return list[p - 1];
    while (p > 0 && least < smallest * list[p].factor && most < most_range * least) p--;
    return list[p];
}

static char *scaled(enum mt_unit unit, struct mt_prefix prefix, int decimals, double value, char *out) {
    double number = value / prefix.factor, size = fabs(number);
    bool whole = prefix.factor == 1 && units[unit].scale != TIME && number == floor(number);
    if (decimals < 0) {
        if (whole || size >= 99.95)
            decimals = 0;
        else if (size >= 9.995)
            decimals = 1;
        else
            decimals = size >= 0.9995 || size == 0 ? 2 : (int)fmin(8, 2 - floor(log10(size) + 5e-4));
    }
    const char *suffix = units[unit].scale == TIME ? "" : units[unit].suffix;
    bool apart = *prefix.name || *suffix;
    if (value == 0) return strcpy(out, units[unit].scale == BINARY ? "0 B" : "0");
    if (size < smallest && decimals > 4) {
        snprintf(out, MT_UNIT_TEXT_BYTES, "%s0.001 %s%s", number < 0 ? ">-" : "<", prefix.name, suffix);
        return out;
    }
    snprintf(out, MT_UNIT_TEXT_BYTES, "%.*f%s%s%s", decimals, number, apart ? " " : "", prefix.name, suffix);
    return out;
}

static char *date(double value, char *out) {
    time_t seconds = (time_t)value;
    struct tm tm;
    if (!gmtime_r(&seconds, &tm) || !strftime(out, MT_UNIT_TEXT_BYTES, "%Y-%m-%d %H:%M", &tm)) strcpy(out, "?");
    return out;
}

char *mt_unit_text(enum mt_unit unit, struct mt_prefix prefix, int decimals, double value,
                   char out[MT_UNIT_TEXT_BYTES]) {
    size_t room = MT_UNIT_TEXT_BYTES;
    switch (units[unit].scale) {
    case THOUSANDS:
    case BINARY:
    case TIME: return scaled(unit, prefix, decimals, value, out);
    case PERCENT:
        snprintf(out, room, unit == MT_UNIT_CHANGE ? "%+.*f%%" : "%.*f%%", decimals < 0 ? 1 : decimals, 100 * value);
        return out;
    case MONEY: snprintf(out, room, "%.*f", decimals < 0 ? prefix.decimals : decimals, value); return out;
    case DATE: return date(value, out);
    case WHOLE: snprintf(out, room, "%.0f", value); return out;
    default: break;
    }
    if (unit == MT_UNIT_RATIO)
        snprintf(out, room, "x %.*f", decimals < 0 ? 2 : decimals, value);
    else if (decimals >= 0 || unit == MT_UNIT_CELSIUS)
        snprintf(out, room, "%.*f%s", decimals < 0 ? 0 : decimals, value, units[unit].suffix);
    else
        snprintf(out, room, "%.*g%s", fabs(value) < 1000 ? 4 : 7, value, units[unit].suffix);
    return out;
}
