/* From a kind of device to this rank's own, by its place on its host. */
#include "launcher/rank_device.h"

#include <stdio.h>
#include <string.h>

#include "launcher/agree.h"

enum mt_status mt_rank_device_kind(const char *text, const char **kind, struct mt_err *err) {
    static const char *const kinds[] = {"cpu", "cuda"};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        if (!strcmp(text, kinds[k])) {
            *kind = kinds[k];
            return MT_OK;
        }
    return mt_fail(err, MT_EINPUT, "--device: \"%.60s\" is not a kind of device (cpu, cuda)", text);
}

static bool on_gpu(const char *kind) {
    return !strcmp(kind, "cuda");
}

enum mt_status mt_rank_device_open(MPI_Comm comm, const char *kind, struct mt_device **device, struct mt_err *err) {
    char name[32];
    MPI_Comm host;
    int place, rank;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &host);
    MPI_Comm_rank(host, &place);
    MPI_Comm_free(&host);
    snprintf(name, sizeof name, on_gpu(kind) ? "%s:%d" : "%s", kind, place);
    enum mt_status st = mt_device_open(name, device, err);
    if (st && on_gpu(kind)) {
        mt_err_context(err, "--device cuda");
        if (!err->hint[0])
            mt_err_hint(err, "it takes an NVIDIA driver, and a GPU for each rank of a host; without, use --device cpu");
    }
    return mt_agree(comm, st, err);
}

enum mt_status mt_rank_wire_open(MPI_Comm comm, const char *kind, double deadline_s, struct mt_comm **wire,
                                 struct mt_err *err) {
    int rank, nranks;
    (void)deadline_s; /* NCCL has its own */
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &nranks);
    if (!on_gpu(kind) || nranks == 1) return mt_agree(comm, mt_comm_mpi_new(&comm, wire, err), err);
    char id[MT_COMM_NCCL_ID_BYTES] = {0};
    enum mt_status st = mt_agree(comm, rank ? MT_OK : mt_comm_nccl_id(id, err), err);
    if (st) return st;
    MPI_Bcast(id, sizeof id, MPI_BYTE, 0, comm);
    return mt_agree(comm, mt_comm_nccl_new(id, rank, nranks, wire, err), err);
}
