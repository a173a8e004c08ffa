/* Windows on made-up devices whose memory other processes can map. Each rank has its own part and those of its peers.
 * Where one rank cannot map a part, every rank keeps its own alone, and forgets what it has mapped. ranks: 3 */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/comm/comm.h"
#include "kernels/device/class.h"
#include "kernels/device/window.h"
#include "tests/check.h"

static int rank, nranks, forgotten, blind = -1, apart = -1; /* blind: the rank that cannot map others' memory */
static int closed = -1;                                     /* the rank whose device does not export its memory */
static char mapped[8];

static enum mt_status give(struct mt_device *device, int64_t size_bytes, void **memory, struct mt_err *err) {
    (void)device, (void)err;
    *memory = malloc((size_t)size_bytes);
    return MT_OK;
}

static void take_back(struct mt_device *device, void *memory) {
    (void)device;
    free(memory);
}

static enum mt_status copy_in(struct mt_device *device, void *to, const void *from, int64_t size_bytes,
                              struct mt_err *err) {
    (void)device, (void)err;
    memcpy(to, from, (size_t)size_bytes);
    return MT_OK;
}

static enum mt_status tell(struct mt_device *device, void *memory, void *handle, struct mt_err *err) {
    (void)device, (void)memory;
    if (rank == closed) return mt_fail(err, MT_ESYSTEM, "no handles");
    memset(handle, rank + 1, MT_DEVICE_HANDLE_BYTES);
    return MT_OK;
}

static enum mt_status map(struct mt_device *device, const void *handle, void **memory, struct mt_err *err) {
    int owner = ((const char *)handle)[MT_DEVICE_HANDLE_BYTES - 1] - 1;
    (void)device;
    if (rank == blind && owner == 2) return mt_fail(err, MT_ESYSTEM, "no access");
    *memory = &mapped[owner];
    return MT_OK;
}

/* Rank 1 cannot add in the memory of rank `apart`'s device. */
static bool adds_to(struct mt_device *device, const void *memory) {
    (void)device;
    return rank != 1 || apart < 0 || memory != &mapped[apart];
}

static void forget(struct mt_device *device, void *memory) {
    (void)device;
    CHECK(memory >= (void *)mapped && memory < (void *)(mapped + nranks));
    forgotten++;
}

static const struct mt_device_class class = {.kind = "pretended",
                                             .alloc = give,
                                             .free = take_back,
                                             .copy_in = copy_in,
                                             .export_memory = tell,
                                             .import_memory = map,
                                             .forget = forget,
                                             .adds_to = adds_to};

/* All ranks know that one lacks atomic additions to another's part. */
static void test_atomics(struct mt_comm *comm) {
    struct mt_device device = {.class = &class, .description = "a pretended device"};
    struct mt_err err = MT_ERR_INIT;
    struct mt_window *window;
    blind = -1;
    for (apart = -1; apart < nranks; apart++) {
        CHECK_OK(mt_device_window_new(&device, comm, 4096, 10, &window, &err), err);
        CHECK_EQ(mt_window_attached(window)->lacks_atomics, apart >= 0 && apart != 1);
        mt_window_free(window);
    }
    apart = -1;
}

static void test_window(struct mt_comm *comm, int unable) {
    struct mt_device device = {.class = &class, .description = "a pretended device"};
    struct mt_err err = MT_ERR_INIT;
    struct mt_window *window;
    const int all[] = {0, 1, 2};
    blind = unable, forgotten = 0;
    CHECK_OK(mt_device_window_new(&device, comm, 4096, 10, &window, &err), err);
    for (int r = 0; r < nranks; r++) {
        char *part = mt_device_window_part(window, r);
        CHECK(r == rank ? part && part[4095] == 0 : part == (unable < 0 ? &mapped[r] : NULL), "rank %d has %p of %d",
              rank, (void *)part, r);
    }
    CHECK_EQ(mt_device_window_reaches(window, all, nranks, NULL, &err), unable < 0 ? MT_OK : MT_EINPUT);
    err = (struct mt_err)MT_ERR_INIT;
    int before = forgotten;
    CHECK_EQ(before, unable < 0 ? 0 : rank == unable ? 1 : nranks - 1); /* it has mapped one before it fails */
    CHECK_OK(mt_window_barrier(window, &err), err);
    mt_window_free(window);
    CHECK_EQ(forgotten - before, unable < 0 ? nranks - 1 : 0);
}

/* Memory that is not exported is out of the others' reach; no rank fails. */
static void test_closed(struct mt_comm *comm) {
    struct mt_device device = {.class = &class, .description = "a pretended device"};
    struct mt_err err = MT_ERR_INIT;
    struct mt_window *window;
    blind = -1;
    for (closed = 0; closed < nranks; closed++) {
        CHECK_OK(mt_device_window_new(&device, comm, 4096, 10, &window, &err), err);
        for (int r = 0; r < nranks; r++) CHECK_EQ(mt_device_window_part(window, r) != NULL, r == rank);
        CHECK_OK(mt_window_barrier(window, &err), err);
        mt_window_free(window);
    }
    closed = -1;
}

int main(int argc, char **argv) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_comm *comm;
    MPI_Comm all = MPI_COMM_WORLD;
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
    MPI_Comm_rank(all, &rank);
    MPI_Comm_size(all, &nranks);
    CHECK_EQ(nranks, 3);
    CHECK_OK(mt_comm_mpi_new(&all, &comm, &err), err);
    test_window(comm, -1);
    test_window(comm, 0);
    test_window(comm, 1);
    test_atomics(comm);
    test_closed(comm);
    mt_comm_free(comm);
    MPI_Finalize();
    return 0;
}
