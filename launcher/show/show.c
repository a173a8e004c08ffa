/* Finding the format of a file. */
#include "launcher/show/show.h"

#include <string.h>
#include <sys/stat.h>

#include "kernels/base/file.h"
#include "kernels/base/text/json.h"

static const struct {
    const char *format;
    enum mt_status (*show)(const char *path, struct mt_tables *out, bool *outliers, struct mt_err *err);
} documents[] = {
#define MT_DOCUMENT(format, name) {format, mt_show_##name},
#include "launcher/show/documents.def"
#undef MT_DOCUMENT
};
enum { NDOCUMENTS = sizeof documents / sizeof documents[0] };

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

enum mt_status mt_show(const char *path, struct mt_tables *out, bool *outliers, struct mt_err *err) {
    *outliers = false;
    char format[64], known[300] = "";
    enum mt_status st = mt_document_format(path, format, err);
    if (st) return st;
    for (int d = 0; d < NDOCUMENTS; d++) {
        if (!strcmp(documents[d].format, format)) return documents[d].show(path, out, outliers, err);
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", d ? ", " : "", documents[d].format);
    }
    mt_fail(err, MT_EINPUT, "%s: is a \"%s\", which is not known here", path, format);
    return mt_err_hint(err, "known: %s", known);
}
