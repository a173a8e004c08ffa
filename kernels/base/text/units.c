/* Quantities for people: three digits and a prefix. */
#include "kernels/base/text/units.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static char *scaled(double value, double base, const char *const *prefixes, int count, char *out) {
    int p = 0;
    while (p + 1 < count && fabs(value) >= (base == 1024 ? 1000 : 999.5)) value /= base, p++;
    double size = fabs(value);
    int decimals = p == 0 || size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
    snprintf(out, MT_UNITS_TEXT, "%.*f%s", decimals, value, prefixes[p]);
    return out;
}

char *mt_units_bytes(double bytes, char out[MT_UNITS_TEXT]) {
    static const char *const prefixes[] = {" B", " KiB", " MiB", " GiB", " TiB", " PiB"};
    return scaled(bytes, 1024, prefixes, 6, out);
}

char *mt_units_count(double count, char out[MT_UNITS_TEXT]) {
    static const char *const prefixes[] = {"", " k", " M", " G", " T", " P", " E", " Z"};
    return scaled(count, 1000, prefixes, 8, out);
}

char *mt_units_Bps(double Bps, char out[MT_UNITS_TEXT]) {
    static const char *const prefixes[] = {" B/s", " kB/s", " MB/s", " GB/s", " TB/s", " PB/s", " EB/s", " ZB/s"};
    return scaled(Bps, 1000, prefixes, 8, out);
}

char *mt_units_seconds(double seconds, char out[MT_UNITS_TEXT]) {
    static const struct {
        double below, unit;
        const char *name;
    } units[] = {{999.5e-9, 1e-9, "ns"}, {999.5e-6, 1e-6, "us"}, {999.5e-3, 1e-3, "ms"},
                 {999.5, 1, "s"},        {48 * 3600, 3600, "h"}, {INFINITY, 86400, "d"}};
    int u = 0;
    double size = fabs(seconds);
    if (size == 0) return strcpy(out, "0");
    while (u < 5 && size >= units[u].below) u++;
    size /= units[u].unit;
    snprintf(out, MT_UNITS_TEXT, "%.*f %s",
             size >= 99.95   ? 0
             : size >= 9.995 ? 1
                             : 2,
             seconds / units[u].unit, units[u].name);
    return out;
}

/* 17 digits always suffice; below 15 only subnormal numbers can do with fewer. */
char *mt_units_exact(double value, char out[MT_UNITS_EXACT]) {
    for (int digits = fabs(value) < DBL_MIN ? 1 : 15; digits <= 17; digits++) {
        snprintf(out, MT_UNITS_EXACT, "%.*g", digits, value);
        if (strtod(out, NULL) == value) break;
    }
    return out;
}

bool mt_units_parse_int(const char *text, int64_t *value) {
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (errno || end == text || *end || text[0] == ' ') return false;
    *value = v;
    return true;
}

bool mt_units_parse_real(const char *text, double *value) {
    char *end;
    errno = 0;
    double v = strtod(text, &end);
    bool underflow = errno == ERANGE && fabs(v) < 1 && v != 0; /* to a subnormal number, which is kept */
    if ((errno && !underflow) || end == text || *end || text[0] == ' ' || !isfinite(v)) return false;
    *value = v;
    return true;
}

/* A number without a sign, and the rest of the text. */
static bool leading_number(const char *text, double *value, const char **rest) {
    char number[64];
    size_t digits = strspn(text, "0123456789.");
    if (digits == 0 || digits >= sizeof number) return false;
    memcpy(number, text, digits);
    number[digits] = 0;
    *rest = text + digits;
    return mt_units_parse_real(number, value);
}

bool mt_units_parse_bytes(const char *text, int64_t *bytes) {
    static const struct {
        const char *name;
        double unit;
    } units[] = {{"", 1},     {"B", 1},    {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40},
                 {"KB", 1e3}, {"kB", 1e3}, {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12}};
    const char *rest;
    double value;
    if (!leading_number(text, &value, &rest)) return false;
    for (size_t u = 0; u < sizeof units / sizeof units[0]; u++) {
        if (strcmp(rest, units[u].name)) continue;
        value *= units[u].unit;
        if (value > 0x1p62 || value != floor(value)) return false;
        *bytes = (int64_t)value;
        return true;
    }
    return false;
}

/* The power of a thousand that *rest begins with, which is taken off it; 1: none. */
static double take_prefix(const char **rest) {
    static const char prefixes[] = "KMGT";
    double factor = 1;
    const char *prefix = **rest ? strchr(prefixes, **rest == 'k' ? 'K' : **rest) : NULL;
    if (!prefix) return 1;
    ++*rest;
    for (long i = 0; i <= prefix - prefixes; i++) factor *= 1000;
    return factor;
}

bool mt_units_parse_count(const char *text, double *value) {
    const char *rest;
    if (!leading_number(text, value, &rest)) return false;
    *value *= take_prefix(&rest);
    return !*rest && *value > 0;
}

/* "gbps" is as clear as "Gbps"; "gb/s" and "gB" are not. */
static const char *lower_bits(const char *rest, double *factor) {
    static const char prefixes[] = "kmgt";
    const char *prefix = *rest ? strchr(prefixes, *rest) : NULL;
    *factor = 1;
    if (!prefix || strcmp(rest + 1, "bps")) return rest;
    for (long i = 0; i <= prefix - prefixes; i++) *factor *= 1000;
    return rest + 1;
}

static const double least_bps = 1e6; /* no link is slower */

/* False for what is no rate. */
static bool parse_rate(const char *text, bool bits, double *rate) {
    static const struct {
        const char *name;
        double bits;
    } units[] = {{"bps", 1}, {"b/s", 1}, {"bit/s", 1}, {"bits/s", 1}, {"b", 1},
                 {"bit", 1}, {"Bps", 8}, {"B/s", 8},   {"B", 8}};
    const char *rest;
    double factor;
    if (!leading_number(text, rate, &rest)) return false;
    const char *unit = lower_bits(rest, &factor);
    if (unit == rest) factor = take_prefix(&unit);
    *rate *= factor;
    double in_bits = bits ? 1 : 8;
    for (size_t u = 0; *unit && u < sizeof units / sizeof units[0]; u++) {
        if (strcmp(unit, units[u].name)) continue;
        in_bits = units[u].bits;
        unit = "";
    }
    *rate *= in_bits / (bits ? 1 : 8);
    return !*unit && *rate > 0;
}

bool mt_units_parse_rate(const char *text, bool bits, double *rate) {
    return parse_rate(text, bits, rate) && *rate * (bits ? 1 : 8) >= least_bps;
}

const char *mt_units_rate_hint(const char *text, bool bits) {
    size_t digits = strspn(text, "0123456789.");
    bool either = digits && text[digits] && strchr("kmgt", text[digits]) &&
                  (!text[digits + 1] || !strcasecmp(text + digits + 1, "b") || !strcasecmp(text + digits + 1, "b/s"));
    double rate;
    if (parse_rate(text, bits, &rate))
        return bits ? "that is less than 1 Mbit/s: is a G missing? 400G is 400 Gbit/s, 50GB/s are bytes"
                    : "that is less than 1 Mbit/s: is a G missing? 300G is 300 GB/s, 400Gbps are bits";
    if (either) return "bits or bytes? Prefixes are K, M, G and T; bits a second are 400Gbps, bytes a second 50GB/s";
    return bits ? "as 400G or 400Gbps, in bits a second; or 50GB/s, in bytes"
                : "as 300G or 300GB/s, in bytes a second; or 400Gbps, in bits";
}

bool mt_units_parse_money(const char *text, double *money) {
    const char *rest;
    if (mt_units_parse_real(text, money)) return true;
    bool negative = text[0] == '-';
    if (!leading_number(text + negative, money, &rest)) return false;
    *money *= take_prefix(&rest) * (negative ? -1 : 1);
    return !*rest;
}

bool mt_units_parse_seconds(const char *text, double *seconds) {
    static const struct {
        const char *name;
        double unit;
    } units[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"min", 60}, {"h", 3600}, {"d", 86400}};
    const char *rest;
    if (!leading_number(text, seconds, &rest)) return false;
    for (size_t u = 0; u < sizeof units / sizeof units[0]; u++) {
        if (strcmp(rest, units[u].name)) continue;
        *seconds *= units[u].unit;
        return true;
    }
    return false;
}
