/* The reader's refusals by their words, and the writer's text by what jansson reads back. */
#include "kernels/base/text/json.h"

#include <limits.h>

#include "kernels/base/number/rng.h"
#include "tests/check.h"

static enum mt_status parse(const char *text, struct mt_json_doc *doc, struct mt_err *err) {
    return mt_json_parse("a.json", text, strlen(text), doc, err);
}

static void refused(const char *text, const char *message) {
    struct mt_json_doc doc;
    struct mt_err err = MT_ERR_INIT;
    CHECK_EQ(parse(text, &doc, &err), MT_EINPUT);
    CHECK(strstr(err.text, message), "%s: %s", text, err.text);
}

static void test_syntax(void) {
    refused("", "a.json:1:0: ");
    refused("{\"a\": 1, \"a\": 2}", "duplicate object key");
    refused("{} x", "end of file expected");
    refused("[1e999]", "real number overflow");
    refused("[NaN]", "a.json:1:4: invalid token");
    refused("[99999999999999999999]", "too big integer");
    refused("[\"\\u0000\"]", "\\u0000");
    refused("[\"\xff\"]", "unable to decode byte 0xff");
    char deep[300];
    memset(deep, '[', 100);
    memset(deep + 100, ']', 100);
    deep[200] = 0;
    refused(deep, "nested deeper than 64");
    /* Brackets in strings are not depth. */
    deep[0] = '"', deep[1] = '\\', deep[2] = '"', deep[199] = '"';
    char text[310];
    snprintf(text, sizeof text, "[%s]", deep);
    struct mt_json_doc doc;
    struct mt_err err = MT_ERR_INIT;
    CHECK_OK(parse(text, &doc, &err), err);
    mt_json_release(&doc);
}

static void test_places(void) {
    const char *text =
        "{\"splits\": [{\"sizes\": [1, 2, 3.5], \"name\": 4}], \"rate\": 2, \"on\": true, \"kind\": \"x\"}";
    struct mt_json_doc doc;
    struct mt_err err = MT_ERR_INIT;
    CHECK_OK(parse(text, &doc, &err), err);
    struct mt_json splits, split;
    int n;
    CHECK_OK(mt_json_get(doc.root, "splits", &splits, &err), err);
    CHECK_OK(mt_json_length(splits, 1, &n, &err), err);
    CHECK_EQ(n, 1);
    CHECK_EQ(mt_json_length(splits, 0, &n, &err), MT_EINPUT);
    CHECK_TEXT(err.text, "a.json: splits: has 1 items, but may have 0 at most");
    CHECK_OK(mt_json_item(splits, 0, &split, &err), err);

    int64_t sizes[3];
    CHECK_EQ(mt_json_ints(split, "sizes", 0, 10, 3, sizes, &err), MT_EINPUT);
    CHECK_TEXT(err.text, "a.json: splits[0].sizes[2]: must be a whole number, not 3.5");
    CHECK_EQ(mt_json_ints(split, "sizes", 0, 10, 2, sizes, &err), MT_EINPUT);
    CHECK_TEXT(err.text, "a.json: splits[0].sizes: has 3 numbers, but must have 2");
    CHECK_EQ(mt_json_ints(split, "sizes", 2, 10, 3, sizes, &err), MT_EINPUT);
    CHECK_TEXT(err.text, "a.json: splits[0].sizes[0]: is 1, but must be from 2 to 10");
    const char *name;
    CHECK_EQ(mt_json_string(split, "name", &name, &err), MT_EINPUT);
    CHECK_TEXT(err.text, "a.json: splits[0].name: must be a string, not a number");
    CHECK_EQ(mt_json_string(split, "label", &name, &err), MT_EINPUT);
    CHECK_TEXT(err.text, "a.json: splits[0]: has no \"label\"");

    double rate;
    CHECK_OK(mt_json_real(doc.root, "rate", 0, 2, &rate, &err), err);
    CHECK_NEAR(rate, 2, 0);
    CHECK_EQ(mt_json_real(doc.root, "rate", 2.5, 3, &rate, &err), MT_EINPUT);
    CHECK_TEXT(err.text, "a.json: rate: is 2, but must be from 2.5 to 3");
    bool on;
    CHECK_OK(mt_json_bool(doc.root, "on", &on, &err), err);
    CHECK(on, "%d", on);
    CHECK_EQ(mt_json_bool(doc.root, "rate", &on, &err), MT_EINPUT);
    int kind;
    CHECK_EQ(mt_json_enum(doc.root, "kind", (const char *const[]){"y", "z"}, 2, &kind, &err), MT_EINPUT);
    CHECK_TEXT(err.text, "a.json: kind: \"x\" is not known here");
    CHECK_TEXT(err.hint, "it may be: y, z");
    CHECK_OK(mt_json_enum(doc.root, "kind", (const char *const[]){"y", "x"}, 2, &kind, &err), err);
    CHECK_EQ(kind, 1);

    CHECK_OK(mt_json_only(split, (const char *const[]){"name", "sizes", NULL}, &err), err);
    CHECK_EQ(mt_json_only(split, (const char *const[]){"name", NULL}, &err), MT_EINPUT);
    CHECK_TEXT(err.text, "a.json: splits[0]: unknown key \"sizes\"");
    CHECK_TEXT(err.hint, "known keys: name");

    /* Members in the file's order, walked forwards, backwards and between objects. */
    const char *const order[] = {"splits", "rate", "on", "kind"};
    CHECK_OK(mt_json_members(doc.root, 4, &n, &err), err);
    CHECK_EQ(n, 4);
    for (int i = 0; i < 16; i++) {
        const char *key;
        struct mt_json member;
        CHECK_OK(mt_json_member(doc.root, i * 5 % 4, &key, &member, &err), err);
        CHECK_TEXT(key, order[i * 5 % 4]);
        CHECK_OK(mt_json_member(split, 1, &key, &member, &err), err);
        CHECK_TEXT(member.path, "splits[0].name");
    }
    mt_json_release(&doc);
}

/* The fewest digits that read back the same, by trying every length. */
static size_t fewest_digits(double value) {
    char text[40];
    for (int digits = 1; digits < 17; digits++) {
        snprintf(text, sizeof text, "%.*e", digits - 1, value);
        if (strtod(text, NULL) == value) return (size_t)digits;
    }
    return 17;
}

static size_t count_digits(const char *text) {
    char digits[64];
    size_t n = 0;
    for (; *text && *text != 'e'; text++)
        if (*text >= '0' && *text <= '9' && (n || *text != '0')) digits[n++] = *text;
    while (n > 1 && digits[n - 1] == '0') n--;
    return n;
}

static void test_numbers(void) {
    const double chosen[] = {0.1,
                             -0.0,
                             0,
                             1,
                             1e15,
                             123456789012345678.0,
                             5e-324,
                             2.2250738585072011e-308,
                             1e308,
                             1.0 / 3,
                             0.30000000000000004,
                             -1e22,
                             9007199254740993.0};
    const int nchosen = (int)(sizeof chosen / sizeof chosen[0]);
    struct mt_err err = MT_ERR_INIT;
    for (int i = 0; i < 20000; i++) {
        uint32_t w[4];
        mt_philox(11, 0, (uint64_t)i, w);
        uint64_t bits = (uint64_t)w[0] << 32 | w[1];
        double value;
        memcpy(&value, &bits, sizeof value);
        if (i < nchosen)
            value = chosen[i];
        else if (i % 3 == 0)
            value = floor(mt_random_uniform(1, 1, (uint64_t)i) * 1e4) / 1e3; /* as people write */
        if (!isfinite(value)) continue;
        struct mt_json_out out;
        mt_json_out_init(&out);
        mt_json_open(&out, NULL, '{');
        mt_json_put_real(&out, "x", value);
        mt_json_close(&out);
        struct mt_json_doc doc;
        CHECK_OK(mt_json_parse("n", out.text, out.length, &doc, &err), err);
        double back;
        CHECK_OK(mt_json_real(doc.root, "x", -INFINITY, INFINITY, &back, &err), err);
        CHECK(!memcmp(&back, &value, sizeof back), "%.17g came back as %.17g", value, back);
        if (value != 0) CHECK(count_digits(strchr(out.text, ':')) <= fewest_digits(value), "%s", out.text);
        mt_json_release(&doc);
        mt_json_out_release(&out);
    }
}

static void test_writer(void) {
    struct mt_json_out out;
    mt_json_out_init(&out);
    mt_json_open(&out, NULL, '{');
    mt_json_put_string(&out, "text", "a\"\\\n\x01/\xc3\xa9\xff\xed\xa0\x80");
    mt_json_put_ints(&out, "sizes", (const int64_t[]){INT64_MIN, 0, INT64_MAX}, 3);
    mt_json_put_ints(&out, "none", NULL, 0);
    mt_json_open(&out, "rows", '[');
    mt_json_open_inline(&out, NULL, '{');
    mt_json_put_bool(&out, "on", true);
    mt_json_open(&out, "in", '[');
    mt_json_put_real(&out, NULL, 0.1);
    mt_json_close(&out);
    mt_json_close(&out);
    mt_json_close(&out);
    mt_json_open(&out, "empty", '{');
    mt_json_close(&out);
    mt_json_close(&out);
    CHECK_TEXT(out.text, "{\n"
                         "  \"text\": \"a\\\"\\\\\\n\\u0001/\xc3\xa9\\ufffd\\ufffd\\ufffd\\ufffd\",\n"
                         "  \"sizes\": [-9223372036854775808, 0, 9223372036854775807],\n"
                         "  \"none\": [],\n"
                         "  \"rows\": [\n"
                         "    {\"on\": true, \"in\": [0.1]}\n"
                         "  ],\n"
                         "  \"empty\": {}\n"
                         "}\n");
    struct mt_json_doc doc;
    struct mt_err err = MT_ERR_INIT;
    CHECK_OK(mt_json_parse("w", out.text, out.length, &doc, &err), err);
    const char *text;
    CHECK_OK(mt_json_string(doc.root, "text", &text, &err), err);
    CHECK_TEXT(text, "a\"\\\n\x01/\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
    mt_json_release(&doc);
    mt_json_out_release(&out);
}

int main(void) {
    test_syntax();
    test_places();
    test_numbers();
    test_writer();
    return 0;
}
