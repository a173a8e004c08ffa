/* Device code as text, embedded by the assembler. The build lists the files: MT_CUDA_SOURCE(name, "path"), and
 * MT_CUDA_HEADER for what others include. */
#include <string.h>

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
#define MT_CUDA_HEADER MT_CUDA_SOURCE
#include "kernels/cuda/sources.def"
#undef MT_CUDA_HEADER
#undef MT_CUDA_SOURCE

const char *cuda_source(const char *name) {
    static const struct {
        const char *name, *text;
    } sources[] = {
#define MT_CUDA_SOURCE(name, path) {#name, cuda_source_##name},
#define MT_CUDA_HEADER MT_CUDA_SOURCE
#include "kernels/cuda/sources.def"
#undef MT_CUDA_HEADER
#undef MT_CUDA_SOURCE
    };
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
        if (!strcmp(sources[i].name, name)) return sources[i].text;
    return NULL;
}

#define MT_CUDA_SOURCE(name, path)
int cuda_headers(const char *const **names, const char *const **texts) {
    static const char *const all_names[] = {
#define MT_CUDA_HEADER(name, path) #name ".cuh",
#include "kernels/cuda/sources.def"
#undef MT_CUDA_HEADER
    };
    static const char *const all_texts[] = {
#define MT_CUDA_HEADER(name, path) cuda_source_##name,
#include "kernels/cuda/sources.def"
#undef MT_CUDA_HEADER
    };
    *names = all_names, *texts = all_texts;
    return (int)(sizeof all_names / sizeof *all_names);
}
