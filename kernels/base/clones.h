/* MT_CLONES: compile a hot loop for three instruction sets. The loader picks one, so that one binary runs anywhere. */
#ifndef MT_KERNELS_BASE_CLONES_H
#define MT_KERNELS_BASE_CLONES_H

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(MOTLEY_SANITIZE)
#define MT_CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4"), noinline))
#else
#define MT_CLONES __attribute__((noinline))
#endif

#endif
