/* Messages by copy engines, run by an interpreter of steps for all ranks at once, in random orders: slots are written
 * and read when the steps say, so that a slot which is overwritten too soon gives wrong sums, and ranks that wait for
 * each other are found. Parts of odd lengths, slots of many sizes, 1 to 8 ranks, several messages in turn, AllReduce in
 * two. Whole numbers, so that sums are exact. */
#include <stdlib.h>

#include "kernels/coll/engine.h"
#include "tests/check.h"

enum { MOST = MT_ENGINE_RANKS, PARTS = 12, LONGEST = 90, SLOT_ROOM = 4096 };

static uint64_t state = 20261127;
static int below(int n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int)((state >> 33) % (uint64_t)n);
}

/* ---- ranks ---- */

static struct rank {
    float slots[MOST][MT_ENGINE_SLOTS][SLOT_ROOM / 4]; /* of each sender */
    int64_t arrived[MOST], emptied[MOST];              /* raised by others: message, piece */
    float from[PARTS][LONGEST * MOST], to[PARTS][LONGEST * MOST];
    struct mt_engine_part parts[PARTS + MOST];
    struct mt_engine_list list;
    int next; /* step */
} ranks[MOST];
static int n;

enum { END = 1 << 20 };
static int64_t flag(int64_t message, int piece) {
    return message * (END + 1) + piece + 1;
}

static bool ready(const struct rank *r, const struct mt_engine_step *s, int64_t message) {
    bool all = true;
    for (int p = 0; p < n; p++) {
        if (!(s->peers >> p & 1)) continue;
        if (s->what == MT_ENGINE_DATA) all &= r->arrived[p] >= flag(message, s->piece);
        if (s->what != MT_ENGINE_ROOM) continue;
        if (s->piece >= MT_ENGINE_SLOTS)
            all &= r->emptied[p] >= flag(message, s->piece - MT_ENGINE_SLOTS);
        else
            all &= message == 1 || r->emptied[p] >= flag(message - 1, END - 1);
    }
    return all;
}

static void move(int me, const struct mt_engine_step *s, int64_t slot_bytes) {
    struct rank *r = &ranks[me];
    int slot = s->piece % MT_ENGINE_SLOTS;
    for (int i = s->first_segment; i < s->first_segment + s->nsegments; i++) {
        const struct mt_engine_segment *segment = &r->list.segments[i];
        const struct mt_engine_part *part = &r->parts[segment->part];
        CHECK(segment->at % 4 == 0 && segment->at + 4 * segment->count <= slot_bytes);
        if (!segment->first) CHECK_EQ(segment->at % MT_ENGINE_ALIGN, 0);
        for (int64_t k = 0; k < segment->count; k++) {
            int64_t e = segment->first + k, at = segment->at / 4 + k;
            float *to = (float *)part->to + e;
            if (s->what == MT_ENGINE_PUT) {
                ranks[s->peer].slots[me][slot][at] = ((const float *)part->from)[e];
            } else if (s->peer >= 0) {
                *to = r->slots[s->peer][slot][at];
            } else {
                float sum = 0;
                for (int p = 0; p < n; p++) sum += p == me ? ((const float *)part->from)[e] : r->slots[p][slot][at];
                *to = sum;
            }
        }
    }
}

/* The next step of a rank, if it can be made. */
static bool go(int me, int64_t message, int64_t slot_bytes) {
    struct rank *r = &ranks[me];
    if (r->next == r->list.nsteps) return false;
    const struct mt_engine_step *s = &r->list.steps[r->next];
    if ((s->what == MT_ENGINE_ROOM || s->what == MT_ENGINE_DATA) && !ready(r, s, message)) return false;
    if (s->what == MT_ENGINE_PUT || s->what == MT_ENGINE_MERGE) move(me, s, slot_bytes);
    if (s->what == MT_ENGINE_PUT) ranks[s->peer].arrived[me] = flag(message, s->piece);
    for (int p = 0; p < n; p++)
        if ((s->what == MT_ENGINE_EMPTY || s->what == MT_ENGINE_END) && s->peers >> p & 1)
            ranks[p].emptied[me] = flag(message, s->what == MT_ENGINE_END ? END - 1 : s->piece);
    r->next++;
    return true;
}

static void run(enum mt_coll_kind kind, int nparts, int64_t slot_bytes, int64_t message) {
    int left = n;
    for (int me = 0; me < n; me++) {
        struct mt_engine_job job = {kind, n, me, 4, nparts, ranks[me].parts, slot_bytes};
        mt_engine_list(&job, &ranks[me].list);
        ranks[me].next = 0;
    }
    for (int still = 0; left;) {
        int me = below(n), steps = 1 + below(6);
        bool went = false, was = ranks[me].next < ranks[me].list.nsteps;
        for (int i = 0; i < steps && go(me, message, slot_bytes); i++) went = true;
        if (was && ranks[me].next == ranks[me].list.nsteps) left--;
        still = went ? 0 : still + 1;
        CHECK(still < 10000, "ranks wait for each other");
    }
    for (int me = 0; me < n; me++) {
        for (int i = 0; i < ranks[me].list.nsegments; i++) CHECK(ranks[me].list.segments[i].count > 0);
        mt_engine_release(&ranks[me].list);
    }
}

/* ---- messages ---- */

static float value(int rank, int part, int64_t e) {
    return (float)((rank * 31 + part * 17 + e * 7) % 101);
}
static float sum_of(int part, int64_t e) {
    float sum = 0;
    for (int r = 0; r < n; r++) sum += value(r, part, e);
    return sum;
}

static void test_blocks(enum mt_coll_kind kind, int nparts, int64_t slot_bytes, int64_t message) {
    int64_t count[PARTS];
    int owner[PARTS];
    for (int i = 0; i < nparts; i++) count[i] = below(4) ? below(LONGEST) : 0, owner[i] = below(n);
    for (int r = 0; r < n; r++)
        for (int i = 0; i < nparts; i++) {
            bool gathers = kind == MT_ALL_GATHER, mine = owner[i] == r;
            for (int64_t e = 0; e < count[i]; e++) ranks[r].from[i][e] = value(r, i, e), ranks[r].to[i][e] = -1;
            ranks[r].parts[i] = (struct mt_engine_part){count[i], owner[i], gathers && !mine ? NULL : ranks[r].from[i],
                                                        !gathers && !mine ? NULL : ranks[r].to[i]};
        }
    run(kind, nparts, slot_bytes, message);
    for (int r = 0; r < n; r++)
        for (int i = 0; i < nparts; i++)
            for (int64_t e = 0; e < count[i]; e++) {
                bool mine = owner[i] == r;
                float want = kind == MT_ALL_GATHER ? value(owner[i], i, e) : sum_of(i, e);
                if (kind == MT_ALL_GATHER ? mine : !mine) want = -1; /* left as it was */
                CHECK_EQ(ranks[r].to[i][e], want);
            }
}

static void test_all_reduce(int nparts, int64_t slot_bytes, int64_t message) {
    int64_t count[PARTS];
    int divided = 0;
    for (int i = 0; i < nparts; i++) count[i] = below(LONGEST * n);
    for (int r = 0; r < n; r++) {
        struct mt_engine_part whole[PARTS];
        for (int i = 0; i < nparts; i++) {
            for (int64_t e = 0; e < count[i]; e++) ranks[r].from[i][e] = value(r, i, e);
            whole[i] = (struct mt_engine_part){count[i], -1, ranks[r].from[i], ranks[r].from[i]};
        }
        divided = mt_engine_divide(whole, nparts, n, 4, ranks[r].parts);
        CHECK(divided <= nparts + n);
    }
    run(MT_REDUCE_SCATTER, divided, slot_bytes, message);
    run(MT_ALL_GATHER, divided, slot_bytes, message + 1);
    for (int r = 0; r < n; r++)
        for (int i = 0; i < nparts; i++)
            for (int64_t e = 0; e < count[i]; e++) CHECK_EQ(ranks[r].from[i][e], sum_of(i, e));
}

int main(void) {
    for (int t = 0; t < 3000; t++) {
        n = 1 + below(MOST);
        memset(ranks, 0, sizeof ranks);
        for (int64_t message = 1; message <= 4; message += 2) {
            int nparts = 1 + below(PARTS - 1);
            int64_t slot_bytes = MT_ENGINE_ALIGN * (1 + below(below(2) ? 8 : SLOT_ROOM / MT_ENGINE_ALIGN - 1));
            if (below(3)) {
                test_blocks(below(2) ? MT_ALL_GATHER : MT_REDUCE_SCATTER, nparts, slot_bytes, message);
                test_blocks(below(2) ? MT_ALL_GATHER : MT_REDUCE_SCATTER, nparts, slot_bytes, message + 1);
            } else {
                test_all_reduce(nparts, slot_bytes, message);
            }
        }
    }
    return 0;
}
