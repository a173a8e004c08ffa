/* The steps of a message by copy engines. In turn t a rank puts piece t, then uses piece t + 1 - SLOTS: so the slot of
 * piece t was emptied by its peer in turn t - 1, and no two ranks wait for each other. */
#include "kernels/coll/engine.h"

#include <assert.h>

static int64_t padded(int64_t bytes) {
    return (bytes + MT_ENGINE_ALIGN - 1) / MT_ENGINE_ALIGN * MT_ENGINE_ALIGN;
}

/* Bytes of what is sent for an owner. */
static int64_t length_of(const struct mt_engine_job *job, int owner) {
    int64_t bytes = 0;
    for (int i = 0; i < job->nparts; i++)
        if (job->parts[i].owner == owner) bytes += padded(job->parts[i].count * job->size_bytes);
    return bytes;
}

static int64_t pieces_of(const struct mt_engine_job *job, int owner) {
    return (length_of(job, owner) + job->slot_bytes - 1) / job->slot_bytes;
}

int64_t mt_engine_pieces(const struct mt_engine_job *job) {
    int64_t most = 0;
    for (int r = 0; r < job->n; r++) {
        int64_t pieces = pieces_of(job, r);
        if (pieces > most) most = pieces;
    }
    return most;
}

struct making {
    const struct mt_engine_job *job;
    struct mt_engine_list *list;
    int pieces[MT_ENGINE_RANKS];    /* of each owner */
    int *segments[MT_ENGINE_RANKS]; /* [pieces + 1]: where those of each piece begin in the list */
};

static void add_segment(struct mt_engine_list *list, struct mt_engine_segment segment) {
    mt_arena_grow(&list->arena, &list->segments, list->nsegments, &list->segments_capacity, sizeof segment);
    list->segments[list->nsegments++] = segment;
}

/* Cut an owner's parts where slots end. */
static void cut(struct making *m, int owner) {
    const struct mt_engine_job *job = m->job;
    const int64_t slot = job->slot_bytes, size = job->size_bytes;
    int64_t at = 0;
    int piece = 0;
    m->pieces[owner] = (int)pieces_of(job, owner);
    m->segments[owner] = mt_new(&m->list->arena, int, m->pieces[owner] + 1);
    m->segments[owner][0] = m->list->nsegments;
    for (int i = 0; i < job->nparts; i++) {
        const struct mt_engine_part *part = &job->parts[i];
        if (part->owner != owner) continue;
        for (int64_t done = 0; done < part->count;) {
            int64_t place = at + done * size, room = (place / slot + 1) * slot - place, rest = part->count - done;
            int64_t count = rest * size > room ? room / size : rest;
            while (piece < place / slot) m->segments[owner][++piece] = m->list->nsegments;
            add_segment(m->list, (struct mt_engine_segment){i, done, count, place % slot});
            done += count;
        }
        at += padded(part->count * size);
    }
    while (piece < m->pieces[owner]) m->segments[owner][++piece] = m->list->nsegments;
}

static void add_step(struct making *m, struct mt_engine_step step) {
    struct mt_engine_list *list = m->list;
    mt_arena_grow(&list->arena, &list->steps, list->nsteps, &list->steps_capacity, sizeof step);
    list->steps[list->nsteps++] = step;
}

/* With the segments of an owner's piece. */
static void add_moving(struct making *m, enum mt_engine_what what, int piece, int peer, int owner) {
    int first = m->segments[owner][piece];
    add_step(m, (struct mt_engine_step){.what = what,
                                        .piece = piece,
                                        .peer = peer,
                                        .first_segment = first,
                                        .nsegments = m->segments[owner][piece + 1] - first});
}

/* Whose piece goes from one rank to another. */
static int owner_of(const struct mt_engine_job *job, int from, int to) {
    return job->kind == MT_ALL_GATHER ? from : to;
}

/* Where there is room for the first piece there is for all slots. */
static void put(struct making *m, int piece) {
    const struct mt_engine_job *job = m->job;
    uint32_t peers = 0;
    for (int r = 0; r < job->n; r++)
        if (r != job->me && piece < m->pieces[owner_of(job, job->me, r)]) peers |= 1u << r;
    if (peers && (!piece || piece >= MT_ENGINE_SLOTS))
        add_step(m, (struct mt_engine_step){.what = MT_ENGINE_ROOM, .piece = piece, .peers = peers});
    for (int i = 1; i < job->n; i++) {
        int peer = (job->me + i) % job->n;
        if (peers >> peer & 1) add_moving(m, MT_ENGINE_PUT, piece, peer, owner_of(job, job->me, peer));
    }
}

static void use(struct making *m, int piece) {
    const struct mt_engine_job *job = m->job;
    bool gathers = job->kind == MT_ALL_GATHER;
    uint32_t peers = 0, more = 0;
    for (int r = 0; r < job->n; r++) {
        int pieces = m->pieces[owner_of(job, r, job->me)];
        if (r == job->me || piece >= pieces) continue;
        peers |= 1u << r;
        if (piece + MT_ENGINE_SLOTS < pieces) more |= 1u << r;
    }
    if (!peers && (gathers || piece >= m->pieces[job->me])) return;
    if (peers) add_step(m, (struct mt_engine_step){.what = MT_ENGINE_DATA, .piece = piece, .peers = peers});
    if (!gathers) add_moving(m, MT_ENGINE_MERGE, piece, -1, job->me);
    for (int r = 0; r < job->n && gathers; r++)
        if (peers >> r & 1) add_moving(m, MT_ENGINE_MERGE, piece, r, r);
    if (more) add_step(m, (struct mt_engine_step){.what = MT_ENGINE_EMPTY, .piece = piece, .peers = more});
}

void mt_engine_list(const struct mt_engine_job *job, struct mt_engine_list *list) {
    struct making m = {.job = job, .list = list};
    assert(job->n <= MT_ENGINE_RANKS && job->slot_bytes % MT_ENGINE_ALIGN == 0);
    *list = (struct mt_engine_list){.npieces = (int)mt_engine_pieces(job)};
    for (int r = 0; r < job->n; r++) cut(&m, r);
    for (int t = 0; t < list->npieces + MT_ENGINE_SLOTS - 1; t++) {
        put(&m, t);
        if (t + 1 >= MT_ENGINE_SLOTS) use(&m, t + 1 - MT_ENGINE_SLOTS);
    }
    add_step(&m, (struct mt_engine_step){.what = MT_ENGINE_END, .peers = ((1u << job->n) - 1) & ~(1u << job->me)});
}

void mt_engine_release(struct mt_engine_list *list) {
    mt_arena_release(&list->arena);
    *list = (struct mt_engine_list){.nsteps = 0};
}

int mt_engine_divide(const struct mt_engine_part *parts, int nparts, int n, int64_t size_bytes,
                     struct mt_engine_part *out) {
    enum { CUT = 16 };
    int64_t total = 0, before = 0;
    int count = 0, owner = 0;
    for (int i = 0; i < nparts; i++) total += parts[i].count;
    for (int i = 0; i < nparts; before += parts[i++].count)
        for (int64_t first = 0; first < parts[i].count;) {
            int64_t end = parts[i].count, share = total * (owner + 1) / n - before;
            if (owner + 1 < n && share < end) {
                end = share / CUT * CUT;
                if (end <= first) {
                    owner++;
                    continue;
                }
            }
            out[count++] = (struct mt_engine_part){.count = end - first,
                                                   .owner = owner,
                                                   .from = (const char *)parts[i].from + first * size_bytes,
                                                   .to = (char *)parts[i].to + first * size_bytes};
            first = end;
        }
    return count;
}
