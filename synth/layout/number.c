/* Hash tables of pairs and of boxes. */
#include "synth/layout/number.h"

#include <stdlib.h>

#include "kernels/base/number/hash.h"

static int slots_for(int most) {
    int nslots = 16;
    while (nslots < 2 * most) nslots *= 2;
    return nslots;
}

void mt_numbering_init(struct mt_numbering *numbering, int most) {
    int nslots = slots_for(most);
    *numbering = (struct mt_numbering){.mask = nslots - 1};
    numbering->slots = mt_calloc((size_t)nslots, sizeof *numbering->slots);
    numbering->pairs = mt_malloc((size_t)(most + 1) * sizeof *numbering->pairs);
}

void mt_numbering_release(struct mt_numbering *numbering) {
    free(numbering->slots);
    free(numbering->pairs);
    *numbering = (struct mt_numbering){0};
}

int mt_numbering_pair(struct mt_numbering *n, int a, int b) {
    uint64_t hash = ((uint64_t)(uint32_t)a << 32 | (uint32_t)b) * 0x9e3779b97f4a7c15u;
    int at = (int)(hash >> 32) & n->mask;
    for (; n->slots[at]; at = (at + 1) & n->mask) {
        const int *pair = n->pairs[n->slots[at] - 1];
        if (pair[0] == a && pair[1] == b) return n->slots[at] - 1;
    }
    n->pairs[n->count][0] = a, n->pairs[n->count][1] = b;
    n->slots[at] = ++n->count;
    return n->count - 1;
}

static uint64_t box_hash(const struct mt_box *box, int naxes, int tag) {
    uint64_t hash = mt_hash64(box->lo, (size_t)naxes * sizeof *box->lo, (uint64_t)(uint32_t)tag);
    return mt_hash64(box->hi, (size_t)naxes * sizeof *box->hi, hash);
}

void mt_number_boxes(const struct mt_layout *layout, int nranks, const int *tag, int *id) {
    int nslots = slots_for(nranks), count = 0, last = -1;  /* last: the rank before, if it is numbered */
    int *slots = mt_calloc((size_t)nslots, sizeof *slots); /* a rank + 1, or 0 */
    for (int r = 0; r < nranks; r++) {
        const struct mt_box *box = &layout->box[r];
        int mine = tag ? tag[r] : 0;
        id[r] = -1;
        if (!mt_box_count(box, layout->naxes)) continue;
        if (last >= 0 && (tag ? tag[last] : 0) == mine && mt_box_equal(&layout->box[last], box, layout->naxes)) {
            id[r] = id[last];
            continue;
        }
        uint64_t at = box_hash(box, layout->naxes, mine) & (uint64_t)(nslots - 1);
        for (; slots[at] && id[r] < 0; at = (at + 1) & (uint64_t)(nslots - 1)) {
            int other = slots[at] - 1;
            if ((tag ? tag[other] : 0) == mine && mt_box_equal(&layout->box[other], box, layout->naxes))
                id[r] = id[other];
        }
        if (id[r] < 0) slots[at] = r + 1, id[r] = count++;
        last = r;
    }
    free(slots);
}
