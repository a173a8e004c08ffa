/* Agreement on failure, on every set of failing ranks; a collective that a rank does not come to.
 * ranks: 1 2 3 */
#include <mpi.h>

#include "launcher/session/agree.h"
#include "tests/check.h"

static int rank, n;

static void test_failures(void) {
    for (unsigned failing = 0; failing < 1u << n; failing++) {
        struct mt_err err = MT_ERR_INIT;
        enum mt_status mine = MT_OK, want = MT_OK;
        for (int r = n - 1; r >= 0; r--)
            if (failing >> r & 1) want = r ? MT_EINPUT : MT_ESYSTEM;
        if (failing >> rank & 1) {
            mine = mt_fail(&err, rank ? MT_EINPUT : MT_ESYSTEM, rank ? "no such file" : "no memory");
            mt_err_hint(&err, "do %d", rank);
        }
        CHECK_EQ(mt_agree(MPI_COMM_WORLD, mine, &err), want);
        if (!want || rank) {
            CHECK_TEXT(err.text, "");
            continue;
        }
        CHECK_EQ(!!strstr(err.text, "no memory"), failing & 1);
        char *first = strstr(err.text, "no such file");
        CHECK_EQ(!!first, !!(failing >> 1));
        if (first) CHECK(!strstr(first + 1, "no such file"), "reported twice: %s", err.text);
        if (failing == 6) CHECK(strstr(err.text, "ranks 1-2"), "%s", err.text);
        if (failing == 4) CHECK(strstr(err.text, "rank 2 on "), "%s", err.text);
        CHECK(err.hint[0], "the hint is lost");
    }
}

/* Ranks of a communicator that are named otherwise: here backwards, with a gap. */
static void test_names(void) {
    struct mt_err err = MT_ERR_INIT;
    MPI_Comm comm;
    int names[3];
    for (int r = 0; r < n; r++) names[r] = 2 * (n - r);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    CHECK_EQ(mt_agree_rank_name(comm, rank), rank);
    mt_agree_name_ranks(comm, names);
    for (int r = 0; r < n; r++) CHECK_EQ(mt_agree_rank_name(comm, r), 2 * (n - r));
    CHECK_EQ(mt_agree_rank_name(MPI_COMM_WORLD, rank), rank);
    enum mt_status mine = rank ? mt_fail(&err, MT_EINPUT, "no such file") : MT_OK;
    CHECK_EQ(mt_agree(comm, mine, &err), n > 1 ? MT_EINPUT : MT_OK);
    if (!rank && n == 3) CHECK(!strncmp(err.text, "ranks 2,4 on ", 13), "%s", err.text);
    if (!rank && n == 2) CHECK(!strncmp(err.text, "rank 2 on ", 10), "%s", err.text);
    enum mt_status st = mt_agree_same(comm, "the plan", rank == n - 1 ? "def" : "abc", &err);
    CHECK_EQ(st, n > 1 ? MT_EINPUT : MT_OK);
    if (!rank && n > 1) CHECK(strstr(err.text, "rank 2 on ") && strstr(err.text, "def"), "%s", err.text);
    MPI_Comm_free(&comm);
}

static void test_rank0(void) {
    struct mt_err err = MT_ERR_INIT;
    CHECK_EQ(mt_agree_rank0(MPI_COMM_WORLD, MT_OK, &err), MT_OK);
    enum mt_status mine = rank ? MT_OK : mt_fail(&err, MT_EINPUT, "only here");
    CHECK_EQ(mt_agree_rank0(MPI_COMM_WORLD, mine, &err), MT_EINPUT);
    CHECK_TEXT(err.text, rank ? "" : "only here");
}

static void test_same(void) {
    struct mt_err err = MT_ERR_INIT;
    CHECK_EQ(mt_agree_same(MPI_COMM_WORLD, "the plan", "abc", &err), MT_OK);
    if (n == 1) return;
    CHECK_EQ(mt_agree_same(MPI_COMM_WORLD, "the plan", rank == n - 1 ? "def" : "abc", &err), MT_EINPUT);
    if (rank)
        CHECK_TEXT(err.text, "");
    else
        CHECK(strstr(err.text, "the plan") && strstr(err.text, "abc") && strstr(err.text, "def"), "%s", err.text);
}

/* The last rank comes when the others have given up waiting. */
static void test_wait(void) {
    struct mt_err err = MT_ERR_INIT;
    MPI_Request request;
    int one = 1, sum = 0;
    bool late = n > 1 && rank == n - 1;
    for (int r = 0; late && r < n - 1; r++) MPI_Recv(NULL, 0, MPI_INT, r, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    enum mt_status st = mt_agree_wait(&request, late || n == 1 ? 60 : 0.1, &err);
    CHECK_EQ(st, late || n == 1 ? MT_OK : MT_ESTALL);
    if (st) {
        CHECK(strstr(err.text, "no answer from the other ranks for 0.1 s"), "%s", err.text);
        MPI_Send(NULL, 0, MPI_INT, n - 1, 0, MPI_COMM_WORLD);
        CHECK_EQ(mt_agree_wait(&request, 60, &err), MT_OK); /* it was not lost */
    }
    CHECK_EQ(sum, n);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    test_failures();
    test_names();
    test_rank0();
    test_same();
    test_wait();
    MPI_Finalize();
    return 0;
}
