#include "launcher/tune/tuning.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/base/working.h"
#include "kernels/base/number/hash.h"
#include "kernels/base/log.h"
#include "kernels/base/wait.h"
#include "kernels/device/device.h"
#include "kernels/device/facts.h"
#include "kernels/overlap/wave.h"
#include "launcher/session/agree.h"
#include "launcher/watch/watch.h"

struct tuning {
    MPI_Comm comm, class; /* all ranks; those of this rank's class */
    struct mt_device *device;
    const struct mt_tuner *tuner; /* null: none */
    struct mt_tuning_report *report;
    const char **keys; /* [report->ncalls] */
    int capacity, keys_capacity;
};

void mt_tuning_report_release(struct mt_tuning_report *report) {
    mt_arena_release(&report->arena);
    *report = (struct mt_tuning_report){.calls = NULL};
}

/* ---- which calls there are ---- */

/* The call as the executor will make it, with addresses relative to the arena's start, which is aligned. Values outside
 * the arena (the shape that a fill gets) have none. */
static struct mt_call call_of(const struct mt_lowered *low, int i, struct mt_tensor tensors[MT_MAX_IN + MT_MAX_OUT]) {
    const struct mt_linstr *c = &low->instrs[i];
    for (int k = 0; k < c->nin + c->nout; k++) {
        int value = k < c->nin ? c->in[k] : c->out[k - c->nin];
        int64_t offset_bytes = value >= 0 ? low->values[value].offset_bytes : -1;
        tensors[k] = c->tensor[k];
        bool placed = offset_bytes >= 0 && mt_tensor_count(&tensors[k]) > 0;
        tensors[k].data = placed ? (void *)(uintptr_t)(4096 + offset_bytes) : NULL;
    }
    return mt_linstr_call(c, tensors);
}

static bool has_work(const struct mt_call *call) {
    for (int o = 0; o < call->nout; o++)
        if (mt_tensor_count(&call->out[o])) return true;
    return false;
}

/* `gemm`: of a chunk; or null. */
static void add_call(struct tuning *t, const struct mt_lowered *low, int instr, const struct mt_overlap_gemm *gemm,
                     int64_t runs) {
    struct mt_tuning_report *r = t->report;
    struct mt_tensor tensors[MT_MAX_IN + MT_MAX_OUT];
    struct mt_call call = gemm ? gemm->call : call_of(low, instr, tensors);
    char key[MT_TUNING_KEY];
    if (!has_work(&call) || !mt_device_backend(t->device, &call)->supports(&call)) return;
    t->tuner->key(t->device, &call, key);
    for (int i = 0; i < r->ncalls; i++)
        if (r->calls[i].lowered == low && !strcmp(t->keys[i], key)) {
            r->calls[i].runs += runs;
            return;
        }
    mt_arena_grow(&r->arena, &r->calls, r->ncalls, &t->capacity, sizeof *r->calls);
    mt_arena_grow(&r->arena, &t->keys, r->ncalls, &t->keys_capacity, sizeof *t->keys);
    t->keys[r->ncalls] = mt_arena_strdup(&r->arena, key);
    struct mt_overlap_gemm *kept = NULL;
    if (gemm) {
        kept = mt_new(&r->arena, struct mt_overlap_gemm, 1);
        *kept = *gemm;
        kept->call.attr = &kept->attr, kept->call.in = kept->in, kept->call.out = kept->out;
        kept->call.what = low->instrs[instr].name;
    }
    r->calls[r->ncalls++] = (struct mt_tuned_call){.lowered = low, .instr = instr, .gemm = kept, .runs = runs};
}

/* The GEMMs of an overlapped instruction that runs by chunks, as this device cuts them. */
static void add_chunks(struct tuning *t, const struct mt_lowered *low, int instr, int64_t runs) {
    const struct mt_linstr *c = &low->instrs[instr];
    const struct mt_loverlap *o = c->overlap;
    const bool transposed[3] = {o->trans_a, o->trans_b, o->trans_out};
    const int operands[5] = {c->in[0], c->in[1], c->out[0], mt_linstr_extra(c), mt_linstr_pre(c)};
    int64_t at[5] = {0};
    struct mt_overlap_chunks chunks;
    struct mt_device_facts facts;
    if (o->problem.how == MT_OVERLAP_FUSED || !o->schedule) return;
    for (int k = 0; k < 5; k++)
        if (operands[k] >= 0 && low->values[operands[k]].offset_bytes >= 0)
            at[k] = low->values[operands[k]].offset_bytes;
    mt_device_facts(t->device, &facts);
    int64_t rows = o->problem.how == MT_OVERLAP_NCCL ? mt_overlap_common_rows(&o->problem)
                   : o->problem.ngroups              ? 1
                                                     : mt_overlap_chunk_rows(&o->problem, o->me, facts.computing);
    mt_overlap_chunks_make(o->schedule, rows, &chunks);
    if (o->problem.how != MT_OVERLAP_NCCL) mt_overlap_chunks_add(&o->problem, o->me, o->trans_out, &chunks);
    for (int i = 0; i < chunks.nchunks; i++) {
        struct mt_overlap_gemm gemm;
        if (mt_overlap_chunk_gemm(&o->problem, o->me, transposed, c->attr.epilogue, at, &chunks.chunks[i], &gemm))
            add_call(t, low, instr, &gemm, runs);
    }
    mt_overlap_chunks_release(&chunks);
}

static void list_calls(struct tuning *t, const struct mt_lowered *low) {
    for (int b = 0; b < MT_NBLOCKS; b++)
        for (int i = low->block_begin[b]; i < low->block_begin[b + 1]; i++)
            if (b != MT_BODY || low->body_count > 0) {
                int64_t runs = b == MT_BODY ? low->body_count : 1;
                if (low->instrs[i].what == MT_LOWERED_OP) add_call(t, low, i, NULL, runs);
                if (low->instrs[i].what == MT_LOWERED_OVERLAP) add_chunks(t, low, i, runs);
            }
}

/* Look up all calls; returns how many are not tuned yet. */
static int look_up(struct tuning *t) {
    int unknown = 0;
    for (int i = 0; i < t->report->ncalls; i++) {
        struct mt_tuned_call *c = &t->report->calls[i];
        c->known = t->tuner->find(t->device, t->keys[i], &c->tuning);
        unknown += !c->known;
    }
    return unknown;
}

/* ---- between ranks ---- */

/* All ranks' bytes, concatenated; (*starts)[r] is the offset of rank r's. The caller frees both. */
static char *gather(MPI_Comm comm, const void *mine, size_t size_bytes, int **starts, int *n) {
    int size = (int)size_bytes;
    MPI_Comm_size(comm, n);
    int *sizes = mt_malloc((size_t)*n * sizeof *sizes);
    *starts = mt_calloc((size_t)*n + 1, sizeof **starts);
    MPI_Allgather(&size, 1, MPI_INT, sizes, 1, MPI_INT, comm);
    for (int r = 0; r < *n; r++) (*starts)[r + 1] = (*starts)[r] + sizes[r];
    char *all = mt_malloc((size_t)(*starts)[*n] + 1);
    MPI_Allgatherv(mine, size, MPI_BYTE, all, sizes, *starts, MPI_BYTE, comm);
    free(sizes);
    return all;
}

static bool all_equal(MPI_Comm comm, uint64_t mine) {
    uint64_t both[2] = {mine, ~mine}; /* the largest, and the smallest's complement */
    MPI_Allreduce(MPI_IN_PLACE, both, 2, MPI_UINT64_T, MPI_MAX, comm);
    return both[0] == ~both[1];
}

/* Give all results of the class to all its ranks. */
static enum mt_status exchange(const struct tuning *t, struct mt_err *err) {
    if (all_equal(t->class, t->tuner->hash(t->device))) return MT_OK;
    size_t length;
    int *starts, n;
    char *mine = t->tuner->export(t->device, &length), *all = gather(t->class, mine, length, &starts, &n);
    const char **texts = mt_malloc((size_t)n * sizeof *texts);
    size_t *lengths = mt_malloc((size_t)n * sizeof *lengths);
    for (int r = 0; r < n; r++) texts[r] = all + starts[r], lengths[r] = (size_t)(starts[r + 1] - starts[r]);
    enum mt_status st = t->tuner->import(t->device, n, texts, lengths, err);
    free(lengths);
    free(texts);
    free(all);
    free(starts);
    free(mine);
    return st;
}

/* Exchange until all ranks of the class have equal tables. A concurrent job may write to the same tuning file, so that
 * one rank reads a result during an exchange that another has not read; a further exchange brings it to all. */
static enum mt_status exchange_until_equal(const struct tuning *t, struct mt_err *err) {
    enum { ROUNDS = 8 };
    enum mt_status st = MT_OK;
    for (int i = 0; i < ROUNDS; i++) {
        struct mt_err later = MT_ERR_INIT;
        enum mt_status here = exchange(t, st ? &later : err);
        if (!st) st = here;
    }
    if (!all_equal(t->class, t->tuner->hash(t->device)) && !st)
        st = mt_fail(err, MT_ESYSTEM, "the tuned kernels of ranks with the same kind of device differ");
    return st;
}

/* ---- dividing the work ---- */

struct claim {
    uint64_t call;
    int rank;
};

static int by_call(const void *a, const void *b) {
    const struct claim *x = a, *y = b;
    if (x->call != y->call) return x->call < y->call ? -1 : 1;
    return x->rank - y->rank;
}

static uint64_t hash_of(const char *key) {
    return mt_hash64(key, strlen(key), 0);
}

/* Assign each unknown call to the least loaded of the ranks that have it. mine[ncalls]: whether it is this rank's. */
static void divide(const struct tuning *t, bool *mine) {
    const struct mt_tuning_report *r = t->report;
    struct claim *claims = mt_calloc((size_t)r->ncalls + 1, sizeof *claims);
    int *starts, n, me, count = 0;
    MPI_Comm_rank(t->class, &me);
    for (int i = 0; i < r->ncalls; i++)
        if (!r->calls[i].known) claims[count++] = (struct claim){hash_of(t->keys[i]), me};
    struct claim *all = (struct claim *)gather(t->class, claims, (size_t)count * sizeof *claims, &starts, &n);
    int total = starts[n] / (int)sizeof *all;
    int *load = mt_calloc((size_t)n, sizeof *load);
    qsort(all, (size_t)total, sizeof *all, by_call);
    for (int i = 0, next; i < total; i = next) {
        int best = all[i].rank;
        for (next = i; next < total && all[next].call == all[i].call; next++)
            if (load[all[next].rank] < load[best]) best = all[next].rank;
        load[best]++;
        for (int c = 0; c < r->ncalls && best == me; c++)
            mine[c] = mine[c] || (!r->calls[c].known && hash_of(t->keys[c]) == all[i].call);
    }
    free(load);
    free(all);
    free(starts);
    free(claims);
}

static enum mt_status measure(const struct tuning *t, const bool *mine, struct mt_err *err) {
    struct mt_stream *stream;
    enum mt_status st = mt_stream_new(t->device, "compute", &stream, err);
    if (st) return st;
    int all = 0;
    for (int i = 0; i < t->report->ncalls; i++) all += mine[i];
    mt_working_begin("tuning kernels");
    for (int i = 0; i < t->report->ncalls; i++) {
        const struct mt_tuned_call *c = &t->report->calls[i];
        struct mt_tensor tensors[MT_MAX_IN + MT_MAX_OUT];
        struct mt_call call = c->gemm ? c->gemm->call : call_of(c->lowered, c->instr, tensors);
        struct mt_err failed = MT_ERR_INIT;
        if (!mine[i]) continue;
        mt_working(t->report->nmeasured, all, "%s", call.what);
        if (t->tuner->tune(stream, &call, &failed)) mt_log(MT_LOG_WARN, "%s: %s", call.what, failed.text);
        t->report->nmeasured++;
        mt_watch_progress();
    }
    mt_working_end();
    mt_stream_free(stream);
    return MT_OK;
}

/* Tune the calls of this rank's class together. Status and text are this rank's own. */
static enum mt_status tune_class(struct tuning *t, const struct mt_lowered *const *lowered, int count,
                                 struct mt_err *err) {
    enum mt_status st = exchange(t, err);
    for (int l = 0; l < count; l++)
        if (lowered[l]) list_calls(t, lowered[l]);
    bool *mine = mt_calloc((size_t)t->report->ncalls + 1, sizeof *mine);
    int unknown = look_up(t);
    MPI_Allreduce(MPI_IN_PLACE, &unknown, 1, MPI_INT, MPI_SUM, t->class);
    if (unknown) {
        mt_watch_phase(MT_WATCH_SLOW, "tuning kernels");
        divide(t, mine);
        if (!st) st = measure(t, mine, err);
    }
    struct mt_err later = MT_ERR_INIT;
    enum mt_status exchanged = exchange_until_equal(t, st ? &later : err);
    if (!st) st = exchanged;
    look_up(t);
    free(mine);
    return st;
}

enum mt_status mt_tuning_share(MPI_Comm comm, struct mt_device *device, const struct mt_lowered *const *lowered,
                               int count, struct mt_tuning_report *report, struct mt_err *err) {
    struct mt_tuning_report own = {.calls = NULL};
    struct tuning t = {.comm = comm, .device = device, .tuner = mt_device_tuner(device), .report = report};
    const char *wanted = getenv("MOTLEY_TUNE");
    char class[MT_TUNING_KEY] = "";
    double start_s = mt_now_s();
    int rank, n;
    if (!report) t.report = &own;
    enum mt_status st = mt_agree_same(comm, "MOTLEY_TUNE", wanted && *wanted ? wanted : "on", err);
    if (st) return st;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &n);
    if (t.tuner) t.tuner->class(device, class);
    uint64_t hash = hash_of(class), *hashes = mt_malloc((size_t)n * sizeof *hashes);
    MPI_Allgather(&hash, 1, MPI_UINT64_T, hashes, 1, MPI_UINT64_T, comm);
    int first = 0;
    while (hashes[first] != hash) first++;
    free(hashes);
    MPI_Comm_split(comm, t.tuner ? first : MPI_UNDEFINED, rank, &t.class);
    if (t.tuner) st = tune_class(&t, lowered, count, err);
    if (t.tuner) MPI_Comm_free(&t.class);
    t.report->time_s = mt_now_s() - start_s;
    mt_tuning_report_release(&own);
    return mt_agree(comm, st, err);
}
