/* All ranks measure, over one communicator; rank 0 writes the document. */
#include "launcher/profile/cluster.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/base/file.h"
#include "kernels/base/log.h"
#include "kernels/base/working.h"
#include "kernels/base/wait.h"
#include "launcher/flags/files.h"
#include "launcher/session/agree.h"
#include "launcher/profile/job.h"
#include "launcher/session/rank_device.h"
#include "launcher/session/session.h"
#include "profiler/cluster/tables.h"
#include "profiler/profile.h"
#include "synth/models/model.h"

static const double layers_fraction = 0.6; /* of the budget, if layers of jobs are measured */

/* Check before measuring: the models exist, and the results can be written. */
static enum mt_status check_request(const struct mt_profile_cluster_options *options, struct mt_err *err) {
    struct mt_files files = {0};
    struct mt_model model;
    for (int m = 0; m < options->nmodels; m++) {
        enum mt_status st = mt_model_parse(options->models[m], &model, err);
        if (st) return st;
    }
    mt_files_writes(&files, "--out", options->out, MT_CLUSTER_FORMAT);
    mt_files_writes(&files, "--raw", options->raw, NULL);
    mt_files_writes(&files, "--json", options->output.path, MT_TABLES_FORMAT);
    return mt_files_check(&files, err);
}

static enum mt_status write_results(const struct mt_profile_cluster_options *options, struct mt_cluster *cluster,
                                    const char *raw, struct mt_err *err) {
    enum mt_status st = mt_cluster_write(cluster, options->out, err);
    if (!st && options->raw) st = mt_file_replace(options->raw, raw, strlen(raw), err);
    if (st) return st;
    struct mt_tables doc = MT_TABLES_INIT;
    mt_cluster_tables(cluster, &doc);
    st = mt_output_end(&options->output, &doc, err);
    mt_tables_release(&doc);
    if (st) return st;
    mt_log(MT_LOG_INFO, "written: %s%s%s", options->out, options->raw ? " and " : "", options->raw ? options->raw : "");
    return MT_OK;
}

/* The layers of the jobs that will run here. */
static enum mt_status measure_layers(const struct mt_profile_cluster_options *options, struct mt_device *device,
                                     double budget_s, struct mt_cluster *cluster, struct mt_err *err) {
    struct mt_profile_job_times times = {0}; /* of all models */
    enum mt_status st = MT_OK;
    for (int m = 0; m < options->nmodels && !st; m++) {
        const struct mt_profile_job_probe probe = {
            .model = options->models[m], .job = &options->job, .budget_s = budget_s / options->nmodels};
        mt_watch_phase(MT_WATCH_SLOW, "measuring the layers of %s", options->models[m]);
        mt_log(MT_LOG_INFO, "the layers of %s", options->models[m]);
        st = mt_profile_job(MPI_COMM_WORLD, device, &probe, &times, err);
    }
    if (!st) st = mt_profile_job_apply(MPI_COMM_WORLD, &times, cluster, err);
    mt_profile_job_times_release(&times);
    return st;
}

static double measuring_s, begin_s; /* the budget of measuring, of which the line of progress tells what is left */

static void report_phase(const char *what) {
    double spent_s = mt_now_s() - begin_s;
    mt_watch_phase(MT_WATCH_QUICK, "measuring %s", what);
    mt_working(spent_s < measuring_s ? spent_s : measuring_s, measuring_s, "%s", what);
}

struct resources {
    struct mt_device *device;
    struct mt_comm *comm, *wire; /* wire: null on CPUs, where `comm` is used */
    double speed;                /* the emulated fraction; 1: not emulated */
};

static enum mt_status open_resources(const struct mt_profile_cluster_options *options, int rank,
                                     struct resources *resources, struct mt_err *err) {
    enum mt_status st = mt_comm_mpi_new(&(MPI_Comm){MPI_COMM_WORLD}, &resources->comm, err);
    if ((st = mt_agree(MPI_COMM_WORLD, st, err))) return st;
    if ((st = mt_rank_device_open(MPI_COMM_WORLD, options->device, &resources->device, err))) return st;
    st = mt_emulation_apply(&options->emulation, rank, resources->device, &resources->speed, err);
    if ((st = mt_agree(MPI_COMM_WORLD, st, err))) return st;
    if (!strcmp(options->device, "cpu")) return MT_OK;
    return mt_rank_wire_open(MPI_COMM_WORLD, options->device, options->deadline_s, &resources->wire, err);
}

static void close_resources(struct resources *resources) {
    mt_comm_free(resources->wire);
    mt_device_close(resources->device);
    mt_comm_free(resources->comm);
}

/* The largest message of the jobs that will run here: all gradients of a model at once, in one bucket. 0: there is no
 * model. Rank 0, which has checked the models, tells the others. */
static enum mt_status largest_message(const struct mt_profile_cluster_options *options, int rank, int64_t *bytes,
                                      struct mt_err *err) {
    enum mt_status st = MT_OK;
    *bytes = 0;
    for (int m = 0; m < options->nmodels && !rank && !st; m++) {
        struct mt_model model;
        struct mt_graph *graph;
        if ((st = mt_model_parse(options->models[m], &model, err)) ||
            (st = mt_model_graph(&model, options->job.precision, 1, 0, 0, &graph, err)))
            break;
        int64_t all = mt_graph_parameters(graph) * mt_type_size(mt_type_acc(options->job.precision));
        if (all > *bytes) *bytes = all;
        mt_graph_free(graph);
    }
    MPI_Bcast(bytes, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
    return mt_agree_rank0(MPI_COMM_WORLD, st, err);
}

static enum mt_status measure(const struct mt_profile_cluster_options *options, const struct resources *resources,
                              struct mt_cluster **cluster, char **raw, struct mt_err *err) {
    double layers_s = options->nmodels ? layers_fraction * options->budget_s : 0;
    int64_t largest_bytes;
    int rank = resources->comm->rank;
    enum mt_status st = largest_message(options, rank, &largest_bytes, err);
    if (st) return st;
    const struct mt_profile_options probes = {.device = resources->device,
                                              .wire = resources->wire,
                                              .budget_s = options->budget_s - layers_s,
                                              .emulate = resources->speed,
                                              .deadline_s = options->deadline_s,
                                              .largest_bytes = largest_bytes,
                                              .progress = report_phase};
    measuring_s = probes.budget_s;
    begin_s = mt_now_s();
    mt_working_begin("measuring");
    st = mt_profile_run(resources->comm, &probes, cluster, options->raw ? raw : NULL, err);
    mt_working_end();
    mt_watch_phase(MT_WATCH_SLOW, "the cluster's document");
    if (st == MT_ESTALL || st == MT_EPEER) mt_session_abort(err); /* peers may not answer */
    st = mt_agree(MPI_COMM_WORLD, st, err);
    return st || !options->nmodels ? st : measure_layers(options, resources->device, layers_s, *cluster, err);
}

enum mt_status mt_profile_cluster(const struct mt_profile_cluster_options *options, struct mt_err *err) {
    int rank, nranks;
    struct resources resources = {0};
    struct mt_cluster *cluster = NULL;
    char *raw = NULL;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    enum mt_status st = mt_emulation_check(&options->emulation, nranks, options->device, err);
    if ((st = mt_agree(MPI_COMM_WORLD, st, err))) return st;
    if ((st = mt_agree_rank0(MPI_COMM_WORLD, rank ? MT_OK : check_request(options, err), err))) return st;
    st = open_resources(options, rank, &resources, err);
    if (!st) st = measure(options, &resources, &cluster, &raw, err);
    if (!st) st = mt_agree_rank0(MPI_COMM_WORLD, rank ? MT_OK : write_results(options, cluster, raw, err), err);
    mt_cluster_free(cluster);
    free(raw);
    close_resources(&resources);
    return st;
}
