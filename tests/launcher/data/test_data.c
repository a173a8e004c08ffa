/* The data order against its definition: each epoch takes every window of a source once, on any rank; samples of
 * several sources by their weights, each in its own order; validation; and what is refused of the whole. */
#include "launcher/data/data.h"
#include "tests/launcher/data/write_file.h"

static void make_bin(int32_t *buffer, int32_t count, uint16_t modulus) {
    memset(buffer, 0, 1024);
    buffer[0] = 20240520, buffer[1] = 1, buffer[2] = count;
    uint16_t *words = (uint16_t *)(buffer + 256);
    for (int32_t i = 0; i < count; i++) words[i] = (uint16_t)((i * 7919 + i / 13) % modulus);
}

static char *in_format(const char *format, const char *path) {
    static char text[2][160];
    static int turn;
    char *t = text[turn ^= 1];
    snprintf(t, sizeof text[0], "%s:%s", format, path);
    return t;
}

/* Every epoch: one offset, all its windows once, in an order that differs between epochs and is not the file's. */
static void test_epochs(void) {
    enum { N = 5003, SEQ = 16 };
    unsigned char text[N];
    for (int i = 0; i < N; i++) text[i] = (unsigned char)((i * 31 + i / 256) & 255);
    const char *path = in_format("bytes", write_file("text", text, N));
    struct mt_data_files files = {.data = &path, .ndata = 1};
    struct mt_data_options o = {&files, 0.1, SEQ, 256, 42};
    struct mt_data d;
    struct mt_err err = MT_ERR_INIT;
    CHECK_OK(mt_data_open(&o, &d, &err), err);
    const struct mt_data_part *part = d.train;
    CHECK_EQ(part->count, 4502);
    CHECK_EQ(d.val_count, 501);
    CHECK_EQ(part->windows, 4502 / SEQ - 1);
    int64_t first_offset = -1;
    int same_order = 0, same_offset = 0, source;
    for (int64_t epoch = 0; epoch < 20; epoch++) {
        char seen[N / SEQ] = {0};
        int64_t offset = mt_data_position(&d, epoch * part->windows, &source) % SEQ;
        same_offset += offset == first_offset;
        if (!epoch) first_offset = offset;
        for (int64_t i = 0; i < part->windows; i++) {
            int64_t at = mt_data_position(&d, epoch * part->windows + i, &source), window = (at - offset) / SEQ;
            CHECK_EQ(source, 0);
            CHECK_EQ((at - offset) % SEQ, 0);
            CHECK(window >= 0 && window < part->windows && !seen[window]);
            CHECK(at + SEQ + 1 <= part->count);
            seen[window] = 1;
            same_order += window == i;
            int32_t tokens[SEQ], targets[SEQ];
            mt_data_train(&d, epoch * part->windows + i, tokens, targets);
            for (int t = 0; t < SEQ; t++) {
                CHECK_EQ(tokens[t], text[at + t]);
                CHECK_EQ(targets[t], text[at + t + 1]);
            }
        }
    }
    CHECK(same_order < 20 * part->windows / 20, "%d windows in the file's place", same_order);
    CHECK(same_offset < 8, "offset %d times the first", same_offset);
    mt_data_close(&d);
}

/* Three sources of several formats and files, whose tokens tell them apart: of the first n samples each has its part,
 * for every n; and each source is read in the order that it has alone, but for its random streams. */
static void test_mixture(void) {
    enum { SEQ = 8, N = 400, SAMPLES = 3000 };
    static const double parts[] = {0.25, 0.15, 0.6};
    static uint16_t shorts[N];
    static uint32_t longs[N];
    static char text[N];
    for (int i = 0; i < N; i++) shorts[i] = (uint16_t)(1000 + i), longs[i] = 100000 + (uint32_t)i, text[i] = 'a';
    write_file("a.bin", shorts, sizeof shorts);
    write_file("b.bin", shorts + 10, sizeof shorts - 20);
    write_file("wide", longs, sizeof longs);
    write_file("letters.txt", text, N);
    char bins[64], wide[64], letters[64];
    snprintf(bins, sizeof bins, "%s/*.bin=2.5", folder);
    snprintf(wide, sizeof wide, "uint32:%s/wide=1.5", folder);
    snprintf(letters, sizeof letters, "%s/letters.txt=6", folder);
    const char *specs[] = {bins, wide, letters};
    struct mt_data_files files = {.data = specs, .ndata = 3};
    struct mt_data_options o = {&files, 0.2, SEQ, 1 << 20, 7};
    struct mt_data d;
    struct mt_err err = MT_ERR_INIT;
    CHECK_OK(mt_data_open(&o, &d, &err), err);
    CHECK_EQ(d.sources[0].spec.nfiles, 2);
    CHECK_EQ(d.train[0].count, (int)((N + N - 10) * 0.8));
    CHECK_EQ(d.val_count, 158 + 80 + 80);
    int64_t counts[3] = {0}, offset[3] = {0};
    static char seen[3][2 * N / SEQ];
    for (int64_t n = 0; n < SAMPLES; n++) {
        int32_t tokens[SEQ], targets[SEQ];
        int source;
        int64_t at = mt_data_position(&d, n, &source), windows = d.train[source].windows;
        if (counts[source] % windows == 0) {
            memset(seen[source], 0, sizeof seen[source]);
            offset[source] = at % SEQ;
        }
        CHECK_EQ((at - offset[source]) % SEQ, 0);
        CHECK(!seen[source][(at - offset[source]) / SEQ]++, "a window twice in an epoch");
        counts[source]++;
        for (int s = 0; s < 3; s++)
            CHECK(fabs((double)counts[s] - parts[s] * (double)(n + 1)) < 2, "source %d after %lld", s, (long long)n);
        mt_data_train(&d, n, tokens, targets);
        for (int t = 0; t <= SEQ; t++) {
            int64_t i = at + t, got = t < SEQ ? tokens[t] : targets[SEQ - 1];
            int64_t want = source == 2 ? 'a' : source == 1 ? 100000 + i : i < N ? 1000 + i : 1010 + i - N;
            CHECK_EQ(got, want);
        }
    }
    uint64_t hash = d.hash;
    mt_data_close(&d);
    snprintf(letters, sizeof letters, "%s/letters.txt=7", folder);
    CHECK_OK(mt_data_open(&o, &d, &err), err);
    CHECK(d.hash != hash, "other weights, the same hash");
    mt_data_close(&d);
    /* Without weights: by what they hold. */
    snprintf(bins, sizeof bins, "%s/*.bin", folder);
    snprintf(wide, sizeof wide, "uint32:%s/wide", folder);
    files.ndata = 2;
    CHECK_OK(mt_data_open(&o, &d, &err), err);
    int first = 0, source;
    for (int64_t n = 0; n < 1000; n++) first += (mt_data_position(&d, n, &source), source == 0);
    CHECK(abs(first - (int)(1000. * (2 * N - 10) / (3 * N - 10))) <= 1, "%d", first);
    mt_data_close(&d);
}

/* All validation targets exactly once, in order, then padding; of a second source as well. */
static void test_validation(void) {
    enum { N = 1000, SEQ = 24 };
    static int32_t bin[256 + N];
    make_bin(bin, N, 500);
    const uint16_t *words = (const uint16_t *)(bin + 256);
    const char *path = write_file("tokens.bin", bin, 1024 + 2 * N), *paths[2] = {path};
    struct mt_data_files files = {.data = paths, .ndata = 1};
    struct mt_data_options o = {&files, 0.25, SEQ, 500, 1};
    struct mt_data d;
    struct mt_err err = MT_ERR_INIT;
    CHECK_OK(mt_data_open(&o, &d, &err), err);
    CHECK_EQ(d.val_count, 250);
    CHECK_EQ(d.val_windows, (249 + SEQ - 1) / SEQ);
    int64_t next = d.train[0].count;
    for (int64_t w = 0; w < d.val_windows + 3; w++) {
        int32_t tokens[SEQ], targets[SEQ];
        mt_data_val(&d, w, tokens, targets);
        for (int t = 0; t < SEQ; t++) {
            bool real = next + 1 < N;
            CHECK_EQ(tokens[t], real ? words[next] : 0);
            CHECK_EQ(targets[t], real ? words[next + 1] : -1);
            if (real) next++;
        }
    }
    CHECK_EQ(next, N - 1);
    uint64_t hash = d.hash;
    mt_data_close(&d);
    bin[300] ^= 1;
    paths[0] = write_file("other.bin", bin, 1024 + 2 * N);
    CHECK_OK(mt_data_open(&o, &d, &err), err);
    CHECK(d.hash != hash);
    mt_data_close(&d);

    const char *vals[2] = {path, write_file("short.txt", "abcde", 5)};
    files.val = vals, files.nval = 2;
    CHECK_OK(mt_data_open(&o, &d, &err), err);
    CHECK_EQ(d.train[0].count, N);
    CHECK_EQ(d.val_windows, (N - 1 + SEQ - 1) / SEQ + 1);
    int32_t tokens[SEQ], targets[SEQ];
    int64_t counted = 0;
    for (int64_t w = 0; w < d.val_windows; w++) {
        mt_data_val(&d, w, tokens, targets);
        for (int t = 0; t < SEQ; t++) counted += targets[t] >= 0;
    }
    CHECK_EQ(counted, N - 1 + 4);
    for (int t = 0; t < SEQ; t++) CHECK_EQ(targets[t], t < 4 ? "bcde"[t] : -1);
    mt_data_close(&d);
}

static void refuse(const struct mt_data_options *o, const char *reason, const char *hint) {
    struct mt_data d;
    struct mt_err err = MT_ERR_INIT;
    CHECK_EQ(mt_data_open(o, &d, &err), MT_EINPUT);
    CHECK(strstr(err.text, reason), "\"%s\" does not say \"%s\"", err.text, reason);
    CHECK(strstr(err.hint, hint), "\"%s\" does not hint \"%s\"", err.hint, hint);
}

static void test_refusals(void) {
    const char *specs[2], *val = NULL;
    struct mt_data_files files = {.data = specs, .ndata = 1, .val = &val};
    struct mt_data_options o = {&files, 0.1, 32, 256, 1};
    specs[0] = write_file("short", "too short for it", 16);
    refuse(&o, "14 tokens for training, too few for one window of 33", "shorter --seq");
    o.val_fraction = 1;
    refuse(&o, "--val-fraction 1: not in [0, 1)", "");
    o.val_fraction = 0.1;
    static char text[3000];
    memset(text, 'a', sizeof text);
    specs[0] = write_file("long.txt", text, sizeof text);
    text[2500] = 'z';
    specs[1] = write_file("twin.txt", text, sizeof text);
    o.vocab = 'b';
    files.ndata = 2;
    refuse(&o, "twin.txt: token 2500 is 122, but the model's vocabulary has 98", "vocab=256");
    o.vocab = 256;
    const char *twin = specs[1];
    specs[1] = specs[0];
    refuse(&o, "long.txt is given twice", "=2\"");
    char other[600];
    const char *slash = strrchr(specs[0], '/');
    snprintf(other, sizeof other, "%.*s/.%s", slash ? (int)(slash - specs[0]) : 1, slash ? specs[0] : ".",
             slash ? slash : "/long.txt");
    specs[1] = other;
    refuse(&o, "are one file, given twice", "=2\"");
    const char *vals[2] = {twin, twin};
    struct mt_data_files with_val = {.data = specs, .ndata = 1, .val = vals, .nval = 2};
    o.files = &with_val;
    refuse(&o, "twin.txt is given twice", "leave one of them out");
    o.files = &files;
    specs[1] = "txt:there_is_none";
    refuse(&o, "txt:there_is_none: No such file",
           "formats, before a colon, are text, jsonl, llmc, uint16, uint32, bytes");
    char weighted[64];
    snprintf(weighted, sizeof weighted, "%s=2", twin);
    specs[1] = weighted;
    refuse(&o, "long.txt: has no weight, but ", "give every --data a weight");
    snprintf(weighted, sizeof weighted, "%s=0", twin);
    refuse(&o, "the weight must be above 0", "leave out");
    snprintf(weighted, sizeof weighted, "%s=-1", twin);
    refuse(&o, "the weight must be above 0", "leave out");
    files.ndata = 1, files.nval = 1, val = weighted;
    snprintf(weighted, sizeof weighted, "%s=3", twin);
    refuse(&o, "has a weight, but each token of it counts once", "leave out");
    val = write_file("one", "1", 1);
    refuse(&o, "has 1 tokens for validation, fewer than 2", "--val-fraction");
}

int main(void) {
    CHECK(mkdtemp(folder));
    test_epochs();
    test_mixture();
    test_validation();
    test_refusals();
    return remove_folder();
}
