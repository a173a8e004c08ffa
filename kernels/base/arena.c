/* A chain of chunks, each twice the last up to 1 MiB, or as large as the request; allocation bumps a pointer. */
#include "kernels/base/arena.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct mt_arena_chunk {
    struct mt_arena_chunk *next;
    size_t used, size;
    _Alignas(16) unsigned char data[];
};

static void out_of_memory(size_t size_bytes) {
    fprintf(stderr, "motley: out of memory: %zu more bytes were refused by the system\n", size_bytes);
    exit(1);
}

void *mt_malloc(size_t size_bytes) {
    void *p = malloc(size_bytes ? size_bytes : 1);
    if (!p) out_of_memory(size_bytes);
    return p;
}

void *mt_calloc(size_t count, size_t size_bytes) {
    void *p = calloc(count ? count : 1, size_bytes ? size_bytes : 1);
    if (!p) out_of_memory(count * size_bytes);
    return p;
}

void *mt_realloc(void *old, size_t size_bytes) {
    void *p = realloc(old, size_bytes ? size_bytes : 1);
    if (!p) out_of_memory(size_bytes);
    return p;
}

void *mt_arena_alloc(struct mt_arena *arena, size_t size_bytes) {
    size_t need = (size_bytes + 15) & ~(size_t)15;
    struct mt_arena_chunk *c = arena->chunks;
    if (!c || c->size - c->used < need) {
        size_t size = c ? c->size * 2 : 4096;
        if (size > (1u << 20)) size = 1u << 20;
        if (size < need) size = need;
        struct mt_arena_chunk *fresh = mt_calloc(1, sizeof *fresh + size);
        fresh->size = size;
        fresh->next = c;
        arena->chunks = c = fresh;
    }
    void *p = c->data + c->used;
    c->used += need;
    return p;
}

void *mt_arena_memdup(struct mt_arena *arena, const void *data, size_t size_bytes) {
    void *copy = mt_arena_alloc(arena, size_bytes);
    if (size_bytes) memcpy(copy, data, size_bytes);
    return copy;
}

char *mt_arena_strdup(struct mt_arena *arena, const char *text) {
    return mt_arena_memdup(arena, text, strlen(text) + 1);
}

char *mt_arena_vprintf(struct mt_arena *arena, const char *format, va_list args) {
    char brief[200];
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(brief, sizeof brief, format, args);
    char *text = mt_arena_alloc(arena, (size_t)n + 1);
    if ((size_t)n < sizeof brief)
        memcpy(text, brief, (size_t)n + 1);
    else
        vsnprintf(text, (size_t)n + 1, format, again);
    va_end(again);
    return text;
}

char *mt_arena_printf(struct mt_arena *arena, const char *format, ...) {
    va_list args;
    va_start(args, format);
    char *text = mt_arena_vprintf(arena, format, args);
    va_end(args);
    return text;
}

void mt_arena_grow(struct mt_arena *arena, void *items, int count, int *capacity, size_t item_bytes) {
    void **vector = items;
    if (count < *capacity) return;
    int grown = *capacity ? *capacity * 2 : 8;
    void *fresh = mt_arena_alloc(arena, (size_t)grown * item_bytes);
    if (count) memcpy(fresh, *vector, (size_t)count * item_bytes);
    *vector = fresh;
    *capacity = grown;
}

void mt_arena_release(struct mt_arena *arena) {
    for (struct mt_arena_chunk *c = arena->chunks, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    arena->chunks = NULL;
}
