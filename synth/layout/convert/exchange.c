/* Transfers of the simple ALL_TO_ALL, pair by pair. */
#include "synth/layout/convert/exchange.h"

#include <stdlib.h>

#include "synth/layout/number.h"

/* Whether old boxes of different ranks are equal or disjoint (then together, each counted once, they have as many
 * elements as the value), and equal ones of one cover. */
static bool is_simple(const struct mt_layout *l, int n) {
    int *box = mt_malloc((size_t)n * sizeof *box), *cover = mt_malloc((size_t)n * sizeof *cover), seen = 0;
    int64_t held = 0, all = 1;
    bool simple = true;
    for (int a = 0; a < l->naxes; a++) all *= l->extent[a];
    mt_number_boxes(l, n, NULL, box); /* numbers are in the order of first ranks */
    for (int r = 0; r < n && simple; r++) {
        if (box[r] < 0) continue;
        int mine = l->cover[l->part[r]];
        if (box[r] == seen) held += mt_box_count(&l->box[r], l->naxes), cover[seen++] = mine;
        simple = cover[box[r]] == mine;
    }
    free(box), free(cover);
    return simple && held == all;
}

bool mt_exchange_open(const struct mt_layouts *table, int from, int to, const int *group, struct mt_exchange *x) {
    int n = table->nranks;
    *x = (struct mt_exchange){.from = &table->items[from], .to = &table->items[to], .group = group};
    if (mt_layout_is_partial(x->to) || !is_simple(x->from, n)) return false;
    int *tag = mt_malloc((size_t)n * sizeof *tag), *among = mt_malloc((size_t)n * sizeof *among);
    struct mt_numbering tags; /* (part, group) */
    mt_numbering_init(&tags, n);
    for (int r = 0; r < n; r++) tag[r] = mt_numbering_pair(&tags, x->from->part[r], group ? group[r] : 0);
    mt_numbering_release(&tags);
    x->box = mt_malloc((size_t)n * sizeof *x->box);
    x->first = mt_calloc((size_t)n, sizeof *x->first);
    mt_number_boxes(x->from, n, x->from->part, x->box);
    mt_number_boxes(x->from, n, tag, among);
    for (int r = 0, seen = 0; r < n; r++)
        if (among[r] == seen) x->first[r] = true, seen++;
    free(tag), free(among);
    return true;
}

void mt_exchange_close(struct mt_exchange *x) {
    free(x->box);
    free(x->first);
    *x = (struct mt_exchange){.from = NULL};
}
