/* The sizes that jobs are measured at, in rooms of memory: enough to tell of the largest that fits. */
#include "launcher/profile/size_walk.h"

#include "tests/check.h"

enum { MOST = 12 };

static void test_walks(void) {
    static const struct {
        bool gpu;
        int64_t batch, room, most;
        int nranks;
        int64_t sizes[MOST]; /* then 0 */
    } cases[] = {
        {false, 16, 99, 14, 2, {1, 2, 4, 8, 14}},
        {false, 16, 5, 14, 2, {1, 2, 4, 8}},
        {false, 1, 99, 1, 1, {1}},
        {false, 4, 0, 4, 1, {1}},
        {true, 56, 99, 40, 2, {8, 40}},
        {true, 12, 99, 8, 2, {3, 8}},
        {true, 3, 99, 3, 2, {1, 3}},
        {true, 16, 99, 8, 1, {8}},
        {true, 512, 100, 320, 2, {8, 320, 160, 80, 159}}, /* the largest of them far too large */
        {true, 512, 5, 320, 2, {8, 1, 7, 3, 6}},          /* not even the first fits */
        {true, 512, 0, 320, 2, {8, 1}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct mt_size_walk walk;
        int n = 0;
        mt_size_walk_begin(&walk, cases[c].gpu, cases[c].batch, cases[c].nranks);
        do CHECK(n < MOST && walk.size == cases[c].sizes[n], "case %zu, %d: %lld", c, n, (long long)walk.size);
        while (++n && mt_size_walk_next(&walk, walk.size <= cases[c].room, cases[c].most));
        CHECK(n == MOST || !cases[c].sizes[n], "case %zu: %d sizes", c, n);
    }
}

int main(void) {
    test_walks();
    return 0;
}
