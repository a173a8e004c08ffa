/* The format of a file, by its beginning or its JSON. */
#include "launcher/flags/document.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "kernels/base/file.h"
#include "kernels/base/text/json.h"

static enum mt_status format_of(const char *path, char format[64], struct mt_err *err) {
    unsigned char head[9] = {0};
    struct stat about;
    if (mt_is_folder(path)) {
        mt_fail(err, MT_EINPUT, "%s: is a folder without a run.json", path);
        return mt_err_hint(err, "name a document, or the folder of a run, as --out of `motley train` had it");
    }
    if (!stat(path, &about) && !S_ISREG(about.st_mode)) {
        mt_fail(err, MT_EINPUT, "%s: is not a regular file", path);
        return mt_err_hint(err, "a document is read more than once: write what comes through a pipe to a file first");
    }
    FILE *file = fopen(path, "rb");
    if (!file) {
        mt_fail_errno(err, "%s", path);
        return err->status = MT_EINPUT;
    }
    size_t n = fread(head, 1, sizeof head, file);
    fclose(file);
    if (n == sizeof head && head[8] == '{' && !head[7]) { /* 8 bytes of the header's length, then JSON */
        strcpy(format, "safetensors");
        return MT_OK;
    }
    struct mt_json_doc doc;
    const char *text;
    enum mt_status st = mt_json_load(path, &doc, err);
    if (st) return st;
    if (!(st = mt_json_string(doc.root, "format", &text, err))) snprintf(format, 64, "%s", text);
    mt_json_release(&doc);
    return st;
}

enum mt_status mt_document_format(const char *path, char format[64], struct mt_err *err) {
    struct mt_arena arena = MT_ARENA_INIT;
    enum mt_status st = format_of(mt_file_in(path, "run.json", &arena), format, err);
    mt_arena_release(&arena);
    return st;
}
