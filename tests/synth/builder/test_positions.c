/* Sequence parallelism: a GPT-2 of which all operators are split over positions, ragged and with an empty share.
 *
 * Keys and values are gathered, and their gradients summed over the ranks' queries and scattered; all else that has
 * positions stays divided, from the embeddings to the loss. The programs are proven, compute what one rank computes,
 * and so do their lowered programs, fused or not, with micro-batches and with recomputation. */
#include "synth/check/check.h"
#include "tests/synth/positions.h"
#include "tests/synth/replay.h"

struct truth {
    struct mt_program program;
    struct mt_interp *interp;
    double loss, **begin; /* [graph values]: states before the first step */
};

static struct mt_graph *graph_of(const char *text, double dropout, enum mt_recompute recompute) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_model model;
    struct mt_graph *g;
    struct mt_job job;
    mt_job_default(&job);
    job.precision = MT_F64;
    CHECK_OK(mt_model_parse(text, &model, &err), err);
    CHECK_OK(mt_model_graph(&model, MT_F64, 4, 0, dropout, &g, &err), err);
    mt_graph_set_precision(g, &job);
    mt_graph_recompute(g, recompute);
    CHECK_OK(mt_graph_differentiate(g, &err), err);
    CHECK_OK(mt_graph_optimize(g, &job.optimizer, &err), err);
    return g;
}

static void truth_of(const struct mt_graph *g, struct mt_arena *arena, struct truth *t) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_choice one = {.nranks = 1, .decisions.gradient_wire = MT_F64};
    one.rules = mt_new(arena, struct mt_rule, g->nops);
    CHECK_OK(mt_build(g, &one, &t->program, &err), err);
    struct mt_interp *fresh = mt_interp_new(&t->program);
    mt_interp_init_states(fresh, SEED);
    t->begin = mt_new(arena, double *, g->nvalues);
    for (int v = 0; v < g->nvalues; v++) {
        double spread;
        if (g->values[v].kind != MT_VALUE_STATE) continue;
        t->begin[v] = mt_new(arena, double, mt_value_count(g, v));
        mt_interp_get(fresh, v, t->begin[v], &spread);
    }
    mt_interp_free(fresh);
    t->interp = run_program(&t->program, &t->loss, &err);
    CHECK(t->interp, "%s", err.text);
}

/* Of program values with the label seq as an axis: all are divided but the keys and values that are gathered, and the
 * parts of their gradient. */
static void check_divided(const struct mt_program *p) {
    const struct mt_graph *g = p->graph;
    int seq = mt_graph_find_label(g, "seq"), gathered = 0, divided = 0;
    for (int v = 0; v < p->nvalues; v++) {
        const struct mt_value *value = &g->values[p->values[v].gvalue];
        const struct mt_layout *l = mt_pvalue_layout(p, v);
        for (int a = 0; a < value->naxes; a++) {
            if (value->label[a] != seq) continue;
            bool whole = l->box[0].lo[a] == 0 && l->box[0].hi[a] == l->extent[a];
            bool of_keys = strstr(value->name, ".kv") != NULL;
            CHECK(!whole || of_keys, "%s is not divided", value->name);
            gathered += whole, divided += !whole;
        }
    }
    CHECK(gathered >= 2 && divided > 20, "%d gathered, %d divided", gathered, divided);
}

static void check_lowered(const struct mt_program *p, const struct truth *truth) {
    struct mt_err err = MT_ERR_INIT;
    for (int fuse = 0; fuse < 2; fuse++) {
        struct mt_lowered *lowered[8];
        struct mt_lower_options options = {
            .fuse = fuse, .latency_s = 1e-5, .bandwidth_Bps = 1e9, .scratch_bytes = replay_scratch_bytes};
        for (int r = 0; r < p->nranks; r++) CHECK_OK(mt_lower(p, r, &options, &lowered[r], &err), err);
        CHECK_OK(mt_check_lowered(p, (const struct mt_lowered *const *)lowered, &options, NULL, &err), err);
        for (int timing = 0; timing < NTIMINGS; timing++) {
            double worst = replay_difference(p, lowered, (enum timing)timing, truth->interp, truth->loss, truth->begin);
            CHECK(worst <= 1e-9, "%s, timing %d: %g", fuse ? "fused" : "unfused", timing, worst);
        }
        for (int r = 0; r < p->nranks; r++) mt_lowered_free(lowered[r]);
    }
}

static void test_shares(const struct mt_graph *g, const struct truth *truth, int nranks, const int64_t *sizes,
                        int64_t micro) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_choice choice;
    struct mt_program program;
    double loss;
    positions_choice(&arena, g, nranks, sizes, micro, &choice);
    CHECK_OK(mt_build(g, &choice, &program, &err), err);
    CHECK_OK(mt_check_program(&program, NULL, &err), err);
    check_divided(&program);
    struct mt_interp *got = run_program(&program, &loss, &err);
    CHECK(got, "%s", err.text);
    CHECK_NEAR(loss, truth->loss, 1e-10 * fabs(truth->loss));
    double worst = state_difference(g, got, truth->interp);
    CHECK(worst <= 1e-10, "a state differs by %g", worst);
    check_lowered(&program, truth);
    mt_interp_free(got);
    mt_program_release(&program);
    mt_arena_release(&arena);
}

int main(void) {
    static const char *const models[] = {"gpt2:layers=2,heads=3,embed=6,context=11,vocab=13,bias=1,tied=1",
                                         "gpt2:layers=1,heads=2,embed=8,context=11,vocab=7,bias=0,tied=0"};
    static const int64_t two[] = {7, 4}, three[] = {5, 2, 4}, hollow[] = {5, 0, 6};
    printf("seed %d\n", SEED);
    for (int m = 0; m < 2; m++)
        for (int recompute = 0; recompute < MT_NRECOMPUTE; recompute++) {
            struct mt_arena arena = MT_ARENA_INIT;
            struct truth truth;
            struct mt_graph *g = graph_of(models[m], m ? 0.2 : 0, (enum mt_recompute)recompute);
            truth_of(g, &arena, &truth);
            test_shares(g, &truth, 2, two, 0);
            test_shares(g, &truth, 3, three, m ? 0 : 2);
            test_shares(g, &truth, 3, hollow, m ? 1 : 0);
            mt_interp_free(truth.interp);
            mt_program_release(&truth.program);
            mt_arena_release(&arena);
            mt_graph_free(g);
        }
    return 0;
}
