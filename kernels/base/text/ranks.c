/* Lists of ranks as text. */
#include "kernels/base/text/ranks.h"

const char *mt_ranks_text(const int *ranks, int n, int most, struct mt_arena *arena) {
    const char *text = "";
    for (int i = 0, last, nranges = 0; i < n; i = last + 1) {
        const char *space = i ? " " : "";
        last = i;
        if (nranges++ == most) return mt_arena_printf(arena, "%s ... (%d ranks)", text, n);
        while (last + 1 < n && ranks[last + 1] == ranks[last] + 1) last++;
        text = last > i ? mt_arena_printf(arena, "%s%s%d-%d", text, space, ranks[i], ranks[last])
                        : mt_arena_printf(arena, "%s%s%d", text, space, ranks[i]);
    }
    return text;
}
