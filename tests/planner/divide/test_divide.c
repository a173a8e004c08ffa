/* Programs that the field makes by hand are found without being told, on jobs where they are the best; and are not,
 * where they are not. What is found has the rows that it was judged by, is proven, and is the same when labels,
 * operators and parameters are renamed. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/divide/divide.h"
#include "planner/plan/choice.h"
#include "planner/lp/module.h"
#include "planner/make/planning.h"
#include "profiler/describe/describe.h"
#include "synth/check/check.h"
#include "synth/ops/ops.h"
#include "tests/planner/divide/problem.h"

/* The step of the best program, of one strategy (by name) or of all (null). Its plan gives the same program, proven. */
static double best_of(struct problem *p, const char *strategy, struct mt_divide_found *found) {
    p->divide.only = NULL;
    p->divide.compare = !strategy; /* data and zero1 too, which are searched elsewhere */
    for (int i = 0; i < MT_NSTRATEGIES && strategy; i++)
        if (!strcmp(mt_strategies[i].name, strategy)) p->divide.only = &mt_strategies[i];
    CHECK(!strategy || p->divide.only, "%s", strategy);
    enum mt_status st = mt_divide_search(&p->divide, found, &err);
    if (st == MT_EMISSING) {
        printf("skipped: %s\n", err.text);
        exit(77);
    }
    CHECK_OK(st, err);
    if (!found->best) return INFINITY;
    struct mt_program program;
    CHECK_OK(mt_program_from_plan(p->divide.graph, found->best->plan, true, &program, &err), err);
    CHECK_OK(mt_check_program(&program, NULL, &err), err);
    mt_program_release(&program);
    return found->best->prediction.step_s;
}

/* How many operators with samples are divided by a kind of label, within nodes or among all ranks. */
static int divided_by(const struct problem *p, const struct mt_divided *c, enum mt_label_kind kind) {
    const struct mt_graph *g = p->divide.graph;
    enum mt_label_kind *kinds = calloc((size_t)g->nlabels, sizeof *kinds);
    int n = 0;
    mt_label_kinds(g, kinds);
    for (int o = 0; o < g->nops; o++) {
        const struct mt_rule *rule = &c->choice.rules[o], *within = rule->inner ? &rule->inner[0] : rule;
        n += g->ops[o].role != MT_ROLE_UPDATE && within->kind == MT_RULE_SPLIT && kinds[within->split->label] == kind;
    }
    free(kinds);
    return n;
}

/* The gradient of a weight as a product that is summed over samples. */
static bool is_product(const struct mt_graph *g, const struct mt_op *op) {
    bool gradient = op->role == MT_ROLE_BACKWARD && (op->kind == MT_OP_matmul || op->kind == MT_OP_embedding_grad);
    bool samples = false;
    for (int i = 0; i < op->nindices; i++) samples |= op->index_label[i] == g->batch;
    return gradient && samples && g->values[op->out[0]].label[0] != g->batch;
}

static int count_products(const struct problem *p) {
    int n = 0;
    for (int o = 0; o < p->divide.graph->nops; o++) n += is_product(p->divide.graph, &p->divide.graph->ops[o]);
    return n;
}

static bool by_samples(const struct mt_graph *g, const struct mt_rule *rule) {
    return rule->kind == MT_RULE_SPLIT && !rule->inner && rule->split->label == g->batch;
}

/* Gradients of weights that samples do not divide, of operators that they do. */
static int gathered_by(const struct problem *p, const struct mt_divided *c) {
    const struct mt_graph *g = p->divide.graph;
    int n = 0;
    for (int o = 0; o < g->nops; o++)
        n += is_product(g, &g->ops[o]) && by_samples(g, &c->choice.rules[g->ops[o].forward]) &&
             !by_samples(g, &c->choice.rules[o]);
    return n;
}

/* On `cluster` the best program divides by `kind`, and is faster than the best of data and zero1 by `factor` or more;
 * factor 1: it divides samples alone. */
static void test_found(const char *cluster, const char *model, int64_t batch, enum mt_label_kind kind, double factor) {
    struct problem p;
    struct mt_divide_found data, zero, all;
    begin(&p, cluster, model, batch, MT_F32, 0);
    double by_samples = fmin(best_of(&p, "data", &data), best_of(&p, "zero1", &zero)), best = best_of(&p, NULL, &all);
    printf("%-24s %-28s batch %-4lld %.4g of samples alone\n", cluster, model, (long long)batch, best / by_samples);
    CHECK(best <= by_samples * (1 + 1e-9), "%g s, but %g s by samples alone", best, by_samples);
    CHECK(best * factor <= by_samples * (1 + 1e-9), "%g s against %g s by samples alone", best, by_samples);
    CHECK(divided_by(&p, all.best, kind) > 0, "nothing is divided so");
    if (kind == MT_LABEL_SAMPLES) CHECK_EQ(divided_by(&p, all.best, MT_LABEL_WIDTH), 0);
    mt_divide_release(&data), mt_divide_release(&zero), mt_divide_release(&all);
    end(&p);
}

/* No constraint makes a better program than none does, and each keeps to what its name says. */
static void test_strategies(void) {
    struct problem p;
    struct mt_divide_found found;
    begin(&p, "h100:2x2 net=100G", "gpt2:layers=3,heads=6,embed=192,context=128,vocab=512", 16, MT_F32, 0);
    double best = best_of(&p, NULL, &found);
    mt_divide_release(&found);
    for (int i = 0; i < MT_NSTRATEGIES; i++) {
        const struct mt_strategy *s = &mt_strategies[i];
        double step = best_of(&p, s->name, &found);
        printf("%-16s %.4g s\n", s->name, step);
        CHECK(isfinite(step), "%s: %s", s->name, found.ncandidates ? found.candidates[0]->why : "no candidate");
        CHECK(step >= best * 0.98, "%s: %g s, but %g s of all", s->name, step, best);
        if (!s->widths && s->factors == MT_FACTORS_NEVER) CHECK_EQ(divided_by(&p, found.best, MT_LABEL_WIDTH), 0);
        if (s->factors == MT_FACTORS_NEVER) CHECK_EQ(gathered_by(&p, found.best), 0);
        if (s->factors == MT_FACTORS_ALWAYS) CHECK_EQ(gathered_by(&p, found.best), count_products(&p));
        if (!s->positions) CHECK_EQ(divided_by(&p, found.best, MT_LABEL_POSITIONS), 0);
        CHECK_EQ(found.best->choice.decisions.gather, (int)s->gather);
        mt_divide_release(&found);
    }
    end(&p);
}

/* Layers of many weights on a slow network: factors are gathered, without being told, where samples are few, and not
 * where they are many; and only where every other strategy is slower. */
static void test_factors(void) {
    static const char *const others[] = {"data", "zero1", "zero3", "tensor", "tensor+sequence"};
    double last_ratio = 0;
    bool gathers = false;
    for (int64_t batch = 16; batch <= 4096; batch *= 4) {
        struct problem p;
        struct mt_divide_found found;
        begin(&p, "h100:4x1 net=100G", "mlp:layers=8,hidden=1024", batch, MT_BF16, 0);
        double other = INFINITY, with_factors = best_of(&p, "factors", &found);
        mt_divide_release(&found);
        for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
            other = fmin(other, best_of(&p, others[i], &found));
            mt_divide_release(&found);
        }
        double best = best_of(&p, NULL, &found), ratio = with_factors / other;
        gathers = gathered_by(&p, found.best) > 0;
        printf("batch %-5lld factors gathered: %.3g of the step without; found: %.3g, %d of %d gathered\n",
               (long long)batch, ratio, best / other, gathered_by(&p, found.best), count_products(&p));
        CHECK(best <= fmin(other, with_factors) * (1 + 1e-9), "%g s, not %g or %g", best, other, with_factors);
        CHECK(!gathers || best < other, "gathered, but no faster");
        CHECK(batch > 16 || gathers, "of few samples it is the fastest by far");
        CHECK(ratio > last_ratio, "it loses as samples become more");
        last_ratio = ratio;
        mt_divide_release(&found);
        end(&p);
    }
    CHECK(!gathers && last_ratio > 1, "of many samples it is not");
}

/* Devices of two classes: no gradient of replicated state is computed by each, also where factors must be gathered. */
static void test_factors_of_classes(void) {
    struct problem p;
    struct mt_divide_found found;
    begin(&p, "h100:1 net=25G + a10:1", "mlp:layers=4,hidden=1024", 16, MT_F32, 0);
    CHECK(isfinite(best_of(&p, "factors", &found)), "%s", found.candidates[0]->why);
    CHECK_EQ(gathered_by(&p, found.best), count_products(&p));
    for (int o = 0; o < p.divide.graph->nops; o++)
        CHECK(!is_product(p.divide.graph, &p.divide.graph->ops[o]) || found.best->choice.rules[o].kind == MT_RULE_SPLIT,
              "%s", p.divide.graph->ops[o].name);
    mt_divide_release(&found);
    end(&p);
}

/* Where memory binds, state is in shares, and weights are gathered for each layer. */
static void test_memory(void) {
    struct problem p;
    struct mt_divide_found found;
    begin(&p, "h100:1x4", "mlp:layers=6,hidden=2048", 64, MT_F32, 0);
    double free_s = best_of(&p, "data", &found);
    int64_t needs = found.best->prediction.ranks[0].arena_bytes;
    int64_t beside = found.best->prediction.ranks[0].communicator_bytes;
    mt_divide_release(&found);
    int64_t *memory = mt_new(&p.arena, int64_t, 4);
    for (int r = 0; r < 4; r++) memory[r] = beside + needs / 3;
    p.divide.memory_bytes = memory;
    CHECK(isinf(best_of(&p, "data", &found)), "replicated state fits into a third of its memory");
    mt_divide_release(&found);
    double step = best_of(&p, NULL, &found);
    CHECK(isfinite(step), "nothing fits");
    for (int r = 0; r < 4; r++) CHECK(mt_rank_needs_bytes(&found.best->prediction.ranks[r]) <= memory[r], "rank %d", r);
    printf("in a third of the memory: %.4g of the step with all of it\n", step / free_s);
    mt_divide_release(&found);
    end(&p);
}

int main(void) {
    test_found("h100:1x8", "mlp:layers=4,hidden=8192", 256, MT_LABEL_WIDTH, 2);
    test_found("h100:1 net=25G + a10:1", "mlp:layers=4,hidden=4096", 256, MT_LABEL_WIDTH, 2);
    test_found("h100:1x4", "gpt2:layers=4,heads=12,embed=768,context=256,vocab=1024", 64, MT_LABEL_SAMPLES, 1);
    test_strategies();
    test_memory();
    test_factors();
    test_factors_of_classes();
    return 0;
}
