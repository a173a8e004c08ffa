/* One write per line, so that lines of several ranks do not mix. */
#include "kernels/base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/color.h"
#include "kernels/base/working.h"

static enum mt_log_level shown = MT_LOG_INFO;
static int my_rank;
static bool i_lead = true;

void mt_log_level(enum mt_log_level most) {
    shown = most;
}

void mt_log_rank(int rank, bool leads) {
    my_rank = rank;
    i_lead = leads;
}

void mt_log(enum mt_log_level level, const char *format, ...) {
    if (level > shown || (!i_lead && level != MT_LOG_WARN)) return;
    char line[1200];
    enum mt_style style = level == MT_LOG_WARN ? MT_STYLE_WARNING : MT_STYLE_PLAIN;
    const char *begin = mt_color_begin(stderr, style), *end = mt_color_end(stderr, style);
    int n = i_lead ? snprintf(line, sizeof line, "%smotley:%s ", begin, end)
                   : snprintf(line, sizeof line, "%smotley: rank %d:%s ", begin, my_rank, end);
    va_list args;
    va_start(args, format);
    vsnprintf(line + n, sizeof line - (size_t)n - 1, format, args);
    va_end(args);
    strcat(line, "\n");
    mt_working_clear();
    if (write(STDERR_FILENO, line, strlen(line)) < 0) return;
}
