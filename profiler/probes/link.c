/* Latency and bandwidth between pairs of ranks, in both directions, and the bandwidth that those of a node share.
 *
 * Pairs are measured in rounds: within a round no two pairs share a rank, a node's memory or a node's network. Of many
 * ranks only some pairs of each kind are measured (pairs.c). Messages are sent as Send/Recv in training; the sender
 * takes the time of a round trip: the message, and an answer of one word. */
#include <math.h>
#include <stdlib.h>

#include "profiler/probes/internal.h"

enum { WORD = 4, NSIZES = 3, MOST_REPEATS = 64, QUEUED_REPEATS = 4, LOOKS = 4 };

/* Bytes: a word, a message, a large one. Bandwidth is from the difference of the last two, since the bytes that
 * networks accept without delay (buffers, token buckets) are the same for both. */
static const int64_t ladders[][NSIZES] = {{WORD, 8 << 20, 64 << 20}, /* only for GPUs */
                                          {WORD, 1 << 20, 16 << 20},
                                          {WORD, 1 << 20, 8 << 20},
                                          {WORD, 1 << 19, 2 << 20},
                                          {WORD, 1 << 16, 1 << 19}};
enum { NLADDERS = sizeof ladders / sizeof *ladders };

struct probe {
    struct mt_profile *profile;
    int *round_of;     /* [npairs] */
    int nrounds, mine; /* my pair in the round that is being measured, or -1 */
    const int64_t *sizes;
    void *buffer[2];
    struct mt_samples *series; /* [nrounds * NSIZES * 2]: by direction; of the sender: seconds */
};

enum mt_status mt_probe_move(struct mt_profile *p, const int *group, int n, const int64_t *counts,
                             void *const buffer[2], struct mt_err *err) {
    struct mt_schedule schedule = MT_SCHEDULE_INIT;
    int me = 0;
    while (group[me] != p->rank) me++;
    struct mt_coll problem = {MT_ALL_TO_ALL, MT_REDUCE_NONE, MT_F32, MT_F32, n, me, 0, counts, false, NULL};
    mt_coll_find(MT_ALL_TO_ALL, "direct")->schedule(&problem, &schedule);
    enum mt_status st = mt_comm_run(p->wire, &problem, &schedule, group, buffer, 1, p->deadline_s, err);
    mt_schedule_release(&schedule);
    return st;
}

enum mt_status mt_probe_buffer(struct mt_profile *p, int64_t size_bytes, void **buffer, struct mt_err *err) {
    enum mt_status st = mt_device_alloc(p->device, size_bytes, buffer, err);
    static const char zeros[1 << 20];
    if (!st) st = mt_device_repeat(p->device, *buffer, size_bytes, zeros, sizeof zeros, err);
    return st;
}

/* One message from `from` to the pair's other rank. */
static enum mt_status send_one(struct probe *probe, bool forth, int64_t size_bytes, struct mt_err *err) {
    const struct mt_pair_times *pair = &probe->profile->pairs[probe->mine];
    int64_t counts[4] = {0};
    counts[forth ? 1 : 2] = size_bytes / WORD;
    return mt_probe_move(probe->profile, (int[2]){pair->a, pair->b}, 2, counts, probe->buffer, err);
}

/* The sender's time of a round trip; on a wire that queues, the mean of several. */
static enum mt_status there_and_back(struct probe *probe, bool forth, int64_t size_bytes, double *time_s,
                                     struct mt_err *err) {
    struct mt_profile *p = probe->profile;
    const struct mt_pair_times *pair = &p->pairs[probe->mine];
    if (p->talk)
        return mt_probe_queue_pairs(p, (int[2]){forth ? pair->a : pair->b, forth ? pair->b : pair->a},
                                    (int64_t[2]){size_bytes, WORD}, probe->buffer, size_bytes > WORD ? 4 : 32, time_s,
                                    err);
    double start_s = mt_now_s();
    enum mt_status st = send_one(probe, forth, size_bytes, err);
    if (!st) st = send_one(probe, !forth, WORD, err);
    *time_s = mt_now_s() - start_s;
    return st;
}

static int case_of(int round, int size, bool forth) {
    return (round * NSIZES + size) * 2 + forth;
}

static enum mt_status once(void *context, int which, double slot_s, struct mt_err *err) {
    struct probe *probe = context;
    struct mt_profile *p = probe->profile;
    bool forth = which % 2;
    int size = which / 2 % NSIZES, round = which / 2 / NSIZES;
    probe->mine = -1;
    for (int i = 0; i < p->npairs; i++)
        if (probe->round_of[i] == round && (p->pairs[i].a == p->rank || p->pairs[i].b == p->rank)) probe->mine = i;
    if (probe->mine < 0) return MT_OK;
    /* A first round trip is timed; from it the sender derives the number of repeats, and sends that to the other. */
    bool sender = (p->pairs[probe->mine].a == p->rank) == forth;
    double first_s;
    enum mt_status st = there_and_back(probe, forth, probe->sizes[size], &first_s, err);
    int repeats = QUEUED_REPEATS;
    if (!p->talk && !st) {
        float *word = probe->buffer[!sender];
        if (sender) *word = (float)fmin(fmax(floor(slot_s / first_s), size ? 2 : 8), MOST_REPEATS);
        if (!(st = send_one(probe, forth, WORD, err))) repeats = (int)*word;
    }
    if (st) return st;
    for (int i = 0; i < repeats; i++) {
        double time_s;
        if ((st = there_and_back(probe, forth, probe->sizes[size], &time_s, err))) return st;
        if (sender) mt_samples_add(&probe->series[which], time_s);
    }
    return MT_OK;
}

/* Choose the sizes whose messages fit the budget, from a quick measurement of each pair with the smallest ladder. */
static enum mt_status choose_sizes(struct probe *probe, double budget_s, struct mt_err *err) {
    struct mt_profile *p = probe->profile;
    double slowest_s = 0;
    probe->sizes = ladders[NLADDERS - 1];
    enum mt_status st = MT_OK;
    for (int round = 0; round < probe->nrounds && !st; round++)
        for (int i = 0; i < p->npairs && !st; i++) {
            if (probe->round_of[i] != round || (p->pairs[i].a != p->rank && p->pairs[i].b != p->rank)) continue;
            probe->mine = i;
            mt_exchange_progress(p->exchange, "pairs of ranks"); /* on slow links this already takes long */
            double least_s = INFINITY;
            for (int k = 0; k < LOOKS && !st; k++) { /* the first may make the connection */
                double time_s;
                st = there_and_back(probe, true, probe->sizes[NSIZES - 1], &time_s, err);
                if (k && !st) least_s = fmin(least_s, time_s);
            }
            if (!st) slowest_s = fmax(slowest_s, least_s);
        }
    if (!st) st = mt_exchange_max(p->exchange, &slowest_s, 1, err);
    int ladder = !p->gpu;
    for (; ladder < NLADDERS - 1; ladder++) {
        double bytes = (double)(ladders[ladder][1] + ladders[ladder][2]);
        double all_s = bytes / (double)ladders[NLADDERS - 1][NSIZES - 1] * slowest_s * 2 * probe->nrounds;
        if (8 * all_s < budget_s) break;
    }
    probe->sizes = ladders[ladder];
    return st;
}

/* ---- results ---- */

/* Latency and bandwidth of one direction of a pair, from the sender's series. */
static void figures(const struct probe *probe, int round, bool forth, struct mt_interval *latency,
                    struct mt_interval *bandwidth) {
    struct mt_interval t[NSIZES];
    for (int s = 0; s < NSIZES; s++) t[s] = mt_samples_interval(&probe->series[case_of(round, s, forth)]);
    *latency = (struct mt_interval){t[0].median / 2, t[0].low / 2, t[0].high / 2};
    double bytes = (double)(probe->sizes[2] - probe->sizes[1]), all = (double)probe->sizes[2];
    double slope_s = t[2].median - t[1].median, whole_s = t[2].median - t[0].median;
    /* If the smaller message is far faster because of caches, or noise hides the difference: the larger one alone. */
    bool sloped = slope_s > 0 && slope_s > 0.5 * bytes / all * whole_s;
    double median = sloped ? bytes / slope_s : all / (whole_s > 0 ? whole_s : t[2].median);
    double error = fmin(mt_interval_error(t[2]) + (sloped ? mt_interval_error(t[1]) * t[1].median / slope_s : 0), 1);
    *bandwidth = (struct mt_interval){median, median * (1 - error), median * (1 + error)};
}

struct record {
    struct mt_interval latency, bandwidth;
};

/* Both directions, each as its sender measured it; of latencies the longer. Gathered on all ranks. */
static enum mt_status gather_pairs(struct probe *probe, struct mt_err *err) {
    struct mt_profile *p = probe->profile;
    size_t record_bytes = sizeof(struct record) * (size_t)probe->nrounds;
    struct record *mine = mt_calloc((size_t)probe->nrounds, sizeof *mine);
    struct record *all = mt_calloc((size_t)(probe->nrounds * p->nranks), sizeof *all);
    for (int i = 0; i < p->npairs; i++) {
        int round = probe->round_of[i];
        bool a = p->pairs[i].a == p->rank, b = p->pairs[i].b == p->rank;
        if (a || b) figures(probe, round, a, &mine[round].latency, &mine[round].bandwidth);
    }
    enum mt_status st = mt_exchange_gather(p->exchange, mine, record_bytes, all, err);
    for (int i = 0; i < p->npairs && !st; i++) {
        struct mt_pair_times *pair = &p->pairs[i];
        const struct record *a = &all[pair->a * probe->nrounds + probe->round_of[i]];
        const struct record *b = &all[pair->b * probe->nrounds + probe->round_of[i]];
        pair->latency = a->latency.median > b->latency.median ? a->latency : b->latency;
        pair->bandwidth = a->bandwidth, pair->reverse = b->bandwidth;
    }
    free(mine);
    free(all);
    return st;
}

/* ---- shared bandwidth ---- */

struct mt_group mt_probe_group(struct mt_profile *p, bool between) {
    struct mt_group group = {.ranks = mt_new(&p->arena, int, p->nranks)};
    for (int r = 0; r < p->nranks; r++)
        if (between || p->places[r].node == p->places[p->rank].node) group.ranks[group.n++] = r;
    return group;
}

bool mt_probe_has_link(const struct mt_profile *p, bool between) {
    return between ? p->nnodes > 1 : p->nranks > p->nnodes;
}

/* The receiver of a rank when all ranks of a node send: the next one. */
static int partner(const struct mt_group *group, int place) {
    return (place + 1) % group->n;
}

struct crowd {
    struct probe *probe;
    struct mt_group group; /* this node's ranks */
    int64_t *counts;
    double bytes; /* that are sent within the node with most ranks */
    struct mt_samples series;
};

/* The time of the slowest rank; a rank alone in its group sends nothing. */
static enum mt_status crowd_queued(struct crowd *crowd, struct mt_err *err) {
    struct mt_profile *p = crowd->probe->profile;
    const struct mt_group *group = &crowd->group;
    struct mt_probe_row row = {.ranks = group->ranks, .buffer = crowd->probe->buffer, .what = "messages of all ranks"};
    double come = 0, each_s = 0;
    int me = 0;
    while (group->ranks[me] != p->rank) me++;
    for (int i = 0; i < 2; i++) {
        row.problem[i] = (struct mt_coll){MT_ALL_TO_ALL, MT_REDUCE_NONE, MT_F32, MT_F32, group->n, me, 0,
                                          crowd->counts, false,          NULL};
        mt_coll_find(MT_ALL_TO_ALL, "direct")->schedule(&row.problem[i], &row.schedule[i]);
    }
    enum mt_status st = mt_exchange_max(p->exchange, &come, 1, err);
    if (!st && group->n > 1) st = mt_probe_queue(p, &row, QUEUED_REPEATS, &each_s, err);
    if (!st) st = mt_exchange_max(p->exchange, &each_s, 1, err);
    if (!st) mt_samples_add(&crowd->series, each_s);
    for (int i = 0; i < 2; i++) mt_schedule_release(&row.schedule[i]);
    return st;
}

static enum mt_status crowd_once(void *context, int which, double slot_s, struct mt_err *err) {
    struct crowd *crowd = context;
    struct mt_profile *p = crowd->probe->profile;
    (void)which;
    if (p->talk) return crowd_queued(crowd, err);
    int repeats = crowd->series.count ? (int)fmin(fmax(slot_s / crowd->series.values[0], 1), 16) : 2;
    for (int i = 0; i < repeats; i++) {
        double values[1] = {0};
        enum mt_status st = mt_exchange_max(p->exchange, values, 1, err);
        double start_s = mt_now_s();
        if (!st && crowd->group.n > 1)
            st = mt_probe_move(p, crowd->group.ranks, crowd->group.n, crowd->counts, crowd->probe->buffer, err);
        values[0] = mt_now_s() - start_s;
        if (st || (st = mt_exchange_max(p->exchange, values, 1, err))) return st;
        mt_samples_add(&crowd->series, values[0]);
    }
    return MT_OK;
}

/* All ranks of each node send at once. */
static enum mt_status measure_crowd(struct probe *probe, double budget_s, struct mt_err *err) {
    struct mt_profile *p = probe->profile;
    struct crowd crowd = {probe, mt_probe_group(p, false), NULL, 0, {0}};
    int n = crowd.group.n, most_of_a_node = 0;
    crowd.counts = mt_new(&p->arena, int64_t, (int64_t)n * n);
    for (int i = 0; i < n; i++)
        if (partner(&crowd.group, i) != i)
            crowd.counts[i * n + partner(&crowd.group, i)] = probe->sizes[NSIZES - 1] / WORD;
    for (int i = 0; i < p->nranks; i++) {
        int on_node = 0;
        for (int j = 0; j < p->nranks; j++) on_node += p->places[j].node == p->places[i].node;
        if (on_node > most_of_a_node) most_of_a_node = on_node;
    }
    crowd.bytes = (double)most_of_a_node * (double)probe->sizes[NSIZES - 1];
    const struct mt_measure measure = {1, &crowd.series, crowd_once, &crowd, "all ranks of a node sending"};
    enum mt_status st = mt_measure_run(&measure, p->exchange, budget_s, err);
    if (!st) p->shared_Bps = crowd.bytes / mt_samples_interval(&crowd.series).median;
    mt_samples_release(&crowd.series);
    return st;
}

enum mt_status mt_probe_link(struct mt_profile *p, double budget_s, struct mt_err *err) {
    struct probe probe = {.profile = p};
    mt_pairs_choose(p);
    probe.round_of = mt_new(&p->arena, int, p->npairs);
    probe.nrounds = mt_pairs_rounds(p, probe.round_of);
    enum mt_status st = MT_OK;
    for (int b = 0; b < 2 && !st; b++) st = mt_probe_buffer(p, ladders[!p->gpu][NSIZES - 1], &probe.buffer[b], err);
    st = mt_exchange_agree(p->exchange, st, err);
    int ncases = probe.nrounds * NSIZES * 2;
    probe.series = mt_new(&p->arena, struct mt_samples, ncases);
    const struct mt_measure measure = {ncases, probe.series, once, &probe, "pairs of ranks"};
    if (!st) st = choose_sizes(&probe, budget_s, err);
    if (!st) st = mt_measure_run(&measure, p->exchange, 0.8 * budget_s, err);
    if (!st) st = gather_pairs(&probe, err);
    for (int i = 0; i < ncases; i++) mt_samples_release(&probe.series[i]);
    if (!st && mt_probe_has_link(p, false)) st = measure_crowd(&probe, 0.1 * budget_s, err);
    for (int b = 0; b < 2; b++) mt_device_free(p->device, probe.buffer[b]);
    return st;
}
