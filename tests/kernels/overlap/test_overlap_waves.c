/* Schedules in waves, of ragged shares: ranks that interleave at random, with two-sided messages that match in order,
 * finish; and what they compute by the boxes, in f64 from memory that was poisoned, is the product. */
#include <stdlib.h>

#include "kernels/overlap/wave.h"
#include "tests/kernels/overlap/even.h"
#include "tests/kernels/overlap/job.h"

static const uint64_t seed = 20261127;

struct rank {
    struct mt_overlap_waves waves;
    double *buffer[MT_OVERLAP_NBUFFERS];
    int64_t extent[MT_OVERLAP_NBUFFERS][2], from_k, k; /* of B's rows */
    int chunk, wave;
    bool posted; /* it is in `wave` */
    bool *done;  /* [transfers] */
};
struct world {
    const struct mt_overlap *problem;
    struct rank rank[JOB_RANKS];
    uint64_t stream, draw;
    int64_t sent; /* elements */
};

static double *at(const struct rank *r, enum mt_overlap_buffer buffer, int64_t row, int64_t col) {
    return &r->buffer[buffer][row * r->extent[buffer][1] + col];
}

/* ---- tiles ---- */

static double product(const struct world *w, const struct rank *r, int me, const double *a, int64_t col) {
    const struct mt_overlap *p = w->problem;
    bool gather = p->form == MT_OVERLAP_GATHER;
    int64_t from_col = gather ? job_start(p->shares, me) : 0;
    double sum = 0;
    for (int64_t k = 0; k < r->k; k++) sum += a[k] * job_element(p, 1, r->from_k + k, from_col + col);
    return sum;
}

static double sum_of_slots(const struct world *w, const struct rank *r, int me, int64_t row, int64_t col) {
    int64_t first, owned = mt_overlap_owned(w->problem, me, &first);
    double sum = 0;
    for (int s = 0; s < w->problem->n; s++)
        if (mt_overlap_contributes(w->problem, s)) sum += *at(r, MT_OVERLAP_SLOTS, s * owned + row, col);
    return sum;
}

static void compute(struct world *w, int me, const struct mt_overlap_tile *t) {
    struct rank *r = &w->rank[me];
    for (int64_t i = 0; i < t->rows; i++)
        for (int64_t j = t->col; j < t->col + t->cols; j++) {
            double *to = at(r, t->to, t->row + i, j);
            switch (t->kind) {
            case MT_TILE_MATMUL: *to = product(w, r, me, at(r, t->from, t->from_row + i, 0), j); break;
            case MT_TILE_ADD: *to = sum_of_slots(w, r, me, t->from_row + i, j); break;
            case MT_TILE_COPY: *to = *at(r, t->from, t->from_row + i, j); break;
            }
        }
}

/* ---- messages ---- */

static struct mt_overlap_transfer *first_of(struct rank *r, int peer, bool sends, bool **done) {
    const struct mt_overlap_waves *w = &r->waves;
    for (int t = r->wave ? w->end[r->wave - 1] : 0; r->posted && t < w->end[r->wave]; t++)
        if (!r->done[t] && w->transfers[t].peer == peer && w->transfers[t].sends == sends) {
            *done = &r->done[t];
            return &w->transfers[t];
        }
    return NULL;
}

static bool pass(struct world *w, int from, int to) {
    bool *sent, *received;
    struct rank *a = &w->rank[from], *b = &w->rank[to];
    const struct mt_overlap_transfer *s = first_of(a, to, true, &sent), *r = first_of(b, from, false, &received);
    if (!s || !r) return false;
    CHECK(!memcmp(&s->box, &r->box, sizeof s->box), "rank %d sends %d another box than it receives", from, to);
    for (int64_t i = 0; i < s->box.rows; i++)
        for (int64_t j = s->box.col; j < s->box.col + s->box.cols; j++)
            *at(b, s->box.to, s->box.to_row + i, j) = *at(a, s->box.from, s->box.from_row + i, j);
    w->sent += s->box.rows * s->box.cols;
    return *sent = *received = true;
}

/* ---- ranks ---- */

static void make(struct world *w, int me, int64_t most_rows) {
    const struct mt_overlap *p = w->problem;
    struct rank *r = &w->rank[me];
    bool gather = p->form == MT_OVERLAP_GATHER;
    mt_overlap_waves_make(p, me, most_rows, &r->waves);
    r->done = calloc((size_t)r->waves.ntransfers + 1, sizeof *r->done);
    r->from_k = gather ? 0 : job_start(p->shares, me);
    r->k = gather ? p->k : p->shares[me];
    for (enum mt_overlap_buffer b = 0; b < MT_OVERLAP_NBUFFERS; b++) {
        mt_overlap_extent(p, me, b, r->extent[b]);
        r->buffer[b] = job_poison(r->extent[b][0] * r->extent[b][1] * 8 + 8);
    }
    for (int64_t i = 0; i < r->extent[MT_OVERLAP_A][0]; i++)
        for (int64_t k = 0; k < r->extent[MT_OVERLAP_A][1]; k++)
            *at(r, MT_OVERLAP_A, i, k) = job_element(p, 0, (gather ? job_start(p->rows, me) : 0) + i, r->from_k + k);
}

static void free_rank(struct rank *r) {
    mt_overlap_waves_release(&r->waves);
    for (enum mt_overlap_buffer b = 0; b < MT_OVERLAP_NBUFFERS; b++) free(r->buffer[b]);
    free(r->done);
}

static int64_t draw(struct world *w, int below) {
    return (int64_t)mt_random_below(seed, w->stream, w->draw++, (uint64_t)below);
}

/* The next chunk, the next wave, or the end of one; at random what comes first. */
static bool step(struct world *w, int me) {
    struct rank *r = &w->rank[me];
    const struct mt_overlap_waves *v = &r->waves;
    bool over = r->posted;
    for (int t = r->wave ? v->end[r->wave - 1] : 0; over && t < v->end[r->wave]; t++) over = r->done[t];
    if (over) {
        r->posted = false, r->wave++;
        return true;
    }
    bool computes = r->chunk < v->chunks.nchunks && v->needs[r->chunk] <= r->wave;
    bool posts = !r->posted && r->wave < v->nwaves && v->after[r->wave] <= r->chunk;
    if (computes && (!posts || draw(w, 2)))
        compute(w, me, &v->chunks.chunks[r->chunk++].box);
    else if (posts)
        r->posted = true;
    return computes || posts;
}

static bool finished(const struct world *w) {
    for (int r = 0; r < w->problem->n; r++)
        if (w->rank[r].chunk < w->rank[r].waves.chunks.nchunks || w->rank[r].wave < w->rank[r].waves.nwaves)
            return false;
    return true;
}

static void run_all(struct world *w, const char *what) {
    int n = w->problem->n;
    while (!finished(w)) {
        int first = (int)draw(w, n), second = (int)draw(w, n);
        bool moved = draw(w, 2) ? step(w, first) : pass(w, first, second);
        for (int a = 0; a < n && !moved; a++) {
            moved = step(w, a);
            for (int b = 0; b < n && !moved; b++) moved = pass(w, a, b);
        }
        CHECK(moved, "%s: ranks wait for each other in a circle", what);
    }
}

/* What puts send: all data that is not where it is needed. */
static int64_t data_of(const struct mt_overlap *p) {
    int64_t sum = 0;
    for (int r = 0; r < p->n; r++) {
        struct mt_overlap_schedule s;
        mt_overlap_schedule(p, r, &s);
        for (int j = 0; j < s.nputs; j++) sum += s.puts[j].rows * s.puts[j].cols;
        mt_overlap_schedule_release(&s);
    }
    return sum;
}

static int test_job(int n, int number, bool joint) {
    struct job job;
    struct mt_err err = MT_ERR_INIT;
    char what[80];
    job_init(&job, n, number, seed);
    if (joint) job_join(&job);
    job.problem.type = job.problem.out = job.problem.wire = MT_F64, job.problem.tf32 = false;
    job.trans_out = false;
    struct world w = {.problem = &job.problem, .stream = (uint64_t)(n * 1000 + number)};
    const struct mt_overlap *p = w.problem;
    snprintf(what, sizeof what, "%d ranks, job %d, %s", n, number, mt_overlap_name(p->form));
    CHECK_OK(mt_overlap_check(p, &err), err);
    int64_t most_rows = number % 3 ? 1 + draw(&w, 60) : mt_overlap_common_rows(p);
    for (int r = 0; r < n; r++) make(&w, r, most_rows);
    run_all(&w, what);
    CHECK_EQ(w.sent, data_of(p));
    for (int r = 0; r < n; r++) {
        const struct rank *rank = &w.rank[r];
        job_compare(&job, r, rank->buffer[MT_OVERLAP_OUT], NULL, 0, what);
        for (int64_t i = 0; i < rank->extent[MT_OVERLAP_WHOLE][0] * rank->extent[MT_OVERLAP_WHOLE][1]; i++)
            CHECK(rank->buffer[MT_OVERLAP_WHOLE][i] == job_element(p, 0, i / p->k, i % p->k), "%s, rank %d: the whole",
                  what, r);
    }
    int nwaves = w.rank[0].waves.nwaves;
    for (int r = 0; r < n; r++) free_rank(&w.rank[r]);
    return nwaves;
}

/* Communication overlaps only if it is in several waves, which begin before the GEMM ends. */
static void test_overlaps(enum mt_overlap_form form, int n) {
    static const int64_t extents[3] = {8192, 8192, 8192};
    int64_t rows[JOB_RANKS], shares[JOB_RANKS];
    bool gather = form == MT_OVERLAP_GATHER;
    struct mt_overlap p = even_overlap(form, n, extents, MT_BF16, rows, shares);
    struct mt_overlap_waves w;
    mt_overlap_choose_tiles(&p);
    mt_overlap_waves_make(&p, 0, mt_overlap_common_rows(&p), &w);
    CHECK(w.nwaves >= 4, "%d waves", w.nwaves);
    CHECK_EQ(w.after[0], gather ? 0 : 1);
    int products = 0, free_of_waits = 0;
    for (int c = 0; c < w.chunks.nchunks; c++)
        if (w.chunks.chunks[c].box.kind == MT_TILE_MATMUL) products++, free_of_waits += !w.needs[c];
    CHECK(free_of_waits >= (gather ? products / n : products), "%d of %d", free_of_waits, products);
    mt_overlap_waves_release(&w);
}

/* Jobs of each form and number of ranks: under sanitizers they take long. */
#ifdef MOTLEY_SANITIZE
enum { JOBS = 2 };
#else
enum { JOBS = 6 };
#endif

int main(void) {
    int most = 0;
    for (int n = 1; n <= JOB_RANKS; n++)
        for (int number = 0; number < JOBS * JOB_NFORMS; number++) {
            int nwaves = test_job(n, number, false);
            if (nwaves > most) most = nwaves;
            if (number % JOB_NFORMS == MT_OVERLAP_GATHER) test_job(n, number, true);
        }
    CHECK(most > 8, "at most %d waves", most);
    for (int form = 0; form < MT_OVERLAP_NFORMS; form++) {
        test_overlaps((enum mt_overlap_form)form, 2);
        test_overlaps((enum mt_overlap_form)form, 8);
    }
    return 0;
}
