/* AllToAlls priced from what some ranks send and receive, against the whole schedule of the messages: all ranks, and
 * samples of more; even and uneven shares; among all ranks, and within hosts. */
#include "planner/frontier/exchange.h"

#include "kernels/base/number/rng.h"
#include "planner/balance/split.h"
#include "synth/graph/graph.h"
#include "synth/layout/convert/exchange.h"
#include "tests/planner/small_cluster.h"

enum { ROWS = 4096, COLUMNS = 6000, SEED = 20261123 };

static uint64_t draws;

/* Even, or of random speeds. */
static struct mt_split split_of(struct mt_arena *arena, int64_t extent, int n, bool even) {
    struct mt_split s = {.name = "s", .sizes = mt_new(arena, int64_t, n), .starts = mt_new(arena, int64_t, n + 1)};
    struct mt_err err = MT_ERR_INIT;
    double *speed = mt_new(arena, double, n);
    for (int r = 0; r < n; r++) speed[r] = even ? 1 : 1 + (double)mt_random_below(SEED, 1, draws++, 100) / 50;
    CHECK_OK(mt_split_proportional(extent, 1, speed, n, s.sizes, &err), err);
    for (int r = 0; r < n; r++) s.starts[r + 1] = s.starts[r] + s.sizes[r];
    return s;
}

/* Rows over all ranks; columns within each host, whose ranks have its rows. */
static int within_hosts(struct mt_layouts *layouts, const int64_t *extent, const struct mt_split *rows, int per_host) {
    struct mt_layout l = {.naxes = 2, .extent = {extent[0], extent[1]}, .nparts = 1};
    int n = layouts->nranks;
    l.box = mt_calloc((size_t)n, sizeof *l.box);
    l.part = mt_calloc((size_t)n, sizeof *l.part);
    for (int r = 0; r < n; r++) {
        int host = r / per_host, at = r % per_host;
        l.box[r] = (struct mt_box){{rows->starts[host * per_host], extent[1] * at / per_host},
                                   {rows->starts[(host + 1) * per_host], extent[1] * (at + 1) / per_host}};
    }
    int id = mt_layout_intern(layouts, &l);
    free(l.box), free(l.part);
    return id;
}

/* The schedule of all messages of the direct algorithm, and the largest copies. */
static double whole_s(const struct small_cluster *s, const struct mt_layouts *layouts, int from, int to) {
    int n = layouts->nranks, *group = mt_calloc((size_t)n, sizeof *group);
    int64_t *counts = mt_calloc((size_t)n * (size_t)n, sizeof *counts);
    struct mt_exchange x;
    struct mt_box box;
    CHECK(mt_exchange_open(layouts, from, to, NULL, &x));
    for (int i = 0; i < n * n; i++)
        if (mt_exchange_box(&x, i / n, i % n, &box)) counts[i] = mt_box_count(&box, 2);
    for (int r = 0; r < n; r++) group[r] = r;
    struct mt_coll problem = {.kind = MT_ALL_TO_ALL, .wire = MT_F32, .acc = MT_F32, .n = n, .counts = counts};
    double seconds = mt_cost_schedule_s(&s->costs, &problem, group, mt_coll_find(MT_ALL_TO_ALL, "direct"));
    mt_exchange_close(&x);
    free(group), free(counts);
    return seconds;
}

static void compare(int nhosts, int per_host, bool even, double least, double most) {
    struct small_cluster *s = small_cluster(nhosts, per_host);
    struct mt_value value = {.name = "x", .type = MT_F32, .naxes = 2};
    struct mt_graph graph = {.nvalues = 1, .values = &value};
    struct mt_layouts layouts;
    struct mt_arena arena = MT_ARENA_INIT;
    int n = nhosts * per_host;
    int64_t extent[] = {ROWS, COLUMNS};
    mt_layouts_init(&layouts, n);
    s->classes[0].memory_Bps = 1e14; /* copies take no time */
    struct mt_pricing pricing = {.costs = &s->costs, .graph = &graph, .layouts = &layouts};
    struct mt_split rows = split_of(&arena, ROWS, n, even), columns = split_of(&arena, COLUMNS, n, even);
    int by_rows = mt_layout_split(&layouts, 2, extent, 0, &rows),
        by_columns = mt_layout_split(&layouts, 2, extent, 1, &columns);
    int in_hosts = within_hosts(&layouts, extent, &rows, per_host);
    int pairs[][2] = {{by_rows, by_columns}, {by_rows, in_hosts}, {in_hosts, by_columns}};
    for (int p = 0; p < 3; p++) {
        double whole = whole_s(s, &layouts, pairs[p][0], pairs[p][1]);
        double price = mt_price_exchange(&pricing, 0, pairs[p][0], pairs[p][1], 1);
        CHECK(price >= least * whole && price <= most * whole, "%d hosts of %d, %s, pair %d: %g s, whole %g s", nhosts,
              per_host, even ? "even" : "uneven", p, price, whole);
    }
    mt_layouts_release(&layouts);
    mt_arena_release(&arena);
    free(s);
}

int main(void) {
    for (int even = 0; even < 2; even++) {
        compare(2, 4, even, 0.85, 1.15);
        compare(8, 8, even, 0.85, 1.15);
        compare(32, 8, even, 0.75, 1.15); /* a part of the hosts */
    }
    return 0;
}
