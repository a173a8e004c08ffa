/* Safetensors against files written here by hand, byte for byte, and the writer against that layout. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "kernels/base/text/json.h"
#include "launcher/checkpoint/safetensors.h"
#include "tests/check.h"

static char folder[] = "motley-safetensors-XXXXXX";

static const char *write_raw(const char *header, uint64_t length, const void *data, size_t size) {
    static char path[128];
    snprintf(path, sizeof path, "%s/raw.safetensors", folder);
    FILE *f = fopen(path, "wb");
    CHECK(f && fwrite(&length, 8, 1, f) == 1);
    fwrite(header, 1, strlen(header), f);
    fwrite(data, 1, size, f);
    fclose(f);
    return path;
}

static const float numbers[6] = {1.5f, -2, 3.25f, 1e-30f, 0, 7};

static void test_read(void) {
    static const char header[] = "{\"b\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[24,28]},"
                                 "\"__metadata__\":{\"who\":\"by hand\"},"
                                 "\"none\":{\"dtype\":\"F64\",\"shape\":[3,0],\"data_offsets\":[28,28]},"
                                 "\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
                                 "\"mask\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[28,29]}}  ";
    unsigned char data[29];
    memcpy(data, numbers, 24);
    memcpy(data + 24, (uint16_t[]){0x3f80, 0xc000}, 4);
    data[28] = 1;
    struct mt_safetensors *f;
    struct mt_err err = MT_ERR_INIT;
    CHECK_OK(mt_safetensors_open(write_raw(header, strlen(header), data, 29), &f, &err), err);
    CHECK_EQ(f->ntensors, 4);
    CHECK_TEXT(mt_safetensors_note(f, "who"), "by hand");
    CHECK(!mt_safetensors_note(f, "why") && !mt_safetensors_find(f, "c") && !f->checked);
    const struct mt_saved *a = mt_safetensors_find(f, "a"), *b = mt_safetensors_find(f, "b");
    CHECK(a && b && a->ndims == 2 && a->dims[0] == 2 && a->dims[1] == 3);
    double wide[6];
    CHECK_OK(mt_safetensors_read_as(f, a, MT_F64, wide, &err), err);
    for (int i = 0; i < 6; i++) CHECK_NEAR(wide[i], (double)numbers[i], 0);
    float two[2];
    CHECK_OK(mt_safetensors_read_as(f, b, MT_F32, two, &err), err);
    CHECK_NEAR(two[0], 1, 0);
    CHECK_NEAR(two[1], -2, 0);
    CHECK_EQ(mt_safetensors_read_as(f, mt_safetensors_find(f, "mask"), MT_F32, two, &err), MT_EINPUT);
    CHECK_EQ(mt_safetensors_verify(f, &err), MT_EINPUT);
    mt_safetensors_close(f);
}

/* Headers that contradict themselves or their file, with 24 bytes of data. */
static void test_refusals(void) {
    static const struct {
        const char *header, *reason;
    } cases[] = {
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,20]}}", "do not fit"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[5],\"data_offsets\":[4,24]}}", "gap"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[5],\"data_offsets\":[0,20]}}", "truncated or damaged"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[7],\"data_offsets\":[0,28]}}", "truncated or damaged"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[6],\"data_offsets\":[24,0]}}", "do not fit"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-6],\"data_offsets\":[0,24]}}", "shape"},
        {"{\"a\":{\"dtype\":\"F31\",\"shape\":[6],\"data_offsets\":[0,24]}}", "F31"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[6.0],\"data_offsets\":[0,24]}}", "shape"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,24]}}", "more elements"},
        {"{\"a\":{\"dtype\":\"F64\",\"shape\":[2305843009213693952],\"data_offsets\":[0,24]}}", "more bytes"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,6],\"data_offsets\":[0,24]}}", "shape"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[6],\"data_offsets\":[0,24],\"x\":1}}", "x"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[6]}}", "data_offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]},"
         "\"b\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[8,24]}}",
         "overlaps"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12]},"
         "\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[12,24]}}",
         "a"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[6],\"data_offsets\":[0,24]},\"__metadata__\":{\"n\":1}}",
         "__metadata__"},
        {"[1]", "not a JSON object"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[6],\"data_offsets\":[0,24]}}]", "raw"},
        {"{\"a\":", "raw"},
        {"", "not a JSON object"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[6],\"data_offsets\":[0,24]},"
         "\"__metadata__\":{\"xxh3.header\": \"0123456789abcdef\"}}",
         "header is damaged"},
    };
    struct mt_safetensors *f;
    struct mt_err err = MT_ERR_INIT;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *path = write_raw(cases[i].header, strlen(cases[i].header), numbers, 24);
        CHECK(mt_safetensors_open(path, &f, &err) == MT_EINPUT, "%s", cases[i].header);
        CHECK(strstr(err.text, cases[i].reason), "%s: %s", cases[i].header, err.text);
        CHECK(strstr(err.text, "raw.safetensors"), "%s", err.text);
    }
    const uint64_t lengths[] = {61, 1000, (100 << 20) + 1, UINT64_MAX, UINT64_MAX - 7, INT64_MAX};
    for (int i = 0; i < 6; i++) {
        CHECK_EQ(mt_safetensors_open(write_raw("{}", lengths[i], numbers, 24), &f, &err), MT_EINPUT);
    }
    FILE *file = fopen(write_raw("", 0, numbers, 0), "wb");
    fwrite("abc", 1, 3, file);
    fclose(file);
    CHECK_EQ(mt_safetensors_open(write_raw("", 0, numbers, 0), &f, &err), MT_EINPUT);
    CHECK_EQ(mt_safetensors_open("/nonexistent", &f, &err), MT_EINPUT);
    CHECK_EQ(mt_safetensors_open(folder, &f, &err), MT_EINPUT);
}

/* What is written is a plain safetensors file: length, JSON that another parser reads, and bytes where it says. */
static void test_write(void) {
    char path[128];
    snprintf(path, sizeof path, "%s/new.safetensors", folder);
    const double d[2] = {3.5, -1e300};
    struct mt_saved tensors[] = {{.name = "w", .type = MT_F32, .ndims = 2, .dims = {3, 2}},
                                 {.name = "empty", .type = MT_F32, .ndims = 1, .dims = {0}},
                                 {.name = "d", .type = MT_F64, .ndims = 1, .dims = {2}},
                                 {.name = "last", .type = MT_F64, .ndims = 1, .dims = {0}}};
    struct mt_saved_note note = {"quote", "a \"xxh3.header\": \"0000000000000000\" \n"};
    struct mt_safetensors_writer *w;
    struct mt_err err = MT_ERR_INIT;
    CHECK_OK(mt_safetensors_create(path, tensors, 4, &note, 1, &w, &err), err);
    CHECK_OK(mt_safetensors_append(w, numbers, 10, &err), err);
    CHECK_OK(mt_safetensors_append(w, (const char *)numbers + 10, 14, &err), err);
    CHECK(access(path, F_OK) != 0, "the file is there before its commit");
    CHECK_OK(mt_safetensors_append(w, d, 16, &err), err);
    CHECK_OK(mt_safetensors_commit(w, NULL, &err), err);

    static char raw[8192];
    FILE *file = fopen(path, "rb");
    size_t size = fread(raw, 1, sizeof raw, file);
    fclose(file);
    uint64_t length;
    memcpy(&length, raw, 8);
    CHECK_EQ((8 + length) % 8, 0);
    CHECK_EQ(8 + length + 24 + 16, size);
    CHECK(!memcmp(raw + 8 + length, numbers, 24) && !memcmp(raw + 8 + length + 24, d, 16));
    struct mt_json_doc doc;
    struct mt_json entry, notes;
    const char *text;
    int64_t at[2];
    CHECK_OK(mt_json_parse("header", raw + 8, length, &doc, &err), err);
    CHECK_OK(mt_json_get(doc.root, "d", &entry, &err), err);
    CHECK_OK(mt_json_string(entry, "dtype", &text, &err), err);
    CHECK_TEXT(text, "F64");
    CHECK_OK(mt_json_ints(entry, "data_offsets", 0, 100, 2, at, &err), err);
    CHECK(at[0] == 24 && at[1] == 40);
    CHECK_OK(mt_json_get(doc.root, "__metadata__", &notes, &err), err);
    CHECK_OK(mt_json_string(notes, "quote", &text, &err), err);
    CHECK_TEXT(text, note.value);
    mt_json_release(&doc);

    struct mt_safetensors *f;
    CHECK_OK(mt_safetensors_open(path, &f, &err), err);
    CHECK(f->checked);
    CHECK_OK(mt_safetensors_verify(f, &err), err);
    mt_safetensors_close(f);
}

/* An abort, and a commit without all bytes, leave nothing; nor is there a file meanwhile, where none needs a name. */
static void test_abort(void) {
    char path[128], temp[160];
    snprintf(path, sizeof path, "%s/never.safetensors", folder);
    snprintf(temp, sizeof temp, "%s" MT_SAFETENSORS_TEMP, path);
    struct mt_saved tensor = {.name = "w", .type = MT_F32, .ndims = 1, .dims = {6}};
    int probe = mt_file_unnamed(path);
    bool unnamed = probe >= 0;
    close(probe);
    for (int round = 0; round < 2; round++) {
        struct mt_safetensors_writer *w;
        struct mt_err err = MT_ERR_INIT;
        CHECK_OK(mt_safetensors_create(path, &tensor, 1, NULL, 0, &w, &err), err);
        CHECK_OK(mt_safetensors_append(w, numbers, 20, &err), err);
        CHECK(access(path, F_OK) && (access(temp, F_OK) == 0) == !unnamed);
        if (round)
            CHECK_EQ(mt_safetensors_commit(w, NULL, &err), MT_EBUG);
        else
            mt_safetensors_abort(w);
        CHECK(access(path, F_OK) && access(temp, F_OK));
    }
}

int main(void) {
    CHECK(mkdtemp(folder));
    test_read();
    test_refusals();
    test_write();
    test_abort();
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}
