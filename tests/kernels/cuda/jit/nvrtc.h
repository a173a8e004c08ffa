/* NVRTC as tests find it, with or without a GPU: MOTLEY_NVRTC, if that is defined, or where the system has it. Its
 * headers are not needed. */
#ifndef MT_TESTS_KERNELS_CUDA_JIT_NVRTC_H
#define MT_TESTS_KERNELS_CUDA_JIT_NVRTC_H

#include <dlfcn.h>
#include <stdbool.h>

#include "tests/check.h"

typedef struct program *program; /* nvrtcProgram */
static struct {
    int (*create)(program *, const char *, const char *, int, const char *const *, const char *const *);
    int (*compile)(program, int, const char *const *);
    int (*log_size)(program, size_t *);
    int (*log)(program, char *);
    int (*binary_size)(program, size_t *);
    int (*binary)(program, char *);
    int (*destroy)(program *);
    int (*narchitectures)(int *);
    int (*architectures)(int *);
} nvrtc;

/* False if it is not here. */
static inline bool open_nvrtc(void) {
    static const char *const files[] = {
#ifdef MOTLEY_NVRTC
        MOTLEY_NVRTC,
#endif
        "libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"};
    static const struct {
        void *place;
        const char *name;
    } symbols[] = {
        {&nvrtc.create, "nvrtcCreateProgram"},           {&nvrtc.compile, "nvrtcCompileProgram"},
        {&nvrtc.log_size, "nvrtcGetProgramLogSize"},     {&nvrtc.log, "nvrtcGetProgramLog"},
        {&nvrtc.binary_size, "nvrtcGetCUBINSize"},       {&nvrtc.binary, "nvrtcGetCUBIN"},
        {&nvrtc.destroy, "nvrtcDestroyProgram"},         {&nvrtc.narchitectures, "nvrtcGetNumSupportedArchs"},
        {&nvrtc.architectures, "nvrtcGetSupportedArchs"}};
    void *library = NULL;
    for (size_t i = 0; i < sizeof files / sizeof *files && !library; i++) library = dlopen(files[i], RTLD_NOW);
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols && library; i++) {
        void *symbol = dlsym(library, symbols[i].name);
        CHECK(symbol, "%s", symbols[i].name);
        memcpy(symbols[i].place, &symbol, sizeof symbol);
    }
    return library;
}

/* Whether it compiles for a compute capability. */
static inline bool knows(int sm) {
    int count, known[64];
    CHECK(!nvrtc.narchitectures(&count) && count <= 64 && !nvrtc.architectures(known));
    for (int i = 0; i < count; i++)
        if (known[i] == sm) return true;
    return false;
}

static inline const char *nvrtc_missing(void) {
    return dlerror();
}

/* A file's text, to be freed. */
static inline char *nvrtc_read(const char *path) {
    FILE *file = fopen(path, "r");
    CHECK(file, "%s", path);
    CHECK(!fseek(file, 0, SEEK_END));
    long size = ftell(file);
    char *text = calloc(1, (size_t)size + 1);
    rewind(file);
    CHECK(size >= 0 && text && fread(text, 1, (size_t)size, file) == (size_t)size, "%s", path);
    fclose(file);
    return text;
}

/* Code as kernels are compiled: the prelude, then `code`, which is of `name`. To be freed. */
static inline char *nvrtc_text(const char *prelude, const char *name, const char *code) {
    size_t size = strlen(prelude) + strlen(code) + 256;
    char *text = malloc(size);
    snprintf(text, size, "%s\n#line 1 \"%s.cu\"\n%s\n", prelude, name, code);
    return text;
}

static inline void nvrtc_architecture(int sm, char text[64]) {
    snprintf(text, 64, "--gpu-architecture=sm_%d%s", sm, sm == 90 || sm == 100 ? "a" : "");
}

#endif
