/* Sums of half types on GPUs: NCCL adds in the wire type, so messages are of that type, and partial sums of activations
 * are sent and received in their own tensors, without copies; on other devices they are converted to f32 and back. The
 * checker proves either, by its own options alone. */
#include "planner/make/make.h"
#include "planner/plan/planned.h"
#include "profiler/describe/describe.h"
#include "synth/check/check.h"
#include "tests/check.h"

static struct mt_err err = MT_ERR_INIT;
static struct mt_planned planned;
static struct mt_lower_options options;

/* A tensor-parallel plan for two GPUs, without overlapped GEMMs, in bf16. */
static void make_program(const char *strategy) {
    struct mt_plan_request request = {.model = "gpt2:layers=2,heads=4,embed=256,context=128,vocab=512",
                                      .device = "cuda",
                                      .fixed = {.decisions = mt_decisions_unset},
                                      .limit_s = 600};
    struct mt_cluster *cluster;
    struct mt_plan_found found;
    struct mt_device *device;
    mt_job_default(&request.job);
    request.job.batch = 16;
    request.fixed.use = MT_USE_ALL;
    request.fixed.decisions.overlapped = MT_OVERLAPPED_NONE;
    CHECK(mt_job_set_precision(&request.job, "bf16"), "bf16");
    for (int i = 0; i < MT_NSTRATEGIES; i++)
        if (!strcmp(mt_strategies[i].name, strategy)) request.strategy = &mt_strategies[i];
    CHECK_OK(mt_cluster_describe("h200:1x2", NULL, &cluster, &err), err);
    enum mt_status st = mt_plan_fastest(cluster, &request, &found, &err);
    if (st == MT_EMISSING) {
        printf("skipped: %s\n", err.text);
        exit(77);
    }
    CHECK_OK(st, err);
    CHECK_OK(mt_planned_graph(found.plan, &planned, &err), err);
    CHECK_OK(mt_planned_program(found.plan, &planned, &err), err);
    CHECK_OK(mt_planned_options_for("cuda", &device, &options, &err), err);
    CHECK(!device && options.wire_sums, "options of GPUs");
    mt_plan_found_release(&found);
    mt_cluster_free(cluster);
}

static void lower(bool wire_sums, struct mt_lowered *lowered[2]) {
    options.wire_sums = wire_sums;
    for (int r = 0; r < 2; r++) CHECK_OK(mt_lower(&planned.program, r, &options, &lowered[r], &err), err);
}

static enum mt_status check(struct mt_lowered *const lowered[2], bool wire_sums) {
    options.wire_sums = wire_sums;
    err = (struct mt_err)MT_ERR_INIT;
    return mt_check_lowered(&planned.program, (const struct mt_lowered *const *)lowered, &options, NULL, &err);
}

/* Partial sums in bf16: how many there are, and how many pieces of them are copied. */
struct sums {
    int count, copies;
};
static struct sums sums_of(const struct mt_lowered *low, enum mt_type acc) {
    struct sums sums = {0};
    for (int i = 0; i < low->ninstrs; i++) {
        const struct mt_linstr *c = &low->instrs[i];
        if (c->what != MT_LOWERED_COLLECTIVE || c->problem.reduce != MT_SUM || c->problem.wire != MT_BF16) continue;
        CHECK_EQ(c->problem.acc, acc);
        sums.count++;
        sums.copies += c->packed_rest.n + c->unpacked_rest.n;
    }
    return sums;
}

int main(void) {
    struct mt_lowered *wire[2], *wide[2];
    make_program("tensor");
    lower(true, wire);
    lower(false, wide);
    for (int r = 0; r < 2; r++) {
        struct sums direct = sums_of(wire[r], MT_BF16), converted = sums_of(wide[r], MT_F32);
        CHECK(direct.count >= 2 && direct.copies == 0, "rank %d: %d sums, %d copies", r, direct.count, direct.copies);
        CHECK(converted.copies >= 2 * direct.count, "rank %d: %d copies", r, converted.copies);
        CHECK(wire[r]->arena_bytes <= wide[r]->arena_bytes, "rank %d: more memory", r);
        for (int i = 0; i < wire[r]->ninstrs; i++) /* those in f32 are as they were */
            if (wire[r]->instrs[i].what == MT_LOWERED_COLLECTIVE && wire[r]->instrs[i].problem.wire == MT_F32)
                CHECK_EQ(wire[r]->instrs[i].problem.acc, MT_F32);
    }
    CHECK_OK(check(wire, true), err);
    CHECK_OK(check(wide, false), err);
    CHECK(check(wire, false) && strstr(err.text, "accumulation type"), "%s", err.text);
    CHECK(check(wide, true) && strstr(err.text, "accumulation type"), "%s", err.text);
    for (int r = 0; r < 2; r++) mt_lowered_free(wire[r]), mt_lowered_free(wide[r]);
    mt_planned_release(&planned);
    return 0;
}
