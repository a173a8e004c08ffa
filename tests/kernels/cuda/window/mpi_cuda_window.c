/* One-sided access between two GPUs, or two processes that share one: each primitive of window.cuh by a thread, a warp
 * and a block (primitives.cu, compiled here), over many epochs with the data looked at after each wait; waits that end
 * by the deadline and by the abort word; and what is queued on streams. ranks: 2 */
#include <mpi.h>

#include "kernels/comm/comm.h"
#include "kernels/device/facts.h"
#include "tests/kernels/cuda/device/shared.h"
#include "tests/kernels/cuda/jit/nvrtc.h"
#include "tests/kernels/device/stream_trials.h"

static const uint64_t seed = 20261129;
static const double deadline_s = 60;

static struct mt_device *device;
static struct mt_comm *comm;
static int rank;

/* ---- kernels ---- */

static struct {
    int (*load)(void **module, const void *image), (*unload)(void *module), (*sync)(void);
    int (*find)(void **kernel, void *module, const char *name);
    int (*launch)(void *kernel, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *stream,
                  void **arguments, void **extra);
} driver;

static void open_driver(void) {
    static const struct {
        void *place;
        const char *name;
    } symbols[] = {{&driver.load, "cuModuleLoadData"},
                   {&driver.unload, "cuModuleUnload"},
                   {&driver.sync, "cuCtxSynchronize"},
                   {&driver.find, "cuModuleGetFunction"},
                   {&driver.launch, "cuLaunchKernel"}};
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    CHECK(library, "%s", dlerror());
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *symbol = dlsym(library, symbols[i].name);
        CHECK(symbol, "%s", symbols[i].name);
        memcpy(symbols[i].place, &symbol, sizeof symbol);
    }
}

/* primitives.cu for one level, loaded. */
static void *load(const char *level) {
    char architecture[64], definition[64], *log;
    const char *options[] = {architecture, "--std=c++17", "-default-device", "-I" MOTLEY_SOURCE, definition};
    struct mt_device_facts facts;
    mt_device_facts(device, &facts);
    CHECK(knows(facts.capability), "NVRTC does not compile for compute capability %d", facts.capability);
    nvrtc_architecture(facts.capability, architecture);
    snprintf(definition, sizeof definition, "-DLEVEL=%s", level);
    char *prelude = nvrtc_read(MOTLEY_SOURCE "/kernels/cuda/jit/prelude.cuh");
    char *code = nvrtc_read(MOTLEY_SOURCE "/tests/kernels/cuda/window/primitives.cu");
    char *text = nvrtc_text(prelude, "primitives", code);
    size_t size;
    void *module;
    program made;
    CHECK_EQ(nvrtc.create(&made, text, "primitives.cu", 0, NULL, NULL), 0);
    int failed = nvrtc.compile(made, sizeof options / sizeof *options, options);
    CHECK_EQ(nvrtc.log_size(made, &size), 0);
    log = calloc(1, size + 1);
    CHECK_EQ(nvrtc.log(made, log), 0);
    CHECK(!failed, "%s", log);
    CHECK_EQ(nvrtc.binary_size(made, &size), 0);
    char *binary = malloc(size);
    CHECK_EQ(nvrtc.binary(made, binary), 0);
    CHECK_EQ(driver.load(&module, binary), 0);
    nvrtc.destroy(&made);
    free(binary), free(log), free(text), free(code), free(prelude);
    return module;
}

static void run(void *module, const char *name, unsigned threads, void **arguments) {
    void *kernel;
    CHECK_EQ(driver.find(&kernel, module, name), 0);
    CHECK_EQ(driver.launch(kernel, 1, 1, 1, threads, 1, 1, 0, NULL, arguments, NULL), 0);
    CHECK_EQ(driver.sync(), 0);
}

/* ---- each level ---- */

/* Words of a part: as in primitives.cu. */
enum { SET_AT, ABORTED_AT = 4, STALLED_AT, ERRORS_AT = STALLED_AT + 7, NERRORS = 8, PLACES_AT = 64, PLACES = 9 };

static void read_words(const char *part, uint64_t words[PLACES_AT]) {
    struct mt_err err = MT_ERR_INIT;
    CHECK_OK(mt_device_copy_out(device, words, part, PLACES_AT * 8, &err), err);
}

static void check_errors(const uint64_t words[PLACES_AT], const char *level) {
    static const char *const of[NERRORS] = {"data after a signal that is set",
                                            "data after an addition",
                                            "a signal that counts down",
                                            "a get",
                                            "puts with a fence between",
                                            "puts after quiet and a barrier",
                                            "test",
                                            "a wait"};
    for (int i = 0; i < NERRORS; i++)
        CHECK(!words[ERRORS_AT + i], "by a %s, rank %d: %s: %llu errors", level, rank, of[i],
              (unsigned long long)words[ERRORS_AT + i]);
}

/* A wait by its deadline, or as `aborted` has been set before. */
static void wait_in_vain(void *module, char *part, const char *level, uint64_t aborted) {
    uint64_t words[PLACES_AT] = {0}, deadline_ns = aborted ? (uint64_t)3600e9 : (uint64_t)50e6;
    struct mt_err err = MT_ERR_INIT;
    words[ABORTED_AT] = aborted;
    CHECK_OK(mt_device_copy_in(device, part, words, sizeof words, &err), err);
    run(module, "wait_in_vain", 64, (void *[]){&part, &deadline_ns});
    read_words(part, words);
    check_errors(words, level);
    CHECK_EQ(words[ABORTED_AT], 1);
    const uint64_t want[3] = {aborted ? 0 : (uint64_t)(uintptr_t)part + SET_AT * 8, 0, aborted ? 0 : 5};
    for (int i = 0; i < 3; i++)
        CHECK(words[STALLED_AT + i] == want[i], "stalled[%d] is %llu", i, (unsigned long long)words[STALLED_AT + i]);
}

static void test_level(const char *level, const char *name, unsigned threads, int64_t bytes, int64_t epochs) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_window *window;
    uint64_t words[PLACES_AT], deadline_ns = (uint64_t)(1e9 * deadline_s);
    void *module = load(level);
    CHECK_OK(mt_device_window_new(device, comm, PLACES_AT * 8 + PLACES * bytes, deadline_s, &window, &err), err);
    char *mine = mt_device_window_part(window, rank), *peer = mt_device_window_part(window, !rank);
    MPI_Barrier(MPI_COMM_WORLD);
    run(module, "primitives", threads, (void *[]){&mine, &peer, &rank, &bytes, &epochs, &deadline_ns});
    read_words(mine, words);
    check_errors(words, name);
    CHECK_EQ(words[ABORTED_AT], 0);
    MPI_Barrier(MPI_COMM_WORLD);
    wait_in_vain(module, mine, name, 0);
    wait_in_vain(module, mine, name, 1);
    mt_window_free(window);
    CHECK_EQ(driver.unload(module), 0);
}

/* ---- streams ---- */

static void test_streams(void) {
    struct mt_err err = MT_ERR_INIT;
    struct stream_rank s = {.device = device};
    for (int trial = 0; trial < 3; trial++) {
        CHECK_OK(mt_stream_new(device, "comm", &s.stream, &err), err);
        CHECK_OK(mt_device_window_new(device, comm, TRIAL_BYTES, trial == 1 ? 1 : deadline_s, &s.window, &err), err);
        if (trial == 0) {
            stream_exchange(&s, 20, seed);
            stream_compare(&s);
        }
        if (trial == 1) stream_silence(&s);
        if (trial == 2) stream_abort(&s);
        MPI_Barrier(MPI_COMM_WORLD);
        if (trial == 1 && !rank) stream_check_silence(&s);
        if (trial == 1 && !rank) mt_window_abort(s.window, "seen enough");
        mt_stream_free(s.stream);
        mt_window_free(s.window);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

/* Collective. Whether the ranks reach each other's memory, and can add to it. */
static bool can_add(void) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_window *window;
    CHECK_OK(mt_device_window_new(device, comm, 8, deadline_s, &window, &err), err);
    bool can = mt_device_window_part(window, !rank) && !mt_window_attached(window)->lacks_atomics;
    mt_window_free(window);
    if (!can) printf("skipped: rank %d: it does not reach the other GPU's memory with atomic additions\n", rank);
    return can;
}

static void test_all(void) {
    CHECK(open_nvrtc(), "%s", nvrtc_missing());
    open_driver();
    test_level("THREAD", "thread", 64, 592, 30);
    test_level("WARP", "warp", 64, 4096, 30);
    test_level("BLOCK", "block", 256, 16384 + 48, 30);
    test_streams();
}

int main(int argc, char **argv) {
    struct mt_err err = MT_ERR_INIT;
    MPI_Comm all = MPI_COMM_WORLD;
    int thread_level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &thread_level);
    MPI_Comm_rank(all, &rank);
    if (!(device = open_shared_gpu(rank))) {
        MPI_Finalize();
        return 77;
    }
    CHECK_OK(mt_comm_mpi_new(&all, &comm, &err), err);
    bool can = can_add();
    if (can) test_all();
    mt_comm_free(comm);
    mt_device_close(device);
    MPI_Finalize();
    return can ? 0 : 77;
}
