/* Ticks of axes: what is written at one is its value, of any range, linear or logarithmic. */
#include "launcher/report/svg/axis.h"

#include "tests/check.h"

/* "0.5", "20 G", "100" of an axis in "ms": in base units. */
static double value_of(const char *text, double factor) {
    static const char letters[] = "kMGTPEZ";
    char *end;
    double value = strtod(text, &end) * factor;
    CHECK(end > text, "\"%s\"", text);
    end += *end == ' ';
    const char *letter = *end ? strchr(letters, *end) : NULL;
    CHECK(!*end || letter, "\"%s\"", text);
    return letter ? value * pow(1000, 1 + (double)(letter - letters)) : value;
}

static void check_ticks(struct mt_scale a, int most) {
    char text[32];
    double last = -INFINITY;
    mt_scale_fit(&a, most);
    CHECK(a.nticks >= 2 || !a.round, "%d ticks of %g to %g", a.nticks, a.from, a.to);
    for (int i = 0; i < a.nticks; i++) {
        double read = value_of(mt_scale_tick_text(&a, a.ticks[i], text), a.factor);
        CHECK(fabs(read - a.ticks[i]) <= 1e-6 * fmax(fabs(a.ticks[i]), a.log ? 0 : a.to), "%s at %g of %g to %g", text,
              a.ticks[i], a.from, a.to);
        CHECK(read > last, "%s of %g to %g", text, a.from, a.to);
        last = read;
    }
}

int main(void) {
    static const enum mt_unit units[] = {MT_UNIT_NUMBER, MT_UNIT_QUANTITY, MT_UNIT_SECONDS};
    for (size_t u = 0; u < sizeof units / sizeof *units; u++)
        for (int low = units[u] == MT_UNIT_QUANTITY ? -3 : -6; low <= 9; low++)
            for (int decades = 1; decades <= 8; decades++) {
                double from = pow(10, low), to = pow(10, low + decades);
                struct mt_scale a = {.unit = units[u], .log = true, .round = true, .from = from, .to = to, .end = 800};
                check_ticks(a, 8);
                a.from *= 1.7, a.to *= 0.6;
                check_ticks(a, 4);
                a.log = false;
                if (low >= -3) check_ticks(a, 6);
            }
    return 0;
}
