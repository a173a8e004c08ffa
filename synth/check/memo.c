/* Questions that are asked again for every layer, and their answers. */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/number/hash.h"
#include "synth/check/internal.h"

static struct mt_memo_entry *slot_of(const struct mt_memo *m, const int *key, int n) {
    uint64_t mask = (uint64_t)m->nslots - 1, at = mt_hash64(key, (size_t)n * sizeof *key, 0) & mask;
    while (m->slots[at].key && (m->slots[at].n != n || memcmp(m->slots[at].key, key, (size_t)n * sizeof *key)))
        at = (at + 1) & mask;
    return &m->slots[at];
}

static void grow(struct mt_memo *m) {
    struct mt_memo_entry *old = m->slots;
    int nold = m->nslots;
    m->nslots = nold ? 2 * nold : 256;
    m->slots = mt_calloc((size_t)m->nslots, sizeof *m->slots);
    for (int i = 0; i < nold; i++)
        if (old[i].key) *slot_of(m, old[i].key, old[i].n) = old[i];
    free(old);
}

int *mt_checker_answer(struct mt_checker *c, const int *key, int n) {
    struct mt_memo *m = &c->memo;
    if (2 * (m->count + 1) > m->nslots) grow(m);
    struct mt_memo_entry *entry = slot_of(m, key, n);
    if (!entry->key) {
        *entry = (struct mt_memo_entry){.key = mt_arena_memdup(&m->arena, key, (size_t)n * sizeof *key), .n = n};
        m->count++;
    }
    return &entry->answer;
}

int mt_checker_group_id(struct mt_checker *c) {
    struct mt_memo *m = &c->memo;
    const int *group = c->instr->kind == MT_INSTR_COLLECTIVE ? c->instr->group : NULL;
    if (!group) return -1;
    for (int i = 0; i < m->ngroups; i++)
        if (m->groups[i] == group || !memcmp(m->groups[i], group, (size_t)c->program->nranks * sizeof *group)) return i;
    mt_arena_grow(&m->arena, &m->groups, m->ngroups, &m->groups_capacity, sizeof *m->groups);
    m->groups[m->ngroups] = group;
    return m->ngroups++;
}

void mt_checker_forget(struct mt_checker *c) {
    free(c->memo.slots);
    mt_arena_release(&c->memo.arena);
    c->memo = (struct mt_memo){0};
}
