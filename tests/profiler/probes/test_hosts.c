/* What nodes send and receive, on 10 nodes of which two are slow, in two blocks that measure at the same time. The wire
 * moves nothing: it sleeps for as long as the messages would take by the rates of this test, so that a figure may only
 * be too low, by what the machine is busy with. */
#include "kernels/base/log.h"
#include "kernels/base/wait.h"
#include "profiler/probes/internal.h"
#include "tests/check.h"
#include "tests/profiler/threads.h"

enum { NRANKS = 14, NNODES = 10, SLOW_SENDER = 3, SLOW_RECEIVER = 8 };
static const int node_of[NRANKS] = {0, 0, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 8, 9};
static const double usual_Bps = 100e6, slow_Bps = 10e6;

static double rate_of(int node, bool egress) {
    return node == (egress ? SLOW_SENDER : SLOW_RECEIVER) ? slow_Bps : usual_Bps;
}

/* Until a receiver has all of its messages: what its node receives, or the node of one of its senders sends, at that
 * node's rate. */
static double seconds_of(const struct mt_coll *problem, const int *group, int me) {
    double sent[NNODES] = {0}, received[NNODES] = {0}, last_s = 0;
    for (int i = 0; i < problem->n * problem->n; i++) {
        double bytes = 4.0 * (double)problem->counts[i];
        sent[node_of[group[i / problem->n]]] += bytes;
        received[node_of[group[i % problem->n]]] += bytes;
    }
    int mine = node_of[group[me]];
    for (int i = 0; i < problem->n; i++) {
        int from = node_of[group[i]];
        if (!problem->counts[i * problem->n + me]) continue;
        last_s = fmax(last_s, sent[from] / rate_of(from, true));
        last_s = fmax(last_s, received[mine] / rate_of(mine, false));
    }
    return last_s;
}

static enum mt_status run_slowly(struct mt_comm *comm, const struct mt_coll *problem,
                                 const struct mt_schedule *schedule, const int *group, void *const buffer[2], int tag,
                                 double deadline_s, struct mt_err *err) {
    (void)comm, (void)schedule, (void)buffer, (void)tag, (void)deadline_s, (void)err;
    for (int i = 0; i < problem->n; i++) /* within its own block, and never within a node */
        for (int j = 0; j < problem->n; j++)
            CHECK(!problem->counts[i * problem->n + j] || node_of[group[i]] != node_of[group[j]], "%d to %d", i, j);
    mt_sleep_s(seconds_of(problem, group, problem->me));
    return MT_OK;
}

static const struct mt_comm_class slow_class = {.name = "slow", .run = run_slowly};

static void measure(struct mt_comm *comm) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_comm wire = {.class = &slow_class, .rank = comm->rank, .nranks = NRANKS};
    struct mt_profile p = {.comm = comm, .wire = &wire, .rank = comm->rank, .nranks = NRANKS, .nnodes = NNODES};
    struct mt_interval usual = {usual_Bps, usual_Bps, usual_Bps};
    struct mt_pair_times pairs[2] = {{.a = 0, .b = 2, .between = true, .bandwidth = usual, .reverse = usual},
                                     {.a = 1, .b = 13, .between = true, .bandwidth = usual, .reverse = usual}};
    p.deadline_s = 300, p.pairs = pairs, p.npairs = 2;
    p.exchange = mt_exchange_new(comm, p.deadline_s);
    p.places = mt_new(&p.arena, struct mt_place, NRANKS);
    for (int r = 0; r < NRANKS; r++) p.places[r].node = node_of[r];
    CHECK_OK(mt_device_open("cpu", &p.device, &err), err);
    CHECK_OK(mt_probe_hosts(&p, 1, &err), err);
    for (int n = 0; n < NNODES; n++) {
        /* A tenth is slow; what is not is at least a sixth on a machine that is busy with other tests. */
        double least = n == SLOW_SENDER ? slow_Bps / 6 : usual_Bps / 6;
        CHECK(p.egress_Bps[n] > least && p.egress_Bps[n] < 1.05 * rate_of(n, true), "node %d sends %g", n,
              p.egress_Bps[n]);
        least = n == SLOW_RECEIVER ? slow_Bps / 6 : usual_Bps / 6;
        CHECK(p.ingress_Bps[n] > least && p.ingress_Bps[n] < 1.05 * rate_of(n, false), "node %d receives %g", n,
              p.ingress_Bps[n]);
    }
    mt_device_close(p.device);
    mt_exchange_free(p.exchange);
    mt_arena_release(&p.arena);
}

int main(void) {
    mt_log_level(MT_LOG_WARN);
    run_ranks(NRANKS, measure);
    return 0;
}
