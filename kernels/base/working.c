/* The line of progress. */
#include "kernels/base/working.h"

#include <pthread.h>
#include <stdarg.h>
#include <string.h>

#include "kernels/base/color.h"
#include "kernels/base/wait.h"

enum { TEXT = 160, LINE = 3 * TEXT };
static const double quiet_s = 1, pause_s = 0.2; /* at first; between two lines */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    int depth; /* of work within work */
    const char *what;
    double begin_s, shown_s; /* shown_s: 0 before the first line */
    double done, whole;      /* of the outermost */
    bool visible, watched;
    bool stays; /* the line of mt_working_line */
    char detail[TEXT], inner[TEXT];
} state;
static struct {
    FILE *file;
    bool watched;
    double (*now_s)(void);
} given;

static FILE *out(void) {
    return given.file ? given.file : stderr;
}

static double now(void) {
    return given.now_s ? given.now_s() : mt_now_s();
}

static void erase(void) {
    if (state.visible) fputs(state.stays ? "\n" : "\r\033[K", out());
    if (state.visible) fflush(out());
    state.visible = state.stays = false;
}

static void rewrite(const char *text, bool stays) {
    int columns = mt_terminal_columns(out()), width = 0;
    fputs("\r\033[K", out());
    for (const char *c = text; *c; c++) {
        bool begins = (*c & 0xc0) != 0x80; /* a character of UTF-8 */
        if (begins && columns && ++width == columns) break;
        fputc((unsigned char)*c < 0x20 ? '?' : *c, out());
    }
    fflush(out());
    state.visible = true;
    state.stays = stays;
}

/* "12 s", "3 min", "2.5 h" */
static void time_text(double seconds, char text[32]) {
    if (seconds < 99.5)
        snprintf(text, 32, "%.0f s", seconds);
    else if (seconds < 5970)
        snprintf(text, 32, "%.0f min", seconds / 60);
    else
        snprintf(text, 32, "%.1f h", seconds / 3600);
}

static bool is_due(double at_s) {
    return at_s - state.begin_s >= quiet_s && (!state.shown_s || at_s - state.shown_s >= pause_s);
}

static void draw(double at_s) {
    char left[32], far[64], line[LINE];
    double spent_s = at_s - state.begin_s;
    if (state.whole > 0 && state.done > 0) {
        time_text(spent_s / state.done * (state.whole - state.done), left);
        snprintf(far, sizeof far, ": %.0f%%, %s left", 100 * state.done / state.whole, left);
    } else {
        time_text(spent_s, left);
        snprintf(far, sizeof far, " for %s", left);
    }
    snprintf(line, sizeof line, "%.60s%s%s%s%s%s", state.what, far, *state.detail ? "; " : "", state.detail,
             *state.inner ? "; " : "", state.inner);
    rewrite(line, false);
    state.shown_s = at_s;
}

void mt_working_begin(const char *what) {
    pthread_mutex_lock(&lock);
    if (!state.depth++) {
        state.what = what;
        state.begin_s = now();
        state.watched = given.file ? given.watched : mt_is_terminal(stderr);
        state.shown_s = state.done = state.whole = 0;
        *state.detail = 0;
    }
    *state.inner = 0;
    pthread_mutex_unlock(&lock);
}

void mt_working(double done, double whole, const char *format, ...) {
    pthread_mutex_lock(&lock);
    if (state.depth && state.watched) {
        double at_s = now();
        bool outermost = state.depth == 1, due = is_due(at_s);
        va_list args;
        va_start(args, format);
        if (outermost || due) vsnprintf(outermost ? state.detail : state.inner, TEXT, format, args);
        va_end(args);
        if (outermost) state.done = done, state.whole = whole, *state.inner = 0;
        if (due) draw(at_s);
    }
    pthread_mutex_unlock(&lock);
}

void mt_working_end(void) {
    pthread_mutex_lock(&lock);
    if (state.depth && !--state.depth) erase();
    *state.inner = 0;
    pthread_mutex_unlock(&lock);
}

void mt_working_clear(void) {
    pthread_mutex_lock(&lock);
    erase();
    pthread_mutex_unlock(&lock);
}

void mt_working_line(const char *text) {
    pthread_mutex_lock(&lock);
    rewrite(text, true);
    pthread_mutex_unlock(&lock);
}

void mt_working_use(FILE *file, bool watched, double (*now_s)(void)) {
    given.file = file;
    given.watched = watched;
    given.now_s = now_s;
}
