/* The writers by format, and what those for machines share. */
#include <string.h>
#include <time.h>

#include "kernels/base/table/internal.h"

static void write_text(const struct mt_tables *doc, FILE *file) {
    mt_tables_write_text(doc, 0, file);
}

static const struct {
    const char *name;
    void (*write)(const struct mt_tables *doc, FILE *file);
} writers[MT_TABLES_NFORMATS] = {[MT_TABLES_TEXT] = {"text", write_text},
                                 [MT_TABLES_MARKDOWN] = {"md", mt_tables_write_markdown},
                                 [MT_TABLES_CSV] = {"csv", mt_tables_write_csv},
                                 [MT_TABLES_JSON] = {"json", mt_tables_write_json}};

const char *mt_tables_format_name(enum mt_tables_format format) {
    return writers[format].name;
}

void mt_tables_write(const struct mt_tables *doc, enum mt_tables_format format, FILE *file) {
    writers[format].write(doc, file);
}

void mt_tables_flush(struct mt_tables *doc, FILE *file) {
    mt_tables_write_text(doc, doc->written, file);
    doc->written = doc->count;
    fflush(file);
}

char *mt_date_text(double seconds, char out[MT_DATE_TEXT]) {
    time_t time = (time_t)seconds;
    struct tm tm;
    if (!gmtime_r(&time, &tm) || !strftime(out, MT_DATE_TEXT, "%Y-%m-%dT%H:%M:%SZ", &tm)) out[0] = 0;
    return out;
}
