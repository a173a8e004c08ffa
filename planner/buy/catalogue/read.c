/* Catalogues from files: CSV (RFC 4180, cells in quotes may hold commas) and JSON. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/text/json.h"
#include "planner/buy/catalogue/row.h"

enum { MOST_BYTES = 1 << 20 };

/* ---- CSV ---- */

struct csv {
    struct mt_catalogue *catalogue;
    const char *name;
    int line;
    int ncolumns, column[CATALOGUE_COLUMNS]; /* of the file's columns: which of the catalogue's */
    struct mt_err *err;
};

/* The next cell of a line, without spaces around it; *at: after its comma, or null after the last. */
static enum mt_status next_cell(const struct csv *csv, char **at, char **cell) {
    char *from = *at, *to;
    while (*from == ' ') from++;
    if (*from == '"') {
        *cell = to = ++from;
        while (*from && (*from != '"' || from[1] == '"')) {
            if (*from == '"') from++;
            *to++ = *from++;
        }
        if (!*from++) return mt_fail(csv->err, MT_EINPUT, "%s:%d: a quote is not closed", csv->name, csv->line);
        from += strspn(from, " ");
        if (*from && *from != ',')
            return mt_fail(csv->err, MT_EINPUT, "%s:%d: a comma must follow a cell in quotes", csv->name, csv->line);
    } else {
        *cell = from;
        from += strcspn(from, ",");
        for (to = from; to > *cell && to[-1] == ' ';) to--;
    }
    *at = *from ? from + 1 : NULL;
    *to = 0;
    return MT_OK;
}

static enum mt_status take_header(struct csv *csv, char *line) {
    char names[400], *cell;
    for (char *at = line; at;) {
        enum mt_status st = next_cell(csv, &at, &cell);
        if (st) return st;
        for (char *c = cell; *c; c++) *c = (char)tolower((unsigned char)*c);
        int column = mt_catalogue_column(cell);
        bool twice = false;
        for (int i = 0; i < csv->ncolumns; i++) twice |= csv->column[i] == column;
        if (column < 0) {
            mt_fail(csv->err, MT_EINPUT, "%s:%d: there is no column \"%.60s\"", csv->name, csv->line, cell);
            mt_catalogue_columns(names, sizeof names);
            return mt_err_hint(csv->err, "columns: %s", names);
        }
        if (twice) return mt_fail(csv->err, MT_EINPUT, "%s:%d: has two columns \"%.60s\"", csv->name, csv->line, cell);
        csv->column[csv->ncolumns++] = column;
    }
    return MT_OK;
}

static enum mt_status take_line(struct csv *csv, char *line) {
    const char *values[CATALOGUE_COLUMNS] = {0};
    char *cell, *at = line;
    int n = 0;
    for (; at; n++) {
        enum mt_status st = next_cell(csv, &at, &cell);
        if (st) return st;
        if (n < csv->ncolumns && *cell) values[csv->column[n]] = cell;
    }
    if (n != csv->ncolumns)
        return mt_fail(csv->err, MT_EINPUT, "%s:%d: has %d cells, but there are %d columns", csv->name, csv->line, n,
                       csv->ncolumns);
    const char *where = mt_arena_printf(&csv->catalogue->arena, "%s:%d", csv->name, csv->line);
    return mt_catalogue_row(csv->catalogue, where, values, csv->err);
}

static enum mt_status parse_csv(const char *name, const char *text, struct mt_catalogue *catalogue,
                                struct mt_err *err) {
    struct csv csv = {.catalogue = catalogue, .name = name, .err = err};
    int rows = 0;
    for (char *at = mt_arena_strdup(&catalogue->arena, text), *line; (line = strsep(&at, "\n"));) {
        csv.line++;
        size_t n = strlen(line);
        if (n && line[n - 1] == '\r') line[--n] = 0;
        for (const char *c = line; *c; c++)
            if ((unsigned char)*c < 0x20 || *c == 0x7f)
                return mt_fail(err, MT_EINPUT, "%s:%d: has a control character", name, csv.line);
        if (!line[strspn(line, " ")] || line[0] == '#') continue;
        enum mt_status st = csv.ncolumns ? take_line(&csv, line) : take_header(&csv, line);
        if (st) return st;
        rows++;
    }
    return rows > 1 ? MT_OK : mt_fail(err, MT_EINPUT, "%s: has no row", name);
}

/* ---- JSON ---- */

struct reading {
    struct mt_catalogue *catalogue;
    const char *name;
};

static enum mt_status read_item(void *context, struct mt_json at, int index, struct mt_err *err) {
    struct reading *reading = context;
    struct mt_arena *arena = &reading->catalogue->arena;
    const char *values[CATALOGUE_COLUMNS] = {0}, *key;
    struct mt_json member;
    struct mt_err ignored = MT_ERR_INIT;
    int count;
    double number;
    enum mt_status st = mt_json_members(at, CATALOGUE_COLUMNS, &count, err);
    for (int i = 0; i < count && !st; i++) {
        if ((st = mt_json_member(at, i, &key, &member, err))) break;
        int column = mt_catalogue_column(key);
        if (column < 0) {
            char names[400];
            mt_json_fail(at, err, "there is no column \"%.60s\"", key);
            mt_catalogue_columns(names, sizeof names);
            return mt_err_hint(err, "columns: %s", names);
        }
        if (!mt_json_has_value(at, key)) continue;
        const char *text;
        if (!mt_json_as_string(member, &text, &ignored)) {
            st = mt_json_text(at, key, arena, &values[column], err);
            if (!st && !values[column][0]) values[column] = NULL;
        } else if (!mt_json_as_real(member, -1e300, 1e300, &number, &ignored)) {
            values[column] =
                mt_arena_printf(arena, fabs(number) < 1e15 && number == floor(number) ? "%.0f" : "%.17g", number);
        } else {
            st = mt_json_fail(member, err, "must be a text or a number");
        }
    }
    if (st) return st;
    return mt_catalogue_row(reading->catalogue, mt_arena_printf(arena, "%s: items[%d]", reading->name, index), values,
                            err);
}

static enum mt_status parse_json(const char *name, const char *text, size_t length, struct mt_catalogue *catalogue,
                                 struct mt_err *err) {
    static const char *const keys[] = {"items", NULL};
    static const struct mt_json_rows items = {"items", MT_PURCHASE_MOST_ITEMS, 1, read_item};
    struct reading reading = {catalogue, name};
    struct mt_json_doc doc;
    enum mt_status st = mt_json_parse(name, text, length, &doc, err);
    if (st) return st;
    void *rows;
    int count = 0;
    if (!(st = mt_json_only(doc.root, keys, err)))
        st = mt_json_list(doc.root, &items, &reading, &catalogue->arena, &rows, &count, err);
    if (!st && !count) st = mt_fail(err, MT_EINPUT, "%s: items: has no row", name);
    mt_json_release(&doc);
    return st;
}

enum mt_status mt_catalogue_parse(const char *name, const char *text, size_t length, struct mt_catalogue *catalogue,
                                  struct mt_err *err) {
    if (length > MOST_BYTES) return mt_fail(err, MT_EINPUT, "%s: is longer than %d bytes", name, MOST_BYTES);
    if (strlen(text) != length) return mt_fail(err, MT_EINPUT, "%s: is no text: it has zero bytes", name);
    if (text[strspn(text, " \t\r\n")] == '{') return parse_json(name, text, length, catalogue, err);
    return parse_csv(name, text, catalogue, err);
}

enum mt_status mt_catalogue_read(const char *path, struct mt_catalogue *catalogue, struct mt_err *err) {
    char *text;
    size_t length;
    enum mt_status st = mt_file_read(path, MOST_BYTES, &text, &length, err);
    if (st) return st;
    st = mt_catalogue_parse(path, text, length, catalogue, err);
    free(text);
    return st;
}
