/* How well operators' times add up to a step: a rehearsal's measured wall time against the sum of what curves say of
 * its operators, for numbers of samples that were not measured.
 *
 *     predict_ops [CLUSTER.json] [MODEL SAMPLES SECONDS]
 *
 * Curves are those of the job's own layers (measured first, for so many seconds), and, where a cluster document is
 * given, of the class of its first device. Run it alone: mpirun -n 1, or with several ranks, all at the same work. */
#include <mpi.h>
#include <unistd.h>

#include "kernels/base/number/stats.h"
#include "launcher/session/cores.h"
#include "launcher/profile/job.h"
#include "launcher/profile/synthetic.h"
#include "tests/check.h"
#include "tests/profiler/clusters.h"

static int rank, nranks;

static struct mt_cluster *blank_cluster(void) {
    struct mt_cluster *cluster = make_blank_cluster(nranks);
    cluster->classes[0].flops[MT_F32] = 1e11;
    return cluster;
}

static double predicted_s(const struct mt_lowered *low, const struct mt_cluster_class *class) {
    double sum = 0;
    for (int b = 0; b < MT_NBLOCKS; b++)
        for (int i = low->block_begin[b]; i < low->block_begin[b + 1]; i++) {
            if (low->instrs[i].what != MT_LOWERED_OP) continue;
            struct mt_op_shape shape = mt_synthetic_shape(&low->instrs[i]);
            sum += mt_class_op_s(class, &shape, NULL) * (b == MT_BODY ? (double)low->body_count : 1);
        }
    return sum;
}

/* By kind: measured against told. */
static double kind_s[MT_NOPS];

static void by_kind(void *context, const struct mt_lowered *low, int instr, int64_t iteration, double start_s,
                    double end_s) {
    (void)context, (void)iteration;
    if (low->instrs[instr].what == MT_LOWERED_OP) kind_s[low->instrs[instr].kind] += end_s - start_s;
}

static void print_kinds(const struct mt_lowered *low, const struct mt_cluster_class *class, int steps) {
    double told_s[MT_NOPS] = {0};
    for (int b = 0; b < MT_NBLOCKS; b++)
        for (int i = low->block_begin[b]; i < low->block_begin[b + 1]; i++) {
            if (low->instrs[i].what != MT_LOWERED_OP) continue;
            struct mt_op_shape shape = mt_synthetic_shape(&low->instrs[i]);
            told_s[shape.kind] += mt_class_op_s(class, &shape, NULL) * (b == MT_BODY ? (double)low->body_count : 1);
        }
    for (int k = 0; k < MT_NOPS; k++)
        if (kind_s[k] > 0)
            printf("      %-16s measured %9.3f ms, told %9.3f ms (%.3f)\n", mt_op_info[k].name, kind_s[k] / steps * 1e3,
                   told_s[k] * 1e3, told_s[k] / (kind_s[k] / steps));
}

static void try_size(struct mt_device *device, const char *model, const struct mt_job *job, int64_t batch,
                     int64_t micro, const struct mt_cluster_class *own, const struct mt_cluster_class *grid) {
    enum { MOST = 60 };
    struct mt_err err = MT_ERR_INIT;
    struct mt_synthetic r;
    double wall_s[MOST], compute_s[MOST], feed_s[MOST], start_s = mt_now_s();
    int steps = 0;
    CHECK_OK(mt_synthetic_open(device, model, job, batch, micro, &r, &err), err);
    CHECK_OK(mt_synthetic_start(&r, &err), err);
    memset(kind_s, 0, sizeof kind_s);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = -2; i < MOST && (i < 5 || mt_now_s() - start_s < 5); i++) {
        struct mt_synthetic_times t;
        CHECK_OK(mt_synthetic_step(&r, i < 0 ? NULL : by_kind, NULL, &t, &err), err);
        if (i < 0) continue;
        wall_s[i] = t.run.wall_s, compute_s[i] = t.run.stream_s[MT_STREAM_COMPUTE], feed_s[i] = t.feed_s;
        steps = i + 1;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (!rank) {
        double wall = mt_median(wall_s, (size_t)steps), told = predicted_s(r.lowered, own);
        printf("  %3lld x %lld samples: %8.2f ms a step (operators %.4f, feeding %.4f of it); own curves %.3f",
               (long long)(batch / micro), (long long)micro, wall * 1e3, mt_median(compute_s, (size_t)steps) / wall,
               mt_median(feed_s, (size_t)steps) / wall, told / wall);
        if (grid) printf(", the grid's %.3f", predicted_s(r.lowered, grid) / wall);
        printf("\n");
        if (getenv("KINDS")) print_kinds(r.lowered, grid ? grid : own, steps);
    }
    mt_synthetic_close(&r);
}

static void try_model(struct mt_device *device, const char *model, int64_t most, double budget_s,
                      const struct mt_cluster_class *grid) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_job job;
    mt_job_default(&job);
    job.batch = most;
    struct mt_profile_job_probe probe = {.model = model, .job = &job, .budget_s = budget_s};
    struct mt_profile_job_times times = {0};
    struct mt_cluster *cluster = rank ? NULL : blank_cluster();
    if (!rank) printf("%s\n", model);
    CHECK_OK(mt_profile_job(MPI_COMM_WORLD, device, &probe, &times, &err), err);
    CHECK_OK(mt_profile_job_apply(MPI_COMM_WORLD, &times, cluster, &err), err);
    mt_profile_job_times_release(&times);
    for (int d = 0; d < nranks && !rank && nranks > 1; d++)
        printf("  rank %d: speed %.4f +- %.4f\n", d, cluster->devices[d].speed, cluster->devices[d].speed_error);
    const struct mt_cluster_class *own = rank ? NULL : &cluster->classes[0];
    for (int64_t size = 1; size <= most; size = size * 5 / 3 + 1) try_size(device, model, &job, size, size, own, grid);
    try_size(device, model, &job, most - most % 3, most / 3, own, grid);
    mt_cluster_free(cluster);
}

int main(int argc, char **argv) {
    static const struct {
        const char *model;
        int64_t most;
        double budget_s;
    } models[] = {{"mlp", 256, 10},
                  {"gpt2:layers=6,heads=6,embed=384,context=256,vocab=256", 24, 30},
                  {"gpt2:layers=10,heads=8,embed=512,context=256,vocab=256", 12, 40}};
    struct mt_err err = MT_ERR_INIT;
    struct mt_device *device;
    struct mt_cluster *cluster = NULL;
    int level, at = 1;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    mt_cores_divide(MPI_COMM_WORLD);
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc % 3 == 2) CHECK_OK(mt_cluster_read(argv[at++], &cluster, &err), err);
    CHECK_OK(mt_device_open("cpu", &device, &err), err);
    const struct mt_cluster_class *grid = cluster ? &cluster->classes[cluster->devices[0].class] : NULL;
    if (!rank) printf("%d rank%s, %s\n", nranks, nranks == 1 ? "" : "s", mt_device_describe(device));
    if (at < argc)
        for (; at + 2 < argc; at += 3) try_model(device, argv[at], atoll(argv[at + 1]), atof(argv[at + 2]), grid);
    else
        for (size_t m = 0; m < sizeof models / sizeof *models; m++)
            try_model(device, models[m].model, models[m].most, models[m].budget_s, grid);
    mt_cluster_free(cluster);
    mt_device_close(device);
    MPI_Finalize();
    return 0;
}
