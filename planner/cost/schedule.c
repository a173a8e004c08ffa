/* Schedules of all ranks of a group, played over the paths between them.
 *
 * Messages between two ranks match in order, so each joins a round of its sender with a round of its receiver. Rounds
 * are numbered by *levels*: a rank's rounds rise, and rounds that a message joins are of one level; the least such
 * numbering is found by raising levels until all agree. What a node's pairs share is divided within a level. Cost:
 * steps of all ranks, times a few passes. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "planner/cost/internal.h"

struct message {
    int from, to;         /* places in the group */
    int sender, receiver; /* rounds */
    int64_t bytes;
};

/* One rank's one round. */
struct round {
    int level;
    double send_latency_s, recv_latency_s, send_s, recv_s, shared_s;
};

/* What a node's pairs carry at one level, as seconds of what they share. */
struct node_load {
    double out_s, in_s, inside_s;
};

struct play {
    const struct mt_costs *costs;
    const int *group;
    int n, nrounds, nlevels;
    int *first; /* [n + 1]: rank p's rounds are rounds[first[p] .. first[p + 1]) */
    struct round *rounds;
    struct message *messages;
    int nmessages;
};

static int device_at(const struct play *play, int place) {
    return play->costs->device[play->group[place]];
}

/* ---- matching ---- */

static bool hears(const struct mt_step *step) {
    return step->kind == MT_STEP_RECV || step->kind == MT_STEP_REDUCE;
}

/* Visit the steps that send (or hear): calls take(play, next, place, round, step). */
typedef void visit(struct play *play, int *next, int place, int round, const struct mt_step *step);
static void visit_steps(struct play *play, const struct mt_schedule *schedules, bool send, int *next, visit *take) {
    for (int p = 0; p < play->n; p++)
        for (int k = 0, s = 0; k < schedules[p].nrounds; k++)
            for (; s < schedules[p].round_end[k]; s++) {
                const struct mt_step *step = &schedules[p].steps[s];
                if (send ? step->kind == MT_STEP_SEND : hears(step)) take(play, next, p, play->first[p] + k, step);
            }
}

static void count_message(struct play *play, int *next, int place, int round, const struct mt_step *step) {
    (void)round;
    next[place * play->n + step->peer + 1]++;
}

static void add_message(struct play *play, int *next, int place, int round, const struct mt_step *step) {
    play->messages[next[place * play->n + step->peer]++] =
        (struct message){.from = place, .to = step->peer, .sender = round, .receiver = -1, .bytes = step->count};
}

static void match_message(struct play *play, int *next, int place, int round, const struct mt_step *step) {
    struct message *message = &play->messages[next[step->peer * play->n + place]++];
    assert(message->from == step->peer && message->to == place && message->bytes == step->count);
    message->receiver = round;
}

/* Messages in order of sender, receiver, and their turn. */
static void match_messages(struct play *play, const struct mt_schedule *schedules, int64_t element_bytes) {
    size_t npairs = (size_t)play->n * (size_t)play->n;
    int *begin = mt_calloc(npairs + 1, sizeof *begin), *next = mt_calloc(npairs + 1, sizeof *next);
    visit_steps(play, schedules, true, begin, count_message);
    for (size_t i = 0; i < npairs; i++) begin[i + 1] += begin[i];
    play->nmessages = begin[npairs];
    play->messages = mt_calloc((size_t)play->nmessages, sizeof *play->messages);
    for (size_t i = 0; i < npairs; i++) next[i] = begin[i];
    visit_steps(play, schedules, true, next, add_message);
    for (size_t i = 0; i < npairs; i++) next[i] = begin[i];
    visit_steps(play, schedules, false, next, match_message);
    for (int i = 0; i < play->nmessages; i++) {
        assert(play->messages[i].receiver >= 0);
        play->messages[i].bytes *= element_bytes;
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

static void number_levels(struct play *play) {
    bool changed = true;
    for (int pass = 0; changed; pass++) {
        assert(pass <= play->nrounds + 1 && "rounds that wait for each other in a circle");
        changed = false;
        for (int p = 0; p < play->n; p++)
            for (int k = play->first[p] + 1; k < play->first[p + 1]; k++)
                changed |= raise_level(&play->rounds[k].level, play->rounds[k - 1].level + 1);
        for (int i = 0; i < play->nmessages; i++) {
            int *sender = &play->rounds[play->messages[i].sender].level;
            int *receiver = &play->rounds[play->messages[i].receiver].level;
            changed |= raise_level(sender, *receiver);
            changed |= raise_level(receiver, *sender);
        }
    }
    for (int k = 0; k < play->nrounds; k++)
        if (play->rounds[k].level >= play->nlevels) play->nlevels = play->rounds[k].level + 1;
}

/* ---- time ---- */

/* What a message adds to the rounds and nodes that it joins. Several messages to one peer in a round wait once. */
static void add_load(struct play *play, struct node_load *nodes, int i) {
    const struct message *m = &play->messages[i];
    const struct mt_cluster *cluster = play->costs->cluster;
    struct mt_path path = mt_cluster_path(cluster, device_at(play, m->from), device_at(play, m->to));
    struct round *sender = &play->rounds[m->sender], *receiver = &play->rounds[m->receiver];
    const struct message *before = i ? m - 1 : NULL;
    bool again = before && before->from == m->from && before->to == m->to;
    if (!again || before->sender != m->sender) sender->send_latency_s += path.latency_s;
    if (!again || before->receiver != m->receiver) receiver->recv_latency_s += path.latency_s;
    double bytes = (double)m->bytes;
    sender->send_s += bytes / path.bandwidth_Bps;
    receiver->recv_s += bytes / path.bandwidth_Bps;
    double shared_Bps = path.link >= 0 ? cluster->links[path.link].shared_Bps : 0;
    if (shared_Bps <= 0) return;
    int from = cluster->devices[device_at(play, m->from)].node, to = cluster->devices[device_at(play, m->to)].node;
    struct node_load *level = nodes + (size_t)sender->level * (size_t)cluster->nnodes;
    if (from == to) {
        level[from].inside_s += bytes / shared_Bps;
    } else {
        level[from].out_s += bytes / shared_Bps;
        level[to].in_s += bytes / shared_Bps;
    }
}

/* A round is at least as long as what its messages share with others of their nodes. */
static void add_shared(struct play *play, const struct node_load *nodes, const struct message *m) {
    const struct mt_cluster *cluster = play->costs->cluster;
    struct round *sender = &play->rounds[m->sender], *receiver = &play->rounds[m->receiver];
    const struct node_load *level = nodes + (size_t)sender->level * (size_t)cluster->nnodes;
    int from = cluster->devices[device_at(play, m->from)].node, to = cluster->devices[device_at(play, m->to)].node;
    double shared_s = from == to ? level[from].inside_s : fmax(level[from].out_s, level[to].in_s);
    sender->shared_s = fmax(sender->shared_s, shared_s);
    receiver->shared_s = fmax(receiver->shared_s, shared_s);
}

/* A round starts when its rank's last one has ended, and ends when its own work is done, and that of those that it
 * exchanges messages with. */
struct times {
    double *own_s, *start_s, *end_s; /* [nrounds] */
};

static void take_partner(struct times *t, int round, int partner) {
    double s = t->start_s[partner] + fmax(t->own_s[partner], t->own_s[round]);
    if (s > t->end_s[round]) t->end_s[round] = s;
}

/* Level by level; messages are put in order of their level by counting. */
static double total_time(const struct play *play) {
    size_t nrounds = (size_t)play->nrounds + 1, nlevels = (size_t)play->nlevels + 1;
    double *times = mt_calloc(3 * nrounds, sizeof *times), total_s = 0;
    struct times t = {times, times + nrounds, times + 2 * nrounds};
    int *begin = mt_calloc(nlevels + 1, sizeof *begin), *order = mt_calloc((size_t)play->nmessages + 1, sizeof *order);
    for (int i = 0; i < play->nmessages; i++) begin[play->rounds[play->messages[i].sender].level + 2]++;
    for (size_t l = 2; l <= nlevels; l++) begin[l] += begin[l - 1];
    for (int i = 0; i < play->nmessages; i++) order[begin[play->rounds[play->messages[i].sender].level + 1]++] = i;
    int *next = mt_calloc((size_t)play->n, sizeof *next);
    for (int p = 0; p < play->n; p++) next[p] = play->first[p];
    for (int k = 0; k < play->nrounds; k++) {
        const struct round *r = &play->rounds[k];
        t.own_s[k] = fmax(r->send_latency_s, r->recv_latency_s) + fmax(fmax(r->send_s, r->recv_s), r->shared_s);
    }
    for (int l = 0; l < play->nlevels; l++) {
        for (int p = 0; p < play->n; p++) {
            int k = next[p];
            if (k == play->first[p + 1] || play->rounds[k].level != l) continue;
            t.start_s[k] = k > play->first[p] ? t.end_s[k - 1] : 0;
            t.end_s[k] = t.start_s[k] + t.own_s[k];
            next[p]++;
        }
        for (int i = begin[l]; i < begin[l + 1]; i++) {
            const struct message *m = &play->messages[order[i]];
            take_partner(&t, m->receiver, m->sender);
            take_partner(&t, m->sender, m->receiver);
        }
    }
    for (int k = 0; k < play->nrounds; k++) total_s = fmax(total_s, t.end_s[k]);
    free(times);
    free(begin);
    free(order);
    free(next);
    return total_s;
}

double mt_cost_schedule_s(const struct mt_costs *costs, const struct mt_coll *problem, const int *group,
                          const struct mt_coll_algorithm *algorithm) {
    struct play play = {.costs = costs, .group = group, .n = problem->n};
    size_t n = (size_t)problem->n;
    struct mt_schedule *schedules = mt_calloc(n, sizeof *schedules);
    play.first = mt_calloc(n + 1, sizeof *play.first);
    for (int p = 0; p < play.n; p++) {
        struct mt_coll own = *problem;
        own.me = p;
        algorithm->schedule(&own, &schedules[p]);
        play.first[p + 1] = play.first[p] + schedules[p].nrounds;
    }
    play.nrounds = play.first[n];
    play.rounds = mt_calloc((size_t)play.nrounds + 1, sizeof *play.rounds);
    match_messages(&play, schedules, mt_type_size(problem->wire));
    for (int p = 0; p < play.n; p++) mt_schedule_release(&schedules[p]);
    number_levels(&play);
    struct node_load *nodes = mt_calloc((size_t)play.nlevels * (size_t)costs->cluster->nnodes + 1, sizeof *nodes);
    for (int i = 0; i < play.nmessages; i++) add_load(&play, nodes, i);
    for (int i = 0; i < play.nmessages; i++) add_shared(&play, nodes, &play.messages[i]);
    double total_s = total_time(&play);
    free(nodes);
    free(play.messages);
    free(play.rounds);
    free(play.first);
    free(schedules);
    return total_s;
}
