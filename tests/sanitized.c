/* Linked into every program of a sanitized build, so that leaks are looked for at little cost. Stacks of allocations
 * are followed by frame pointers, many times faster than by unwind tables. Libraries have none, so that only the
 * innermost frame tells whose a leak is (lsan.supp): libraries stay loaded for that, and what MPI allocates as it
 * starts, much of it by way of the C library, counts as reachable. So does what the C library notes for dlerror, in
 * thread-local memory that is not looked through. */
#include <dlfcn.h>
#include <mpi.h>
#include <sanitizer/lsan_interface.h>

int dlclose(void *handle) {
    (void)handle;
    return 0;
}

void *dlopen(const char *file, int mode) {
    void *(*next)(const char *, int);
    *(void **)&next = dlsym(RTLD_NEXT, "dlopen");
    __lsan_disable();
    void *handle = next(file, mode);
    __lsan_enable();
    return handle;
}

int MPI_Init(int *argc, char ***argv) {
    __lsan_disable();
    int status = PMPI_Init(argc, argv);
    __lsan_enable();
    return status;
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
    __lsan_disable();
    int status = PMPI_Init_thread(argc, argv, required, provided);
    __lsan_enable();
    return status;
}
