/* Inside the checker of overlapped instructions (overlap.h). */
#ifndef MT_SYNTH_CHECK_OVERLAP_INTERNAL_H
#define MT_SYNTH_CHECK_OVERLAP_INTERNAL_H

#include "synth/check/overlap/overlap.h"

struct mt_overlap_box { /* of a buffer */
    enum mt_overlap_buffer buffer;
    int64_t row, rows, col, cols;
};

/* A write of an epoch into a rank's buffer: by one of its tiles, or by someone's put. */
struct mt_overlap_write {
    struct mt_overlap_box box;
    int by, tile, put; /* the rank; its tile or put, the other is -1 */
    int seen;          /* cover.c: the last read that counted it */
};

/* What raises a flag. */
struct mt_overlap_raised {
    int by; /* the rank; -1: none yet */
    int count;
    int first; /* of the checker's raisers: puts of `by` */
};

struct mt_overlap_rank {
    const struct mt_overlap_schedule *schedule;
    struct mt_overlap_write *writes;
    int nwrites, capacity;
    int *tile_write;                 /* [ntiles]: the tile's own */
    int *put_write;                  /* [nputs]: among the peer's writes; -1: a flag alone */
    struct mt_overlap_raised *flags; /* [nflags] */
};

struct mt_overlap_checker {
    const struct mt_overlap *problem;
    const char *what;
    struct mt_err *err;
    struct mt_arena arena;
    struct mt_overlap_rank *ranks; /* [n] */
    int nflags, nreads;
    int *raisers;
};

enum mt_status mt_overlap_refuse(const struct mt_overlap_checker *c, int rank, int tile, int put, const char *format,
                                 ...) __attribute__((format(printf, 5, 6)));

static inline struct mt_overlap_box mt_overlap_tile_box(const struct mt_overlap_tile *t) {
    return (struct mt_overlap_box){t->to, t->row, t->rows, t->col, t->cols};
}

enum mt_status mt_overlap_check_meaning(struct mt_overlap_checker *c);
enum mt_status mt_overlap_check_cover(struct mt_overlap_checker *c);
enum mt_status mt_overlap_check_flags(struct mt_overlap_checker *c);
enum mt_status mt_overlap_check_order(struct mt_overlap_checker *c);

#endif
