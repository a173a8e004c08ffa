/* The writers by format, and what those for machines share. */
#include <string.h>
#include <time.h>

#include "kernels/base/table/internal.h"

static void write_text(const struct mt_tables *doc, FILE *file) {
    mt_tables_write_text(doc, 0, file);
}

static void (*const writers[])(const struct mt_tables *doc,
                               FILE *file) = {[MT_TABLES_TEXT] = write_text,
                                              [MT_TABLES_MARKDOWN] = mt_tables_write_markdown,
                                              [MT_TABLES_CSV] = mt_tables_write_csv,
                                              [MT_TABLES_JSON] = mt_tables_write_json};

void mt_tables_write(const struct mt_tables *doc, enum mt_tables_format format, FILE *file) {
    writers[format](doc, file);
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
