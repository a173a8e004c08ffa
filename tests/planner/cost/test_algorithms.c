/* Rows of algorithms by message size: what a program built with them takes, message by message, against the best
 * algorithm for every size by brute force, and against every single algorithm for all sizes. */
#include "planner/cost/algorithms.h"

#include "synth/program/message.h"
#include "tests/planner/small_cluster.h"
#include "tests/synth/programs.h"

/* All messages of a kind of `bytes` (-1: of all sizes) by one algorithm, or by what the choice says of their size;
 * infinite where it does not serve. */
static double total_s(const struct mt_program *p, const struct mt_costs *costs, enum mt_coll_kind kind, int64_t bytes,
                      const struct mt_choice *choice, const struct mt_coll_algorithm *only) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_arena arena = MT_ARENA_INIT;
    double sum_s = 0;
    for (int b = 0; b < MT_NBLOCKS; b++)
        for (int i = 0; i < p->blocks[b].ninstrs; i++) {
            const struct mt_instr *instr = &p->blocks[b].instrs[i];
            if (instr->kind != MT_INSTR_COLLECTIVE || instr->coll != kind) continue;
            int64_t size = mt_message_bytes(p, instr);
            if (bytes >= 0 && size != bytes) continue;
            const struct mt_coll_algorithm *a =
                choice ? mt_coll_find(kind, mt_decisions_algorithm(&choice->decisions, kind, size)) : only;
            double slowest_s = 0;
            for (int r = 0; r < p->nranks; r++) {
                struct mt_message m;
                CHECK_OK(mt_message_make(p, instr, r, NULL, &arena, &m, &err), err);
                bool serves = a->applies(&m.problem) && mt_cost_offers(costs, m.group, m.problem.n, a);
                double s = serves ? mt_cost_coll(costs, &m.problem, m.group, a).s : INFINITY;
                slowest_s = fmax(slowest_s, s);
            }
            sum_s += slowest_s * (b == MT_BODY ? (double)p->body_count[0] : 1);
        }
    mt_arena_release(&arena);
    return sum_s;
}

struct best {
    int64_t bytes;
    const struct mt_coll_algorithm *algorithm;
};

static int by_bytes(const void *a, const void *b) {
    int64_t x = ((const struct best *)a)->bytes, y = ((const struct best *)b)->bytes;
    return (x > y) - (x < y);
}

/* The best algorithm for every size; *changes: how often it is another than for the size before. */
static double best_s(const struct mt_program *p, const struct mt_costs *costs, enum mt_coll_kind kind, int *changes) {
    struct best sizes[1000];
    int nsizes = 0;
    double sum_s = 0;
    for (int b = 0; b < MT_NBLOCKS; b++)
        for (int i = 0; i < p->blocks[b].ninstrs; i++) {
            const struct mt_instr *instr = &p->blocks[b].instrs[i];
            if (instr->kind != MT_INSTR_COLLECTIVE || instr->coll != kind) continue;
            struct best size = {.bytes = mt_message_bytes(p, instr)};
            double least_s = INFINITY;
            bool seen = false;
            for (int k = 0; k < nsizes; k++) seen |= sizes[k].bytes == size.bytes;
            if (seen) continue;
            for (int a = 0; a < mt_coll_nalgorithms; a++) {
                if (mt_coll_algorithms[a]->kind != kind) continue;
                double s = total_s(p, costs, kind, size.bytes, NULL, mt_coll_algorithms[a]);
                if (s < least_s) least_s = s, size.algorithm = mt_coll_algorithms[a];
            }
            CHECK(nsizes < 1000);
            sizes[nsizes++] = size;
            sum_s += least_s;
        }
    qsort(sizes, (size_t)nsizes, sizeof *sizes, by_bytes);
    *changes = 0;
    for (int k = 1; k < nsizes; k++) *changes += sizes[k].algorithm != sizes[k - 1].algorithm;
    return sum_s;
}

static void check_rows(const struct mt_choice *choice, const struct mt_program *p, enum mt_coll_kind kind) {
    int64_t last = 0;
    bool any = false, used = false;
    for (int b = 0; b < MT_NBLOCKS; b++)
        for (int i = 0; i < p->blocks[b].ninstrs; i++)
            used |= p->blocks[b].instrs[i].kind == MT_INSTR_COLLECTIVE && p->blocks[b].instrs[i].coll == kind;
    for (int i = 0; i < choice->decisions.nalgorithms; i++) {
        const struct mt_algorithm_row *row = &choice->decisions.algorithms[i];
        if (row->kind != kind) continue;
        CHECK(!any && mt_coll_find(kind, row->algorithm), "a row after the last, or of no algorithm");
        CHECK(!row->up_to_bytes || row->up_to_bytes > last, "sizes rise");
        last = row->up_to_bytes;
        any = !row->up_to_bytes;
    }
    CHECK(any == used, "rows for kinds that are used, the last for any size");
}

static int test_program(const struct mt_graph *g, struct mt_choice *choice, const struct mt_costs *costs) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_algorithm_row *rows;
    struct mt_program p, again;
    CHECK_OK(mt_build(g, choice, &p, &err), err);
    CHECK_OK(mt_algorithm_rows(&p, costs, &arena, &rows, &choice->decisions.nalgorithms, &err), err);
    choice->decisions.algorithms = rows;
    CHECK_OK(mt_build(g, choice, &again, &err), err);
    for (int k = 0; k < MT_NCOLLS; k++) {
        enum mt_coll_kind kind = (enum mt_coll_kind)k;
        check_rows(choice, &p, kind);
        double got_s = total_s(&again, costs, kind, -1, choice, NULL);
        int nrows = 0, changes;
        double least_s = best_s(&again, costs, kind, &changes);
        for (int i = 0; i < choice->decisions.nalgorithms; i++) nrows += rows[i].kind == kind;
        /* a row must be worth half a percent */
        CHECK(got_s + 0.005 * least_s * (nrows - 1) <= least_s * (1 + 0.005 * changes) * (1 + 1e-12) || !nrows,
              "%s: %g in %d rows, at best %g in %d", mt_coll_name(kind), got_s, nrows, least_s, changes + 1);
        for (int a = 0; a < mt_coll_nalgorithms; a++)
            if (mt_coll_algorithms[a]->kind == kind && nrows)
                CHECK(got_s <= total_s(&again, costs, kind, -1, NULL, mt_coll_algorithms[a]) * (1 + 1e-12));
    }
    for (int b = 0; b < MT_NBLOCKS; b++)
        for (int i = 0; i < again.blocks[b].ninstrs; i++) {
            const struct mt_instr *instr = &again.blocks[b].instrs[i];
            if (instr->kind != MT_INSTR_COLLECTIVE) continue;
            CHECK_TEXT(instr->algorithm,
                       mt_decisions_algorithm(&choice->decisions, instr->coll, mt_message_bytes(&again, instr)));
            CHECK(strcmp(instr->algorithm, "auto"));
        }
    int nrows = choice->decisions.nalgorithms;
    mt_program_release(&p);
    mt_program_release(&again);
    mt_arena_release(&arena);
    return nrows;
}

/* What is not in any row is "auto"; the first row that is large enough counts. */
static void test_lookup(void) {
    struct mt_algorithm_row rows[] = {{MT_ALL_REDUCE, "tree", 1000},
                                      {MT_ALL_GATHER, "bruck", 0},
                                      {MT_ALL_REDUCE, "direct", 64000},
                                      {MT_ALL_REDUCE, "ring", 0}};
    struct mt_choice choice = {.decisions = {.nalgorithms = 4, .algorithms = rows}};
    CHECK_TEXT(mt_decisions_algorithm(&choice.decisions, MT_ALL_REDUCE, 0), "tree");
    CHECK_TEXT(mt_decisions_algorithm(&choice.decisions, MT_ALL_REDUCE, 1000), "tree");
    CHECK_TEXT(mt_decisions_algorithm(&choice.decisions, MT_ALL_REDUCE, 1001), "direct");
    CHECK_TEXT(mt_decisions_algorithm(&choice.decisions, MT_ALL_REDUCE, 1 << 30), "ring");
    CHECK_TEXT(mt_decisions_algorithm(&choice.decisions, MT_ALL_GATHER, 7), "bruck");
    CHECK_TEXT(mt_decisions_algorithm(&choice.decisions, MT_BROADCAST, 7), "auto");
}

int main(void) {
    printf("seed %d\n", SEED);
    test_lookup();
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_graph *five = training_graph("gpt2:layers=2,heads=2,embed=32,context=8,vocab=301,bias=1,tied=1", 5, 0);
    struct mt_graph *six = training_graph("gpt2:layers=1,heads=2,embed=8,context=4,vocab=31,bias=1,tied=1", 6, 0);
    int most = 0;
    for (int round = 0; round < 20; round++) {
        struct mt_choice choice;
        const struct mt_graph *g = round % 5 == 4 ? six : five;
        if (round % 5 == 4)
            choice_in_step(&arena, g, 2 + (int)below(4), 3, true, &choice);
        else
            make_choice(&arena, g, (enum style)(round % 5), &choice);
        struct small_cluster *s = small_cluster(3, 2);
        s->links[NETWORK].latency_s = 10e-6 * (double)(1 + below(50));
        s->links[NETWORK].shared_Bps = 1.5e8;
        s->costs.memo = round % 2 ? mt_cost_memo_new() : NULL;
        int nrows = test_program(g, &choice, &s->costs);
        if (nrows > most) most = nrows;
        mt_cost_memo_free(s->costs.memo);
        free(s);
    }
    printf("at most %d rows\n", most);
    CHECK(most > 4, "some kind has several rows");
    mt_graph_free(five);
    mt_graph_free(six);
    mt_arena_release(&arena);
    return 0;
}
