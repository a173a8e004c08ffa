#include "launcher/tune/alike.h"

#include <stdlib.h>
#include <string.h>

#include "launcher/session/agree.h"
#include "profiler/measure/topology.h"

enum { TEXT_BYTES = 384 };

static enum mt_status describe(struct mt_device *device, char text[TEXT_BYTES], struct mt_err *err) {
    struct mt_topology topology = {.model = ""};
    int all, computing = mt_device_multiprocessors(device, &all);
    enum mt_status st = all ? MT_OK : mt_topology_read(NULL, NULL, &topology, err);
    if (all)
        snprintf(text, TEXT_BYTES, "%s, of which %d compute", mt_device_describe(device), computing);
    else
        snprintf(text, TEXT_BYTES, "%s, caches of %lld and %lld KiB, %s", topology.model,
                 (long long)topology.l2_bytes >> 10, (long long)topology.l3_bytes >> 10, mt_device_describe(device));
    return st;
}

/* The first two that should be alike and are not. */
static bool find_differing(const struct mt_program *p, const char (*texts)[TEXT_BYTES], int *one, int *other) {
    for (*other = 1; *other < p->nranks; ++*other)
        for (*one = 0; *one < *other; ++*one)
            if (p->alike[*one] == p->alike[*other] && strcmp(texts[*one], texts[*other]) != 0) return true;
    return false;
}

enum mt_status mt_alike_check(MPI_Comm comm, struct mt_device *device, const struct mt_program *p, struct mt_err *err) {
    char mine[TEXT_BYTES] = "";
    int one, other;
    if (!p->needs_alike) return MT_OK;
    enum mt_status st = mt_agree(comm, describe(device, mine, err), err);
    if (st) return st;
    char(*texts)[TEXT_BYTES] = mt_calloc((size_t)p->nranks, sizeof *texts);
    MPI_Allgather(mine, TEXT_BYTES, MPI_CHAR, texts, TEXT_BYTES, MPI_CHAR, comm);
    if (find_differing(p, (const char(*)[TEXT_BYTES])texts, &one, &other)) {
        st = mt_fail(err, MT_EINPUT,
                     "ranks %d and %d are of one class in the plan, and each computes gradients of its own replica of "
                     "parameters; but one is \"%s\" and the other \"%s\", so that replicas would drift apart",
                     mt_agree_rank_name(comm, one), mt_agree_rank_name(comm, other), texts[one], texts[other]);
        mt_err_hint(err, "profile these devices and plan for them, or plan with --strategy data");
    }
    free(texts);
    return mt_agree_rank0(comm, st, err);
}
