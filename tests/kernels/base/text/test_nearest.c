/* The nearest name, against a distance that is written out by its definition; what is listed, and what is not near. */
#include <stdbool.h>

#include "kernels/base/number/rng.h"
#include "kernels/base/text/nearest.h"
#include "tests/check.h"

/* The least number of changes that make `a` of `b`, tried one after the other. */
static int distance(const char *a, const char *b) {
    if (!*a || !*b) return (int)(strlen(a) + strlen(b));
    int best = distance(a + 1, b + 1) + (*a != *b), other = 1 + distance(a + 1, b);
    best = other < best ? other : best;
    other = 1 + distance(a, b + 1);
    best = other < best ? other : best;
    if (a[1] && b[1] && a[0] == b[1] && a[1] == b[0]) {
        other = 1 + distance(a + 2, b + 2);
        best = other < best ? other : best;
    }
    return best;
}

static void check_random(void) {
    for (uint64_t trial = 0; trial < 3000; trial++) {
        char word[8], name[8];
        for (int w = 0; w < 2; w++) {
            char *text = w ? word : name;
            int n = 1 + (int)(7 * mt_random_uniform(7, trial, (uint64_t)w));
            for (int i = 0; i < n; i++)
                text[i] = (char)('a' + (int)(3 * mt_random_uniform(7, trial, (uint64_t)(2 + 8 * w + i))));
            text[n < 7 ? n : 7] = 0;
        }
        struct mt_nearest near = mt_nearest_to(word);
        mt_nearest_add(&near, name);
        size_t longer = strlen(word) > strlen(name) ? strlen(word) : strlen(name);
        int want = distance(word, name);
        bool begins = strlen(word) >= 3 && !strncmp(word, name, strlen(word));
        if (want && !begins && longer > 2) CHECK_EQ(near.best[0] != 0, 3 * want <= (int)longer);
        if (near.best[0] && !begins) CHECK_EQ(near.cost / 4, want);
    }
}

static const char *nearest(const char *word) {
    static const char *const names[] = {"gpt2", "llama", "llama3-8b", "mlp", "h100", "h200", "--batch"};
    static struct mt_nearest near;
    near = mt_nearest_to(word);
    CHECK_EQ(mt_nearest_find(&near, names, 7), -1);
    return near.best;
}

int main(void) {
    CHECK_TEXT(nearest("gtp2"), "gpt2");
    CHECK_TEXT(nearest("H100"), "h100");
    CHECK_TEXT(nearest("h10"), "h100");
    CHECK_TEXT(nearest("h300"), "h100"); /* of equals the first */
    CHECK_TEXT(nearest("k100"), "h100");
    CHECK_TEXT(nearest("ml"), "mlp");
    CHECK_TEXT(nearest("llam"), "llama");
    CHECK_TEXT(nearest("llama3"), "llama"); /* one letter is nearer than a beginning is, or as near, and first */
    CHECK_TEXT(nearest("llama3-"), "llama3-8b");
    CHECK_TEXT(nearest("--bacth"), "--batch");
    CHECK_TEXT(nearest("bert"), "");
    CHECK_TEXT(nearest("x"), "");
    CHECK_TEXT(nearest(""), "");
    char word[200];
    memset(word, 'a', sizeof word);
    word[sizeof word - 1] = 0;
    CHECK_TEXT(nearest(word), "");
    check_random();

    struct mt_err err = MT_ERR_INIT;
    struct mt_nearest near = mt_nearest_to_part("mpl:layers=2", 3);
    static const char *const names[] = {"gpt2", "mlp"};
    CHECK_EQ(mt_nearest_find(&near, names, 2), -1);
    mt_fail(&err, MT_EINPUT, "no");
    CHECK_EQ(mt_nearest_hint(&near, &err, "models are: %s", near.list), MT_EINPUT);
    CHECK_TEXT(err.hint, "did you mean mlp? models are: gpt2, mlp");
    near = mt_nearest_to("mlp");
    CHECK_EQ(mt_nearest_find(&near, names, 2), 1);
    near = mt_nearest_to("bert");
    mt_nearest_find(&near, names, 2);
    mt_nearest_hint(&near, &err, "models are: %s", near.list);
    CHECK_TEXT(err.hint, "models are: gpt2, mlp");
    for (int i = 0; i < 200; i++) mt_nearest_add(&near, "longer");
    CHECK(strlen(near.list) < sizeof near.list && strstr(near.list, ", longer, ..."), "%s", near.list);
    return 0;
}
