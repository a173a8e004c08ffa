/* What each node sends, and receives, over the network with all its pairs at once.
 *
 * Blocks of up to MOST_IN_BLOCK nodes measure concurrently. In a block one node in turn sends to all others, and then
 * one in turn receives from all: at most 2 * MOST_IN_BLOCK steps, however many nodes there are. Messages are in
 * proportion to the rates of their pairs, so that they end together, and no slow peer hides what the node can do. Each
 * run sends them twice without a pause; receivers take the time from the end of the first to the end of the second, so
 * that bytes which networks accept without delay (token buckets) do not count. The slowest receiver of a run counts,
 * and the median of runs. A shorter run before them shows which receivers of a sender are slow. Where all pairs
 * together reach little more than the best of them alone, the node limits both, and the pair's rate counts: it is from
 * many more messages. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/log.h"
#include "profiler/probes/internal.h"

enum { MOST_IN_BLOCK = 8, RUNS = 3, QUEUED_RUNS = 4, WORD = 4 };
static const double little_more = 1.5, least_s = 6, least_run_s = 0.05, most_run_s = 0.2;
static const int64_t most_bytes[2] = {64 << 20, 256 << 20}; /* that a node sends in a run: of CPUs, of GPUs */

struct probe {
    struct mt_profile *p;
    int first, nnodes;     /* of this rank's block */
    struct mt_group group; /* its ranks */
    int64_t *counts;       /* [group.n * group.n]: words of this step */
    double run_s;
    int64_t words[2]; /* in the buffers */
    void *buffer[2];
};

/* The mean rate of the measured pairs from one node to another; 0: none was measured. */
static double pair_rate(const struct mt_profile *p, int from, int to) {
    double sum = 0;
    int n = 0;
    for (int i = 0; i < p->npairs; i++) {
        const struct mt_pair_times *pair = &p->pairs[i];
        int a = p->places[pair->a].node, b = p->places[pair->b].node;
        if (a == from && b == to)
            sum += pair->bandwidth.median, n++;
        else if (a == to && b == from)
            sum += pair->reverse.median, n++;
    }
    return n ? sum / n : 0;
}

/* The best rate of a pair from (to) a node. */
static double best_pair(const struct mt_profile *p, int node, bool egress) {
    double best = 0;
    for (int i = 0; i < p->npairs; i++) {
        const struct mt_pair_times *pair = &p->pairs[i];
        if (!pair->between) continue;
        if (p->places[pair->a].node == node) best = fmax(best, egress ? pair->bandwidth.median : pair->reverse.median);
        if (p->places[pair->b].node == node) best = fmax(best, egress ? pair->reverse.median : pair->bandwidth.median);
    }
    return best;
}

/* The median rate of pairs between nodes, in both directions. */
static double typical_rate(const struct mt_profile *p) {
    double *rates = mt_malloc((2 * (size_t)p->npairs + 1) * sizeof *rates), typical;
    size_t n = 0;
    for (int i = 0; i < p->npairs; i++)
        if (p->pairs[i].between) rates[n++] = p->pairs[i].bandwidth.median, rates[n++] = p->pairs[i].reverse.median;
    typical = n ? mt_median(rates, n) : 1e8;
    free(rates);
    return typical;
}

/* What is expected of a pair. Of one that was not measured: the typical rate, or what its sender was found to send. */
static double expected_rate(const struct mt_profile *p, int from, int to, double typical) {
    double rate = pair_rate(p, from, to);
    if (rate > 0) return rate;
    return p->egress_Bps[from] > 0 ? fmin(p->egress_Bps[from], typical) : typical;
}

/* The place in the group of the nth rank of a node, counted modulo its number of ranks. */
static int place_of(const struct probe *probe, int node, int nth) {
    const struct mt_profile *p = probe->p;
    int count = 0, at = 0;
    for (int i = 0; i < probe->group.n; i++) count += p->places[probe->group.ranks[i]].node == node;
    for (int i = 0; i < probe->group.n; i++)
        if (p->places[probe->group.ranks[i]].node == node && at++ == nth % count) return i;
    return 0;
}

/* The messages of a step, at these rates to (from) each node of the block: of each rank of the node to one rank of each
 * other node, or back. */
static void plan_step(struct probe *probe, int node, bool egress, double run_s, const double *rates) {
    const struct mt_profile *p = probe->p;
    int n = probe->group.n, ranks = 0;
    double all = 0;
    memset(probe->counts, 0, (size_t)n * (size_t)n * sizeof *probe->counts);
    for (int i = 0; i < n; i++) ranks += p->places[probe->group.ranks[i]].node == node;
    for (int k = 0; k < probe->nnodes; k++) all += probe->first + k == node ? 0 : rates[k];
    double seconds = fmin(run_s, (double)most_bytes[p->gpu] / all);
    for (int k = 0; k < probe->nnodes; k++) {
        if (probe->first + k == node) continue;
        int64_t count = (int64_t)(rates[k] * seconds / ranks / WORD) + 1;
        for (int i = 0; i < ranks; i++) {
            int mine = place_of(probe, node, i), its = place_of(probe, probe->first + k, i);
            probe->counts[egress ? mine * n + its : its * n + mine] += count;
        }
    }
}

/* Buffers of words that a rank sends and receives; made anew where a step needs larger ones. */
static enum mt_status make_buffers(struct probe *probe, int me, struct mt_err *err) {
    struct mt_profile *p = probe->p;
    int n = probe->group.n;
    int64_t words[2] = {n, n};
    enum mt_status st = MT_OK;
    for (int i = 0; i < n; i++) words[0] += probe->counts[me * n + i], words[1] += probe->counts[i * n + me];
    for (int b = 0; b < 2 && !st; b++) {
        if (words[b] <= probe->words[b]) continue;
        mt_device_free(p->device, probe->buffer[b]);
        probe->buffer[b] = NULL;
        probe->words[b] = words[b];
        st = mt_probe_buffer(p, words[b] * WORD, &probe->buffer[b], err);
    }
    return mt_exchange_agree(p->exchange, st, err);
}

static enum mt_status run_queued(struct probe *probe, int me, double *time_s, struct mt_err *err) {
    struct mt_probe_row row = {
        .ranks = probe->group.ranks, .buffer = probe->buffer, .what = "messages between a node and others"};
    for (int i = 0; i < 2; i++) {
        row.problem[i] = (struct mt_coll){.kind = MT_ALL_TO_ALL,
                                          .wire = MT_F32,
                                          .acc = MT_F32,
                                          .n = probe->group.n,
                                          .me = me,
                                          .counts = probe->counts};
        mt_coll_find(MT_ALL_TO_ALL, "direct")->schedule(&row.problem[i], &row.schedule[i]);
    }
    enum mt_status st = mt_probe_queue(probe->p, &row, QUEUED_RUNS, time_s, err);
    for (int i = 0; i < 2; i++) mt_schedule_release(&row.schedule[i]);
    return st;
}

/* One run: times_s[nranks], of each rank for its second messages; or half of the time for both if that is longer, as of
 * a rank that was late to see the end of the first. */
static enum mt_status run_once(struct probe *probe, int me, double *times_s, struct mt_err *err) {
    struct mt_profile *p = probe->p;
    const struct mt_group *group = &probe->group;
    double mine_s = 0;
    enum mt_status st = mt_exchange_max(p->exchange, &mine_s, 1, err);
    double start_s = mt_now_s(), middle_s = start_s;
    if (!st && p->talk && group->n > 1) {
        st = run_queued(probe, me, &mine_s, err);
    } else if (group->n > 1) {
        for (int twice = 0; twice < 2 && !st; twice++) {
            middle_s = mt_now_s();
            st = mt_probe_move(p, group->ranks, group->n, probe->counts, probe->buffer, err);
        }
        mine_s = fmax(mt_now_s() - middle_s, 0.5 * (mt_now_s() - start_s));
    }
    return st ? st : mt_exchange_gather(p->exchange, &mine_s, sizeof mine_s, times_s, err);
}

/* The time of the slowest receiver on a node; on any if node is negative. *bytes: what they received. */
static double time_of_receivers(const struct probe *probe, int node, const double *times_s, double *bytes) {
    const struct mt_profile *p = probe->p;
    int n = probe->group.n;
    double last_s = 0;
    *bytes = 0;
    for (int i = 0; i < n * n; i++) {
        int to = probe->group.ranks[i % n];
        if (!probe->counts[i] || (node >= 0 && p->places[to].node != node)) continue;
        *bytes += (double)(probe->counts[i] * WORD);
        last_s = fmax(last_s, times_s[to]);
    }
    return last_s;
}

/* After the first run: the rates at which receivers of unmeasured pairs had their messages, at most the typical one;
 * and if all together were far slower than was expected of them, all rates less. */
static void observe(const struct probe *probe, int node, bool egress, const double *times_s, double typical,
                    double *rates) {
    const double far_slower = 4;
    double bytes, sum = 0;
    for (int k = 0; k < probe->nnodes && egress; k++) {
        double time_s = time_of_receivers(probe, probe->first + k, times_s, &bytes);
        bool measured = pair_rate(probe->p, node, probe->first + k) > 0;
        if (probe->first + k != node && !measured && time_s > 0) rates[k] = fmin(bytes / time_s, typical);
    }
    double time_s = time_of_receivers(probe, -1, times_s, &bytes), all_Bps = bytes / fmax(time_s, 1e-9);
    for (int k = 0; k < probe->nnodes; k++) sum += probe->first + k == node ? 0 : rates[k];
    for (int k = 0; k < probe->nnodes && far_slower * all_Bps < sum; k++) rates[k] *= all_Bps / sum;
}

static enum mt_status take_step(struct probe *probe, int turn, bool egress, double typical, double *found,
                                struct mt_err *err) {
    struct mt_profile *p = probe->p;
    int node = probe->first + turn, me = 0;
    bool idle = turn >= probe->nnodes; /* other blocks are larger */
    double *times_s = mt_new(&p->arena, double, p->nranks), *rates = mt_new(&p->arena, double, probe->nnodes);
    double seen[RUNS], bytes;
    enum mt_status st = MT_OK;
    while (probe->group.ranks[me] != p->rank) me++;
    memset(probe->counts, 0, (size_t)probe->group.n * (size_t)probe->group.n * sizeof *probe->counts);
    for (int k = 0; k < probe->nnodes && !idle; k++)
        rates[k] = expected_rate(p, egress ? node : probe->first + k, egress ? probe->first + k : node, typical);
    for (int run = 0; run <= RUNS && !st; run++) {
        mt_exchange_progress(p->exchange, "what nodes send and receive");
        if (run < 2 && !idle) plan_step(probe, node, egress, run ? probe->run_s : probe->run_s / 4, rates);
        if (run < 2 && (st = make_buffers(probe, me, err))) break;
        if ((st = run_once(probe, me, times_s, err)) || idle) continue;
        if (!run) observe(probe, node, egress, times_s, typical, rates);
        double time_s = time_of_receivers(probe, -1, times_s, &bytes);
        if (run) seen[run - 1] = bytes / fmax(time_s, 1e-9);
    }
    if (!st && !idle) found[node] = mt_median(seen, RUNS);
    return st;
}

/* Blocks of nodes, as equal as possible. Returns the number of nodes of the largest. */
static int choose_block(struct probe *probe) {
    struct mt_profile *p = probe->p;
    int blocks = (p->nnodes + MOST_IN_BLOCK - 1) / MOST_IN_BLOCK, most = 0, mine = p->places[p->rank].node;
    for (int b = 0; b < blocks; b++) {
        int from = (int)((int64_t)b * p->nnodes / blocks), to = (int)((int64_t)(b + 1) * p->nnodes / blocks);
        if (mine >= from && mine < to) probe->first = from, probe->nnodes = to - from;
        most = to - from > most ? to - from : most;
    }
    probe->group.ranks = mt_new(&p->arena, int, p->nranks);
    for (int r = 0; r < p->nranks; r++)
        if (p->places[r].node >= probe->first && p->places[r].node < probe->first + probe->nnodes)
            probe->group.ranks[probe->group.n++] = r;
    probe->counts = mt_new(&p->arena, int64_t, (int64_t)probe->group.n * probe->group.n);
    return most;
}

enum mt_status mt_probe_hosts(struct mt_profile *p, double budget_s, struct mt_err *err) {
    struct probe probe = {.p = p};
    enum mt_status st = MT_OK;
    if (p->nnodes < 2) return MT_OK;
    double start_s = mt_now_s(), typical = typical_rate(p), *rates[2];
    int turns = choose_block(&probe);
    p->egress_Bps = mt_new(&p->arena, double, p->nnodes);
    p->ingress_Bps = mt_new(&p->arena, double, p->nnodes);
    rates[0] = p->ingress_Bps, rates[1] = p->egress_Bps;
    probe.run_s = fmin(fmax(fmax(budget_s, least_s) / (4 * turns * (RUNS + 1)), least_run_s), most_run_s);
    for (int egress = 1; egress >= 0 && !st; egress--) {
        for (int turn = 0; turn < turns && !st; turn++)
            st = take_step(&probe, turn, egress, typical, rates[egress], err);
        /* Ranks know only the figures of their own block. */
        if (!st) st = mt_exchange_max(p->exchange, rates[egress], p->nnodes, err);
        for (int node = 0; node < p->nnodes; node++) {
            double pair_Bps = best_pair(p, node, egress), *all_Bps = &rates[egress][node];
            if (*all_Bps > pair_Bps && *all_Bps < little_more * pair_Bps) *all_Bps = pair_Bps;
        }
    }
    for (int b = 0; b < 2; b++) mt_device_free(p->device, probe.buffer[b]);
    if (!st)
        mt_log(MT_LOG_INFO, "%-24s %5.1f s: %d nodes", "what nodes send, receive", mt_now_s() - start_s, p->nnodes);
    return st;
}
