/* Windows on devices: each rank allocates its part and tells the others its handle through a window in the host's
 * memory, which stays: its barriers order the making and the freeing of parts, and it carries news of failures. */
#include "kernels/device/window.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/arena.h"
#include "kernels/base/log.h"
#include "kernels/comm/comm.h"
#include "kernels/device/class.h"
#include "kernels/overlap/chunk.h"

/* What a rank tells the others, at the begin of its part of the host's window. */
struct card {
    int64_t status;
    bool exports, lacks_atomics;
    char handle[MT_DEVICE_HANDLE_BYTES], text[440];
};

struct parts {
    struct mt_device *device;
    int rank;
    bool imported;     /* those of others are to be forgotten */
    atomic_int *users; /* of local windows, whose parts are one allocation; else null */
    void *own;         /* what was allocated */
};

char *mt_device_window_part(const struct mt_window *window, int rank) {
    const struct mt_window_memory *memory = mt_window_attached(window);
    return memory ? memory->part[rank] : NULL;
}

void *mt_device_window_ptr(const struct mt_window *window, int64_t at, int rank) {
    if (!mt_window_attached(window)) return mt_window_ptr(window, at, rank);
    char *part = mt_device_window_part(window, rank);
    return part ? part + at : NULL;
}

enum mt_status mt_device_window_has(const struct mt_window *window, const int *ranks, int n, const int *names,
                                    struct mt_err *err) {
    int me = mt_window_rank(window), nranks = mt_window_nranks(window);
    for (int i = 0; i < n; i++) {
        if (ranks[i] >= 0 && ranks[i] < nranks) continue;
        mt_fail(err, MT_EINPUT, "rank %d is to put into the memory of rank %d, but there are %d ranks",
                names ? names[me] : me, ranks[i], nranks);
        return mt_err_hint(err, "start as many ranks as the program has, or plan for %d", nranks);
    }
    return MT_OK;
}

enum mt_status mt_device_window_reaches(const struct mt_window *window, const int *ranks, int n, const int *names,
                                        struct mt_err *err) {
    int me = mt_window_rank(window);
    enum mt_status st = mt_device_window_has(window, ranks, n, names, err);
    if (st) return st;
    for (int i = 0; i < n && mt_window_attached(window); i++) {
        if (mt_device_window_part(window, ranks[i])) continue;
        mt_fail(err, MT_EINPUT, "rank %d cannot reach the memory of rank %d", names ? names[me] : me,
                names ? names[ranks[i]] : ranks[i]);
        return mt_err_hint(
            err, "ranks put into each other's memory where GPUs of one host have access to each other: measure "
                 "there, or plan with --overlap none");
    }
    return MT_OK;
}

bool mt_device_overlaps(struct mt_device *device, const struct mt_overlap *problem, int me) {
    if (problem->how == MT_OVERLAP_ANY) return true;
    return device->class->overlaps && device->class->overlaps(device, problem, me);
}

static int64_t scratch_of(void *device, const struct mt_call *call) {
    const struct mt_backend *backend = mt_device_backend(device, call);
    return backend->scratch_bytes ? backend->scratch_bytes(call) : 0;
}

int64_t mt_device_overlap_scratch_bytes(struct mt_device *device, const struct mt_overlap *problem, int me,
                                        enum mt_op_kind epilogue) {
    return (device->class->export_memory ? mt_overlap_chunks_scratch_bytes
                                         : mt_overlap_scratch_bytes)(problem, me, epilogue, scratch_of, device);
}

static enum mt_status zero(struct mt_device *device, void *memory, int64_t size_bytes, struct mt_err *err) {
    enum { BLOCK = 1 << 20 };
    char *zeros = mt_calloc(1, BLOCK);
    enum mt_status st = mt_device_repeat(device, memory, size_bytes, zeros, BLOCK, err);
    free(zeros);
    return st;
}

/* ---- freeing ---- */

static void forget_others(struct mt_window_memory *memory, const struct parts *parts, int nranks) {
    for (int r = 0; r < nranks && parts->imported; r++)
        if (r != parts->rank) mt_device_forget(parts->device, memory->part[r]);
}

static void release(struct mt_window *window, struct mt_window_memory *memory) {
    struct parts *parts = memory->context;
    struct mt_err ignored = MT_ERR_INIT;
    bool last = true;
    forget_others(memory, parts, mt_window_nranks(window));
    if (parts->users) {
        last = atomic_fetch_sub(parts->users, 1) == 1;
        if (last) free(parts->users);
    } else if (!mt_window_failed(window)) {
        mt_window_barrier(window, &ignored); /* the others have forgotten this rank's */
    }
    /* After a failure others may still write to it: then it goes with the process. */
    if (last && !mt_window_failed(window)) mt_device_free(parts->device, parts->own);
    free(memory->part);
    free(parts);
    free(memory);
}

static struct mt_window_memory *attach(struct mt_window *window, struct mt_device *device, int64_t size_bytes) {
    struct mt_window_memory *memory = mt_calloc(1, sizeof *memory);
    struct parts *parts = mt_calloc(1, sizeof *parts);
    *parts = (struct parts){.device = device, .rank = mt_window_rank(window)};
    *memory = (struct mt_window_memory){.part = mt_calloc((size_t)mt_window_nranks(window), sizeof(char *)),
                                        .size_bytes = size_bytes,
                                        .release = release,
                                        .context = parts};
    mt_window_attach(window, memory);
    return memory;
}

/* ---- making ---- */

static enum mt_status allocate(struct mt_window *window, struct mt_window_memory *memory, struct card *card,
                               struct mt_err *err) {
    struct parts *parts = memory->context;
    enum mt_status st = mt_device_alloc(parts->device, memory->size_bytes, &parts->own, err);
    if (st) return mt_err_context(err, "a window of %lld bytes", (long long)memory->size_bytes);
    memory->part[mt_window_rank(window)] = parts->own;
    if ((st = zero(parts->device, parts->own, memory->size_bytes, err))) return st;
    if (mt_window_nranks(window) == 1) return MT_OK;
    /* Of a failure the others of this host learn when they import. */
    if (mt_device_export(parts->device, parts->own, card->handle, err)) {
        mt_log(MT_LOG_INFO, "a window in this GPU's memory is not for others: %s", err->text);
        *err = (struct mt_err)MT_ERR_INIT;
        return MT_OK;
    }
    card->exports = true;
    return MT_OK;
}

/* All ranks fail with the first failure. */
static enum mt_status agree(struct mt_window *window, struct card *mine, enum mt_status made, struct mt_err *err) {
    struct mt_err ignored = MT_ERR_INIT;
    int me = mt_window_rank(window), n = mt_window_nranks(window);
    mine->status = made;
    snprintf(mine->text, sizeof mine->text, "%.439s", made ? err->text : "");
    memcpy(mt_window_ptr(window, 0, me), mine, sizeof *mine);
    enum mt_status st = mt_window_barrier(window, made ? &ignored : err);
    for (int r = 0; r < n && !st && !made; r++) {
        struct card other;
        st = mt_window_get(window, &other, 0, sizeof other, r, err);
        if (st || !other.status) continue;
        st = mt_fail(err, (enum mt_status)other.status, "rank %d: %.439s", mt_window_name(window, r), other.text);
    }
    struct mt_err *last = made || st ? &ignored : err;
    enum mt_status after = mt_window_failed(window) ? MT_OK : mt_window_barrier(window, last); /* all have read it */
    return made ? made : st ? st : after;
}

static enum mt_status import(struct mt_window *window, struct mt_window_memory *memory, struct card *mine,
                             struct mt_err *err) {
    struct parts *parts = memory->context;
    bool (*adds_to)(struct mt_device *, const void *) = parts->device->class->adds_to;
    int n = mt_window_nranks(window);
    parts->imported = true;
    for (int r = 0; r < n; r++) {
        const struct card *card = mt_window_ptr(window, 0, r);
        void *part;
        if (r == parts->rank || !card) continue;
        enum mt_status st = card->exports ? mt_device_import(parts->device, card->handle, &part, err)
                                          : mt_fail(err, MT_EMISSING, "it is not exported");
        if (st) {
            mt_err_context(err, "%s: reaching the memory of rank %d's GPU", mt_device_describe(parts->device),
                           mt_window_name(window, r));
            return err->status = MT_EMISSING;
        }
        memory->part[r] = part;
        mine->lacks_atomics |= adds_to && !adds_to(parts->device, part);
    }
    return MT_OK;
}

/* Where one rank cannot reach another of its host, all ranks give up what they reach, so that all take the same
 * implementation. */
static enum mt_status reach(struct mt_window *window, struct mt_window_memory *memory, struct card *card,
                            struct mt_err *err) {
    struct parts *parts = memory->context;
    enum mt_status st = agree(window, card, import(window, memory, card, err), err);
    for (int r = 0; r < mt_window_nranks(window) && !st; r++) {
        const struct card *other = mt_window_ptr(window, 0, r);
        memory->lacks_atomics |= other && other->lacks_atomics;
    }
    if (st != MT_EMISSING) return st;
    forget_others(memory, parts, mt_window_nranks(window));
    for (int r = 0; r < mt_window_nranks(window); r++)
        if (r != parts->rank) memory->part[r] = NULL;
    mt_log(MT_LOG_INFO, "ranks do not put into each other's memory, but send messages: %s", err->text);
    *err = (struct mt_err)MT_ERR_INIT;
    return MT_OK;
}

enum mt_status mt_device_window_new(struct mt_device *device, struct mt_comm *comm, int64_t size_bytes,
                                    double deadline_s, struct mt_window **window, struct mt_err *err) {
    bool shares = device->class->export_memory != NULL;
    struct mt_comm *host = comm->host ? comm->host : comm;
    int *node = mt_calloc((size_t)host->nranks, sizeof *node);
    struct mt_window *w = NULL;
    struct card card = {0};
    enum mt_status st = mt_window_hosts(host, deadline_s, node, err);
    if (!st) st = mt_window_new(host, node, shares ? (int64_t)sizeof card : size_bytes, deadline_s, &w, err);
    free(node);
    if (!st && shares) {
        struct mt_window_memory *memory = attach(w, device, size_bytes);
        st = agree(w, &card, allocate(w, memory, &card, err), err);
        if (!st) st = reach(w, memory, &card, err);
    }
    if (st && w) mt_window_free(w);
    *window = st ? NULL : w;
    return st;
}

enum mt_status mt_device_window_local(struct mt_device *device, int nranks, int64_t size_bytes, double deadline_s,
                                      struct mt_window **windows, struct mt_err *err) {
    int64_t part_bytes = (size_bytes + 4095) / 4096 * 4096;
    void *all;
    enum mt_status st = mt_device_alloc(device, nranks * part_bytes, &all, err);
    if (st) return st;
    if ((st = zero(device, all, nranks * part_bytes, err))) {
        mt_device_free(device, all);
        return st;
    }
    atomic_int *users = mt_malloc(sizeof *users);
    atomic_init(users, nranks);
    mt_window_local_new(nranks, 8, deadline_s, windows);
    for (int r = 0; r < nranks; r++) {
        struct mt_window_memory *memory = attach(windows[r], device, size_bytes);
        struct parts *parts = memory->context;
        parts->users = users, parts->own = all;
        for (int peer = 0; peer < nranks; peer++) memory->part[peer] = (char *)all + peer * part_bytes;
    }
    return MT_OK;
}
