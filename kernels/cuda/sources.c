/* Device code as text, embedded by the assembler. The build lists the files: MT_CUDA_SOURCE(name, "path"). */
#include <string.h>

#include "kernels/base/hash.h"
#include "kernels/cuda/jit.h"

#include "kernels/cuda/jit.h"

#define MT_CUDA_SOURCE(name, path)                                                                                     \
    __asm__(".pushsection .rodata\n"                                                                                   \
            ".globl cuda_source_" #name "\n"                                                                           \
            ".hidden cuda_source_" #name "\n"                                                                          \
            "cuda_source_" #name ":\n"                                                                                 \
            ".incbin \"" path "\"\n"                                                                                   \
            ".byte 0\n"                                                                                                \
            ".popsection\n");                                                                                          \
    extern const char cuda_source_##name[] __attribute__((visibility("hidden")));
#include "kernels/cuda/sources.def"
#undef MT_CUDA_SOURCE

static const struct {
    const char *name, *text;
} sources[] = {
#define MT_CUDA_SOURCE(name, path) {#name, cuda_source_##name},
#include "kernels/cuda/sources.def"
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
