/* Quantities for people: three digits and a prefix. */
#include "kernels/base/text/units.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    static const char *const suffixes[] = {"", "KiB", "MiB", "GiB", "TiB"};
    const char *rest;
    double value;
    if (!leading_number(text, &value, &rest)) return false;
    for (int s = 0; s < 5; s++) {
        if (strcmp(rest, suffixes[s])) continue;
        value *= ldexp(1, 10 * s);
        if (value > 0x1p62 || value != floor(value)) return false;
        *bytes = (int64_t)value;
        return true;
    }
    return false;
}

bool mt_units_parse_count(const char *text, double *value) {
    static const char suffixes[] = "KMGT";
    const char *rest, *suffix;
    if (!leading_number(text, value, &rest)) return false;
    if (*rest) {
        if (rest[1] || !(suffix = strchr(suffixes, *rest))) return false;
        for (long i = 0; i <= suffix - suffixes; i++) *value *= 1000;
    }
    return *value > 0;
}

bool mt_units_parse_seconds(const char *text, double *seconds) {
    static const struct {
        const char *name;
        double unit;
    } units[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"min", 60}, {"h", 3600}};
    const char *rest;
    if (!leading_number(text, seconds, &rest)) return false;
    for (size_t u = 0; u < sizeof units / sizeof units[0]; u++) {
        if (strcmp(rest, units[u].name)) continue;
        *seconds *= units[u].unit;
        return true;
    }
    return false;
}
