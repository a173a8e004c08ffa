/* Differences of large clusters fit one screen of 80 by 40, whatever differs; for machines all are there, as a brute
 * force over names finds them. */
#include "kernels/base/number/rng.h"
#include "launcher/show/diff/diff.h"
#include "tests/check.h"

enum { COLUMNS = 80, LINES = 40 };

static double drawn(void) {
    static uint64_t index;
    return mt_random_uniform(3, 0, index++);
}

/* What a profile of many hosts says; `noise`: how far figures are apart, relative; some have names of their own. */
static void fill(struct mt_facts *f, int nodes, double noise, const char *tag) {
    const int ranks = 4 * nodes;
    f->one_screen = true;
    mt_fact(f, "description", "a cluster of a long description, %s, and no end of it", tag);
    for (int n = 0; n < nodes; n++) {
        mt_fact_real(f, mt_fact_name(f, "node host%d.example.org: memory", n), 1e11 * (1 + noise * drawn()), 0.01,
                     MT_UNIT_BYTES);
        mt_fact(f, mt_fact_name(f, "node host%d.example.org: link", n), "%s", drawn() < 10 * noise ? tag : "nvlink");
    }
    for (int r = 0; r < ranks; r++)
        mt_fact_real(f, mt_fact_name(f, "rank %d: speed", r), 1 + noise * drawn(), 0.001, MT_UNIT_NUMBER);
    for (int r = 1; r < ranks; r++) {
        mt_fact_real(f, mt_fact_name(f, "ranks %d and %d: latency", r - 1, r), 1e-5 * (1 + noise * drawn()), 0.01,
                     MT_UNIT_SECONDS);
        mt_fact_real(f, mt_fact_name(f, "rank %d to %d: bytes a second", r - 1, r), 1e9 * (1 + noise * drawn()), 0.01,
                     MT_UNIT_QUANTITY);
    }
    for (int c = 0; c < 12; c++)
        for (int i = 0; i < 60; i++)
            mt_fact_real(f,
                         mt_fact_name(f, "class h100-%d: matmul bf16 %dx%d, %d rows", c, 64 << i % 5, 64 << i / 20, i),
                         1e-4 * (1 + noise * drawn()), 0.01, MT_UNIT_SECONDS);
    for (int g = 0; g < nodes; g++)
        for (int i = 0; i < 8; i++)
            mt_fact_real(f, mt_fact_name(f, "group node%d: AllReduce ring f32 of %d KiB", g, 64 << i),
                         1e-4 * (1 + noise * drawn()), 0.01, MT_UNIT_SECONDS);
    for (int w = 0; w < 50; w++)
        if (drawn() < noise) mt_fact(f, mt_fact_name(f, "noticed: something of rank %d, at length", w), "yes");
}

static const struct mt_fact *named(const struct mt_facts *f, const char *name) {
    for (int i = 0; i < f->count; i++)
        if (!strcmp(f->items[i].name, name)) return &f->items[i];
    return NULL;
}

static int brute_force(const struct mt_facts *a, const struct mt_facts *b) {
    int count = 0;
    for (int i = 0; i < a->count; i++) {
        const struct mt_fact *left = &a->items[i], *right = named(b, left->name);
        if (!right)
            count++;
        else if (left->text)
            count += strcmp(left->text, right->text) != 0;
        else
            count += fabs(left->value - right->value) > left->band + right->band;
    }
    for (int i = 0; i < b->count; i++) count += !named(a, b->items[i].name);
    return count;
}

static void check_screen(const struct mt_tables *doc) {
    char *text;
    size_t length;
    FILE *file = open_memstream(&text, &length);
    mt_tables_write(doc, MT_TABLES_TEXT, file);
    fclose(file);
    int lines = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"), lines++)
        CHECK(mt_text_width(line) <= COLUMNS, "%d characters: %s", mt_text_width(line), line);
    CHECK(lines <= LINES, "%d lines", lines);
    free(text);
}

static void compare(int nodes, double noise) {
    struct mt_facts a = {0}, b = {0};
    struct mt_tables doc = MT_TABLES_INIT;
    fill(&a, nodes, noise, "first");
    fill(&b, nodes, noise, "second");
    int count = mt_differences(&a, &b, &doc);
    CHECK_EQ(count, brute_force(&a, &b));
    CHECK_EQ(mt_tables_find(&doc, "differences")->nrows, count);
    check_screen(&doc);
    /* Every difference is in some line: their counts add up. */
    const struct mt_table *lines = mt_tables_find(&doc, "lines");
    int sum = 0;
    for (int r = 0; r < lines->nrows; r++) {
        CHECK(lines->rows[r].cells[1].number >= 1, "a line of none");
        sum += (int)lines->rows[r].cells[1].number;
    }
    CHECK_EQ(sum, count);
    mt_tables_release(&doc);
    mt_arena_release(&a.arena);
    mt_arena_release(&b.arena);
}

static void test_same(void) {
    struct mt_facts a = {0};
    struct mt_tables doc = MT_TABLES_INIT;
    fill(&a, 3, 0.5, "one");
    CHECK_EQ(mt_differences(&a, &a, &doc), 0);
    CHECK_EQ(doc.count, 0);
    mt_arena_release(&a.arena);
}

/* Whether two predicted times of a step of 10 ms are the same. */
static bool same_times(double left_s, double right_s) {
    struct mt_facts a = {0}, b = {0};
    struct mt_tables doc = MT_TABLES_INIT;
    mt_fact_predicted(&a, "rank 0: idle", left_s, 10e-3);
    mt_fact_predicted(&b, "rank 0: idle", right_s, 10e-3);
    int count = mt_differences(&a, &b, &doc);
    mt_tables_release(&doc);
    mt_arena_release(&a.arena);
    mt_arena_release(&b.arena);
    return !count;
}

/* What rounding leaves, and what is printed alike, are no differences; what shows in the step is one. */
static void test_times(void) {
    CHECK(same_times(0.442e-9, 0.598e-9), "rounding is a difference");
    CHECK(same_times(0, 1e-9), "rounding beside none is a difference");
    CHECK(same_times(82.0e-9, 82.01e-9), "times that are printed alike are different");
    CHECK(same_times(123.01e-3, 123.04e-3), "times that are printed alike are different");
    CHECK(same_times(1e-6, 5e-6), "what the step does not show is a difference");
    CHECK(!same_times(1e-6, 20e-6), "what the step shows is none");
    CHECK(!same_times(10e-3, 10.1e-3), "another step is none");
    struct mt_facts a = {0}, b = {0};
    struct mt_tables doc = MT_TABLES_INIT;
    mt_fact_real(&a, "buckets", 4194304, 0, MT_UNIT_BYTES);
    mt_fact_real(&b, "buckets", 4194305, 0, MT_UNIT_BYTES);
    CHECK_EQ(mt_differences(&a, &b, &doc), 1); /* what is decided is compared as it is */
    mt_tables_release(&doc);
    mt_arena_release(&a.arena);
    mt_arena_release(&b.arena);
}

int main(void) {
    test_same();
    test_times();
    compare(4, 0.02);
    compare(16, 0.02);
    compare(64, 0.05);
    compare(128, 0.9);
    return 0;
}
