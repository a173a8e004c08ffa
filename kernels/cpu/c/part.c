/* separate and join: a value and its parts along an axis, copied in runs of the axis and all that come after it. */
#include "kernels/cpu/c/internal.h"

/* Copy between whole[rows, ...] and the parts, of which row r of `whole` holds one run each. */
static void copy_parts(const struct mt_tensor *whole, const struct mt_tensor *part, int nparts, int axis, bool out) {
    int64_t size = mt_type_size(whole->type), rows = mt_tensor_extent(whole, 0, axis);
    int64_t row = mt_tensor_extent(whole, axis, whole->naxes - axis) * size, at = 0;
    for (int p = 0; p < nparts; p++) {
        int64_t run = rows ? mt_tensor_count(&part[p]) / rows * size : 0;
        char *from = (char *)whole->data + at, *to = part[p].data;
#pragma omp parallel for if (rows * run >= WORTH_A_TEAM)
        for (int64_t r = 0; r < rows; r++)
            if (run) memcpy(out ? to + r * run : from + r * row, out ? from + r * row : to + r * run, (size_t)run);
        at += run;
    }
}

static void separate(const struct mt_call *call) {
    copy_parts(&call->in[0], call->out, call->nout, call->attr->axis, true);
}
static void join(const struct mt_call *call) {
    copy_parts(&call->out[0], call->in, call->nin, call->attr->axis, false);
}

const struct mt_c_op mt_c_separate = {.run = {separate, separate, separate, separate}};
const struct mt_c_op mt_c_join = {.run = {join, join, join, join}};
