/* Preloaded into ranks by the test of faults in overlapped kernels. In rank MOTLEY_HOLD it puts a kernel that waits
 * before every kernel of an overlapped GEMM ("overlap_..."), or of a message by copy engines ("engine_..."), on the
 * same stream, in captured steps too. The waiting kernel ends at once, unless there is a file "hold": then it ends
 * after 60 s, and holds up the stream for as long. Each of these kernels leaves a file "ran.NAME".
 *
 * With MOTLEY_ALONE each rank believes that it is alone on its host when GPUs are divided, so that ranks may share one.
 *
 * The driver is called by name: CUDA's headers are not needed. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **arguments, void **extra);

static struct {
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                  void **);
    int (*name_of)(const char **, void *);
    int (*load)(void **, const void *), (*function_of)(void **, void *, const char *);
    int (*allocate)(void **, size_t, unsigned), (*address_of)(unsigned long long *, void *, unsigned);
} driver;
static void *waits; /* the kernel; null: this rank holds nothing */
static unsigned long long word_at;
static volatile unsigned *word;

static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                          ".visible .entry hold(.param .u64 word)\n{\n"
                          ".reg .pred p;\n.reg .u32 v;\n.reg .u64 a, start, now;\n"
                          "ld.param.u64 a, [word];\n"
                          "mov.u64 start, %globaltimer;\n"
                          "AGAIN:\n"
                          "ld.volatile.global.u32 v, [a];\n"
                          "setp.eq.u32 p, v, 0;\n"
                          "@p bra DONE;\n"
                          "mov.u64 now, %globaltimer;\n"
                          "sub.u64 now, now, start;\n"
                          "setp.gt.u64 p, now, 60000000000;\n"
                          "@p bra DONE;\n"
                          "nanosleep.u32 1000;\n"
                          "bra AGAIN;\n"
                          "DONE:\nret;\n}\n";

static void need(int good, const char *what) {
    if (good) return;
    fprintf(stderr, "hold: %s\n", what);
    abort();
}

static void find(void *place, void *library, const char *name) {
    void *symbol = dlsym(library, name);
    need(symbol != NULL, name);
    memcpy(place, &symbol, sizeof symbol);
}

static void *watch(void *unused) {
    while (access("hold", F_OK)) usleep(20000);
    *word = 1;
    return unused;
}

static void make_kernel(void) {
    const char *target = getenv("MOTLEY_HOLD"), *rank = getenv("OMPI_COMM_WORLD_RANK");
    void *module, *memory;
    pthread_t thread;
    if (!target || !rank || strcmp(target, rank)) return;
    need(!driver.allocate(&memory, sizeof *word, 2 /* CU_MEMHOSTALLOC_DEVICEMAP */), "cuMemHostAlloc");
    word = memory;
    *word = 0;
    need(!driver.address_of(&word_at, memory, 0), "cuMemHostGetDevicePointer");
    need(!driver.load(&module, ptx) && !driver.function_of(&waits, module, "hold"), "cuModuleLoadData");
    need(!pthread_create(&thread, NULL, watch, NULL), "pthread_create");
}

static void connect(void) {
    void *library = dlopen("libcuda.so.1", RTLD_LAZY);
    need(library != NULL, "libcuda.so.1");
    find(&driver.launch, library, "cuLaunchKernel");
    find(&driver.name_of, library, "cuFuncGetName");
    find(&driver.load, library, "cuModuleLoadData");
    find(&driver.function_of, library, "cuModuleGetFunction");
    find(&driver.allocate, library, "cuMemHostAlloc");
    find(&driver.address_of, library, "cuMemHostGetDevicePointer_v2");
    make_kernel();
}

int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **arguments, void **extra) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const char *name = "";
    char file[128];
    pthread_once(&once, connect);
    need(!driver.name_of(&name, function), "cuFuncGetName");
    if (!strncmp(name, "overlap_", 8) || !strncmp(name, "engine_", 7)) {
        snprintf(file, sizeof file, "ran.%s", name);
        close(open(file, O_CREAT | O_WRONLY, 0666));
        if (waits) need(!driver.launch(waits, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&word_at}, NULL), "hold");
    }
    return driver.launch(function, gx, gy, gz, bx, by, bz, shared, stream, arguments, extra);
}

int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *made) {
    int rank;
    if (!getenv("MOTLEY_ALONE")) return PMPI_Comm_split_type(comm, type, key, info, made);
    PMPI_Comm_rank(comm, &rank);
    return PMPI_Comm_split(comm, rank, key, made);
}
