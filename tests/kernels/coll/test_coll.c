/* Every algorithm on 1 to 17 ranks (under sanitizers 9), in one process: a simulator runs all ranks' schedules with
 * sends that wait for their receivers, so that an algorithm that could deadlock does. Checks results, equal bits on all
 * ranks, costs against the time that the same simulator takes, and the choice. */
#include "kernels/coll/reduce.h"
#include "tests/kernels/coll/reference.h"

enum { MAX_RANKS = 17 };
static const double alpha_s = 10e-6, beta_Bps = 1e9;

struct arrived { /* data of one step's message, in the wire's type */
    void *data;
    double sent_s; /* when the sender's round began */
    bool done;
};
struct rank {
    struct mt_coll problem;
    struct mt_schedule schedule;
    char *buffer[3];
    int round;
    struct arrived *message; /* [nsteps]: of SENDs what is sent, of RECV and REDUCE what came */
    double *begin_s;         /* [nrounds + 1] */
};

static int round_begin(const struct rank *rank, int round) {
    return round ? rank->schedule.round_end[round - 1] : 0;
}

static char *range(const struct rank *rank, int buffer, int64_t offset) {
    return rank->buffer[buffer] + offset * mt_type_size(rank->problem.acc);
}

static void start_round(struct rank *rank) {
    if (rank->round == rank->schedule.nrounds) return;
    for (int i = round_begin(rank, rank->round); i < rank->schedule.round_end[rank->round]; i++) {
        const struct mt_step *s = &rank->schedule.steps[i];
        if (s->kind != MT_STEP_SEND) continue;
        rank->message[i].data = malloc((size_t)(s->count * mt_type_size(rank->problem.wire)));
        mt_type_convert(rank->problem.wire, rank->message[i].data, rank->problem.acc, range(rank, s->buffer, s->offset),
                        s->count);
    }
}

/* Give what `from` sends to `to` in its round to the receives that `to` has posted in its own, in order. */
static bool match(struct rank *from, int from_place, struct rank *to, int to_place) {
    if (from->round == from->schedule.nrounds || to->round == to->schedule.nrounds) return false;
    bool any = false;
    int in = round_begin(to, to->round), in_end = to->schedule.round_end[to->round];
    for (int out = round_begin(from, from->round); out < from->schedule.round_end[from->round]; out++) {
        const struct mt_step *s = &from->schedule.steps[out];
        if (s->kind != MT_STEP_SEND || s->peer != to_place || from->message[out].done) continue;
        for (; in < in_end; in++) {
            const struct mt_step *r = &to->schedule.steps[in];
            if ((r->kind == MT_STEP_RECV || r->kind == MT_STEP_REDUCE) && r->peer == from_place &&
                !to->message[in].done)
                break;
        }
        if (in == in_end) break;
        CHECK_EQ(to->schedule.steps[in].count, s->count);
        to->message[in].data = from->message[out].data;
        to->message[in].sent_s = from->begin_s[from->round];
        from->message[out].data = NULL;
        from->message[out].done = to->message[in].done = any = true;
    }
    return any;
}

static void apply(struct rank *rank, int i) {
    const struct mt_step *s = &rank->schedule.steps[i];
    const struct mt_coll *p = &rank->problem;
    char *place = range(rank, s->buffer, s->offset), *to = range(rank, s->to_buffer, s->to);
    void *data = rank->message[i].data;
    switch (s->kind) {
    case MT_STEP_SEND: break;
    case MT_STEP_RECV: mt_type_convert(p->acc, place, p->wire, data, s->count); break;
    case MT_STEP_REDUCE: mt_coll_reduce(p->reduce, p->acc, place, p->wire, data, s->count); break;
    case MT_STEP_COPY: memmove(to, place, (size_t)(s->count * mt_type_size(p->acc))); break;
    case MT_STEP_ADD: mt_coll_reduce(p->reduce, p->acc, to, p->acc, place, s->count); break;
    case MT_STEP_ROUND: mt_coll_round(p->wire, p->acc, place, s->count); break;
    }
    free(data);
}

/* When the round that `rank` is in ends: after its own begin and its senders', by the model that coll.h states. */
static double round_end_s(const struct rank *rank) {
    double begin_s = rank->begin_s[rank->round];
    int64_t out = 0, in = 0;
    bool to[MAX_RANKS] = {0}, from[MAX_RANKS] = {0};
    for (int i = round_begin(rank, rank->round); i < rank->schedule.round_end[rank->round]; i++) {
        const struct mt_step *s = &rank->schedule.steps[i];
        if (s->kind == MT_STEP_SEND) {
            out += s->count, to[s->peer] = true;
        } else if (s->kind == MT_STEP_RECV || s->kind == MT_STEP_REDUCE) {
            in += s->count, from[s->peer] = true;
            begin_s = fmax(begin_s, rank->message[i].sent_s);
        }
    }
    int sends = 0, receives = 0;
    for (int r = 0; r < rank->problem.n; r++) sends += to[r], receives += from[r];
    return begin_s + (sends > receives ? sends : receives) * alpha_s +
           (double)((out > in ? out : in) * mt_type_size(rank->problem.wire)) / beta_Bps;
}

static bool round_done(const struct rank *rank) {
    for (int i = round_begin(rank, rank->round); i < rank->schedule.round_end[rank->round]; i++) {
        enum mt_step_kind kind = rank->schedule.steps[i].kind;
        bool is_message = kind == MT_STEP_SEND || kind == MT_STEP_RECV || kind == MT_STEP_REDUCE;
        if (is_message && !rank->message[i].done) return false;
    }
    return true;
}

/* Run to the end; returns the slowest rank's time. */
static double simulate(struct rank *ranks, int n) {
    for (int r = 0; r < n; r++) start_round(&ranks[r]);
    for (bool any = true; any;) {
        any = false;
        for (int from = 0; from < n; from++)
            for (int to = 0; to < n; to++) any |= match(&ranks[from], from, &ranks[to], to);
        bool done[MAX_RANKS];
        double end_s[MAX_RANKS];
        for (int r = 0; r < n; r++) {
            done[r] = ranks[r].round < ranks[r].schedule.nrounds && round_done(&ranks[r]);
            if (done[r]) end_s[r] = round_end_s(&ranks[r]);
        }
        for (int r = 0; r < n; r++) {
            if (!done[r]) continue;
            for (int i = round_begin(&ranks[r], ranks[r].round); i < ranks[r].schedule.round_end[ranks[r].round]; i++)
                apply(&ranks[r], i);
            ranks[r].begin_s[++ranks[r].round] = end_s[r];
            start_round(&ranks[r]);
            any = true;
        }
    }
    double slowest_s = 0;
    for (int r = 0; r < n; r++) {
        CHECK_EQ(ranks[r].round, ranks[r].schedule.nrounds); /* else: a deadlock */
        slowest_s = fmax(slowest_s, ranks[r].begin_s[ranks[r].round]);
    }
    return slowest_s;
}

/* A schedule stays within its buffers and sends nothing empty. */
static void check_schedule(const struct rank *rank) {
    const struct mt_schedule *s = &rank->schedule;
    int64_t size[3] = {reference_size(&rank->problem, 0), reference_size(&rank->problem, 1), s->scratch_count};
    for (int i = 0; i < s->nsteps; i++) {
        const struct mt_step *step = &s->steps[i];
        CHECK(step->count > 0 && step->offset + step->count <= size[step->buffer]);
        bool local = step->kind == MT_STEP_COPY || step->kind == MT_STEP_ADD;
        CHECK(!local || step->to + step->count <= size[step->to_buffer]);
        CHECK(step->kind >= MT_STEP_COPY ||
              (step->peer >= 0 && step->peer < rank->problem.n && step->peer != rank->problem.me));
    }
    CHECK_EQ(s->nrounds ? s->round_end[s->nrounds - 1] : 0, s->nsteps);
}

/* Run one algorithm on one problem; returns simulated over stated cost (1 when both are nothing). */
static double trial(const struct mt_coll_algorithm *algorithm, struct mt_coll problem) {
    struct rank ranks[MAX_RANKS] = {0};
    int n = problem.n;
    size_t acc = (size_t)mt_type_size(problem.acc);
    for (int r = 0; r < n; r++) {
        struct rank *rank = &ranks[r];
        rank->problem = problem;
        rank->problem.me = r;
        algorithm->schedule(&rank->problem, &rank->schedule);
        check_schedule(rank);
        for (int b = 0; b < 2; b++) rank->buffer[b] = malloc((size_t)reference_size(&rank->problem, b) * acc + 1);
        rank->buffer[2] = malloc((size_t)rank->schedule.scratch_count * acc + 1);
        reference_fill(&rank->problem, rank->buffer[0], rank->buffer[1]);
        rank->message = calloc((size_t)rank->schedule.nsteps + 1, sizeof *rank->message);
        rank->begin_s = calloc((size_t)rank->schedule.nrounds + 1, sizeof *rank->begin_s);
    }
    double simulated_s = simulate(ranks, n);
    for (int r = 0; r < n; r++) {
        reference_check(&ranks[r].problem, ranks[r].buffer[0], ranks[r].buffer[1], algorithm->name);
        if (reference_replicates(problem.kind))
            CHECK(!memcmp(ranks[r].buffer[0], ranks[0].buffer[0], (size_t)reference_size(&problem, 0) * acc),
                  "%s %s n %d %s in %s: rank %d has other bits", mt_coll_name(problem.kind), algorithm->name, n,
                  mt_type_name(problem.wire), mt_type_name(problem.acc), r);
    }
    for (int r = 0; r < n; r++) {
        for (int b = 0; b < 3; b++) free(ranks[r].buffer[b]);
        free(ranks[r].message);
        free(ranks[r].begin_s);
        mt_schedule_release(&ranks[r].schedule);
    }
    double stated_s = algorithm->cost_s(&problem, alpha_s, beta_Bps);
    CHECK(simulated_s <= stated_s * (1 + 1e-9), "%s %s n %d: takes %g s, said to take %g s", mt_coll_name(problem.kind),
          algorithm->name, n, simulated_s, stated_s);
    return stated_s > 0 ? simulated_s / stated_s : 1;
}

/* One algorithm with n ranks on these nodes: all shapes, types and roots. */
static void trials_on(const struct mt_coll_algorithm *algorithm, int n, const int *node, int64_t scale) {
    int64_t counts[MAX_RANKS * MAX_RANKS];
    bool reduces = algorithm->kind == MT_ALL_REDUCE || algorithm->kind == MT_REDUCE_SCATTER;
    struct mt_coll problem = {algorithm->kind, MT_REDUCE_NONE, MT_F64, MT_F64, n, 0, 0, counts, false, node};
    /* Unequal nodes take unequal times for a round, and the formula lets all ranks go through the rounds in step. */
    double least_even = algorithm->by_node ? 0.3 : 0.79, least = algorithm->by_node ? 0.1 : 0.3;
    for (int shape = 0; shape < REFERENCE_NSHAPES; shape++) {
        reference_counts(shape, n, algorithm->kind == MT_ALL_TO_ALL ? n * n : n, scale, counts);
        for (int t = 0; t < REFERENCE_NTYPES; t++) {
            problem.wire = reference_types[t].wire, problem.acc = reference_types[t].acc;
            for (problem.root = 0; problem.root < (problem.kind == MT_BROADCAST ? n : 1); problem.root++)
                for (int reduce = reduces ? MT_SUM : MT_REDUCE_NONE; reduce <= (reduces ? MT_MAX : 0); reduce++) {
                    problem.reduce = (enum mt_reduce)reduce;
                    if (!algorithm->applies(&problem)) return;
                    double ratio = trial(algorithm, problem);
                    CHECK(ratio > (shape == 0 ? least_even : least), "%s %s n %d shape %d: cost %g of what is said",
                          mt_coll_name(problem.kind), algorithm->name, n, shape, ratio);
                }
        }
        problem.wire = problem.acc = MT_I32, problem.reduce = MT_REDUCE_NONE, problem.root = 0;
        if (!reduces) trial(algorithm, problem);
    }
}

/* With all ranks on one node, and, where this matters, on nodes of every shape. */
static void trials(const struct mt_coll_algorithm *algorithm, int n, int64_t scale) {
    int node[MAX_RANKS];
    trials_on(algorithm, n, NULL, scale);
    for (int map = 0; map < REFERENCE_NMAPS && algorithm->by_node; map++) {
        reference_nodes(map, n, node);
        trials_on(algorithm, n, node, scale);
    }
}

/* Messages so long that they are divided into several passes, or segments: sums and bits are checked as above. */
static void test_passes(void) {
    static const int nodes[][4] = {{0, 0, 0, 1}, {0, 1, 0, 1}, {0, 1, 2, 1}};
    for (int i = 0; i < mt_coll_nalgorithms; i++)
        for (int map = 0; map < 3 && mt_coll_algorithms[i]->by_node; map++) {
            const int64_t counts[] = {300000, 0, 500001, 250007};
            const struct mt_coll_algorithm *a = mt_coll_algorithms[i];
            bool reduces = mt_coll_reduces(a->kind);
            struct mt_coll problem = {
                a->kind,   reduces ? MT_SUM : MT_REDUCE_NONE, MT_F32, reduces ? MT_F64 : MT_F32, 4, 0, 2, counts, false,
                nodes[map]};
            CHECK(a->applies(&problem));
            trial(a, problem);
        }
}

/* The direct sum does not depend on who owns what. */
static void test_ownership(void) {
    enum { N = 5, TOTAL = 40 };
    const int64_t divisions[2][N] = {{8, 8, 8, 8, 8}, {0, 31, 0, 2, 7}};
    float result[2][TOTAL];
    for (int d = 0; d < 2; d++) {
        struct mt_coll problem = {MT_ALL_REDUCE, MT_SUM, MT_F32, MT_F32, N, 0, 0, divisions[d], false, NULL};
        struct rank ranks[MAX_RANKS] = {0};
        for (int r = 0; r < N; r++) {
            ranks[r].problem = problem;
            ranks[r].problem.me = r;
            mt_coll_find(MT_ALL_REDUCE, "direct")->schedule(&ranks[r].problem, &ranks[r].schedule);
            for (int b = 0; b < 3; b++) ranks[r].buffer[b] = malloc(TOTAL * sizeof(float));
            reference_fill(&ranks[r].problem, ranks[r].buffer[0], ranks[r].buffer[1]);
            ranks[r].message = calloc((size_t)ranks[r].schedule.nsteps + 1, sizeof *ranks[r].message);
            ranks[r].begin_s = calloc((size_t)ranks[r].schedule.nrounds + 1, sizeof(double));
        }
        simulate(ranks, N);
        memcpy(result[d], ranks[3].buffer[0], sizeof result[d]);
        for (int r = 0; r < N; r++) {
            for (int b = 0; b < 3; b++) free(ranks[r].buffer[b]);
            free(ranks[r].message);
            free(ranks[r].begin_s);
            mt_schedule_release(&ranks[r].schedule);
        }
    }
    CHECK(!memcmp(result[0], result[1], sizeof result[0]));
}

static const char *chosen(enum mt_coll_kind kind, int n, int64_t each, double latency_s) {
    int64_t counts[64];
    for (int r = 0; r < n; r++) counts[r] = each;
    struct mt_coll problem = {kind, MT_SUM, MT_F32, MT_F32, n, 0, 0, counts, false, NULL};
    return mt_coll_choose(&problem, latency_s, 1e9)->name;
}

static void test_choice(void) {
    CHECK_TEXT(chosen(MT_ALL_REDUCE, 16, 1, 50e-6), "recursive_doubling");
    CHECK_TEXT(chosen(MT_REDUCE_SCATTER, 16, 1, 50e-6), "recursive_halving");
    CHECK_TEXT(chosen(MT_ALL_GATHER, 12, 1, 50e-6), "bruck");
    CHECK_TEXT(chosen(MT_BROADCAST, 16, 1, 50e-6), "binomial");
    CHECK_TEXT(chosen(MT_BROADCAST, 3, 10 << 20, 10e-6), "chain");
    CHECK_TEXT(chosen(MT_BROADCAST, 16, 60000, 10e-6), "scatter_gather");
    const char *large = chosen(MT_ALL_REDUCE, 7, 1 << 20, 50e-6);
    CHECK(!strcmp(large, "direct") || !strcmp(large, "ring"), "chose %s", large);
    /* Whatever is chosen costs no more than the others. */
    for (int i = 0; i < mt_coll_nalgorithms; i++) {
        const struct mt_coll_algorithm *a = mt_coll_algorithms[i];
        CHECK(mt_coll_find(a->kind, a->name) == a, "%s is there twice", a->name);
        for (int n = 2; n < 18; n += 3) {
            int64_t counts[MAX_RANKS * MAX_RANKS];
            reference_counts(1, n, a->kind == MT_ALL_TO_ALL ? n * n : n, 5000, counts);
            struct mt_coll problem = {a->kind, MT_SUM, MT_F32, MT_F32, n, 0, 0, counts, false, NULL};
            double best_s = mt_coll_choose(&problem, alpha_s, beta_Bps)->cost_s(&problem, alpha_s, beta_Bps);
            CHECK(!a->applies(&problem) || a->cost_s(&problem, alpha_s, beta_Bps) >= best_s, "%s is cheaper", a->name);
        }
    }
    CHECK(!mt_coll_find(MT_BROADCAST, "ring"));
}

/* Reductions against one element at a time; the odd cases of maxima. */
static void test_reduce(void) {
    enum { COUNT = 2500 };
    static const enum mt_type types[] = {MT_F64, MT_F32, MT_BF16, MT_F16};
    for (int a = 0; a < 4; a++)
        for (int b = 0; b < 4; b++)
            for (int reduce = MT_SUM; reduce <= MT_MAX; reduce++) {
                double to[COUNT], from[COUNT], old[COUNT];
                for (int i = 0; i < COUNT; i++) {
                    mt_type_store(types[a], to, i, mt_random_normal(1, 2, (uint64_t)i));
                    mt_type_store(types[b], from, i, mt_random_normal(3, 4, (uint64_t)i));
                }
                memcpy(old, to, sizeof old);
                mt_coll_reduce((enum mt_reduce)reduce, types[a], to, types[b], from, COUNT);
                for (int i = 0; i < COUNT; i++) {
                    double x = mt_type_load(types[a], old, i), y = mt_type_load(types[b], from, i), want;
                    mt_type_store(types[a], &want, 0, reduce == MT_SUM ? x + y : x > y ? x : y);
                    want = mt_type_load(types[a], &want, 0);
                    double unit = types[a] == MT_F64    ? 0x1p-52
                                  : types[a] == MT_F32  ? 0x1p-23
                                  : types[a] == MT_BF16 ? 0x1p-7
                                                        : 0x1p-10;
                    CHECK_NEAR(mt_type_load(types[a], to, i), want, unit * (fabs(x) + fabs(y)));
                }
            }
    const float odd[][3] = {
        {-0.f, 0.f, 0.f}, {0.f, -0.f, 0.f}, {-0.f, -0.f, -0.f}, {-INFINITY, 3, 3}, {INFINITY, -INFINITY, INFINITY}};
    for (int i = 0; i < 5; i++) {
        float single = odd[i][0], with = odd[i][1];
        double wide = odd[i][0], wide_with = odd[i][1];
        mt_coll_reduce(MT_MAX, MT_F32, &single, MT_F32, &with, 1);
        mt_coll_reduce(MT_MAX, MT_F64, &wide, MT_F64, &wide_with, 1);
        CHECK(single == odd[i][2] && !signbit(single) == !signbit(odd[i][2]), "%g %g", odd[i][0], odd[i][1]);
        CHECK(wide == odd[i][2] && !signbit(wide) == !signbit(odd[i][2]), "%g %g", odd[i][0], odd[i][1]);
    }
    float nan = NAN, one = 1, other = NAN;
    mt_coll_reduce(MT_MAX, MT_F32, &nan, MT_F32, &one, 1);
    mt_coll_reduce(MT_MAX, MT_F32, &one, MT_F32, &other, 1);
    CHECK(isnan(nan) && isnan(one));
    float neutral[3];
    mt_coll_neutral(MT_MAX, MT_F32, neutral, 3);
    CHECK(neutral[0] == -INFINITY && neutral[2] == -INFINITY);
}

int main(void) {
#ifdef MOTLEY_SANITIZE /* many ranks take long there */
    static const int sizes[] = {1, 2, 3, 4, 5, 8, 9};
#else
    static const int sizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17};
#endif
    for (int i = 0; i < mt_coll_nalgorithms; i++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) trials(mt_coll_algorithms[i], sizes[s], 6);
    /* Long enough for segments. */
    trials(mt_coll_find(MT_BROADCAST, "chain"), 3, 50000);
    trials(mt_coll_find(MT_BROADCAST, "chain"), 2, 32768);
    test_passes();
    test_ownership();
    test_choice();
    test_reduce();
    return 0;
}
