/* Dividing GPUs among the ranks of a host. Ranks agree on every failure before any of them waits in NCCL. */
#include "launcher/session/rank_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/arena.h"
#include "kernels/device/device.h"
#include "launcher/session/agree.h"

static bool is_gpu(const char *kind) {
    return !strcmp(kind, "cuda");
}

/* ---- a host's GPUs ---- */

struct visible_gpus {
    int count;
    unsigned char identities[MT_MOST_GPUS][sizeof((struct mt_gpu *)0)->identity];
};

static struct visible_gpus visible_gpus_of(const struct mt_gpus *gpus) {
    struct visible_gpus seen = {.count = gpus->count < MT_MOST_GPUS ? gpus->count : MT_MOST_GPUS};
    for (int g = 0; g < seen.count; g++) memcpy(seen.identities[g], gpus->gpus[g].identity, sizeof *seen.identities);
    return seen;
}

static enum mt_status fail_few(int nranks, const struct visible_gpus *seen, struct mt_err *err) {
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    mt_fail(err, MT_EMISSING, "%d rank%s of %s see%s %d GPU%s%s%s%s, and each takes one of its own", nranks,
            nranks == 1 ? "" : "s", mt_agree_host(), nranks == 1 ? "s" : "", seen->count, seen->count == 1 ? "" : "s",
            visible ? " (CUDA_VISIBLE_DEVICES is \"" : "", visible ? visible : "", visible ? "\")" : "");
    return mt_err_hint(err,
                       seen->count ? "start at most %d rank%s there, with a plan for as many; or show them more in "
                                     "CUDA_VISIBLE_DEVICES"
                                   : "see whether `nvidia-smi -L` lists GPUs there, and what "
                                     "CUDA_VISIBLE_DEVICES hides",
                       seen->count, seen->count == 1 ? "" : "s");
}

enum mt_status mt_rank_gpu(MPI_Comm host, const struct mt_gpus *gpus, int *index, struct mt_err *err) {
    int me, n, same = 0;
    MPI_Comm_rank(host, &me);
    MPI_Comm_size(host, &n);
    struct visible_gpus mine = visible_gpus_of(gpus), *all = mt_calloc((size_t)n, sizeof *all);
    MPI_Allgather(&mine, (int)sizeof mine, MPI_BYTE, all, (int)sizeof mine, MPI_BYTE, host);
    int *index_of = mt_calloc((size_t)n, sizeof *index_of); /* among the ranks that see the same GPUs */
    for (int r = 0; r < n; r++) {
        for (int q = 0; q < r; q++) index_of[r] += !memcmp(&all[q], &all[r], sizeof *all);
        same += !memcmp(&all[r], &mine, sizeof mine);
    }
    enum mt_status st = MT_OK;
    *index = index_of[me];
    if (*index >= mine.count) st = fail_few(same, &mine, err);
    for (int r = 0; r < n && !st; r++)
        if (r != me && index_of[r] < all[r].count &&
            !memcmp(all[r].identities[index_of[r]], mine.identities[*index], sizeof *mine.identities)) {
            st = mt_fail(err, MT_EINPUT, "two ranks of %s would share a GPU: %s at %s", mt_agree_host(),
                         gpus->gpus[*index].name, gpus->gpus[*index].address);
            mt_err_hint(err,
                        "CUDA_VISIBLE_DEVICES differs between ranks, and overlaps: show all of them the same GPUs, "
                        "or each its own");
        }
    free(all);
    free(index_of);
    return st;
}

/* ---- opening ---- */

static enum mt_status find_gpu(MPI_Comm comm, bool used, struct mt_gpus *gpus, int *index, struct mt_err *err) {
    int rank;
    MPI_Comm host;
    MPI_Comm_rank(comm, &rank);
    struct mt_err ignored = MT_ERR_INIT;
    enum mt_status st = mt_gpus_query(gpus, used ? err : &ignored);
    if (st && !used) {
        *gpus = (struct mt_gpus){.count = 0};
        st = MT_OK;
    }
    if (st) {
        mt_err_context(err, "--device cuda");
        if (!err->hint[0])
            mt_err_hint(err, "it takes an NVIDIA driver, and a GPU for each rank of a host; without, train with "
                             "--device cpu");
    }
    if ((st = mt_agree(comm, st, err))) return st;
    MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &host);
    st = mt_rank_gpu(host, gpus, index, used ? err : &ignored);
    MPI_Comm_free(&host);
    if (st && used) mt_err_context(err, "--device cuda");
    return mt_agree(comm, used ? st : MT_OK, err);
}

enum mt_status mt_rank_device_choose(MPI_Comm comm, const char *kind, bool used, struct mt_rank_device *choice,
                                     struct mt_err *err) {
    *choice = (struct mt_rank_device){.index = 0};
    snprintf(choice->kind, sizeof choice->kind, "%s", kind);
    enum mt_status st = mt_agree_same(comm, "the kind of device", kind, err);
    if (st && err->text[0])
        mt_err_hint(err, "CPUs and GPUs do not train together: give all ranks the same --device, and start none where "
                         "there is none");
    if (st || !is_gpu(kind)) return st;
    return find_gpu(comm, used, &choice->gpus, &choice->index, err);
}

enum mt_status mt_rank_device_take(MPI_Comm comm, const struct mt_rank_device *choice, struct mt_device **device,
                                   struct mt_err *err) {
    char name[48];
    bool gpu = is_gpu(choice->kind);
    enum mt_status st;
    snprintf(name, sizeof name, "%s", choice->kind);
    if (gpu) {
        st = mt_agree_same(comm, "the version of NCCL", mt_gpus_version(&choice->gpus, "NCCL"), err);
        if (st == MT_EINPUT && err->text[0] && !err->hint[0])
            mt_err_hint(err,
                        "install one, or set LD_LIBRARY_PATH to the same on all hosts (mpirun -x LD_LIBRARY_PATH); "
                        "`motley doctor --device cuda` says which file each rank has loaded");
        if (st) return st;
        mt_agree_note(comm, "the GPUs' driver", choice->gpus.driver);
        snprintf(name, sizeof name, "cuda:%d", choice->index);
    }
    st = mt_device_open(name, device, err);
    if (st && gpu) mt_err_context(err, "--device cuda");
    return mt_agree(comm, st, err);
}

enum mt_status mt_rank_device_open(MPI_Comm comm, const char *kind, struct mt_device **device, struct mt_err *err) {
    struct mt_rank_device choice;
    enum mt_status st = mt_rank_device_choose(comm, kind, true, &choice, err);
    return st ? st : mt_rank_device_take(comm, &choice, device, err);
}

enum mt_status mt_rank_wire_open(MPI_Comm comm, const char *kind, double deadline_s, struct mt_comm **wire,
                                 struct mt_err *err) {
    int rank, nranks;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &nranks);
    if (!is_gpu(kind) || nranks == 1) return mt_agree(comm, mt_comm_mpi_new(&comm, wire, err), err);
    char id[MT_COMM_NCCL_ID_BYTES] = {0};
    enum mt_status st = mt_agree(comm, rank ? MT_OK : mt_comm_nccl_id(id, err), err);
    if (st) return st;
    MPI_Bcast(id, sizeof id, MPI_BYTE, 0, comm);
    *wire = NULL;
    st = mt_agree(comm, mt_comm_nccl_new(id, rank, nranks, deadline_s, wire, err), err);
    return st ? st : mt_agree(comm, mt_comm_mpi_new(&comm, &(*wire)->host, err), err);
}
