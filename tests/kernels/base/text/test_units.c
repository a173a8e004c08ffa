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
    CHECK(mt_units_parse_bytes("25GB", &n) && n == 25000000000, "25GB");
    CHECK(mt_units_parse_bytes("1.5kB", &n) && n == 1500, "1.5kB");
    static const char *const wrong[] = {"",    "MiB", "4 MiB",         "4M",  "4mb", "0.3B", "-1",
                                        "1.5", "1e3", "9999999999TiB", "nan", "0x10"};
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
    CHECK(mt_units_parse_count("3k", &x) && x == 3000, "3k");
    static const struct {
        const char *text;
        double bits;
        bool given; /* else in the unit that is asked for */
    } rates[] = {{"400G", 400e9, false},    {"8000000", 8e6, false},   {"8000k", 8e6, false},
                 {"400Gbps", 400e9, true},  {"400Gb/s", 400e9, true},  {"400Gbit/s", 400e9, true},
                 {"400gbps", 400e9, true},  {"400Gb", 400e9, true},    {"100mbps", 100e6, true},
                 {"50GB/s", 400e9, true},   {"50GBps", 400e9, true},   {"25GB", 200e9, true},
                 {"0.9TB/s", 7.2e12, true}, {"1000kbit/s", 1e6, true}, {"125kB/s", 1e6, true}};
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        CHECK(mt_units_parse_rate(rates[i].text, true, &x), "%s", rates[i].text);
        CHECK_NEAR(x, rates[i].bits, 1e-6);
        CHECK(mt_units_parse_rate(rates[i].text, false, &x), "%s", rates[i].text);
        CHECK_NEAR(x, rates[i].bits / (rates[i].given ? 8 : 1), 1e-6);
    }
    static const char *const no_rate[] = {"",        "G",   "0G",     "50gb/s", "50gB", "50g",     "50GiB/s",
                                          "50 GB/s", "-1G", "50GB/m", "400",    "1k",   "999kbps", "124kB/s"};
    for (size_t i = 0; i < sizeof no_rate / sizeof no_rate[0]; i++)
        CHECK(!mt_units_parse_rate(no_rate[i], true, &x), "%s", no_rate[i]);
    CHECK(strstr(mt_units_rate_hint("50gb/s", true), "bits or bytes?"), "50gb/s");
    CHECK(strstr(mt_units_rate_hint("400", true), "is a G missing? 400G"), "400");
    CHECK(strstr(mt_units_rate_hint("300", false), "is a G missing? 300G"), "300");
    char rate[MT_UNITS_TEXT];
    CHECK(!strcmp(mt_units_Bps(47, rate), "47 B/s"), "%s", rate);
    CHECK(!strcmp(mt_units_Bps(49.6e9, rate), "49.6 GB/s"), "%s", rate);
    CHECK(!strstr(mt_units_rate_hint("fast", true), "bits or bytes?"), "fast");
    CHECK(mt_units_parse_money("250k", &x) && x == 250e3, "250k");
    CHECK(mt_units_parse_money("1.5M", &x) && x == 1.5e6, "1.5M");
    CHECK(mt_units_parse_money("0", &x) && x == 0 && mt_units_parse_money("3.67", &x) && x == 3.67, "3.67");
    CHECK(mt_units_parse_money("-2k", &x) && x == -2000 && mt_units_parse_money("-1", &x) && x == -1, "-2k");
    CHECK(!mt_units_parse_money("", &x) && !mt_units_parse_money("1k5", &x) && !mt_units_parse_money("$5", &x), "$5");
    CHECK(mt_units_parse_seconds("5us", &x), "5us");
    CHECK_NEAR(x, 5e-6, 1e-20);
    CHECK(mt_units_parse_seconds("2min", &x) && x == 120, "2min");
    CHECK(!mt_units_parse_seconds("5", &x) && !mt_units_parse_seconds("-5us", &x), "no unit, negative");
    return 0;
}
