/* The planning line by a clock of the test's own: nothing in the first second, nor where there is no terminal; then
 * lines at most every fifth of a second, and none is left behind. */
#include "launcher/plan/planning_line.h"

#include <stdlib.h>

#include "tests/check.h"

static void play(bool terminal, char **text) {
    size_t size;
    FILE *file = open_memstream(text, &size);
    struct mt_planning_line line;
    const struct mt_search_watch *watch = mt_planning_line_begin(&line, file, terminal, 100);
    CHECK(watch == &line.watch, "another watch");
    static const double at[] = {100.5, 101.5, 101.6, 102}, step_s[] = {0, 0.25, 0.5, 0.125};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) mt_planning_line_step(&line, step_s[i], at[i]);
    mt_planning_line_end(&line);
    fclose(file);
}

int main(void) {
    char *text;
    play(true, &text);
    CHECK_TEXT(text, "\r\033[Kplanning for 2 s: 2 plans predicted, the shortest step is 250 ms"
                     "\r\033[Kplanning for 2 s: 4 plans predicted, the shortest step is 125 ms\r\033[K");
    free(text);
    play(false, &text);
    CHECK_TEXT(text, "");
    free(text);
    return 0;
}
