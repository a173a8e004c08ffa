/* Notes of restarts, as CSV. */
#include "launcher/run/restarts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/file.h"

static const char header[] = "step,restart";

static void put_quoted(FILE *file, const char *text) {
    fputc('"', file);
    for (; *text; text++) {
        if (*text == '"') fputc('"', file);
        fputc((unsigned char)*text < ' ' ? ' ' : *text, file);
    }
    fputs("\"\n", file);
}

enum mt_status mt_restarts_add(const char *folder, const struct mt_restart *restart, struct mt_err *err) {
    struct mt_arena arena = MT_ARENA_INIT;
    const char *path = mt_arena_printf(&arena, "%s/" MT_RESTARTS_CSV, folder);
    enum mt_status st = MT_OK;
    bool first = access(path, F_OK) != 0;
    FILE *file = mt_is_folder(folder) ? fopen(path, "a") : NULL;
    if (file) {
        if (first) fprintf(file, "%s\n", header);
        fprintf(file, "%lld,", (long long)restart->step);
        put_quoted(file, restart->what);
    }
    if (file ? fclose(file) : mt_is_folder(folder)) st = mt_fail_errno(err, "%s", path);
    mt_arena_release(&arena);
    return st;
}

/* "40,"text"": the text without its quotes; false if it is none. */
static bool read_line(char *line, struct mt_restart *restart) {
    char *end, *to, *from;
    restart->step = strtoll(line, &end, 10);
    if (end == line || end[0] != ',' || end[1] != '"') return false;
    restart->what = to = from = end + 2;
    for (; *from && (from[0] != '"' || from[1] == '"'); from++) {
        from += *from == '"';
        *to++ = *from;
    }
    bool whole = *from && !from[1];
    *to = 0;
    return whole;
}

enum mt_status mt_restarts_read(const char *folder, struct mt_arena *arena, struct mt_restart **list, int *count,
                                struct mt_err *err) {
    enum { MOST_BYTES = 1 << 24 };
    const char *path = mt_arena_printf(arena, "%s/" MT_RESTARTS_CSV, folder);
    char *text, *rest = NULL;
    size_t length;
    int number = 0, capacity = 0;
    *list = NULL, *count = 0;
    if (access(path, F_OK)) return MT_OK;
    enum mt_status st = mt_file_read(path, MOST_BYTES, &text, &length, err);
    if (st) return st;
    for (char *line = strtok_r(text, "\r\n", &rest); line && !st; line = strtok_r(NULL, "\r\n", &rest)) {
        struct mt_restart one;
        if (!number++) {
            if (strcmp(line, header) != 0) st = mt_fail(err, MT_EINPUT, "%s: its header is not \"%s\"", path, header);
            continue;
        }
        if (!read_line(line, &one)) {
            st = mt_fail(err, MT_EINPUT, "%s:%d: is not a step and a text in quotes", path, number);
            continue;
        }
        mt_arena_grow(arena, list, *count, &capacity, sizeof **list);
        (*list)[(*count)++] = (struct mt_restart){one.step, mt_arena_strdup(arena, one.what)};
    }
    free(text);
    return st;
}
