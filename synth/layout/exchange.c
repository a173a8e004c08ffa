/* Transfers of the simple ALL_TO_ALL, pair by pair, without a list of them. */
#include "synth/layout/exchange.h"

#include <stdlib.h>

#include "synth/layout/number.h"

/* Whether boxes of different numbers are disjoint: together they have as many elements as the value. */
static bool is_disjoint(const struct mt_layout *l, int n, const int *box) {
    int64_t held = 0, all = 1;
    for (int a = 0; a < l->naxes; a++) all *= l->extent[a];
    for (int r = 0, seen = 0; r < n; r++)
        if (box[r] == seen) held += mt_box_count(&l->box[r], l->naxes), seen++;
    return held == all;
}

bool mt_exchange_open(const struct mt_layouts *table, int from, int to, const int *group, struct mt_exchange *x) {
    int n = table->nranks;
    *x = (struct mt_exchange){.from = &table->items[from], .to = &table->items[to], .group = group};
    if (mt_layout_is_partial(x->from) || mt_layout_is_partial(x->to)) return false;
    x->box = mt_malloc((size_t)n * sizeof *x->box);
    mt_number_boxes(x->from, n, NULL, x->box);
    if (!is_disjoint(x->from, n, x->box)) return mt_exchange_close(x), false;
    int *among = mt_malloc((size_t)n * sizeof *among);
    x->first = mt_calloc((size_t)n, sizeof *x->first);
    mt_number_boxes(x->from, n, group, among);
    for (int r = 0, seen = 0; r < n; r++) /* numbers are in the order of first ranks */
        if (among[r] == seen) x->first[r] = true, seen++;
    free(among);
    return true;
}

void mt_exchange_close(struct mt_exchange *x) {
    free(x->box);
    free(x->first);
    *x = (struct mt_exchange){.from = NULL};
}
