/* Overlapped GEMMs in plans for GPUs. The search takes them exactly where they win by measured rates, and finds plans
 * that are the best only with them. How they run is in the plan, comes back from its text, and is proven by the
 * checker. Longer than other files: all of it judges plans for the same few clusters. */
#include <math.h>
#include <string.h>

#include "planner/make/make.h"
#include "planner/plan/planned.h"
#include "profiler/describe/describe.h"
#include "synth/check/check.h"
#include "synth/program/pair.h"
#include "tests/check.h"

static struct mt_err err = MT_ERR_INIT;

/* A described cluster whose figures count as measured, but with other puts. */
static struct mt_cluster *measured(const char *line, double copy_Bps, struct mt_cluster_puts puts) {
    struct mt_cluster *c;
    CHECK_OK(mt_cluster_describe(line, NULL, &c, &err), err);
    for (int l = 0; l < c->nlinks; l++) {
        c->links[l].nominal = false;
        if (l == c->network) continue;
        c->links[l].copy_Bps = copy_Bps;
        c->links[l].puts = puts;
    }
    return c;
}

static const struct mt_cluster_puts quick = {3e-6, 3.6e11, 2e-6, 0.05, 0.05};

static struct mt_plan_found plan_among(const struct mt_cluster *cluster, const char *model, int64_t batch,
                                       enum mt_overlapped overlapped, const char *strategy, enum mt_use use) {
    struct mt_plan_request request = {
        .model = model, .device = "cuda", .fixed = {.decisions = mt_decisions_unset}, .limit_s = 600};
    struct mt_plan_found found;
    mt_job_default(&request.job);
    request.job.batch = batch;
    request.fixed.use = use;
    request.fixed.decisions.overlapped = overlapped;
    CHECK(mt_job_set_precision(&request.job, "bf16"), "bf16");
    for (int i = 0; i < MT_NSTRATEGIES && strategy; i++)
        if (!strcmp(mt_strategies[i].name, strategy)) request.strategy = &mt_strategies[i];
    enum mt_status st = mt_plan_fastest(cluster, &request, &found, &err);
    if (st == MT_EMISSING) {
        printf("skipped: %s\n", err.text);
        exit(77);
    }
    CHECK_OK(st, err);
    return found;
}

static struct mt_plan_found plan_of(const struct mt_cluster *cluster, const char *model, int64_t batch,
                                    enum mt_overlapped overlapped, const char *strategy) {
    return plan_among(cluster, model, batch, overlapped, strategy, MT_USE_ALL);
}

static const struct mt_overlap_choice *row_for(const struct mt_plan *plan, const struct mt_overlap *problem) {
    for (int i = 0; i < plan->decisions.noverlaps; i++)
        if (mt_overlap_choice_is_for(&plan->decisions.overlaps[i], problem)) return &plan->decisions.overlaps[i];
    return NULL;
}

static int rows_by(const struct mt_plan *plan, enum mt_overlap_how how) {
    int n = 0;
    for (int i = 0; i < plan->decisions.noverlaps; i++) n += plan->decisions.overlaps[i].how == how;
    return n;
}

/* Lower all ranks' programs, and prove them. Returns how many overlapped instructions each has; all run as the plan's
 * rows say. */
static int prove(const struct mt_plan *plan) {
    struct mt_planned planned;
    struct mt_device *device;
    struct mt_lower_options options;
    struct mt_lowered *lowered[2];
    int count = 0;
    CHECK_OK(mt_planned_graph(plan, &planned, &err), err);
    CHECK_OK(mt_planned_program(plan, &planned, &err), err);
    char hash[33];
    mt_program_hash(&planned.program, hash);
    CHECK_TEXT(hash, plan->program_hash);
    CHECK_OK(mt_planned_options_for("cuda", &device, &options, &err), err);
    CHECK_OK(mt_check_program(&planned.program, NULL, &err), err);
    for (int r = 0; r < 2; r++) CHECK_OK(mt_lower(&planned.program, r, &options, &lowered[r], &err), err);
    CHECK_OK(mt_check_lowered(&planned.program, (const struct mt_lowered *const *)lowered, &options, NULL, &err), err);
    for (int i = 0; i < lowered[0]->ninstrs; i++) {
        const struct mt_linstr *c = &lowered[0]->instrs[i];
        if (c->what != MT_LOWERED_OVERLAP) continue;
        const struct mt_overlap *problem = &c->overlap->problem;
        const struct mt_overlap_choice *row = row_for(plan, problem);
        count++;
        CHECK_EQ(problem->how, row ? row->how : MT_OVERLAP_ANY);
        if (!row) continue;
        struct mt_overlap_choice is = mt_overlap_choice_of(problem);
        CHECK(mt_overlap_choice_equal(&is, row), "%s is not as its row says", c->name);
        CHECK(row->how != MT_OVERLAP_APART, "%s should be apart", c->name);
    }
    for (int r = 0; r < 2; r++) mt_lowered_free(lowered[r]);
    if (device) mt_device_close(device);
    mt_planned_release(&planned);
    return count;
}

/* The plan comes back from its text, rows and all; wrong rows are refused with where. */
static void check_text(struct mt_plan *plan) {
    size_t length;
    struct mt_plan *back;
    char *text = mt_plan_text(plan, &length);
    CHECK_OK(mt_plan_parse("p", text, length, &back, &err), err);
    CHECK_EQ(back->decisions.noverlaps, plan->decisions.noverlaps);
    for (int i = 0; i < plan->decisions.noverlaps; i++)
        CHECK(mt_overlap_choice_equal(&back->decisions.overlaps[i], &plan->decisions.overlaps[i]), "row %d", i);
    CHECK_TEXT(back->hash, plan->hash);
    mt_plan_free(back);
    free(text);
}

/* Rows that the maker chose decide something: the plan is signed with all of them, and stands for the same program. A
 * row of no GEMM is refused, and leaves a plan that has become another. */
static void check_signed(const struct mt_plan *plan) {
    struct mt_plan *again;
    CHECK_OK(mt_plan_copy(plan, &again, &err), err);
    CHECK_OK(mt_plan_edited(again, &err), err);
    CHECK_EQ(again->decisions.noverlaps, plan->decisions.noverlaps);
    CHECK_TEXT(again->program_hash, plan->program_hash);
    CHECK(plan->decisions.noverlaps > 0, "no rows");
    again->decisions.overlaps[0].m++;
    CHECK_EQ(mt_plan_edited(again, &err), MT_EINPUT);
    CHECK(strstr(err.text, "overlapped[0]: has no effect"), "%s", err.text);
    CHECK_OK(mt_plan_derive_another(again, &err), err);
    CHECK_EQ(again->decisions.noverlaps, plan->decisions.noverlaps - 1);
    mt_plan_free(again);
}

static void refuse_row(const struct mt_plan *plan, struct mt_overlap_choice row, const char *message) {
    struct mt_plan wrong = *plan;
    wrong.decisions.overlaps = &row, wrong.decisions.noverlaps = 1;
    CHECK_EQ(mt_plan_check(&wrong, &err), MT_EINPUT);
    CHECK(strstr(err.text, message), "%s", err.text);
}

/* A row with slabs comes back from the plan's text, is equal to no other row, and poses its problem. */
static void check_slabs(const struct mt_plan *plan, struct mt_overlap_choice row) {
    struct mt_plan with = *plan;
    struct mt_overlap problem = {.form = row.form, .m = row.m, .cols = row.cols, .k = row.k};
    struct mt_arena arena = MT_ARENA_INIT;
    row.slabs = 4;
    with.decisions.overlaps = &row, with.decisions.noverlaps = 1;
    size_t length;
    struct mt_plan *back;
    char *text = mt_plan_text(&with, &length), *slabs = strstr(text, "\"slabs\": 4");
    CHECK(slabs, "%s", text);
    CHECK(strstr(mt_overlap_choice_text(&row, &arena), ", K in 4 slabs"), "%s", mt_overlap_choice_text(&row, &arena));
    CHECK_OK(mt_plan_parse("p", text, length, &back, &err), err);
    CHECK_EQ(back->decisions.overlaps[0].slabs, 4);
    CHECK(mt_overlap_choice_equal(&back->decisions.overlaps[0], &row), "the row");
    CHECK(mt_overlap_choose(&problem, back->decisions.overlaps, 1) && problem.slabs == 4, "the problem");
    CHECK_EQ(mt_overlap_choice_of(&problem).slabs, 4);
    struct mt_overlap other = problem;
    other.slabs = 3, row.slabs = 3;
    CHECK(!mt_overlap_choice_equal(&back->decisions.overlaps[0], &row), "other slabs");
    problem.n = other.n = 0;
    CHECK(mt_overlap_equal(&problem, &problem) && !mt_overlap_equal(&problem, &other), "other slabs");
    mt_plan_free(back);
    slabs[9] = '1';
    CHECK_EQ(mt_plan_parse("p", text, length, &back, &err), MT_EINPUT);
    CHECK(strstr(err.text, "slabs"), "%s", err.text);
    free(text);
    mt_arena_release(&arena);
}

/* So does one with copy engines; only a gather in one kernel has any. */
static void check_engines(const struct mt_plan *plan, struct mt_overlap_choice row) {
    struct mt_plan with = *plan;
    struct mt_overlap problem = {.form = row.form, .m = row.m, .cols = row.cols, .k = row.k};
    struct mt_overlap_choice without = row;
    struct mt_arena arena = MT_ARENA_INIT;
    row.engines = true;
    with.decisions.overlaps = &row, with.decisions.noverlaps = 1;
    size_t length;
    struct mt_plan *back;
    char *text = mt_plan_text(&with, &length);
    const char *said = mt_overlap_choice_text(&row, &arena);
    CHECK(strstr(text, "\"engines\": true"), "%s", text);
    CHECK(strstr(said, "puts of 8 rows, puts by copy engines"), "%s", said);
    CHECK_OK(mt_plan_parse("p", text, length, &back, &err), err);
    CHECK(mt_overlap_choice_equal(&back->decisions.overlaps[0], &row), "the row");
    CHECK(!mt_overlap_choice_equal(&back->decisions.overlaps[0], &without), "without engines");
    CHECK(mt_overlap_choose(&problem, back->decisions.overlaps, 1) && problem.engines, "the problem");
    CHECK(mt_overlap_choice_of(&problem).engines, "the problem's row");
    CHECK(mt_overlap_choose(&problem, &without, 1) && !problem.engines, "another row");
    mt_plan_free(back);
    free(text);
    with.decisions.overlaps = &without;
    text = mt_plan_text(&with, &length);
    CHECK(!strstr(text, "engines"), "%s", text);
    free(text);
    refuse_row(plan, (row.how = MT_OVERLAP_ANY, row), "overlapped[0].engines: must be absent but in a gather by one");
    refuse_row(plan, (row.how = MT_OVERLAP_FUSED, row.chunk = 0, row.form = MT_OVERLAP_SCATTER, row),
               "overlapped[0].engines: must be absent");
    mt_arena_release(&arena);
}

/* And one with joint tiles; only a gather has any, in one kernel or as the device does. */
static void check_joint(const struct mt_plan *plan, struct mt_overlap_choice row) {
    struct mt_plan with = *plan;
    struct mt_overlap problem = {.form = row.form, .m = row.m, .cols = row.cols, .k = row.k};
    struct mt_overlap_choice without = row;
    struct mt_arena arena = MT_ARENA_INIT;
    int64_t group = 8;
    row.joint = true;
    with.decisions.overlaps = &row, with.decisions.noverlaps = 1;
    size_t length;
    struct mt_plan *back;
    char *text = mt_plan_text(&with, &length), *joint = strstr(text, "\"joint\": true");
    const char *said = mt_overlap_choice_text(&row, &arena);
    CHECK(joint, "%s", text);
    CHECK(strstr(said, "puts of 8 rows, rows of all ranks in each tile"), "%s", said);
    CHECK_OK(mt_plan_parse("p", text, length, &back, &err), err);
    CHECK(mt_overlap_choice_equal(&back->decisions.overlaps[0], &row), "the row");
    CHECK(!mt_overlap_choice_equal(&back->decisions.overlaps[0], &without), "without joint tiles");
    CHECK(mt_overlap_choose(&problem, back->decisions.overlaps, 1) && problem.joint, "the problem");
    CHECK(mt_overlap_choice_of(&problem).joint, "the problem's row");
    CHECK(mt_overlap_choose(&problem, &without, 1) && !problem.joint, "another row");
    mt_plan_free(back);
    memcpy(joint + 9, "7   ", 4);
    CHECK_EQ(mt_plan_parse("p", text, length, &back, &err), MT_EINPUT);
    CHECK(strstr(err.text, "joint"), "%s", err.text);
    free(text);
    with.decisions.overlaps = &without;
    text = mt_plan_text(&with, &length);
    CHECK(!strstr(text, "joint"), "%s", text);
    free(text);
    const char *why = "overlapped[0].joint: must be absent but in a gather by one kernel";
    refuse_row(plan, (row.slabs = 2, row), why);
    refuse_row(plan, (row.slabs = 0, row.engines = true, row), why);
    refuse_row(plan, (row.engines = false, row.groups = &group, row.ngroups = 1, row), why);
    refuse_row(plan, (row.ngroups = 0, row.how = MT_OVERLAP_CHUNKS, row), why);
    refuse_row(plan, (row.how = MT_OVERLAP_NCCL, row), why);
    refuse_row(plan, (row.how = MT_OVERLAP_FUSED, row.chunk = 0, row.form = MT_OVERLAP_REDUCE, row), why);
    mt_arena_release(&arena);
}

static void test_wins(void) {
    struct mt_cluster *c = measured("h200:1x2", 3.9e11, quick);
    struct mt_plan_found found = plan_of(c, "gpt2:124m", 16, MT_OVERLAPPED_UNSET, "tensor");
    struct mt_plan_found none = plan_of(c, "gpt2:124m", 16, MT_OVERLAPPED_NONE, "tensor");
    struct mt_plan *plan = found.plan;
    CHECK(plan->decisions.overlapped & 1 << MT_OVERLAP_REDUCE, "%s", mt_overlapped_names[plan->decisions.overlapped]);
    CHECK(plan->prediction->step_s < 0.98 * none.plan->prediction->step_s, "%g s, not %g", plan->prediction->step_s,
          none.plan->prediction->step_s);
    CHECK(rows_by(plan, MT_OVERLAP_FUSED) + rows_by(plan, MT_OVERLAP_CHUNKS) > 0, "rows");
    CHECK(rows_by(plan, MT_OVERLAP_APART) > 0, "sums that other work hides stay apart");
    CHECK_EQ(rows_by(plan, MT_OVERLAP_ANY), 0);
    CHECK(prove(plan) > 20, "each layer has some");
    check_text(plan);
    check_signed(plan);
    struct mt_overlap_choice row = {.form = MT_OVERLAP_REDUCE, .m = 64, .cols = 64, .k = 64, .tile = {32, 64}};
    int64_t groups[2] = {16, 48};
    refuse_row(plan, (row.tile[0] = 0, row), "overlapped[0].tile[0]: is 0, but must be from 1 to 1099511627776");
    refuse_row(plan, (row.tile[0] = INT64_C(1000000000000000), row),
               "overlapped[0].tile[0]: is 1000000000000000, but must be from 1 to 1099511627776");
    refuse_row(plan, (row.tile[0] = 32, row.chunk = 8, row), "overlapped[0].put_rows: is 8, but must be absent");
    refuse_row(plan, (row.chunk = 0, row.groups = groups, row.ngroups = 2, row),
               "overlapped[0].groups[1]: is 48, but must be from 1 to the tile's 32 rows");
    refuse_row(plan, (row.ngroups = 0, row.mix = -1, row), "overlapped[0].mix: is -1, but must be from 0 to 1048576");
    refuse_row(plan, (row.mix = 0, row.slabs = 2, row),
               "overlapped[0].slabs: is 2, but must be absent but in a gather");
    row.form = MT_OVERLAP_GATHER, row.chunk = 8;
    refuse_row(plan, (row.slabs = 1, row), "overlapped[0].slabs: is 1, but must be from 2 to 256, or absent");
    refuse_row(plan, (row.slabs = 257, row), "overlapped[0].slabs: is 257, but must be from 2 to 256, or absent");
    refuse_row(plan, (row.slabs = 2, row.how = MT_OVERLAP_NCCL, row),
               "overlapped[0].slabs: is 2, but only one kernel waits within tiles, not \"nccl\"");
    row.how = MT_OVERLAP_FUSED;
    check_slabs(plan, row);
    row.slabs = 0;
    check_engines(plan, row);
    check_joint(plan, row);
    row.chunk = 0, row.how = MT_OVERLAP_ANY;
    row.form = MT_OVERLAP_SCATTER, row.direct = true;
    refuse_row(plan, row, "overlapped[0].direct: only a reduce can be");
    row =
        (struct mt_overlap_choice){.form = MT_OVERLAP_SCATTER, .m = 1 << 20, .cols = 1 << 20, .k = 64, .tile = {1, 1}};
    refuse_row(plan, row, "overlapped[0].tile: more than");
    mt_plan_found_release(&found);
    mt_plan_found_release(&none);
    mt_cluster_free(c);
}

/* The same collectives, but puts at a thousandth of the rate. */
static void test_loses(void) {
    struct mt_cluster_puts slow = quick;
    slow.blocks_Bps = 4e8;
    struct mt_cluster *c = measured("h200:1x2", 4e8, slow);
    struct mt_plan_found found = plan_of(c, "gpt2:124m", 16, MT_OVERLAPPED_UNSET, "tensor");
    CHECK_EQ(found.plan->decisions.overlapped, MT_OVERLAPPED_NONE);
    CHECK_EQ(found.plan->decisions.noverlaps, 0);
    mt_plan_found_release(&found);
    mt_cluster_free(c);
}

/* Without measured figures, and across hosts, nothing is overlapped, unless a person asks for it: then everything is.
 */
static void test_asked(void) {
    struct mt_cluster *c;
    CHECK_OK(mt_cluster_describe("h200:1x2", NULL, &c, &err), err);
    struct mt_plan_found found = plan_of(c, "gpt2:124m", 16, MT_OVERLAPPED_UNSET, "tensor");
    CHECK_EQ(found.plan->decisions.overlapped, MT_OVERLAPPED_NONE);
    mt_plan_found_release(&found);
    found = plan_of(c, "gpt2:124m", 16, MT_OVERLAPPED_ALL, "tensor");
    CHECK_EQ(found.plan->decisions.overlapped, MT_OVERLAPPED_ALL);
    CHECK(found.plan->prediction->nominal, "nominal");
    CHECK(found.plan->decisions.noverlaps > 0 && !rows_by(found.plan, MT_OVERLAP_APART), "rows");
    prove(found.plan);
    check_signed(found.plan);
    mt_plan_found_release(&found);
    mt_cluster_free(c);
    c = measured("h200:2x1 net=400G", 3.9e11, quick);
    found = plan_of(c, "gpt2:124m", 16, MT_OVERLAPPED_UNSET, "tensor");
    CHECK_EQ(found.plan->decisions.overlapped, MT_OVERLAPPED_NONE);
    mt_plan_found_release(&found);
    mt_cluster_free(c);
}

/* Tensor parallelism within hosts, data parallelism between: what stays within a host is overlapped, what crosses is
 * not. */
static void test_hosts(void) {
    struct mt_cluster *c = measured("h200:2x2 net=3200G", 3.9e11, quick);
    c->links[c->nodes[0].inside].latency_s = 40e-6; /* of collectives, not of puts */
    struct mt_plan_found found = plan_of(c, "gpt2:774m", 2, MT_OVERLAPPED_UNSET, "mesh");
    struct mt_planned planned;
    struct mt_pairs pairs;
    CHECK(found.plan->decisions.overlapped > 0, "%s", mt_overlapped_names[found.plan->decisions.overlapped]);
    CHECK_EQ(rows_by(found.plan, MT_OVERLAP_NCCL), 0);
    CHECK_OK(mt_planned_graph(found.plan, &planned, &err), err);
    CHECK_OK(mt_planned_program(found.plan, &planned, &err), err);
    mt_pairs_find(&planned.program, &planned.arena, &pairs);
    CHECK(pairs.count > 20, "%d", pairs.count);
    for (int i = 0; i < pairs.count; i++) {
        struct mt_overlap problem;
        int *group;
        mt_pair_problem(&planned.program, &pairs.items[i], 0, &planned.arena, &problem, &group);
        for (int r = 0; r < problem.n; r++)
            CHECK(found.plan->order[group[r]] / 2 == found.plan->order[group[0]] / 2, "rank %d is on another host", r);
    }
    mt_planned_release(&planned);
    mt_plan_found_release(&found);
    mt_cluster_free(c);
}

/* Of a GPT's weights both of an MLP's are of one problem, one of them transposed: they have no region in common, for a
 * device may run one in one kernel and the other by chunks. */
static void test_regions(void) {
    struct mt_cluster *c = measured("h200:1x3", 3.9e11, quick);
    struct mt_plan_found found =
        plan_of(c, "gpt2:layers=8,heads=4,embed=64,context=64,vocab=256", 15, MT_OVERLAPPED_ALL, "zero3");
    struct mt_planned planned;
    struct mt_pairs pairs;
    int alike = 0, otherwise = 0;
    CHECK_OK(mt_planned_graph(found.plan, &planned, &err), err);
    CHECK_OK(mt_planned_program(found.plan, &planned, &err), err);
    mt_pairs_find(&planned.program, &planned.arena, &pairs);
    for (int i = 0; i < pairs.count; i++)
        for (int k = 0; k < i; k++) {
            struct mt_overlap problem[2];
            bool transposed[2][3];
            int *group;
            for (int j = 0; j < 2; j++) {
                const struct mt_pair *pair = &pairs.items[j ? k : i];
                mt_pair_problem(&planned.program, pair, 0, &planned.arena, &problem[j], &group);
                mt_pair_transposes(&planned.program, pair, transposed[j]);
            }
            if (!mt_overlap_equal(&problem[0], &problem[1])) continue;
            bool lie_alike = !memcmp(transposed[0], transposed[1], sizeof *transposed);
            CHECK_EQ(pairs.items[i].region == pairs.items[k].region, lie_alike);
            alike += lie_alike, otherwise += !lie_alike;
        }
    CHECK(alike > 10 && otherwise > 10, "%d pairs lie alike, %d otherwise", alike, otherwise);
    mt_planned_release(&planned);
    mt_plan_found_release(&found);
    mt_cluster_free(c);
}

/* GPUs of other architectures lack the fused kernel, and take chunks: groups, or as they cut them where no row says
 * more.
 */
static void test_older(void) {
    struct mt_cluster *c = measured("a100-80:1x2", 2.6e11, quick);
    struct mt_plan_found found = plan_of(c, "gpt2:124m", 16, MT_OVERLAPPED_ALL, "tensor");
    CHECK_EQ(found.plan->decisions.overlapped, MT_OVERLAPPED_ALL);
    CHECK_EQ(rows_by(found.plan, MT_OVERLAP_CHUNKS), found.plan->decisions.noverlaps);
    prove(found.plan);
    check_signed(found.plan);
    mt_plan_found_release(&found);
    mt_cluster_free(c);
}

/* ---- plans that are the best only so ---- */

static const char *const wide = "gpt2:layers=4,heads=16,embed=2048,context=512,vocab=512";

/* Whether something else than samples is divided. */
static bool divides_tensors(const struct mt_plan *plan) {
    bool any = false;
    for (int i = 0; i < plan->decisions.nrules; i++)
        any |= plan->decisions.rules[i].operators == MT_OPERATORS_SPLIT &&
               strcmp(plan->decisions.rules[i].split, "batch") != 0;
    return any;
}

/* The least step of all strategies, each planned by itself. */
static double least_of_strategies(const struct mt_cluster *c, const char *model, int64_t batch,
                                  enum mt_overlapped overlapped) {
    double least_s = INFINITY;
    for (int i = 0; i < MT_NSTRATEGIES; i++) {
        struct mt_plan_found one = plan_of(c, model, batch, overlapped, mt_strategies[i].name);
        least_s = fmin(least_s, one.plan->prediction->step_s);
        mt_plan_found_release(&one);
    }
    return least_s;
}

static double rejected_s(const struct mt_plan *plan, const char *what) {
    for (int i = 0; i < plan->prediction->nrejected; i++)
        if (!strcmp(plan->prediction->rejected[i].what, what)) return plan->prediction->rejected[i].step_s;
    return 0;
}

/* Where collectives start slowly, samples are divided if nothing is overlapped, and tensors if it is: that is found,
 * and no strategy by itself has anything faster. */
static void test_found(void) {
    static const double worth = 0.995; /* what a program of many splits must take at most of one that is simpler */
    struct mt_cluster *c = measured("h200:1x2", 3.9e11, quick);
    c->links[c->nodes[0].inside].latency_s = 40e-6;
    struct mt_plan_found none = plan_of(c, wide, 4, MT_OVERLAPPED_NONE, NULL);
    struct mt_plan_found found = plan_of(c, wide, 4, MT_OVERLAPPED_UNSET, NULL);
    double none_s = none.plan->prediction->step_s, found_s = found.plan->prediction->step_s;
    CHECK(!divides_tensors(none.plan), "tensors are divided without overlap, too");
    CHECK(divides_tensors(found.plan), "%g s by samples", found_s);
    CHECK(found.plan->decisions.overlapped & 1 << MT_OVERLAP_REDUCE, "%s",
          mt_overlapped_names[found.plan->decisions.overlapped]);
    CHECK(found_s < 0.98 * none_s, "%g s with overlap, %g s without", found_s, none_s);
    CHECK(found_s * worth <= least_of_strategies(c, wide, 4, MT_OVERLAPPED_UNSET), "a strategy is faster than %g s",
          found_s);
    CHECK_NEAR(rejected_s(found.plan, "samples divided alone"), none_s, 0.001 * none_s);
    CHECK(rejected_s(found.plan, "strategy tensor+sequence") < none_s, "%g s of a strategy, as if not overlapped",
          rejected_s(found.plan, "strategy tensor+sequence"));
    prove(found.plan);
    check_signed(found.plan);
    mt_plan_found_release(&none);
    mt_plan_found_release(&found);
    mt_cluster_free(c);
}

/* The same of a model with many layers, of which few are looked at. */
static void test_found_by_few_layers(void) {
    const char *deep = "gpt2:layers=12,heads=16,embed=2048,context=512,vocab=512";
    struct mt_cluster *c = measured("h200:1x2", 3.9e11, quick);
    c->links[c->nodes[0].inside].latency_s = 40e-6;
    struct mt_plan_found none = plan_of(c, deep, 2, MT_OVERLAPPED_NONE, NULL);
    struct mt_plan_found found = plan_of(c, deep, 2, MT_OVERLAPPED_UNSET, NULL);
    struct mt_plan_found tensor = plan_of(c, deep, 2, MT_OVERLAPPED_UNSET, "tensor+sequence");
    double none_s = none.plan->prediction->step_s, found_s = found.plan->prediction->step_s;
    CHECK(!divides_tensors(none.plan) && divides_tensors(found.plan), "what is divided");
    CHECK(found_s < 0.98 * none_s, "%g s with overlap, %g s without", found_s, none_s);
    CHECK(found_s <= 1.001 * tensor.plan->prediction->step_s, "%g s, not %g", found_s, tensor.plan->prediction->step_s);
    mt_plan_found_release(&none);
    mt_plan_found_release(&found);
    mt_plan_found_release(&tensor);
    mt_cluster_free(c);
}

/* Subsets of the ranks are compared with overlap, too: more ranks are worth it only so. */
static void test_subsets(void) {
    struct mt_cluster *c = measured("h200:1x4", 3.9e11, quick);
    c->links[c->nodes[0].inside].bandwidth_Bps *= 0.1;
    struct mt_plan_found none = plan_among(c, wide, 8, MT_OVERLAPPED_NONE, NULL, MT_USE_AUTO);
    struct mt_plan_found found = plan_among(c, wide, 8, MT_OVERLAPPED_UNSET, NULL, MT_USE_AUTO);
    struct mt_plan_found all = plan_among(c, wide, 8, MT_OVERLAPPED_UNSET, NULL, MT_USE_ALL);
    double found_s = found.plan->prediction->step_s;
    CHECK(none.plan->nplaces < found.plan->nplaces, "%d ranks without overlap, %d with", none.plan->nplaces,
          found.plan->nplaces);
    CHECK(found_s < 0.98 * none.plan->prediction->step_s, "%g s", found_s);
    CHECK(found_s <= 1.001 * all.plan->prediction->step_s, "%g s, not %g", found_s, all.plan->prediction->step_s);
    mt_plan_found_release(&none);
    mt_plan_found_release(&found);
    mt_plan_found_release(&all);
    mt_cluster_free(c);
}

/* Where links are so slow that collectives take many times as long as the step does with overlap: what a candidate
 * takes without it does not rule it out. */
static void test_slow_links(void) {
    struct mt_cluster *c = measured("h200:1x4", 3.9e11, quick);
    c->links[c->nodes[0].inside].bandwidth_Bps *= 0.02;
    struct mt_plan_found found = plan_among(c, wide, 16, MT_OVERLAPPED_UNSET, NULL, MT_USE_AUTO);
    struct mt_plan_found samples = plan_among(c, wide, 16, MT_OVERLAPPED_UNSET, "data", MT_USE_ALL);
    double found_s = found.plan->prediction->step_s, samples_s = samples.plan->prediction->step_s;
    CHECK(found_s <= 1.001 * samples_s, "%g s, not %g", found_s, samples_s);
    mt_plan_found_release(&found);
    mt_plan_found_release(&samples);
    mt_cluster_free(c);
}

/* Where the gain is not known, the plan is that without overlap. */
static void test_not_measured(void) {
    struct mt_cluster *c = measured("h200:1x2", 3.9e11, quick);
    for (int l = 0; l < c->nlinks; l++) c->links[l].nominal = true, c->links[l].latency_s = 40e-6;
    struct mt_plan_found none = plan_of(c, wide, 4, MT_OVERLAPPED_NONE, NULL);
    struct mt_plan_found found = plan_of(c, wide, 4, MT_OVERLAPPED_UNSET, NULL);
    CHECK_EQ(found.plan->decisions.overlapped, MT_OVERLAPPED_NONE);
    CHECK_TEXT(found.plan->program_hash, none.plan->program_hash);
    CHECK_NEAR(found.plan->prediction->step_s, none.plan->prediction->step_s, 0);
    CHECK_EQ(found.plan->prediction->nrejected, none.plan->prediction->nrejected);
    mt_plan_found_release(&none);
    mt_plan_found_release(&found);
    mt_cluster_free(c);
}

int main(void) {
    test_wins();
    test_loses();
    test_asked();
    test_older();
    test_hosts();
    test_regions();
    test_found();
    test_found_by_few_layers();
    test_subsets();
    test_slow_links();
    test_not_measured();
    return 0;
}
