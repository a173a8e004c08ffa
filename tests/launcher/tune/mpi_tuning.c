/* Tuning shared between ranks, with devices that are made up: each call is measured once in a class of devices, by a
 * rank that has it; all ranks of a class end with the same results, the lower rank's where two files differed; other
 * classes keep to themselves; the second time nothing is measured.
 *
 * ranks: 1 2 3 4 */
#include <mpi.h>

#include "kernels/device/class.h"
#include "planner/make/make.h"
#include "planner/plan/planned.h"
#include "launcher/tune/tuning.h"
#include "tests/check.h"
#include "tests/kernels/device/made_up.h"

enum { MOST = 400, LINE = MT_TUNING_KEY + 16 };

static int rank, nranks;
static bool two_classes;

/* The synthetic device's results, and how often it measured. */
static struct {
    char key[MT_TUNING_KEY];
    int by; /* the rank that measured it */
} kept[MOST];
static int nkept, nmeasured;

static void class_of(struct mt_device *device, char text[MT_TUNING_KEY]) {
    (void)device;
    snprintf(text, MT_TUNING_KEY, "GPU %c", two_classes && rank % 2 ? 'b' : 'a');
}

static void key_of(struct mt_device *device, const struct mt_call *call, char text[MT_TUNING_KEY]) {
    class_of(device, text);
    size_t used = strlen(text);
    used += (size_t)snprintf(text + used, MT_TUNING_KEY - used, " %s", mt_op_info[call->kind].name);
    for (int i = 0; i < call->nin; i++)
        used += (size_t)snprintf(text + used, MT_TUNING_KEY - used, " %lld", (long long)mt_tensor_count(&call->in[i]));
}

static int place_of(const char *key) {
    int i = 0;
    while (i < nkept && strcmp(kept[i].key, key)) i++;
    return i;
}

static void keep(const char *key, int by) {
    int i = place_of(key);
    CHECK(i < MOST);
    snprintf(kept[i].key, sizeof kept[i].key, "%.1000s", key);
    kept[i].by = by;
    if (i == nkept) nkept++;
}

static bool find(struct mt_device *device, const char *key, struct mt_tuning *tuning) {
    (void)device;
    int i = place_of(key);
    if (i < nkept) *tuning = (struct mt_tuning){.tuned_s = 1 + kept[i].by, .default_s = 10};
    return i < nkept;
}

static enum mt_status tune(struct mt_stream *stream, const struct mt_call *call, struct mt_err *err) {
    char key[MT_TUNING_KEY];
    (void)err;
    key_of(stream->device, call, key);
    CHECK(place_of(key) == nkept, "%s is measured again", key);
    keep(key, rank);
    nmeasured++;
    return MT_OK;
}

static char *export(struct mt_device *device, size_t *length) {
    char *text = calloc(MOST, LINE);
    (void)device;
    *length = 0;
    for (int i = 0; i < nkept; i++)
        *length += (size_t)snprintf(text + *length, LINE, "%s\t%d\n", kept[i].key, kept[i].by);
    return text;
}

/* The order of results does not matter. */
static uint64_t hash(struct mt_device *device) {
    uint64_t sum = 0;
    (void)device;
    for (int i = 0; i < nkept; i++) {
        uint64_t h = 1469598103934665603u + (uint64_t)kept[i].by;
        for (const char *c = kept[i].key; *c; c++) h = (h ^ (uint64_t)*c) * 1099511628211u;
        sum += h;
    }
    return sum;
}

static enum mt_status import(struct mt_device *device, int count, const char *const *texts, const size_t *lengths,
                             struct mt_err *err) {
    char class[MT_TUNING_KEY];
    class_of(device, class);
    for (int t = count - 1; t >= 0; t--) {
        char *copy = calloc(1, lengths[t] + 1);
        memcpy(copy, texts[t], lengths[t]);
        for (char *line = strtok(copy, "\n"); line; line = strtok(NULL, "\n")) {
            char *tab = strchr(line, '\t');
            CHECK(tab, "%s", line);
            *tab = 0;
            if (strncmp(line, class, strlen(class))) return mt_fail(err, MT_EINPUT, "another class: %s", line);
            keep(line, atoi(tab + 1));
        }
        free(copy);
    }
    return MT_OK;
}

static const struct mt_tuner tuner = {class_of, key_of, find, tune, export, hash, import};

static bool supports(const struct mt_call *call) {
    return call->kind != MT_OP_fill;
}
static const struct mt_backend backend = {"made up", supports, NULL, NULL};
static const struct mt_backend *backend_of(struct mt_device *device, const struct mt_call *call) {
    (void)device, (void)call;
    return &backend;
}
static const struct mt_device_class tuned_class = {
    .backend = backend_of, .stream_new = made_up_stream_new, .stream_free = made_up_stream_free, .tuner = &tuner};
static struct mt_device tuned = {.class = &tuned_class, .threads = 1}, plain = {.class = &(struct mt_device_class){0}};

static struct mt_lowered *lowered_of(struct mt_planned *planned, bool overlapped) {
    static struct mt_storage_row stored = {.pattern = "*", .state = MT_STATE_SPLIT};
    double speeds[4] = {1, 0.5, 1, 0.5};
    struct mt_plan_request request = {.model = "gpt2:layers=1,heads=2,embed=8,context=8,vocab=16",
                                      .nranks = nranks,
                                      .speeds = speeds,
                                      .fixed = {.decisions = mt_decisions_unset}};
    struct mt_err err = MT_ERR_INIT;
    struct mt_plan *plan;
    struct mt_lowered *low;
    mt_job_default(&request.job);
    request.job.batch = 12;
    if (overlapped) {
        request.fixed.decisions.storage = &stored, request.fixed.decisions.nstorage = 1;
        request.fixed.decisions.overlapped = MT_OVERLAPPED_ALL;
        request.fixed.decisions.bucket_bytes = 0;
    }
    CHECK_OK(mt_plan_make(&request, &plan, &err), err);
    CHECK_OK(mt_planned_open(plan, planned, &err), err);
    struct mt_lower_options options = {.fuse = true, .latency_s = 30e-6, .bandwidth_Bps = 1e9};
    CHECK_OK(mt_lower(&planned->program, rank, &options, &low, &err), err);
    mt_plan_free(plan);
    return low;
}

/* Every rank's number. */
static void gather(int mine, int all[4]) {
    MPI_Allgather(&mine, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD);
}

static bool same_class(int a, int b) {
    return !two_classes || a % 2 == b % 2;
}

static void share(const struct mt_lowered *low, struct mt_tuning_report *report) {
    struct mt_err err = MT_ERR_INIT;
    *report = (struct mt_tuning_report){.calls = NULL};
    CHECK_OK(mt_tuning_share(MPI_COMM_WORLD, &tuned, (const struct mt_lowered *const[]){low, NULL}, 2, report, &err),
             err);
}

static void test_shared(const struct mt_lowered *low) {
    struct mt_tuning_report report;
    int measured[4], tables[4];
    nkept = nmeasured = 0;
    share(low, &report);
    CHECK(report.ncalls > 10, "%d", report.ncalls);
    CHECK_EQ(report.nmeasured, nmeasured);
    for (int i = 0; i < report.ncalls; i++) CHECK(report.calls[i].known && report.calls[i].runs > 0);
    gather(nmeasured, measured), gather(nkept, tables);
    int all = 0, fewest = MOST, most = 0;
    for (int r = 0; r < nranks; r++) {
        if (!same_class(r, rank)) continue;
        CHECK_EQ(tables[r], nkept);
        all += measured[r];
        fewest = measured[r] < fewest ? measured[r] : fewest, most = measured[r] > most ? measured[r] : most;
    }
    CHECK_EQ(all, nkept); /* each once */
    CHECK(most - fewest <= nkept / 4 + 1, "%d to %d of %d", fewest, most, nkept);
    mt_tuning_report_release(&report);
    uint64_t before = hash(&tuned);
    nmeasured = 0;
    share(low, &report);
    CHECK_EQ(nmeasured, 0);
    CHECK(hash(&tuned) == before);
    mt_tuning_report_release(&report);
}

/* Files that differ: each rank comes with a result of its own for one key, and one for a key that it alone has. */
static void test_files(const struct mt_lowered *low) {
    struct mt_tuning_report report;
    char common[MT_TUNING_KEY], own[MT_TUNING_KEY + 16];
    class_of(&tuned, common);
    snprintf(own, sizeof own, "%.100s own %d", common, rank);
    strcat(common, " common");
    nkept = 0;
    keep(common, 100 + rank);
    keep(own, rank);
    share(low, &report);
    int first = rank;
    for (int r = rank; r >= 0; r--)
        if (same_class(r, rank)) first = r;
    CHECK_EQ(kept[place_of(common)].by, 100 + first);
    for (int r = 0; r < nranks; r++) {
        class_of(&tuned, common);
        snprintf(own, sizeof own, "%.100s own %d", common, r);
        CHECK_EQ(place_of(own) < nkept, same_class(r, rank));
    }
    mt_tuning_report_release(&report);
}

/* How many GEMMs the chunks of an overlapped instruction have; each has been tuned. */
static int tuned_gemms(const struct mt_linstr *c) {
    const struct mt_loverlap *o = c->overlap;
    const bool transposed[3] = {o->trans_a, o->trans_b, o->trans_out};
    struct mt_overlap_chunks chunks;
    int count = 0;
    mt_overlap_chunks_make(o->schedule, mt_overlap_chunk_rows(&o->problem, o->me, 0), &chunks);
    mt_overlap_chunks_add(&o->problem, o->me, o->trans_out, &chunks);
    for (int i = 0; i < chunks.nchunks; i++) {
        struct mt_overlap_gemm gemm;
        char key[MT_TUNING_KEY];
        if (!mt_overlap_chunk_gemm(&o->problem, o->me, transposed, c->attr.epilogue, (int64_t[5]){0}, &chunks.chunks[i],
                                   &gemm))
            continue;
        key_of(&tuned, &gemm.call, key);
        CHECK(place_of(key) < nkept, "%s: %s is not tuned", c->name, key);
        count++;
    }
    mt_overlap_chunks_release(&chunks);
    return count;
}

/* GEMMs of overlapped instructions are tuned before they run, too. */
static void test_overlapped(void) {
    struct mt_planned planned;
    struct mt_tuning_report report;
    struct mt_lowered *low = lowered_of(&planned, true);
    int gemms = 0;
    nkept = nmeasured = 0;
    share(low, &report);
    for (int i = 0; i < report.ncalls; i++) {
        const struct mt_tuned_call *c = &report.calls[i];
        CHECK(c->known && c->runs > 0, "call %d", i);
        CHECK_EQ(c->gemm != NULL, low->instrs[c->instr].what == MT_LOWERED_OVERLAP);
        if (c->gemm) CHECK_TEXT(c->gemm->call.what, low->instrs[c->instr].name);
    }
    for (int i = 0; i < low->ninstrs; i++)
        if (low->instrs[i].what == MT_LOWERED_OVERLAP) gemms += tuned_gemms(&low->instrs[i]);
    CHECK_EQ(gemms > 0, nranks > 1);
    mt_tuning_report_release(&report);
    mt_lowered_free(low);
    mt_planned_release(&planned);
}

/* One rank has another device: it takes part, and the others are a class without it. */
static void test_mixed(const struct mt_lowered *low) {
    struct mt_err err = MT_ERR_INIT;
    nkept = nmeasured = 0;
    struct mt_device *mine = rank == nranks - 1 ? &plain : &tuned;
    CHECK_OK(mt_tuning_share(MPI_COMM_WORLD, mine, (const struct mt_lowered *const[]){low}, 1, NULL, &err), err);
    CHECK_EQ(nkept > 0, rank < nranks - 1);
    setenv("MOTLEY_TUNE", rank ? "on" : "off", 1);
    enum mt_status st = mt_tuning_share(MPI_COMM_WORLD, mine, (const struct mt_lowered *const[]){low}, 1, NULL, &err);
    CHECK_EQ(st, nranks > 1 ? MT_EINPUT : MT_OK);
    unsetenv("MOTLEY_TUNE");
}

int main(int argc, char **argv) {
    struct mt_planned planned;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    struct mt_lowered *low = lowered_of(&planned, false);
    for (int classes = 1; classes <= 2; classes++) {
        two_classes = classes == 2;
        test_shared(low);
        test_files(low);
    }
    two_classes = false;
    test_overlapped();
    test_mixed(low);
    mt_lowered_free(low);
    mt_planned_release(&planned);
    MPI_Finalize();
    return 0;
}
