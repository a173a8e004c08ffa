/* Lowered programs, run by the executor, compute what the interpreter computes: ranks are threads of this process that
 * talk through memory. Random choices of every rule, uneven micro-batches (none to three and a last one, other counts
 * on each rank), bodies that communicate, shares of zero, dropout, sharded states, all types, with and without fusion.
 * Replicas of states are equal bit by bit. Then: order in time, failures and stalls by name. */
#include <pthread.h>

#include "synth/program/pair.h"
#include "tests/launcher/execute/executor_round.h"
#include "tests/synth/layout/rules.h"
#include "tests/synth/find_op.h"

struct worker {
    struct round *round;
    int rank;
    struct mt_comm *comm;
    pthread_t thread;
};

static void *work(void *argument) {
    struct worker *w = argument;
    run_rank(w->round, w->rank, w->comm);
    return NULL;
}

/* Ranks that hold the same box of a state hold the same bits. */
static void check_replicas(const struct round *round) {
    const struct mt_program *p = round->train;
    for (int v = 0; v < p->nvalues; v++) {
        if (!is_state(p, v)) continue;
        const struct mt_layout *l = mt_pvalue_layout(p, v);
        for (int r = 1; r < p->nranks; r++) {
            if (memcmp(&l->box[r], &l->box[0], sizeof l->box[0])) continue;
            size_t bytes = (size_t)(mt_box_count(&l->box[r], l->naxes) * mt_type_size(p->values[v].type));
            int g = p->values[v].gvalue;
            CHECK(!memcmp(round->end[r][g], round->end[0][g], bytes), "%s: ranks 0 and %d drift apart",
                  p->graph->values[g].name, r);
        }
    }
}

static void run_ranks(struct round *round) {
    int n = round->train->nranks;
    struct worker workers[ROUND_RANKS];
    struct mt_comm *comms[ROUND_RANKS];
    mt_comm_local_new(n, comms);
    for (int r = 0; r < n; r++) {
        workers[r] = (struct worker){.round = round, .rank = r, .comm = comms[r]};
        CHECK_EQ(pthread_create(&workers[r].thread, NULL, work, &workers[r]), 0);
    }
    for (int r = 0; r < n; r++) pthread_join(workers[r].thread, NULL);
    check_replicas(round);
    for (int r = 0; r < n; r++) {
        forget_states(round, r);
        mt_comm_free(comms[r]);
    }
}

static int overlapped; /* instructions of training programs */

static void test_choice(const struct mt_graph *g, const struct mt_choice *choice) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_program train, forward;
    CHECK_OK(mt_build(g, choice, &train, &err), err);
    CHECK_OK(mt_build_forward(g, choice, &forward, &err), err);
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_pairs pairs;
    mt_pairs_find(&train, &arena, &pairs);
    overlapped += pairs.count;
    mt_arena_release(&arena);
    struct round round = {.graph = g, .train = &train, .forward = &forward};
    begin_round(&round);
    for (int fuse = 0; fuse < 2; fuse++) {
        round.fuse = fuse;
        round.copy_streams = fuse ? 0 : 2;
        run_ranks(&round);
    }
    end_round(&round);
    mt_program_release(&train);
    mt_program_release(&forward);
}

/* in_step: all ranks have as many micro-batches, which communicate. */
static void test_model(const char *text, int64_t batch, double dropout, enum mt_type type, bool in_step, int rounds) {
    struct mt_graph *g = training_graph_of(text, type, batch, dropout);
    for (int round = 0; round < rounds; round++) {
        struct mt_arena arena = MT_ARENA_INIT;
        struct mt_choice choice;
        choice_of_round(&arena, g, round, in_step, &choice);
        choice.decisions.gradient_wire = g->acc;
        if (round % 2) choice.decisions.overlapped = MT_OVERLAPPED_ALL;
        test_choice(g, &choice);
        mt_arena_release(&arena);
    }
    mt_graph_free(g);
}

static void split_rule(const struct mt_graph *g, struct mt_choice *choice, const char *op, const char *label) {
    struct mt_rule rules[MT_MAX_INDICES + MT_MAX_IN + 1];
    int o = find_op(g, op), n = all_rules(&g->ops[o], choice->splits, choice->nsplits, rules);
    for (int r = 0; r < n; r++)
        if (rules[r].kind == MT_RULE_SPLIT && rules[r].split->label == label_named(g, label))
            choice->rules[o] = rules[r];
    CHECK(choice->rules[o].kind == MT_RULE_SPLIT);
}

/* Rank 1 has nothing of a GEMM for want of heads, and nothing of the bias's sum for want of samples: one box, but no
 * fused GEMM is empty for both reasons. */
static void test_empty_twice(void) {
    struct mt_graph *g = training_graph("gpt2:layers=1,heads=2,embed=8,context=4,vocab=9,bias=1,tied=1", 5, 0);
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_choice choice;
    random_choice(&arena, g, 2, false, &choice);
    for (int s = 0; s < choice.nsplits; s++) {
        const struct mt_split *split = &choice.splits[s];
        split->sizes[0] = split->starts[1] = split->starts[2];
        split->sizes[1] = 0;
    }
    choice.micro[0] = choice.batch->sizes[0], choice.micro[1] = 0;
    for (int o = 0; o < g->nops; o++) choice.rules[o] = (struct mt_rule){.kind = MT_RULE_REPLICATE};
    split_rule(g, &choice, "h.0.attn.c_attn", "heads");
    split_rule(g, &choice, "h.0.attn.c_attn.add_bias", "batch");
    test_choice(g, &choice);
    mt_arena_release(&arena);
    mt_graph_free(g);
}

/* ---- order, failures, stalls: two ranks, micro-batches ---- */

struct pair {
    struct mt_graph *graph;
    struct mt_program program;
    struct mt_arena arena;
    struct mt_comm *comms[2];
    struct mt_device *device;
    struct mt_lowered *low[2];
    struct mt_executor *ex[2];
};

static void pair_init(struct pair *pair, double deadline_s) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_choice choice;
    *pair = (struct pair){.graph =
                              training_graph("gpt2:layers=2,heads=2,embed=8,context=4,vocab=11,bias=1,tied=1", 6, 0.1)};
    random_choice(&pair->arena, pair->graph, 2, false, &choice);
    for (int r = 0; r < 2; r++) choice.micro[r] = 1;
    choice.decisions.sync = MT_SYNC_REDUCE_SCATTER;
    CHECK_OK(mt_build(pair->graph, &choice, &pair->program, &err), err);
    CHECK_OK(mt_device_open("cpu", &pair->device, &err), err);
    mt_comm_local_new(2, pair->comms);
    for (int r = 0; r < 2; r++) {
        struct mt_lower_options options = {
            .fuse = true, .bandwidth_Bps = 1e9, .scratch_bytes = scratch_bytes, .context = pair->device};
        CHECK_OK(mt_lower(&pair->program, r, &options, &pair->low[r], &err), err);
        CHECK_OK(mt_executor_new(pair->device, pair->comms[r], pair->low[r], NULL, deadline_s, &pair->ex[r], &err),
                 err);
        feed(pair->ex[r], MT_RUN_TRAIN, pair->graph);
    }
}

static void pair_release(struct pair *pair) {
    for (int r = 0; r < 2; r++) {
        mt_executor_free(pair->ex[r]);
        mt_lowered_free(pair->low[r]);
        mt_comm_free(pair->comms[r]);
    }
    mt_device_close(pair->device);
    mt_program_release(&pair->program);
    mt_arena_release(&pair->arena);
    mt_graph_free(pair->graph);
}

struct log {
    const struct mt_lowered *low;
    double *start_s, *end_s; /* [ninstrs]: the last run's */
    int64_t *runs;
};

static void note(void *context, const struct mt_lowered *low, int instr, int64_t iteration, double start_s,
                 double end_s) {
    struct log *log = context;
    CHECK(low == log->low && end_s >= start_s && start_s >= log->end_s[instr]);
    CHECK_EQ(iteration, log->runs[instr]);
    log->runs[instr]++;
    log->start_s[instr] = start_s, log->end_s[instr] = end_s;
}

struct runner {
    struct pair *pair;
    int rank;
    enum mt_status st;
    struct mt_err err;
};

static void *run_once(void *argument) {
    struct runner *r = argument;
    struct mt_clock clock = {.step = 1, .seed = SEED, .lr = 0.01};
    r->st = mt_executor_run(r->pair->ex[r->rank], MT_RUN_TRAIN, &clock, &r->err);
    return NULL;
}

/* Every instruction is traced once an iteration, after the one that it waits for and the one before it; and the times
 * add up. */
static void test_trace(void) {
    struct pair pair;
    struct log logs[2];
    struct runner runners[2] = {{&pair, 0, MT_OK, MT_ERR_INIT}, {&pair, 1, MT_OK, MT_ERR_INIT}};
    pthread_t threads[2];
    pair_init(&pair, 60);
    for (int r = 0; r < 2; r++) {
        size_t n = (size_t)pair.low[r]->ninstrs;
        logs[r] =
            (struct log){pair.low[r], calloc(n, sizeof(double)), calloc(n, sizeof(double)), calloc(n, sizeof(int64_t))};
        mt_executor_trace(pair.ex[r], note, &logs[r]);
        CHECK_EQ(pthread_create(&threads[r], NULL, run_once, &runners[r]), 0);
    }
    for (int r = 0; r < 2; r++) {
        pthread_join(threads[r], NULL);
        CHECK_OK(runners[r].st, runners[r].err);
        const struct mt_lowered *low = pair.low[r];
        int last[MT_MOST_STREAMS] = {-1, -1, -1, -1, -1, -1, -1, -1};
        for (int i = 0; i < low->ninstrs; i++) {
            bool body = i >= low->block_begin[MT_BODY] && i < low->block_begin[MT_LAST];
            const struct mt_linstr *c = &low->instrs[i];
            CHECK_EQ(logs[r].runs[i], c->what == MT_LOWERED_ALIAS ? 0 : body ? low->body_count : 1);
            if (logs[r].runs[i] == 0) continue;
            for (int w = 0; w < c->nwaits; w++) CHECK(logs[r].start_s[i] >= logs[r].end_s[c->waits[w]]);
            if (last[c->stream] >= 0) CHECK(logs[r].start_s[i] >= logs[r].end_s[last[c->stream]]);
            last[c->stream] = i;
        }
        struct mt_run_times times = mt_executor_times(pair.ex[r]);
        CHECK(times.stream_s[MT_STREAM_COMPUTE] > 0 && times.stream_s[MT_STREAM_COMPUTE] <= times.wall_s);
        CHECK_NEAR(times.wait_s + times.stream_s[MT_STREAM_COMPUTE], times.wall_s, 1e-9);
        free(logs[r].start_s), free(logs[r].end_s), free(logs[r].runs);
    }
    pair_release(&pair);
}

/* A peer that never comes: a collective and the peer are named, within the deadline. */
static void test_stall(void) {
    struct pair pair;
    pair_init(&pair, 0.2);
    struct runner runner = {&pair, 0, MT_OK, MT_ERR_INIT};
    run_once(&runner);
    CHECK_EQ(runner.st, MT_ESTALL);
    bool named = false;
    for (int i = 0; i < pair.low[0]->ninstrs; i++)
        named |= pair.low[0]->instrs[i].what == MT_LOWERED_COLLECTIVE &&
                 strstr(runner.err.text, pair.low[0]->instrs[i].name);
    CHECK(named && strstr(runner.err.text, "rank 1"), "%s", runner.err.text);
    pair_release(&pair);
}

struct submitter {
    struct pair *pair;
    int rank;
    double loss[2];
};

static void *submit_twice(void *argument) {
    struct submitter *s = argument;
    struct mt_err err = MT_ERR_INIT;
    struct mt_executor *ex = s->pair->ex[s->rank];
    CHECK_EQ(mt_executor_depth(ex), 1);
    for (int i = 0; i < 2; i++) {
        struct mt_clock clock = {.step = 1 + i, .seed = SEED, .lr = 0.01};
        CHECK_EQ(mt_executor_in_flight(ex), 0);
        CHECK_OK(poison(ex, &err), err);
        CHECK_OK(mt_executor_submit(ex, MT_RUN_TRAIN, &clock, &err), err);
        CHECK_EQ(mt_executor_in_flight(ex), 1);
        CHECK_EQ(mt_executor_feed(ex, MT_RUN_TRAIN, mt_graph_find_value(s->pair->graph, "tokens"), NULL, NULL, &err),
                 MT_EBUG);
        err = (struct mt_err)MT_ERR_INIT;
        CHECK_OK(mt_executor_finish(ex, &err), err);
        CHECK_OK(mt_executor_result(ex, MT_RUN_TRAIN, s->pair->graph->loss_sum, &s->loss[i], &err), err);
    }
    return NULL;
}

/* A run in two parts; inputs that are fed once serve later runs, whatever becomes of their memory (all tokens -1 would
 * make no loss), and cannot be fed while they may be read. */
static void test_submit(void) {
    struct pair pair;
    struct submitter submitters[2] = {{&pair, 0, {0}}, {&pair, 1, {0}}};
    pthread_t threads[2];
    pair_init(&pair, 60);
    for (int r = 0; r < 2; r++) CHECK_EQ(pthread_create(&threads[r], NULL, submit_twice, &submitters[r]), 0);
    for (int r = 0; r < 2; r++) pthread_join(threads[r], NULL);
    for (int i = 0; i < 2; i++) CHECK_EQ(submitters[0].loss[i], submitters[1].loss[i]);
    CHECK(submitters[0].loss[0] > 0, "%g", submitters[0].loss[0]);
    CHECK_NEAR(submitters[0].loss[1], submitters[0].loss[0], 0.1 * submitters[0].loss[0]);
    pair_release(&pair);
}

/* A plan that names an algorithm which does not exist. */
static void test_refused(void) {
    struct pair pair;
    pair_init(&pair, 1);
    struct mt_err err = MT_ERR_INIT;
    struct mt_lowered *low;
    struct mt_lower_options options = {.fuse = true, .bandwidth_Bps = 1e9};
    for (int b = 0; b < MT_NBLOCKS; b++)
        for (int i = 0; i < pair.program.blocks[b].ninstrs; i++)
            pair.program.blocks[b].instrs[i].algorithm = "carrier pigeon";
    CHECK_EQ(mt_lower(&pair.program, 0, &options, &low, &err), MT_EINPUT);
    CHECK(strstr(err.text, "carrier pigeon") && !low, "%s", err.text);
    pair_release(&pair);
}

int main(void) {
    printf("seed %d\n", SEED);
    test_model("gpt2:layers=2,heads=3,embed=6,context=4,vocab=11,bias=1,tied=1", 5, 0.1, MT_F64, false, 10);
    test_model("gpt2:layers=1,heads=2,embed=8,context=5,vocab=7,bias=0,tied=0", 8, 0.2, MT_F64, false, 10);
    test_model("gpt2:layers=1,heads=2,embed=8,context=3,vocab=7,bias=1,tied=1", 6, 0, MT_F64, true, 8);
    test_model("mlp:context=3,embed=4,hidden=7,layers=2,vocab=9", 9, 0, MT_F64, false, 10);
    test_model("gpt2:layers=1,heads=2,embed=8,context=4,vocab=9,bias=1,tied=1", 6, 0.1, MT_F32, false, 6);
    test_model("gpt2:layers=1,heads=2,embed=8,context=4,vocab=9,bias=1,tied=1", 6, 0.1, MT_BF16, false, 6);
    test_empty_twice();
    test_trace();
    test_submit();
    test_stall();
    test_refused();
    CHECK(overlapped > 10, "%d overlapped instructions", overlapped);
    return 0;
}
