/* The simple ALL_TO_ALL: the new layout is complete, and old boxes of different ranks are disjoint, or equal and of one
 * cover. Then each pair of ranks has at most one transfer, which is known by itself; the list of all
 * (mt_layout_transfers) has as many entries as there are pairs.
 *
 *     struct mt_exchange x;
 *     if (mt_exchange_open(&table, from, to, group, &x)) {
 *         if (mt_exchange_box(&x, sender, receiver, &box)) ...
 *         mt_exchange_close(&x);
 *     }
 *
 * Opening takes O(nranks). */
#ifndef MT_SYNTH_LAYOUT_CONVERT_EXCHANGE_H
#define MT_SYNTH_LAYOUT_CONVERT_EXCHANGE_H

#include "synth/layout/layout.h"

struct mt_exchange {
    const struct mt_layout *from, *to;
    const int *group; /* [nranks]: ranks of other groups exchange nothing; null: all are one group */
    int *box;         /* [nranks]: number of the old box and part; -1: empty */
    bool *first;      /* [nranks]: no earlier rank of the group has the same */
};

/* False: not simple; there is nothing to close. The table must not grow meanwhile. */
bool mt_exchange_open(const struct mt_layouts *table, int from, int to, const int *group, struct mt_exchange *exchange);
void mt_exchange_close(struct mt_exchange *exchange);

/* The box that a rank gets from another, or from itself, by the rule of ALL_TO_ALL; false: none. Boxes that one
 * receiver gets of one part are disjoint; those of the other parts of the cover are equal to them. */
static inline bool mt_exchange_box(const struct mt_exchange *x, int sender, int receiver, struct mt_box *box) {
    if (x->box[sender] < 0) return false;
    if (sender != receiver && (!x->first[sender] || x->box[sender] == x->box[receiver] ||
                               (x->group && x->group[sender] != x->group[receiver])))
        return false;
    return mt_box_intersect(&x->from->box[sender], &x->to->box[receiver], x->from->naxes, box);
}

#endif
