/* Device code as text, embedded by the assembler. The build lists the files: MT_CUDA_SOURCE(name, "path"), and
 * MT_CUDA_HEADER for what others include. */
#include <string.h>

#include "kernels/base/number/hash.h"
#include "kernels/cuda/jit/jit.h"

#define MT_CUDA_SOURCE(name, path)                                                                                     \
    __asm__(".pushsection .rodata\n"                                                                                   \
            ".globl cuda_source_" #name "\n"                                                                           \
            ".hidden cuda_source_" #name "\n"                                                                          \
            "cuda_source_" #name ":\n"                                                                                 \
            ".incbin \"" MOTLEY_SOURCE "/" path "\"\n"                                                                 \
            ".byte 0\n"                                                                                                \
            ".popsection\n");                                                                                          \
    extern const char cuda_source_##name[] __attribute__((visibility("hidden")));
#define MT_CUDA_HEADER MT_CUDA_SOURCE
#include "kernels/cuda/jit/sources.def"
#undef MT_CUDA_HEADER
#undef MT_CUDA_SOURCE

static const struct {
    const char *name, *text;
} sources[] = {
#define MT_CUDA_SOURCE(name, path) {#name, cuda_source_##name},
#define MT_CUDA_HEADER MT_CUDA_SOURCE
#include "kernels/cuda/jit/sources.def"
#undef MT_CUDA_HEADER
#undef MT_CUDA_SOURCE
};
enum { NSOURCES = sizeof sources / sizeof *sources };

const char *cuda_source(const char *name) {
    for (size_t i = 0; i < NSOURCES; i++)
        if (!strcmp(sources[i].name, name)) return sources[i].text;
    return NULL;
}

uint64_t cuda_sources_hash(void) {
    uint64_t hash = 0;
    for (size_t i = 0; i < NSOURCES; i++) hash = mt_hash64(sources[i].text, strlen(sources[i].text), hash);
    return hash;
}

#define MT_CUDA_SOURCE(name, path)
int cuda_headers(const char *const **names, const char *const **texts) {
    static const char *const all_names[] = {
#define MT_CUDA_HEADER(name, path) path,
#include "kernels/cuda/jit/sources.def"
#undef MT_CUDA_HEADER
    };
    static const char *const all_texts[] = {
#define MT_CUDA_HEADER(name, path) cuda_source_##name,
#include "kernels/cuda/jit/sources.def"
#undef MT_CUDA_HEADER
    };
    *names = all_names, *texts = all_texts;
    return (int)(sizeof all_names / sizeof *all_names);
}

uint64_t cuda_headers_hash(void) {
    const char *const *names, *const *texts;
    uint64_t hash = 0;
    for (int i = cuda_headers(&names, &texts) - 1; i >= 0; i--) hash = mt_hash64(texts[i], strlen(texts[i]), hash);
    return hash;
}
