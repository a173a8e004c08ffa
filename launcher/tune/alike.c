#include "launcher/tune/alike.h"

#include <stdlib.h>
#include <string.h>

#include "launcher/session/agree.h"
#include "profiler/measure/topology.h"

enum mt_status mt_alike_describe(struct mt_device *device, char *text, struct mt_err *err) {
    struct mt_topology topology = {.model = ""};
    const char *own = mt_device_describe(device);
    int all, computing = mt_device_multiprocessors(device, &all), length = mt_device_describe_length(device);
    enum mt_status st = all ? MT_OK : mt_topology_read(NULL, NULL, &topology, err);
    if (all)
        snprintf(text, MT_ALIKE_TEXT, "%.*s, of which %d compute", length, own, computing);
    else
        snprintf(text, MT_ALIKE_TEXT, "%s, caches of %lld and %lld KiB, %.*s", topology.model,
                 (long long)topology.l2_bytes >> 10, (long long)topology.l3_bytes >> 10, length, own);
    return st;
}

bool mt_alike_differ(const struct mt_program *p, const char *const *texts, int *one, int *other) {
    if (!p->needs_alike) return false;
    for (*other = 1; *other < p->nranks; ++*other)
        for (*one = 0; *one < *other; ++*one)
            if (p->alike[*one] == p->alike[*other] && strcmp(texts[*one], texts[*other]) != 0) return true;
    return false;
}

enum mt_status mt_alike_refuse(const char *const *texts, int one, int other, int one_name, int other_name,
                               struct mt_err *err) {
    mt_fail(err, MT_EINPUT,
            "ranks %d and %d are of one class in the plan, and each computes gradients of its own replica of "
            "parameters; but one is \"%s\" and the other \"%s\", so that replicas would drift apart",
            one_name, other_name, texts[one], texts[other]);
    return mt_err_hint(err, "profile these devices and plan for them, or plan with --strategy data");
}

enum mt_status mt_alike_check(MPI_Comm comm, struct mt_device *device, const struct mt_program *p, struct mt_err *err) {
    char mine[MT_ALIKE_TEXT] = "";
    int one, other;
    if (!p->needs_alike) return MT_OK;
    enum mt_status st = mt_agree(comm, mt_alike_describe(device, mine, err), err);
    if (st) return st;
    char *all = mt_calloc((size_t)p->nranks, MT_ALIKE_TEXT);
    const char **texts = mt_calloc((size_t)p->nranks, sizeof *texts);
    MPI_Allgather(mine, MT_ALIKE_TEXT, MPI_CHAR, all, MT_ALIKE_TEXT, MPI_CHAR, comm);
    for (int r = 0; r < p->nranks; r++) texts[r] = all + (size_t)r * MT_ALIKE_TEXT;
    if (mt_alike_differ(p, texts, &one, &other))
        st = mt_alike_refuse(texts, one, other, mt_agree_rank_name(comm, one), mt_agree_rank_name(comm, other), err);
    free(texts);
    free(all);
    return mt_agree_rank0(comm, st, err);
}
