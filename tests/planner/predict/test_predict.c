/* Predicted steps against a naive simulation in small steps of time, timelines worked out by hand, bounds that hold for
 * every step, and folding against none. */
#include "planner/predict/predict.h"

#include "planner/predict/simulate.h"
#include "tests/planner/small_cluster.h"
#include "tests/planner/predict/naive_simulation.h"
#include "tests/planner/predict/unequal_programs.h"

#ifdef MOTLEY_SANITIZE
enum { TICKS = 20000, ROUNDS = 5 };
#else
enum { TICKS = 100000, ROUNDS = 20 };
#endif

static const struct mt_lower_options options = {.fuse = true, .latency_s = 30e-6, .bandwidth_Bps = 1e9};

static struct mt_prediction predict(const struct mt_program *p, const struct mt_costs *costs) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_prediction prediction;
    CHECK_OK(mt_predict(p, costs, &options, &prediction, &err), err);
    return prediction;
}

/* ---- by hand ---- */

enum { COMPUTE = MT_STREAM_COMPUTE, COMM = MT_STREAM_COMM, COPIES, NSTREAMS };

/* An actor with a list of instructions: stream, what it waits for, own time; below zero: a collective of that length.
 */
struct line {
    int stream, wait;
    double s;
};

static struct mt_sim_actor actor_of(struct mt_sim *sim, const struct line *lines, int n, int rank) {
    struct mt_sim_actor actor = {.rank = rank, .ninstrs = n, .nphases = 1, .copy_rate = 0.5};
    for (int s = 0; s < NSTREAMS; s++) actor.items[s] = mt_new(&sim->arena, struct mt_sim_item, n);
    int rendezvous = 0;
    for (int i = 0; i < n; i++) {
        struct mt_sim_item *item = &actor.items[lines[i].stream][actor.nitems[lines[i].stream]++];
        struct mt_sim_wait *wait = mt_new(&sim->arena, struct mt_sim_wait, 1);
        *wait = (struct mt_sim_wait){lines[i].wait, 1};
        *item = (struct mt_sim_item){.instr = i,
                                     .work = true,
                                     .nwaits = lines[i].wait >= 0,
                                     .waits = wait,
                                     .rendezvous = -1,
                                     .own_s = lines[i].s};
        if (lines[i].s >= 0) continue;
        item->own_s = 0;
        item->rendezvous = rendezvous++;
    }
    return actor;
}

/* Two ranks, all their collectives together. */
static double simulate_two(const struct line *a, int na, const struct line *b, int nb, double slowdown,
                           struct mt_sim_actor actors[2]) {
    struct mt_sim sim = {.nstreams = NSTREAMS, .nactors = 2, .actors = actors};
    struct mt_err err = MT_ERR_INIT;
    double ends_s[2];
    int both[2] = {0, 1};
    actors[0] = actor_of(&sim, a, na, 0);
    actors[1] = actor_of(&sim, b, nb, 1);
    sim.rendezvous = mt_new(&sim.arena, struct mt_sim_rendezvous, na);
    for (int i = 0; i < na; i++)
        if (a[i].s < 0)
            sim.rendezvous[sim.nrendezvous++] = (struct mt_sim_rendezvous){.stream = a[i].stream,
                                                                           .alone_s = -a[i].s,
                                                                           .compute_slowdown = slowdown,
                                                                           .comm_slowdown = 1,
                                                                           .nmembers = 2,
                                                                           .members = both};
    CHECK_OK(mt_sim_run(&sim, 2, ends_s, &err), err);
    mt_arena_release(&sim.arena);
    return ends_s[1] - ends_s[0];
}

static void test_by_hand(void) {
    struct mt_sim_actor actors[2];
    /* Rank 1 comes late; a collective of 2 s after 1 and 3 s of work, then 1 s more: 3 + 2 + 1. */
    struct line fast[] = {{COMPUTE, -1, 1}, {COMM, 0, -2}, {COMPUTE, 1, 1}};
    struct line slow[] = {{COMPUTE, -1, 3}, {COMM, 0, -2}, {COMPUTE, 1, 1}};
    CHECK_NEAR(simulate_two(fast, 3, slow, 3, 0, actors), 6, 1e-12);
    CHECK_NEAR(actors[0].compute_s, 2, 1e-12);
    CHECK_NEAR(actors[0].comm_s, 2, 1e-12);
    CHECK_NEAR(actors[0].hidden_s, 0, 1e-12);
    CHECK_NEAR(actors[1].compute_s, 4, 1e-12);
    /* What one loses after the collective, the other loses before it: ranks do not begin steps together. Rank 0 takes 1
     * and 5 s around it, rank 1 takes 3 and 1: alone 6 and 4 s, and a step of 6 + 2, not 3 + 2 + 5. */
    struct line early[] = {{COMPUTE, -1, 1}, {COMM, 0, -2}, {COMPUTE, 1, 5}};
    CHECK_NEAR(simulate_two(early, 3, slow, 3, 0, actors), 8, 1e-12);
    /* Both streams: computing takes half as long again during the collective, which itself takes twice as long
     * while somebody computes. From 1: the collective (2 s alone) against 2 s of work at 2/3: work done at 4; until
     * then the collective has done 1.5 s, the rest takes 0.5: 4.5. */
    struct line overlap[] = {{COMPUTE, -1, 1}, {COMM, 0, -2}, {COMPUTE, -1, 2}};
    CHECK_NEAR(simulate_two(overlap, 3, overlap, 3, 0.5, actors), 4.5, 1e-12);
    CHECK_NEAR(actors[1].compute_s, 4, 1e-12);
    CHECK_NEAR(actors[1].comm_s, 3.5, 1e-12);
    CHECK_NEAR(actors[1].hidden_s, 3, 1e-12);
    /* A copy overlaps computing: both at half speed. 1 s copy and 3 s work: at 2 the copy is done, 2 s of work are
     * left.
     */
    struct line copies[] = {{COMM, -1, 1}, {COMPUTE, -1, 3}};
    CHECK_NEAR(simulate_two(copies, 2, copies, 2, 0, actors), 4, 1e-12);
    struct line aside[] = {{COPIES, -1, 1}, {COMPUTE, -1, 3}, {COMM, 1, -2}, {COMPUTE, 2, 1}};
    CHECK_NEAR(simulate_two(aside, 4, aside, 4, 0, actors), 4 + 2 + 1, 1e-12);
    /* One on the compute stream, which counts as computing but for the wait for the other rank. */
    struct line within[] = {{COMPUTE, -1, 1}, {COMPUTE, -1, -2}, {COMPUTE, -1, 1}};
    struct line later[] = {{COMPUTE, -1, 3}, {COMPUTE, -1, -2}, {COMPUTE, -1, 1}};
    CHECK_NEAR(simulate_two(within, 3, later, 3, 0, actors), 6, 1e-12);
    CHECK_NEAR(actors[0].compute_s, 4, 1e-12);
    CHECK_NEAR(actors[1].compute_s, 6, 1e-12);
    CHECK_NEAR(actors[0].comm_s, 0, 1e-12);
    /* A rank that waits for a collective that the other never reaches is an error. */
    struct mt_err err = MT_ERR_INIT;
    struct mt_sim sim = {.nstreams = NSTREAMS, .nactors = 2, .actors = actors};
    double ends_s[2];
    int both[2] = {0, 1};
    actors[0] = actor_of(&sim, fast, 3, 0);
    actors[1] = actor_of(&sim, copies, 2, 1);
    struct mt_sim_rendezvous rendezvous = {.stream = COMM, .alone_s = 1, .nmembers = 2, .members = both};
    sim.rendezvous = &rendezvous, sim.nrendezvous = 1;
    CHECK_EQ(mt_sim_run(&sim, 2, ends_s, &err), MT_EBUG);
    CHECK(strstr(err.text, "wait for each other"), "%s", err.text);
    mt_arena_release(&sim.arena);
}

/* GPUs: a collective's kernel waits for multiprocessors while the rank computes, at most until it does not; and then
 * slows computing also while it waits for the other rank. */
static void test_gpus(void) {
    static const struct {
        struct line a[3], b[3];
        double end_s;
    } cases[] = {
        /* From 1.5 on a's second operator runs at half speed, b's from 2.5 on, both until 3.5. */
        {{{0, -1, 1}, {1, 0, -1}, {0, -1, 3}}, {{0, -1, 2}, {1, 0, -1}, {0, -1, 2}}, 5},
        /* Both have ended computing at 1.2. */
        {{{0, -1, 1}, {1, 0, -1}, {0, -1, 0.2}}, {{0, -1, 1}, {1, 0, -1}, {0, -1, 0.2}}, 2.2},
    };
    for (int i = 0; i < 2; i++) {
        struct mt_sim_actor actors[2];
        struct mt_err err = MT_ERR_INIT;
        double ends_s[1];
        int both[2] = {0, 1};
        struct mt_sim sim = {.nstreams = NSTREAMS, .nactors = 2, .actors = actors};
        actors[0] = actor_of(&sim, cases[i].a, 3, 0);
        actors[1] = actor_of(&sim, cases[i].b, 3, 1);
        for (int a = 0; a < 2; a++) actors[a].yield_s = 0.5, actors[a].items[MT_STREAM_COMM][0].kernels = 1;
        struct mt_sim_rendezvous rendezvous = {
            .stream = COMM, .alone_s = 1, .compute_slowdown = 1, .spins = true, .nmembers = 2, .members = both};
        sim.rendezvous = &rendezvous, sim.nrendezvous = 1;
        CHECK_OK(mt_sim_run(&sim, 1, ends_s, &err), err);
        CHECK_NEAR(ends_s[0], cases[i].end_s, 1e-12);
        mt_arena_release(&sim.arena);
    }
}

/* A rank that waits sleeps: when the late rank arrives, the other sleeps for half a nap on. */
static void test_naps(void) {
    struct mt_sim_actor actors[2];
    struct line fast[] = {{COMPUTE, -1, 0.001}, {COMM, 0, -0.002}}, slow[] = {{COMPUTE, -1, 0.021}, {COMM, 0, -0.002}};
    struct mt_sim sim = {.nstreams = NSTREAMS, .nactors = 2, .actors = actors};
    struct mt_err err = MT_ERR_INIT;
    double ends_s[1];
    int both[2] = {0, 1};
    actors[0] = actor_of(&sim, fast, 2, 0);
    actors[1] = actor_of(&sim, slow, 2, 1);
    struct mt_sim_rendezvous rendezvous = {
        .stream = COMM, .alone_s = 0.002, .naps = true, .nmembers = 2, .members = both};
    sim.rendezvous = &rendezvous, sim.nrendezvous = 1;
    CHECK_OK(mt_sim_run(&sim, 1, ends_s, &err), err);
    CHECK_NEAR(ends_s[0], 0.021 + 0.05 * 0.020 / 2 + 0.002, 1e-12); /* naps are a twentieth of the wait */
    mt_arena_release(&sim.arena);
}

/* ---- whole programs ---- */

static void check_bounds(const struct mt_prediction *f, const char *what) {
    CHECK(f->step_s > 0 && isfinite(f->step_s), "%s", what);
    CHECK(f->error > 0.01 && f->error < 1, "%s: %g", what, f->error);
    for (int r = 0; r < f->nranks; r++) {
        const struct mt_rank_prediction *rank = &f->ranks[r];
        double slack = 1e-9 * f->step_s;
        CHECK(f->step_s >= rank->compute_s - slack && f->step_s >= rank->comm_s - slack, "%s", what);
        CHECK(rank->exposed_s >= -slack && rank->exposed_s <= rank->comm_s + slack, "%s", what);
        CHECK(rank->arena_bytes > 0);
    }
    const struct mt_rank_prediction *slowest = f->ranks;
    for (int r = 0; r < f->nranks; r++)
        if (f->ranks[r].idle_s < slowest->idle_s) slowest = &f->ranks[r];
    CHECK_NEAR(slowest->compute_s + slowest->exposed_s + slowest->idle_s, f->step_s, 1e-9 * f->step_s);
}

static void set_kind(struct small_cluster *s, const char *kind) {
    for (int c = 0; c < 2; c++) s->classes[c].kind = kind;
}

/* A slower device or link never makes the step shorter. Of devices that do not sleep: a rank that arrives earlier may
 * sleep longer. */
static void check_monotone(const struct mt_program *p, struct small_cluster *s) {
    double *knobs[] = {&s->links[NETWORK].bandwidth_Bps, &s->links[MEMORY].bandwidth_Bps, &s->devices[0].speed,
                       &s->devices[1].speed, &s->classes[0].memory_Bps};
    struct mt_prediction before = predict(p, &s->costs);
    for (size_t k = 0; k < sizeof knobs / sizeof *knobs; k++) {
        double was = *knobs[k];
        *knobs[k] = was * 0.6;
        struct mt_prediction slower = predict(p, &s->costs);
        *knobs[k] = was;
        CHECK(slower.step_s >= before.step_s * (1 - 1e-9), "knob %zu: %.9g after %.9g", k, slower.step_s,
              before.step_s);
        mt_arena_release(&slower.arena);
    }
    mt_arena_release(&before.arena);
}

/* Without classes of ranks: devices that differ, but in nothing that takes time. */
static void check_folding(const struct mt_program *p, struct small_cluster *s) {
    for (int d = 0; d < s->cluster.ndevices; d++) s->devices[d].speed = 0.5, s->devices[d].class = 0;
    struct mt_prediction folded = predict(p, &s->costs);
    for (int d = 0; d < s->cluster.ndevices; d++) s->devices[d].speed_error = 1e-9 * d;
    struct mt_prediction apart = predict(p, &s->costs);
    CHECK_NEAR(folded.step_s, apart.step_s, 1e-9 * apart.step_s);
    for (int r = 0; r < apart.nranks; r++) {
        CHECK_NEAR(folded.ranks[r].compute_s, apart.ranks[r].compute_s, 1e-9 * apart.step_s);
        CHECK_NEAR(folded.ranks[r].exposed_s, apart.ranks[r].exposed_s, 1e-9 * apart.step_s);
        CHECK_EQ(folded.ranks[r].arena_bytes, apart.ranks[r].arena_bytes);
    }
    mt_arena_release(&folded.arena);
    mt_arena_release(&apart.arena);
}

/* The program that is simulated is the one that runs. */
static void check_memory(const struct mt_program *p, const struct mt_prediction *f) {
    for (int r = 0; r < p->nranks; r++) {
        struct mt_err err = MT_ERR_INIT;
        struct mt_lowered *low;
        CHECK_OK(mt_lower(p, r, &options, &low, &err), err);
        CHECK_EQ(f->ranks[r].arena_bytes, low->arena_bytes);
        CHECK_EQ(f->ranks[r].state_bytes, low->state_bytes);
        mt_lowered_free(low);
    }
}

static double against_naive(const struct mt_program *p, const struct mt_costs *costs, int round) {
    struct mt_prediction f = predict(p, costs);
    double naive_s = naive_step_s(p, costs, f.step_s / TICKS), error = fabs(naive_s / f.step_s - 1);
    CHECK(error < 300.0 / TICKS, "round %d: %.9g, naive %.9g", round, f.step_s, naive_s);
    mt_arena_release(&f.arena);
    return error;
}

static void test_programs(void) {
    struct mt_arena arena = MT_ARENA_INIT;
    static const char *const model = "gpt2:layers=1,heads=2,embed=8,context=6,vocab=11,bias=1,tied=1";
    struct mt_graph *five = training_graph(model, 5, 0), *six = training_graph(model, 6, 0);
    double worst = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct mt_program p;
        make_program(&arena, round % 5 == 4 ? six : five, round, &p);
        struct small_cluster *s = unequal_cluster(p.nranks);
        struct mt_prediction f = predict(&p, &s->costs);
        check_bounds(&f, "random");
        check_memory(&p, &f);
        worst = fmax(worst, against_naive(&p, &s->costs, round));
        set_kind(s, "cuda");
        worst = fmax(worst, against_naive(&p, &s->costs, round));
        check_monotone(&p, s);
        set_kind(s, "cpu");
        check_folding(&p, s);
        mt_arena_release(&f.arena);
        mt_program_release(&p);
        free(s);
    }
    printf("at most %.3f%% from the naive simulation\n", 100 * worst);
    mt_graph_free(five);
    mt_graph_free(six);
    mt_arena_release(&arena);
}

/* One rank: nothing but its operators and copies. */
static void test_alone(void) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_graph *g = training_graph("mlp:context=3,embed=4,hidden=7,layers=2,vocab=9", 6, 0);
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_choice one = {
        .nranks = 1, .decisions.gradient_wire = MT_F64, .rules = mt_new(&arena, struct mt_rule, g->nops)};
    struct mt_program p;
    struct mt_lowered *low;
    CHECK_OK(mt_build(g, &one, &p, &err), err);
    struct small_cluster *s = unequal_cluster(1);
    s->classes[0].nominal = true;
    CHECK_OK(mt_lower(&p, 0, &options, &low, &err), err);
    double sum_s = 0;
    for (int i = 0; i < low->ninstrs; i++) {
        struct node node = {.c = &low->instrs[i]};
        if (node.c->what != MT_LOWERED_ALIAS) naive_price(&s->costs, 0, &node);
        sum_s += node.own_s + node.unpack_s;
    }
    struct mt_prediction f = predict(&p, &s->costs);
    CHECK_NEAR(f.step_s, sum_s, 1e-9 * sum_s);
    CHECK_NEAR(f.ranks[0].compute_s, sum_s, 1e-9 * sum_s);
    CHECK(f.nominal && f.ranks[0].exposed_s == 0 && f.ranks[0].idle_s == 0);

    /* A band ends where the hardware does: with all of its public rates there is nothing below but the overheads. */
    double floor_s = 0;
    const struct mt_cluster_class *class = &s->classes[0];
    for (int i = 0; i < low->ninstrs; i++) {
        if (low->instrs[i].what != MT_LOWERED_OP) continue;
        struct mt_call call = mt_linstr_call(&low->instrs[i], low->instrs[i].tensor);
        struct mt_op_shape shape;
        mt_op_shape(&call, &shape);
        double flops_s = class->flops[shape.type] > 0 ? shape.flops / class->flops[shape.type] : 0;
        floor_s += fmax(flops_s, shape.bytes / class->memory_Bps) / s->devices[0].speed;
    }
    CHECK(f.error > 0.1 && f.error_below > 0 && f.error_below <= f.error, "-%g +%g", f.error_below, f.error);
    CHECK(f.step_s * (1 - f.error_below) >= floor_s * (1 - 1e-9), "%g below %g", f.step_s * (1 - f.error_below),
          floor_s);
    mt_arena_release(&f.arena);
    s->classes[0].overhead_s = 0;
    f = predict(&p, &s->costs);
    CHECK(f.error > 0.1 && f.error_below < f.error, "-%g +%g", f.error_below, f.error);
    CHECK(f.step_s * (1 - f.error_below) >= floor_s * (1 - 1e-9), "%g below %g", f.step_s * (1 - f.error_below),
          floor_s);
    mt_arena_release(&f.arena);
    mt_lowered_free(low);
    mt_program_release(&p);
    mt_graph_free(g);
    mt_arena_release(&arena);
    free(s);
}

int main(void) {
    printf("seed %d\n", SEED);
    test_by_hand();
    test_naps();
    test_gpus();
    test_alone();
    test_programs();
    return 0;
}
