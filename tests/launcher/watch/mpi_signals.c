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
    mt_signals_restore();
    struct sigaction action;
    CHECK(!sigaction(SIGTERM, NULL, &action) && action.sa_handler == SIG_DFL);
    MPI_Finalize();
    return 0;
}
