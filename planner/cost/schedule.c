/* Simulation of a schedule of all ranks of a group over the paths between them.
 *
 * Messages between two ranks match in order: each is a step of one round of its sender and of one of its receiver.
 * Rounds have levels: the levels of a rank's rounds rise, and the two rounds of a message have the same level; the
 * least such levels are found by raising them until nothing changes. Messages of one level share the bandwidth of a
 * node. Cost: O(steps of all ranks), times a few passes. */
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

/* Messages of a node's pairs at one level: their seconds at the shared bandwidth. */
struct node_load {
    double out_s, in_s, inside_s;
};

struct sim {
    const struct mt_costs *costs;
    const int *group;
    int n, nrounds, nlevels;
    int *first; /* [n + 1]: rank p's rounds are rounds[first[p] .. first[p + 1]) */
    struct round *rounds;
    struct message *messages;
    int nmessages;
};

static int device_at(const struct sim *sim, int place) {
    return sim->costs->device[sim->group[place]];
}

/* ---- matching ---- */

static bool receives(const struct mt_step *step) {
    return step->kind == MT_STEP_RECV || step->kind == MT_STEP_REDUCE;
}

/* Visit the steps that send (or receive): calls take(sim, next, place, round, step). */
typedef void visit(struct sim *sim, int *next, int place, int round, const struct mt_step *step);
static void visit_steps(struct sim *sim, const struct mt_schedule *schedules, bool send, int *next, visit *take) {
    for (int p = 0; p < sim->n; p++)
        for (int k = 0, s = 0; k < schedules[p].nrounds; k++)
            for (; s < schedules[p].round_end[k]; s++) {
                const struct mt_step *step = &schedules[p].steps[s];
                if (send ? step->kind == MT_STEP_SEND : receives(step)) take(sim, next, p, sim->first[p] + k, step);
            }
}

static void count_message(struct sim *sim, int *next, int place, int round, const struct mt_step *step) {
    (void)round;
    next[place * sim->n + step->peer + 1]++;
}

static void add_message(struct sim *sim, int *next, int place, int round, const struct mt_step *step) {
    sim->messages[next[place * sim->n + step->peer]++] =
        (struct message){.from = place, .to = step->peer, .sender = round, .receiver = -1, .bytes = step->count};
}

static void match_message(struct sim *sim, int *next, int place, int round, const struct mt_step *step) {
    struct message *message = &sim->messages[next[step->peer * sim->n + place]++];
    assert(message->from == step->peer && message->to == place && message->bytes == step->count);
    message->receiver = round;
}

/* Messages in order of sender, receiver, and their turn. */
static void match_messages(struct sim *sim, const struct mt_schedule *schedules, int64_t element_bytes) {
    size_t npairs = (size_t)sim->n * (size_t)sim->n;
    int *begin = mt_calloc(npairs + 1, sizeof *begin), *next = mt_calloc(npairs + 1, sizeof *next);
    visit_steps(sim, schedules, true, begin, count_message);
    for (size_t i = 0; i < npairs; i++) begin[i + 1] += begin[i];
    sim->nmessages = begin[npairs];
    sim->messages = mt_calloc((size_t)sim->nmessages, sizeof *sim->messages);
    for (size_t i = 0; i < npairs; i++) next[i] = begin[i];
    visit_steps(sim, schedules, true, next, add_message);
    for (size_t i = 0; i < npairs; i++) next[i] = begin[i];
    visit_steps(sim, schedules, false, next, match_message);
    for (int i = 0; i < sim->nmessages; i++) {
        assert(sim->messages[i].receiver >= 0);
        sim->messages[i].bytes *= element_bytes;
    }
    free(begin);
    free(next);
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

/* Add a message to its rounds and nodes. Messages of one round to one peer pay the latency once. */
static void add_load(struct sim *sim, struct node_load *nodes, int i) {
    const struct message *m = &sim->messages[i];
    const struct mt_cluster *cluster = sim->costs->cluster;
    struct mt_path path = mt_cluster_path(cluster, device_at(sim, m->from), device_at(sim, m->to));
    struct round *sender = &sim->rounds[m->sender], *receiver = &sim->rounds[m->receiver];
    const struct message *before = i ? m - 1 : NULL;
    bool again = before && before->from == m->from && before->to == m->to;
    if (!again || before->sender != m->sender) sender->send_latency_s += path.latency_s;
    if (!again || before->receiver != m->receiver) receiver->recv_latency_s += path.latency_s;
    double bytes = (double)m->bytes;
    sender->send_s += bytes / path.bandwidth_Bps;
    receiver->recv_s += bytes / path.bandwidth_Bps;
    double shared_Bps = path.link >= 0 ? cluster->links[path.link].shared_Bps : 0;
    if (shared_Bps <= 0) return;
    int from = cluster->devices[device_at(sim, m->from)].node, to = cluster->devices[device_at(sim, m->to)].node;
    struct node_load *level = nodes + (size_t)sender->level * (size_t)cluster->nnodes;
    if (from == to) {
        level[from].inside_s += bytes / shared_Bps;
    } else {
        level[from].out_s += bytes / shared_Bps;
        level[to].in_s += bytes / shared_Bps;
    }
}

/* A round takes at least the time of its level's load at the shared bandwidth of its nodes. */
static void add_shared(struct sim *sim, const struct node_load *nodes, const struct message *m) {
    const struct mt_cluster *cluster = sim->costs->cluster;
    struct round *sender = &sim->rounds[m->sender], *receiver = &sim->rounds[m->receiver];
    const struct node_load *level = nodes + (size_t)sender->level * (size_t)cluster->nnodes;
    int from = cluster->devices[device_at(sim, m->from)].node, to = cluster->devices[device_at(sim, m->to)].node;
    double shared_s = from == to ? level[from].inside_s : fmax(level[from].out_s, level[to].in_s);
    sender->shared_s = fmax(sender->shared_s, shared_s);
    receiver->shared_s = fmax(receiver->shared_s, shared_s);
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

/* Level by level; messages are ordered by level with a counting sort. */
static double total_time(const struct sim *sim) {
    size_t nrounds = (size_t)sim->nrounds + 1, nlevels = (size_t)sim->nlevels + 1;
    double *times = mt_calloc(3 * nrounds, sizeof *times), total_s = 0;
    struct times t = {times, times + nrounds, times + 2 * nrounds};
    int *begin = mt_calloc(nlevels + 1, sizeof *begin), *order = mt_calloc((size_t)sim->nmessages + 1, sizeof *order);
    for (int i = 0; i < sim->nmessages; i++) begin[sim->rounds[sim->messages[i].sender].level + 2]++;
    for (size_t l = 2; l <= nlevels; l++) begin[l] += begin[l - 1];
    for (int i = 0; i < sim->nmessages; i++) order[begin[sim->rounds[sim->messages[i].sender].level + 1]++] = i;
    int *next = mt_calloc((size_t)sim->n, sizeof *next);
    for (int p = 0; p < sim->n; p++) next[p] = sim->first[p];
    for (int k = 0; k < sim->nrounds; k++) {
        const struct round *r = &sim->rounds[k];
        t.own_s[k] = fmax(r->send_latency_s, r->recv_latency_s) + fmax(fmax(r->send_s, r->recv_s), r->shared_s);
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
    free(begin);
    free(order);
    free(next);
    return total_s;
}

double mt_cost_schedule_s(const struct mt_costs *costs, const struct mt_coll *problem, const int *group,
                          const struct mt_coll_algorithm *algorithm) {
    struct sim sim = {.costs = costs, .group = group, .n = problem->n};
    size_t n = (size_t)problem->n;
    struct mt_schedule *schedules = mt_calloc(n, sizeof *schedules);
    sim.first = mt_calloc(n + 1, sizeof *sim.first);
    for (int p = 0; p < sim.n; p++) {
        struct mt_coll own = *problem;
        own.me = p;
        algorithm->schedule(&own, &schedules[p]);
        sim.first[p + 1] = sim.first[p] + schedules[p].nrounds;
    }
    sim.nrounds = sim.first[n];
    sim.rounds = mt_calloc((size_t)sim.nrounds + 1, sizeof *sim.rounds);
    match_messages(&sim, schedules, mt_type_size(problem->wire));
    for (int p = 0; p < sim.n; p++) mt_schedule_release(&schedules[p]);
    number_levels(&sim);
    struct node_load *nodes = mt_calloc((size_t)sim.nlevels * (size_t)costs->cluster->nnodes + 1, sizeof *nodes);
    for (int i = 0; i < sim.nmessages; i++) add_load(&sim, nodes, i);
    for (int i = 0; i < sim.nmessages; i++) add_shared(&sim, nodes, &sim.messages[i]);
    double total_s = total_time(&sim);
    free(nodes);
    free(sim.messages);
    free(sim.rounds);
    free(sim.first);
    free(schedules);
    return total_s;
}
