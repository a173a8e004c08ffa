/* Patterns by number against fnmatch, one after another. */
#include "planner/plan/patterns.h"

#include <fnmatch.h>
#include <string.h>

#include "kernels/base/number/rng.h"
#include "tests/check.h"

enum { SEED = 20261123, PATTERNS = 30, NAMES = 40 };

static uint64_t draws;
static int below(int bound) {
    return (int)mt_random_below(SEED, 3, draws++, (uint64_t)bound);
}

/* Of few letters, so that names and patterns are often equal or begin alike. */
static void random_text(char *text, const char *letters) {
    int n = 1 + below(4);
    for (int i = 0; i < n; i++) text[i] = letters[below((int)strlen(letters))];
    text[n] = 0;
}

int main(void) {
    static char text[PATTERNS][8];
    int matched = 0;
    for (int round = 0; round < 200; round++) {
        struct mt_arena arena = MT_ARENA_INIT;
        struct mt_patterns patterns;
        mt_patterns_open(&patterns, &arena, PATTERNS);
        for (int i = 0; i < PATTERNS; i++) {
            random_text(text[i], below(3) ? "ab." : "ab.*?");
            mt_patterns_add(&patterns, text[i]);
        }
        for (int k = 0; k < NAMES; k++) {
            char name[8];
            random_text(name, "ab.");
            for (int after = -1; after < PATTERNS; after++) {
                int want = after + 1;
                while (want < PATTERNS && fnmatch(text[want], name, 0)) want++;
                CHECK_EQ(mt_patterns_next(&patterns, name, after), want < PATTERNS ? want : -1);
                matched += want < PATTERNS;
            }
        }
        mt_arena_release(&arena);
    }
    CHECK(matched > 10000, "%d", matched);
    return 0;
}
