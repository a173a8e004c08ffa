/* Tables: columns are aligned, and of many lines equal ones are folded. */
#include "kernels/base/text/plain_table.h"

#include "tests/check.h"

static char *printed(struct mt_plain_table *table) {
    char *text;
    size_t length;
    FILE *file = open_memstream(&text, &length);
    mt_plain_table_print(table, 1, file);
    fclose(file);
    return text;
}

static void test_aligned(void) {
    struct mt_plain_table table = MT_PLAIN_TABLE_INIT;
    mt_plain_table_header(&table, ">n", "name", ">bytes", NULL);
    mt_plain_table_row(&table);
    mt_plain_table_cell(&table, "%d", 7);
    mt_plain_table_cell(&table, "caf\xc3\xa9");
    mt_plain_table_cell(&table, "%d", 12);
    mt_plain_table_row(&table);
    mt_plain_table_cell(&table, "%d", 12);
    mt_plain_table_cell(&table, "a\tb");
    char *text = printed(&table);
    CHECK_TEXT(text, "  n  name  bytes\n  7  caf\xc3\xa9     12\n 12  a?b\n");
    free(text);
}

/* n lines of ranks on hosts of eight, which differ in what `kind` says of them. */
static void fill(struct mt_plain_table *table, int n, const char *(*kind)(int)) {
    *table = (struct mt_plain_table)MT_PLAIN_TABLE_INIT;
    mt_plain_table_header(table, ">rank", "host", "kind", ">more", NULL);
    for (int r = 0; r < n; r++) {
        mt_plain_table_row(table);
        mt_plain_table_cell(table, "%d", r);
        mt_plain_table_cell(table, "h%d", r / 8);
        mt_plain_table_cell(table, "%s", kind(r));
        if (*kind(r) != 'i') mt_plain_table_cell(table, "5");
    }
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

static void test_folded(void) {
    struct mt_plain_table table;
    fill(&table, 128, one_kind);
    mt_plain_table_fold(&table, 2, ">ranks");
    mt_plain_table_row(&table);
    mt_plain_table_cell(&table, "all");
    char *text = printed(&table);
    CHECK_TEXT(text, " rank      host       kind  more  ranks\n 0 to 127  h0 to h15  a        5    128\n all\n");
    free(text);
    fill(&table, 24, three_kinds);
    mt_plain_table_fold(&table, 2, ">ranks");
    text = printed(&table);
    CHECK_TEXT(text, " rank     host      kind  more  ranks\n"
                     " 0 .. 22  h0 .. h2  a        5     12\n"
                     " 1 .. 23  h0 .. h2  b        5     11\n"
                     " 3        h0        idle            1\n");
    free(text);
    fill(&table, MT_PLAIN_TABLE_SHOWN, one_kind);
    mt_plain_table_fold(&table, 2, ">ranks");
    CHECK_EQ(table.nlines, MT_PLAIN_TABLE_SHOWN + 1);
    free(printed(&table));
    fill(&table, MT_PLAIN_TABLE_SHOWN + 1, all_kinds);
    mt_plain_table_fold(&table, 2, ">ranks");
    CHECK_EQ(table.nlines, MT_PLAIN_TABLE_SHOWN + 2);
    CHECK_EQ(table.lines[0].count, 4);
    free(printed(&table));
}

int main(void) {
    test_aligned();
    test_folded();
    return 0;
}
