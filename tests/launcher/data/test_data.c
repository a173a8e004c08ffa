/* The data order against its definition: each epoch takes every window once, on any rank; and refusals of bad files.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "launcher/data/data.h"
#include "tests/check.h"

static char folder[] = "motley-data-XXXXXX";

static char *write_file(const char *name, const void *data, size_t size) {
    static char path[2][128];
    static int turn;
    char *p = path[turn ^= 1];
    snprintf(p, sizeof path[0], "%s/%s", folder, name);
    FILE *f = fopen(p, "wb");
    CHECK(f && fwrite(data, 1, size, f) == size);
    fclose(f);
    return p;
}

static void make_bin(int32_t *buffer, int32_t count, uint16_t modulus) {
    memset(buffer, 0, 1024);
    buffer[0] = 20240520, buffer[1] = 1, buffer[2] = count;
    uint16_t *words = (uint16_t *)(buffer + 256);
    for (int32_t i = 0; i < count; i++) words[i] = (uint16_t)((i * 7919 + i / 13) % modulus);
}

/* Every epoch: one offset, all its windows once, in an order that differs between epochs and is not the file's. */
static void test_epochs(void) {
    enum { N = 5003, SEQ = 16 };
    unsigned char text[N];
    for (int i = 0; i < N; i++) text[i] = (unsigned char)((i * 31 + i / 256) & 255);
    struct mt_data_options o = {write_file("text", text, N), NULL, 0.1, SEQ, 256, 42};
    struct mt_data d;
    struct mt_err err = MT_ERR_INIT;
    CHECK_OK(mt_data_open(&o, &d, &err), err);
    CHECK_EQ(d.train_count, 4502);
    CHECK_EQ(d.val_count, 501);
    CHECK_EQ(d.windows, 4502 / SEQ - 1);
    int64_t first_offset = -1;
    int same_order = 0, same_offset = 0;
    for (int64_t epoch = 0; epoch < 20; epoch++) {
        char seen[N / SEQ] = {0};
        int64_t offset = mt_data_position(&d, epoch * d.windows) % SEQ;
        same_offset += offset == first_offset;
        if (!epoch) first_offset = offset;
        for (int64_t i = 0; i < d.windows; i++) {
            int64_t at = mt_data_position(&d, epoch * d.windows + i), window = (at - offset) / SEQ;
            CHECK_EQ((at - offset) % SEQ, 0);
            CHECK(window >= 0 && window < d.windows && !seen[window]);
            CHECK(at + SEQ + 1 <= d.train_count);
            seen[window] = 1;
            same_order += window == i;
            int32_t tokens[SEQ], targets[SEQ];
            mt_data_train(&d, epoch * d.windows + i, tokens, targets);
            for (int t = 0; t < SEQ; t++) {
                CHECK_EQ(tokens[t], text[at + t]);
                CHECK_EQ(targets[t], text[at + t + 1]);
            }
        }
    }
    CHECK(same_order < 20 * d.windows / 20, "%d windows in the file's place", same_order);
    CHECK(same_offset < 8, "offset %d times the first", same_offset);
    mt_data_close(&d);
}

/* All validation targets exactly once, in order, then padding. */
static void test_validation(void) {
    enum { N = 1000, SEQ = 24 };
    static int32_t bin[256 + N];
    make_bin(bin, N, 500);
    const uint16_t *words = (const uint16_t *)(bin + 256);
    char *path = write_file("tokens.bin", bin, 1024 + 2 * N);
    struct mt_data_options o = {path, NULL, 0.25, SEQ, 500, 1};
    struct mt_data d;
    struct mt_err err = MT_ERR_INIT;
    CHECK_OK(mt_data_open(&o, &d, &err), err);
    CHECK_EQ(d.val_count, 250);
    CHECK_EQ(d.val_windows, (249 + SEQ - 1) / SEQ);
    int64_t next = d.train_count;
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
    o.path = write_file("other.bin", bin, 1024 + 2 * N);
    CHECK_OK(mt_data_open(&o, &d, &err), err);
    CHECK(d.hash != hash);
    mt_data_close(&d);
}

static void refuse(const struct mt_data_options *o, const char *reason) {
    struct mt_data d;
    struct mt_err err = MT_ERR_INIT;
    CHECK(mt_data_open(o, &d, &err) != MT_OK, "%s", reason);
    CHECK(strstr(err.text, reason), "\"%s\" does not say \"%s\"", err.text, reason);
    CHECK(strstr(err.text, o->path) || strstr(err.text, "--"), "%s", err.text);
}

static void test_refusals(void) {
    static int32_t bin[256 + 200];
    struct mt_data_options o = {NULL, NULL, 0.1, 32, 256, 1};
    make_bin(bin, 300, 256);
    o.path = write_file("a.bin", bin, 1024 + 598);
    refuse(&o, "300 tokens");
    o.path = write_file("a.bin", bin, 1024 + 601);
    refuse(&o, "300 tokens");
    o.path = write_file("a.bin", bin, 800);
    refuse(&o, "header");
    bin[1] = 2;
    o.path = write_file("a.bin", bin, 1024 + 600);
    refuse(&o, "version 2");
    bin[1] = 1, bin[2] = -1;
    o.path = write_file("a.bin", bin, 1024 + 600);
    refuse(&o, "-1 tokens");
    bin[0] = 20240801;
    o.path = write_file("a.bin", bin, 1024 + 600);
    refuse(&o, "starts with 20240801");
    make_bin(bin, 300, 200);
    ((uint16_t *)(bin + 256))[123] = 256;
    o.path = write_file("a.bin", bin, 1024 + 600);
    refuse(&o, "token 123 is 256");
    o.path = write_file("empty", "", 0);
    refuse(&o, "empty");
    o.path = write_file("short", "too short for it", 16);
    refuse(&o, "too few");
    o.path = "/nonexistent/file";
    refuse(&o, "No such file");
    o.path = folder;
    refuse(&o, "regular");
    o.val_fraction = 1;
    refuse(&o, "--val-fraction");
}

int main(void) {
    CHECK(mkdtemp(folder));
    test_epochs();
    test_validation();
    test_refusals();
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}
