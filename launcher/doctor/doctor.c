/* Collecting what a rank observes of its host and of the job's files. */
#include "launcher/doctor/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "kernels/base/arena.h"
#include "kernels/base/file.h"
#include "kernels/base/number/hash.h"
#include "kernels/device/device.h"
#include "launcher/flags/data_flags.h"
#include "launcher/flags/files.h"
#include "launcher/session/agree.h"
#include "launcher/watch/watch.h"
#include "planner/lp/lp.h"
#include "profiler/measure/topology.h"

/* ---- the host ---- */

static void observe_modules(struct mt_doctor_rank *r) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_lp lp = MT_LP_INIT;
    struct mt_lp_solution solution;
    if (!mt_backend_onednn(&err)) snprintf(r->onednn, sizeof r->onednn, "%.250s", err.text);
    mt_lp_col(&lp, "x", 0, 1, 1, false);
    mt_lp_set(&lp, mt_lp_row(&lp, "x", 0, 1), 0, 1);
    if (mt_lp_solve(&lp, 10, &solution, &err)) snprintf(r->glpk, sizeof r->glpk, "%.250s", err.text);
    mt_lp_release(&lp);
}

static enum mt_status observe_host(struct mt_doctor_rank *r, struct mt_err *err) {
    struct mt_topology topology;
    struct mt_device *device;
    struct rlimit files;
    struct statvfs shared;
    const char *threads = getenv("OMP_NUM_THREADS"), *grace = getenv("OMPI_MCA_odls_base_sigkill_timeout");
    enum mt_status st;
    if ((st = mt_topology_read(NULL, NULL, &topology, err)) || (st = mt_device_open("cpu", &device, err))) return st;
    r->room_bytes = mt_device_memory_bytes(device);
    st = mt_alike_describe(device, r->device, err);
    mt_device_close(device);
    if (st) return st;
    r->mask = topology.set;
    r->cores = topology.mask_cores;
    r->host_cores = topology.cores;
    r->omp_threads = threads ? atoi(threads) : 0;
    r->shared_bytes = statvfs("/dev/shm", &shared) ? -1 : (int64_t)shared.f_bavail * (int64_t)shared.f_frsize;
    r->files =
        getrlimit(RLIMIT_NOFILE, &files) || files.rlim_max == RLIM_INFINITY ? INT64_MAX : (int64_t)files.rlim_max;
    r->grace_s = !getenv("OMPI_COMM_WORLD_SIZE") ? -1 : grace ? atof(grace) : 1;
    r->slurm = getenv("SLURM_JOB_ID") != NULL;
    observe_modules(r);
    return MT_OK;
}

static double wall_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* The offset of each rank's clock from rank 0's: rank 0 asks each in turn, and uses the answer with the shortest round
 * trip. */
static void compare_clocks(int rank, int n, struct mt_doctor_rank *mine) {
    enum { TRIES = 8 };
    double result[2] = {0, 0};
    for (int to = 1; to < n; to++) {
        double best[2] = {0, INFINITY};
        for (int i = 0; i < TRIES && (rank == 0 || rank == to); i++) {
            double theirs = wall_s(), sent_s = theirs;
            if (rank == to) {
                MPI_Recv(&sent_s, 1, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                theirs = wall_s();
                MPI_Send(&theirs, 1, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD);
                continue;
            }
            MPI_Send(&sent_s, 1, MPI_DOUBLE, to, 0, MPI_COMM_WORLD);
            MPI_Recv(&theirs, 1, MPI_DOUBLE, to, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            double took_s = wall_s() - sent_s;
            if (took_s / 2 < best[1]) best[0] = theirs - sent_s - took_s / 2, best[1] = took_s / 2;
        }
        if (!rank) MPI_Send(best, 2, MPI_DOUBLE, to, 1, MPI_COMM_WORLD);
        if (rank == to) MPI_Recv(result, 2, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    mine->clock_s = result[0], mine->clock_error_s = result[1];
}

/* ---- the job's files ---- */

static void observe_plan(const char *path, struct mt_doctor_rank *r, struct mt_plan **plan) {
    struct mt_err err = MT_ERR_INIT;
    r->plan.read = !mt_plan_read(path, plan, &err);
    snprintf(r->plan.text, sizeof r->plan.text, "%.250s", r->plan.read ? (*plan)->hash : err.text);
}

/* Add a file's bytes to the hash; false, with the reason, if it cannot be read. */
static bool read_data(const char *path, struct mt_hasher *hasher, int64_t *size_bytes, struct mt_doctor_file *data) {
    enum { PIECE = 1 << 20 };
    FILE *f = fopen(path, "re");
    char *piece = mt_malloc(PIECE);
    int64_t size = 0;
    for (size_t got; f && (got = fread(piece, 1, PIECE, f)) > 0; size += (int64_t)got) {
        mt_hasher_add(hasher, piece, got);
        mt_watch_progress();
    }
    bool read = f && !ferror(f) && size > 0;
    const char *why = f && !ferror(f) ? "is empty" : strerror(errno);
    if (!read) snprintf(data->text, sizeof data->text, "%.150s: %.90s", path, why);
    if (f) fclose(f);
    free(piece);
    *size_bytes += size;
    return read;
}

/* The files of --data, or of --val. */
static void observe_files(const char *flag, const char *const *texts, int n, struct mt_hasher *hasher,
                          int64_t *size_bytes, struct mt_doctor_file *data) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_err err = MT_ERR_INIT;
    struct mt_data_spec spec;
    for (int i = 0; i < n && data->read; i++) {
        data->read = !mt_data_spec_parse(flag, texts[i], &arena, &spec, &err);
        if (!data->read) snprintf(data->text, sizeof data->text, "%.250s", err.text);
        for (int f = 0; f < spec.nfiles && data->read; f++)
            data->read = read_data(spec.files[f], hasher, size_bytes, data);
    }
    mt_arena_release(&arena);
}

static void observe_data(const struct mt_data_files *files, struct mt_doctor_rank *r) {
    struct mt_hasher *hasher = mt_hasher_new();
    int64_t size = 0;
    r->data.read = true;
    observe_files("--data", files->data, files->ndata, hasher, &size, &r->data);
    observe_files("--val", files->val, files->nval, hasher, &size, &r->data);
    const char *tokenizer = files->reading.tokenizer;
    char path[PATH_MAX];
    if (tokenizer && r->data.read) {
        snprintf(path, sizeof path, "%s%s", tokenizer, mt_is_folder(tokenizer) ? "/tokenizer.json" : "");
        r->data.read = read_data(path, hasher, &size, &r->data);
    }
    uint64_t hash = mt_hasher_end(hasher);
    if (r->data.read)
        snprintf(r->data.text, sizeof r->data.text, "%lld bytes, %016llx", (long long)size, (unsigned long long)hash);
}

static const char trial_name[] = ".motley-doctor";

/* A trial file in the folder, or in the folder that it will be made in. */
static void trial_path(const char *out, char *path, size_t size) {
    struct stat about;
    char parent[4096];
    snprintf(parent, sizeof parent, "%s", out);
    for (size_t n = strlen(parent); n > 1 && parent[n - 1] == '/'; n--) parent[n - 1] = 0;
    char *slash = strrchr(parent, '/');
    if (stat(out, &about) && errno == ENOENT) {
        if (slash && slash != parent)
            *slash = 0;
        else
            strcpy(parent, slash ? "/" : ".");
    }
    snprintf(path, size, "%s/%s", parent, trial_name);
}

/* Write some MiB as a checkpoint is written. The file stays, so that other ranks can look for it. */
static void try_out(const char *path, struct mt_doctor_out *out) {
    enum { PIECE = 1 << 20, PIECES = 8 };
    struct statvfs about;
    unlink(path); /* left by a run that was killed, or a link that somebody made */
    int fd = open(path, O_CREAT | O_EXCL | O_NOFOLLOW | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0) {
        out->refused = errno;
        return;
    }
    if (!fstatvfs(fd, &about)) out->free_bytes = (int64_t)about.f_bavail * (int64_t)about.f_frsize;
    if (flock(fd, LOCK_EX | LOCK_NB)) snprintf(out->lock, sizeof out->lock, "%s", strerror(errno));
    char *piece = mt_calloc(1, PIECE);
    double start_s = mt_now_s();
    ssize_t n = 0, written = 0;
    while (written < (ssize_t)PIECES * PIECE && (n = write(fd, piece, PIECE)) > 0)
        written += n; /* n: less before it is full */
    if (n < 0 || fsync(fd)) out->refused = errno;
    out->write_Bps = (double)written / (mt_now_s() - start_s);
    free(piece);
    close(fd);
}

static void observe_out(bool leads, const char *folder, struct mt_doctor_rank *mine, struct mt_doctor_out *out) {
    char path[4200];
    struct stat about;
    trial_path(folder, path, sizeof path);
    mt_watch_phase(MT_WATCH_SLOW, "writing to %.80s", folder);
    if (leads) try_out(path, out);
    MPI_Barrier(MPI_COMM_WORLD);
    mine->sees_out = !stat(path, &about);
    MPI_Barrier(MPI_COMM_WORLD);
    if (leads) unlink(path);
}

/* ---- all of it ---- */

/* Who is who in the plan, and who writes. Collective; each rank by its own copy of the plan, rank 0's says who writes.
 */
static void match_plan(struct mt_doctor *d, struct mt_doctor_rank *mine) {
    enum { HOST = sizeof mine->host };
    char *names = mt_malloc((size_t)d->nranks * HOST);
    const char **hosts = mt_malloc((size_t)d->nranks * sizeof *hosts);
    int *rank_of = mt_malloc((size_t)d->nranks * sizeof *rank_of);
    struct mt_err ignored = MT_ERR_INIT;
    MPI_Allgather(mine->host, HOST, MPI_CHAR, names, HOST, MPI_CHAR, MPI_COMM_WORLD);
    for (int r = 0; r < d->nranks; r++) hosts[r] = names + (size_t)r * HOST;
    if (d->plan && !mt_plan_match(d->plan, d->nranks, hosts, rank_of, &ignored)) {
        d->plan_rank = rank_of;
        for (int r = 0; r < d->nranks; r++)
            if (rank_of[r] == d->plan->order[0]) d->leader = r;
    } else {
        free(rank_of);
    }
    MPI_Bcast(&d->leader, 1, MPI_INT, 0, MPI_COMM_WORLD);
    free(hosts);
    free(names);
}

static enum mt_status check_files(const struct mt_doctor_options *options, struct mt_err *err) {
    struct mt_files files = {0};
    mt_files_reads(&files, NULL, options->plan);
    mt_data_flags_files(options->data, &files);
    mt_files_writes(&files, "--json", options->output.path, MT_TABLES_FORMAT);
    return mt_files_check(&files, err);
}

enum mt_status mt_doctor_run(const struct mt_doctor_options *options, int *failures, struct mt_err *err) {
    struct mt_doctor d = {.options = options};
    struct mt_doctor_rank mine = {.host = ""};
    int rank, length;
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &d.nranks);
    MPI_Get_library_version(version, &length);
    version[strcspn(version, ",\n")] = 0;
    snprintf(mine.host, sizeof mine.host, "%.63s", mt_agree_host());
    snprintf(mine.motley, sizeof mine.motley, "%s", MOTLEY_VERSION);
    snprintf(mine.mpi, sizeof mine.mpi, "%.63s", version);
    mt_watch_phase(MT_WATCH_SLOW, "examining the host");
    enum mt_status st = rank ? MT_OK : check_files(options, err);
    if (!st) st = observe_host(&mine, err);
    if ((st = mt_agree(MPI_COMM_WORLD, st, err))) return st;
    if (doctor_on_gpus(&d)) {
        mt_watch_phase(MT_WATCH_SLOW, "examining GPUs");
        mt_doctor_observe_gpus(&mine);
    }
    mt_watch_phase(MT_WATCH_SLOW, "comparing clocks");
    compare_clocks(rank, d.nranks, &mine);
    mt_watch_phase(MT_WATCH_SLOW, "reading the plan and the data");
    if (options->plan) observe_plan(options->plan, &mine, &d.plan);
    if (options->data->ndata) observe_data(options->data, &mine);
    match_plan(&d, &mine);
    observe_out(rank == d.leader, options->out ? options->out : ".", &mine, &d.out);
    MPI_Bcast(&d.out, sizeof d.out, MPI_BYTE, d.leader, MPI_COMM_WORLD);
    mt_watch_phase(MT_WATCH_SLOW, "testing the network");
    if (!(st = mt_doctor_network(MPI_COMM_WORLD, &mine, err))) {
        d.ranks = rank ? NULL : mt_malloc((size_t)d.nranks * sizeof *d.ranks);
        MPI_Gather(&mine, (int)sizeof mine, MPI_BYTE, d.ranks, (int)sizeof mine, MPI_BYTE, 0, MPI_COMM_WORLD);
        if (!rank) {
            struct mt_tables doc = MT_TABLES_INIT;
            mt_doctor_judge(&d, &doc);
            st = mt_output_end(&options->output, &doc, err);
            mt_tables_release(&doc);
        }
        MPI_Bcast(&d.failures, 1, MPI_INT, 0, MPI_COMM_WORLD);
        *failures = d.failures;
        free(d.ranks);
    }
    free(d.plan_rank);
    mt_plan_free(d.plan);
    return st;
}
