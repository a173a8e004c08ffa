/* Documents as tables, each by its format. */
#include "launcher/show/show.h"

#include <string.h>

#include "launcher/flags/document.h"

static const struct {
    const char *format;
    enum mt_status (*show)(const char *path, struct mt_tables *out, bool *outliers, struct mt_err *err);
} documents[] = {
#define MT_DOCUMENT(format, name) {format, mt_show_##name},
#include "launcher/show/documents.def"
#undef MT_DOCUMENT
};
enum { NDOCUMENTS = sizeof documents / sizeof documents[0] };

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
