#include "launcher/profile/size_walk.h"

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

void mt_size_walk_begin(struct mt_size_walk *walk, bool gpu, int64_t batch, int nranks) {
    enum { SMALL = 8 };
    int64_t half_share = batch / nranks / 2;
    *walk = (struct mt_size_walk){
        .size = gpu && half_share > 1 ? smaller(half_share, SMALL) : 1, .gpu = gpu, .limit = batch};
}

bool mt_size_walk_next(struct mt_size_walk *walk, bool fitted, int64_t most) {
    int64_t size = walk->size;
    if (!fitted) {
        walk->limit = size - 1;
        walk->size = walk->last ? size / 2 : smaller(1, walk->limit);
    } else {
        walk->last = size;
        most = smaller(most, walk->limit);
        walk->size = !walk->gpu && size < most / 2 && 2 * size < most ? 2 * size : most;
    }
    return walk->size > walk->last;
}
