/* Lists of ranks: ranges of ranks that follow one another, in the order of the list, cut after some. */
#include "kernels/base/text/ranks.h"

#include "tests/check.h"

int main(void) {
    struct mt_arena arena = MT_ARENA_INIT;
    static const int list[] = {4, 0, 1, 2, 3, 8, 7};
    CHECK_TEXT(mt_ranks_text(list, 7, 8, &arena), "4 0-3 8 7");
    CHECK_TEXT(mt_ranks_text(list, 7, 4, &arena), "4 0-3 8 7");
    CHECK_TEXT(mt_ranks_text(list, 7, 3, &arena), "4 0-3 8 ... (7 ranks)");
    CHECK_TEXT(mt_ranks_text(list + 1, 4, 1, &arena), "0-3");
    CHECK_TEXT(mt_ranks_text(list, 1, 1, &arena), "4");
    CHECK_TEXT(mt_ranks_text(list, 0, 1, &arena), "");
    mt_arena_release(&arena);
    return 0;
}
