/* Messages by copy engines, run by an interpreter of steps for all ranks at once, in random orders: slots are written
 * and read when the steps say, so that a slot which is overwritten too soon gives wrong sums, and ranks that wait for
 * each other are found. Parts of odd lengths, slots of many sizes, 1 to 8 ranks, several messages in turn, where a rank
 * may be ahead of others, AllReduce in two. Whole numbers, so that sums are exact. */
#include <stdlib.h>

#include "kernels/coll/engine.h"
#include "tests/check.h"

enum { MOST = MT_ENGINE_RANKS, PARTS = 12, LONGEST = 90, SLOT_ROOM = 4096, MESSAGES = 5 };

static uint64_t state = 20261127;
static int below(int n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int)((state >> 33) % (uint64_t)n);
}

/* ---- messages and ranks ---- */

static int n;
static int64_t slot_bytes;

static struct message {
    enum mt_coll_kind kind;
    int nwhole; /* of an AllReduce, whose parts are divided; else 0 */
    int64_t count[PARTS];
    int nparts;
    struct mt_engine_part parts[MOST][PARTS + MOST]; /* of each rank */
    struct mt_engine_list lists[MOST];
    float from[MOST][PARTS][LONGEST * MOST], to[MOST][PARTS][LONGEST * MOST];
} messages[MESSAGES];

static struct rank {
    float slots[MOST][MT_ENGINE_SLOTS][SLOT_ROOM / 4]; /* of each sender */
    int64_t arrived[MOST], emptied[MOST];              /* raised by others: message, piece */
    int message, step;                                 /* the next */
} ranks[MOST];

enum { END = 1 << 20 };
static int64_t flag(int64_t message, int piece) {
    return (message + 1) * (END + 1) + piece + 1;
}

static bool ready(const struct rank *r, const struct mt_engine_step *s) {
    bool all = true;
    for (int p = 0; p < n; p++) {
        if (!(s->peers >> p & 1)) continue;
        if (s->what == MT_ENGINE_DATA) all &= r->arrived[p] >= flag(r->message, s->piece);
        if (s->what != MT_ENGINE_ROOM) continue;
        if (s->piece >= MT_ENGINE_SLOTS)
            all &= r->emptied[p] >= flag(r->message, s->piece - MT_ENGINE_SLOTS);
        else
            all &= !r->message || r->emptied[p] >= flag(r->message - 1, END - 1);
    }
    return all;
}

static void move(int me, const struct mt_engine_step *s) {
    struct rank *r = &ranks[me];
    const struct message *m = &messages[r->message];
    int slot = s->piece % MT_ENGINE_SLOTS;
    for (int i = s->first_segment; i < s->first_segment + s->nsegments; i++) {
        const struct mt_engine_segment *segment = &m->lists[me].segments[i];
        const struct mt_engine_part *part = &m->parts[me][segment->part];
        CHECK(segment->count > 0 && segment->at % 4 == 0 && segment->at + 4 * segment->count <= slot_bytes);
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
static bool go(int me, int nmessages) {
    struct rank *r = &ranks[me];
    if (r->message == nmessages) return false;
    const struct mt_engine_list *list = &messages[r->message].lists[me];
    const struct mt_engine_step *s = &list->steps[r->step];
    if ((s->what == MT_ENGINE_ROOM || s->what == MT_ENGINE_DATA) && !ready(r, s)) return false;
    if (s->what == MT_ENGINE_PUT || s->what == MT_ENGINE_MERGE) move(me, s);
    if (s->what == MT_ENGINE_PUT) ranks[s->peer].arrived[me] = flag(r->message, s->piece);
    for (int p = 0; p < n; p++)
        if ((s->what == MT_ENGINE_EMPTY || s->what == MT_ENGINE_END) && s->peers >> p & 1)
            ranks[p].emptied[me] = flag(r->message, s->what == MT_ENGINE_END ? END - 1 : s->piece);
    if (++r->step == list->nsteps) r->message++, r->step = 0;
    return true;
}

static void run(int nmessages) {
    for (int k = 0; k < nmessages; k++)
        for (int me = 0; me < n; me++) {
            struct message *m = &messages[k];
            mt_engine_list(&(struct mt_engine_job){m->kind, n, me, 4, m->nparts, m->parts[me], slot_bytes},
                           &m->lists[me]);
        }
    memset(ranks, 0, sizeof ranks);
    for (int left = n, still = 0; left;) {
        int me = below(n), steps = 1 + below(12);
        bool went = false, was = ranks[me].message < nmessages;
        for (int i = 0; i < steps && go(me, nmessages); i++) went = true;
        if (was && ranks[me].message == nmessages) left--;
        still = went ? 0 : still + 1;
        CHECK(still < 10000, "ranks wait for each other");
    }
    for (int k = 0; k < nmessages; k++)
        for (int me = 0; me < n; me++) mt_engine_release(&messages[k].lists[me]);
}

/* ---- what is sent ---- */

static float value(int rank, int part, int64_t e) {
    return (float)((rank * 31 + part * 17 + e * 7) % 101);
}
static float sum_of(int part, int64_t e) {
    float sum = 0;
    for (int r = 0; r < n; r++) sum += value(r, part, e);
    return sum;
}

/* Parts of random owners. */
static void make_blocks(struct message *m) {
    int owner[PARTS];
    m->kind = below(2) ? MT_ALL_GATHER : MT_REDUCE_SCATTER, m->nwhole = 0, m->nparts = 1 + below(PARTS - 1);
    for (int i = 0; i < m->nparts; i++) m->count[i] = below(4) ? below(LONGEST) : 0, owner[i] = below(n);
    for (int r = 0; r < n; r++)
        for (int i = 0; i < m->nparts; i++) {
            bool gathers = m->kind == MT_ALL_GATHER, mine = owner[i] == r;
            for (int64_t e = 0; e < m->count[i]; e++) m->from[r][i][e] = value(r, i, e), m->to[r][i][e] = -1;
            m->parts[r][i] = (struct mt_engine_part){m->count[i], owner[i], gathers && !mine ? NULL : m->from[r][i],
                                                     !gathers && !mine ? NULL : m->to[r][i]};
        }
}

static void check_blocks(const struct message *m) {
    for (int r = 0; r < n; r++)
        for (int i = 0; i < m->nparts; i++)
            for (int64_t e = 0; e < m->count[i]; e++) {
                int owner = m->parts[r][i].owner;
                bool gathers = m->kind == MT_ALL_GATHER, mine = owner == r;
                float want = gathers ? value(owner, i, e) : sum_of(i, e);
                if (gathers == mine) want = -1; /* left as it was */
                CHECK_EQ(m->to[r][i][e], want);
            }
}

/* Owners have as many elements, but for where cuts are. */
static void check_division(const struct mt_engine_part *parts, int nparts) {
    int64_t total = 0, of[MOST] = {0};
    for (int i = 0; i < nparts; i++) of[parts[i].owner] += parts[i].count, total += parts[i].count;
    for (int r = 0; r < n; r++)
        CHECK(llabs(of[r] - total / n) <= 16, "%lld of %lld", (long long)of[r], (long long)total);
}

/* In place, as two messages. */
static void make_all_reduce(struct message *m) {
    int nwhole = 1 + below(PARTS - 1);
    for (int i = 0; i < nwhole; i++) m->count[i] = below(LONGEST * n);
    for (int r = 0; r < n; r++) {
        struct mt_engine_part whole[PARTS];
        for (int i = 0; i < nwhole; i++) {
            for (int64_t e = 0; e < m->count[i]; e++) m->from[r][i][e] = value(r, i, e);
            whole[i] = (struct mt_engine_part){m->count[i], -1, m->from[r][i], m->from[r][i]};
        }
        m->nparts = mt_engine_divide(whole, nwhole, n, 4, m->parts[r]);
        CHECK(m->nparts <= nwhole + n);
        check_division(m->parts[r], m->nparts);
        memcpy(m[1].parts[r], m->parts[r], sizeof m->parts[r]);
    }
    m->kind = MT_REDUCE_SCATTER, m->nwhole = 0;
    m[1].kind = MT_ALL_GATHER, m[1].nwhole = nwhole, m[1].nparts = m->nparts;
}

static void check_all_reduce(const struct message *m) {
    for (int r = 0; r < n; r++)
        for (int i = 0; i < m->nwhole; i++)
            for (int64_t e = 0; e < m[-1].count[i]; e++) CHECK_EQ(m[-1].from[r][i][e], sum_of(i, e));
}

int main(void) {
    for (int t = 0; t < 3000; t++) {
        int nmessages = 0;
        bool halves[MESSAGES] = {false};
        n = 1 + below(MOST);
        slot_bytes = MT_ENGINE_ALIGN * (1 + below(below(2) ? 8 : SLOT_ROOM / MT_ENGINE_ALIGN - 1));
        while (nmessages < MESSAGES) {
            bool two = nmessages + 1 < MESSAGES && !below(3);
            if (two)
                make_all_reduce(&messages[nmessages]), halves[nmessages] = true;
            else
                make_blocks(&messages[nmessages]);
            nmessages += 1 + two;
        }
        run(nmessages);
        for (int k = 0; k < nmessages; k++)
            if (messages[k].nwhole)
                check_all_reduce(&messages[k]);
            else if (!halves[k])
                check_blocks(&messages[k]);
    }
    return 0;
}
