/* A trace of all ranks is one JSON array with every event, on one clock.
 * ranks: 1 3 */
#include <mpi.h>
#include <stdlib.h>
#include <unistd.h>

#include "kernels/base/text/json.h"
#include "kernels/device/device.h"
#include "launcher/run/trace.h"
#include "tests/check.h"

static const char *const streams[] = {"compute", "communication"};

static void check_file(const char *path, int n) {
    struct mt_json_doc doc;
    struct mt_err err = MT_ERR_INIT;
    int count, events = 0;
    double at[8][4];
    CHECK_OK(mt_json_load(path, &doc, &err), err);
    CHECK_OK(mt_json_length(doc.root, 1000, &count, &err), err);
    CHECK_EQ(count, n * (3 + 4));
    for (int i = 0; i < count; i++) {
        struct mt_json item;
        const char *ph, *name;
        int64_t rank, stream;
        double us;
        CHECK_OK(mt_json_item(doc.root, i, &item, &err), err);
        CHECK_OK(mt_json_string(item, "ph", &ph, &err), err);
        if (strcmp(ph, "X")) continue;
        CHECK_OK(mt_json_string(item, "name", &name, &err), err);
        CHECK_OK(mt_json_int(item, "pid", 0, n - 1, &rank, &err), err);
        CHECK_OK(mt_json_int(item, "tid", 0, 1, &stream, &err), err);
        CHECK_OK(mt_json_real(item, "ts", 0, 1e9, &at[rank][events % 4], &err), err);
        CHECK_OK(mt_json_real(item, "dur", 0, 1e9, &us, &err), err);
        CHECK_NEAR(us, 1000 * (events % 4 + 1), 0.002);
        CHECK_EQ(stream, events % 2);
        CHECK_TEXT(name, "matmul \"x\"");
        events++;
    }
    CHECK_EQ(events, 4 * n);
    /* Event 0 of each rank starts as all leave a barrier: half a second would be a wrong clock, not a slow machine. */
    for (int r = 1; r < n; r++) CHECK_NEAR(at[r][0], at[0][0], 5e5);
    for (int r = 0; r < n; r++) CHECK_NEAR(at[r][3] - at[r][0], 3e6, 0.01);
    mt_json_release(&doc);
}

int main(int argc, char **argv) {
    int rank, n;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    double lag_s = 1000 * rank, clock_s = mt_trace_clock(MPI_COMM_WORLD) - lag_s; /* as if clocks were far apart */
    struct mt_trace_event events[4];
    MPI_Barrier(MPI_COMM_WORLD);
    double now_s = mt_now_s() + lag_s;
    for (int i = 0; i < 4; i++)
        events[i] = (struct mt_trace_event){"matmul \"x\"", i % 2, 1, now_s + i, now_s + i + 1e-3 * (i + 1)};
    char path[] = "motley-trace-XXXXXX";
    if (!rank) CHECK(mkstemp(path) >= 0);
    struct mt_err err = MT_ERR_INIT;
    const struct mt_trace_mine mine = {streams, 2, events, 4, clock_s};
    CHECK_OK(mt_trace_write(MPI_COMM_WORLD, path, &mine, NULL, &err), err);
    if (!rank) {
        check_file(path, n);
        unlink(path);
    }
    CHECK_EQ(mt_trace_write(MPI_COMM_WORLD, "nonexistent/trace", &mine, NULL, &err), MT_EINPUT);
    MPI_Finalize();
    return 0;
}
