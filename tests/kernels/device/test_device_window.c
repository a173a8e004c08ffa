/* Windows on devices, as far as a host without a GPU has them: on a CPU they are the host's, and threads put into them;
 * a part out of reach is refused, by the ranks' names. */
#include <string.h>

#include "kernels/comm/comm.h"
#include "kernels/device/window.h"
#include "tests/check.h"

static void test_host(void) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_device *device;
    struct mt_comm *comm;
    struct mt_window *window;
    const int ranks[1] = {0};
    char have[16];
    CHECK_OK(mt_device_open("cpu", &device, &err), err);
    mt_comm_local_new(1, &comm);
    CHECK_OK(mt_device_window_new(device, comm, 4096, 10, &window, &err), err);
    CHECK_EQ(mt_window_size_bytes(window), 4096);
    CHECK(!mt_device_window_part(window, 0), "a part elsewhere");
    CHECK(mt_device_window_ptr(window, 64, 0) == mt_window_ptr(window, 64, 0));
    CHECK_OK(mt_device_window_reaches(window, ranks, 1, NULL, &err), err);
    CHECK_OK(mt_window_put(window, 64, "fifteen letters", sizeof have, 0, &err), err);
    memcpy(have, mt_device_window_ptr(window, 64, 0), sizeof have);
    CHECK(!strcmp(have, "fifteen letters"));
    mt_window_free(window);
    mt_comm_free(comm);
    mt_device_close(device);
}

static int released;

static void release(struct mt_window *window, struct mt_window_memory *memory) {
    (void)window, (void)memory;
    released++;
}

static void test_reach(void) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_window *windows[3];
    static char memory[2][64];
    char *parts[3] = {memory[0], NULL, memory[1]};
    struct mt_window_memory attached = {.part = parts, .size_bytes = 64, .release = release};
    const int near[2] = {0, 2}, far[3] = {0, 1, 2}, names[3] = {7, 8, 9};
    mt_window_local_new(3, 8, 10, windows);
    mt_window_attach(windows[0], &attached);
    CHECK(mt_device_window_ptr(windows[0], 8, 2) == memory[1] + 8);
    CHECK(!mt_device_window_ptr(windows[0], 8, 1));
    CHECK_OK(mt_device_window_reaches(windows[0], near, 2, names, &err), err);
    CHECK_EQ(mt_device_window_reaches(windows[0], far, 3, names, &err), MT_EINPUT);
    CHECK(strstr(err.text, "rank 7 cannot reach the memory of rank 8") && strstr(err.hint, "--overlap none"), "%s, %s",
          err.text, err.hint);
    /* Ranks that do not exist: with memory elsewhere, and with the host's own. */
    const int beyond[2][2] = {{0, 3}, {-1, 0}};
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(mt_device_window_has(windows[i / 2], beyond[i % 2], 2, names, &err), MT_EINPUT);
        err = (struct mt_err)MT_ERR_INIT;
        CHECK_EQ(mt_device_window_reaches(windows[i / 2], beyond[i % 2], 2, names, &err), MT_EINPUT);
        CHECK(strstr(err.text,
                     i % 2 ? "memory of rank -1, but there are 3 ranks" : "memory of rank 3, but there are 3 ranks") &&
                  strstr(err.hint, "start as many ranks"),
              "%s, %s", err.text, err.hint);
    }
    for (int r = 0; r < 3; r++) mt_window_free(windows[r]);
    CHECK_EQ(released, 1);
}

int main(void) {
    test_host();
    test_reach();
    return 0;
}
