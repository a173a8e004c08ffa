/* Typed tables: what each writer writes is read back by another reader (jansson; a reader of RFC 4180 below; numbers of
 * the text with their units) and compared with the values that were put in. */
#include "kernels/base/table/table.h"

#include <jansson.h>

#include "kernels/base/number/rng.h"
#include "tests/check.h"

static double uniform(void) {
    static uint64_t index;
    return mt_random_uniform(7, 0, index++);
}

static char *written(const struct mt_tables *doc, enum mt_tables_format format) {
    char *text;
    size_t length;
    FILE *file = open_memstream(&text, &length);
    mt_tables_write(doc, format, file);
    fclose(file);
    return text;
}

static void check_written(const struct mt_tables *doc, enum mt_tables_format format, const char *want) {
    char *text = written(doc, format);
    CHECK_TEXT(text, want);
    free(text);
}

/* ---- text ---- */

static void test_text(void) {
    struct mt_tables doc = MT_TABLES_INIT;
    mt_tables_say(&doc, "plan  %s", "abc");
    struct mt_table *t = mt_tables_add(&doc, "ranks", "ranks", "a note");
    mt_table_column(t, "rank", "rank", MT_UNIT_COUNT);
    mt_table_column(t, "host", "host", MT_UNIT_TEXT)->once = true;
    mt_table_column(t, "step_s", "step", MT_UNIT_SECONDS);
    mt_table_column(t, "against", "", MT_UNIT_CHANGE);
    mt_table_column(t, "memory_bytes", "memory", MT_UNIT_BYTES);
    mt_table_column(t, "hidden", "hidden", MT_UNIT_COUNT)->machines_only = true;
    mt_table_column(t, "shares", "shares", MT_UNIT_SIZES);
    mt_table_row(t);
    mt_cell_int(t, 7), mt_cell_text(t, "caf\xc3\xa9"), mt_cell_real(t, 0.1214), mt_cell_real(t, 0.087);
    mt_cell_real(t, 19.25 * 0x1p30), mt_cell_int(t, 5), mt_cell_ints(t, (const int64_t[]){18, 18, 6}, 3);
    mt_table_row(t);
    mt_cell_int(t, 12), mt_cell_text(t, "caf\xc3\xa9"), mt_cell_real(t, 1.5), mt_cell_real(t, -0.5);
    mt_cell_real(t, 0x1p20 * 300), mt_cell_none(t), mt_cell_ints(t, NULL, 0);
    mt_table_row(t);
    mt_cell_none(t), mt_cell_text(t, "a\tb"), mt_cell_word(t, "idle");
    mt_table_total(t);
    mt_cell_word(t, "all"), mt_cell_blank(t), mt_cell_real(t, 0), mt_cell_real(t, INFINITY);
    check_written(&doc, MT_TABLES_TEXT,
                  "plan  abc\n\nranks (a note)\n"
                  "  rank  host     step             memory  shares\n"
                  "     7  caf\xc3\xa9   121 ms   +8.7%   19.2 GiB  18 18 6\n"
                  "    12        1500 ms  -50.0%  0.293 GiB\n"
                  "     -  a?b      idle\n"
                  "   all              0       -\n");
    check_written(
        &doc, MT_TABLES_MARKDOWN,
        "plan  abc\n\n### ranks\n\na note\n\n"
        "| rank | host | step |  | memory | shares |\n| ---: | --- | ---: | ---: | ---: | --- |\n"
        "| 7 | caf\xc3\xa9 | 121 ms | +8.7% | 19.2 GiB | 18 18 6 |\n| 12 |  | 1500 ms | -50.0% | 0.293 GiB |  |\n"
        "| - | a?b | idle |  |  |  |\n| all |  | 0 | - |  |  |\n");
    check_written(&doc, MT_TABLES_CSV,
                  "table,rank,host,step_s,against,memory_bytes,hidden,shares\r\n"
                  "ranks,7,caf\xc3\xa9,0.1214,0.087,20669530112,5,18 18 6\r\n"
                  "ranks,12,caf\xc3\xa9,1.5,-0.5,314572800,,\r\nranks,,a\tb,,,,,\r\nranks,,,0,,,,\r\n");
    mt_tables_release(&doc);
}

/* Without titles there is no header; a table without a title has no empty line before it. */
static void test_bare(void) {
    struct mt_tables doc = MT_TABLES_INIT;
    struct mt_table *t = mt_tables_add(&doc, "pairs", "", "");
    mt_table_column(t, "what", "", MT_UNIT_TEXT);
    mt_table_column(t, "value", "", MT_UNIT_ANY);
    mt_table_row(t), mt_cell_text(t, "rate"), mt_cell_measure(t, 312e12, MT_UNIT_FLOPS);
    mt_table_row(t), mt_cell_text(t, "link"), mt_cell_measure(t, 25e9, MT_UNIT_BPS);
    mt_table_row(t), mt_cell_text(t, "kind"), mt_cell_text(t, "a|b");
    mt_tables_say(&doc, "end");
    check_written(&doc, MT_TABLES_TEXT, "  rate  312 Tflop/s\n  link    25.0 GB/s\n  kind          a|b\nend\n");
    check_written(&doc, MT_TABLES_MARKDOWN,
                  "|  |  |\n| --- | ---: |\n| rate | 312 Tflop/s |\n| link | 25.0 GB/s |\n"
                  "| kind | a\\|b |\n\nend\n");
    mt_color_choose(MT_COLOR_ALWAYS);
    mt_cell_style(t, MT_STYLE_ERROR);
    check_written(&doc, MT_TABLES_TEXT,
                  "  rate  312 Tflop/s\n  link    25.0 GB/s\n  kind          \033[31ma|b\033[0m\nend\n");
    mt_color_choose(MT_COLOR_AUTO);
    check_written(&doc, MT_TABLES_TEXT, "  rate  312 Tflop/s\n  link    25.0 GB/s\n  kind          a|b\nend\n");
    mt_tables_release(&doc);
}

static void test_flushed(void) {
    struct mt_tables doc = MT_TABLES_INIT;
    char *text;
    size_t length;
    FILE *file = open_memstream(&text, &length);
    mt_tables_say(&doc, "one");
    mt_tables_flush(&doc, file);
    mt_table_column(mt_tables_add(&doc, "t", "t", ""), "k", "k", MT_UNIT_COUNT);
    mt_tables_flush(&doc, file);
    mt_tables_flush(&doc, file);
    fclose(file);
    CHECK_TEXT(text, "one\n\nt\n  k\n");
    free(text);
    mt_tables_release(&doc);
}

/* ---- units ---- */

static void check_unit(enum mt_unit unit, double least, double most, double value, const char *want) {
    char text[MT_UNIT_TEXT_BYTES];
    CHECK_TEXT(mt_unit_text(unit, mt_unit_prefix(unit, least, most), -1, value, text), want);
}

static void test_units(void) {
    check_unit(MT_UNIT_SECONDS, 12.3e-6, 12.3e-6, 12.3e-6, "12.3 us");
    check_unit(MT_UNIT_SECONDS, 1e-3, 12, 1e-3, "0.00100 s");
    check_unit(MT_UNIT_SECONDS, 0.2, 1.2, 1.2, "1200 ms");  /* rather than 0.200 s */
    check_unit(MT_UNIT_SECONDS, 2e-5, 1.2, 1.2, "1200 ms"); /* so that the smallest is not 0.0000200 s */
    check_unit(MT_UNIT_SECONDS, 2e-5, 1.2, 2e-5, "0.0200 ms");
    check_unit(MT_UNIT_SECONDS, 2e-6, 12, 12, "12.0 s"); /* too far apart */
    check_unit(MT_UNIT_SECONDS, 2e-6, 12, 2e-6, "<0.001 s");
    check_unit(MT_UNIT_SECONDS, 2e-6, 12, -2e-6, ">-0.001 s");
    check_unit(MT_UNIT_SECONDS, 600, 600, 600, "600 s");
    check_unit(MT_UNIT_SECONDS, 7200, 7200, 7200, "2.00 h");
    check_unit(MT_UNIT_SECONDS, 30 * 86400., 30 * 86400., 30 * 86400., "30.0 d");
    check_unit(MT_UNIT_SECONDS, 1, 999.6e-3, 999.6e-3, "1.00 s");
    check_unit(MT_UNIT_BYTES, 512, 512, 512, "512 B");
    check_unit(MT_UNIT_BYTES, 1023.9 * 1024, 1023.9 * 1024, 1023.9 * 1024, "1.00 MiB");
    check_unit(MT_UNIT_BYTES, 1e5, 5e6, 0, "0 B");
    check_unit(MT_UNIT_QUANTITY, 264e3, 264e3, 264e3, "264 k");
    check_unit(MT_UNIT_QUANTITY, 950, 950, 950, "950");
    check_unit(MT_UNIT_QUANTITY, 0.5, 0.5, 0.5, "0.500");
    check_unit(MT_UNIT_FLOPS, 312e12, 312e12, -312e12, "-312 Tflop/s");
    check_unit(MT_UNIT_FLOPS, 0.98e12, 312e12, 0.98e12, "0.980 Tflop/s");
    check_unit(MT_UNIT_FLOPS, 21e12, 2.25e15, 2.25e15, "2250 Tflop/s");
    check_unit(MT_UNIT_BITPS, 100e9, 400e9, 100e9, "100 Gbit/s");
    check_unit(MT_UNIT_HERTZ, 1.98e9, 1.98e9, 1.98e9, "1.98 GHz");
    check_unit(MT_UNIT_WATTS, 700, 700, 700, "700 W");
    check_unit(MT_UNIT_FRACTION, 0, 0, 0.1561, "15.6%");
    check_unit(MT_UNIT_CHANGE, 0, 0, 0, "+0.0%");
    check_unit(MT_UNIT_RATIO, 0, 0, 1.236, "x 1.24");
    check_unit(MT_UNIT_MONEY, 27.36, 33, 27.356, "27.36");
    check_unit(MT_UNIT_MONEY, 0.00274, 33, 0.00274, "0.00274");
    check_unit(MT_UNIT_MONEY, 0.00274, 33, 33, "33.00000");
    check_unit(MT_UNIT_NUMBER, 1, 1, 0.49412, "0.4941");
    check_unit(MT_UNIT_CELSIUS, 1, 1, 61.4, "61 C");
    check_unit(MT_UNIT_DATE, 1, 1, 1772357400, "2026-03-01 09:30");
}

/* The number and the unit that a cell of the text has. */
static double read_back(const char *text, char unit[16]) {
    static const struct {
        const char *name;
        double factor;
    } prefixes[] = {{"ns", 1e-9}, {"us", 1e-6},    {"ms", 1e-3},    {"s", 1},        {"h", 3600},     {"d", 86400},
                    {"B", 1},     {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}, {"PiB", 0x1p50},
                    {"", 1},      {"k", 1e3},      {"M", 1e6},      {"G", 1e9},      {"T", 1e12},     {"P", 1e15}};
    char *end;
    double value = strtod(text + (*text == '<'), &end);
    snprintf(unit, 16, "%s", *end ? end + 1 : "");
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (!strcmp(unit, prefixes[i].name)) return value * prefixes[i].factor;
    CHECK(false, "%s", text);
    return 0;
}

/* Random columns: every row has the unit of the others, and the number that was put in, to three digits. */
static void test_same_units(void) {
    static const enum mt_unit units[] = {MT_UNIT_SECONDS, MT_UNIT_BYTES, MT_UNIT_QUANTITY};
    for (int round = 0; round < 3000; round++) {
        struct mt_tables doc = MT_TABLES_INIT;
        struct mt_grid grid;
        struct mt_table *t = mt_tables_add(&doc, "t", "t", "");
        double value[5], range = 6 * uniform(), middle = 14 * uniform() - 5;
        enum mt_unit unit = units[round % 3];
        if (unit != MT_UNIT_SECONDS) middle += 5;
        mt_table_column(t, "v", "v", unit);
        for (int r = 0; r < 5; r++) {
            value[r] = pow(10, middle + range * (uniform() - 0.5));
            if (unit == MT_UNIT_BYTES) value[r] = ceil(value[r]);
            mt_table_row(t), mt_cell_real(t, value[r]);
        }
        mt_table_grid(t, &doc.arena, &grid);
        char first[16], other[16];
        read_back(grid.rows[0].cells[0], first);
        for (int r = 0; r < 5; r++) {
            const char *cell = grid.rows[r].cells[0];
            double back = read_back(cell, other);
            if (*cell == '<')
                CHECK(value[r] < back && range > 4.5, "%g is %s", value[r], cell);
            else
                CHECK_NEAR(back, value[r], 0.0051 * value[r]);
            CHECK_TEXT(other, first);
            CHECK(strlen(grid.rows[r].cells[0]) < 16, "%s", grid.rows[r].cells[0]);
        }
        mt_tables_release(&doc);
    }
}

/* ---- folding ---- */

/* n rows of ranks on hosts of eight, which differ in what `kind` says of them. */
static struct mt_table *fill(struct mt_tables *doc, int n, const char *(*kind)(int)) {
    struct mt_table *t = mt_tables_add(doc, "t", "", "");
    t->indent = 1;
    mt_table_column(t, "rank", "rank", MT_UNIT_COUNT);
    mt_table_column(t, "host", "host", MT_UNIT_TEXT);
    mt_table_column(t, "kind", "kind", MT_UNIT_TEXT);
    mt_table_column(t, "more", "more", MT_UNIT_COUNT);
    for (int r = 0; r < n; r++) {
        mt_table_row(t);
        mt_cell_int(t, r), mt_cell_text(t, "h%d", r / 8), mt_cell_text(t, "%s", kind(r));
        if (*kind(r) != 'i') mt_cell_int(t, 5);
    }
    mt_table_fold(t, 2, "ranks");
    return t;
}

static const char *one_kind(int r) {
    (void)r;
    return "a";
}

static const char *three_kinds(int r) {
    return r == 3 ? "idle" : r % 2 ? "b" : "a";
}

static const char *all_kinds(int r) {
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h", "j",
                                        "k", "l", "m", "n", "o", "p", "q", "r"};
    return names[r];
}

static int lines_of(const struct mt_tables *doc) {
    char *text = written(doc, MT_TABLES_TEXT);
    int n = 0;
    for (const char *c = text; *c; c++) n += *c == '\n';
    free(text);
    return n;
}

static void test_folded(void) {
    struct mt_tables doc = MT_TABLES_INIT;
    struct mt_table *t = fill(&doc, 128, one_kind);
    mt_table_total(t), mt_cell_word(t, "all");
    check_written(&doc, MT_TABLES_TEXT,
                  " rank      host       kind  more  ranks\n 0 to 127  h0 to h15  a        5    128\n all\n");
    CHECK_EQ(t->nrows, 129); /* machines have all */
    mt_tables_release(&doc);
    fill(&doc, 24, three_kinds);
    check_written(&doc, MT_TABLES_TEXT,
                  " rank     host      kind  more  ranks\n"
                  " 0 .. 22  h0 .. h2  a        5     12\n"
                  " 1 .. 23  h0 .. h2  b        5     11\n"
                  " 3        h0        idle            1\n");
    mt_tables_release(&doc);
    t = fill(&doc, 17, one_kind); /* round robin over two hosts: the last rank is on the first's, and others are not */
    for (int r = 0; r < 17; r++) t->rows[r].cells[1].text = r % 2 ? "h1" : "h0";
    check_written(&doc, MT_TABLES_TEXT,
                  " rank     host      kind  more  ranks\n 0 to 16  h0 .. h1  a        5     17\n");
    mt_tables_release(&doc);
    fill(&doc, MT_TABLE_SHOWN, one_kind);
    CHECK_EQ(lines_of(&doc), MT_TABLE_SHOWN + 1);
    mt_tables_release(&doc);
    fill(&doc, MT_TABLE_SHOWN + 1, all_kinds);
    CHECK_EQ(lines_of(&doc), MT_TABLE_SHOWN + 2);
    char *text = written(&doc, MT_TABLES_TEXT);
    CHECK(!strstr(text, "ranks"), "%s", text);
    free(text);
    mt_tables_release(&doc);
}

/* ---- machines ---- */

/* The next field of RFC 4180 at *at, and what ends it: ',', '\n' (for CR LF) or 0. */
static char next_field(const char **at, char *field, size_t room) {
    const char *c = *at;
    size_t n = 0;
    bool quoted = *c == '"';
    if (quoted) c++;
    for (; *c; c++) {
        if (quoted && *c == '"' && c[1] == '"') {
            c++;
        } else if (quoted && *c == '"') {
            c++;
            break;
        } else if (!quoted && (*c == ',' || *c == '\r')) {
            break;
        }
        CHECK(quoted || (*c != '"' && *c != '\n'), "a bare quote or line feed: %.20s", c);
        CHECK(n + 1 < room, "a field of %zu bytes", n);
        field[n++] = *c;
    }
    field[n] = 0;
    char end = *c;
    if (end == '\r') {
        CHECK(c[1] == '\n', "CR without LF");
        c++, end = '\n';
    }
    CHECK(end == ',' || end == '\n' || !end, "after a field: %.20s", c);
    *at = *c ? c + 1 : c;
    return end;
}

static const char *const texts[] = {"",     "plain",    "a,b",          "say \"x\"", "two\nlines",
                                    "\r\n", "<script>", " caf\xc3\xa9", "\\|`*"};
enum { NTEXTS = sizeof texts / sizeof *texts, NCOLUMNS = 4 };

static void fill_random(struct mt_tables *doc, int nrows) {
    struct mt_table *t = mt_tables_add(doc, "random", "a \"title\"", "a note");
    mt_table_column(t, "text", "text", MT_UNIT_TEXT);
    mt_table_column(t, "time_s", "time", MT_UNIT_SECONDS);
    mt_table_column(t, "size_bytes", "size", MT_UNIT_BYTES);
    mt_table_column(t, "ranks", "ranks", MT_UNIT_RANKS);
    for (int r = 0; r < nrows; r++) {
        double way = uniform();
        if (r == nrows - 1)
            mt_table_total(t);
        else
            mt_table_row(t);
        mt_cell_text(t, "%s", texts[(int)(uniform() * NTEXTS)]);
        if (way < 0.1) continue;
        if (way < 0.2)
            mt_cell_none(t);
        else
            mt_cell_real(t, (way - 0.5) * pow(10, 600 * uniform() - 300));
        mt_cell_int(t, (int64_t)(uniform() * 0x1p53));
        int ranks[3] = {r, 2 * r, 7};
        mt_cell_ranks(t, ranks, (int)(uniform() * 4));
    }
}

/* What spreadsheets would run, and bytes that are no text. */
static void test_csv_texts(void) {
    static const char *const given[] = {"=1+1", "@a,b", "\t-2", "-", "a=b", "c\xff"};
    static const char *const want[] = {"'=1+1", "'@a,b", "'\t-2", "-", "a=b", "c\xef\xbf\xbd"};
    struct mt_tables doc = MT_TABLES_INIT;
    struct mt_table *t = mt_tables_add(&doc, "t", "", "");
    mt_table_column(t, "text", "text", MT_UNIT_TEXT);
    for (int r = 0; r < 6; r++) mt_table_row(t), mt_cell_text(t, "%s", given[r]);
    char *text = written(&doc, MT_TABLES_CSV), field[64];
    const char *at = text;
    for (int c = 0; c < 2; c++) next_field(&at, field, sizeof field);
    for (int r = 0; r < 6; r++) {
        next_field(&at, field, sizeof field);
        next_field(&at, field, sizeof field);
        CHECK_TEXT(field, want[r]);
    }
    free(text);
    mt_tables_release(&doc);
}

static const struct mt_cell *cell_of(const struct mt_row *row, int c) {
    return c < row->ncells && row->cells[c].kind != MT_CELL_NONE ? &row->cells[c] : NULL;
}

static void check_csv(const struct mt_tables *doc) {
    const struct mt_table *t = doc->items[0].table;
    char *text = written(doc, MT_TABLES_CSV), field[256];
    const char *at = text;
    static const char *const header[] = {"table", "text", "time_s", "size_bytes", "ranks"};
    for (int c = 0; c <= NCOLUMNS; c++) {
        CHECK_EQ(next_field(&at, field, sizeof field), c < NCOLUMNS ? ',' : '\n');
        CHECK_TEXT(field, header[c]);
    }
    for (int r = 0; r < t->nrows; r++)
        for (int c = -1; c < NCOLUMNS; c++) {
            CHECK_EQ(next_field(&at, field, sizeof field), c + 1 < NCOLUMNS ? ',' : '\n');
            const struct mt_cell *cell = c < 0 ? NULL : cell_of(&t->rows[r], c);
            if (c < 0)
                CHECK_TEXT(field, "random");
            else if (!cell)
                CHECK_TEXT(field, "");
            else if (c == 0)
                CHECK_TEXT(field, cell->text);
            else if (c < 3)
                CHECK(strtod(field, NULL) == cell->number, "%s is not %.17g", field, cell->number);
            else
                CHECK(cell->count == 0 || strtoll(field, NULL, 10) == cell->list[0], "%s", field);
        }
    CHECK_EQ(*at, 0);
    free(text);
}

static void check_json(const struct mt_tables *doc) {
    const struct mt_table *t = doc->items[0].table;
    char *text = written(doc, MT_TABLES_JSON);
    json_error_t error;
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    CHECK(root, "%s in %s", error.text, text);
    json_t *table = json_array_get(json_object_get(root, "tables"), 0), *rows = json_object_get(table, "rows");
    CHECK_TEXT(json_string_value(json_object_get(root, "format")), "motley-tables");
    CHECK_TEXT(json_string_value(json_object_get(table, "title")), "a \"title\"");
    CHECK_EQ(json_array_size(rows), t->nrows - 1);
    CHECK_EQ(json_array_size(json_object_get(table, "columns")), NCOLUMNS);
    CHECK_TEXT(json_string_value(json_object_get(json_array_get(json_object_get(table, "columns"), 1), "unit")), "s");
    for (int r = 0; r < t->nrows; r++) {
        bool total = r == t->nrows - 1;
        json_t *row = total ? json_array_get(json_object_get(table, "totals"), 0) : json_array_get(rows, (size_t)r);
        CHECK_EQ(json_object_size(row), NCOLUMNS);
        for (int c = 0; c < NCOLUMNS; c++) {
            const struct mt_cell *cell = cell_of(&t->rows[r], c);
            json_t *value = json_object_get(row, t->columns[c].key);
            if (!cell) {
                CHECK(json_is_null(value), "row %d, column %d", r, c);
            } else if (c == 0) {
                CHECK_TEXT(json_string_value(value), cell->text);
            } else if (c == 3) {
                CHECK_EQ(json_array_size(value), cell->count);
                for (int i = 0; i < cell->count; i++)
                    CHECK_EQ(json_integer_value(json_array_get(value, (size_t)i)), cell->list[i]);
            } else {
                CHECK(json_number_value(value) == cell->number, "%.17g", cell->number);
            }
        }
    }
    json_decref(root);
    free(text);
}

static void test_machines(void) {
    for (int round = 0; round < 300; round++) {
        struct mt_tables doc = MT_TABLES_INIT;
        fill_random(&doc, 1 + round % 7);
        check_csv(&doc);
        check_json(&doc);
        mt_tables_release(&doc);
    }
}

int main(void) {
    test_text();
    test_bare();
    test_flushed();
    test_units();
    test_same_units();
    test_folded();
    test_csv_texts();
    test_machines();
    return 0;
}
