/* Numbers for equal things: each distinct pair of integers, or box of a layout, gets a number from 0 in the order in
 * which it is seen first. Open addressing, O(1) a question.
 *
 *     struct mt_numbering numbering;
 *     mt_numbering_init(&numbering, n);
 *     int id = mt_numbering_pair(&numbering, a, b);
 *     mt_numbering_release(&numbering); */
#ifndef MT_SYNTH_LAYOUT_NUMBER_H
#define MT_SYNTH_LAYOUT_NUMBER_H

#include "synth/layout/layout.h"

struct mt_numbering {
    int count;
    int mask, *slots; /* slots[i]: a number + 1, or 0 */
    int (*pairs)[2];  /* [most] */
};

/* For at most `most` distinct pairs. */
void mt_numbering_init(struct mt_numbering *numbering, int most);
int mt_numbering_pair(struct mt_numbering *numbering, int a, int b);
void mt_numbering_release(struct mt_numbering *numbering);

/* id[nranks]: ranks with equal boxes and equal tags have equal numbers; -1 for an empty box. `tag` may be null. */
void mt_number_boxes(const struct mt_layout *layout, int nranks, const int *tag, int *id);

#endif
