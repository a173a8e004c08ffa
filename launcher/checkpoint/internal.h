/* match.c: a state's tensor in a file. safetensors_checksum.c: checksums inside a safetensors header, shared by its
 * reader and its writer. */
#ifndef MT_LAUNCHER_CHECKPOINT_INTERNAL_H
#define MT_LAUNCHER_CHECKPOINT_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/base/err.h"
#include "launcher/checkpoint/checkpoint.h"

/* Optimizer state has the dimensions of its parameter. */
struct mt_saved mt_saved_of(const struct mt_graph *graph, int gvalue);
/* Whether a value of the graph is loaded; and the tensor that it is loaded from, or null. */
bool mt_saved_is_loaded(const struct mt_graph *graph, int gvalue, enum mt_load what);
const struct mt_saved *mt_saved_source(const struct mt_safetensors *file, const struct mt_value *value,
                                       enum mt_load what);

/* A checkpoint's files: step-00000200.safetensors, optimizer-00000200.safetensors; and the weights' notes of the other
 * file's name and of its header's checksum (pair.c). */
#define MT_CHECKPOINT_STEM "step-"
#define MT_OPTIMIZER_STEM "optimizer-"
#define MT_OPTIMIZER_NOTE "motley.optimizer"
#define MT_WEIGHTS_NOTE "motley.weights" /* of the optimizer state: the name of the weights */
#define MT_OPTIMIZER_HASH_NOTE "motley.optimizer_hash"

#define MT_CHECKSUM_PREFIX "xxh3." /* of the keys in __metadata__ */
#define MT_CHECKSUM_HEADER MT_CHECKSUM_PREFIX "header"
#define MT_CHECKSUM_DIGITS 16

void mt_checksum_text(uint64_t hash, char digits[MT_CHECKSUM_DIGITS + 1]);

/* The digits of the header's own checksum in head[size_bytes] (length prefix and JSON text), or null. */
char *mt_header_checksum_find(void *head, size_t size_bytes);

/* The checksum that `head` should have. */
void mt_header_checksum_of(const void *head, size_t size_bytes, char digits[MT_CHECKSUM_DIGITS + 1]);

/* *carries: whether the header has a checksum. MT_EINPUT if it is wrong. */
enum mt_status mt_header_checksum_verify(const char *name, const void *head, size_t size_bytes, bool *carries,
                                         struct mt_err *err);

#endif
