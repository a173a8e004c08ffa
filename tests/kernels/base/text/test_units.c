/* Quantities as people see them. */
#include "kernels/base/text/units.h"

#include "tests/check.h"

int main(void) {
    char text[MT_UNITS_TEXT];
    CHECK_TEXT(mt_units_bytes(0, text), "0 B");
    CHECK_TEXT(mt_units_bytes(999, text), "999 B");
    CHECK_TEXT(mt_units_bytes(1000, text), "0.98 KiB");
    CHECK_TEXT(mt_units_bytes(1536, text), "1.50 KiB");
    CHECK_TEXT(mt_units_bytes(139.0 * (1 << 30), text), "139 GiB");
    CHECK_TEXT(mt_units_count(950, text), "950");
    CHECK_TEXT(mt_units_count(124439808, text), "124 M");
    CHECK_TEXT(mt_units_count(12345, text), "12.3 k");
    CHECK_TEXT(mt_units_count(999999, text), "1.00 M");

    CHECK_TEXT(mt_units_seconds(0, text), "0");
    CHECK_TEXT(mt_units_seconds(1.234e-5, text), "12.3 us");
    CHECK_TEXT(mt_units_seconds(-0.0045, text), "-4.50 ms");
    CHECK_TEXT(mt_units_seconds(0.9996, text), "1.00 s");
    CHECK_TEXT(mt_units_seconds(7200, text), "2.00 h");
    CHECK_TEXT(mt_units_seconds(1e6, text), "11.6 d");

    int64_t n;
    double x;
    CHECK(mt_units_parse_bytes("4MiB", &n) && n == 4194304, "4MiB");
    CHECK(mt_units_parse_bytes("1.5KiB", &n) && n == 1536, "1.5KiB");
    CHECK(mt_units_parse_bytes("0", &n) && n == 0, "0");
    static const char *const wrong[] = {"", "MiB", "4 MiB", "4MB", "-1", "1.5", "1e3", "9999999999TiB", "nan", "0x10"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        CHECK(!mt_units_parse_bytes(wrong[i], &n), "%s", wrong[i]);
    CHECK(mt_units_parse_int("-12", &n) && n == -12, "-12");
    CHECK(!mt_units_parse_int("12a", &n) && !mt_units_parse_int("", &n) && !mt_units_parse_int(" 1", &n), "12a");
    CHECK(!mt_units_parse_int("9223372036854775808", &n), "out of range");
    CHECK(mt_units_parse_real("1e-3", &x) && x == 1e-3, "1e-3");
    CHECK(mt_units_parse_real("1e-310", &x) && x > 0 && !mt_units_parse_real("1e-400", &x), "underflow");
    CHECK(!mt_units_parse_real("nan", &x) && !mt_units_parse_real("inf", &x) && !mt_units_parse_real("1e999", &x), "x");
    CHECK(mt_units_parse_count("300G", &x) && x == 300e9, "300G");
    CHECK(mt_units_parse_count("1.5T", &x) && x == 1.5e12, "1.5T");
    CHECK(mt_units_parse_count("25", &x) && x == 25, "25");
    static const char *const no_count[] = {"", "G", "0", "0G", "-1G", "3g", "3GB", "3G ", "1e9", "1..5G"};
    for (size_t i = 0; i < sizeof no_count / sizeof no_count[0]; i++)
        CHECK(!mt_units_parse_count(no_count[i], &x), "%s", no_count[i]);
    CHECK(mt_units_parse_seconds("5us", &x), "5us");
    CHECK_NEAR(x, 5e-6, 1e-20);
    CHECK(mt_units_parse_seconds("2min", &x) && x == 120, "2min");
    CHECK(!mt_units_parse_seconds("5", &x) && !mt_units_parse_seconds("-5us", &x), "no unit, negative");
    return 0;
}
