/* One communicator for all that is measured; rank 0 writes. */
#include "launcher/profile/cluster.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/base/file.h"
#include "kernels/base/log.h"
#include "launcher/session/agree.h"
#include "launcher/profile/job.h"
#include "launcher/session/rank_device.h"
#include "launcher/session/session.h"
#include "profiler/profile.h"
#include "synth/models/model.h"

static const double jobs_part = 0.6; /* of the budget: for the layers of jobs, where there are any */

/* Before anything is measured: whether there are such models, and the results could be written. */
static enum mt_status check_request(const struct mt_profile_flags *flags, struct mt_err *err) {
    const char *paths[] = {flags->out, flags->raw};
    struct mt_model model;
    for (int m = 0; m < flags->nmodels; m++) {
        enum mt_status st = mt_model_parse(flags->models[m], &model, err);
        if (st) return st;
    }
    for (int i = 0; i < 2; i++) {
        if (!paths[i]) continue;
        enum mt_status st = mt_file_writable(paths[i], err);
        if (st) return st;
    }
    return MT_OK;
}

static enum mt_status write_results(const struct mt_profile_flags *flags, struct mt_cluster *cluster, const char *raw,
                                    struct mt_err *err) {
    enum mt_status st = mt_cluster_write(cluster, flags->out, err);
    if (!st && flags->raw) st = mt_file_replace(flags->raw, raw, strlen(raw), err);
    if (st) return st;
    mt_cluster_print(cluster, stdout);
    fflush(stdout);
    mt_log(MT_LOG_INFO, "written: %s%s%s", flags->out, flags->raw ? " and " : "", flags->raw ? flags->raw : "");
    return MT_OK;
}

/* The layers of the jobs that will run here. */
static enum mt_status measure_jobs(const struct mt_profile_flags *flags, struct mt_device *device, double budget_s,
                                   struct mt_cluster *cluster, struct mt_err *err) {
    struct mt_job_times times = {0}; /* of all of them */
    enum mt_status st = MT_OK;
    for (int m = 0; m < flags->nmodels && !st; m++) {
        const struct mt_job_probe probe = {
            .model = flags->models[m], .job = &flags->job, .budget_s = budget_s / flags->nmodels};
        mt_watch_phase(MT_WATCH_SLOW, "measuring the layers of %s", flags->models[m]);
        mt_log(MT_LOG_INFO, "the layers of %s", flags->models[m]);
        st = mt_job_measure(MPI_COMM_WORLD, device, &probe, &times, err);
    }
    if (!st) st = mt_job_apply(MPI_COMM_WORLD, &times, cluster, err);
    mt_job_times_release(&times);
    return st;
}

static void tell(const char *what) {
    mt_watch_phase(MT_WATCH_QUICK, "measuring %s", what);
}

/* What every rank measures with. */
struct means {
    struct mt_device *device;
    struct mt_comm *comm, *wire; /* wire: null where it is `comm` */
    double speed;                /* that is emulated; 1: its own */
};

static enum mt_status open_means(const struct mt_profile_flags *flags, int rank, struct means *means,
                                 struct mt_err *err) {
    enum mt_status st = mt_comm_mpi_new(&(MPI_Comm){MPI_COMM_WORLD}, &means->comm, err);
    if ((st = mt_agree(MPI_COMM_WORLD, st, err))) return st;
    if ((st = mt_rank_device_open(MPI_COMM_WORLD, flags->device, &means->device, err))) return st;
    st = mt_emulation_apply(&flags->emulation, rank, means->device, &means->speed, err);
    if ((st = mt_agree(MPI_COMM_WORLD, st, err))) return st;
    if (!strcmp(flags->device, "cpu")) return MT_OK;
    return mt_rank_wire_open(MPI_COMM_WORLD, flags->device, flags->deadline_s, &means->wire, err);
}

static void close_means(struct means *means) {
    mt_comm_free(means->wire);
    mt_device_close(means->device);
    mt_comm_free(means->comm);
}

static enum mt_status measure(const struct mt_profile_flags *flags, const struct means *means,
                              struct mt_cluster **cluster, char **raw, struct mt_err *err) {
    double jobs_s = flags->nmodels ? jobs_part * flags->budget_s : 0;
    const struct mt_profile_options options = {.device = means->device,
                                               .wire = means->wire,
                                               .budget_s = flags->budget_s - jobs_s,
                                               .emulate = means->speed,
                                               .deadline_s = flags->deadline_s,
                                               .progress = tell};
    enum mt_status st = mt_profile_run(means->comm, &options, cluster, flags->raw ? raw : NULL, err);
    mt_watch_phase(MT_WATCH_SLOW, "the cluster's document");
    if (st == MT_ESTALL || st == MT_EPEER) mt_session_abort(err); /* peers may not answer */
    st = mt_agree(MPI_COMM_WORLD, st, err);
    return st || !flags->nmodels ? st : measure_jobs(flags, means->device, jobs_s, *cluster, err);
}

enum mt_status mt_profile(const struct mt_profile_flags *flags, struct mt_err *err) {
    int rank, nranks;
    struct means means = {0};
    struct mt_cluster *cluster = NULL;
    char *raw = NULL;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    enum mt_status st = mt_emulation_check(&flags->emulation, nranks, flags->device, err);
    if ((st = mt_agree(MPI_COMM_WORLD, st, err))) return st;
    if ((st = mt_agree_rank0(MPI_COMM_WORLD, rank ? MT_OK : check_request(flags, err), err))) return st;
    st = open_means(flags, rank, &means, err);
    if (!st) st = measure(flags, &means, &cluster, &raw, err);
    if (!st) st = mt_agree_rank0(MPI_COMM_WORLD, rank ? MT_OK : write_results(flags, cluster, raw, err), err);
    mt_cluster_free(cluster);
    free(raw);
    close_means(&means);
    return st;
}
