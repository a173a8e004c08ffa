/* Overlapped GEMMs by chunks, by NCCL, and in one kernel, on GPUs, each rank a process: ragged shares of all forms and
 * types on windows that the ranks map of each other, gathers with epilogues and sums with a bias, ten epochs, some
 * captured, with outputs, scratch and staging poisoned; compared with a GEMM in f64, equal bits in all epochs, replicas
 * equal. NCCL gives the bits of chunks, also where the window reaches no peer. A rank that stays away is named. Ranks
 * share a GPU where there are too few: then NCCL is told that they are on different hosts. ranks: 2 3 */
#include <math.h>
#include <mpi.h>

#include "kernels/comm/comm.h"
#include "kernels/device/facts.h"
#include "kernels/device/window.h"
#include "kernels/overlap/chunk.h"
#include "tests/kernels/cuda/device/shared.h"
#include "tests/kernels/overlap/job.h"

enum { EAGER = 4 };
static const uint64_t seed = 20261126;
static const double deadline_s = 60;

static struct mt_device *device;
static struct mt_stream *stream;
static struct mt_comm *comm;
static int rank, nranks;

/* NCCL's, with MPI's for the hosts. */
static struct mt_comm *comm_of(void) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_comm *made;
    MPI_Comm all = MPI_COMM_WORLD;
    char id[MT_COMM_NCCL_ID_BYTES];
    if (rank == 0) CHECK_OK(mt_comm_nccl_id(id, &err), err);
    MPI_Bcast(id, sizeof id, MPI_BYTE, 0, all);
    CHECK_OK(mt_comm_nccl_new(id, rank, nranks, deadline_s, &made, &err), err);
    CHECK_OK(mt_comm_mpi_new(&all, &made->host, &err), err);
    return made;
}

static void *on_device(const void *host, int64_t bytes) {
    struct mt_err err = MT_ERR_INIT;
    void *memory;
    CHECK_OK(mt_device_alloc(device, bytes + 1, &memory, &err), err);
    if (bytes) CHECK_OK(mt_device_copy_in(device, memory, host, bytes, &err), err);
    return memory;
}

static void poison(void *memory, int64_t bytes) {
    struct mt_err err = MT_ERR_INIT;
    static char block[1 << 16];
    memset(block, 0xff, sizeof block);
    CHECK_OK(mt_device_repeat(device, memory, bytes, block, sizeof block, &err), err);
}

static void sync(void) {
    struct mt_err err = MT_ERR_INIT;
    CHECK_OK(mt_stream_sync(stream, 2 * deadline_s, &err), err);
}

static void barrier(struct mt_window *window) {
    struct mt_err err = MT_ERR_INIT;
    CHECK_OK(mt_window_barrier(window, &err), err);
}

struct memory {
    void *a, *b, *extra, *out, *pre, *whole, *scratch;
    int64_t out_bytes, whole_bytes, poisoned_bytes;
};

static struct memory make_memory(const struct job *job) {
    const struct mt_overlap *p = &job->problem;
    bool gather = p->form == MT_OVERLAP_GATHER;
    int64_t extent[2], share = p->shares[rank], at = job_start(p->shares, rank), size = mt_type_size(p->type);
    struct mt_overlap_scratch places;
    struct memory m = {0};
    void *a = gather ? job_matrix(p, 0, job_start(p->rows, rank), p->rows[rank], 0, p->k, false)
                     : job_matrix(p, 0, 0, p->m, at, share, job->trans_a);
    void *b = gather ? job_matrix(p, 1, 0, p->k, at, share, job->trans_b)
                     : job_matrix(p, 1, at, share, 0, p->cols, job->trans_b);
    m.a = on_device(a, (gather ? p->rows[rank] * p->k : p->m * share) * size);
    m.b = on_device(b, (gather ? p->k * share : share * p->cols) * size);
    free(a);
    free(b);
    int64_t extra_bytes;
    void *extra = job_extra(job, rank, &extra_bytes);
    m.extra = on_device(extra, extra_bytes);
    free(extra);
    mt_overlap_extent(p, rank, MT_OVERLAP_OUT, extent);
    m.out_bytes = extent[0] * extent[1] * mt_type_size(p->out);
    m.whole_bytes = p->keep ? p->m * p->k * size : 0;
    m.poisoned_bytes = mt_overlap_lay_out_scratch(p, rank, NULL, &places);
    struct mt_err err = MT_ERR_INIT;
    CHECK_OK(mt_device_alloc(device, m.out_bytes + 1, &m.out, &err), err);
    CHECK_OK(mt_device_alloc(device, m.out_bytes + 1, &m.pre, &err), err);
    CHECK_OK(mt_device_alloc(device, m.whole_bytes + 1, &m.whole, &err), err);
    CHECK_OK(mt_device_alloc(device, mt_device_overlap_scratch_bytes(device, p, rank, job->epilogue), &m.scratch, &err),
             err);
    return m;
}

static void free_memory(struct memory *m) {
    mt_device_free(device, m->a);
    mt_device_free(device, m->b);
    mt_device_free(device, m->extra);
    mt_device_free(device, m->out);
    mt_device_free(device, m->pre);
    mt_device_free(device, m->whole);
    mt_device_free(device, m->scratch);
}

/* Captures of a run in either parity; without a change of the epoch. */
static void capture(struct mt_overlap_call *call, struct mt_capture *captures[2]) {
    struct mt_err err = MT_ERR_INIT;
    int64_t epoch = *call->epoch;
    for (int c = 0; c < 2; c++) {
        CHECK_OK(mt_capture_begin(&stream, 1, &captures[c], &err), err);
        mt_stream_overlap(stream, call, NULL);
        CHECK_OK(mt_capture_end(captures[c], &err), err);
    }
    *call->epoch = epoch;
}

/* Products of at most so many terms are compared with f64. */
enum { MOST_TERMS = 1 << 30 };

static void check_no_poison(const struct job *job, const void *out, int64_t bytes, const char *what) {
    for (int64_t i = 0; i < bytes / mt_type_size(job->problem.out); i++)
        CHECK(!isnan(mt_type_load(job->problem.out, out, i)), "%s, rank %d: element %lld is poison", what, rank,
              (long long)i);
}

/* What a rank has after an epoch: a checksum of the result; compared if it is the first. */
static uint64_t look(const struct job *job, const struct memory *m, bool first, const char *what) {
    struct mt_err err = MT_ERR_INIT;
    void *out = malloc((size_t)m->out_bytes + 1), *whole = malloc((size_t)m->whole_bytes + 1);
    void *pre = malloc((size_t)m->out_bytes + 1);
    CHECK_OK(mt_device_copy_out(device, out, m->out, m->out_bytes, &err), err);
    CHECK_OK(mt_device_copy_out(device, pre, m->pre, m->out_bytes, &err), err);
    CHECK_OK(mt_device_copy_out(device, whole, m->whole, m->whole_bytes, &err), err);
    if (job->problem.m * job->problem.cols * job->problem.k > MOST_TERMS)
        check_no_poison(job, out, m->out_bytes, what);
    else if (first)
        job_compare(job, rank, out, pre, job->problem.tf32 ? 0x1p-9 : 0, what);
    if (m->whole_bytes) {
        void *want = job_matrix(&job->problem, 0, 0, job->problem.m, 0, job->problem.k, false);
        CHECK(!memcmp(whole, want, (size_t)m->whole_bytes), "%s, rank %d: the gathered operand", what, rank);
        free(want);
    }
    uint64_t sum = job_checksum(out, m->out_bytes) + 3 * job_checksum(pre, m->out_bytes);
    free(out);
    free(pre);
    free(whole);
    return sum;
}

/* As on hosts of their own. */
static void lose_peers(struct mt_window *window) {
    char **part = mt_window_attached(window)->part;
    for (int r = 0; r < nranks; r++)
        if (r != rank) mt_device_forget(device, part[r]), part[r] = NULL;
}

/* A checksum of the result. */
static uint64_t test_job(const struct job *job, int number, enum mt_overlap_how how, int64_t chunk_rows) {
    const struct mt_overlap *p = &job->problem;
    struct mt_err err = MT_ERR_INIT;
    struct mt_overlap_schedule schedule;
    struct mt_capture *captures[2] = {NULL, NULL};
    struct mt_window *window;
    int64_t epoch = 0, bytes = mt_overlap_window_bytes(p), staging = mt_overlap_place(p, MT_OVERLAP_STAGED, 0);
    uint64_t hash = 0, of_first;
    bool captured = number % 2;
    char what[80];
    snprintf(what, sizeof what, "job %d, %s", number, mt_overlap_name(p->form));
    CHECK_OK(mt_overlap_check(p, &err), err);
    CHECK_OK(mt_device_window_new(device, comm, bytes, deadline_s, &window, &err), err);
    if (how == MT_OVERLAP_NCCL) lose_peers(window);
    mt_overlap_schedule(p, rank, &schedule);
    struct memory m = make_memory(job);
    struct mt_overlap_call call = {.problem = p,
                                   .schedule = &schedule,
                                   .window = window,
                                   .comm = comm,
                                   .epoch = &epoch,
                                   .how = how == MT_OVERLAP_NCCL ? MT_OVERLAP_ANY : how, /* nothing else can */
                                   .chunk_rows = chunk_rows,
                                   .operands = {.a = m.a,
                                                .b = m.b,
                                                .trans_a = job->trans_a,
                                                .trans_b = job->trans_b,
                                                .trans_out = job->trans_out,
                                                .whole = m.whole,
                                                .out = m.out,
                                                .epilogue = job->epilogue,
                                                .extra = m.extra,
                                                .pre = m.pre,
                                                .scratch = m.scratch,
                                                .what = what}};
    const char *part = mt_device_window_part(window, rank);
    for (int e = 1; e <= JOB_EPOCHS; e++) {
        uint64_t launch;
        poison(m.out, m.out_bytes);
        poison(m.pre, m.out_bytes);
        poison(m.whole, m.whole_bytes);
        poison(m.scratch, m.poisoned_bytes);
        if (e == 1 || number % 3 == 0) {
            barrier(window);
            poison((char *)(uintptr_t)part + staging, bytes - staging);
            barrier(window);
        }
        if (captured && e == EAGER + 1) capture(&call, captures);
        if (captured && e > EAGER) {
            struct mt_capture *next = captures[(e - EAGER - 1) % 2];
            CHECK_OK(mt_capture_launch(next, &(struct mt_clock){0}, &launch, &err), err);
        } else {
            mt_stream_overlap(stream, &call, NULL);
        }
        sync();
        uint64_t now = look(job, &m, e == 1, what);
        if (e == 1) hash = now;
        CHECK(now == hash, "%s, rank %d: epoch %d has other bits", what, rank, e);
    }
    of_first = hash;
    MPI_Bcast(&of_first, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    if (p->form == MT_OVERLAP_REDUCE) CHECK(of_first == hash, "%s: replicas differ", what);
    for (int c = 0; c < 2; c++) mt_capture_free(captures[c]);
    mt_overlap_schedule_release(&schedule);
    mt_window_free(window);
    free_memory(&m);
    return hash;
}

/* Extents of real layers, uneven: many chunks, and GEMMs that measure what is best. */
static void test_large(enum mt_overlap_form form, enum mt_overlap_how how) {
    struct job job = {.problem = {.form = form,
                                  .n = nranks,
                                  .type = MT_BF16,
                                  .out = form == MT_OVERLAP_GATHER ? MT_BF16 : MT_F32,
                                  .wire = MT_BF16,
                                  .tile = {128, 256},
                                  .chunk = 100,
                                  .mix = 2}};
    struct mt_overlap *p = &job.problem;
    for (int r = 0; r < nranks; r++) {
        p->m += job.rows[r] = 256 + 72 * r;
        job.shares[r] = 192 + 64 * r;
        *(form == MT_OVERLAP_GATHER ? &p->cols : &p->k) += job.shares[r];
    }
    *(form == MT_OVERLAP_GATHER ? &p->k : &p->cols) = 520;
    p->rows = job.rows, p->shares = job.shares;
    job.trans_a = form == MT_OVERLAP_SCATTER;
    test_job(&job, 1000 + (int)form, how, 256);
}

/* Extents that keep links and multiprocessors busy, staging poisoned before each epoch: what were read before it has
 * come would be poison. Of two ranks sums are added in the GEMM, and of an AllReduce sent by it. */
static void test_busy(enum mt_overlap_form form, int slabs, bool engines) {
    enum { EACH = 2048, NUMBER = 3000 }; /* a multiple of three: poisoned each time; odd numbers are captured */
    bool gather = form == MT_OVERLAP_GATHER;
    struct job job = {.problem = {.form = form,
                                  .n = nranks,
                                  .m = EACH * nranks,
                                  .cols = gather ? EACH / 2 * nranks : 2 * EACH,
                                  .k = gather ? 2 * EACH : EACH / 2 * nranks,
                                  .type = MT_BF16,
                                  .out = MT_BF16,
                                  .wire = MT_BF16,
                                  .tile = {128, 256},
                                  .chunk = engines || slabs ? EACH : EACH / 4,
                                  .mix = 1,
                                  .slabs = slabs,
                                  .engines = engines,
                                  .how = MT_OVERLAP_FUSED}};
    for (int r = 0; r < nranks; r++) job.rows[r] = EACH, job.shares[r] = EACH / 2;
    job.problem.rows = job.rows, job.problem.shares = job.shares;
    if (gather) job.problem.mix = 0;
    uint64_t eager = test_job(&job, NUMBER, MT_OVERLAP_FUSED, 0);
    CHECK(test_job(&job, NUMBER + 3, MT_OVERLAP_FUSED, 0) == eager, "captured: other bits");
}

/* A gather with each epilogue, sums with a bias, by chunks and by NCCL with the same bits; of large ones those that one
 * kernel has. */
static void test_epilogues(const struct job *of, int number, int64_t rows) {
    bool gather = of->problem.form == MT_OVERLAP_GATHER,
         alike = rows && (gather || !mt_overlap_gemms_add(&of->problem));
    for (int e = 0; e < (gather ? JOB_NEPILOGUES : 1); e++) {
        struct job job = *of;
        job_end(&job, job_epilogues[e]);
        uint64_t chunks = test_job(&job, number, MT_OVERLAP_CHUNKS, rows);
        CHECK(test_job(&job, number, MT_OVERLAP_NCCL, rows) == chunks || !alike, "job %d: NCCL gives other bits",
              number);
    }
}

static void test_large_bias(enum mt_overlap_form form, int mix, bool direct, bool has_fused) {
    struct job job = {.problem = {.form = form,
                                  .n = nranks,
                                  .cols = 520,
                                  .type = MT_BF16,
                                  .out = MT_BF16,
                                  .wire = MT_BF16,
                                  .tile = {128, 256},
                                  .mix = mix,
                                  .direct = direct}};
    for (int r = 0; r < nranks; r++) {
        job.problem.m += job.rows[r] = 256 + 72 * r;
        job.problem.k += job.shares[r] = 192 + 64 * r;
    }
    job.problem.rows = job.rows, job.problem.shares = job.shares;
    job_end(&job, MT_OP_add);
    test_job(&job, 2020 + 4 * (int)form + mix + 2 * direct, MT_OVERLAP_CHUNKS, 256);
    job.problem.how = MT_OVERLAP_FUSED;
    if (has_fused) test_job(&job, 2040 + 4 * (int)form + mix + 2 * direct, MT_OVERLAP_FUSED, 0);
}

static void test_large_epilogues(bool has_fused) {
    struct job large = {.problem = {.form = MT_OVERLAP_GATHER,
                                    .n = nranks,
                                    .k = 520,
                                    .type = MT_BF16,
                                    .out = MT_BF16,
                                    .wire = MT_BF16,
                                    .tile = {128, 256},
                                    .chunk = 100}};
    for (int r = 0; r < nranks; r++) {
        large.problem.m += large.rows[r] = 256 + 72 * r;
        large.problem.cols += large.shares[r] = 192 + 64 * r;
    }
    for (int e = 0; e < JOB_NEPILOGUES; e++) {
        struct job job = large;
        job.problem.rows = job.rows, job.problem.shares = job.shares;
        job_end(&job, job_epilogues[e]);
        test_job(&job, 2000 + e, MT_OVERLAP_CHUNKS, 256);
        job.problem.how = MT_OVERLAP_FUSED;
        if (has_fused) test_job(&job, 2010 + e, MT_OVERLAP_FUSED, 0);
    }
    for (int mix = 0; mix < 2; mix++) {
        test_large_bias(MT_OVERLAP_SCATTER, mix, false, has_fused);
        test_large_bias(MT_OVERLAP_REDUCE, mix, false, has_fused);
    }
    test_large_bias(MT_OVERLAP_REDUCE, 0, true, has_fused);
}

/* The last rank does not come: all others end by the deadline, and say for whom and what they waited. */
static void test_silence(void) {
    struct job job;
    struct mt_err err = MT_ERR_INIT;
    struct mt_overlap_schedule schedule;
    struct mt_window *window;
    int64_t epoch = 0;
    job_init(&job, nranks, 4, seed); /* f32, gathered */
    for (int r = 0; r < nranks; r++) job.rows[r] = 4, job.shares[r] = 3;
    job.problem.m = 4 * nranks, job.problem.cols = 3 * nranks;
    CHECK_OK(mt_device_window_new(device, comm, mt_overlap_window_bytes(&job.problem), 1, &window, &err), err);
    mt_overlap_schedule(&job.problem, rank, &schedule);
    struct memory m = make_memory(&job);
    struct mt_overlap_call call = {
        .problem = &job.problem,
        .schedule = &schedule,
        .window = window,
        .epoch = &epoch,
        .operands = {.a = m.a, .b = m.b, .whole = m.whole, .out = m.out, .scratch = m.scratch, .what = "GEMM of h.0"}};
    if (rank != nranks - 1) {
        mt_stream_overlap(stream, &call, NULL);
        enum mt_status st = mt_stream_sync(stream, deadline_s, &err);
        CHECK(st == MT_ESTALL || st == MT_EPEER, "%d: %s", (int)st, err.text);
        char peer[64];
        snprintf(peer, sizeof peer, "for rank %d, for tile", nranks - 1);
        CHECK(strstr(err.text, peer) && strstr(err.text, "GEMM of h.0"), "%s", err.text);
        err = (struct mt_err)MT_ERR_INIT;
        mt_stream_overlap(stream, &call, NULL);
        CHECK_EQ(mt_stream_sync(stream, deadline_s, &err), MT_EPEER);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == nranks - 1) mt_window_abort(window, "stayed away");
    mt_stream_free(stream);
    mt_window_free(window);
    mt_overlap_schedule_release(&schedule);
    free_memory(&m);
}

int main(int argc, char **argv) {
    struct mt_err err = MT_ERR_INIT;
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    if (!(device = open_shared_gpu(rank))) {
        MPI_Finalize();
        return 77;
    }
    comm = comm_of();
    CHECK_OK(mt_stream_new(device, "compute", &stream, &err), err);
    struct mt_device_facts facts;
    mt_device_facts(device, &facts);
    for (int number = 0; number < JOB_NFORMS * JOB_NTYPES; number++) {
        struct job job;
        job_init(&job, nranks, number, seed);
        if (job.problem.type == MT_F64) continue;
        int64_t rows = number % 5 ? 1 + number * 7 % 60 : 0; /* 0: what each of them chooses */
        uint64_t chunks = test_job(&job, number, MT_OVERLAP_CHUNKS, rows);
        uint64_t nccl = test_job(&job, number, MT_OVERLAP_NCCL, rows);
        bool alike = rows && !mt_overlap_gemms_add(&job.problem); /* NCCL's chunks round them before */
        CHECK(!alike || chunks == nccl, "job %d: NCCL gives other bits", number);
        test_epilogues(&job, number, rows);
        if (rank == 0) printf("job %d: ok\n", number), fflush(stdout);
    }
    for (int form = 0; form < MT_OVERLAP_NFORMS; form++) {
        test_large((enum mt_overlap_form)form, MT_OVERLAP_CHUNKS);
        test_large((enum mt_overlap_form)form, MT_OVERLAP_NCCL);
        if (facts.capability == 90) test_large((enum mt_overlap_form)form, MT_OVERLAP_FUSED);
    }
    test_large_epilogues(facts.capability == 90);
    if (facts.capability == 90) {
        test_busy(MT_OVERLAP_GATHER, 0, false);
        test_busy(MT_OVERLAP_GATHER, 8, false);
        test_busy(MT_OVERLAP_GATHER, 4, true);
        test_busy(MT_OVERLAP_SCATTER, 0, false);
        test_busy(MT_OVERLAP_REDUCE, 0, false);
        if (rank == 0) printf("busy: ok\n"), fflush(stdout);
    }
    test_silence();
    mt_comm_free(comm);
    mt_device_close(device);
    MPI_Finalize();
    return 0;
}
