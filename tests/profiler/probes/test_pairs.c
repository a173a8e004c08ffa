/* Pairs and rounds on clusters of all sorts: every pair or some of every kind, and nobody disturbed by another. */
#include "kernels/base/number/rng.h"
#include "profiler/probes/internal.h"
#include "tests/check.h"

enum { SEED = 11, MOST_RANKS = 70, MOST_KINDS = 4 * 4 * 2 };
static uint64_t drawn;

static int below(int n) {
    return (int)(mt_random_u32(SEED, 3, drawn++) % (uint32_t)n);
}

static int kind(const struct mt_profile *p, int a, int b) {
    int low = p->places[a].class, high = p->places[b].class;
    if (low > high) low = p->places[b].class, high = p->places[a].class;
    return (low * 4 + high) * 2 + (p->places[a].node != p->places[b].node);
}

/* Ranks on random nodes, of up to four classes. */
static void make_cluster(struct mt_profile *p, int nranks, int nnodes, int nclasses) {
    *p = (struct mt_profile){.nranks = nranks, .nnodes = nnodes, .nclasses = nclasses};
    p->places = mt_new(&p->arena, struct mt_place, nranks);
    for (int r = 0; r < nranks; r++) {
        p->places[r].node = r < nnodes ? r : below(nnodes);
        p->places[r].class = r < nclasses ? r : below(nclasses);
    }
}

static void check_choice(const struct mt_profile *p) {
    int of_kind[MOST_KINDS] = {0}, chosen[MOST_KINDS] = {0}, all = p->nranks * (p->nranks - 1) / 2;
    bool has[MOST_RANKS] = {false}, met[MOST_RANKS] = {false}; /* pairs within nodes; measured ones */
    for (int a = 0; a < p->nranks; a++)
        for (int b = a + 1; b < p->nranks; b++) {
            of_kind[kind(p, a, b)]++;
            if (p->places[a].node == p->places[b].node) has[p->places[a].node] = true;
        }
    for (int i = 0; i < p->npairs; i++) {
        const struct mt_pair_times *pair = &p->pairs[i];
        CHECK(pair->a >= 0 && pair->a < pair->b && pair->b < p->nranks, "%d-%d", pair->a, pair->b);
        CHECK(!i || pair[-1].a < pair->a || (pair[-1].a == pair->a && pair[-1].b < pair->b), "order at %d", i);
        CHECK_EQ(pair->between, p->places[pair->a].node != p->places[pair->b].node);
        chosen[kind(p, pair->a, pair->b)]++;
        if (!pair->between) met[p->places[pair->a].node] = true;
    }
    if (all <= 64) CHECK_EQ(p->npairs, all);
    for (int k = 0; k < MOST_KINDS && all > 64; k++) {
        int least = of_kind[k] < 8 ? of_kind[k] : 8, most = k % 2 ? least : 8 + p->nnodes; /* odd: between nodes */
        CHECK(chosen[k] >= least && chosen[k] <= most, "%d of %d pairs of kind %d", chosen[k], of_kind[k], k);
    }
    for (int node = 0; node < p->nnodes; node++) CHECK_EQ(met[node], has[node]);
}

static void check_rounds(const struct mt_profile *p) {
    int *round_of = mt_malloc((size_t)(p->npairs + 1) * sizeof *round_of), nrounds = mt_pairs_rounds(p, round_of);
    for (int i = 0; i < p->npairs; i++) {
        CHECK(round_of[i] >= 0 && round_of[i] < nrounds, "round %d of %d", round_of[i], nrounds);
        for (int j = 0; j < i; j++) {
            const struct mt_pair_times *x = &p->pairs[i], *y = &p->pairs[j];
            if (round_of[i] != round_of[j]) continue;
            CHECK(x->a != y->a && x->a != y->b && x->b != y->a && x->b != y->b, "%d-%d and %d-%d", x->a, x->b, y->a,
                  y->b);
            int ends[4] = {p->places[x->a].node, p->places[x->b].node, p->places[y->a].node, p->places[y->b].node};
            bool meet = ends[0] == ends[2] || ends[0] == ends[3] || ends[1] == ends[2] || ends[1] == ends[3];
            CHECK(!meet || x->between != y->between, "%d-%d and %d-%d share a link", x->a, x->b, y->a, y->b);
        }
    }
    CHECK(nrounds <= p->npairs, "%d rounds of %d pairs", nrounds, p->npairs);
    free(round_of);
}

int main(void) {
    printf("seed %d\n", SEED);
    for (int trial = 0; trial < 300; trial++) {
        struct mt_profile p;
        int nranks = 1 + below(trial % 10 ? 14 : MOST_RANKS), nnodes = 1 + below(nranks),
            nclasses = 1 + below(nranks < 4 ? nranks : 4);
        make_cluster(&p, nranks, nnodes, nclasses);
        mt_pairs_choose(&p);
        check_choice(&p);
        check_rounds(&p);
        mt_arena_release(&p.arena);
    }
    /* Pairs of one rank each on four nodes: two at a time. */
    struct mt_profile p;
    make_cluster(&p, 4, 4, 1);
    mt_pairs_choose(&p);
    int round_of[6];
    CHECK_EQ(mt_pairs_rounds(&p, round_of), 3);
    mt_arena_release(&p.arena);
    return 0;
}
