/* Kernels: compiled by NVRTC for the device, found again by (source, definitions, name), and launched. */
#include <assert.h>
#include <limits.h>
#include <nvrtc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/arena.h"
#include "kernels/base/number/hash.h"
#include "kernels/cuda/driver/driver.h"
#include "kernels/cuda/jit/jit.h"

enum { MOST_OPTIONS = 64, GIVEN_SHARED_BYTES = 48 << 10 };

/* What one source gives with one set of definitions. */
struct module {
    struct module *next;
    char *source, *definitions;
    CUmodule handle;
};
struct kernel {
    uint64_t hash;
    const struct module *module;
    char *name;
    CUfunction handle;
    int shared_bytes; /* that launches may ask for */
};
struct cuda_jit {
    pthread_mutex_t lock;
    struct module *modules;
    struct kernel *kernels; /* a hash table with open addressing; at least half of it is free */
    size_t nkernels, capacity;
};

struct cuda_jit *cuda_jit_new(void) {
    struct cuda_jit *jit = mt_calloc(1, sizeof *jit);
    pthread_mutex_init(&jit->lock, NULL);
    jit->capacity = 256;
    jit->kernels = mt_calloc(jit->capacity, sizeof *jit->kernels);
    return jit;
}

void cuda_jit_free(struct cuda_jit *jit) {
    if (!jit) return;
    for (size_t i = 0; i < jit->capacity; i++) free(jit->kernels[i].name);
    for (struct module *module = jit->modules, *next; module; module = next) {
        next = module->next;
        cuModuleUnload(module->handle);
        free(module->source);
        free(module->definitions);
        free(module);
    }
    pthread_mutex_destroy(&jit->lock);
    free(jit->kernels);
    free(jit);
}

/* ---- compiling ---- */

/* "--gpu-architecture=sm_90a" where NVRTC knows the device; else the newest virtual one that it knows and the device
 * can run, which the driver finishes. The "a" enables what only this architecture has. */
static enum mt_status architecture(int sm, char *option, size_t size, bool *binary, struct mt_err *err) {
    int count, known[64], best = 0;
    nvrtcResult result = nvrtcGetNumSupportedArchs(&count);
    if (!result && count <= (int)(sizeof known / sizeof *known)) result = nvrtcGetSupportedArchs(known);
    if (result || count > (int)(sizeof known / sizeof *known))
        return mt_fail(err, MT_ESYSTEM, "NVRTC does not list its architectures: %s", nvrtcGetErrorString(result));
    for (int i = 0; i < count; i++)
        if (known[i] <= sm && known[i] > best) best = known[i];
    if (!best) return mt_fail(err, MT_EMISSING, "this NVRTC does not compile for compute capability %d any more", sm);
    *binary = best == sm;
    snprintf(option, size, "--gpu-architecture=%s_%d%s", *binary ? "sm" : "compute", best,
             *binary && (sm == 90 || sm == 100) ? "a" : "");
    return MT_OK;
}

/* "-DA -DB=1" as options. */
static enum mt_status split(char *definitions, const char *options[MOST_OPTIONS], int *noptions, struct mt_err *err) {
    for (char *rest = definitions, *word; (word = strtok_r(rest, " ", &rest));) {
        if (*noptions == MOST_OPTIONS) return mt_fail(err, MT_EBUG, "more than %d definitions", MOST_OPTIONS);
        options[(*noptions)++] = word;
    }
    return MT_OK;
}

static enum mt_status fail_compile(nvrtcProgram program, nvrtcResult result, struct mt_err *err) {
    size_t size = 0;
    char *log = NULL;
    if (program && !nvrtcGetProgramLogSize(program, &size) && size) {
        log = mt_calloc(size + 1, 1);
        nvrtcGetProgramLog(program, log);
    }
    mt_fail(err, MT_EBUG, "%s: %s", nvrtcGetErrorString(result), log && *log ? log : "without a log");
    free(log);
    return err->status;
}

/* The image is the caller's to free. Headers that code may include are embedded as well. */
static enum mt_status compile(const char *text, const char *file, const char *option, bool binary,
                              const char *definitions, char **image, size_t *size_bytes, struct mt_err *err) {
    const char *options[MOST_OPTIONS] = {option, "--std=c++17", "-default-device"};
    int noptions = 3;
    nvrtcProgram program = NULL;
    char *words = mt_malloc(strlen(definitions) + 1);
    enum mt_status st = split(strcpy(words, definitions), options, &noptions, err);
    if (st) goto out;
    const char *const *names, *const *texts;
    int nheaders = cuda_headers(&names, &texts);
    nvrtcResult result = nvrtcCreateProgram(&program, text, file, nheaders, texts, names);
    if (!result) result = nvrtcCompileProgram(program, noptions, options);
    if (!result) result = (binary ? nvrtcGetCUBINSize : nvrtcGetPTXSize)(program, size_bytes);
    if (!result) {
        *image = mt_malloc(*size_bytes);
        result = (binary ? nvrtcGetCUBIN : nvrtcGetPTX)(program, *image);
        if (result) free(*image);
    }
    if (result) st = fail_compile(program, result, err);
out:
    if (program) nvrtcDestroyProgram(&program);
    free(words);
    return st;
}

static char *program_text(const char *source, const char *text) {
    static const char format[] = "#line 1 \"prelude.cuh\"\n%s\n#line 1 \"%s.cu\"\n%s\n";
    const char *prelude = cuda_source("prelude");
    size_t size = sizeof format + strlen(prelude) + strlen(source) + strlen(text);
    char *out = mt_malloc(size);
    snprintf(out, size, format, prelude, source, text);
    return out;
}

/* All headers count: none of them is large, and few change. */
static void hash_of(const char *text, const char *definitions, const char *option, char hash[33]) {
    static const char format[] = "%s\n%s\n%s\nNVRTC %d.%d, headers %016llx\n";
    int major = 0, minor = 0;
    nvrtcVersion(&major, &minor);
    size_t size = sizeof format + strlen(text) + strlen(definitions) + strlen(option) + 64;
    char *all = mt_malloc(size);
    int length =
        snprintf(all, size, format, text, definitions, option, major, minor, (unsigned long long)cuda_headers_hash());
    mt_hash_text(all, (size_t)length, hash);
    free(all);
}

static enum mt_status load(const struct cuda *cuda, const char *source, const char *definitions, CUmodule *module,
                           struct mt_err *err) {
    char option[64], hash[33], file[256], *image = NULL;
    bool binary = false;
    size_t size_bytes;
    const char *own = cuda_source(source);
    if (!own) return mt_fail(err, MT_EBUG, "no such source is in the module");
    enum mt_status st = architecture(cuda->sm, option, sizeof option, &binary, err);
    if (st) return st;
    char *text = program_text(source, own);
    hash_of(text, definitions, option, hash);
    snprintf(file, sizeof file, "%s.cu", source);
    if (!cuda_cache_read(source, hash, &image, &size_bytes)) {
        st = compile(text, file, option, binary, definitions, &image, &size_bytes, err);
        if (st) goto out;
        cuda_cache_write(source, hash, image, size_bytes);
    }
    CUresult result = cuModuleLoadData(module, image);
    if (result) st = cuda_fail(err, result, "cuModuleLoadData");
    free(image);
out:
    free(text);
    return st;
}

static enum mt_status find_module(const struct cuda *cuda, const char *source, const char *definitions,
                                  const struct module **module, struct mt_err *err) {
    struct cuda_jit *jit = cuda->jit;
    for (*module = jit->modules; *module; *module = (*module)->next)
        if (!strcmp((*module)->source, source) && !strcmp((*module)->definitions, definitions)) return MT_OK;
    CUmodule handle;
    enum mt_status st = load(cuda, source, definitions, &handle, err);
    if (st) return st;
    struct module *made = mt_malloc(sizeof *made);
    size_t source_size = strlen(source) + 1, definitions_size = strlen(definitions) + 1;
    *made = (struct module){.next = jit->modules, .handle = handle};
    made->source = memcpy(mt_malloc(source_size), source, source_size);
    made->definitions = memcpy(mt_malloc(definitions_size), definitions, definitions_size);
    *module = jit->modules = made;
    return MT_OK;
}

/* ---- finding ---- */

/* The slot of the kernel, or the empty slot for it (whose name is null). */
static struct kernel *find(struct cuda_jit *jit, uint64_t hash, const char *source, const char *definitions,
                           const char *name) {
    for (size_t i = (size_t)hash & (jit->capacity - 1);; i = (i + 1) & (jit->capacity - 1)) {
        struct kernel *k = &jit->kernels[i];
        if (!k->name || (k->hash == hash && !strcmp(k->name, name) && !strcmp(k->module->source, source) &&
                         !strcmp(k->module->definitions, definitions)))
            return k;
    }
}

static void grow(struct cuda_jit *jit) {
    struct kernel *old = jit->kernels;
    size_t old_capacity = jit->capacity;
    jit->capacity *= 2;
    jit->kernels = mt_calloc(jit->capacity, sizeof *jit->kernels);
    for (size_t i = 0; i < old_capacity; i++)
        if (old[i].name)
            *find(jit, old[i].hash, old[i].module->source, old[i].module->definitions, old[i].name) = old[i];
    free(old);
}

static enum mt_status want_shared(const struct cuda *cuda, struct kernel *kernel, int shared_bytes,
                                  struct mt_err *err) {
    if (shared_bytes <= kernel->shared_bytes) return MT_OK;
    if (shared_bytes > cuda->shared_bytes)
        return mt_fail(err, MT_EBUG, "%d bytes of shared memory are wanted, a block can have %d", shared_bytes,
                       cuda->shared_bytes);
    CUDA_TRY(cuFuncSetAttribute(kernel->handle, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared_bytes), err,
             "cuFuncSetAttribute");
    kernel->shared_bytes = shared_bytes;
    return MT_OK;
}

static enum mt_status add(const struct cuda *cuda, uint64_t hash, const char *source, const char *definitions,
                          const char *name, struct kernel **kernel, struct mt_err *err) {
    struct cuda_jit *jit = cuda->jit;
    struct kernel made = {.hash = hash, .shared_bytes = GIVEN_SHARED_BYTES};
    enum mt_status st = find_module(cuda, source, definitions, &made.module, err);
    if (st) return st;
    CUDA_TRY(cuModuleGetFunction(&made.handle, made.module->handle, name), err, "cuModuleGetFunction");
    if (2 * (jit->nkernels + 1) > jit->capacity) grow(jit);
    made.name = memcpy(mt_malloc(strlen(name) + 1), name, strlen(name) + 1);
    *kernel = find(jit, hash, source, definitions, name);
    **kernel = made;
    jit->nkernels++;
    return MT_OK;
}

enum mt_status cuda_kernel(struct cuda *cuda, const char *source, const char *definitions, const char *name,
                           int shared_bytes, CUfunction *kernel, struct mt_err *err) {
    struct cuda_jit *jit = cuda->jit;
    uint64_t hash = mt_hash64(source, strlen(source), 0);
    hash = mt_hash64(definitions, strlen(definitions), hash);
    hash = mt_hash64(name, strlen(name), hash);
    pthread_mutex_lock(&jit->lock);
    struct kernel *k = find(jit, hash, source, definitions, name);
    enum mt_status st = k->name ? MT_OK : add(cuda, hash, source, definitions, name, &k, err);
    if (!st) st = want_shared(cuda, k, shared_bytes, err);
    if (!st) *kernel = k->handle;
    pthread_mutex_unlock(&jit->lock);
    return st ? mt_err_context(err, "kernel %s of %s.cu [%s]", name, source, definitions) : MT_OK;
}

/* ---- launching ---- */

static _Thread_local struct cuda_probe *probing;

void cuda_probe(struct cuda_probe *probe) {
    probing = probe;
}

/* Examine a launch. With enough_warps resident, the latency of memory is mostly hidden. */
static enum mt_status look(const struct cuda_queue *queue, CUfunction kernel, int64_t blocks, int threads,
                           int shared_bytes, struct mt_err *err) {
    static const double enough_warps = 16;
    int spilled, held;
    CUDA_TRY(cuFuncGetAttribute(&spilled, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, kernel), err, "cuFuncGetAttribute");
    CUDA_TRY(cuOccupancyMaxActiveBlocksPerMultiprocessor(&held, kernel, threads, (size_t)shared_bytes), err,
             "cuOccupancyMaxActiveBlocksPerMultiprocessor");
    if (spilled > probing->spilled_bytes) probing->spilled_bytes = spilled;
    if (!held) probing->impossible = true;
    if (!held || blocks * threads < probing->threads) return MT_OK;
    int64_t wave = (int64_t)held * queue->cuda->nsm, waves = (blocks + wave - 1) / wave;
    double warps = held * ((threads + 31) / 32) / enough_warps;
    probing->threads = blocks * threads;
    probing->filled = (warps < 1 ? warps : 1) * (double)blocks / (double)(waves * wave);
    return MT_OK;
}

enum mt_status cuda_launch3(const struct cuda_queue *queue, CUfunction kernel, const int64_t blocks[3], int threads,
                            int shared_bytes, void **arguments, struct mt_err *err) {
    static const int64_t most[3] = {INT_MAX, 65535, 65535};
    for (int i = 0; i < 3; i++) {
        assert(blocks[i] >= 0);
        if (!blocks[i]) return MT_OK;
        if (blocks[i] > most[i])
            return mt_fail(err, MT_EBUG, "a launch of %lld blocks along axis %d, and at most %lld are possible",
                           (long long)blocks[i], i, (long long)most[i]);
    }
    if (probing) return look(queue, kernel, blocks[0] * blocks[1] * blocks[2], threads, shared_bytes, err);
    CUDA_TRY(cuLaunchKernel(kernel, (unsigned)blocks[0], (unsigned)blocks[1], (unsigned)blocks[2], (unsigned)threads, 1,
                            1, (unsigned)shared_bytes, queue->stream, arguments, NULL),
             err, "cuLaunchKernel");
    return MT_OK;
}

enum mt_status cuda_launch(const struct cuda_queue *queue, CUfunction kernel, int64_t blocks, int threads,
                           int shared_bytes, void **arguments, struct mt_err *err) {
    return cuda_launch3(queue, kernel, (const int64_t[3]){blocks, 1, 1}, threads, shared_bytes, arguments, err);
}

const char *cuda_type(enum mt_type type) {
    static const char *const names[MT_NTYPES] = {
        [MT_F64] = "double", [MT_F32] = "float", [MT_BF16] = "bf16", [MT_F16] = "f16", [MT_I32] = "int"};
    return names[type];
}
