/* Works and memory from the memo against those that are found anew, for different numbers of ranks and decisions, asked
 * for twice and by several threads. */
#include "planner/work/memo.h"

#include <pthread.h>
#include <string.h>

#include "synth/autodiff/autodiff.h"
#include "synth/models/model.h"
#include "tests/check.h"

enum { QUESTIONS = 36, THREADS = 4 };
static const struct mt_lower_options options = {.fuse = true, .latency_s = 30e-6, .bandwidth_Bps = 1e9};
static struct mt_graph *graph;

static void make_graph(void) {
    struct mt_model model;
    struct mt_job job;
    struct mt_err err = MT_ERR_INIT;
    mt_job_default(&job);
    CHECK_OK(mt_model_parse("gpt2:layers=2,heads=2,embed=64,context=16,vocab=97", &model, &err), err);
    CHECK_OK(mt_model_graph(&model, MT_F32, 24, 0, 0, &graph, &err), err);
    CHECK_OK(mt_graph_differentiate(graph, &err), err);
    CHECK_OK(mt_graph_optimize(graph, &job.optimizer, &err), err);
}

static struct mt_plan *question(int q, bool *body) {
    static const int nranks[] = {1, 2, 3, 16};
    struct mt_plan *p = mt_plan_new(nranks[q % 4]);
    struct mt_storage_row row = {.pattern = "*", .state = q / 4 % 3 ? MT_STATE_SPLIT : MT_STATE_REPLICATED};
    mt_job_default(&p->job);
    p->job.batch = 24;
    p->decisions.nstorage = 1;
    p->decisions.storage = mt_arena_memdup(&p->arena, &row, sizeof row);
    mt_decisions_complete(&p->decisions, &p->arena);
    p->decisions.sync = q / 4 % 3 == 2 ? MT_SYNC_REDUCE_SCATTER : MT_SYNC_ALL_REDUCE;
    p->decisions.bucket_bytes = q / 12 == 2 ? 1 << 20 : 0;
    *body = q / 12 == 1;
    return p;
}

static void compare_works(const struct mt_work *a, const struct mt_work *b) {
    CHECK(a->nops == b->nops && a->nsteps == b->nsteps && a->nmessages == b->nmessages, "%d operators, not %d", a->nops,
          b->nops);
    CHECK_EQ(a->state_bytes, b->state_bytes);
    CHECK(!memcmp(a->steps, b->steps, (size_t)a->nsteps * sizeof *a->steps), "steps");
    for (int o = 0; o < a->nops; o++) {
        CHECK_EQ(a->ops[o].kind, b->ops[o].kind);
        CHECK_EQ(a->ops[o].count, b->ops[o].count);
        for (int k = 0; k < a->ops[o].nin + a->ops[o].nout; k++)
            CHECK(!memcmp(a->ops[o].divided[k], b->ops[o].divided[k], sizeof a->ops[o].divided[k]), "divided");
    }
    for (int l = 0; l < a->nlabels; l++) CHECK_EQ(a->labels[l].state_bytes, b->labels[l].state_bytes);
}

static void ask(struct mt_work_memo *memo, int q) {
    struct mt_err err = MT_ERR_INIT;
    bool body;
    struct mt_plan *p = question(q, &body);
    const struct mt_work *known, *again;
    struct mt_work work;
    CHECK_OK(mt_work_memo_open(memo, graph, p, body, &options, &known, &err), err);
    CHECK_OK(mt_work_memo_open(memo, graph, p, body, &options, &again, &err), err);
    CHECK(known == again, "found twice");
    CHECK_OK(mt_work_open(graph, p, body, &options, &work, &err), err);
    compare_works(known, &work);
    mt_work_release(&work);
    for (int64_t micro = 1; micro <= 6; micro += 5) {
        struct mt_plan_memory mine, want;
        int64_t samples = body ? 2 * micro : micro;
        CHECK_OK(mt_work_memo_memory(memo, graph, p, samples, micro, &options, &mine, &err), err);
        CHECK_OK(mt_work_memory(graph, p, samples, micro, &options, &want, &err), err);
        CHECK_EQ(mine.state_bytes, want.state_bytes);
        CHECK_EQ(mine.arena_bytes, want.arena_bytes);
    }
    mt_plan_free(p);
}

static void *ask_all(void *memo) {
    for (int q = 0; q < QUESTIONS; q++) ask(memo, q);
    return NULL;
}

int main(void) {
    struct mt_work_memo *memo = mt_work_memo_new();
    pthread_t threads[THREADS];
    make_graph();
    for (int t = 0; t < THREADS; t++) CHECK_EQ(pthread_create(&threads[t], NULL, ask_all, memo), 0);
    for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
    ask_all(memo);
    mt_work_memo_free(memo);
    mt_graph_free(graph);
    return 0;
}
