/* Colours by escape sequences of ECMA-48, which all terminals know. */
#include "kernels/base/color.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

const char *const mt_color_names[] = {
    [MT_COLOR_AUTO] = "auto", [MT_COLOR_ALWAYS] = "always", [MT_COLOR_NEVER] = "never", NULL};

static enum mt_color chosen;

static const char *const sequences[] = {[MT_STYLE_PLAIN] = "",
                                        [MT_STYLE_HEADING] = "\033[1m",
                                        [MT_STYLE_WARNING] = "\033[33m",
                                        [MT_STYLE_ERROR] = "\033[31m",
                                        [MT_STYLE_BETTER] = "\033[32m"};

void mt_color_choose(enum mt_color color) {
    chosen = color;
}

bool mt_is_terminal(FILE *file) {
    const char *term = getenv("TERM");
    int fd = fileno(file); /* of a file in memory: -1 */
    if (fd < 0 || !isatty(fd) || !term || !strcmp(term, "dumb")) return false;
    return !getenv("OMPI_COMM_WORLD_SIZE") && !getenv("PMIX_RANK");
}

int mt_terminal_columns(FILE *file) {
    struct winsize size;
    int fd = fileno(file);
    return fd >= 0 && !ioctl(fd, TIOCGWINSZ, &size) ? size.ws_col : 0;
}

bool mt_color_is_on(FILE *file) {
    const char *none = getenv("NO_COLOR");
    if (chosen != MT_COLOR_AUTO) return chosen == MT_COLOR_ALWAYS;
    return (!none || !*none) && mt_is_terminal(file);
}

const char *mt_color_begin(FILE *file, enum mt_style style) {
    return style != MT_STYLE_PLAIN && mt_color_is_on(file) ? sequences[style] : "";
}

const char *mt_color_end(FILE *file, enum mt_style style) {
    return style != MT_STYLE_PLAIN && mt_color_is_on(file) ? "\033[0m" : "";
}
