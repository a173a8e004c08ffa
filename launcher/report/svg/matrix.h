/* A matrix of quantities from one to another: darker is more, in steps of equal ratio. */
#ifndef MT_LAUNCHER_REPORT_SVG_MATRIX_H
#define MT_LAUNCHER_REPORT_SVG_MATRIX_H

#include "kernels/base/table/unit.h"
#include "launcher/report/svg/svg.h"

struct mt_matrix {
    int n;
    const char *const *names; /* columns have the first word only: "12 node3" */
    const double *values;     /* [n n]: from row to column; NaN: nothing there */
    enum mt_unit unit;
    const char *from, *to; /* "from", "to" */
};
void mt_matrix_draw(const void *matrix, struct mt_svg *svg);

/* The step of a value between the least and the most, [0, MT_SVG_STEPS). */
int mt_matrix_step(double value, double least, double most);

#endif
