/* Overlapped GEMMs on CPUs: ranks that share memory, and ranks that are said to be on different hosts, with the same
 * bits; replicas are equal; gathers with epilogues and sums with a bias, by oneDNN too; a rank that does not take part
 * is named.
 * ranks: 2 3 5 */
#include <mpi.h>

#include "kernels/comm/comm.h"
#include "tests/kernels/overlap/job.h"
#include "tests/kernels/window/world.h"

static const uint64_t seed = 20261123;

static void test_silence(struct mt_comm *comm, int rank, int n) {
    struct job job;
    struct mt_err err = MT_ERR_INIT;
    struct mt_window *window;
    struct mt_overlap_schedule schedule;
    job_init(&job, n, 0, seed);
    for (int r = 0; r < n; r++) job.rows[r] = 4, job.shares[r] = 3;
    job.problem.m = 4 * n, job.problem.cols = 3 * n;
    CHECK_OK(mt_window_new(comm, NULL, mt_overlap_window_bytes(&job.problem), 0.3, &window, &err), err);
    if (rank != n - 1) {
        void *memory = job_poison(1 << 20);
        struct mt_overlap_operands operands = {
            .a = memory, .b = memory, .out = memory, .matmul = &mt_backend_c, .scratch = memory, .what = "GEMM of h.0"};
        mt_overlap_schedule(&job.problem, rank, &schedule);
        enum mt_status st = mt_overlap_run(&job.problem, &schedule, window, 0, 1, &operands, &err);
        CHECK(st == MT_ESTALL || st == MT_EPEER, "%d", (int)st);
        char peer[64];
        snprintf(peer, sizeof peer, "for rank %d, for tile", n - 1);
        CHECK(strstr(err.text, peer) && strstr(err.text, "GEMM of h.0 in epoch 1"), "%s", err.text);
        mt_overlap_schedule_release(&schedule);
        free(memory);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == n - 1) mt_window_abort(window, "stayed away");
    mt_window_free(window);
}

static void test_job(struct mt_comm *comm, const struct job *job, const struct mt_backend *matmul, int number, int n) {
    struct mt_err err = MT_ERR_INIT;
    int node[JOB_RANKS];
    uint64_t hash[3] = {0};
    for (int map = 0; map < 3; map++) { /* one host; a host each; hosts of two */
        struct mt_window *window;
        if (map && number / JOB_NFORMS % 3 != 1) continue;
        for (int r = 0; r < n; r++) node[r] = map == 1 ? r : r / 2;
        CHECK_OK(mt_window_new(comm, map ? node : NULL, mt_overlap_window_bytes(&job->problem), 60, &window, &err),
                 err);
        hash[map] = job_run(job, window, matmul, number % 3 == 0, mt_overlap_name(job->problem.form));
        CHECK(hash[map] == hash[0], "job %d: other bits between hosts", number);
        mt_window_free(window);
    }
    uint64_t of_first = hash[0];
    MPI_Bcast(&of_first, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    if (job->problem.form == MT_OVERLAP_REDUCE) CHECK(of_first == hash[0], "job %d: replicas differ", number);
}

/* Of more ranks, which take long on few cores, and under sanitizers, a third of the epilogues. */
#ifdef MOTLEY_SANITIZE
enum { FEW = 2 };
#else
enum { FEW = 3 };
#endif

/* Whether a backend multiplies tiles of the problem: oneDNN those of some types, and of bf16 on some CPUs. */
static bool multiplies(const struct mt_backend *backend, const struct mt_overlap *p) {
    struct mt_attr attr = {.nm = 1, .nn = 1, .nk = 1, .out_acc = true, .tf32 = p->tf32};
    struct mt_tensor tensors[3];
    for (int i = 0; i < 3; i++) tensors[i] = (struct mt_tensor){.type = p->type, .naxes = 2, .extent = {1, 1}};
    tensors[2].type = mt_type_acc(p->type);
    struct mt_call tile = {.kind = MT_OP_matmul, .attr = &attr, .nin = 2, .nout = 1, .in = tensors, .out = tensors + 2};
    return backend->supports(&tile);
}

/* A job with an epilogue, by plain C and by oneDNN. */
static void test_epilogue(struct mt_comm *comm, const struct job *without, enum mt_op_kind epilogue, int number,
                          int n) {
    struct mt_err err = MT_ERR_INIT;
    const struct mt_backend *dnnl = mt_backend_onednn(&err);
    struct job job = *without;
    job_end(&job, epilogue);
    test_job(comm, &job, &mt_backend_c, number, n);
    if (job.problem.type == MT_BF16) job.slack = 0x1p-10; /* a few products are added in f16 (half.h) */
    if (dnnl && multiplies(dnnl, &job.problem)) test_job(comm, &job, dnnl, number, n);
}

/* A gather with each epilogue, of whole rows and of slabs as the job has them, and of joint tiles. */
static void test_gather(struct mt_comm *comm, const struct job *gather, int number, int n) {
    for (int e = 0; e < JOB_NEPILOGUES; e++) {
        struct job job = *gather;
        if (n > FEW && (number / JOB_NFORMS + e) % 3) continue;
        test_epilogue(comm, &job, job_epilogues[e], number, n);
        job_end(&job, job_epilogues[e]);
        job_join(&job);
        test_job(comm, &job, &mt_backend_c, number, n);
    }
}

/* Sums with a bias; of few ranks in each order of a rank's own tiles. Other epilogues they do not have. */
static void test_sum(struct mt_comm *comm, const struct job *sum, int number, int n) {
    struct job job = *sum;
    job.problem.out = job.problem.type;
    for (int e = 0; e < JOB_NEPILOGUES; e++)
        CHECK(mt_overlap_takes_epilogue(&job.problem, false, job_epilogues[e]) == (job_epilogues[e] == MT_OP_add), "%s",
              mt_op_info[job_epilogues[e]].name);
    CHECK(!mt_overlap_takes_epilogue(&job.problem, true, MT_OP_add), "a transposed result");
    if (n > FEW && number / JOB_NFORMS % 3) return;
    for (job.problem.mix = 0; job.problem.mix < (job.problem.direct ? 1 : 3); job.problem.mix++)
        if (n == 2 || job.problem.mix == sum->problem.mix || job.problem.direct)
            test_epilogue(comm, &job, MT_OP_add, number, n);
}

int main(int argc, char **argv) {
    struct world world = world_open(&argc, &argv);
    for (int number = 0; number < JOB_NFORMS * JOB_NTYPES; number++) {
        struct job job;
        job_init(&job, world.n, number, seed);
        test_job(world.comm, &job, &mt_backend_c, number, world.n);
        if (job.problem.form != MT_OVERLAP_GATHER) {
            test_sum(world.comm, &job, number, world.n);
            continue;
        }
        test_gather(world.comm, &job, number, world.n);
        job_join(&job);
        test_job(world.comm, &job, &mt_backend_c, number, world.n);
    }
    test_silence(world.comm, world.rank, world.n);
    world_close(&world);
    return 0;
}
