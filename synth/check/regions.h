/* Regions: where the set of boxes that hold an element is constant. For all parts of the checker. */
#ifndef MT_SYNTH_CHECK_REGIONS_H
#define MT_SYNTH_CHECK_REGIONS_H

#include "synth/layout/layout.h"

struct mt_tagged_box {
    const struct mt_box *box;
    int id;
};

/* `there[count]`: the boxes that contain the region, in the order in which they were given. */
typedef enum mt_status mt_visit_region(void *context, const struct mt_box *region, const struct mt_tagged_box *there,
                                       int count);

/* Visit every region that some box contains, until a visit fails; its status. */
enum mt_status mt_check_regions(int naxes, const struct mt_tagged_box *boxes, int count, mt_visit_region *visit,
                                void *context);

#endif
