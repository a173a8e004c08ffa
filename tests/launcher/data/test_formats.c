/* Each format of --data: its tokens, how it is found, and what is refused of it, with place and remedy. */
#include <sys/stat.h>

#include "launcher/data/documents.h"
#include "launcher/data/file.h"
#include "tests/launcher/data/write_file.h"

static const struct mt_data_reading plain;

static enum mt_status open_file(const char *path, enum mt_data_format format, const struct mt_data_reading *reading,
                                struct mt_data_file *file, struct mt_err *err) {
    struct mt_documents documents;
    CHECK_OK(mt_documents_open(reading, &documents, err), *err);
    enum mt_status st = mt_data_file_open(path, format, &documents, false, file, err);
    mt_documents_close(&documents);
    return st;
}

static void expect(const char *path, enum mt_data_format format, const struct mt_data_reading *reading,
                   const int64_t *tokens, int count) {
    struct mt_data_file file;
    struct mt_err err = MT_ERR_INIT;
    CHECK_OK(open_file(path, format, reading, &file, &err), err);
    CHECK_EQ(file.count, count);
    for (int i = 0; i < count; i++) CHECK_EQ(mt_data_token(&file, i), tokens[i]);
    mt_data_file_close(&file);
}

static void refuse(const char *path, enum mt_data_format format, const char *reason, const char *hint) {
    struct mt_data_file file;
    struct mt_err err = MT_ERR_INIT;
    CHECK_EQ(open_file(path, format, &plain, &file, &err), MT_EINPUT);
    CHECK(strstr(err.text, path) && strstr(err.text, reason), "\"%s\" does not say \"%s\"", err.text, reason);
    CHECK(strstr(err.hint, hint), "\"%s\" does not hint \"%s\"", err.hint, hint);
}

/* ---- files of tokens ---- */

static size_t make_llmc(int32_t *buffer, int32_t magic, int32_t version, int32_t count) {
    memset(buffer, 0, 1024);
    buffer[0] = magic, buffer[1] = version, buffer[2] = count;
    for (int32_t i = 0; i < count; i++) {
        if (magic == 20240520)
            ((uint16_t *)(buffer + 256))[i] = (uint16_t)(i * 700 + 9);
        else
            buffer[256 + i] = i * 70000 + 9;
    }
    return 1024 + (size_t)count * (magic == 20240520 ? 2 : 4);
}

static void test_llmc(void) {
    static int32_t bin[256 + 200];
    enum { N = 90 };
    int64_t narrow[N], wide[N];
    for (int i = 0; i < N; i++) narrow[i] = i * 700 + 9, wide[i] = i * 70000 + 9;
    size_t size = make_llmc(bin, 20240520, 1, N);
    expect(write_file("gpt2.bin", bin, size), MT_DATA_BY_NAME, &plain, narrow, N);
    expect(write_file("noname", bin, size), MT_DATA_BY_NAME, &plain, narrow, N);
    size = make_llmc(bin, 20240801, 7, N);
    expect(write_file("llama3.bin", bin, size), MT_DATA_BY_NAME, &plain, wide, N);
    expect(write_file("llama3.bin", bin, size), MT_DATA_llmc, &plain, wide, N);

    refuse(write_file("cut.bin", bin, size - 1), MT_DATA_BY_NAME, "says 90 tokens, but 359 bytes follow", "");
    refuse(write_file("cut.bin", bin, 800), MT_DATA_BY_NAME, "fewer than a token file's header of 1024", "");
    size = make_llmc(bin, 20240520, 7, N);
    refuse(write_file("a.bin", bin, size), MT_DATA_BY_NAME, "version 7; of those that start with 20240520 only", "");
    size = make_llmc(bin, 20240801, 1, N);
    refuse(write_file("a.bin", bin, size), MT_DATA_BY_NAME, "version 1; of those that start with 20240801 only", "");
    size = make_llmc(bin, 20240520, 1, N);
    refuse(write_file("a.bin", bin, size - 2), MT_DATA_BY_NAME, "says 90 tokens, but 178 bytes follow", "");
    refuse(write_file("a.bin", bin, size + 1), MT_DATA_BY_NAME, "says 90 tokens, but 181 bytes follow", "");
    bin[2] = -1;
    refuse(write_file("a.bin", bin, size), MT_DATA_BY_NAME, "says -1 tokens", "");
    refuse(write_file("a.bin", "no magic", 8), MT_DATA_llmc, "is no token file of llm.c: it starts with", "uint16:");
    refuse(write_file("a.bin", "no", 2), MT_DATA_llmc, "is no token file of llm.c", "uint16:");
}

static void test_raw(void) {
    enum { N = 128 };
    uint16_t narrow[N];
    uint32_t wide[N];
    int64_t want[N];
    for (int i = 0; i < N; i++) narrow[i] = (uint16_t)(i * 509), wide[i] = (uint32_t)i * 17, want[i] = i * 509;
    expect(write_file("nano.bin", narrow, sizeof narrow), MT_DATA_BY_NAME, &plain, want, N);
    expect(write_file("nano", narrow, sizeof narrow), MT_DATA_uint16, &plain, want, N);
    for (int i = 0; i < N; i++) want[i] = i * 17;
    const char *path = write_file("wide.bin", wide, sizeof wide);
    expect(path, MT_DATA_uint32, &plain, want, N);
    refuse(path, MT_DATA_BY_NAME, "seems to have 32-bit tokens", "say uint32:");
    uint64_t widest[N];
    for (int i = 0; i < N; i++) widest[i] = (uint64_t)i * 17;
    refuse(write_file("widest.bin", widest, sizeof widest), MT_DATA_BY_NAME, "seems to have 64-bit tokens", "uint16");
    refuse(write_file("widest.bin", widest, sizeof widest), MT_DATA_uint32, "seems to have 64-bit tokens", "uint16");
    wide[0] = UINT32_MAX, want[0] = UINT32_MAX;
    path = write_file("most", wide, sizeof wide);
    expect(path, MT_DATA_uint32, &plain, want, N);
    struct mt_data_file file;
    struct mt_err err = MT_ERR_INIT;
    CHECK_OK(open_file(path, MT_DATA_uint32, &plain, &file, &err), err);
    CHECK_EQ(mt_data_file_check(path, &file, 50257, &err), MT_EINPUT);
    CHECK(strstr(err.text, "token 0 is 4294967295, but the model's vocabulary has 50257"), "%s", err.text);
    mt_data_file_close(&file);
    /* Files that are not just tokens are refused: text, and one with an unknown header. */
    static const char text[] =
        "Some text, that would be tokens of 8000 to 32000, were it read as such; and so on, line\n";
    refuse(write_file("text.bin", text, 88), MT_DATA_BY_NAME, "seems to be text, not tokens", "text:");
    refuse(write_file("text", text, 88), MT_DATA_uint32, "seems to be text, not tokens", "text:");
    int32_t head[512] = {20260101, 1, 512};
    for (int i = 256; i < 512; i++) head[i] = i * 65537;
    refuse(write_file("head.bin", head, sizeof head), MT_DATA_BY_NAME, "but starts with 20260101, not 20240520 or",
           "tail -c +1025");
    head[100] = 1; /* is no header */
    CHECK_OK(open_file(write_file("head.bin", head, sizeof head), MT_DATA_BY_NAME, &plain, &file, &err), err);
    mt_data_file_close(&file);
    refuse(write_file("odd.bin", narrow, 7), MT_DATA_BY_NAME, "7 bytes of tokens of 2 bytes each", "16-bit");
    refuse(write_file("odd", wide, 9), MT_DATA_uint32, "9 bytes of tokens of 4 bytes each", "");
    refuse(write_file("none.bin", "", 0), MT_DATA_BY_NAME, "empty", "");
}

/* ---- text ---- */

static void test_text(void) {
    int64_t want[] = {'a', 0xc3, 0xa9, '\n'};
    expect(write_file("a.txt", "a\xc3\xa9\n", 4), MT_DATA_BY_NAME, &plain, want, 4);
    expect(write_file("a.json", "a\xc3\xa9\n", 4), MT_DATA_text, &plain, want, 4);
    expect(write_file("a.txt",
                      "\xef\xbb\xbf"
                      "a\xc3\xa9\n",
                      7),
           MT_DATA_BY_NAME, &plain, want, 4);
    int64_t any[] = {'a', 0, 0xa9, 0xff};
    expect(write_file("any", "a\0\xa9\xff", 4), MT_DATA_bytes, &plain, any, 4);
}

/* As Windows writes text: with a mark, and without. */
static void test_wide_text(void) {
    static const char letters[] = "a few words\n";
    char little[2 + 2 * sizeof letters] = "\xff\xfe", big[2 + 2 * sizeof letters] = "\xfe\xff";
    size_t n = 2 * (sizeof letters - 1);
    for (size_t i = 0; i < sizeof letters - 1; i++)
        little[2 + 2 * i] = letters[i], big[3 + 2 * i] = letters[i], little[3 + 2 * i] = big[2 + 2 * i] = 0;
    refuse(write_file("a.txt", little, 2 + n), MT_DATA_BY_NAME, "is text in utf-16, not", "iconv -f utf-16 -t utf-8");
    refuse(write_file("a.txt", big, 2 + n), MT_DATA_BY_NAME, "is text in utf-16, not", "iconv -f utf-16 -t utf-8");
    refuse(write_file("a.txt", little + 2, n), MT_DATA_BY_NAME, "is text in utf-16le", "iconv -f utf-16le -t utf-8");
    refuse(write_file("a.txt", big + 2, n), MT_DATA_BY_NAME, "is text in utf-16be", "iconv -f utf-16be -t utf-8");
    refuse(write_file("a.jsonl", little, 2 + n), MT_DATA_BY_NAME, "is text in utf-16, not", "iconv");
    refuse(write_file("a.txt", "\xff\xfe\0\0a\0\0\0", 8), MT_DATA_BY_NAME, "is text in utf-32", "iconv -f utf-32");
}

static void test_text_refusals(void) {
    refuse(write_file("latin.txt", "gut\ngr\xfcn\n", 9), MT_DATA_BY_NAME,
           "line 2: byte 6 of the file, 0xfc, is not UTF-8", "iconv");
    refuse(write_file("cut.txt", "gr\xc3", 3), MT_DATA_BY_NAME, "line 1: byte 2 of the file, 0xc3", "bytes:");
    refuse(write_file("surrogate.txt", "\xed\xa0\x80", 3), MT_DATA_BY_NAME, "0xed, is not UTF-8", "");
    refuse(write_file("overlong.txt", "\xc0\xaf", 2), MT_DATA_BY_NAME, "0xc0, is not UTF-8", "");
    refuse(write_file("tokens.dat", "ab\0c", 4), MT_DATA_BY_NAME, "is binary, not text: byte 2 is 0", "uint16:FILE");
    refuse(write_file("a.gz", "\x1f\x8b\x08\0\1\2", 6), MT_DATA_BY_NAME, "is binary, not text: byte 1 is 139",
           "gunzip");
    refuse(write_file("a.parquet", "PAR1\x15\0\1", 7), MT_DATA_BY_NAME, "is binary, not text: byte 5 is 0", "JSONL");
    refuse(write_file("a.npy", "\x93NUMPY\1\0", 8), MT_DATA_BY_NAME, "is binary, not text: byte 0 is 147", "tofile");
    refuse(write_file("a.json", "{}", 2), MT_DATA_BY_NAME, "may be one JSON document, or one a line", "jsonl:");
    refuse(write_file("empty", "", 0), MT_DATA_BY_NAME, "empty", "");
    refuse("/nonexistent/file", MT_DATA_BY_NAME, "No such file", "");
    refuse(folder, MT_DATA_BY_NAME, "is a folder, not a regular file", "/*");
    refuse("/dev/null", MT_DATA_BY_NAME, "not a regular file", "");
}

/* ---- JSONL ---- */

static const char *write_lines(const char *text) {
    return write_file("a.jsonl", text, strlen(text));
}

static void test_jsonl(void) {
    int64_t ab[] = {'a', '\n', 0xc3, 0xa9, '"', '\n'};
    expect(write_lines("{\"text\": \"a\", \"id\": 1}\r\n\n{\"id\": [2], \"text\": \"\\u00e9\\\"\"}"), MT_DATA_BY_NAME,
           &plain, ab, 6);
    expect(write_lines("{\"text\": \"\"}\n{\"text\": \"a\"}\n"), MT_DATA_BY_NAME, &plain, ab, 2);
    struct mt_data_reading content = {.field = "content"};
    expect(write_lines("{\"text\": 5, \"content\": \"a\"}\n"), MT_DATA_jsonl, &content, ab, 2);
    expect(write_lines("{\"text\": 18446744073709551616, \"content\": \"a\"}\n"), MT_DATA_jsonl, &content, ab, 2);
    expect(write_lines("\xef\xbb\xbf{\"content\": \"a\"}\n"), MT_DATA_jsonl, &content, ab, 2);

    refuse(write_lines("{\"text\": \"a\"}\n{\"content\": \"b\", \"id\": 3}\n"), MT_DATA_BY_NAME,
           "line 2: has no member \"text\"", "content, id; --data-field");
    refuse(write_lines("{\"text\": \"a\"}\n\n{\"text\": \"b\"\n"), MT_DATA_BY_NAME,
           "a.jsonl: line 3, column 12: ", "one JSON object; --bad-lines skip");
    refuse(write_lines("{\"text\": \"a\"}\n{\"text\": b}\n"), MT_DATA_BY_NAME, "a.jsonl: line 2, column 10: ", "");
    refuse(write_lines("{\"text\": 7}\n"), MT_DATA_BY_NAME, "line 1: text", "");
    refuse(write_lines("[\"a\"]\n"), MT_DATA_BY_NAME, "line 1", "a line must be an object");
    refuse(write_lines("{\"text\": \"\xfc\"}\n"), MT_DATA_BY_NAME, "line 1", "");
    refuse(write_lines("{\"text\": \"a\"} {\"text\": \"b\"}\n"), MT_DATA_BY_NAME, "line 1", "");
    refuse(write_lines("{\"text\": \"\"}\n"), MT_DATA_BY_NAME, "there is no text in its lines", "");
    refuse(write_lines("\n \n"), MT_DATA_BY_NAME, "there is no text in its lines", "");
}

static void test_skipped_lines(void) {
    struct mt_data_reading skip = {.skips_bad_lines = true};
    struct mt_data_file file;
    struct mt_err err = MT_ERR_INIT;
    int64_t want[] = {'a', '\n', 'b', '\n'};
    const char *path = write_lines("[]\n{\"text\": \"a\"}\nno\n{\"x\": 1}\n{\"text\": 1}\n\n{\"text\": \"b\"}");
    expect(path, MT_DATA_BY_NAME, &skip, want, 4);
    CHECK_OK(open_file(path, MT_DATA_BY_NAME, &skip, &file, &err), err);
    CHECK_EQ(file.skipped, 4);
    mt_data_file_close(&file);
    refuse(path, MT_DATA_BY_NAME, "a.jsonl: line 1: must be an object", "--bad-lines skip");
    path = write_lines("no\n{\"x\": 1}\n\n");
    CHECK_EQ(open_file(path, MT_DATA_BY_NAME, &skip, &file, &err), MT_EINPUT);
    CHECK(strstr(err.text, "all 2 lines with text are bad") && strstr(err.text, "line 1, column 2"), "%s", err.text);
}

/* ---- names ---- */

static void parse(const char *text, struct mt_arena *arena, struct mt_data_spec *spec) {
    struct mt_err err = MT_ERR_INIT;
    CHECK_OK(mt_data_spec_parse("--data", text, arena, spec, &err), err);
}

static void test_specs(void) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_err err = MT_ERR_INIT;
    struct mt_data_spec spec;
    char text[160];
    parse("jsonl:b.dat=0.5", &arena, &spec);
    CHECK(spec.format == MT_DATA_jsonl && spec.weight == 0.5 && spec.nfiles == 1);
    CHECK_TEXT(spec.files[0], "b.dat");
    parse("odd:name=x", &arena, &spec);
    CHECK(spec.format == MT_DATA_BY_NAME && spec.weight == 0);
    CHECK_TEXT(spec.files[0], "odd:name=x");
    write_file("p2.txt", "2", 1), write_file("p10.txt", "1", 1), write_file("p2.txt=3", "3", 1);
    snprintf(text, sizeof text, "%s/p-folder.txt", folder); /* is left out of a pattern */
    CHECK(!mkdir(text, 0700), "%s", text);
    snprintf(text, sizeof text, "text:%s/p*.txt=4", folder);
    parse(text, &arena, &spec);
    CHECK(spec.weight == 4 && spec.nfiles == 2 && spec.format == MT_DATA_text);
    CHECK(strstr(spec.files[0], "p10.txt") && strstr(spec.files[1], "p2.txt"));
    snprintf(text, sizeof text, "%s/p2.txt=3", folder); /* there is such a file */
    parse(text, &arena, &spec);
    CHECK(spec.weight == 0);
    CHECK_TEXT(spec.files[0], text);
    snprintf(text, sizeof text, "%s/p-folder*", folder);
    CHECK_EQ(mt_data_spec_parse("--data", text, &arena, &spec, &err), MT_EINPUT);
    CHECK(strstr(err.text, "no file has such a name"), "%s", err.text);
    snprintf(text, sizeof text, "%s/q*", folder);
    CHECK_EQ(mt_data_spec_parse("--data", text, &arena, &spec, &err), MT_EINPUT);
    CHECK(strstr(err.text, "no file has such a name"), "%s", err.text);
    CHECK_EQ(mt_data_spec_parse("--data", "text:", &arena, &spec, &err), MT_EINPUT);
    CHECK(strstr(err.text, "names no file"), "%s", err.text);
    mt_arena_release(&arena);
}

int main(void) {
    CHECK(mkdtemp(folder));
    test_llmc();
    test_raw();
    test_text();
    test_text_refusals();
    test_wide_text();
    test_jsonl();
    test_skipped_lines();
    test_specs();
    return remove_folder();
}
