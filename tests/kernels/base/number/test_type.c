/* Conversions of halves: all 65536 of each kind to single and back, against their definition in double; and numbers
 * between them, which go to the nearest, of two as near to the even one. */
#include <math.h>

#include "kernels/base/number/type.h"
#include "tests/check.h"

static const struct half {
    enum mt_type type;
    int exponent_bits, fraction_bits;
} halves[] = {{MT_F16, 5, 10}, {MT_BF16, 8, 7}};

/* By the definition of IEEE 754's interchange formats. */
static double value_of(const struct half *h, unsigned bits) {
    int fraction = (int)(bits & ((1u << h->fraction_bits) - 1)), most = (1 << h->exponent_bits) - 1;
    int exponent = (int)(bits >> h->fraction_bits) & most, bias = most / 2;
    double sign = bits >> 15 ? -1 : 1;
    if (exponent == most) return fraction ? (double)NAN : sign * INFINITY;
    if (!exponent) return sign * ldexp(fraction, 1 - bias - h->fraction_bits);
    return sign * ldexp((1 << h->fraction_bits) + fraction, exponent - bias - h->fraction_bits);
}

static bool same(double a, double b) {
    return isnan(a) ? isnan(b) : a == b && signbit(a) == signbit(b);
}

static unsigned rounded(enum mt_type type, double x, bool in_bulk) {
    uint16_t bits = 0xdead;
    float f = (float)x;
    if (in_bulk)
        mt_type_convert(type, &bits, MT_F32, &f, 1);
    else
        mt_type_store(type, &bits, 0, x);
    return bits;
}

/* Both ways of all; what is not a number stays so. */
static void test_values(const struct half *h) {
    for (unsigned bits = 0; bits < 65536; bits++) {
        uint16_t half = (uint16_t)bits;
        double want = value_of(h, bits);
        float single;
        mt_type_convert(MT_F32, &single, h->type, &half, 1);
        CHECK(same((double)single, want), "%s %04x is %g, not %g", mt_type_name(h->type), bits, want, (double)single);
        CHECK(same(mt_type_load(h->type, &half, 0), want), "%04x", bits);
        for (int bulk = 0; bulk < 2; bulk++) {
            unsigned back = rounded(h->type, want, bulk);
            CHECK(isnan(want) ? isnan(value_of(h, back)) : back == bits, "%s %04x comes back as %04x",
                  mt_type_name(h->type), bits, back);
        }
    }
}

/* Between each two neighbours: a quarter, the middle, the middle and next to nothing more or less, in single (where
 * it has room) and in double. */
static void test_rounding(const struct half *h) {
    unsigned infinity = ((1u << h->exponent_bits) - 1) << h->fraction_bits;
    for (unsigned bits = 0; bits < infinity; bits++) {
        double low = value_of(h, bits),
               high = bits + 1 == infinity ? 2 * low - value_of(h, bits - 1) : value_of(h, bits + 1);
        double middle = (low + high) / 2;
        unsigned even = bits & 1 ? bits + 1 : bits;
        for (int sign = 0; sign < 2; sign++) {
            unsigned s = sign ? 0x8000u : 0;
            double f = sign ? -1 : 1;
            for (int bulk = 0; bulk < 2; bulk++) {
                CHECK_EQ(rounded(h->type, f * (low + (high - low) / 4), bulk), bits | s);
                CHECK_EQ(rounded(h->type, f * middle, bulk), even | s);
                if (bulk && h->type == MT_BF16 && bits < 128) continue; /* finer than singles are there */
                double more = bulk ? (double)nextafterf((float)middle, INFINITY) : nextafter(middle, INFINITY);
                double less = bulk ? (double)nextafterf((float)middle, 0) : nextafter(middle, 0);
                CHECK_EQ(rounded(h->type, f * more, bulk), (bits + 1) | s);
                CHECK_EQ(rounded(h->type, f * less, bulk), bits | s);
            }
        }
    }
    for (int bulk = 0; bulk < 2; bulk++) {
        CHECK_EQ(rounded(h->type, 1e38 * 3.4, bulk), infinity);
        CHECK_EQ(rounded(h->type, -INFINITY, bulk), infinity | 0x8000u);
    }
}

/* Long arrays go by vectors: as one at a time. */
static void test_arrays(enum mt_type type) {
    enum { COUNT = 1000 };
    float from[COUNT], back[COUNT];
    uint16_t to[COUNT];
    for (int i = 0; i < COUNT; i++) from[i] = ldexpf((float)(i * 7919 % 1999 - 999), i % 50 - 40);
    mt_type_convert(type, to, MT_F32, from, COUNT);
    mt_type_convert(MT_F32, back, type, to, COUNT);
    for (int i = 0; i < COUNT; i++) {
        CHECK_EQ(to[i], rounded(type, (double)from[i], false));
        CHECK((double)back[i] == mt_type_load(type, to, i), "%d", i);
    }
}

/* In range, spread evenly over it, and the same when there are more. */
static void test_noise(enum mt_type type, double low, double span) {
    enum { COUNT = 1 << 14, PARTS = 8 };
    static char noise[8 * COUNT], again[8 * COUNT];
    int parts[PARTS] = {0};
    mt_type_noise(type, noise, COUNT, low, span);
    mt_type_noise(type, again, COUNT / 2, low, span);
    CHECK(!memcmp(noise, again, (size_t)(COUNT / 2 * mt_type_size(type))), "%s", mt_type_name(type));
    for (int i = 0; i < COUNT; i++) {
        double value = mt_type_load(type, noise, i);
        CHECK(value >= low && value <= low + span, "%s: %g", mt_type_name(type), value);
        if (type == MT_I32) CHECK(value < low + span, "%g", value);
        parts[(int)fmin(PARTS * (value - low) / span, PARTS - 1)]++;
    }
    for (int p = 0; p < PARTS; p++) CHECK_NEAR(parts[p], COUNT / PARTS, 200); /* five deviations */
}

/* One element that is not finite, at every place of arrays of any length, is found; the largest numbers are none. */
static void test_not_finite(enum mt_type type) {
    static const double most[] = {[MT_F64] = 1.7e308, [MT_F32] = 3.4e38, [MT_BF16] = 3.38e38, [MT_F16] = 65504};
    static const double bad[] = {INFINITY, -INFINITY, NAN};
    char data[70 * 8];
    for (int count = 0; count <= 70; count++) {
        for (int i = 0; i < count; i++) mt_type_store(type, data, i, i % 3 ? most[type] : -most[type]);
        CHECK_EQ(mt_type_not_finite(type, data, count), -1);
        for (int at = 0; at < count; at++) {
            mt_type_store(type, data, at, bad[at % 3]);
            CHECK_EQ(mt_type_not_finite(type, data, count), at);
            mt_type_store(type, data, at, 0);
        }
    }
}

int main(void) {
    static const enum mt_type floats[] = {MT_F64, MT_F32, MT_BF16, MT_F16};
    for (int i = 0; i < 4; i++) test_noise(floats[i], -0.5, 1);
    for (int i = 0; i < 4; i++) test_not_finite(floats[i]);
    CHECK_EQ(mt_type_not_finite(MT_I32, (int32_t[]){-1, INT32_MAX}, 2), -1);
    test_noise(MT_F32, 0.25, 0.75);
    test_noise(MT_I32, 0, 50000);
    for (int i = 0; i < 2; i++) {
        enum mt_type type = halves[i].type;
        test_values(&halves[i]);
        test_rounding(&halves[i]);
        test_arrays(type);
        CHECK(mt_type_is_half(type) && mt_type_size(type) == 2 && mt_type_acc(type) == MT_F32);
    }
    CHECK(!mt_type_is_half(MT_F32) && !mt_type_is_half(MT_I32));
    return 0;
}
