/* Tokenizers against `tokenizers` itself (golden.h): numbers of tokens, decoded text, text as tokens come; merges
 * against the definition on random words; and what is refused of a file, by name. */
#include "launcher/tokenizer/tokenizer.h"

#include "kernels/base/arena.h"
#include "kernels/base/number/rng.h"
#include "kernels/base/text/utf8.h"
#include "tests/launcher/tokenizer/golden.h"

static struct mt_tokenizer *open_golden(const char *name) {
    struct mt_tokenizer *tokenizer;
    struct mt_err err = MT_ERR_INIT;
    char path[512];
    snprintf(path, sizeof path, GOLDEN "%s.json", name);
    CHECK_OK(mt_tokenizer_open(path, &tokenizer, &err), err);
    return tokenizer;
}

/* ---- golden files ---- */

static void check_ids(const char *name, int document, const struct mt_tokens *tokens, const char *line) {
    char *end;
    for (int64_t i = 0; i < tokens->count; i++, line = end) {
        long want = strtol(line, &end, 10);
        CHECK(end > line && want == tokens->ids[i], "%s, document %d: token %lld is %d, not %ld", name, document,
              (long long)i, tokens->ids[i], want);
    }
    CHECK(*line == '\n' || !*line, "%s, document %d: more than %lld tokens: %.40s", name, document,
          (long long)tokens->count, line);
}

/* Text that comes with each token is valid, and all of it is the text of all tokens. */
static void check_stream(struct mt_tokenizer *tokenizer, const struct mt_tokens *tokens, bool special) {
    size_t length, at = 0;
    char *whole = mt_tokenizer_decode(tokenizer, tokens->ids, tokens->count, special, &length);
    struct mt_token_stream stream = {.tokenizer = tokenizer, .special = special};
    for (int64_t i = 0; i <= tokens->count; i++) {
        const char *more =
            i < tokens->count ? mt_token_stream_add(&stream, tokens->ids[i]) : mt_token_stream_end(&stream);
        CHECK_EQ(mt_utf8_valid(more, stream.length), stream.length);
        CHECK(at + stream.length <= length && !memcmp(whole + at, more, stream.length), "\"%s\" is not at \"%s\"", more,
              whole + at);
        at += stream.length;
    }
    CHECK_EQ(at, length);
    mt_token_stream_free(&stream);
    free(whole);
}

static void test_golden(const char *name) {
    enum { MOST = 200 };
    struct document texts[MOST], lines[MOST], decoded[MOST];
    size_t length;
    struct mt_err err = MT_ERR_INIT;
    char *text = read_golden("text", "", &length), *ids, *plain;
    int n = divide(text, length, '\x1e', texts, MOST);
    ids = read_golden(name, ".ids", &length);
    CHECK_EQ(divide(ids, length, '\n', lines, MOST), n + 1);
    plain = read_golden(name, ".decoded", &length);
    CHECK_EQ(divide(plain, length, '\x1e', decoded, MOST), n);
    CHECK(n > 40, "%d documents", n);
    struct mt_tokenizer *tokenizer = open_golden(name);
    for (int d = 0; d < n; d++) {
        struct mt_tokens tokens = {0};
        CHECK_OK(mt_tokenizer_encode(tokenizer, texts[d].text, texts[d].length, &tokens, &err), err);
        check_ids(name, d, &tokens, lines[d].text);
        char *got = mt_tokenizer_decode(tokenizer, tokens.ids, tokens.count, false, NULL);
        CHECK(strlen(got) == decoded[d].length && !memcmp(got, decoded[d].text, decoded[d].length),
              "%s, document %d: is decoded to \"%s\", not \"%.*s\"", name, d, got, (int)decoded[d].length,
              decoded[d].text);
        check_stream(tokenizer, &tokens, false);
        check_stream(tokenizer, &tokens, true);
        free(got);
        free(tokens.ids);
    }
    mt_tokenizer_free(tokenizer);
    free(text), free(ids), free(plain);
}

/* Byte-level tokenizers without a normalizer lose nothing: any text comes back. */
static void test_round_trip(void) {
    static const char *const lossless[] = {"gpt2", "llama3", "o200k"};
    struct mt_err err = MT_ERR_INIT;
    for (int k = 0; k < 3; k++) {
        struct mt_tokenizer *tokenizer = open_golden(lossless[k]);
        for (uint64_t trial = 0; trial < 300; trial++) {
            char text[400];
            size_t length = 0;
            for (uint64_t draw = 0; length < 380; draw++) {
                uint32_t r = mt_random_u32(5, trial, draw), code = r % 7 < 4 ? r / 7 % 0x80 : r / 7 % 0x11000;
                if (code && (code < 0xd800 || code >= 0xe000)) length += (size_t)mt_utf8_encode(code, text + length);
            }
            struct mt_tokens tokens = {0};
            CHECK_OK(mt_tokenizer_encode(tokenizer, text, length, &tokens, &err), err);
            char *back = mt_tokenizer_decode(tokenizer, tokens.ids, tokens.count, false, NULL);
            CHECK(strlen(back) == length && !memcmp(back, text, length), "%s: %.*s", lossless[k], (int)length, text);
            free(back);
            free(tokens.ids);
        }
        mt_tokenizer_free(tokenizer);
    }
}

/* ---- merges ---- */

/* Letters a to d, and some merges, of which each makes a token. */
static const char merges[][2][8] = {{"a", "b"},  {"b", "c"},   {"c", "d"},  {"ab", "c"}, {"a", "a"}, {"aa", "aa"},
                                    {"b", "cd"}, {"ab", "ab"}, {"d", "a"},  {"da", "d"}, {"c", "c"}, {"bc", "bc"},
                                    {"d", "d"},  {"dd", "d"},  {"aa", "b"}, {"cc", "da"}};
enum { NMERGES = sizeof merges / sizeof *merges };

/* By the definition: merge the pair of the lowest rank, the leftmost, until there is none. */
static int merge_slowly(const char *word, char pieces[][40]) {
    int n = 0;
    for (; word[n]; n++) snprintf(pieces[n], 40, "%c", word[n]);
    for (int rank = 0; rank < NMERGES; rank++)
        for (int i = 0; i + 1 < n; i++) {
            if (strcmp(pieces[i], merges[rank][0]) != 0 || strcmp(pieces[i + 1], merges[rank][1]) != 0) continue;
            strcat(pieces[i], pieces[i + 1]);
            memmove(pieces[i + 1], pieces[i + 2], (size_t)(n - i - 2) * sizeof *pieces);
            n--;
            rank = -1; /* from the first again */
            break;
        }
    return n;
}

static void test_merges(void) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_err err = MT_ERR_INIT;
    const char *vocab = "\"a\": 0, \"b\": 1, \"c\": 2, \"d\": 3", *list = "";
    for (int i = 0; i < NMERGES; i++) {
        vocab = mt_arena_printf(&arena, "%s, \"%s%s\": %d", vocab, merges[i][0], merges[i][1], i + 4);
        list = mt_arena_printf(&arena, "%s%s[\"%s\", \"%s\"]", list, i ? ", " : "", merges[i][0], merges[i][1]);
    }
    const char *text = mt_arena_printf(
        &arena,
        "{\"model\": {\"type\": \"BPE\", \"vocab\": {%s}, \"merges\": [%s]}, \"decoder\": {\"type\": \"Fuse\"}}", vocab,
        list);
    struct mt_tokenizer *tokenizer;
    CHECK_OK(mt_tokenizer_parse("merges", text, strlen(text), &tokenizer, &err), err);
    for (uint64_t trial = 0; trial < 3000; trial++) {
        char word[32] = "", pieces[32][40];
        int length = 1 + (int)(trial % 30);
        for (int i = 0; i < length; i++) word[i] = "abcd"[mt_random_u32(9, trial, (uint64_t)i) % 4];
        struct mt_tokens tokens = {0};
        CHECK_OK(mt_tokenizer_encode(tokenizer, word, strlen(word), &tokens, &err), err);
        CHECK_EQ(tokens.count, merge_slowly(word, pieces));
        for (int64_t i = 0; i < tokens.count; i++) CHECK_EQ(tokens.ids[i], mt_tokenizer_find(tokenizer, pieces[i]));
        free(tokens.ids);
    }
    mt_tokenizer_free(tokenizer);
    mt_arena_release(&arena);
}

/* One word of a million letters: with a list instead of a heap this would take hours. */
static void test_long_word(void) {
    enum { N = 1000000 };
    struct mt_tokenizer *tokenizer = open_golden("gpt2");
    struct mt_err err = MT_ERR_INIT;
    struct mt_tokens tokens = {0};
    char *word = mt_malloc(N + 1);
    for (int i = 0; i < N; i++) word[i] = "theinger"[(i + i / 11) % 8];
    word[N] = 0;
    CHECK_OK(mt_tokenizer_encode(tokenizer, word, N, &tokens, &err), err);
    char *back = mt_tokenizer_decode(tokenizer, tokens.ids, tokens.count, false, NULL);
    CHECK_TEXT(back, word);
    CHECK(tokens.count < N, "%lld tokens", (long long)tokens.count);
    free(back);
    free(word);
    free(tokens.ids);
    mt_tokenizer_free(tokenizer);
}

/* 400,000 marks of two classes in turns are normalized to those of one and then those of the other. */
static void test_many_marks(void) {
    enum { N = 200000 };
    static const char above[] = "\xcc\x81", below[] = "\xcc\xa3"; /* U+0301 of class 230, U+0323 of class 220 */
    struct mt_tokenizer *tokenizer = open_golden("qwen2");
    struct mt_err err = MT_ERR_INIT;
    struct mt_tokens tokens[2] = {{0}, {0}};
    char *text[2];
    for (int t = 0; t < 2; t++) {
        char *at = text[t] = mt_malloc(4 * N + 2);
        *at++ = 'q'; /* which is composed with neither */
        for (int i = 0; i < 2 * N; i++, at += 2) memcpy(at, (t ? i % 2 : i < N) ? below : above, 2);
        *at = 0;
        CHECK_OK(mt_tokenizer_encode(tokenizer, text[t], strlen(text[t]), &tokens[t], &err), err);
    }
    CHECK_EQ(tokens[0].count, tokens[1].count);
    CHECK(!memcmp(tokens[0].ids, tokens[1].ids, (size_t)tokens[0].count * sizeof *tokens[0].ids), "another order");
    for (int t = 0; t < 2; t++) free(text[t]), free(tokens[t].ids);
    mt_tokenizer_free(tokenizer);
}

/* ---- refusals ---- */

#define MODEL "\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2}, \"merges\": [\"a b\"]}"

#define SWELL "{\"type\": \"Replace\", \"pattern\": {\"String\": \"a\"}, \"content\": \"aaaaaaaa\"}"
#define SPREAD                                                                                                         \
    "{\"type\": \"Split\", \"pattern\": {\"Regex\": \".\"}, \"behavior\": \"Isolated\"}, "                             \
    "{\"type\": \"Metaspace\", \"replacement\": \"aaaaaaaa\", \"split\": false}"

static const struct refusal {
    const char *text, *reason;
} refusals[] = {
    {"{" MODEL ", \"extra\": 1}", "unknown key \"extra\""},
    {"{}", "has no \"model\""},
    {"{\"model\": {\"type\": \"Unigram\", \"vocab\": []}}", "model: a model of type \"Unigram\" is not supported"},
    {"{\"model\": {\"type\": \"BPE\", \"vocab\": {}, \"merges\": []}}", "model.vocab: is empty"},
    {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": -1}, \"merges\": []}}", "model.vocab.a"},
    {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [\"a b\"]}}",
     "\"b\" is not in the vocabulary"},
    {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [\"a a\"]}}",
     "\"aa\" is not in the vocabulary"},
    {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [\"aa\"]}}",
     "two tokens with a blank between"},
    {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [], \"dropout\": 0.1}}", "dropout of merges"},
    {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [], \"unk_token\": \"?\"}}",
     "unk_token: is not"},
    {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [], \"new\": 1}}", "unknown key \"new\""},
    {"{\"model\": {\"type\": \"WordPiece\", \"vocab\": {\"a\": 0}}}", "has no unk_token"},
    {"{" MODEL ", \"normalizer\": {\"type\": \"Precompiled\"}}",
     "a normalizer of type \"Precompiled\" is not supported"},
    {"{" MODEL ", \"normalizer\": {\"type\": \"NFC\", \"form\": 1}}", "normalizer: unknown key \"form\""},
    {"{" MODEL
     ", \"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"NFC\"}, {\"type\": \"Nmt\"}]}}",
     "normalizer.normalizers[1]: a normalizer of type \"Nmt\""},
    {"{" MODEL ", \"pre_tokenizer\": {\"type\": \"UnicodeScripts\"}}", "a pre-tokenizer of type \"UnicodeScripts\""},
    {"{" MODEL
     ", \"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Regex\": \"a(?<=b)\"}, \"behavior\": \"Isolated\"}}",
     "pre_tokenizer.pattern: the regular expression \"a(?<=b)\": a group of this kind"},
    {"{" MODEL
     ", \"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Regex\": \"a*\"}, \"behavior\": \"Isolated\"}}",
     "matches the empty text"},
    {"{" MODEL
     ", \"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"String\": \"\"}, \"behavior\": \"Isolated\"}}",
     "is empty"},
    {"{" MODEL ", \"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"String\": \"a\"}, \"behavior\": \"Other\"}}",
     "\"Other\" is not known"},
    {"{" MODEL ", \"post_processor\": {\"type\": \"Other\"}}", "a post-processor of type \"Other\""},
    {"{" MODEL ", \"post_processor\": {\"type\": \"BertProcessing\", \"sep\": [\"x\", 9], \"cls\": [\"a\", 0]}}",
     "token 9 does not exist"},
    {"{" MODEL
     ", \"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"x\"}}], "
     "\"special_tokens\": {}}}",
     "has no \"x\""},
    {"{" MODEL ", \"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [], \"special_tokens\": {}}}",
     "has no place for the text"},
    {"{" MODEL ", \"decoder\": {\"type\": \"CTC\"}}", "a decoder of type \"CTC\" is not supported"},
    {"{" MODEL ", \"decoder\": {\"type\": \"Sequence\", \"decoders\": [" SWELL ", " SWELL ", " SWELL ", " SWELL "]}}",
     "decoder: its replacements could make a text more than 64 times as long"},
    {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 16000000}, \"merges\": []}}",
     "has 2 tokens, but numbers them up to 16000000"},
    {"{" MODEL ", \"added_tokens\": [{\"id\": 5, \"content\": \"a\"}]}", "\"a\" has number 5, but is 0 in the model's"},
    {"{" MODEL ", \"added_tokens\": [{\"id\": 5, \"content\": \"x\", \"more\": 1}]}", "unknown key \"more\""},
    {"{" MODEL, ":1:"},
    {"[]", "must be an object"},
};

/* An added token with `single_word` is not found next to a character of words: as `tokenizers` does with each text. */
static void test_single_words(void) {
    static const char file[] = /* truncation is left by the last call of a tokenizer in transformers */
        "{\"truncation\": {\"max_length\": 1}, \"padding\": {}, \"added_tokens\": [{\"id\": 5, \"content\": \"ab\", "
        "\"single_word\": true, \"normalized\": false}], "
        "\"model\": {\"type\": \"BPE\", \"unk_token\": \"u\", \"vocab\": {\"u\": 0, \"a\": 1, \"b\": 2, \"-\": 3, "
        "\"c\": 4}, \"merges\": []}}";
    static const struct {
        const char *text;
        bool found;
    } cases[] = {{"ab", true},
                 {"ab-", true},
                 {"abc", false},
                 {"cab", false},
                 {"ab_", false},
                 {"ab5", false},
                 {"ab\xe2\x80\x8d", false},     /* U+200D joins */
                 {"ab\xe2\x80\x8b", true},      /* U+200B does not */
                 {"ab\xe2\x92\xb6", false},     /* A in a circle */
                 {"ab\xe2\x91\xa0", true},      /* 1 in a circle */
                 {"ab\xf0\x9f\x85\xb0", false}, /* A in a square */
                 {"ab\xcc\x81", false},         /* an accent */
                 {"ab\xc2\xb2", true}};         /* a superscript */
    struct mt_tokenizer *tokenizer;
    struct mt_err err = MT_ERR_INIT;
    CHECK_OK(mt_tokenizer_parse("words", file, strlen(file), &tokenizer, &err), err);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mt_tokens tokens = {0};
        CHECK_OK(mt_tokenizer_encode(tokenizer, cases[i].text, strlen(cases[i].text), &tokens, &err), err);
        bool found = false;
        for (int64_t t = 0; t < tokens.count; t++) found |= tokens.ids[t] == 5;
        CHECK(found == cases[i].found && (found || tokens.count > 1), "%s", cases[i].text);
        free(tokens.ids);
    }
    mt_tokenizer_free(tokenizer);
}

static void test_refusals(void) {
    struct mt_tokenizer *tokenizer;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        struct mt_err err = MT_ERR_INIT;
        const char *text = refusals[i].text;
        CHECK(mt_tokenizer_parse("t.json", text, strlen(text), &tokenizer, &err) == MT_EINPUT, "%s", text);
        CHECK(strstr(err.text, refusals[i].reason) && !strncmp(err.text, "t.json", 6), "\"%s\" does not say \"%s\"",
              err.text, refusals[i].reason);
    }
    struct mt_err err = MT_ERR_INIT;
    struct mt_tokens tokens = {0};
    CHECK_EQ(mt_tokenizer_open("/nonexistent/tokenizer.json", &tokenizer, &err), MT_EINPUT);
    tokenizer = open_golden("gpt2");
    CHECK_EQ(mt_tokenizer_encode(tokenizer, "ab\xff", 3, &tokens, &err), MT_EINPUT);
    CHECK(strstr(err.text, "byte 2 of the text, 0xff"), "%s", err.text);
    free(tokens.ids);
    mt_tokenizer_free(tokenizer);
}

/* Parts in a row that each make a text eight times as long: 8^8 bytes for each of it, were they let. */
static void test_swelling(void) {
    static const char *const files[] = {
        "{" MODEL ", \"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [" SWELL ", " SWELL ", " SWELL ", " SWELL
        ", " SWELL ", " SWELL ", " SWELL ", " SWELL "]}}",
        "{" MODEL ", \"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [" SPREAD ", " SPREAD ", " SPREAD
        ", " SPREAD ", " SPREAD ", " SPREAD ", " SPREAD ", " SPREAD "]}}"};
    static const char text[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    for (int k = 0; k < 2; k++) {
        struct mt_tokenizer *tokenizer;
        struct mt_err err = MT_ERR_INIT;
        struct mt_tokens tokens = {0};
        CHECK_OK(mt_tokenizer_parse("swelling", files[k], strlen(files[k]), &tokenizer, &err), err);
        CHECK_EQ(mt_tokenizer_encode(tokenizer, text, sizeof text - 1, &tokens, &err), MT_EINPUT);
        CHECK(strstr(err.text, "makes it endlessly long"), "%s", err.text);
        free(tokens.ids);
        mt_tokenizer_free(tokenizer);
    }
}

/* Golden files with bytes changed: refused, or they encode and decode. The fuzzers do this ten million times. */
static void test_changed_files(void) {
    enum { TRIALS = 25 };
    static const char text[] = "It's 12 o'clock, \xc3\xa9t\xc3\xa9 \xe4\xb8\xad  [MASK]</s>\n";
    for (int k = 0; k < NGOLDEN; k++) {
        size_t length;
        char *file = read_golden(golden[k], ".json", &length);
        for (uint64_t trial = 0; trial < TRIALS; trial++) {
            struct mt_tokenizer *tokenizer;
            struct mt_err err = MT_ERR_INIT;
            size_t at = mt_random_u32(3, trial, (uint64_t)k) % (trial % 2 ? length : 2000);
            char kept = file[at];
            file[at] = (char)(trial % 4 < 2 ? "0,:]}\"[{ "[trial % 9] : kept ^ 1);
            if (!mt_tokenizer_parse("changed", file, length, &tokenizer, &err)) {
                struct mt_tokens tokens = {0};
                if (!mt_tokenizer_encode(tokenizer, text, sizeof text - 1, &tokens, &err))
                    free(mt_tokenizer_decode(tokenizer, tokens.ids, tokens.count, true, NULL));
                free(tokens.ids);
                mt_tokenizer_free(tokenizer);
            } else {
                CHECK(err.text[0], "refused in silence");
            }
            file[at] = kept;
        }
        free(file);
    }
}

int main(void) {
    for (int k = 0; k < NGOLDEN; k++) test_golden(golden[k]);
    test_round_trip();
    test_merges();
    test_long_word();
    test_many_marks();
    test_single_words();
    test_refusals();
    test_swelling();
    test_changed_files();
    return 0;
}
