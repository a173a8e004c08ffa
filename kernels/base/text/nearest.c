/* The nearest of a table's names. */
#include "kernels/base/text/nearest.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

struct mt_nearest mt_nearest_to_part(const char *word, size_t length) {
    struct mt_nearest near = {0};
    if (length < MT_NEAREST_LETTERS) memcpy(near.word, word, length);
    return near;
}

struct mt_nearest mt_nearest_to(const char *word) {
    return mt_nearest_to_part(word, strlen(word));
}

static int least(int a, int b) {
    return a < b ? a : b;
}

/* Both are shorter than MT_NEAREST_LETTERS. */
static int distance_of(const char *a, const char *b) {
    int before[MT_NEAREST_LETTERS], last[MT_NEAREST_LETTERS], row[MT_NEAREST_LETTERS];
    int n = (int)strlen(b);
    for (int j = 0; j <= n; j++) last[j] = j;
    for (int i = 1; a[i - 1]; i++) {
        row[0] = i;
        for (int j = 1; j <= n; j++) {
            int x = tolower((unsigned char)a[i - 1]), y = tolower((unsigned char)b[j - 1]);
            row[j] = least(last[j - 1] + (x != y), 1 + least(last[j], row[j - 1]));
            if (i > 1 && j > 1 && x == tolower((unsigned char)b[j - 2]) && y == tolower((unsigned char)a[i - 2]))
                row[j] = least(row[j], before[j - 2] + 1);
        }
        memcpy(before, last, sizeof before);
        memcpy(last, row, sizeof last);
    }
    return last[n];
}

static void list_name(struct mt_nearest *near, const char *name) {
    size_t used = strlen(near->list), room = sizeof near->list - used;
    if (used > 3 && !strcmp(near->list + used - 3, "...")) return;
    const char *comma = used ? ", " : "";
    bool fits = strlen(comma) + strlen(name) + sizeof ", ..." <= room;
    snprintf(near->list + used, room, "%s%s", comma, fits ? name : "...");
}

void mt_nearest_add(struct mt_nearest *near, const char *name) {
    size_t typed = strlen(near->word), letters = strlen(name);
    list_name(near, name);
    if (!typed || !letters || letters >= MT_NEAREST_LETTERS) return;
    int distance = distance_of(near->word, name);
    bool begins = typed >= 3 && letters > typed && distance > 1 && !strncasecmp(near->word, name, typed);
    if (begins) distance = 1;
    if (3 * (size_t)distance > (typed > letters ? typed : letters) + (letters == 2)) return;
    /* Of equal ones first what is no beginning, then what has the same first letter. */
    int cost = 4 * distance + 2 * begins + (tolower((unsigned char)near->word[0]) != tolower((unsigned char)name[0]));
    if (near->best[0] && cost >= near->cost) return;
    near->cost = cost;
    strcpy(near->best, name);
}

int mt_nearest_find(struct mt_nearest *near, const char *const *names, int count) {
    for (int i = 0; i < count; i++)
        if (!strcmp(near->word, names[i])) return i;
    for (int i = 0; i < count; i++) mt_nearest_add(near, names[i]);
    return -1;
}

enum mt_status mt_nearest_hint(const struct mt_nearest *near, struct mt_err *err, const char *format, ...) {
    char text[sizeof err->hint];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (!near->best[0]) return mt_err_hint(err, "%s", text);
    return mt_err_hint(err, "did you mean %s?%s%s", near->best, *text ? " " : "", text);
}
