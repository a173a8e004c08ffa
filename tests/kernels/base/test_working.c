/* The line of progress by a clock of the test's own: nothing in the first second, nor where nobody watches; then at
 * most every fifth of a second, with the time that is left in proportion; and no line is left behind. */
#include "kernels/base/working.h"

#include "tests/check.h"

static double clock_s;

static double now(void) {
    return clock_s;
}

static char *text;
static FILE *begin(bool watched) {
    static size_t length;
    FILE *file = open_memstream(&text, &length);
    mt_working_use(file, watched, now);
    clock_s = 100;
    return file;
}

static void end(FILE *file, const char *want) {
    fclose(file);
    mt_working_use(NULL, false, NULL);
    CHECK_TEXT(text, want);
    free(text);
}

static void step(double at_s, double done, double whole, const char *what) {
    clock_s = at_s;
    mt_working(done, whole, "%s", what);
}

static void work(bool watched, const char *want) {
    FILE *file = begin(watched);
    mt_working_begin("working");
    step(100.5, 1, 100, "a");
    step(102, 10, 100, "b");   /* 2 s for a tenth: 18 s left */
    step(102.1, 11, 100, "c"); /* too soon */
    step(150, 50, 100, "");
    mt_working_clear();
    step(151, 0, 0, "d"); /* unknown */
    mt_working_end();
    step(200, 99, 100, "after the end");
    end(file, want);
}

/* Parts do not change the whole; what they tell stands behind. */
static void test_parts(void) {
    FILE *file = begin(true);
    mt_working_begin("all");
    step(101, 1, 4, "first");
    mt_working_begin("a part");
    step(102, 9, 10, "inner");
    mt_working_end();
    step(110, 2, 4, "second");
    mt_working_end();
    end(file, "\r\033[Kall: 25%, 3 s left; first\r\033[Kall: 25%, 6 s left; first; inner"
              "\r\033[Kall: 50%, 10 s left; second\r\033[K");
}

/* A line that stays is ended by what comes after it, once; and is one line. */
static void test_staying(void) {
    FILE *file = begin(true);
    mt_working_line("step 1");
    mt_working_line("step\n2");
    mt_working_clear();
    mt_working_clear();
    mt_working_line("step 3");
    mt_working_clear();
    end(file, "\r\033[Kstep 1\r\033[Kstep?2\n\r\033[Kstep 3\n");
}

static void test_long(void) {
    FILE *file = begin(true);
    mt_working_begin("long");
    step(200, 1, 11, "");
    step(1100, 1, 11, "");
    mt_working_end();
    end(file, "\r\033[Klong: 9%, 17 min left\r\033[Klong: 9%, 2.8 h left\r\033[K");
}

int main(void) {
    work(true, "\r\033[Kworking: 10%, 18 s left; b\r\033[Kworking: 50%, 50 s left\r\033[K"
               "\r\033[Kworking for 51 s; d\r\033[K");
    work(false, "");
    test_parts();
    test_staying();
    test_long();
    return 0;
}
