/* A signal to any rank reaches all of them within two steps, and once.
 * ranks: 1 2 3 */
#include <signal.h>

#include "launcher/session/requests.h"
#include "launcher/watch/signals.h"
#include "tests/check.h"

static struct mt_requests requests;

static int step(void) {
    struct mt_err err = MT_ERR_INIT;
    int answer;
    CHECK(!mt_requests_step(&requests, 60, &answer, &err), "%s", err.text);
    return answer;
}

static int end(void) {
    struct mt_err err = MT_ERR_INIT;
    int answer;
    CHECK(!mt_requests_end(&requests, 60, &answer, &err), "%s", err.text);
    return answer;
}

/* The last rank is idle and takes no steps: what it is asked reaches the others, and once. */
static void test_idle(int rank, int n) {
    if (n < 2) return;
    bool idle = rank == n - 1;
    MPI_Comm comm;
    MPI_Comm_split(MPI_COMM_WORLD, idle ? MPI_UNDEFINED : 0, rank, &comm);
    if (!idle) mt_requests_init(&requests, comm);
    if (!rank) requests.idle = MPI_COMM_WORLD;
    static const int asked[][2] = {/* of the idle rank, of rank 0: before the same step, or one step later */
                                   {SIGUSR1, 0},
                                   {SIGUSR2, 0},
                                   {SIGTERM, 0},
                                   {SIGUSR1, SIGUSR1}};
    for (size_t c = 0; c < 2 * (sizeof asked / sizeof *asked); c++) {
        int to_idle = asked[c / 2][0], to_first = asked[c / 2][1], answers[5], checkpoints = 0, stops = 0;
        bool first_is_early = c % 2;
        requests.echo_until_s = requests.known_until_s = 0;
        if (idle) {
            raise(to_idle);
            mt_requests_pass_on(MPI_COMM_WORLD, 0);
        }
        if (!rank && to_first && first_is_early) raise(to_first);
        MPI_Barrier(MPI_COMM_WORLD); /* what was sent before is there */
        for (int s = 0; s < 5 && !idle; s++) {
            if (!rank && to_first && !first_is_early && s == 1) raise(to_first);
            answers[s] = step();
            checkpoints += !!(answers[s] & MT_REQUEST_CHECKPOINT);
            stops += !!(answers[s] & MT_REQUEST_STOP);
        }
        MPI_Barrier(MPI_COMM_WORLD); /* the next request comes after these steps */
        if (idle) continue;
        CHECK_EQ(checkpoints, to_idle == SIGUSR1);
        CHECK_EQ(stops, to_idle != SIGUSR1);
    }
    if (!idle) {
        CHECK_EQ(end(), 0);
        MPI_Comm_free(&comm);
    }
}

int main(int argc, char **argv) {
    int rank, n;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    mt_signals_install();
    mt_requests_init(&requests, MPI_COMM_WORLD);
    static const struct {
        int number, means;
    } cases[] = {{SIGUSR1, MT_REQUEST_CHECKPOINT}, {SIGUSR2, MT_REQUEST_STOP}, {SIGTERM, MT_REQUEST_STOP}};
    for (int c = 0; c < 3; c++)
        for (int to = 0; to < n; to++) {
            int answers[4];
            requests.echo_until_s = 0; /* what comes is no echo of the request before */
            if (rank == to) raise(cases[c].number);
            for (int s = 0; s < 4; s++) answers[s] = step();
            CHECK_EQ(answers[0], 0);
            CHECK_EQ(answers[1], cases[c].means);
            CHECK_EQ(answers[2], 0);
            CHECK_EQ(answers[3], 0);
        }
    if (rank == n - 1) {
        raise(SIGUSR1);
        raise(SIGTERM);
    }
    CHECK_EQ(step(), 0);
    CHECK_EQ(end(), MT_REQUEST_CHECKPOINT | MT_REQUEST_STOP);
    CHECK_EQ(end(), 0);
    test_idle(rank, n);
    mt_signals_restore();
    struct sigaction action;
    CHECK(!sigaction(SIGTERM, NULL, &action) && action.sa_handler == SIG_DFL);
    MPI_Finalize();
    return 0;
}
