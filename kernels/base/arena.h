/* Arenas: memory that is freed as a whole, for a document or a graph.
 *
 *     struct mt_arena arena = MT_ARENA_INIT;
 *     struct node *n = mt_new(&arena, struct node, 4);
 *     mt_arena_release(&arena);
 *
 * Memory is zeroed and aligned to 16 bytes. When the system has none left, the process ends with a message: documents
 * are small, and no caller could do better. */
#ifndef MT_KERNELS_BASE_ARENA_H
#define MT_KERNELS_BASE_ARENA_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

struct mt_arena_chunk;
struct mt_arena {
    struct mt_arena_chunk *chunks;
};

#define MT_ARENA_INIT                                                                                                  \
    { 0 }
#define mt_new(arena, type, count) ((type *)mt_arena_alloc((arena), (size_t)(count) * sizeof(type)))

void *mt_arena_alloc(struct mt_arena *arena, size_t size_bytes);
char *mt_arena_strdup(struct mt_arena *arena, const char *text);
char *mt_arena_printf(struct mt_arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));
char *mt_arena_vprintf(struct mt_arena *arena, const char *format, va_list args) __attribute__((format(printf, 2, 0)));
void *mt_arena_memdup(struct mt_arena *arena, const void *data, size_t size_bytes);

/* Free everything; the arena is as after MT_ARENA_INIT. */
void mt_arena_release(struct mt_arena *arena);

/* Grow the vector `*items` (of `item_bytes` each, in `arena`, capacity in `*capacity`) so that it holds
 * `count + 1` items; the old memory stays in the arena until it is released. */
void mt_arena_grow(struct mt_arena *arena, void *items, int count, int *capacity, size_t item_bytes);

/* malloc, calloc and realloc that end the process with a message when memory runs out. */
void *mt_malloc(size_t size_bytes);
void *mt_calloc(size_t count, size_t size_bytes);
void *mt_realloc(void *old, size_t size_bytes);

#endif
