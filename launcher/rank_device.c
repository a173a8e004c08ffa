/* From a kind of device to this rank's own, by its place on its host. */
#include "launcher/rank_device.h"

#include <stdio.h>
#include <string.h>

#include "launcher/agree.h"

const char *const mt_device_kinds[] = {"cpu", "cuda", NULL};

enum mt_status mt_device_kind_parse(const char *flag, const char *text, const char **kind, struct mt_err *err) {
    for (int k = 0; mt_device_kinds[k]; k++) {
        if (strcmp(text, mt_device_kinds[k])) continue;
        *kind = mt_device_kinds[k];
        return MT_OK;
    }
    return mt_fail(err, MT_EINPUT, "%s: \"%.60s\" is not a kind of device (cpu, cuda)", flag, text);
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
    if (!st || !on_gpu(kind)) return st;
    mt_err_context(err, "--device cuda");
    if (err->hint[0]) return st;
    return mt_err_hint(err, "it takes an NVIDIA driver, and a GPU for each rank of a host; without, use --device cpu");
}

enum mt_status mt_rank_wire_open(MPI_Comm comm, const char *kind, struct mt_comm **wire, struct mt_err *err) {
    int rank, nranks;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &nranks);
    if (!on_gpu(kind) || nranks == 1) return mt_comm_mpi_new(&comm, wire, err);
    char id[MT_COMM_NCCL_ID_BYTES] = {0};
    enum mt_status st = mt_agree(comm, rank ? MT_OK : mt_comm_nccl_id(id, err), err);
    if (st) return st;
    MPI_Bcast(id, sizeof id, MPI_BYTE, 0, comm);
    return mt_comm_nccl_new(id, rank, nranks, wire, err);
}
