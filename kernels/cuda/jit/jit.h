/* What jit.c is made of: the embedded sources and the cache on disk. */
#ifndef MT_KERNELS_CUDA_JIT_JIT_H
#define MT_KERNELS_CUDA_JIT_JIT_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The kernels that a device has. Its context is current; all kernels end with it. */
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
 * ~/.cache/motley. An entry has a checksum and comes into being whole; one that is damaged counts as not there, with a
 * note, and is written again. Without a folder that can be written to there is no cache. */
bool cuda_cache_folder(char path[PATH_MAX]); /* made, if it was not there; false where there can be none */
bool cuda_cache_read(const char *source, const char *hash, char **image, size_t *size_bytes); /* the caller's to free */
void cuda_cache_write(const char *source, const char *hash, const char *image, size_t size_bytes);

/* What is launched while `probe` is set (by this thread) is not run but looked at. */
struct cuda_probe {
    bool impossible;   /* does not fit a multiprocessor */
    int spilled_bytes; /* of a thread; the worst launch's */
    double filled;     /* of the largest launch: warps that a multiprocessor holds, of enough; times the part of the */
    int64_t threads;   /* device that works in the mean, as blocks come in waves */
};
void cuda_probe(struct cuda_probe *probe); /* null: launches run again */

#endif
