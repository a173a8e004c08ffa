/* When the bucket is full, and what becomes one message. */
#include "synth/builder/bucket.h"

#include <string.h>

#include "synth/ops/ops.h"

enum { FEW_BUCKETS = 4, LEAST_PART = 8, SMALL_WEIGHT_BUCKETS = 3 };

void mt_bucketing_init(struct mt_bucketing *b, int64_t bucket_bytes, int64_t gradient_bytes, int nyielding) {
    *b = (struct mt_bucketing){.phase = MT_BUCKET_WEIGHTS,
                               .bucket_bytes = bucket_bytes,
                               .gradient_bytes = gradient_bytes,
                               .coming_bytes = gradient_bytes,
                               .nyielding = bucket_bytes > 0 ? nyielding : 0};
}

static bool is_full(const struct mt_bucketing *b) {
    int64_t full_bytes = b->bucket_bytes;
    if (b->phase == MT_BUCKET_UPDATE) return true;
    if (b->gradient_bytes / FEW_BUCKETS >= b->bucket_bytes) {
        int64_t half = (b->waiting_bytes + b->coming_bytes) / 2, least = b->bucket_bytes / LEAST_PART;
        if (b->phase == MT_BUCKET_WEIGHTS && b->nfull < SMALL_WEIGHT_BUCKETS)
            full_bytes >>= SMALL_WEIGHT_BUCKETS - b->nfull;
        if (b->phase == MT_BUCKET_GRADIENTS && half < full_bytes) full_bytes = half < least ? least : half;
    }
    return b->waiting_bytes >= full_bytes;
}

bool mt_bucketing_enter(struct mt_bucketing *b, enum mt_bucket_phase phase) {
    bool changes = b->phase != phase;
    b->phase = phase;
    return changes && b->waiting_bytes > 0;
}

bool mt_bucketing_add(struct mt_bucketing *b, int64_t bytes, bool gradient) {
    b->waiting_bytes += bytes;
    if (gradient && b->phase == MT_BUCKET_GRADIENTS)
        b->coming_bytes = b->coming_bytes > bytes ? b->coming_bytes - bytes : 0;
    bool full = is_full(b) && !(b->phase == MT_BUCKET_GRADIENTS && b->nyielding);
    b->nfull += full && b->phase == MT_BUCKET_WEIGHTS;
    return full;
}

bool mt_bucketing_yield(struct mt_bucketing *b) {
    if (!b->nyielding) return false;
    b->nyielding--;
    return is_full(b);
}

void mt_bucketing_wait(struct mt_bucketing *b, int64_t bytes) {
    b->waiting_bytes += bytes;
}

void mt_bucketing_sent(struct mt_bucketing *b) {
    b->waiting_bytes = 0;
}

bool mt_bucket_waits_for(enum mt_block_kind block, enum mt_op_role role, enum mt_op_kind kind) {
    return block == MT_LAST && role == MT_ROLE_BACKWARD && mt_op_yields(kind);
}

bool mt_bucket_same_message(const struct mt_bucket_key *a, const struct mt_bucket_key *b, int nranks) {
    return a->kind == b->kind && a->wire == b->wire && a->acc == b->acc && a->reduce == b->reduce &&
           a->block == b->block && (!a->group || !memcmp(a->group, b->group, (size_t)nranks * sizeof *a->group));
}
