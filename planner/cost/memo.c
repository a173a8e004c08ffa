/* A hash table with open addressing; the key is a 64-bit hash of the arguments. */
#include <stdlib.h>

#include "kernels/base/number/hash.h"
#include "planner/cost/internal.h"

struct mt_cost_memo {
    struct cost_entry *entries;
    size_t count, capacity; /* a power of two */
};

struct mt_cost_memo *mt_cost_memo_new(void) {
    return mt_calloc(1, sizeof(struct mt_cost_memo));
}

void mt_cost_memo_free(struct mt_cost_memo *memo) {
    if (!memo) return;
    for (size_t i = 0; i < memo->capacity; i++) mt_cost_group_free(memo->entries[i].group);
    free(memo->entries);
    free(memo);
}

static struct cost_entry *place_of(const struct mt_cost_memo *memo, uint64_t key) {
    size_t at = key & (memo->capacity - 1);
    while (memo->entries[at].key && memo->entries[at].key != key) at = (at + 1) & (memo->capacity - 1);
    return &memo->entries[at];
}

static void grow(struct mt_cost_memo *memo) {
    struct mt_cost_memo old = *memo;
    memo->capacity = old.capacity ? 2 * old.capacity : 256;
    memo->entries = mt_calloc(memo->capacity, sizeof *memo->entries);
    for (size_t i = 0; i < old.capacity; i++)
        if (old.entries[i].key) *place_of(memo, old.entries[i].key) = old.entries[i];
    free(old.entries);
}

struct cost_entry *mt_cost_memo_entry(struct mt_cost_memo *memo, uint64_t key, bool *known) {
    if (4 * memo->count >= 3 * memo->capacity) grow(memo);
    struct cost_entry *entry = place_of(memo, key ? key : 1);
    *known = entry->key != 0;
    if (*known) return entry;
    entry->key = key ? key : 1;
    memo->count++;
    return entry;
}

struct mt_costs mt_cost_memo_borrow(const struct mt_costs *costs) {
    struct mt_costs borrowed = *costs;
    if (!borrowed.memo) borrowed.memo = mt_cost_memo_new();
    return borrowed;
}

void mt_cost_memo_return(const struct mt_costs *costs, struct mt_costs *borrowed) {
    if (!costs->memo) mt_cost_memo_free(borrowed->memo);
}

static uint64_t noted_key(uint64_t key) {
    static const uint64_t salt = 0x6e6f746564; /* apart from the keys of costs and groups */
    return mt_hash64(&key, sizeof key, salt);
}

bool mt_cost_recall(const struct mt_costs *costs, uint64_t key, double *s) {
    if (!costs->memo || !costs->memo->capacity) return false;
    const struct cost_entry *entry = place_of(costs->memo, noted_key(key) ? noted_key(key) : 1);
    if (entry->key) *s = entry->cost.s;
    return entry->key != 0;
}

void mt_cost_note(const struct mt_costs *costs, uint64_t key, double s) {
    bool known;
    if (costs->memo) mt_cost_memo_entry(costs->memo, noted_key(key), &known)->cost.s = s;
}
