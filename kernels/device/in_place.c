/* Every step and piece of an AllToAll lies in one block, so that it moves as its block does. */
#include "kernels/device/in_place.h"

#include <assert.h>

struct located {         /* [n]: the blocks of a message */
    int64_t *start, *at; /* elements, in the message and from the base on */
};

static int64_t cell(const struct mt_coll *problem, int message, int peer) {
    return message ? problem->counts[(int64_t)peer * problem->n + problem->me]
                   : problem->counts[(int64_t)problem->me * problem->n + peer];
}

/* The address of the block that begins at `start`, if it is in place; else null. */
static char *find_in_place(const struct mt_coll_call *call, int message, int64_t start) {
    for (int i = 0; i < call->nin_place[message]; i++)
        if (call->in_place[message][i].at == start) return call->in_place[message][i].data;
    return NULL;
}

/* `own`: where this rank's own block is, if that is known. */
static struct located locate_blocks(const struct mt_coll_call *call, int message, const char *base, char *own,
                                    struct mt_arena *arena) {
    const struct mt_coll *problem = &call->problem;
    int64_t start = 0, size_bytes = mt_type_size(problem->acc);
    char *staged = call->message[message];
    struct located l = {mt_new(arena, int64_t, problem->n + 1), mt_new(arena, int64_t, problem->n)};
    for (int peer = 0; peer < problem->n; peer++) {
        int64_t count = cell(problem, message, peer);
        char *place = count && peer == problem->me && own ? own : NULL;
        if (count && !place) place = find_in_place(call, message, start);
        if (count && !place) place = staged, staged += count * size_bytes;
        assert(!count || (place - base) % size_bytes == 0);
        l.start[peer] = start;
        l.at[peer] = count ? (place - base) / size_bytes : 0;
        start += count;
    }
    l.start[problem->n] = start;
    return l;
}

static int64_t move(const struct located *l, int n, int64_t place) {
    int low = 0, high = n; /* the last block that begins at or before the place, and is not empty */
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (l->start[middle] <= place)
            low = middle;
        else
            high = middle;
    }
    return l->at[low] + place - l->start[low];
}

static const struct mt_piece *move_pieces(const struct mt_piece *pieces, int count, const struct located l[2], int n,
                                          struct mt_arena *arena) {
    struct mt_piece *moved = mt_arena_memdup(arena, pieces, (size_t)count * sizeof *pieces);
    for (int i = 0; i < count; i++)
        if (moved[i].at >= 0) moved[i].at = move(&l[moved[i].buffer], n, moved[i].at);
    return moved;
}

/* Both messages are one memory now, buffer 0. A copy of a block to its own place is left out. */
static const struct mt_schedule *move_steps(const struct mt_schedule *schedule, const struct located l[2], int n,
                                            struct mt_arena *arena) {
    struct mt_schedule *moved = mt_new(arena, struct mt_schedule, 1);
    moved->steps = mt_new(arena, struct mt_step, schedule->nsteps);
    moved->round_end = mt_new(arena, int, schedule->nrounds);
    moved->located = true;
    assert(!schedule->scratch_count);
    for (int round = 0, i = 0; round < schedule->nrounds; round++) {
        int before = moved->nsteps;
        for (; i < schedule->round_end[round]; i++) {
            struct mt_step step = schedule->steps[i];
            step.offset = move(&l[step.buffer], n, step.offset);
            step.buffer = 0;
            if (step.kind == MT_STEP_COPY || step.kind == MT_STEP_ADD) {
                step.to = move(&l[step.to_buffer], n, step.to);
                step.to_buffer = 0;
            }
            if (step.kind != MT_STEP_COPY || step.to != step.offset) moved->steps[moved->nsteps++] = step;
        }
        if (moved->nsteps > before) moved->round_end[moved->nrounds++] = moved->nsteps;
    }
    return moved;
}

void mt_coll_call_locate(struct mt_coll_call *call, void *base, struct mt_arena *arena) {
    const struct mt_coll *problem = &call->problem;
    struct located l[2];
    if (problem->kind != MT_ALL_TO_ALL || !call->schedule) return;
    int64_t own_start = 0;
    for (int peer = 0; peer < problem->me; peer++) own_start += cell(problem, 0, peer);
    int n = problem->n;
    l[1] = locate_blocks(call, 1, base, find_in_place(call, 0, own_start), arena);
    l[0] = locate_blocks(call, 0, base, (char *)base + l[1].at[problem->me] * mt_type_size(problem->acc), arena);
    call->pack = move_pieces(call->pack, call->npack, l, n, arena);
    call->unpack = move_pieces(call->unpack, call->nunpack, l, n, arena);
    call->schedule = move_steps(call->schedule, l, n, arena);
    call->message[0] = call->message[1] = base;
    call->nin_place[0] = call->nin_place[1] = 0;
}
