/* --data, --val, and how they are read. */
#include "launcher/flags/data_flags.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "launcher/data/spec.h"
#include "launcher/flags/files.h"
#include "launcher/flags/flags.h"

enum { KEY_DATA = 'd', KEY_VAL = 0x3000, KEY_VAL_FRACTION, KEY_FIELD, KEY_TOKENIZER, KEY_END, KEY_BAD_LINES };

/* clang-format off */
#define OPTIONS_OF_DATA                                                                                                \
    {"data", KEY_DATA, "FILE", 0,                                                                                      \
     "[FORMAT:]PATTERN[=WEIGHT]: a file, or files by a pattern in quotes, as \"books/*.txt\". FORMAT: text, jsonl, "    \
     "llmc (.bin with a header), uint16 (as nanoGPT's .bin), uint32, bytes [by name and content]. Several --data are " \
     "mixed by their weights [as much of each as it holds]", 1},                           \
    {"data-field", KEY_FIELD, "NAME", 0, "the member of JSONL's objects that is the text [text]", 1},      \
    {"tokenizer", KEY_TOKENIZER, "PATH", 0,                                                                            \
     "a tokenizer.json, or a folder with one, for text; none: each byte is a token [train: that in the folder of --init " \
     "or --resume; else none]", 1},                                    \
    {"data-end", KEY_END, "TOKEN", 0,                                                                                  \
     "what a document (a line of JSONL, a file of several) ends with, or none [the tokenizer's end of text]", 1},      \
    {"bad-lines", KEY_BAD_LINES, "stop|skip", 0,                                                                       \
     "at a line of JSONL that is no object with a text: stop, or skip and count it [stop]", 1}
/* clang-format on */

static const struct argp_option plain_table[] = {OPTIONS_OF_DATA, {0}};
static const struct argp_option val_table[] = {
    OPTIONS_OF_DATA,
    {"val", KEY_VAL, "FILE", 0, "validation data, as --data, without weights [the last part of each --data]", 1},
    {"val-fraction", KEY_VAL_FRACTION, "X", 0, "the fraction of --data for validation; 0: none [0.1]", 1},
    {0}};

void mt_data_flags_init(struct mt_data_flags *flags, struct mt_err *err) {
    *flags = (struct mt_data_flags){.err = err, .val_fraction = 0.1};
}

void mt_data_flags_release(struct mt_data_flags *flags) {
    mt_arena_release(&flags->arena);
}

static enum mt_status add(struct mt_data_flags *f, const char *flag, const char *text, const char ***list, int *count,
                          int *capacity) {
    const char *path;
    enum mt_status st = mt_flag_path(flag, text, &path, f->err);
    if (st) return st;
    mt_arena_grow(&f->arena, list, *count, capacity, sizeof **list);
    (*list)[(*count)++] = path;
    return MT_OK;
}

static enum mt_status take_bad_lines(struct mt_data_flags *f, const char *text) {
    f->bad_lines_given = true;
    f->files.reading.skips_bad_lines = !strcmp(text, "skip");
    if (f->files.reading.skips_bad_lines || !strcmp(text, "stop")) return MT_OK;
    return mt_fail(f->err, MT_EINPUT, "--bad-lines %.60s: must be stop or skip", text);
}

static error_t parse(int key, char *text, struct argp_state *state) {
    struct mt_data_flags *f = state->input;
    enum mt_status st = MT_OK;
    switch (key) {
    case KEY_DATA: st = add(f, "--data", text, &f->files.data, &f->files.ndata, &f->data_capacity); break;
    case KEY_VAL: st = add(f, "--val", text, &f->files.val, &f->files.nval, &f->val_capacity); break;
    case KEY_VAL_FRACTION:
        f->val_fraction_given = true;
        st = mt_flag_real("--val-fraction", text, &f->val_fraction, f->err);
        break;
    case KEY_FIELD: st = mt_flag_path("--data-field", text, &f->files.reading.field, f->err); break;
    case KEY_TOKENIZER: st = mt_flag_path("--tokenizer", text, &f->files.reading.tokenizer, f->err); break;
    case KEY_BAD_LINES: st = take_bad_lines(f, text); break;
    case KEY_END: st = mt_flag_path("--data-end", text, &f->files.reading.end, f->err); break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return st ? EINVAL : 0;
}

const struct argp *mt_data_argp(void) {
    static const struct argp argp = {.options = plain_table, .parser = parse};
    return &argp;
}

const struct argp *mt_data_val_argp(void) {
    static const struct argp argp = {.options = val_table, .parser = parse};
    return &argp;
}

void mt_data_flags_find_tokenizer(struct mt_data_flags *f, const char *const *weights, int n) {
    const char **path = &f->files.reading.tokenizer;
    for (int i = 0; i < n && !*path; i++) {
        if (!weights[i]) continue;
        const char *there = mt_arena_printf(&f->arena, "%s/tokenizer.json", mt_folder_of(weights[i], &f->arena));
        if (!access(there, F_OK)) *path = there;
    }
    if (*path && !strcmp(*path, "none")) *path = NULL;
}

static void add_files(const char *flag, const char *const *texts, int n, struct mt_files *files) {
    struct mt_data_spec spec;
    struct mt_err ignored = MT_ERR_INIT; /* the data's own reader reports it */
    for (int i = 0; i < n; i++)
        if (!mt_data_spec_parse(flag, texts[i], &files->arena, &spec, &ignored))
            for (int k = 0; k < spec.nfiles; k++) mt_files_reads(files, flag, spec.files[k]);
}

void mt_data_flags_files(const struct mt_data_files *data, struct mt_files *files) {
    const char *tokenizer = data->reading.tokenizer;
    add_files("--data", data->data, data->ndata, files);
    add_files("--val", data->val, data->nval, files);
    if (tokenizer) mt_files_reads(files, "--tokenizer", mt_file_in(tokenizer, "tokenizer.json", &files->arena));
}

enum mt_status mt_data_flags_check(const struct mt_data_flags *f, struct mt_err *err) {
    if (f->files.nval && f->val_fraction_given)
        return mt_fail(err, MT_EINPUT, "--val and --val-fraction exclude each other");
    if (!f->files.ndata && f->files.reading.field) return mt_fail(err, MT_EINPUT, "--data-field: there is no --data");
    if (!f->files.ndata && f->bad_lines_given) return mt_fail(err, MT_EINPUT, "--bad-lines: there is no --data");
    if (f->files.reading.end && !f->files.reading.tokenizer) {
        mt_fail(err, MT_EINPUT, "--data-end: is a token of a tokenizer, and there is none");
        return mt_err_hint(err, "--tokenizer names it");
    }
    return MT_OK;
}
