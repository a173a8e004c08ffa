/* Agreement on failure, on every set of failing ranks.
 * ranks: 1 2 3 */
#include <mpi.h>

#include "launcher/agree.h"
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
        if (first) CHECK(!strstr(first + 1, "no such file"), "told twice: %s", err.text);
        if (failing == 6) CHECK(strstr(err.text, "ranks 1-2"), "%s", err.text);
        if (failing == 4) CHECK(strstr(err.text, "rank 2 on "), "%s", err.text);
        CHECK(err.hint[0], "the hint is lost");
    }
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

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    test_failures();
    test_rank0();
    test_same();
    MPI_Finalize();
    return 0;
}
