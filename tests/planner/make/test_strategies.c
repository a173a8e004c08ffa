/* A strategy that holds the programs of others is no slower than these; a comparison has every strategy, with the step
 * that a search of it alone finds, and no plan that is slower than one of them. Where ranks may be left out, a
 * strategy's plan is still one of its own, and ranks among which it has none do not keep it from others. */
#include <string.h>

#include "planner/make/make.h"
#include "profiler/describe/describe.h"
#include "tests/check.h"

static struct mt_err err = MT_ERR_INIT;
static struct mt_cluster *cluster;
static struct mt_plan_request request;

static void find(const char *name, struct mt_plan_found *found) {
    request.strategy = NULL;
    for (int i = 0; i < MT_NSTRATEGIES && name; i++)
        if (!strcmp(mt_strategies[i].name, name)) request.strategy = &mt_strategies[i];
    CHECK(!name || request.strategy, "no strategy is named %s", name);
    CHECK_OK(mt_plan_fastest(cluster, &request, found, &err), err);
}

static double step_of(const char *name) {
    struct mt_plan_found found;
    find(name, &found);
    double step_s = found.plan->prediction->step_s;
    printf("%s on %s: %s takes %.4g ms\n", request.model, cluster->nodes[0].name, name, 1e3 * step_s);
    mt_plan_found_release(&found);
    return step_s;
}

static const struct mt_plan_rejected *row_of(const struct mt_plan_found *found, const char *name) {
    for (int i = 0; i < found->nstrategies; i++)
        if (!strcmp(found->strategies[i].what, name)) return &found->strategies[i];
    return NULL;
}

static void begin(const char *line, const char *model, int64_t batch, const char *precision, enum mt_use use) {
    CHECK_OK(mt_cluster_describe(line, NULL, &cluster, &err), err);
    request = (struct mt_plan_request){
        .model = model, .device = "cuda", .fixed = {.decisions = mt_decisions_unset}, .limit_s = 600};
    mt_job_default(&request.job);
    request.job.batch = batch;
    request.fixed.use = use;
    CHECK(mt_job_set_precision(&request.job, precision), "%s", precision);
}

static void expect(const char *line, const char *model, int64_t batch, const char *const *rows) {
    begin(line, model, batch, "bf16", MT_USE_ALL);
    double flat_s = step_of("flat");
    CHECK(flat_s <= 1.02 * step_of("zero1"), "%s: flat is slower than zero1", line);
    CHECK(flat_s <= 1.02 * step_of("data"), "%s: flat is slower than data", line);
    double steps_s[8];
    for (int i = 0; rows[i]; i++) steps_s[i] = step_of(rows[i]);
    struct mt_plan_found found;
    request.compare = true;
    find(NULL, &found);
    for (int i = 0; rows[i]; i++) {
        const struct mt_plan_rejected *row = row_of(&found, rows[i]);
        CHECK(row, "%s: %s is not compared", line, rows[i]);
        CHECK(row->step_s == steps_s[i], "%s: %s takes %g s compared, and %g s alone", line, rows[i], row->step_s,
              steps_s[i]);
        CHECK(found.plan->prediction->step_s <= row->step_s, "%s: %s is faster than the plan", line, rows[i]);
    }
    for (int i = 0; i < found.plan->prediction->nrejected; i++) {
        const struct mt_plan_rejected *r = &found.plan->prediction->rejected[i];
        CHECK(strcmp(r->why, "slower") || r->step_s > found.plan->prediction->step_s * (1 - 1e-9), "%s is not slower",
              r->what);
    }
    request.compare = false;
    mt_plan_found_release(&found);
    mt_cluster_free(cluster);
}

/* Whether some operator is divided by other labels than samples. */
static bool divides_more(const struct mt_plan *plan) {
    for (int i = 0; i < plan->decisions.nrules; i++)
        if (plan->decisions.rules[i].operators == MT_OPERATORS_SPLIT && strcmp(plan->decisions.rules[i].split, "batch"))
            return true;
    return false;
}

/* By samples, three of four ranks on a slow network are best; and no rejected row is of another strategy. */
static void keep_to_strategy(void) {
    struct mt_plan_found found;
    begin("t4:4x1 net=25G", "gpt2:layers=3,heads=12,embed=768,context=256,vocab=8192", 12, "f32", MT_USE_AUTO);
    find("tensor", &found);
    CHECK(divides_more(found.plan), "a plan of strategy tensor divides samples alone");
    const struct mt_plan_prediction *p = found.plan->prediction;
    for (int i = 0; i < p->nrejected; i++)
        CHECK(!p->rejected[i].step_s || p->rejected[i].step_s > 0.98 * p->step_s, "%s is faster: %g s, not %g s",
              p->rejected[i].what, p->rejected[i].step_s, p->step_s);
    mt_plan_found_release(&found);
    mt_cluster_free(cluster);
}

/* All ranks have no plan of the strategy, since one has too little memory; the others do. */
static void leave_small_out(void) {
    struct mt_plan_found found;
    begin("a100-40:1x4", "gpt2:layers=3,heads=12,embed=768,context=256,vocab=8192", 12, "bf16", MT_USE_AUTO);
    cluster->devices[3].memory_bytes = 64 << 20;
    find("tensor", &found);
    CHECK(divides_more(found.plan), "a plan of strategy tensor divides samples alone");
    CHECK(found.plan->nplaces == 3, "%d ranks take part", found.plan->nplaces);
    mt_plan_found_release(&found);
    mt_cluster_free(cluster);
}

int main(void) {
    keep_to_strategy();
    leave_small_out();
    static const char *const wide[] = {"data", "zero1", "zero3", "tensor", "tensor+sequence", NULL};
    expect("h100:2x2 net=400G", "gpt2:layers=4,heads=16,embed=1024,context=256,vocab=8192", 16, wide);
    expect("h100:1x4", "mlp:layers=2,hidden=4096", 64, (const char *const[]){"data", "zero1", "zero3", NULL});
    return 0;
}
