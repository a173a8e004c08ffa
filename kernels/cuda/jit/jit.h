/* Kernels compiled at run time: jit.c compiles and launches them (driver.h), sources.c has the device code, cache.c
 * keeps the results on disk. */
#ifndef MT_KERNELS_CUDA_JIT_JIT_H
#define MT_KERNELS_CUDA_JIT_JIT_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The kernels of a device, whose context is current. */
struct cuda_jit;
struct cuda_jit *cuda_jit_new(void);
void cuda_jit_free(struct cuda_jit *jit); /* or null */

/* ---- sources.c ---- */

/* The text of kernels/cuda/NAME.cu (or .cuh), or null. */
const char *cuda_source(const char *name);
uint64_t cuda_sources_hash(void); /* of all of them */
/* What sources may include, by "kernels/cuda/NAME.cuh". Returns how many. */
int cuda_headers(const char *const **names, const char *const **texts);
uint64_t cuda_headers_hash(void); /* of the texts of all */

/* ---- cache.c ----
 *
 * Compiled code by the hash of what it was made of, in $MOTLEY_CACHE, else $XDG_CACHE_HOME/motley, else
 * ~/.cache/motley. An entry has a checksum and is written atomically; a damaged one is ignored with a warning, and
 * written again. Without a folder that can be written to there is no cache. */
bool cuda_cache_read(const char *source, const char *hash, char **image, size_t *size_bytes); /* the caller's to free */
void cuda_cache_write(const char *source, const char *hash, const char *image, size_t size_bytes);

/* While `probe` is set, launches of this thread are not run, but examined. */
struct cuda_probe {
    bool impossible;   /* does not fit a multiprocessor */
    int spilled_bytes; /* of a thread; the worst launch's */
    int64_t threads;   /* of the largest launch; and of that one: */
    double filled;     /* min(1, resident warps of a multiprocessor / 16) * (blocks / blocks that full waves have) */
};
void cuda_probe(struct cuda_probe *probe); /* null: launches run again */

#endif
