/* Addresses against a brute force: on random sequences of two to five streams with random waits, two items share bytes
 * only if all uses of one are before all uses of the other in the transitive closure of the order; and each is where a
 * scan over all items before it finds the smallest gap. And that memory is shared where it can be: chains take two
 * items' room, a stack of nested lifetimes takes its depth. Of layers, the steps of the search grow as n log n. */
#include "synth/lower/memory.h"

#include <limits.h>

#include "kernels/base/number/rng.h"
#include "kernels/device/device.h"
#include "tests/check.h"

#define UNUSED                                                                                                         \
    { -1, -1, -1, -1, -1, -1, -1, -1 }
enum { SEED = 20261120, MOST_INSTRS = 60, MOST_ITEMS = 40 };

static uint64_t draws;
static int below(int bound) {
    return (int)mt_random_below(SEED, 1, draws++, (uint64_t)bound);
}

struct sequence {
    int n, nstreams, stream[MOST_INSTRS];
    bool before[MOST_INSTRS][MOST_INSTRS]; /* the closure */
    int seen[MOST_INSTRS][MT_MOST_STREAMS];
};

static void random_sequence(struct sequence *s) {
    memset(s, 0, sizeof *s);
    s->n = 2 + below(MOST_INSTRS - 1);
    s->nstreams = 2 + below(4);
    for (int i = 0; i < s->n; i++) {
        s->stream[i] = below(3) == 0 ? 1 + below(s->nstreams - 1) : 0;
        for (int a = 0; a < i; a++) s->before[a][i] = s->stream[a] == s->stream[i];
        for (int k = below(4); k > 1 && i > 0; k--) s->before[below(i)][i] = true; /* waits */
    }
    for (int k = 0; k < s->n; k++)
        for (int a = 0; a < s->n; a++)
            for (int b = 0; b < s->n; b++) s->before[a][b] |= s->before[a][k] && s->before[k][b];
    for (int i = 0; i < s->n; i++)
        for (int t = 0; t < MT_MOST_STREAMS; t++) {
            s->seen[i][t] = -1;
            for (int a = 0; a < i; a++)
                if (s->stream[a] == t && s->before[a][i]) s->seen[i][t] = a;
        }
}

static bool all_before(const struct sequence *s, const bool *a, const bool *b) {
    for (int i = 0; i < s->n; i++)
        for (int j = 0; j < s->n; j++)
            if (a[i] && b[j] && !s->before[i][j]) return false;
    return true;
}

/* Whether all uses of `a` are known to end before the first of `b` starts. */
static bool known_before(const struct mt_memory_item *a, const struct mt_memory_item *b,
                         const int (*seen)[MT_MOST_STREAMS]) {
    for (int s = 0; s < MT_MOST_STREAMS; s++)
        for (int t = 0; t < MT_MOST_STREAMS; t++)
            if (b->first[s] >= 0 && a->last[t] >= 0 && seen[b->first[s]][t] < a->last[t]) return false;
    return true;
}

static bool conflict(const struct mt_memory_item *a, const struct mt_memory_item *b,
                     const int (*seen)[MT_MOST_STREAMS]) {
    return !known_before(a, b, seen) && !known_before(b, a, seen);
}

static const struct mt_memory_item *sorting;
static int by_size(const void *left, const void *right) {
    int a = *(const int *)left, b = *(const int *)right;
    if (sorting[a].size_bytes != sorting[b].size_bytes) return sorting[a].size_bytes < sorting[b].size_bytes ? 1 : -1;
    return a - b;
}

static int64_t end_of(const struct mt_memory_item *item) {
    return item->offset_bytes + mt_memory_round(item->size_bytes);
}

/* Whether each item, by decreasing size, is in the lowest of the smallest gaps between all items before it that
 * conflict: by a scan over those, by offset. */
static void check_best_fit(const struct mt_memory_item *items, int n, const int (*seen)[MT_MOST_STREAMS],
                           int64_t base) {
    int *order = calloc((size_t)n, sizeof *order), *placed = calloc((size_t)n, sizeof *placed), nplaced = 0;
    for (int i = 0; i < n; i++) order[i] = i;
    sorting = items;
    qsort(order, (size_t)n, sizeof *order, by_size);
    for (int k = 0; k < n && items[order[k]].size_bytes; k++) {
        const struct mt_memory_item *item = &items[order[k]];
        int64_t size = mt_memory_round(item->size_bytes), end = base, best = -1, smallest = INT64_MAX;
        for (int i = 0; i < nplaced; i++) {
            const struct mt_memory_item *other = &items[placed[i]];
            if (!conflict(item, other, seen)) continue;
            int64_t gap = other->offset_bytes - end;
            if (gap >= size && gap < smallest) best = end, smallest = gap;
            if (end_of(other) > end) end = end_of(other);
        }
        CHECK_EQ(item->offset_bytes, best >= 0 ? best : end);
        int at = nplaced++;
        for (; at > 0 && items[placed[at - 1]].offset_bytes > item->offset_bytes; at--) placed[at] = placed[at - 1];
        placed[at] = order[k];
    }
    free(order);
    free(placed);
}

static void test_random(void) {
    static struct sequence s;
    int shared = 0;
    for (int round = 0; round < 300; round++) {
        struct mt_memory_item items[MOST_ITEMS] = {0};
        bool used[MOST_ITEMS][MOST_INSTRS] = {{false}};
        random_sequence(&s);
        int n = 1 + below(MOST_ITEMS);
        for (int m = 0; m < n; m++) {
            items[m] =
                (struct mt_memory_item){.size_bytes = below(5) ? below(1000) : 0, .first = UNUSED, .last = UNUSED};
            for (int u = 1 + below(3), at = below(s.n); u > 0 && at < s.n; u--, at += 1 + below(5)) {
                int t = s.stream[at];
                used[m][at] = true;
                if (items[m].first[t] < 0) items[m].first[t] = at;
                items[m].last[t] = at;
            }
        }
        int64_t base = 64 * below(10),
                top = mt_memory_place(items, n, (const int(*)[MT_MOST_STREAMS])s.seen, s.nstreams, base, NULL),
                end = base;
        check_best_fit(items, n, (const int(*)[MT_MOST_STREAMS])s.seen, base);
        for (int a = 0; a < n; a++) {
            int64_t end_a = items[a].offset_bytes + mt_memory_round(items[a].size_bytes);
            CHECK(items[a].offset_bytes >= base && items[a].offset_bytes % MT_MEMORY_ALIGN == 0);
            if (end_a > end) end = end_a;
            for (int b = 0; b < a; b++) {
                bool overlap = items[a].size_bytes && items[b].size_bytes &&
                               items[a].offset_bytes < items[b].offset_bytes + items[b].size_bytes &&
                               items[b].offset_bytes < items[a].offset_bytes + items[a].size_bytes;
                CHECK(!overlap || all_before(&s, used[a], used[b]) || all_before(&s, used[b], used[a]),
                      "round %d: items %d and %d share bytes", round, a, b);
                shared += overlap;
            }
        }
        CHECK_EQ(top, end);
    }
    CHECK(shared > 1000, "%d", shared);
}

/* Items of one stream, item i used from `first` to `last`. */
static int64_t place_intervals(int n, const int (*interval)[2], const int64_t *size, int ninstrs, int64_t *steps) {
    struct mt_memory_item *items = calloc((size_t)n, sizeof *items);
    int(*seen)[MT_MOST_STREAMS] = calloc((size_t)ninstrs, sizeof *seen);
    for (int i = 0; i < ninstrs; i++) seen[i][0] = i - 1, seen[i][1] = -1;
    for (int i = 0; i < n; i++)
        items[i] = (struct mt_memory_item){.size_bytes = size[i],
                                           .first = {interval[i][0], -1, -1, -1, -1, -1, -1, -1},
                                           .last = {interval[i][1], -1, -1, -1, -1, -1, -1, -1}};
    int64_t top = mt_memory_place(items, n, (const int(*)[MT_MOST_STREAMS])seen, 2, 0, steps);
    if (n < 10000) check_best_fit(items, n, (const int(*)[MT_MOST_STREAMS])seen, 0);
    free(items);
    free(seen);
    return top;
}

static void test_known(void) {
    enum { N = 2000 };
    static int interval[N][2];
    static int64_t size[N];
    for (int i = 0; i < N; i++) interval[i][0] = i, interval[i][1] = i + 1, size[i] = 640;
    CHECK_EQ(place_intervals(N, interval, size, N + 1, NULL), 2 * 640); /* a chain */
    for (int i = 0; i < N; i++) interval[i][1] = 2 * N - 1 - i;
    CHECK_EQ(place_intervals(N, interval, size, 2 * N, NULL), N * 640); /* a stack */
    for (int i = 0; i < N; i++) interval[i][0] = interval[i][1] = i, size[i] = 64 * (1 + i % 7);
    CHECK_EQ(place_intervals(N, interval, size, N, NULL), 7 * 64); /* one at a time */
    interval[0][0] = 0, interval[0][1] = INT_MAX;                  /* and one that stays */
    CHECK_EQ(place_intervals(N, interval, size, N, NULL), 7 * 64 + 64);

    /* Forward and backward of a chain with sums: a stack of large and small values. */
    int64_t live = 0, peak = 0;
    for (int i = 0; i < N; i++) {
        int layer = i / 4;
        interval[i][0] = i, interval[i][1] = i % 4 == 3 ? i + 1 : 2 * N - layer * 4, size[i] = 64 * (1 + 13 * (i % 4));
    }
    for (int at = 0; at < 2 * N; at++, live = 0) {
        for (int i = 0; i < N; i++) live += interval[i][0] <= at && at <= interval[i][1] ? size[i] : 0;
        if (live > peak) peak = live;
    }
    double start_s = mt_now_s();
    int64_t top = place_intervals(N, interval, size, 2 * N + 1, NULL);
    printf("%d values placed in %.1f ms, %.3f of the peak of live bytes\n", N, 1e3 * (mt_now_s() - start_s),
           (double)top / (double)peak);
    CHECK(top >= peak && (double)top <= 1.05 * (double)peak, "%lld, peak %lld", (long long)top, (long long)peak);
}

/* Layers as those of a network: activations that the backward pass reads, temporaries of both passes, and gradients
 * that stay to the end; sizes of four kinds. Returns the steps of the search for each item. */
static double steps_an_item(int nlayers) {
    enum { PER_LAYER = 12 };
    int n = nlayers * PER_LAYER, ninstrs = 3 * n;
    int(*interval)[2] = calloc((size_t)n, sizeof *interval);
    int64_t *size = calloc((size_t)n, sizeof *size), steps;
    for (int i = 0; i < n; i++) {
        int layer = i / PER_LAYER, kind = i % PER_LAYER, back = ninstrs - n - layer * PER_LAYER + kind;
        size[i] = 64 * (1 + 5 * (i % 4));
        interval[i][0] = kind < 8 ? i : back;
        interval[i][1] = kind < 4 ? i + 1 : kind < 8 ? back : kind < 10 ? back + 2 : ninstrs - 1;
    }
    place_intervals(n, (const int(*)[2])interval, size, ninstrs, &steps);
    free(interval);
    free(size);
    return (double)steps / n;
}

/* A scan over all placed items needs 16 times the steps an item for 16 times the layers. */
static void test_steps(void) {
    double few = steps_an_item(250), now = 0;
    for (int nlayers = 500; nlayers <= 4000; nlayers *= 2) {
        now = steps_an_item(nlayers);
        printf("%d layers: %.0f steps an item, %.2f times those of 250 layers\n", nlayers, now, now / few);
    }
    CHECK(now < 4 * few, "%g after %g", now, few);
}

/* Many items of random sizes and lifetimes: blocks are divided, and lifetimes are far from each other. */
static void test_many(void) {
    enum { N = 4000 };
    static int interval[N][2];
    static int64_t size[N];
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < N; i++) {
            int length = below(round % 2 ? N : 40);
            interval[i][0] = round < 2 ? i : below(N);
            interval[i][1] = below(50) ? interval[i][0] + length : INT_MAX;
            size[i] = 64 * (1 + below(round < 2 ? 5 : 300));
        }
        place_intervals(N, interval, size, 2 * N, NULL);
    }
}

int main(void) {
    printf("seed %d\n", SEED);
    test_random();
    test_known();
    test_many();
    test_steps();
    return 0;
}
