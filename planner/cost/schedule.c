/* Simulation of a schedule of all ranks of a group over the paths between them.
 *
 * Messages between two ranks match in order: each is a step of one round of its sender and of one of its receiver.
 * Rounds have levels: the levels of a rank's rounds rise, and the two rounds of a message have the same level; the
 * least such levels are found by raising them until nothing changes. Messages of one level share the egress and ingress
 * of their hosts. Cost: O(steps of all ranks), times a few passes. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "planner/cost/internal.h"

struct message {
    int from, to;         /* places in the group */
    int sender, receiver; /* rounds */
    int64_t bytes;
};

struct round {
    int level;
    double send_latency_s, recv_latency_s, send_s, recv_s, shared_s;
};

/* Bytes of a host's messages, at one level or at all. */
struct host_load {
    double out, in, inside;
};

struct sim {
    const struct cost_group *group;
    int n, nrounds, nlevels;
    int *first; /* [n + 1]: rank p's rounds are rounds[first[p] .. first[p + 1]) */
    struct round *rounds;
    struct message *messages;
    int nmessages;
};

/* ---- matching ---- */

static bool receives(const struct mt_step *step) {
    return step->kind == MT_STEP_RECV || step->kind == MT_STEP_REDUCE;
}

/* All messages as their senders (or receivers) list them, rank by rank. */
static struct message *list_messages(struct sim *sim, const struct mt_schedule *schedules, bool send) {
    int count = 0;
    for (int p = 0; p < sim->n; p++)
        for (int s = 0; s < schedules[p].nsteps; s++)
            count += send ? schedules[p].steps[s].kind == MT_STEP_SEND : receives(&schedules[p].steps[s]);
    struct message *messages = mt_calloc((size_t)count + 1, sizeof *messages);
    sim->nmessages = 0;
    for (int p = 0; p < sim->n; p++)
        for (int k = 0, s = 0; k < schedules[p].nrounds; k++)
            for (; s < schedules[p].round_end[k]; s++) {
                const struct mt_step *step = &schedules[p].steps[s];
                int round = sim->first[p] + k;
                if (send && step->kind == MT_STEP_SEND)
                    messages[sim->nmessages++] = (struct message){p, step->peer, round, -1, step->count};
                else if (!send && receives(step))
                    messages[sim->nmessages++] = (struct message){step->peer, p, -1, round, step->count};
            }
    return messages;
}

/* A stable counting sort by sender or receiver. */
static void sort_messages(const struct sim *sim, struct message **messages, bool by_sender) {
    size_t count = (size_t)sim->nmessages;
    int *begin = mt_calloc((size_t)sim->n + 1, sizeof *begin);
    struct message *sorted = mt_calloc(count + 1, sizeof *sorted), *from = *messages;
    for (size_t i = 0; i < count; i++) begin[(by_sender ? from[i].from : from[i].to) + 1]++;
    for (int p = 0; p < sim->n; p++) begin[p + 1] += begin[p];
    for (size_t i = 0; i < count; i++) sorted[begin[by_sender ? from[i].from : from[i].to]++] = from[i];
    free(begin);
    free(from);
    *messages = sorted;
}

/* Messages in order of sender, receiver, and their turn. */
static void match_messages(struct sim *sim, const struct mt_schedule *schedules, int64_t element_bytes) {
    struct message *received = list_messages(sim, schedules, false);
    int nreceived = sim->nmessages;
    sim->messages = list_messages(sim, schedules, true);
    assert(sim->nmessages == nreceived);
    (void)nreceived;
    sort_messages(sim, &sim->messages, false);
    sort_messages(sim, &sim->messages, true);
    sort_messages(sim, &received, true); /* listed by receiver: to the same order */
    for (int i = 0; i < sim->nmessages; i++) {
        struct message *m = &sim->messages[i];
        assert(m->from == received[i].from && m->to == received[i].to && m->bytes == received[i].bytes);
        m->receiver = received[i].receiver;
        m->bytes *= element_bytes;
    }
    free(received);
}

/* ---- levels ---- */

static bool raise_level(int *level, int least) {
    bool raised = *level < least;
    if (raised) *level = least;
    return raised;
}

static void number_levels(struct sim *sim) {
    bool changed = true;
    for (int pass = 0; changed; pass++) {
        assert(pass <= sim->nrounds + 1 && "rounds wait for each other in a circle");
        changed = false;
        for (int p = 0; p < sim->n; p++)
            for (int k = sim->first[p] + 1; k < sim->first[p + 1]; k++)
                changed |= raise_level(&sim->rounds[k].level, sim->rounds[k - 1].level + 1);
        for (int i = 0; i < sim->nmessages; i++) {
            int *sender = &sim->rounds[sim->messages[i].sender].level;
            int *receiver = &sim->rounds[sim->messages[i].receiver].level;
            changed |= raise_level(sender, *receiver);
            changed |= raise_level(receiver, *sender);
        }
    }
    for (int k = 0; k < sim->nrounds; k++)
        if (sim->rounds[k].level >= sim->nlevels) sim->nlevels = sim->rounds[k].level + 1;
}

/* ---- time ---- */

/* Add a message to its rounds and hosts; loads: [level, host]. Messages of one round to one peer pay the latency once.
 */
static void add_load(struct sim *sim, struct host_load *loads, struct host_load *total, int i) {
    const struct message *m = &sim->messages[i];
    const struct cost_group *g = sim->group;
    struct mt_path path = mt_cost_group_path(g, m->from, m->to);
    struct round *sender = &sim->rounds[m->sender], *receiver = &sim->rounds[m->receiver];
    const struct message *before = i ? m - 1 : NULL;
    bool again = before && before->from == m->from && before->to == m->to;
    if (!again || before->sender != m->sender) sender->send_latency_s += path.latency_s;
    if (!again || before->receiver != m->receiver) receiver->recv_latency_s += path.latency_s;
    double bytes = (double)m->bytes;
    sender->send_s += bytes / path.bandwidth_Bps;
    receiver->recv_s += bytes / path.bandwidth_Bps;
    struct host_load *level = loads + (size_t)sender->level * (size_t)g->nhosts;
    int from = g->host[m->from], to = g->host[m->to];
    if (from == to) {
        level[from].inside += bytes, total[from].inside += bytes;
    } else {
        level[from].out += bytes, total[from].out += bytes;
        level[to].in += bytes, total[to].in += bytes;
    }
}

/* Seconds of a load at the rates of its host. */
static struct host_load seconds_of(const struct cost_host *host, const struct host_load *load) {
    return (struct host_load){load->out / host->egress_Bps, load->in / host->ingress_Bps,
                              load->inside / host->inside_Bps};
}

/* A round takes at least the time of its level's load at the rates of its hosts. loads: in seconds. */
static void add_shared(struct sim *sim, const struct host_load *loads, const struct message *m) {
    const struct cost_group *g = sim->group;
    struct round *sender = &sim->rounds[m->sender], *receiver = &sim->rounds[m->receiver];
    const struct host_load *level = loads + (size_t)sender->level * (size_t)g->nhosts;
    int from = g->host[m->from], to = g->host[m->to];
    double shared_s = from == to ? level[from].inside : fmax(level[from].out, level[to].in);
    sender->shared_s = fmax(sender->shared_s, shared_s);
    receiver->shared_s = fmax(receiver->shared_s, shared_s);
}

/* All messages; returns the seconds that the busiest host needs for all levels together. Rounds of different levels may
 * overlap in time, where ranks are out of step. */
static double add_loads(struct sim *sim) {
    const struct cost_group *g = sim->group;
    size_t nhosts = (size_t)g->nhosts, nloads = (size_t)sim->nlevels * nhosts;
    struct host_load *loads = mt_calloc(nloads + nhosts, sizeof *loads), *total = loads + nloads;
    double busiest_s = 0;
    for (int i = 0; i < sim->nmessages; i++) add_load(sim, loads, total, i);
    for (size_t k = 0; k < nloads + nhosts; k++) loads[k] = seconds_of(&g->hosts[k % nhosts], &loads[k]);
    for (int i = 0; i < sim->nmessages; i++) add_shared(sim, loads, &sim->messages[i]);
    for (int h = 0; h < g->nhosts; h++)
        busiest_s = fmax(busiest_s, fmax(fmax(total[h].out, total[h].in), total[h].inside));
    free(loads);
    return busiest_s;
}

/* A round starts when its rank's round before has ended, and ends when its own work is done, and that of the rounds
 * that it exchanges messages with. */
struct times {
    double *own_s, *start_s, *end_s; /* [nrounds] */
};

static void take_partner(struct times *t, int round, int partner) {
    double s = t->start_s[partner] + fmax(t->own_s[partner], t->own_s[round]);
    if (s > t->end_s[round]) t->end_s[round] = s;
}

/* Messages by level: order[begin[l] .. begin[l + 1]) are of level l. A counting sort. */
static int *order_by_level(const struct sim *sim, int *begin) {
    int *order = mt_calloc((size_t)sim->nmessages + 1, sizeof *order);
    for (int i = 0; i < sim->nmessages; i++) begin[sim->rounds[sim->messages[i].sender].level + 2]++;
    for (int l = 2; l <= sim->nlevels + 1; l++) begin[l] += begin[l - 1];
    for (int i = 0; i < sim->nmessages; i++) order[begin[sim->rounds[sim->messages[i].sender].level + 1]++] = i;
    return order;
}

/* Level by level. Rounds take `latencies` times their latencies and `transfers` times their transfers. */
static double total_time(const struct sim *sim, const int *begin, const int *order, int latencies, int transfers) {
    size_t nrounds = (size_t)sim->nrounds + 1;
    double *times = mt_calloc(3 * nrounds, sizeof *times), total_s = 0;
    struct times t = {times, times + nrounds, times + 2 * nrounds};
    int *next = mt_calloc((size_t)sim->n, sizeof *next);
    for (int p = 0; p < sim->n; p++) next[p] = sim->first[p];
    for (int k = 0; k < sim->nrounds; k++) {
        const struct round *r = &sim->rounds[k];
        t.own_s[k] = latencies * fmax(r->send_latency_s, r->recv_latency_s) +
                     transfers * fmax(fmax(r->send_s, r->recv_s), r->shared_s);
    }
    for (int l = 0; l < sim->nlevels; l++) {
        for (int p = 0; p < sim->n; p++) {
            int k = next[p];
            if (k == sim->first[p + 1] || sim->rounds[k].level != l) continue;
            t.start_s[k] = k > sim->first[p] ? t.end_s[k - 1] : 0;
            t.end_s[k] = t.start_s[k] + t.own_s[k];
            next[p]++;
        }
        for (int i = begin[l]; i < begin[l + 1]; i++) {
            const struct message *m = &sim->messages[order[i]];
            take_partner(&t, m->receiver, m->sender);
            take_partner(&t, m->sender, m->receiver);
        }
    }
    for (int k = 0; k < sim->nrounds; k++) total_s = fmax(total_s, t.end_s[k]);
    free(times);
    free(next);
    return total_s;
}

/* Rounds and messages of all ranks. */
static void open_sim(struct sim *sim, const struct mt_coll *problem, const struct mt_coll_algorithm *algorithm) {
    size_t n = (size_t)problem->n;
    struct mt_schedule *schedules = mt_calloc(n, sizeof *schedules);
    sim->first = mt_calloc(n + 1, sizeof *sim->first);
    for (int p = 0; p < sim->n; p++) {
        struct mt_coll own = *problem;
        own.me = p;
        algorithm->schedule(&own, &schedules[p]);
        sim->first[p + 1] = sim->first[p] + schedules[p].nrounds;
    }
    sim->nrounds = sim->first[n];
    sim->rounds = mt_calloc((size_t)sim->nrounds + 1, sizeof *sim->rounds);
    match_messages(sim, schedules, mt_type_size(problem->wire));
    for (int p = 0; p < sim->n; p++) mt_schedule_release(&schedules[p]);
    free(schedules);
    number_levels(sim);
}

struct cost_seconds mt_cost_simulate(struct cost_group *g, const struct mt_coll *problem,
                                     const struct mt_coll_algorithm *algorithm, bool split) {
    mt_cost_group_list_paths(g);
    struct sim sim = {.group = g, .n = problem->n};
    open_sim(&sim, problem, algorithm);
    double busiest_s = add_loads(&sim);
    int *begin = mt_calloc((size_t)sim.nlevels + 2, sizeof *begin), *order = order_by_level(&sim, begin);
    struct cost_seconds s = {.all_s = fmax(busiest_s, total_time(&sim, begin, order, 1, 1))};
    if (split) s.transfer_s = fmax(busiest_s, total_time(&sim, begin, order, 0, 1));
    if (split) s.latency_s = total_time(&sim, begin, order, 1, 0);
    free(begin);
    free(order);
    free(sim.messages);
    free(sim.rounds);
    free(sim.first);
    return s;
}

double mt_cost_schedule_s(const struct mt_costs *costs, const struct mt_coll *problem, const int *group,
                          const struct mt_coll_algorithm *algorithm) {
    struct mt_costs own = mt_cost_memo_borrow(costs);
    struct cost_group *g = mt_cost_group_of(&own, group, problem->n);
    struct mt_coll here = *problem;
    here.node = mt_cost_group_nodes(g);
    double s = mt_cost_simulate(g, &here, algorithm, false).all_s;
    mt_cost_memo_return(costs, &own);
    return s;
}
