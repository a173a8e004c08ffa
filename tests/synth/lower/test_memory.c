/* Addresses against a brute force: on random sequences of two streams with random waits, two items share bytes only if
 * all uses of one are before all uses of the other in the transitive closure of the order. And that memory is shared
 * where it can be: chains take two items' room, a stack of nested lifetimes takes its depth. */
#include "synth/lower/memory.h"

#include <limits.h>

#include "kernels/base/number/rng.h"
#include "kernels/device/device.h"
#include "tests/check.h"

enum { SEED = 20261120, MOST_INSTRS = 60, MOST_ITEMS = 40 };

static uint64_t draws;
static int below(int bound) {
    return (int)mt_random_below(SEED, 1, draws++, (uint64_t)bound);
}

struct sequence {
    int n, stream[MOST_INSTRS], wait[MOST_INSTRS];
    bool before[MOST_INSTRS][MOST_INSTRS]; /* the closure */
    int seen[MOST_INSTRS][MT_NSTREAMS];
};

static void random_sequence(struct sequence *s) {
    memset(s, 0, sizeof *s);
    s->n = 2 + below(MOST_INSTRS - 1);
    for (int i = 0; i < s->n; i++) {
        s->stream[i] = below(3) == 0;
        s->wait[i] = below(3) == 0 && i > 0 ? below(i) : -1;
        if (s->wait[i] >= 0 && s->stream[s->wait[i]] == s->stream[i]) s->wait[i] = -1;
        for (int a = 0; a < i; a++) s->before[a][i] = s->stream[a] == s->stream[i] || s->wait[i] == a;
    }
    for (int k = 0; k < s->n; k++)
        for (int a = 0; a < s->n; a++)
            for (int b = 0; b < s->n; b++) s->before[a][b] |= s->before[a][k] && s->before[k][b];
    for (int i = 0; i < s->n; i++)
        for (int t = 0; t < MT_NSTREAMS; t++) {
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
                (struct mt_memory_item){.size_bytes = below(5) ? below(1000) : 0, .first = {-1, -1}, .last = {-1, -1}};
            for (int u = 1 + below(3), at = below(s.n); u > 0 && at < s.n; u--, at += 1 + below(5)) {
                int t = s.stream[at];
                used[m][at] = true;
                if (items[m].first[t] < 0) items[m].first[t] = at;
                items[m].last[t] = at;
            }
        }
        int64_t base = 64 * below(10), top = mt_memory_place(items, n, (const int(*)[MT_NSTREAMS])s.seen, base),
                end = base;
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
static int64_t place_intervals(int n, const int (*interval)[2], const int64_t *size, int ninstrs) {
    struct mt_memory_item *items = calloc((size_t)n, sizeof *items);
    int(*seen)[MT_NSTREAMS] = calloc((size_t)ninstrs, sizeof *seen);
    for (int i = 0; i < ninstrs; i++) seen[i][0] = i - 1, seen[i][1] = -1;
    for (int i = 0; i < n; i++)
        items[i] =
            (struct mt_memory_item){.size_bytes = size[i], .first = {interval[i][0], -1}, .last = {interval[i][1], -1}};
    int64_t top = mt_memory_place(items, n, (const int(*)[MT_NSTREAMS])seen, 0);
    free(items);
    free(seen);
    return top;
}

static void test_known(void) {
    enum { N = 2000 };
    static int interval[N][2];
    static int64_t size[N];
    for (int i = 0; i < N; i++) interval[i][0] = i, interval[i][1] = i + 1, size[i] = 640;
    CHECK_EQ(place_intervals(N, interval, size, N + 1), 2 * 640); /* a chain */
    for (int i = 0; i < N; i++) interval[i][1] = 2 * N - 1 - i;
    CHECK_EQ(place_intervals(N, interval, size, 2 * N), N * 640); /* a stack */
    for (int i = 0; i < N; i++) interval[i][0] = interval[i][1] = i, size[i] = 64 * (1 + i % 7);
    CHECK_EQ(place_intervals(N, interval, size, N), 7 * 64); /* one at a time */
    interval[0][0] = 0, interval[0][1] = INT_MAX;            /* and one that stays */
    CHECK_EQ(place_intervals(N, interval, size, N), 7 * 64 + 64);

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
    int64_t top = place_intervals(N, interval, size, 2 * N + 1);
    printf("%d values placed in %.1f ms, %.3f of the peak of live bytes\n", N, 1e3 * (mt_now_s() - start_s),
           (double)top / (double)peak);
    CHECK(top >= peak && (double)top <= 1.05 * (double)peak, "%lld, peak %lld", (long long)top, (long long)peak);
}

int main(void) {
    printf("seed %d\n", SEED);
    test_random();
    test_known();
    return 0;
}
