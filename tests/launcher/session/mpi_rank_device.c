/* Which GPU a rank takes of those that it is shown, on hosts that are made up; and kinds of devices that do not mix.
 * ranks: 1 3 */
#include <string.h>

#include "launcher/flags/flags.h"
#include "launcher/session/rank_device.h"
#include "tests/check.h"

static int rank, nranks;

/* So many GPUs, the first of them number `first` of the host. */
static struct mt_gpus show(int first, int count) {
    struct mt_gpus gpus = {.count = count};
    for (int g = 0; g < count; g++) {
        snprintf(gpus.gpus[g].name, sizeof gpus.gpus[g].name, "NVIDIA Made Up");
        snprintf(gpus.gpus[g].address, sizeof gpus.gpus[g].address, "0000:%02x:00.0", first + g);
        memset(gpus.gpus[g].identity, first + g + 1, sizeof gpus.gpus[g].identity);
    }
    return gpus;
}

/* What this rank gets: an index, or the error. */
static enum mt_status take(struct mt_gpus gpus, int *index, struct mt_err *err) {
    *err = (struct mt_err)MT_ERR_INIT;
    return mt_rank_gpu(MPI_COMM_WORLD, &gpus, index, err);
}

static void test_places(void) {
    struct mt_err err;
    int index;
    CHECK_OK(take(show(0, nranks + 1), &index, &err), err); /* all see all: in order */
    CHECK_EQ(index, rank);
    CHECK_OK(take(show(rank, 1), &index, &err), err); /* each its own */
    CHECK_EQ(index, 0);
    CHECK_OK(take(show(2 * rank, 2), &index, &err), err); /* each two of its own */
    CHECK_EQ(index, 0);
    /* Two see the same two, the last another one. */
    bool last = nranks > 2 && rank == 2;
    CHECK_OK(take(last ? show(7, 1) : show(0, 2), &index, &err), err);
    CHECK_EQ(index, last ? 0 : rank);
}

static void test_refused(void) {
    struct mt_err err;
    int index;
    setenv("CUDA_VISIBLE_DEVICES", "5", 1);
    enum mt_status st = take(show(0, nranks - 1), &index, &err); /* one too few: the last gets none */
    unsetenv("CUDA_VISIBLE_DEVICES");
    CHECK_EQ(st, rank == nranks - 1 ? MT_EMISSING : MT_OK);
    if (st) {
        CHECK(strstr(err.text, "CUDA_VISIBLE_DEVICES is \"5\""), "%s", err.text);
        CHECK(strstr(err.text, nranks == 1 ? "1 rank of " : "3 ranks of "), "%s", err.text);
        CHECK(strstr(err.text, nranks == 1 ? " sees 0 GPUs" : " see 2 GPUs"), "%s", err.text);
        CHECK(err.hint[0]);
    }
    if (nranks < 3) return;
    st = take(rank == 2 ? show(1, 1) : show(0, 2), &index, &err); /* ranks 1 and 2 would meet at the second */
    CHECK_EQ(st, rank ? MT_EINPUT : MT_OK);
    if (st) CHECK(strstr(err.text, "NVIDIA Made Up at 0000:01:00.0"), "%s", err.text);
}

/* Ranks that will not open their GPU need no driver. */
static void test_idle(void) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_rank_device choice;
    struct mt_gpus gpus;
    if (!mt_gpus_query(&gpus, &err)) return; /* there are GPUs here */
    err = (struct mt_err)MT_ERR_INIT;
    CHECK_OK(mt_rank_device_choose(MPI_COMM_WORLD, "cuda", false, &choice, &err), err);
    CHECK_EQ(choice.gpus.count, 0);
    CHECK_EQ(mt_rank_device_choose(MPI_COMM_WORLD, "cuda", rank == nranks - 1, &choice, &err), MT_EMISSING);
    if (!rank && nranks == 3) CHECK(!strncmp(err.text, "rank 2 on ", 10), "%s", err.text);
    if (!rank) CHECK(strstr(err.text, "--device cuda"), "%s", err.text);
}

static void test_kinds(void) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_device *device = NULL;
    struct mt_comm *wire = NULL;
    const char *kind = NULL;
    CHECK_OK(mt_flag_device("cuda", &kind, &err), err);
    CHECK_EQ(mt_flag_device("gpu", &kind, &err), MT_EINPUT);
    err = (struct mt_err)MT_ERR_INIT;
    CHECK_OK(mt_rank_device_open(MPI_COMM_WORLD, "cpu", &device, &err), err);
    CHECK_OK(mt_rank_wire_open(MPI_COMM_WORLD, "cpu", 10, &wire, &err), err);
    CHECK(wire->nranks == nranks && wire->rank == rank);
    mt_comm_free(wire);
    mt_device_close(device);
    if (nranks == 1) return;
    CHECK_EQ(mt_rank_device_open(MPI_COMM_WORLD, rank == 1 ? "cuda" : "cpu", &device, &err), MT_EINPUT);
    if (rank) return;
    CHECK(strstr(err.text, "rank 1 on ") && strstr(err.text, " has cuda"), "%s", err.text);
    CHECK(strstr(err.hint, "--device"), "%s", err.hint);
}

int main(int argc, char **argv) {
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    test_places();
    test_refused();
    test_idle();
    test_kinds();
    MPI_Finalize();
    return 0;
}
