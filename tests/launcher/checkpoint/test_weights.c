/* Folders of weights: one file, shards with an index, types; what is missing or disagrees is refused by name. */
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "kernels/base/number/rng.h"
#include "launcher/checkpoint/weights.h"
#include "tests/check.h"

enum { SEED = 20261123, ELEMENTS = 6 };

static char folder[64] = "motley-weights-XXXXXX";
static struct mt_arena arena;

static const char *in_folder(const char *name) {
    return mt_arena_printf(&arena, "%s/%s", folder, name);
}

/* A file of tensors "A B C": tensor X has elements X + i / 4, exact in every type. */
static void write_shard(const char *name, const char *letters, enum mt_type type) {
    struct mt_saved tensors[8] = {{0}};
    struct mt_safetensors_writer *w;
    struct mt_err err = MT_ERR_INIT;
    int n = (int)strlen(letters);
    for (int t = 0; t < n; t++)
        tensors[t] = (struct mt_saved){
            .name = mt_arena_printf(&arena, "%c", letters[t]), .type = type, .ndims = 2, .dims = {2, ELEMENTS / 2}};
    CHECK_OK(mt_safetensors_create(in_folder(name), tensors, n, NULL, 0, &w, &err), err);
    for (int t = 0; t < n; t++) {
        double data[ELEMENTS]; /* room for any type */
        for (int i = 0; i < ELEMENTS; i++) mt_type_store(type, data, i, letters[t] - 'A' + 0.25 * i);
        CHECK_OK(mt_safetensors_append(w, data, (size_t)(ELEMENTS * mt_type_size(type)), &err), err);
    }
    CHECK_OK(mt_safetensors_commit(w, NULL, &err), err);
}

static void write_text(const char *name, const char *text) {
    struct mt_err err = MT_ERR_INIT;
    CHECK_OK(mt_file_replace(in_folder(name), text, strlen(text), &err), err);
}

static void begin(void) {
    snprintf(folder, sizeof folder, "motley-weights-XXXXXX");
    CHECK(mkdtemp(folder));
}

static void end(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    CHECK(!system(command));
}

static void expect(const struct mt_safetensors *file, const char *letters) {
    struct mt_err err = MT_ERR_INIT;
    CHECK_EQ(file->ntensors, strlen(letters));
    for (const char *c = letters; *c; c++) {
        const char name[2] = {*c, 0};
        const struct mt_saved *t = mt_safetensors_find(file, name);
        double got[ELEMENTS];
        CHECK(t, "%s", name);
        CHECK_EQ(t->count, ELEMENTS);
        CHECK_OK(mt_safetensors_read_as(file, t, MT_F64, got, &err), err);
        for (int i = 0; i < ELEMENTS; i++) CHECK_NEAR(got[i], *c - 'A' + 0.25 * i, 0);
    }
}

static struct mt_safetensors *open_folder(const char *path) {
    struct mt_safetensors *file;
    struct mt_err err = MT_ERR_INIT;
    CHECK_OK(mt_weights_open(path, &file, &err), err);
    return file;
}

static void refused(const char *text, const char *hint) {
    struct mt_safetensors *file;
    struct mt_err err = MT_ERR_INIT;
    CHECK_EQ(mt_weights_open(folder, &file, &err), MT_EINPUT);
    CHECK(strstr(err.text, text), "%s, not %s", err.text, text);
    CHECK(strstr(err.hint, hint), "%s, not %s", err.hint, hint);
}

/* Shards of four types; a tensor that the index does not name is there too, and one that two shards have is refused. */
static void test_shards(void) {
    begin();
    write_shard("a.safetensors", "AZ", MT_F32);
    write_shard("b.safetensors", "BC", MT_BF16);
    write_shard("c.safetensors", "D", MT_F16);
    write_shard("d.safetensors", "E", MT_F64);
    write_text(MT_WEIGHTS_INDEX,
               "{\"metadata\": {\"total_size\": 1}, \"weight_map\": {\"C\": \"b.safetensors\", \"A\": "
               "\"a.safetensors\", \"B\": \"b.safetensors\", \"D\": \"c.safetensors\", \"E\": \"d.safetensors\"}}");
    struct mt_err err = MT_ERR_INIT;
    struct mt_safetensors *file = open_folder(folder);
    expect(file, "ABCDEZ");
    CHECK_EQ(mt_safetensors_find(file, "A")->type, MT_F32);
    CHECK_EQ(mt_safetensors_find(file, "D")->type, MT_F16);
    CHECK_TEXT(mt_safetensors_path_of(file, mt_safetensors_find(file, "D")), in_folder("c.safetensors"));
    CHECK(mt_weights_find(file, "D") == mt_safetensors_find(file, "D"));
    CHECK(mt_weights_find(file, "model.D") == mt_safetensors_find(file, "D") && !mt_weights_find(file, "mode.D"));
    CHECK(mt_safetensors_carries_checksums(file));
    CHECK_OK(mt_safetensors_verify(file, &err), err);
    mt_safetensors_close(file);
    mt_safetensors_close(open_folder(in_folder(""))); /* with a slash */
    mt_safetensors_close(open_folder(in_folder(MT_WEIGHTS_INDEX)));
    write_shard("d.safetensors", "EA", MT_F64);
    refused("d.safetensors: has tensor A, which", "download or save the folder again");
    write_shard("d.safetensors", "E", MT_F64);

    /* A byte of one shard: the checksum says so, with the shard's name. */
    char *data;
    size_t length;
    CHECK_OK(mt_file_read(in_folder("c.safetensors"), 1 << 20, &data, &length, &err), err);
    data[length - 1] ^= 1;
    CHECK_OK(mt_file_replace(in_folder("c.safetensors"), data, length, &err), err);
    free(data);
    file = open_folder(folder);
    CHECK_EQ(mt_safetensors_verify(file, &err), MT_EINPUT);
    CHECK(strstr(err.text, "c.safetensors: tensor D is damaged"), "%s", err.text);
    mt_safetensors_close(file);

    /* One whole file goes before an index, as in transformers. */
    write_shard(MT_WEIGHTS_NAME, "XY", MT_F32);
    file = open_folder(folder);
    expect(file, "XY");
    mt_safetensors_close(file);
    end();
}

static void test_refused(void) {
    static const struct {
        const char *index, *text, *hint;
    } cases[] = {
        {"{\"weight_map\": {\"A\": \"a.safetensors\", \"B\": \"a.safetensors\"}}",
         "a.safetensors: has no tensor B, which", "download or save it again"},
        {"{\"weight_map\": {\"A\": \"z.safetensors\"}}", "z.safetensors: No such file", "needs it"},
        {"{\"weight_map\": {\"A\": \"../a.safetensors\"}}",
         "weight_map.A: \"../a.safetensors\" is no file of the folder", ""},
        {"{\"weight_map\": {\"A\": \"..\"}}", "is no file of the folder", ""},
        {"{\"weight_map\": {\"A\": \"\"}}", "is no file of the folder", ""},
        {"{\"weight_map\": {\"A\": 1}}", "weight_map.A: must be a string", ""},
        {"{\"weight_map\": {}}", "weight_map: names no tensor", ""},
        {"{\"weight_map\": []}", "weight_map: must be an object", ""},
        {"{\"metadata\": {}}", "has no \"weight_map\"", ""},
        {"{\"weight_map\": {\"A\": \"a.safetensors\"}, \"extra\": 1}", "unknown key \"extra\"", "known keys"},
        {"{\"weight_map\": {\"A\": \"a.safetensors\"", "index.json:1:", ""},
        {"{\"weight_map\": {\"A\": \"index\"}}", "no safetensors file", "needs it"},
    };
    begin();
    refused("has no model.safetensors and no model.safetensors.index.json", "name a folder with safetensors");
    write_text("pytorch_model.bin", "x");
    refused("has no model.safetensors", "pytorch_model.bin: load it with transformers");
    write_shard("a.safetensors", "A", MT_F32);
    write_text("index", "no tensors are here");
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
        write_text(MT_WEIGHTS_INDEX, cases[i].index);
        refused(cases[i].text, cases[i].hint);
    }
    end();
}

/* F8 is known, and refused by name where it would be converted. */
static void test_eight_bits(void) {
    static const char header[] = "{\"A\":{\"dtype\":\"F8_E4M3\",\"shape\":[2,3],\"data_offsets\":[0,6]}}      ";
    char data[8 + sizeof header - 1 + 6] = {0};
    uint64_t length = sizeof header - 1;
    float to[6];
    struct mt_err err = MT_ERR_INIT;
    begin();
    memcpy(data, &length, 8);
    memcpy(data + 8, header, sizeof header - 1);
    CHECK_OK(mt_file_replace(in_folder(MT_WEIGHTS_NAME), data, sizeof data, &err), err);
    struct mt_safetensors *file = open_folder(folder);
    CHECK_EQ(mt_safetensors_read_as(file, mt_safetensors_find(file, "A"), MT_F32, to, &err), MT_EINPUT);
    CHECK(strstr(err.text, "tensor A has dtype F8_E4M3, which cannot become f32"), "%s", err.text);
    CHECK(strstr(err.hint, "F64, F32, F16 or BF16"), "%s", err.hint);
    mt_safetensors_close(file);
    end();
}

/* What is written is read: the file of a run. */
static void test_write(void) {
    begin();
    write_shard("step-00000003.safetensors", "ABQ", MT_F32);
    struct mt_saved tensors[] = {{.name = "A", .size_bytes = 24}, {.name = "B", .size_bytes = 24}};
    struct mt_err err = MT_ERR_INIT;
    CHECK_OK(mt_weights_index_write(folder, "step-00000003.safetensors", tensors, 2, &err), err);
    struct mt_safetensors *file = open_folder(folder);
    expect(file, "ABQ");
    mt_safetensors_close(file);
    end();
}

static void test_damaged(void) {
    enum { ROUNDS = 20000 };
    static const char good[] =
        "{\"metadata\": {\"total_size\": 1}, \"weight_map\": {\"C\": \"b.st\", \"A\": \"a.st\"}}";
    static const char bytes[] = "{}[]\",:01./ntrue_ \x01\xff";
    for (uint64_t round = 0; round < ROUNDS; round++) {
        struct mt_arena own = MT_ARENA_INIT;
        struct mt_weights_index index;
        struct mt_err err = MT_ERR_INIT;
        char text[sizeof good];
        size_t length = sizeof good - 1;
        memcpy(text, good, sizeof good);
        for (uint64_t i = 0; i < 1 + round % 3; i++) {
            size_t at = (size_t)((double)length * mt_random_uniform(SEED, round, 2 * i));
            text[at] = bytes[(size_t)((double)(sizeof bytes - 1) * mt_random_uniform(SEED, round, 2 * i + 1))];
        }
        enum mt_status st = mt_weights_index_parse("index", text, length, &own, &index, &err);
        CHECK(st ? st == MT_EINPUT && err.text[0] : index.ntensors >= 1 && index.nshards >= 1, "%s", text);
        for (int t = 0; t < index.ntensors && !st; t++) {
            CHECK(index.shard[t] >= 0 && index.shard[t] < index.nshards, "%s", text);
            CHECK(!strchr(index.shards[index.shard[t]], '/'), "%s", text);
        }
        mt_arena_release(&own);
    }
}

int main(void) {
    printf("seed %d\n", SEED);
    test_shards();
    test_refused();
    test_eight_bits();
    test_write();
    test_damaged();
    mt_arena_release(&arena);
    return 0;
}
