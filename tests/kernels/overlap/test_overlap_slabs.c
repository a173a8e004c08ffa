/* A gather slab by slab: a rank runs its schedule while the test sends it what its peer would, one put after the other.
 * It must multiply each slab of a tile when that is there, before the next is sent, and nothing that has not been sent:
 * staging is poisoned. The result is compared with a GEMM in f64; a slab that never comes is named. Puts of strips are
 * in the order that the header says. */
#include <pthread.h>
#include <stdatomic.h>

#include "tests/kernels/overlap/job.h"

static const uint64_t seed = 20261129;
static atomic_int multiplied; /* calls of the GEMM */

static enum mt_status count(const struct mt_call *call, struct mt_err *err) {
    enum mt_status st = mt_backend_c.run(call, err);
    atomic_fetch_add(&multiplied, 1);
    return st;
}

struct receiver {
    const struct job *job;
    struct mt_window *window;
    const struct mt_backend *matmul;
    void *out;
    int64_t epochs;
    enum mt_status status;
    struct mt_err err;
};

static void *run(void *of) {
    struct receiver *r = of;
    const struct mt_overlap *p = &r->job->problem;
    struct mt_overlap_schedule schedule;
    int64_t bytes = mt_overlap_scratch_bytes(p, 0, 0, job_scratch, (void *)(uintptr_t)r->matmul);
    void *scratch = job_poison(bytes + 1), *b = job_matrix(p, 1, 0, p->k, 0, p->cols, r->job->trans_b);
    struct mt_overlap_operands operands = {.b = b,
                                           .trans_b = r->job->trans_b,
                                           .trans_out = r->job->trans_out,
                                           .out = r->out,
                                           .matmul = r->matmul,
                                           .scratch = scratch,
                                           .what = "GEMM of h.0"};
    mt_overlap_schedule(p, 0, &schedule);
    for (int64_t epoch = 1; epoch <= r->epochs && !r->status; epoch++)
        r->status = mt_overlap_run(p, &schedule, r->window, 0, epoch, &operands, &r->err);
    mt_overlap_schedule_release(&schedule);
    free(scratch);
    free(b);
    return NULL;
}

/* Rank 0 has all columns, rank 1 all rows: one tile, or with `strips` several. */
static void pose(struct job *job, int number, bool strips, bool engines) {
    *job = (struct job){.problem = {.form = MT_OVERLAP_GATHER, .n = 2, .type = MT_F32, .out = MT_F32, .wire = MT_F32}};
    struct mt_overlap *p = &job->problem;
#define DRAW(i, below) ((int64_t)mt_random_below(seed, (uint64_t)number, (uint64_t)(i), (uint64_t)(below)))
    p->m = job->rows[1] = 1 + DRAW(0, 30);
    p->cols = job->shares[0] = 1 + DRAW(1, 30);
    p->slabs = 2 + (int)DRAW(2, 6);
    p->k = number % 2 ? 64 * p->slabs + DRAW(3, 200) : p->slabs + DRAW(3, 50);
    p->rows = job->rows, p->shares = job->shares;
    p->tile[0] = p->m, p->tile[1] = p->cols, p->chunk = p->m;
    if (strips) p->tile[0] = 1 + DRAW(6, 10), p->chunk = DRAW(7, 3) ? p->tile[0] * (1 + DRAW(8, 5)) : 1 + DRAW(8, 30);
    if (engines) p->engines = true, p->how = MT_OVERLAP_FUSED;
    job->trans_b = DRAW(4, 2), job->trans_out = DRAW(5, 2);
#undef DRAW
}

static void put_slab(const struct mt_overlap *p, const struct mt_overlap_schedule *s, int j, int64_t epoch,
                     struct mt_window *window) {
    const struct mt_overlap_put *put = &s->puts[j];
    struct mt_err err = MT_ERR_INIT;
    int64_t size = mt_type_size(p->type), to = mt_overlap_place(p, put->to, (int)(epoch % s->copies));
    char *a = job_matrix(p, 0, 0, p->m, 0, p->k, false);
    CHECK_OK(mt_window_put_rows(window, to + (put->to_row * p->k + put->col) * size, p->k * size,
                                a + (put->from_row * p->k + put->col) * size, p->k * size, put->cols * size, put->rows,
                                put->peer, &err),
             err);
    CHECK_OK(mt_window_signal(window, mt_overlap_flag_place(p, put->flag), 1, MT_SIGNAL_ADD, put->peer, &err), err);
    free(a);
}

/* How many slabs of tiles can be multiplied, in the order of tiles, when the first `sent` puts of an epoch are there.
 */
static int ready_with(const struct mt_overlap *p, const struct mt_overlap_schedule *sender, int sent,
                      const struct mt_overlap_schedule *receiver) {
    int count = 0, nslabs = mt_overlap_nslabs(p);
    int64_t width;
    mt_overlap_slab(p, 0, &width);
    for (int t = 0; t < receiver->ntiles; t++)
        for (int step = 0; step < nslabs; step++, count++) {
            const struct mt_overlap_tile *tile = &receiver->tiles[t];
            int64_t cols, col = mt_overlap_slab(p, (int)(tile->k / width + step) % nslabs, &cols);
            for (int j = sent; j < sender->nputs; j++) {
                const struct mt_overlap_put *put = &sender->puts[j];
                if (put->col == col && put->to_row < tile->row + tile->rows && tile->row < put->to_row + put->rows)
                    return count;
            }
        }
    return count;
}

/* Of each chunk slab after slab of all its strips, which begin where tiles or chunks do; by copy engines only where
 * chunks do. A tile begins with the slab that is put first. */
static void check_order(const struct mt_overlap *p, const struct mt_overlap_schedule *sender,
                        const struct mt_overlap_schedule *receiver) {
    int j = 0, nslabs = mt_overlap_nslabs(p), *raised = mt_calloc((size_t)mt_overlap_nflags(p), sizeof *raised);
    int64_t width, cols;
    mt_overlap_slab(p, 0, &width);
    bool rotates = mt_overlap_rotates(p);
    CHECK_EQ(rotates, width % 64 == 0 && !p->engines);
    for (int64_t chunk = 0; chunk < p->m; chunk += p->chunk)
        for (int step = 0; step < nslabs; step++)
            for (int64_t row = chunk; row < p->m && row < chunk + p->chunk; row++) {
                if (row != chunk && (p->engines || row % p->tile[0])) continue; /* no strip begins there */
                CHECK(j < sender->nputs, "%d puts", sender->nputs);
                const struct mt_overlap_put *put = &sender->puts[j++];
                int64_t rows = 1, slab = (rotates ? row / p->tile[0] : 0) + step;
                while (row + rows < p->m && row + rows < chunk + p->chunk && (p->engines || (row + rows) % p->tile[0]))
                    rows++;
                CHECK_EQ(put->from_row, row);
                CHECK_EQ(put->to_row, row);
                CHECK_EQ(put->rows, rows);
                CHECK_EQ(put->col, mt_overlap_slab(p, (int)(slab % nslabs), &cols));
                CHECK_EQ(put->cols, cols);
                CHECK(raised[put->flag]++ == 0, "flag %d twice", put->flag);
            }
    CHECK_EQ(sender->nputs, j);
    for (int t = 0; t < receiver->ntiles; t++)
        CHECK_EQ(receiver->tiles[t].k, rotates ? receiver->tiles[t].row / p->tile[0] % nslabs * width : 0);
    for (int t = 0; t < sender->ntiles; t++) CHECK_EQ(sender->tiles[t].k, 0);
    free(raised);
}

/* `sent`: puts that are sent in all; fewer than there are: the receiver stalls. */
static void receive(const struct job *job, int64_t epochs, int sent, const char *what) {
    const struct mt_overlap *p = &job->problem;
    struct mt_backend counting = mt_backend_c;
    struct mt_window *windows[2];
    struct mt_overlap_schedule sender, receiver;
    struct mt_err err = MT_ERR_INIT;
    pthread_t thread;
    int nslabs = mt_overlap_nslabs(p);
    int64_t staging = mt_overlap_place(p, MT_OVERLAP_STAGED, 0), bytes = mt_overlap_window_bytes(p);
    CHECK_OK(mt_overlap_check(p, &err), err);
    CHECK(nslabs > 1 && nslabs <= p->slabs, "%s: %d slabs", what, nslabs);
    mt_overlap_schedule(p, 1, &sender);
    mt_overlap_schedule(p, 0, &receiver);
    check_order(p, &sender, &receiver);
    int nputs = sender.nputs, all = receiver.ntiles * nslabs;
    mt_window_local_new(2, bytes, sent < nputs ? 1 : 60, windows);
    memset(mt_window_ptr(windows[0], staging, 0), 0xff, (size_t)(bytes - staging));
    counting.run = count;
    atomic_store(&multiplied, 0);
    struct receiver r = {job, windows[0], &counting, job_poison(p->m * p->cols * 4), epochs, MT_OK, MT_ERR_INIT};
    CHECK(!pthread_create(&thread, NULL, run, &r), "a thread");
    for (int i = 0, ready = 0; i < epochs * nputs && i < sent; i++) {
        if (i % 3 == 0) mt_sleep_s(1e-3);
        CHECK_EQ(atomic_load(&multiplied), ready);
        put_slab(p, &sender, i % nputs, 1 + i / nputs, windows[1]);
        ready = i / nputs * all + ready_with(p, &sender, i % nputs + 1, &receiver);
        double begin_s = mt_now_s();
        while (atomic_load(&multiplied) < ready && mt_now_s() < begin_s + 60) mt_sleep_s(1e-5);
        CHECK(atomic_load(&multiplied) == ready, "%s: %d multiplied when %d puts are there", what, ready, i + 1);
    }
    pthread_join(thread, NULL);
    if (sent < nputs) {
        CHECK_EQ(r.status, MT_ESTALL);
        CHECK(strstr(r.err.text, "rank 1, for tile 0 of GEMM of h.0 in epoch 1"), "%s", r.err.text);
    } else {
        CHECK_OK(r.status, r.err);
        job_compare(job, 0, r.out, NULL, 0, what);
    }
    mt_overlap_schedule_release(&sender);
    mt_overlap_schedule_release(&receiver);
    for (int rank = 0; rank < 2; rank++) mt_window_free(windows[rank]);
    free(r.out);
}

/* Slabs cut K into consecutive parts, as many as were asked for or fewer, in whole steps where K is long. */
static void test_slabs(void) {
    struct mt_overlap p = {.form = MT_OVERLAP_GATHER};
    for (p.slabs = 0; p.slabs < 9; p.slabs++)
        for (p.k = 1; p.k < 1200; p.k += p.k < 80 ? 1 : 61) {
            int64_t end = 0, first, cols;
            int n = mt_overlap_nslabs(&p), wanted = p.slabs > 1 ? p.slabs : 1;
            mt_overlap_slab(&p, 0, &first);
            for (int i = 0; i < n; i++) {
                CHECK_EQ(mt_overlap_slab(&p, i, &cols), end);
                CHECK(cols > 0 && (cols == first || i == n - 1) && cols <= first, "%lld columns", (long long)cols);
                end += cols;
            }
            CHECK_EQ(end, p.k);
            CHECK(n <= wanted && (p.k < 2 * wanted || n > wanted / 2), "%d of %d slabs", n, wanted);
            CHECK(n == 1 || p.k < 64 * wanted || first % 64 == 0, "slabs of %lld", (long long)first);
        }
    p.form = MT_OVERLAP_SCATTER, p.slabs = 4;
    CHECK_EQ(mt_overlap_nslabs(&p), 1);
}

/* By copy engines each has half of what is left, in whole steps where K is long, and the last the rest. */
static void test_halved(void) {
    struct mt_overlap p = {.form = MT_OVERLAP_GATHER, .how = MT_OVERLAP_FUSED, .engines = true};
    for (p.slabs = 2; p.slabs < 9; p.slabs++)
        for (p.k = 1; p.k < 3000; p.k += p.k < 80 ? 1 : 61) {
            int64_t end = 0, cols, step = p.k < 64 * p.slabs ? 1 : 64;
            int n = mt_overlap_nslabs(&p);
            for (int i = 0; i < n; i++) {
                CHECK_EQ(mt_overlap_slab(&p, i, &cols), end);
                int64_t left = p.k - end, most = left / 2 + step;
                CHECK(cols > 0 && (i == n - 1 ? cols == left : 2 * cols >= left && cols <= most && cols % step == 0),
                      "%lld of %lld columns", (long long)cols, (long long)left);
                end += cols;
            }
            CHECK_EQ(end, p.k);
            CHECK(n == p.slabs || (n < p.slabs && cols <= step), "%d of %d slabs", n, p.slabs);
            CHECK(!mt_overlap_rotates(&p), "rotated");
        }
    p.slabs = 4, p.k = 8192;
    static const int64_t begins[] = {0, 4096, 6144, 7168};
    for (int i = 0; i < 4; i++) {
        int64_t cols;
        CHECK_EQ(mt_overlap_slab(&p, i, &cols), begins[i]);
    }
}

/* Scratch is asked for the GEMM of every slab, though a backend may want most for one in the middle. */
static int64_t of_second(void *second, const struct mt_call *call) {
    return call->in[0].extent[!call->attr->trans_a] == *(int64_t *)second ? 1 << 20 : 64;
}
static void test_scratch(void) {
    static const int64_t rows[2] = {0, 300}, shares[2] = {40, 0};
    struct mt_overlap p = {.form = MT_OVERLAP_GATHER,
                           .n = 2,
                           .m = 300,
                           .cols = 40,
                           .k = 1024,
                           .rows = rows,
                           .shares = shares,
                           .type = MT_F32,
                           .out = MT_F32,
                           .wire = MT_F32,
                           .tile = {128, 40},
                           .chunk = 300,
                           .slabs = 4,
                           .engines = true,
                           .how = MT_OVERLAP_FUSED};
    for (int slab = 0; slab < 4; slab++) {
        int64_t cols;
        mt_overlap_slab(&p, slab, &cols);
        CHECK(mt_overlap_scratch_bytes(&p, 0, 0, of_second, &cols) >= 1 << 20, "slab %d is not asked for", slab);
    }
}

int main(void) {
    test_slabs();
    test_halved();
    test_scratch();
    for (int number = 0; number < 120; number++) {
        struct job job;
        char what[40];
        snprintf(what, sizeof what, "gather %d", number);
        pose(&job, number, number >= 40, number >= 80);
        if (number < 2)
            receive(&job, 1, 1, what);
        else
            receive(&job, 1 + number % 3, INT32_MAX, what);
    }
    return 0;
}
